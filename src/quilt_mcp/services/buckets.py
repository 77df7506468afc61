"""The buckets of the stack and of the AWS account, what the stack states about them, and quilt://buckets."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import NotSignedIn, ResourceFailure, Unavailable
from quilt_mcp.services.evidence import Claims, Probe, StatedLevel, Statement, judge, probe_bucket
from quilt_mcp.services.governance_service import Role, fetch_roles, get_permissions, is_managed
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryNotUnderstood, QueryRefused, RefusedByStack
from quilt_mcp.services.stack.graphql import Named

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients
    from quilt_mcp.services.stack.caller import Caller, Standing

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
    return StackBuckets(fetch_names(caller), refusals=tuple(dict.fromkeys(messages)))


def fetch_names(caller: "Caller") -> tuple[str, ...]:
    found = caller.send_query("stackBucketNames", list[Named], "bucketConfigs")
    return tuple(sorted(bucket["name"] for bucket in found))


def _combine(data: _StackData) -> StackBuckets:
    collaborators: dict[str, dict[str, str]] = {}
    for bucket in data["buckets"]:
        rights = [(one["collaborator"]["username"], one["permissionLevel"]) for one in bucket["collaborators"]]
        collaborators[bucket["name"]] = dict(sorted(rights))  # of two rights of a user, the last one stays: READ_WRITE
    configured = (bucket["name"] for bucket in data.get("bucketConfigs", []))  # of these, administrators see more
    return StackBuckets(tuple(sorted({*collaborators, *configured})), collaborators)


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
    levels = {one["bucket"]: one["level"] for one in get_permissions(role)}
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


LIST_PAGE = 1000  # without a limit, AWS refuses accounts that may have more than 10,000 buckets, and returns no regions

SourceName = Literal["registry", "s3"]
"""The Quilt stack, or the AWS account."""
SOURCES: tuple[SourceName, ...] = ("registry", "s3")
READ = "read"
"""The state of a source that was read."""


@dataclass(frozen=True)
class Buckets:
    """The buckets that the stack and the account list.

    Attributes:
        stack: the buckets of the stack with their collaborators.
        regions: the buckets of the account; the region of each, or None.
        role: the caller's role in the stack, or why it is unknown.
        sources: for each source, "read", or why it could not be read.
    """

    stack: StackBuckets = field(default_factory=StackBuckets)
    regions: Mapping[str, str | None] = field(default_factory=dict)
    role: Role | str = NOT_IN_TIME
    sources: Mapping[SourceName, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """All names: first those of the stack, each part sorted."""
        return [*self.stack.names, *sorted(self.regions.keys() - self._in_stack)]

    @cached_property
    def _in_stack(self) -> frozenset[str]:
        return frozenset(self.stack.names)

    def find_sources(self, bucket: str) -> tuple[SourceName, ...]:
        listed = {"registry": bucket in self._in_stack, "s3": bucket in self.regions}
        return tuple(source for source in SOURCES if listed[source])


class CallerIdentity(TypedDict):
    """A response of GetCallerIdentity."""

    UserId: str
    Account: str
    Arn: str


class Reader(NamedTuple):
    """The reader: the caller, AWS with the caller's credentials, and who the caller is in the stack and in AWS.

    A local user without a login has no standing, and calls AWS with the AWS configuration of this machine.
    The read must end before `until`, on the monotonic clock.
    """

    caller: "Caller"
    aws: "AWSClients"
    standing: "Standing | None"
    identity: CallerIdentity
    until: float


def open_reader() -> Reader:
    """Ask the stack who the caller is, open AWS for that user and role, and ask AWS for the identity."""
    until = time.monotonic() + current_app().settings_as(QuiltSettings).probe_seconds
    caller, standing = current_caller(), None
    try:
        standing = caller.fetch_standing()
    except NotSignedIn:
        aws = caller.aws  # of this machine; NotSignedIn again for a caller who needs a login
    else:
        aws = caller.open_aws(standing)
    return Reader(caller, aws, standing, aws.call("sts", "get_caller_identity"), until)


def list_buckets(reader: Reader, *, prefix: str = "") -> Buckets:
    """List the buckets of both sources, those of the account with a prefix, and fetch the caller's role.

    This takes at most half of the time that is left, so that there is time for probes.
    """
    calls: dict[str, Callable[[], Any]] = {
        "registry": partial(fetch_buckets, reader.caller),
        "s3": partial(_list_account, reader.aws, {"Prefix": prefix} if prefix else {}),
        "role": partial(fetch_own_role, reader.caller, reader.standing),
    }

    def call(name: str) -> Any:
        try:
            return calls[name]()
        except ResourceFailure as failure:
            return failure

    found = fan_out(call, calls, seconds=(reader.until - time.monotonic()) / 2)
    results = {name: found.get(name, Unavailable(NOT_IN_TIME)) for name in SOURCES}
    failed = {name: f"not read: {one.message}" for name, one in results.items() if isinstance(one, ResourceFailure)}
    stack = StackBuckets(error=failed["registry"]) if "registry" in failed else results["registry"]
    regions = {} if "s3" in failed else results["s3"]
    role = found.get("role", f"your role: {NOT_IN_TIME}")
    return Buckets(stack, regions, role, {name: failed.get(name, READ) for name in SOURCES})


def _list_account(aws: "AWSClients", filters: Mapping[str, str]) -> dict[str, str | None]:
    found = aws.list_items(
        "s3", "list_buckets", "Buckets", next_key="ContinuationToken", MaxBuckets=LIST_PAGE, **filters
    )
    return {bucket["Name"]: bucket.get("BucketRegion") for bucket in found}


def describe_cut(buckets: Buckets, probed: Sequence[str]) -> str | None:
    if len(probed) == len(buckets.names):
        return None
    of_stack = min(len(buckets.stack.names), len(probed))
    return (
        f"{len(buckets.names)} buckets were found and {len(probed)} were probed: {of_stack} of the "
        f"{len(buckets.stack.names)} in the Quilt stack, and {len(probed) - of_stack} of the others in the AWS "
        "account, by name. For any other bucket, read permissions://buckets/{bucket}/access."
    )


MAX_BUCKETS = 1000


class BucketAccess(NamedTuple):
    """One bucket and the caller's rights in it. `error` says why it could not be probed."""

    name: str
    claims: Claims
    named_by: tuple[SourceName, ...] = ()
    region: str | None = None
    error: str | None = None


