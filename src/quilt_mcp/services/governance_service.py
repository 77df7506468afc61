"""admin://: users, roles and settings of the stack. One GraphQL request each, for administrators only."""

from typing import TYPE_CHECKING, TypeGuard

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.answers import iso
from quilt_mcp.services.lists import cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryRefused

if TYPE_CHECKING:
    from quilt_mcp.services.stack.graphql import ManagedRole, QuiltPolicy, QuiltRole, QuiltUser

MAX_PERMISSIONS = 100
ROLE_KINDS = {"ManagedRole": "managed", "UnmanagedRole": "unmanaged"}


class UserRow(TypedDict):
    """One user.

    Attributes:
        name: the name in Quilt.
        email: the email address.
        is_active: whether the user may sign in.
        is_admin: whether the user is an administrator.
        is_sso_only: whether the user can sign in with SSO only.
        is_service: whether this is a service account.
        date_joined: ISO 8601 in UTC.
        last_login: ISO 8601 in UTC.
        role: the name of the current role; null if there is none.
        extra_roles: the names of the other roles, sorted.
    """

    name: str
    email: str
    is_active: bool
    is_admin: bool
    is_sso_only: bool
    is_service: bool
    date_joined: str
    last_login: str
    role: str | None
    extra_roles: list[str]


class UsersAnswer(TypedDict):
    """A page of the users of the stack."""

    users: list[UserRow]
    """The users of this page, sorted by name."""
    count: int
    """The total of all pages."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


class PolicyRow(TypedDict):
    """One policy of a role."""

    id: str
    """Its ID in Quilt."""
    title: str
    """Its title in Quilt."""
    arn: str
    """The IAM policy."""
    managed: bool
    """Whether Quilt manages its content."""


class Permission(TypedDict):
    """The right of a role in one bucket."""

    bucket: str
    """The name of the bucket."""
    level: str
    """READ or READ_WRITE."""


class RoleRow(TypedDict):
    """One role.

    Attributes:
        id: its id in Quilt.
        name: its name.
        arn: the IAM role.
        type: "managed" or "unmanaged".
        policies: its policies; null if unmanaged.
        permissions: its rights, sorted by bucket, at most 100; null if unmanaged.
        permission_count: the number of all its rights, or with `bucket` of those in that bucket; null if unmanaged.
    """

    id: str
    name: str
    arn: str
    type: str
    policies: list[PolicyRow] | None
    permissions: list[Permission] | None
    permission_count: int | None


class RolesAnswer(TypedDict):
    """A page of the roles of the stack."""

    roles: list[RoleRow]
    """The roles of this page, sorted by name."""
    count: int
    """The total of all pages."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


class Uploader(TypedDict):
    """The user who set the SSO configuration."""

    name: str
    """The name in Quilt."""
    email: str
    """The email address."""


class SSOConfig(TypedDict):
    """The SSO configuration.

    Attributes:
        text: the YAML.
        timestamp: when it was set, ISO 8601 in UTC.
        uploader: who set it; null if unknown.
    """

    text: str
    timestamp: str
    uploader: Uploader | None


class SSOAnswer(TypedDict):
    """The answer of admin://config/sso."""

    sso_config: SSOConfig | None
    """The configuration; null if there is none."""


class OpenQueryAnswer(TypedDict):
    """The answer of admin://config/tabulator."""

    open_query_enabled: bool
    """Whether any AWS credentials can query tabulator tables."""


def admin_users_list(cursor: str | None = None, limit: str | None = None) -> UsersAnswer:
    """The stack's users, with roles and state.

    They are sorted by name, 50 per page: `?cursor=` and the `next_cursor` of a page read the next one.
    """
    caller = current_caller()
    found = caller.query_as_admin(lambda stack: stack.users_list(), "the stack's users")
    scope = ("users", caller.login.stack.registry_url)
    page = cut_page(found, lambda user: str(user.name), cursor=cursor, limit=limit, scope=scope)
    users = [_user_row(user) for user in page.rows]
    return {"users": users, "count": page.total, "next_cursor": page.next_cursor}


