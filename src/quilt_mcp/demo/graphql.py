"""The registry's answers to the GraphQL operations that quilt3 and this project send.

Operations are known by their names: whoever sends one of these sends the query that quilt3 8 generates, or ours.
"""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from quilt_mcp.demo.records import ACCOUNT_ID, Bucket, Company, Level, Policy, Role, User

JSON = dict[str, Any]


def execute(operation: str | None, variables: Mapping[str, Any], company: Company, me: JSON) -> JSON:
    """The registry's payload, `data` or `errors`, for a caller whom `me` describes as `Query.me` does."""
    if operation in ADMIN_OPERATIONS:
        field, answer = ADMIN_OPERATIONS[operation]
        if me["isAdmin"]:
            return {"data": answer(company)}
        return {"errors": [{"message": "Unauthorized", "path": [field]}], "data": None}
    buckets = [bucket for bucket in company.buckets if bucket.in_stack]
    if operation in OPEN_OPERATIONS:
        return {"data": OPEN_OPERATIONS[operation](buckets, me, variables)}
    return {"errors": [{"message": f"Unknown operation named {operation!r}."}]}


def describe(user: User, *, is_admin: bool) -> JSON:
    """A user as they see themselves in `Query.me`."""
    names = [*([user.role] if user.role else []), *user.extra_roles]
    return {
        "name": user.name,
        "email": user.email,
        "isAdmin": is_admin,
        "role": {"name": user.role} if user.role else None,
        "roles": [{"name": name} for name in names],
    }


def _user(company: Company, user: User) -> JSON:
    return {
        "name": user.name,
        "email": user.email,
        "dateJoined": user.joined,
        "lastLogin": user.last_login,
        "isActive": user.is_active,
        "isAdmin": user.is_admin,
        "isSsoOnly": user.is_sso_only,
        "isService": user.is_service,
        "role": _role(company, company.role(user.role)) if user.role else None,
        "extraRoles": [_role(company, company.role(name)) for name in user.extra_roles],
    }


def _role(company: Company, role: Role) -> JSON:
    known = {"id": _identifier("role", role.name), "name": role.name, "arn": company.role_arn(role)}
    if role.external_arn:
        return {"__typename": "UnmanagedRole", **known}
    return {
        "__typename": "ManagedRole",
        **known,
        "policies": [_policy(company, policy) for policy in role.policies],
        "permissions": _permissions(role.permissions),
    }


def _policy(company: Company, policy: Policy) -> JSON:
    slug = policy.title.lower().replace(" ", "-")
    return {
        "id": _identifier("policy", policy.title),
        "title": policy.title,
        "arn": f"arn:aws:iam::{ACCOUNT_ID}:policy/quilt/{company.stack_name}/{slug}",
        "managed": policy.managed,
        "permissions": _permissions(policy.permissions) if policy.managed else [],
    }


def _permissions(levels: Mapping[str, Level]) -> list[JSON]:
    return [{"bucket": {"name": bucket}, "level": level} for bucket, level in levels.items()]


def _identifier(kind: str, name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"quilt:{kind}/{name}"))


def _sso(company: Company) -> JSON | None:
    if company.sso is None:
        return None
    uploader = next(user for user in company.users if user.is_admin)
    return {"text": company.sso, "timestamp": company.sso_set_at, "uploader": _user(company, uploader)}


def _bucket(bucket: Bucket) -> JSON:
    return {
        "name": bucket.name,
        "title": bucket.title,
        "iconUrl": None,
        "description": None,
        "overviewUrl": None,
        "tags": [],
        "relevanceScore": 0,
        "lastIndexed": None,
        "snsNotificationArn": None,
        "scannerParallelShardsDepth": None,
        "skipMetaDataIndexing": None,
        "fileExtensionsToIndex": None,
        "indexContentBytes": None,
        "prefixes": [],
    }


def _tables(bucket: Bucket) -> JSON:
    return {"tabulatorTables": [{"name": name, "config": config} for name, config in bucket.tables.items()]}


def _names(buckets: list[Bucket]) -> list[JSON]:
    return [{"name": bucket.name} for bucket in buckets]


def _tables_of(buckets: list[Bucket], name: str) -> JSON | None:
    return next((_tables(bucket) for bucket in buckets if bucket.name == name), None)


# by operation: the field that the schema marks @admin, and the data
ADMIN_OPERATIONS: dict[str | None, tuple[str, Callable[[Company], JSON]]] = {
    "usersList": ("admin", lambda company: {"admin": {"user": {"list": [_user(company, u) for u in company.users]}}}),
    "rolesList": ("roles", lambda company: {"roles": [_role(company, role) for role in company.roles]}),
    "defaultRoleGet": (
        "defaultRole",
        lambda company: {"defaultRole": _role(company, company.role(company.default_role))},
    ),
    "ssoConfigGet": ("admin", lambda company: {"admin": {"ssoConfig": _sso(company)}}),
    "tabulatorGetOpenQuery": ("admin", lambda company: {"admin": {"tabulatorOpenQuery": company.open_query}}),
    "bucketsList": (
        "bucketConfigs",
        lambda company: {"bucketConfigs": [_bucket(bucket) for bucket in company.buckets if bucket.in_stack]},
    ),
}

# by operation: the data, made of the stack's buckets, `me` and the variables
OPEN_OPERATIONS: dict[str | None, Callable[[list[Bucket], JSON, Mapping[str, Any]], JSON]] = {
    "me": lambda _buckets, me, _variables: {"me": me},
    "stackAccess": lambda buckets, me, _variables: {"me": me, "bucketConfigs": _names(buckets)},
    "tabulatorBuckets": lambda buckets, _me, _variables: {
        "bucketConfigs": [{"name": bucket.name, **_tables(bucket)} for bucket in buckets]
    },
    "bucketTabulatorTablesList": lambda buckets, _me, variables: {
        "bucketConfig": _tables_of(buckets, variables["name"])
    },
}
