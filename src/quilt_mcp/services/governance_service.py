"""admin://: users, roles and settings of the stack. Promised to Python callers.

One GraphQL request each, for administrators only.
"""

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, NotRequired, cast, final
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, ConfigDict
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.cuts import cut_text
from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.core.parameters import parse_choice
from quilt_mcp.services.buckets import fetch_bucket_names
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryNotUnderstood
from quilt_mcp.services.stack.graphql import Rows, Time

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller, Standing

MAX_PERMISSIONS = 100
MAX_POLICIES, MAX_TITLE = 20, 200
MAX_SSO = 20_000
USER_ORDERS = ("name", "last_login_at")
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
        created_at: ISO 8601 in UTC.
        last_login_at: ISO 8601 in UTC.
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
    created_at: Time
    last_login_at: Time
    role: Name | None
    extra_roles: Annotated[list[Name], AfterValidator(sorted)]


class UsersAnswer(Paged):
    """A page of the users of the stack."""

    users: list[UserRow]
    """The users of this page, in the order that was asked for."""
    unreadable_count: NotRequired[int]
    """The number of users that the stack could not read, or sent in a form that this server does not know; absent if
    there are none. They are neither listed nor counted."""


class PolicyRow(TypedDict):
    """One policy of a role."""

    title: str
    """Its title in Quilt."""
    title_truncated: NotRequired[Literal[True]]
    """True if the end of the title is left out; absent if not."""
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
    """The roles of the stack, the types of those that this server does not know, and how many cannot be read."""

    known: list[Role]
    unknown_types: list[str]
    unreadable_count: int


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
    unmanaged_roles: NotRequired[list[str]]
    """With `bucket`, the roles whose rights are unknown, because Quilt does not manage them, at most 100; absent
    without."""
    unreadable_count: NotRequired[int]
    """The number of roles that the stack could not read, or sent in a form that this server does not know; absent if
    there are none. They are neither listed nor counted."""
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
        updated_at: when it was set, ISO 8601 in UTC.
        uploader: who set it; null if unknown.
    """

    text: str
    text_truncated: NotRequired[Literal[True]]
    updated_at: Time
    uploader: Uploader | None


class SSOAnswer(TypedDict):
    """The answer of admin://config/sso."""

    sso_config: SSOConfig | None
    """The configuration; null if there is none."""


class OpenQueryAnswer(TypedDict):
    """The answer of admin://config/tabulator."""

    open_query_enabled: bool
    """Whether any AWS credentials can query tabulator tables."""