def _user_row(user: "QuiltUser") -> UserRow:
    return {
        "name": user.name,
        "email": user.email,
        "is_active": user.is_active,
        "is_admin": user.is_admin,
        "is_sso_only": user.is_sso_only,
        "is_service": user.is_service,
        "date_joined": iso(user.date_joined),
        "last_login": iso(user.last_login),
        "role": user.role.name if user.role else None,
        "extra_roles": sorted(role.name for role in user.extra_roles),
    }


def admin_roles_list(bucket: str | None = None, cursor: str | None = None, limit: str | None = None) -> RolesAnswer:
    """The stack's roles, with policies and rights.

    They are sorted by name, 50 per page: `?cursor=` and the `next_cursor` of a page read the next one. With `?bucket=`,
    the rights are those in that bucket alone. `type` is "managed" (Quilt
    manages its policies, which are listed) or "unmanaged" (an IAM role that was created outside Quilt; Quilt does not
    know its policies and permissions, which are null).
    """
    caller = current_caller()
    found = caller.query_as_admin(lambda stack: stack.roles_list(), "the stack's roles")
    scope = ("roles", caller.login.stack.registry_url, bucket)
    page = cut_page(found, lambda role: str(role.name), cursor=cursor, limit=limit, scope=scope)
    roles = [_role_row(role, bucket) for role in page.rows]
    return {"roles": roles, "count": page.total, "next_cursor": page.next_cursor}


def is_managed(role: "QuiltRole") -> TypeGuard["ManagedRole"]:
    """Return whether Quilt manages the policies of a role."""
    return role.typename__ == "ManagedRole"


def _role_row(role: "QuiltRole", bucket: str | None) -> RoleRow:
    managed = role if is_managed(role) else None
    rights = [one for one in get_permissions(managed) if bucket in (None, one["bucket"])] if managed else None
    return {
        "id": role.id,
        "name": role.name,
        "arn": role.arn,
        "type": ROLE_KINDS.get(role.typename__, role.typename__),
        "policies": [_policy_row(policy) for policy in managed.policies] if managed else None,
        "permissions": None if rights is None else rights[:MAX_PERMISSIONS],
        "permission_count": None if rights is None else len(rights),
    }


def _policy_row(policy: "QuiltPolicy") -> PolicyRow:
    return {"id": policy.id, "title": policy.title, "arn": policy.arn, "managed": policy.managed}


def get_permissions(role: "ManagedRole") -> list[Permission]:
    """Return the rights of a managed role, sorted by bucket."""
    rows: list[Permission] = [{"bucket": one.bucket.name, "level": str(one.level.value)} for one in role.permissions]
    return sorted(rows, key=lambda row: (row["bucket"], row["level"]))


def admin_sso_config_get() -> SSOAnswer:
    """How SSO claims map to roles, in YAML.

    The answer also says who set it, and when. `sso_config` is null if the stack has no SSO configuration.
    """
    config = current_caller().query_as_admin(lambda stack: stack.sso_config_get(), "the SSO configuration")
    if config is None:
        return {"sso_config": None}
    uploader: Uploader | None = None
    if config.uploader:
        uploader = {"name": config.uploader.name, "email": config.uploader.email}
    return {"sso_config": {"text": config.text, "timestamp": iso(config.timestamp), "uploader": uploader}}


def admin_tabulator_open_query_get() -> OpenQueryAnswer:
    """Whether any AWS login can query tabulator.

    Quilt calls this setting open query.
    """
    try:
        enabled = current_caller().query_as_admin(
            lambda stack: stack.tabulator_get_open_query(), "tabulator's settings"
        )
    except QueryRefused as refusal:
        refusal.suggested_actions = [
            "Ask a Quilt administrator for the version of the stack. Open query needs Quilt Platform 1.57 or newer."
        ]
        raise
    return {"open_query_enabled": enabled}
