"""admin://: users, roles and settings of the stack. Promised to Python callers.

One GraphQL request each, for administrators only.
"""

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, NotRequired, final
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, ConfigDict
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.cuts import cut_text
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryNotUnderstood
from quilt_mcp.services.stack.graphql import Time

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller, Standing

MAX_PERMISSIONS = 100
MAX_POLICIES, MAX_TITLE = 20, 200
MAX_SSO = 20_000
ROLE_KINDS = {"ManagedRole": "managed", "UnmanagedRole": "unmanaged"}


def _get_name(value: object) -> object:
    if isinstance(value, dict) and value.keys() == {"type"}:  # a role of a type that this server does not know
        return f"unknown ({value['type']})"
    return value.get("name") if isinstance(value, dict) and value.get("name") else value


Name = Annotated[str, BeforeValidator(_get_name)]
"""The name of an object, of which the operation requests nothing else."""


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
        role: the name of the current role; null if there is none; "unknown (TYPE)" for a role of a type that this
            server does not know.
        extra_roles: the names of the other roles, sorted; of unknown types as above.
    """

    name: str
    email: str
    is_active: bool
    is_admin: bool
    is_sso_only: bool
    is_service: bool
    date_joined: Time
    last_login: Time
    role: Name | None
    extra_roles: Annotated[list[Name], AfterValidator(sorted)]


class UsersAnswer(Paged):
    """A page of the users of the stack."""

    users: list[UserRow]
    """The users of this page, sorted by name."""


class PolicyRow(TypedDict):
    """One policy of a role."""

    id: str
    """Its ID in Quilt."""
    title: str
    """Its title in Quilt."""
    title_truncated: NotRequired[Literal[True]]
    """True if the end of the title is left out; absent if not."""
    arn: str
    """The IAM policy."""
    managed: bool
    """Whether Quilt manages its content."""


class Permission(TypedDict):
    """The right of a role in one bucket."""

    bucket: Name
    """The name of the bucket."""
    level: str
    """READ or READ_WRITE."""


class LinkedPermission(Permission):
    """The right of a role in one bucket, with the URI of the bucket."""

    uri: str
    """The URI of the bucket."""


class RoleName(TypedDict):
    """A role without its rights."""

    id: str
    """Its id in Quilt."""
    name: str
    """Its name."""
    arn: str
    """The IAM role."""


@final
class Role(RoleName):
    """A role in the data of the stack. Quilt knows the policies and rights of managed roles only."""

    type: str
    policies: NotRequired[list[PolicyRow]]
    permissions: NotRequired[list[Permission]]


@final
class _OtherRole(TypedDict):
    """A role of a type that this server does not know."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # as pydantic documents it
    type: str


class Roles(NamedTuple):
    """The roles of the stack, and the types of those that this server does not know."""

    known: list[Role]
    unknown_types: list[str]


class RoleRow(RoleName):
    """One role.

    Attributes:
        type: "managed" or "unmanaged".
        policies: its policies, at most 20, their titles cut at 200 characters; null if unmanaged.
        policy_count: the number of all its policies; null if unmanaged.
        permissions: its rights, sorted by bucket, at most 100; null if unmanaged.
        permission_count: the number of all its rights, or with `bucket` of those in that bucket; null if unmanaged.
    """

    type: str
    policies: list[PolicyRow] | None
    policy_count: int | None
    permissions: list[LinkedPermission] | None
    permission_count: int | None


class RolesAnswer(Paged):
    """A page of the roles of the stack."""

    roles: list[RoleRow]
    """The roles of this page, sorted by name."""
    unknown_role_types: NotRequired[list[str]]
    """The types of roles that this server does not know: such roles are neither listed nor counted; absent if there are
    none."""


class Uploader(TypedDict):
    """The user who set the SSO configuration."""

    name: str
    """The name in Quilt."""
    email: str
    """The email address."""


