"""Who can use a bucket by the roles of the stack, what the caller's other roles would give, and the administrators.

Only administrators may read what roles contain, and who has which. To others the stack names the users whose current
role has a right.
"""

from collections.abc import Iterator

from typing_extensions import TypedDict

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.bucket_rights import ListedBuckets, RightsReader
from quilt_mcp.services.bucket_statements import explain_no_collaborators
from quilt_mcp.services.governance_service import Roles, UserRow, fetch_users, find_right, list_unmanaged
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.stack.graphql import Rows

FOR_ADMINISTRATORS = "Only administrators may see it."
ASK_WHO_INVITED_YOU = "Only administrators may see who they are. Ask the person who gave you your Quilt login."
BY_CURRENT_ROLE = "They are those whose current role has a right. Only administrators may see other roles."
NO_RIGHT = "none"
MAX_PEOPLE = 200


class Collaborator(TypedDict):
    """A user who may use a bucket.

    Attributes:
        name: the name in Quilt.
        right: READ or READ_WRITE.
        role: the role that gives the right; null if the stack does not say.
        needs_switch: whether the user has the right only after a switch to this role.
    """

    name: str
    right: str
    role: str | None
    needs_switch: bool


class OwnRole(TypedDict):
    """One of your roles.

    Attributes:
        name: its name.
        is_current: whether you use it now.
        right: READ, READ_WRITE or none in this bucket, as Quilt manages it; null if unknown.
    """

    name: str
    is_current: bool
    right: str | None


class Administrator(TypedDict):
    """An administrator of the stack, who can give rights."""

    name: str
    """The name in Quilt."""
    email: str
    """The email address."""


class People(TypedDict):
    """Who can use a bucket, and who can change that.

    Attributes:
        collaborators: the active users who may use the bucket by a role that Quilt manages, sorted by name, at most
            200; a right that needs no switch comes first. Null if the stack does not tell you.
        collaborators_reason: why that is unknown, or which users the list does not contain; null if it is complete.
        own_roles: your roles, and what each would give you here after a switch; null if the stack does not say which
            roles you have.
        own_roles_reason: why the roles or their rights are unknown; null if they are known.
        administrators: the active administrators to ask for a right, sorted, without service accounts, at most 200;
            null if unknown.
        administrators_reason: why they are unknown, and who can help instead; null if they are known.
    """

    collaborators: list[Collaborator] | None
    collaborators_reason: str | None
    own_roles: list[OwnRole] | None
    own_roles_reason: str | None
    administrators: list[Administrator] | None
    administrators_reason: str | None


Users = Rows[UserRow] | str
"""The users, or why they are unknown."""


def find_people(reader: RightsReader, listed: ListedBuckets, bucket: str, *, seconds: float) -> People:
    """Find the people of a bucket. For an administrator, this sends one query, for the users."""
    is_admin = reader.standing is not None and reader.standing.is_admin
    users = _read_users(reader, seconds) if is_admin else FOR_ADMINISTRATORS
    collaborators, collaborators_reason = _find_collaborators(listed, users, bucket)
    roles, roles_reason = _describe_own_roles(reader, listed.roles, bucket)
    unknown = users if isinstance(users, str) else None
    return {
        "collaborators": collaborators,
        "collaborators_reason": collaborators_reason,
        "own_roles": roles,
        "own_roles_reason": roles_reason,
        "administrators": _list_administrators(users.readable) if not isinstance(users, str) else None,
        "administrators_reason": unknown if is_admin else ASK_WHO_INVITED_YOU,
    }


def _read_users(reader: RightsReader, seconds: float) -> Users:
    def read(_: str) -> Users:
        try:
            return fetch_users(reader.caller)
        except ResourceFailure as failure:
            return f"The stack's users could not be read: {failure.message}"

    found = fan_out(read, ["users"], seconds=max(0, seconds))
    return found.get("users", f"The stack's users were {NOT_IN_TIME}.")


def _find_collaborators(
    listed: ListedBuckets, users: Users, bucket: str
) -> tuple[list[Collaborator] | None, str | None]:
    if not isinstance(listed.roles, str) and not isinstance(users, str):
        people = list(_join(listed.roles, users.readable, bucket))
        people.sort(key=lambda one: (one["name"], one["needs_switch"], one["role"] or ""))
        return people[:MAX_PEOPLE], _explain_missing(listed.roles, users, len(people))
    named = (listed.stack.collaborators or {}).get(bucket)
    if named is None:
        is_read = listed.stack.collaborators is not None
        why = explain_no_collaborators(listed.stack).capitalize().removesuffix(".")
        return None, f"The stack does not list the bucket {bucket} for you." if is_read else f"{why}."
    rows: list[Collaborator] = [
        {"name": name, "right": right, "role": None, "needs_switch": False} for name, right in sorted(named.items())
    ]
    return rows[:MAX_PEOPLE], BY_CURRENT_ROLE + _count_others(len(rows))


def _join(roles: Roles, users: list[UserRow], bucket: str) -> Iterator[Collaborator]:
    rights = {role["name"]: right for role in roles.known if (right := find_right(role, bucket))}
    for user in users:
        for name in dict.fromkeys([user["role"], *user["extra_roles"]]) if user["is_active"] else ():
            if name in rights:
                switch = name != user["role"]
                yield {"name": user["name"], "right": rights[name], "role": name, "needs_switch": switch}


def _explain_missing(roles: Roles, users: Rows[UserRow], count: int) -> str | None:
    """Say who can have a right without being in the list."""
    texts = []
    if unmanaged := list_unmanaged(roles):
        texts.append(f"Users of roles that Quilt does not manage can have rights, too: {', '.join(unmanaged[:10])}.")
    if roles.unreadable_count or roles.unknown_types or users.unreadable_count:
        texts.append("Some roles or users of the stack could not be read.")
    return " ".join([*texts, *([_count_others(count).strip()] if count > MAX_PEOPLE else [])]) or None


def _count_others(count: int) -> str:
    return f" {count - MAX_PEOPLE} more are left out." if count > MAX_PEOPLE else ""


def _describe_own_roles(
    reader: RightsReader, roles: Roles | str, bucket: str
) -> tuple[list[OwnRole] | None, str | None]:
    standing = reader.standing
    if standing is None or standing.roles is None:
        return None, "The stack does not say which roles you have."
    known = {} if isinstance(roles, str) else {role["name"]: role for role in roles.known}
    unmanaged = set() if isinstance(roles, str) else set(list_unmanaged(roles))
    rows: list[OwnRole] = [
        {
            "name": name,
            "is_current": name == standing.role,
            "right": None if name not in known or name in unmanaged else find_right(known[name], bucket) or NO_RIGHT,
        }
        for name in standing.roles
    ]
    if isinstance(roles, str):
        return rows, f"What the roles contain is unknown: {roles}."
    unknown = [row["name"] for row in rows if row["right"] is None]
    return rows, f"Quilt does not know the rights of: {', '.join(unknown)}." if unknown else None


def _list_administrators(users: list[UserRow]) -> list[Administrator]:
    found = [user for user in users if user["is_admin"] and user["is_active"] and not user["is_service"]]
    rows: list[Administrator] = [{"name": user["name"], "email": user["email"]} for user in found]
    return sorted(rows, key=lambda row: row["name"])[:MAX_PEOPLE]
