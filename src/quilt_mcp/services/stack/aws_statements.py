"""What AWS states about a refusal: the action that is not allowed, and the kind of policy that decides.

Of its sentence, only these two parts are read. Both have a closed set of words.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

ACTIONS = {
    "BatchGetQueryExecution": "athena:BatchGetQueryExecution",
    "GetCallerIdentity": "sts:GetCallerIdentity",
    "GetDataCatalog": "athena:GetDataCatalog",
    "ListDataCatalogs": "athena:ListDataCatalogs",
    "GetDatabase": "glue:GetDatabase",
    "GetDatabases": "glue:GetDatabases",
    "GetMetricData": "cloudwatch:GetMetricData",
    "GetQueryExecution": "athena:GetQueryExecution",
    "GetQueryResults": "athena:GetQueryResults",
    "GetTable": "glue:GetTable",
    "GetTables": "glue:GetTables",
    "GetWorkGroup": "athena:GetWorkGroup",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListBuckets": "s3:ListAllMyBuckets",
    "ListDatabases": "athena:ListDatabases",
    "ListObjectVersions": "s3:ListBucketVersions",
    "ListObjectsV2": "s3:ListBucket",
    "ListQueryExecutions": "athena:ListQueryExecutions",
    "ListWorkGroups": "athena:ListWorkGroups",
    "PutObject": "s3:PutObject",
    "StartQueryExecution": "athena:StartQueryExecution",
    "StopQueryExecution": "athena:StopQueryExecution",
}
"""The IAM action that each operation needs, for the person who grants it."""

STATED_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]{1,40}:[A-Za-z0-9*]{1,80})\b")
STATED_POLICY = re.compile(
    r"\b(because no|explicit deny in an?) (identity-based policy|resource-based policy|permissions boundary|"
    r"session policy|service control policy|resource control policy|VPC endpoint policy)\b"
)
"""The two closed parts of AWS's sentence about a refusal. The rest names users, roles and resources."""
WHO_CHANGES = {
    "identity-based policy": "Ask a Quilt administrator: a policy of your role decides.",
    "resource-based policy": "Ask the owner of the resource, such as the bucket or the KMS key: its policy decides.",
    "permissions boundary": "Ask a Quilt administrator: the permissions boundary of your role decides.",
    "session policy": "Ask a Quilt administrator: the policy of the session that the stack issues decides.",
    "service control policy": "Ask the administrators of the AWS organization: a service control policy decides.",
    "resource control policy": "Ask the administrators of the AWS organization: a resource control policy decides.",
    "VPC endpoint policy": "Ask the operators of the network of this server: the policy of its VPC endpoint decides.",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """What AWS says about why it refuses a request.

    Attributes:
        action: the action that is not allowed, such as kms:Decrypt; None if AWS does not say.
        policy: the kind of policy that decides; None as above.
        is_denied: whether such a policy denies the action; else none allows it.
    """

    action: str | None
    policy: str | None
    is_denied: bool

    def describe(self, action: str, code: str) -> str:
        """Return the `details` of the failure, for an action that is used if AWS names none."""
        why = f"explicit deny in the {self.policy}" if self.is_denied else f"no {self.policy} allows it"
        return f"{self.action or action} ({code}{f': {why}' if self.policy else ''})"


def read_statement(error: "ClientError") -> Statement:
    message = str(error.response.get("Error", {}).get("Message", ""))
    action, policy = STATED_ACTION.search(message), STATED_POLICY.search(message)
    is_denied = policy is not None and policy[1] != "because no"
    return Statement(action[1] if action else None, policy[2] if policy else None, is_denied)
