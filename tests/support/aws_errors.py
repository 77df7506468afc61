"""The error codes that AWS documents for all operations of a service, with their HTTP statuses.

The codes of one operation are in botocore's service model. Sources of the lists:

COMMON: "Common Errors" in the API references of Athena, CloudWatch, Glue and STS. Two editions are in use; they give
    AccessDeniedException and UnrecognizedClientException the status 400 or 403. UnrecognizedClientException and
    ExpiredTokenException are only in the newer one.
CLOUDWATCH: the same page; the newer edition has ValidationException.
STS: the same page; `ExpiredToken` and `Throttling` are its codes in the query protocol (the retry rules of botocore,
    data/_retry.json, list `Throttling`).
S3: "List of error codes" on the page "Error responses" of the S3 API reference.
HEAD: the documentation of HeadObject and HeadBucket in botocore. They have no body, so there is only a status.
"""

COMMON = {
    "AccessDeniedException": {400, 403},
    "ExpiredTokenException": {400, 403},
    "InternalFailure": {500},
    "ServiceUnavailable": {503},
    "ThrottlingException": {400},
    "UnrecognizedClientException": {400, 403},
}
STS = {
    "AccessDenied": {403},
    "ExpiredToken": {403},
    "InternalFailure": {500},
    "InvalidClientTokenId": {403},
    "Throttling": {400},
}
S3 = {
    "AccessDenied": {403},
    "AuthorizationHeaderMalformed": {400},
    "ExpiredToken": {400},
    "InternalError": {500},
    "InvalidAccessKeyId": {403},
    "InvalidArgument": {400},
    "InvalidRange": {416},
    "MethodNotAllowed": {405},
    "NoSuchBucket": {404},
    "NoSuchKey": {404},
    "NoSuchVersion": {404},
    "PermanentRedirect": {301},
    "PreconditionFailed": {412},
    "SlowDown": {503},
}
HEAD = {301, 304, 400, 403, 404, 405, 412, 416, 500, 503}

CLOUDWATCH = COMMON | {"ValidationException": {400}}

SERVICE_ERRORS = {"athena": COMMON, "cloudwatch": CLOUDWATCH, "glue": COMMON, "s3": S3, "sts": STS}
