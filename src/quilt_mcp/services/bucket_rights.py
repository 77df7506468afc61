"""The caller's rights in the buckets that the stack and the AWS account list."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import NotSignedIn, ResourceFailure, Unavailable
from quilt_mcp.services.bucket_claims import Claims, judge
from quilt_mcp.services.bucket_probes import Probe, probe_bucket
from quilt_mcp.services.bucket_statements import StackBuckets, Statements, fetch_buckets, state_rights
from quilt_mcp.services.governance_service import Role, Roles, fetch_all_roles, find_own_role
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients
    from quilt_mcp.services.stack.caller import Caller, Standing

LIST_PAGE = 1000  # without a limit, AWS refuses accounts that may have more than 10,000 buckets, and returns no regions

SourceName = Literal["registry", "s3"]
"""The Quilt stack, or the AWS account."""
SOURCES: tuple[SourceName, ...] = ("registry", "s3")
READ = "read"
"""The state of a source that was read."""
MAX_BUCKETS = 1000


@dataclass(frozen=True)
class ListedBuckets:
    """The buckets that the stack and the account list.

    Attributes:
        stack: the buckets of the stack with their collaborators.
        regions: the buckets of the account; the region of each, or None.
        roles: the roles of the stack, which only administrators may read, or why they are unknown.
        role: the caller's role, or why it is unknown.
        sources: for each source, "read", or why it could not be read.
    """

    stack: StackBuckets = field(default_factory=StackBuckets)
    regions: Mapping[str, str | None] = field(default_factory=dict)
    roles: Roles | str = NOT_IN_TIME
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


class RightsReader(NamedTuple):
    """The reader: the caller, AWS with the caller's credentials, and who the caller is in the stack and in AWS.

    A local user without a login has no standing, and calls AWS with the AWS configuration of this machine.
    The read must end before `until`, on the monotonic clock.
    """

    caller: "Caller"
    aws: "AWSClients"
    standing: "Standing | None"
    identity: CallerIdentity
    until: float


def open_rights_reader() -> RightsReader:
    """Ask the stack who the caller is, open AWS for that user and role, and ask AWS for the identity."""
    until = time.monotonic() + current_app().settings_as(QuiltSettings).probe_seconds
    caller, standing = current_caller(), None
    try:
        standing = caller.fetch_standing()
    except NotSignedIn:
        aws = caller.aws  # of this machine; NotSignedIn again for a caller who needs a login
    else:
        aws = caller.open_aws(standing)
    return RightsReader(caller, aws, standing, aws.call("sts", "get_caller_identity"), until)


def list_known_buckets(reader: RightsReader, *, prefix: str = "") -> ListedBuckets:
    """List the buckets of both sources, those of the account with a prefix, and fetch the caller's role.

    This takes at most half of the time that is left, so that there is time for probes.
    """
    calls: dict[str, Callable[[], Any]] = {
        "registry": partial(fetch_buckets, reader.caller),
        "s3": partial(_list_account, reader.aws, {"Prefix": prefix} if prefix else {}),
        "roles": partial(fetch_all_roles, reader.caller, reader.standing),
    }

    def call(name: str) -> Any:
        try:
            return calls[name]()
        except ResourceFailure as failure:
            return failure

    found = fan_out(call, calls, seconds=(reader.until - time.monotonic()) / 2)
    results = {name: found.get(name, Unavailable(NOT_IN_TIME)) for name in SOURCES}
    failed = {
        name: f"not read: {result.message}" for name, result in results.items() if isinstance(result, ResourceFailure)
    }
    stack = StackBuckets(error=failed["registry"]) if "registry" in failed else results["registry"]
    regions = {} if "s3" in failed else results["s3"]
    roles = found.get("roles", f"your role: {NOT_IN_TIME}")
    role = find_own_role(roles, reader.standing)
    return ListedBuckets(stack, regions, roles, role, {name: failed.get(name, READ) for name in SOURCES})


def _list_account(aws: "AWSClients", filters: Mapping[str, str]) -> dict[str, str | None]:
    found = aws.list_items(
        "s3", "list_buckets", "Buckets", next_key="ContinuationToken", MaxBuckets=LIST_PAGE, **filters
    )
    return {bucket["Name"]: bucket.get("BucketRegion") for bucket in found}


def describe_cut(buckets: ListedBuckets, probed: Sequence[str]) -> str | None:
    if len(probed) == len(buckets.names):
        return None
    of_stack = min(len(buckets.stack.names), len(probed))
    return (
        f"{len(buckets.names)} buckets were found and {len(probed)} were probed: {of_stack} of the "
        f"{len(buckets.stack.names)} in the Quilt stack, and {len(probed) - of_stack} of the others in the AWS "
        "account, by name. For any other bucket, read permissions://buckets/{bucket}/access."
    )


class ProbedBucket(NamedTuple):
    """One bucket and the caller's rights in it. `error` says why it could not be probed."""

    name: str
    claims: Claims
    named_by: tuple[SourceName, ...] = ()
    region: str | None = None
    error: str | None = None

    @property
    def uri(self) -> str:
        """The URI of the caller's rights in the bucket."""
        return f"permissions://buckets/{quote(self.name, safe='')}/access"


class Snapshot(NamedTuple):
    """The caller's rights in the buckets that the stack or the account lists.

    Attributes:
        buckets: sorted by name.
        sources: for each source, "read", or why it could not be read.
        not_probed: the number of buckets above the maximum, which were left out.
        not_probed_note: which were left out; None if none were.
        tries_writes: whether the write probe is enabled.
    """

    buckets: list[ProbedBucket]
    sources: Mapping[SourceName, str]
    not_probed: int = 0
    not_probed_note: str | None = None
    tries_writes: bool = False


def probe_page(reader: RightsReader, listed: ListedBuckets, names: Sequence[str]) -> list[ProbedBucket]:
    """Probe some buckets in parallel, and return the rights in each of them."""
    writes = current_app().settings_as(QuiltSettings).probe_writes
    probe = partial(probe_bucket, reader.aws, writes=writes)
    probes = fan_out(probe, names, seconds=max(0, reader.until - time.monotonic()))
    statements = state_rights(listed.stack, reader.standing, listed.role, reader.identity["Arn"])
    return [assess(name, probes.get(name, Probe(error=NOT_IN_TIME)), listed, statements) for name in names]


def take_snapshot(*, max_buckets: int = MAX_BUCKETS) -> Snapshot:
    reader = open_rights_reader()
    listed = list_known_buckets(reader)
    names = listed.names[:max_buckets]
    buckets = probe_page(reader, listed, sorted(names))
    left_out = len(listed.names) - len(names)
    cut = describe_cut(listed, names)
    tries_writes = current_app().settings_as(QuiltSettings).probe_writes
    return Snapshot(buckets, listed.sources, left_out, cut, tries_writes)


def assess(name: str, probe: Probe, listed: ListedBuckets, statements: Statements) -> ProbedBucket:
    claims = judge(probe, statements.find(name))
    region = probe.region or listed.regions.get(name)
    return ProbedBucket(name, claims, listed.find_sources(name), region, probe.error)
