"""Reads the caller's right to write from the Quilt stack: as a collaborator of a bucket, and by the role."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.services.bucket_claims import StatedLevel, Statement
from quilt_mcp.services.governance_service import get_permissions, is_managed
from quilt_mcp.services.stack.errors import QueryNotUnderstood, QueryRefused, RefusedByStack

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller
    from quilt_mcp.services.stack.graphql import QuiltRole
    from quilt_mcp.services.stack.standing import Standing

COLLABORATORS = "collaborators { collaborator { username } permissionLevel }"
# From April 2026, collaborators belong to `buckets`, which is limited to the caller's role. `bucketConfigs` shows
# administrators all buckets. Before that, from March 2022, they belong to `bucketConfigs`.
TODAY = f"query stackBuckets {{ buckets {{ name {COLLABORATORS} }} bucketConfigs {{ name }} }}"
OF_ROLE = "query stackRoleBuckets { buckets { name collaborators { collaborator { username } permissionLevel } } }"
UNTIL_2026 = f"query stackBucketConfigs {{ bucketConfigs {{ name {COLLABORATORS} }} }}"
NAMES = "query stackBucketNames { bucketConfigs { name } }"

LEVELS: Mapping[str, StatedLevel] = {"READ_WRITE": "READ_WRITE", "READ": "READ", "no right": "none"}
MORE = ", and a policy that Quilt does not manage can add rights"


class Person(TypedDict):
    """A user in the data of the queries."""

    username: str


class Collaborator(TypedDict):
    """A user's right in a bucket."""

    collaborator: Person
    permissionLevel: str


class Named(TypedDict):
    """A bucket without its collaborators."""

    name: str


class Shared(Named):
    """A bucket with its collaborators."""

    collaborators: list[Collaborator]


class TodayData(TypedDict):
    """The data of the query TODAY."""

    buckets: list[Shared]
    bucketConfigs: list[Named]


class OfRoleData(TypedDict):
    """The data of the query OF_ROLE."""

    buckets: list[Shared]


class Until2026Data(TypedDict):
    """The data of the query UNTIL_2026."""

    bucketConfigs: list[Shared]


class NamesData(TypedDict):
    """The data of the query NAMES."""

    bucketConfigs: list[Named]


@dataclass(frozen=True)
class StackBuckets:
    """The buckets of the stack.

    Attributes:
        names: their names, sorted.
        collaborators: the collaborators of each, with their rights; None if no query returned them.
        error: why the stack did not return the names; None if it did.
        refusals: why the queries for collaborators failed.
    """

    names: tuple[str, ...] = ()
    collaborators: Mapping[str, Mapping[str, str]] | None = None
    error: str | None = None
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statements:
    """The stack's statement about each bucket, and the reason why others have none."""

    unknown: str
    by_bucket: Mapping[str, Statement] = field(default_factory=dict)

    def find(self, bucket: str) -> Statement:
        """Return the statement about a bucket."""
        return self.by_bucket.get(bucket) or Statement(self.unknown)


def fetch_buckets(caller: "Caller") -> StackBuckets:
    """Fetch the stack's buckets with their collaborators: one query on a stack of today, up to three on others.

    If the collaborators are too many or too slow, only the names are fetched.

    Raises:
        ResourceFailure: the stack does not return the names.
    """
    messages, fetches = [], [_fetch_today, _fetch_until_2026]
    while fetches:
        try:
            return fetches.pop(0)(caller)
        except (NotSignedIn, RefusedByStack):
            raise
        except ResourceFailure as failure:
            messages.append(failure.message)
            if not isinstance(failure, QueryRefused):
                break  # the other query asks for the same data
            if not isinstance(failure, QueryNotUnderstood) and fetches == [_fetch_until_2026]:
                fetches = [_fetch_of_role]  # the stack knows both fields, and one of them failed
    return StackBuckets(fetch_names(caller), refusals=tuple(dict.fromkeys(messages)))


def _fetch_today(caller: "Caller") -> StackBuckets:
    data = caller.send_query("stackBuckets", TODAY, TodayData)
    return _combine(data["buckets"], data["bucketConfigs"])


def _fetch_of_role(caller: "Caller") -> StackBuckets:
    return _combine(caller.send_query("stackRoleBuckets", OF_ROLE, OfRoleData)["buckets"], [])


def _fetch_until_2026(caller: "Caller") -> StackBuckets:
    return _combine(caller.send_query("stackBucketConfigs", UNTIL_2026, Until2026Data)["bucketConfigs"], [])


def fetch_names(caller: "Caller") -> tuple[str, ...]:
    """Fetch the names of the stack's buckets.

    Raises:
        ResourceFailure: the stack does not return them.
    """
    found = caller.send_query("stackBucketNames", NAMES, NamesData)["bucketConfigs"]
    return tuple(sorted(bucket["name"] for bucket in found))


