"""What the Quilt stack states about writing to its buckets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.services.buckets import fetch_bucket_names
from quilt_mcp.services.governance_service import Role, get_permissions, is_managed
from quilt_mcp.services.stack.failures import QueryNotUnderstood, QueryRefused, RefusedByStack
from quilt_mcp.services.stack.graphql import Named

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller, Standing

StatedLevel = Literal["READ_WRITE", "READ", "none"]
StatementSource = Literal["role", "collaborators", "registry"]

LEVELS: Mapping[str, StatedLevel] = {"READ_WRITE": "READ_WRITE", "READ": "READ", "no right": "none"}
MORE = ", and a policy that Quilt does not manage can add rights"


class _Person(TypedDict):
    username: str


class _Right(TypedDict):
    collaborator: _Person
    permissionLevel: str


class _Shared(Named):
    collaborators: list[_Right]


class _StackData(TypedDict):
    buckets: list[_Shared]
    bucketConfigs: NotRequired[list[Named]]


class StackBuckets(NamedTuple):
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


class Statement(NamedTuple):
    """The Quilt stack's statement about writing to one bucket.

    Attributes:
        evidence: what the stack states, or why nothing is known.
        level: the stated right; None if the stack states nothing that counts for the caller's AWS identity.
        can_write: what follows from it; None if the stated right may not be all.
        source: which part of the stack states it.
    """

    evidence: str
    level: StatedLevel | None = None
    can_write: bool | None = None
    source: StatementSource = "registry"


@dataclass(frozen=True)
class Statements:
    """The stack's statement about each bucket, and the reason why others have none."""

    unknown: str
    by_bucket: Mapping[str, Statement] = field(default_factory=dict)

    def find(self, bucket: str) -> Statement:
        return self.by_bucket.get(bucket) or Statement(self.unknown)


def fetch_buckets(caller: "Caller") -> StackBuckets:
    """Fetch the stack's buckets with their collaborators: one query on a stack of today, up to three on others.

    If the collaborators are too many or too slow, only the names are fetched.
    """
    messages, operations = [], ["stackBuckets", "stackBucketConfigs"]
    while operations:
        try:
            return _combine(caller.send_query(operations.pop(0), _StackData, ""))
        except (NotSignedIn, RefusedByStack):
            raise
        except ResourceFailure as failure:
            messages.append(failure.message)
            if not isinstance(failure, QueryRefused):
                break  # the other operation asks for the same data
            if not isinstance(failure, QueryNotUnderstood) and operations == ["stackBucketConfigs"]:
                operations = ["stackRoleBuckets"]  # the stack knows both fields, and one of them failed
    return StackBuckets(fetch_bucket_names(caller), refusals=tuple(dict.fromkeys(messages)))


def _combine(data: _StackData) -> StackBuckets:
    collaborators: dict[str, dict[str, str]] = {}
    for bucket in data["buckets"]:
        rights = [(right["collaborator"]["username"], right["permissionLevel"]) for right in bucket["collaborators"]]
        collaborators[bucket["name"]] = dict(sorted(rights))  # of two rights of a user, the last one stays: READ_WRITE
    configured = (bucket["name"] for bucket in data.get("bucketConfigs", []))  # of these, administrators see more
    return StackBuckets(tuple(sorted({*collaborators, *configured})), collaborators)


def state_rights(stack: StackBuckets, standing: "Standing | None", role: Role | str, arn: str) -> Statements:
    """Return what the stack states about its buckets. `arn` is the caller's AWS identity."""
    if isinstance(role, str):
        return _state_by_collaborators(stack, standing, role)
    return _state_by_role(role, arn, stack)


def _state_by_role(role: Role, arn: str, stack: StackBuckets) -> Statements:
    """Return what the caller's role states about buckets, if the AWS identity with this ARN has the role.

    The role can name buckets that the list of the stack does not contain, or the list could not be read.
    A policy that Quilt does not manage can add rights, so what such a role does not state is unknown.
    """
    name = role["name"]
    if not is_managed(role):
        return Statements(f"Quilt does not know the rights of the role {name}, which it does not manage")
    if not is_session_of(arn, role["arn"]):
        return Statements(f"the role {name} does not count, because your AWS identity is not {role['arn']}")
    levels = {permission["bucket"]: permission["level"] for permission in get_permissions(role)}
    is_all = all(policy["managed"] for policy in role.get("policies", []))
    stated = {}
    for bucket in {*stack.names, *levels}:
        stated_level = levels.get(bucket, "no right")
        level = LEVELS.get(stated_level)
        can_write = True if level == "READ_WRITE" else (False if is_all and level else None)
        more = "" if can_write or is_all else MORE
        stated[bucket] = Statement(f"role {name}: {stated_level}{more}", level, can_write, "role")
    if stack.error:
        return Statements(
            f"the role {name} does not name it, and the stack's list of buckets was {stack.error}", stated
        )
    return Statements("the role of the stack says nothing about a bucket outside the stack", stated)


def explain_no_collaborators(stack: StackBuckets) -> str:
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
        return Statements(f"{role_unknown}; {explain_no_collaborators(stack)}")
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
