"""The number and the region of the AWS account of a demo world."""

REGION = "us-east-1"
ACCOUNT_ID = "123456789012"