def _combine(shared: Iterable[Shared], others: Iterable[Named]) -> StackBuckets:
    rights = {
        bucket["name"]: {one["collaborator"]["username"]: one["permissionLevel"] for one in bucket["collaborators"]}
        for bucket in shared
    }
    return StackBuckets(tuple(sorted({*rights, *(bucket["name"] for bucket in others)})), rights)


def fetch_own_role(caller: "Caller", standing: "Standing | None") -> "QuiltRole | str":
    """Fetch the caller's role, which only administrators may; otherwise, return why it is unknown."""
    if standing is None or standing.role is None:
        return "the stack does not say which role you have"
    if not standing.is_admin:
        return f"only administrators may see the rights of the role {standing.role}"
    try:
        roles = caller.query_stack(lambda stack: stack.roles_list())
    except ResourceFailure as failure:
        return f"the stack's roles could not be read: {failure.message.removesuffix('.')}"
    own = [role for role in roles if role.name == standing.role]
    return own[0] if own else f"the stack does not list the role {standing.role}"


def state_rights(stack: StackBuckets, standing: "Standing | None", role: "QuiltRole | str", arn: str) -> Statements:
    """Return what the stack states about its buckets.

    Args:
        stack: the buckets with their collaborators.
        standing: the caller.
        role: the caller's role, or why it is unknown.
        arn: the caller's AWS identity.
    """
    if isinstance(role, str):
        return _state_by_collaborators(stack, standing, role)
    return _state_by_role(role, arn, stack)


def _state_by_role(role: "QuiltRole", arn: str, stack: StackBuckets) -> Statements:
    """Return what the caller's role states about buckets, if the AWS identity with this ARN has the role.

    The role can name buckets that the list of the stack does not contain, or the list could not be read.
    A policy that Quilt does not manage can add rights, so what such a role does not state is unknown.
    """
    if not is_managed(role):
        return Statements(f"Quilt does not know the rights of the role {role.name}, which it does not manage")
    if not is_session_of(arn, role.arn):
        return Statements(f"the role {role.name} does not count, because your AWS identity is not {role.arn}")
    levels = {one["bucket"]: one["level"] for one in get_permissions(role)}
    is_all = all(policy.managed for policy in role.policies)
    stated = {}
    for bucket in {*stack.names, *levels}:
        name = levels.get(bucket, "no right")
        level = LEVELS.get(name)
        can_write = True if level == "READ_WRITE" else (False if is_all and level else None)
        more = "" if can_write or is_all else MORE
        stated[bucket] = Statement(f"role {role.name}: {name}{more}", level, can_write, "role")
    if stack.error:
        return Statements(
            f"the role {role.name} does not name it, and the stack's list of buckets was {stack.error}", stated
        )
    return Statements("the role of the stack says nothing about a bucket outside the stack", stated)


def _explain_no_collaborators(stack: StackBuckets) -> str:
    if stack.error:
        return f"the stack's buckets with their collaborators were {stack.error}"
    reason = f": {' '.join(stack.refusals)}" if stack.refusals else ""
    return f"no query returned collaborators{reason}"


def is_session_of(session_arn: str, role_arn: str) -> bool:
    """Return whether an identity of STS is a session of an IAM role. Its ARN has the role's name without the path."""
    _, _, service, _, account, resource = session_arn.split(":", 5)
    kind, _, rest = resource.partition("/")
    parts = role_arn.split(":", 5)
    is_role = (service, kind) == ("sts", "assumed-role") and len(parts) == 6  # noqa: PLR2004 - the parts of an ARN
    return is_role and (account, rest.partition("/")[0]) == (parts[4], parts[5].rpartition("/")[2])


def _state_by_collaborators(stack: StackBuckets, standing: "Standing | None", role_unknown: str) -> Statements:
    """Return what the lists of collaborators state about the stack's buckets.

    They name users, not roles. So they count only for a user with a single role: otherwise a right can come from
    another role than that of the AWS identity. READ does not exclude a policy that Quilt does not manage.
    """
    if stack.collaborators is None:
        return Statements(f"{role_unknown}; {_explain_no_collaborators(stack)}")
    if standing is None or standing.name is None:
        return Statements(f"{role_unknown}; collaborators do not count, because the stack does not say who you are")
    if standing.roles is None or len(standing.roles) != 1:
        return Statements(f"{role_unknown}; collaborators do not count, because you do not have exactly one role")
    stated = {}
    for bucket, rights in stack.collaborators.items():
        if standing.name in rights:
            name, level = rights[standing.name], LEVELS.get(rights[standing.name])
            can_write = True if level == "READ_WRITE" else None
            more = "" if can_write else MORE
            evidence = f"collaborators: {name} for {standing.name}{more}"
            stated[bucket] = Statement(evidence, level, can_write, "collaborators")
    return Statements(f"{role_unknown}; {standing.name} is not among the collaborators", stated)