class Snapshot(NamedTuple):
    """The caller's rights in the buckets that the stack or the account lists.

    Attributes:
        buckets: sorted by name.
        sources: for each source, "read", or why it could not be read.
        not_probed: the number of buckets above the maximum, which were left out.
        not_probed_note: which were left out; None if none were.
        tries_writes: whether the write probe is enabled.
    """

    buckets: list[BucketAccess]
    sources: Mapping[SourceName, str]
    not_probed: int = 0
    not_probed_note: str | None = None
    tries_writes: bool = False


def probe_page(reader: Reader, listed: Buckets, names: Sequence[str]) -> list[BucketAccess]:
    """Probe some buckets in parallel, and return the rights in each of them."""
    writes = current_app().settings_as(QuiltSettings).probe_writes
    probe = partial(probe_bucket, reader.aws, writes=writes)
    probes = fan_out(probe, names, seconds=max(0, reader.until - time.monotonic()))
    statements = state_rights(listed.stack, reader.standing, listed.role, reader.identity["Arn"])
    return [assess(name, probes.get(name, Probe(error=NOT_IN_TIME)), listed, statements) for name in names]


def take_snapshot(*, max_buckets: int = MAX_BUCKETS) -> Snapshot:
    reader = open_reader()
    listed = list_buckets(reader)
    names = listed.names[:max_buckets]
    buckets = probe_page(reader, listed, sorted(names))
    left_out = len(listed.names) - len(names)
    cut = describe_cut(listed, names)
    tries_writes = current_app().settings_as(QuiltSettings).probe_writes
    return Snapshot(buckets, listed.sources, left_out, cut, tries_writes)


def assess(name: str, probe: Probe, listed: Buckets, statements: Statements) -> BucketAccess:
    claims = judge(probe, statements.find(name))
    region = probe.region or listed.regions.get(name)
    return BucketAccess(name, claims, listed.find_sources(name), region, probe.error)


Source = Literal["buckets", "bucketConfigs"]
Scope = Literal["role", "stack"]


class Bucket(TypedDict):
    """One bucket.

    Attributes:
        name: the name in S3.
        title: its title in the catalog.
        description: its description; null if it is not set.
        tags: its tags; null if they are not set.
        relevance: how far up the catalog shows it: higher is further up, and the catalog hides negative ones.
    """

    name: str
    title: str
    description: str | None
    tags: list[str] | None
    relevance: int


class BucketRow(Bucket):
    """One bucket, with its address."""

    catalog_url: str | None
    """Its page in the catalog; null if no catalog is configured."""


class BucketsAnswer(Paged):
    """A page of the buckets of the stack.

    Attributes:
        buckets: the buckets of this page, sorted by name.
        scope: "role" for the buckets that the stack shows to your role (to a role that Quilt does not manage, it shows
            all), "stack" for all buckets, as older stacks show them to administrators; null if it is unknown which.
        source: the field of the stack's API that listed them: bucketConfigs on stacks from before April 2026.
    """

    buckets: list[BucketRow]
    scope: Scope | None
    source: Source


def stack_buckets_list(cursor: str | None = None, limit: str | None = None) -> BucketsAnswer:
    """The stack's buckets, with descriptions.

    They also have tags and a link to the catalog, and are sorted by name. `scope` says whether these are the buckets of
    your role, or all buckets of the stack. A bucket in this list is not necessarily readable: permissions://discover
    tests that. Sends one GraphQL request, and up to three on older stacks.
    """
    caller = current_caller()
    found, scope, source = _read_buckets(caller)
    stack = caller.login.stack
    page = cut_page(found, lambda one: one["name"], cursor=cursor, limit=limit, scope=("buckets", stack.registry_url))
    return {
        "buckets": [_bucket_row(one, stack.catalog_url) for one in page.rows],
        "count": page.total,
        "next_cursor": page.next_cursor,
        "scope": scope,
        "source": source,
    }


def _read_buckets(caller: "Caller") -> tuple[list[Bucket], Scope | None, Source]:
    try:
        return caller.send_query("bucketTitles", list[Bucket], "buckets"), "role", "buckets"
    except QueryRefused as refusal:
        try:  # older stacks know only this one
            configs = caller.send_query("bucketConfigTitles", list[Bucket], "bucketConfigs")
        except ResourceFailure as failure:
            raise refusal from failure
    return configs, _find_scope(caller), "bucketConfigs"


def _find_scope(caller: "Caller") -> Scope | None:
    """Return what `bucketConfigs` lists for the caller. It ignores the role for administrators only."""
    try:
        is_admin = caller.fetch_standing().is_admin
    except ResourceFailure:
        return None
    return None if is_admin is None else "stack" if is_admin else "role"


def _bucket_row(bucket: Bucket, catalog_url: str | None) -> BucketRow:
    return {**bucket, "catalog_url": f"{catalog_url}/b/{quote(bucket['name'], safe='')}" if catalog_url else None}