def admin_users_list(
    active: str | None = None,
    role: str | None = None,
    sort: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> UsersAnswer:
    """The stack's users and roles.

    There are 50 per page: `?cursor=` and the `next_cursor` of a page read the next one. `active` is true or false.
    `role` is the name of a role, which users have now or can switch to, or `none` for users without a role. `sort` is
    name, the default, or last_login_at for those first who have not signed in for the longest time. `count` is the
    number of users with these values.
    """
    is_active, order = parse_choice("active", active, ("true", "false")), parse_choice("sort", sort, USER_ORDERS)
    caller = current_caller()
    found = caller.ask_as_admin("the stack's users", lambda: fetch_users(caller))
    page = cut_page(
        [user for user in found.readable if _is_asked_for(user, is_active, role)],
        lambda user: f"{user['last_login_at']} {user['name']}" if order == "last_login_at" else user["name"],
        build=lambda user: user,
        cursor=cursor,
        limit=limit,
        scope=("users", caller.login.stack.registry_url, active, role, order),
    )
    answer: UsersAnswer = {"users": page.rows, "count": page.total, "next_cursor": page.next_cursor}
    if found.unreadable_count:
        answer["unreadable_count"] = found.unreadable_count
    return answer


def _is_asked_for(user: UserRow, active: str | None, role: str | None) -> bool:
    if active is not None and user["is_active"] != (active == "true"):
        return False
    names = {user["role"], *user["extra_roles"]}
    return role is None or role in names or (role == "none" and user["role"] is None)


def list_activities(_: str) -> list[str]:
    return ["true", "false"]


def list_user_orders(_: str) -> list[str]:
    return [*USER_ORDERS]


def fetch_users(caller: "Caller") -> Rows[UserRow]:
    """Fetch the users of the stack. Only administrators may."""
    return caller.send_list_query("usersList", UserRow, "admin.user.list")


def admin_roles_list(bucket: str | None = None, cursor: str | None = None, limit: str | None = None) -> RolesAnswer:
    """The stack's roles and rights.

    They have their policies. They are sorted by name, 50 per page: `?cursor=` and the `next_cursor` of a page read the
    next one. With `?bucket=`, they are those with a right in that bucket, and `unmanaged_roles` names those that can
    have one. `type` is "managed" (Quilt manages its policies, which are listed) or "unmanaged" (an IAM role that was
    created outside Quilt; Quilt does not know its policies and permissions, which are null).
    """
    caller = current_caller()
    found = caller.ask_as_admin("the stack's roles", lambda: fetch_roles(caller))
    scope = ("roles", caller.login.stack.registry_url, bucket)
    shown = found.known if bucket is None else [role for role in found.known if find_right(role, bucket)]
    if bucket is not None and not shown and bucket not in fetch_bucket_names(caller):
        raise NotFound(
            f"The Quilt stack has no bucket {bucket!a}, and no role names it.",
            suggested_actions=["Read quilt://buckets for the names of the buckets."],
        )
    page = cut_page(
        shown,
        lambda role: role["name"],
        build=lambda role: _role_row(role, bucket),
        cursor=cursor,
        limit=limit,
        scope=scope,
    )
    answer: RolesAnswer = {"roles": page.rows, "count": page.total, "next_cursor": page.next_cursor}
    if found.unknown_types:
        answer["unknown_role_types"] = found.unknown_types
    if found.unreadable_count:
        answer["unreadable_count"] = found.unreadable_count
    if bucket is not None:
        answer["unmanaged_roles"] = list_unmanaged(found)[:MAX_PERMISSIONS]
    return answer


def list_unmanaged(roles: Roles) -> list[str]:
    """List the roles whose rights Quilt does not know, sorted."""
    return sorted(role["name"] for role in roles.known if not is_managed(role))


def find_right(role: Role, bucket: str) -> str | None:
    """Return the right of a role that Quilt manages in a bucket: READ or READ_WRITE; None if it has none."""
    levels = [right["level"] for right in get_permissions(role) if right["bucket"] == bucket]
    return levels[-1] if levels and is_managed(role) else None


def fetch_roles(caller: "Caller") -> Roles:
    """Fetch the roles of the stack. Only administrators may."""
    found = caller.send_list_query("rolesList", cast("type[Role | _OtherRole]", Role | _OtherRole), "roles")
    return Roles(
        [role for role in found.readable if "name" in role],
        sorted({role["type"] for role in found.readable if "name" not in role}),
        found.unreadable_count,
    )


def fetch_all_roles(caller: "Caller", standing: "Standing | None") -> Roles | str:
    """Fetch the roles of the stack, which only administrators may; otherwise, return why they are unknown."""
    if standing is None or standing.role is None:
        return "the stack does not say which role you have"
    if not standing.is_admin:
        return f"only administrators may see the rights of the role {standing.role}"
    try:
        return fetch_roles(caller)
    except ResourceFailure as failure:
        return f"the stack's roles could not be read: {failure.message.removesuffix('.')}"


def find_own_role(roles: Roles | str, standing: "Standing | None") -> Role | str:
    """Return the caller's role, or why it is unknown."""
    if isinstance(roles, str) or standing is None:
        return roles if isinstance(roles, str) else "the stack does not say which role you have"
    own = [role for role in roles.known if role["name"] == standing.role]
    others = f"; this server does not know its roles of the type {', '.join(roles.unknown_types)}"
    if roles.unreadable_count and not own:
        return f"the stack could not read all roles, and the role {standing.role} is not among the others"
    return own[0] if own else f"the stack does not list the role {standing.role}{others if roles.unknown_types else ''}"


def is_managed(role: Role) -> bool:
    return role["type"] == "ManagedRole"


def _role_row(role: Role, bucket: str | None) -> RoleRow:
    rights = (
        [right for right in get_permissions(role) if bucket in (None, right["bucket"])] if is_managed(role) else None
    )
    policies = role.get("policies")
    return {
        "name": role["name"],
        "arn": role["arn"],
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
