"""The IAM roles of the company's Quilt roles, with policies that match the company's records."""

import json
from collections.abc import Sequence

from moto.iam.models import IAMBackend

# Private, as in moto_gaps.
from moto.moto_api._internal import mock_random

from quilt_mcp.commands.demo.records import REGION, Company, Role, Statement

REGISTRY_USER = "quilt-registry"
ROLE_SECONDS = 3600
"""How long the credentials of a role are valid."""

JSON = dict[str, object]

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
    "athena:ListTableMetadata",
    "glue:GetDatabase",
    "glue:GetDatabases",
    "glue:GetTable",
    "glue:GetTables",
)
QUERY_ACTIONS = (
    "athena:StartQueryExecution",
    "athena:GetQueryExecution",
    "athena:BatchGetQueryExecution",
    "athena:ListQueryExecutions",
)


def make_statement(actions: Sequence[str], resources: Sequence[str], effect: str = "Allow") -> JSON:
    """Return a statement of a policy."""
    return {"Effect": effect, "Action": list(actions), "Resource": list(resources)}


def make_document(*statements: JSON) -> str:
    """Return a policy, as JSON."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def create_registry_user(iam: IAMBackend) -> None:
    """Create the IAM user of the Quilt stack, which has all rights and an access key."""
    iam.create_user(REGION, REGISTRY_USER)
    _end_request()
    iam.put_user_policy(REGISTRY_USER, "all", make_document(make_statement(["*"], ["*"])))
    _end_request()
    iam.create_access_key(REGISTRY_USER)
    _end_request()


def create_roles(iam: IAMBackend, company: Company) -> None:
    """Create the IAM role of each Quilt role, except unmanaged roles without statements. The stack may assume them."""
    registry = iam.get_user(REGISTRY_USER).arn
    _end_request()
    trust: JSON = {"Effect": "Allow", "Principal": {"AWS": registry}, "Action": "sts:AssumeRole"}
    for role in company.roles:
        if role.external_arn is None or role.statements:
            path, name = split_iam_name(company, role)
            iam.create_role(name, make_document(trust), path, None, "", [], str(ROLE_SECONDS))
            _end_request()
            iam.put_role_policy(name, "quilt", make_document(*_rights(role)))
            _end_request()
            if role.boundary:
                _set_boundary(iam, name, role.boundary)


def split_iam_name(company: Company, role: Role) -> tuple[str, str]:
    """Return the path and the name of the IAM role of a role."""
    path, _, name = company.make_role_arn(role).partition(":role")[2].rpartition("/")
    return f"{path}/", name


def _set_boundary(iam: IAMBackend, role_name: str, boundary: Sequence[Statement]) -> None:
    document = make_document(*map(_write_statement, boundary))
    policy = iam.create_policy("", "/", document, f"{role_name}-boundary", [])
    _end_request()
    iam.put_role_permissions_boundary(role_name, policy.arn)
    _end_request()


def _end_request() -> None:
    """Draw the random ID of a request, as moto's API does. So the roles get the same IDs as through the API."""
    mock_random.get_random_string(length=52)


def _rights(role: Role) -> list[JSON]:
    given = [*role.statements, *(one for policy in role.policies for one in policy.statements)]
    rights = list(map(_write_statement, given))
    if role.external_arn is not None:
        return rights
    rights.append(make_statement(CATALOG_ACTIONS, ["*"]))
    for policy in role.policies:
        for bucket, level in policy.permissions.items():
            rights += [_allow_listing(bucket), make_statement(S3_ACTIONS[level], [f"arn:aws:s3:::{bucket}/*"])]
    rights += [_allow_listing(bucket) for bucket in role.list_only]
    if role.runs_queries_in:
        rights.append(make_statement(QUERY_ACTIONS, _work_groups(role.runs_queries_in)))
    if described := (*role.runs_queries_in, *role.describes):
        rights.append(make_statement(["athena:GetWorkGroup"], _work_groups(described)))
    if role.lists_account:
        rights.append(make_statement(["s3:ListAllMyBuckets"], ["*"]))
    return rights


def write_session_policy(role: Role) -> str:
    """Return the policy with which the stack assumes the IAM role, as JSON; empty for none."""
    return make_document(*map(_write_statement, role.session)) if role.session else ""


def _write_statement(statement: Statement) -> JSON:
    written = make_statement(statement.actions, statement.resources, effect=statement.effect)
    return {**written, "Condition": statement.conditions} if statement.conditions else written


def _allow_listing(bucket: str) -> JSON:
    return make_statement(S3_ACTIONS["LIST"], [f"arn:aws:s3:::{bucket}"])


def _work_groups(names: Sequence[str]) -> list[str]:
    return [f"arn:aws:athena:*:*:workgroup/{name}" for name in names]