class SSOConfig(TypedDict):
    """The SSO configuration.

    Attributes:
        text: the YAML, cut at 20,000 characters.
        text_truncated: true if its end is left out; absent if not.
        timestamp: when it was set, ISO 8601 in UTC.
        uploader: who set it; null if unknown.
    """

    text: str
    text_truncated: NotRequired[Literal[True]]
    timestamp: Time
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
    """The stack's users and roles.

    They are sorted by name, 50 per page: `?cursor=` and the `next_cursor` of a page read the next one.
    """
    caller = current_caller()
    found = caller.ask_as_admin(
        "the stack's users", lambda: caller.send_query("usersList", list[UserRow], "admin.user.list")
    )
    scope = ("users", caller.login.stack.registry_url)
    page = cut_page(found, lambda user: user["name"], build=lambda user: user, cursor=cursor, limit=limit, scope=scope)
    return {"users": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def admin_roles_list(bucket: str | None = None, cursor: str | None = None, limit: str | None = None) -> RolesAnswer:
    """The stack's roles and rights.

    They have their policies. They are sorted by name, 50 per page: `?cursor=` and the `next_cursor` of a page read the
    next one. With `?bucket=`, the rights are those in that bucket alone. `type` is "managed" (Quilt manages its
    policies, which are listed) or "unmanaged" (an IAM role that was created outside Quilt; Quilt does not know its
    policies and permissions, which are null).
    """
    caller = current_caller()
    found = caller.ask_as_admin("the stack's roles", lambda: fetch_roles(caller))
    scope = ("roles", caller.login.stack.registry_url, bucket)
    page = cut_page(
        found.known,
        lambda role: role["name"],
        build=lambda role: _role_row(role, bucket),
        cursor=cursor,
        limit=limit,
        scope=scope,
    )
    answer: RolesAnswer = {"roles": page.rows, "count": page.total, "next_cursor": page.next_cursor}
    if found.unknown_types:
        answer["unknown_role_types"] = found.unknown_types
    return answer


def fetch_roles(caller: "Caller") -> Roles:
    """Fetch the roles of the stack. Only administrators may."""
    found = caller.send_query("rolesList", list[Role | _OtherRole], "roles")
    return Roles([role for role in found if "id" in role], sorted({role["type"] for role in found if "id" not in role}))


def fetch_own_role(caller: "Caller", standing: "Standing | None") -> Role | str:
    """Fetch the caller's role, which only administrators may; otherwise, return why it is unknown."""
    if standing is None or standing.role is None:
        return "the stack does not say which role you have"
    if not standing.is_admin:
        return f"only administrators may see the rights of the role {standing.role}"
    try:
        roles = fetch_roles(caller)
    except ResourceFailure as failure:
        return f"the stack's roles could not be read: {failure.message.removesuffix('.')}"
    own = [role for role in roles.known if role["name"] == standing.role]
    others = f"; this server does not know its roles of the type {', '.join(roles.unknown_types)}"
    return own[0] if own else f"the stack does not list the role {standing.role}{others if roles.unknown_types else ''}"


def is_managed(role: Role) -> bool:
    return role["type"] == "ManagedRole"


def _role_row(role: Role, bucket: str | None) -> RoleRow:
    rights = (
        [right for right in get_permissions(role) if bucket in (None, right["bucket"])] if is_managed(role) else None
    )
    policies = role.get("policies")
    return {
        **role,
        "type": ROLE_KINDS.get(role["type"], role["type"]),
        "policies": None if policies is None else [_shorten(one) for one in policies[:MAX_POLICIES]],
        "policy_count": None if policies is None else len(policies),
        "permissions": None if rights is None else [_link(right) for right in rights[:MAX_PERMISSIONS]],
        "permission_count": None if rights is None else len(rights),
    }


def _shorten(policy: PolicyRow) -> PolicyRow:
    title, is_cut = cut_text(policy["title"], MAX_TITLE)
    return {**policy, "title": title, "title_truncated": True} if is_cut else policy


def _link(right: Permission) -> LinkedPermission:
    return {**right, "uri": f"quilt://buckets/{quote(right['bucket'], safe='')}"}


def get_permissions(role: Role) -> list[Permission]:
    return sorted(role.get("permissions", []), key=lambda row: (row["bucket"], row["level"]))


def admin_sso_config_get() -> SSOAnswer:
    """SSO claims and roles, in YAML.

    The answer also says who set it, and when. `sso_config` is null if the stack has no SSO configuration.
    """
    caller = current_caller()
    config = caller.ask_as_admin(
        "the SSO configuration", lambda: caller.find("ssoConfigGet", SSOConfig, "admin.ssoConfig")
    )
    if config is not None:
        config["text"], is_cut = cut_text(config["text"], MAX_SSO)
        if is_cut:
            config["text_truncated"] = True
    return {"sso_config": config}


def admin_tabulator_open_query_get() -> OpenQueryAnswer:
    """Whether any AWS login can query tabulator.

    Quilt calls this setting open query.
    """
    caller = current_caller()
    try:
        enabled = caller.ask_as_admin(
            "tabulator's settings",
            lambda: caller.send_query("tabulatorGetOpenQuery", bool, "admin.tabulatorOpenQuery"),
        )
    except QueryNotUnderstood as refusal:
        refusal.suggested_actions = [
            "Ask a Quilt administrator for the version of the stack. Open query needs Quilt Platform 1.57 or newer."
        ]
        raise
    return {"open_query_enabled": enabled}
