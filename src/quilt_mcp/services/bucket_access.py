"""The caller's rights in every bucket, found by probes that store nothing."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.app import current_app
from quilt_mcp.services.bucket_claims import Claims, Level, Probe
from quilt_mcp.services.bucket_listing import READ, Buckets, Reader, SourceName, describe_cut, list_buckets, open_reader
from quilt_mcp.services.bucket_probes import probe_bucket
from quilt_mcp.services.bucket_verdicts import judge
from quilt_mcp.services.fan_out import NOT_IN_TIME, fan_out
from quilt_mcp.services.registry_rights import Statements, state_rights
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller

MAX_BUCKETS = 1000


class CallerIdentity(TypedDict):
    """A response of GetCallerIdentity."""

    UserId: str
    Account: str
    Arn: str


@dataclass(frozen=True)
class BucketAccess:
    """One bucket and the caller's rights in it.

    Attributes:
        name: its name.
        claims: the rights, with their evidence.
        named_by: the sources that list it.
        region: its AWS region; None if unknown.
        error: why it could not be probed; None otherwise.
    """

    name: str
    claims: Claims
    named_by: tuple[SourceName, ...] = ()
    region: str | None = None
    error: str | None = None

    @property
    def level(self) -> Level:
        """The rights in one word."""
        return self.claims.level


@dataclass(frozen=True)
class Snapshot:
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

    @property
    def has_all_buckets(self) -> bool:
        """Whether both sources were read and no bucket was left out. A bucket that could not be probed counts."""
        return not self.not_probed and all(state == READ for state in self.sources.values())


def open_identity(reader: Reader) -> CallerIdentity:
    """Ask AWS who the caller is.

    Raises:
        ResourceFailure: AWS does not return it.
    """
    identity: CallerIdentity = reader.aws.call("sts", "get_caller_identity")
    return identity


def probe_page(
    reader: Reader, identity: CallerIdentity, listed: Buckets, names: Sequence[str], *, until: float
) -> list[BucketAccess]:
    """Probe some buckets in parallel, until a time on the monotonic clock, and return the rights in each of them."""
    writes = current_app().settings_as(QuiltSettings).probe_writes
    probe = partial(probe_bucket, reader.aws, writes=writes)
    probes = fan_out(probe, names, seconds=max(0, until - time.monotonic()))
    statements = state_rights(listed.stack, reader.standing, listed.role, identity["Arn"])
    return [assess(name, probes.get(name, Probe(error=NOT_IN_TIME)), listed, statements) for name in names]


def take_snapshot(*, max_buckets: int = MAX_BUCKETS) -> Snapshot:
    """Find the buckets and probe them in parallel, within the time limit for probes.

    Raises:
        ResourceFailure: the stack does not issue AWS credentials, or AWS does not return the caller's identity.
    """
    settings = current_app().settings_as(QuiltSettings)
    until = time.monotonic() + settings.probe_seconds
    reader = open_reader(current_caller())
    identity = open_identity(reader)
    listed = list_buckets(reader, seconds=(until - time.monotonic()) / 2)
    names = listed.names[:max_buckets]
    buckets = probe_page(reader, identity, listed, sorted(names), until=until)
    left_out = len(listed.names) - len(names)
    cut = describe_cut(listed, names)
    return Snapshot(buckets, listed.sources, left_out, cut, tries_writes=settings.probe_writes)


def assess(name: str, probe: Probe, listed: Buckets, statements: Statements) -> BucketAccess:
    """Return the rights in one bucket."""
    claims = judge(probe, statements.find(name))
    region = probe.region or listed.regions.get(name)
    return BucketAccess(name, claims, listed.find_sources(name), region, probe.error)
