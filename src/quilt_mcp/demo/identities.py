"""The IAM roles behind the company's Quilt roles, with policies that allow what the company's records say."""

import json
from collections.abc import Sequence
from typing import Any

from quilt_mcp.demo.records import Company, Role

REGISTRY_USER = "quilt-registry"

JSON = dict[str, Any]

S3_ACTIONS = {
    "LIST": ("s3:ListBucket", "s3:GetBucketLocation"),
    "READ": ("s3:GetObject", "s3:GetObjectVersion"),
    "READ_WRITE": ("s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject"),
}
CATALOG_ACTIONS = (
    "athena:ListWorkGroups",
    "athena:ListDataCatalogs",
    "athena:GetDataCatalog",
    "athena:ListDatabases",
    "glue:GetDatabase",
    "glue:GetDatabases",
)
QUERY_ACTIONS = (
    "athena:StartQueryExecution",
    "athena:GetQueryExecution",
    "athena:BatchGetQueryExecution",
    "athena:ListQueryExecutions",
)


def statement(actions: Sequence[str], resources: Sequence[str], effect: str = "Allow") -> JSON:
    """A statement of a policy."""
    return {"Effect": effect, "Action": list(actions), "Resource": list(resources)}


def document(*statements: JSON) -> str:
    """A policy."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def create_registry_user(iam: Any) -> tuple[str, str]:
    """The key, id and secret, of the identity under which the registry hands out credentials; it may do everything."""
    iam.create_user(UserName=REGISTRY_USER)
    iam.put_user_policy(UserName=REGISTRY_USER, PolicyName="all", PolicyDocument=document(statement(["*"], ["*"])))
    key = iam.create_access_key(UserName=REGISTRY_USER)["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


def create_roles(iam: Any, company: Company) -> None:
    """An IAM role for each role that Quilt manages. The registry may assume them."""
    registry = iam.get_user(UserName=REGISTRY_USER)["User"]["Arn"]
    trust = {"Effect": "Allow", "Principal": {"AWS": registry}, "Action": "sts:AssumeRole"}
    for role in company.roles:
        if role.external_arn is None:
            path, name = iam_name(company, role)
            iam.create_role(Path=path, RoleName=name, AssumeRolePolicyDocument=document(trust))
            iam.put_role_policy(RoleName=name, PolicyName="quilt", PolicyDocument=document(*_rights(role)))


def iam_name(company: Company, role: Role) -> tuple[str, str]:
    """The path and the name of the IAM role behind a role that Quilt manages."""
    path, _, name = company.role_arn(role).partition(":role")[2].rpartition("/")
    return f"{path}/", name


def _rights(role: Role) -> list[JSON]:
    rights = [statement(CATALOG_ACTIONS, ["*"])]
    for policy in role.policies:
        for bucket, level in policy.permissions.items():
            rights += [_listing(bucket), statement(S3_ACTIONS[level], [f"arn:aws:s3:::{bucket}/*"])]
    rights += [_listing(bucket) for bucket in role.list_only]
    if role.runs_queries_in:
        rights.append(statement(QUERY_ACTIONS, _work_groups(role.runs_queries_in)))
    if described := (*role.runs_queries_in, *role.describes):
        rights.append(statement(["athena:GetWorkGroup"], _work_groups(described)))
    if role.lists_account:
        rights.append(statement(["s3:ListAllMyBuckets"], ["*"]))
    return rights


def _listing(bucket: str) -> JSON:
    return statement(S3_ACTIONS["LIST"], [f"arn:aws:s3:::{bucket}"])


def _work_groups(names: Sequence[str]) -> list[str]:
    return [f"arn:aws:athena:*:*:workgroup/{name}" for name in names]
