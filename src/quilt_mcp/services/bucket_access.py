"""What the caller may do in each bucket: found by probes that change nothing."""

import time
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp import runtime_context
from quilt_mcp.errors import NotFound, RefusedByAWS, ResourceFailure
from quilt_mcp.services.fan_out import fan_out
from quilt_mcp.services.governance_service import permissions_of

if TYPE_CHECKING:
    from quilt_mcp.caller import Caller

STACK_QUERY = "query stackAccess { me { isAdmin role { name } } bucketConfigs { name } }"
SOURCES = ("registry", "s3")
MAX_BUCKETS = 1000
LIST_PAGE = 1000  # without a limit AWS refuses accounts that may have more than 10,000
NO_SUCH_ETAG = '"00000000000000000000000000000000"'
NOT_IN_TIME = "not reached in time"

Known = bool | None  # None: not known


class Named(TypedDict):
    """A role or a bucket, of which only the name was asked."""

    name: str


class Standing(TypedDict):
    """What the registry says of the caller's rights."""

    isAdmin: bool
    role: Named | None


class StackAnswer(TypedDict):
    """The answer to the query."""

    me: Standing | None
    bucketConfigs: list[Named]


@dataclass(frozen=True)
class BucketAccess:
    """One bucket and what the caller may do in it."""

    name: str
    named_by: tuple[str, ...] = ()
    region: str | None = None
    can_list: Known = None
    can_read: Known = None
    can_write: Known = None
    error: str | None = None

    @property
    def level(self) -> str:
        """full_access, read_only, list_only, no_access, or unknown where a probe could not be made.

        read_only says that listing and reading are allowed, and writing is not, or not known to be. no_access says that
        neither probe was allowed. Reading is then not known: S3 refuses alike what may not be read and what is not
        there.
        """
        if self.error or self.can_list is None:
            return "unknown"
        if self.can_read:
            return "full_access" if self.can_write else "read_only"
        return "list_only" if self.can_list else "no_access"


@dataclass(frozen=True)
class Source:
    """The buckets that a source names; the registry also tells an administrator where its role may write."""

    state: str = "read"
    buckets: tuple[str, ...] = ()
    can_write: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """The caller's AWS identity and its access to every bucket that the stack or the account names."""

    identity: dict[str, Any]
    buckets: list[BucketAccess]
    sources: dict[str, str]
    """For "registry" and "s3": "read", or why it could not be."""
    not_probed: int
    """How many buckets were left out, beyond the first 1000."""


def take_snapshot() -> Snapshot:
    """Find the buckets and probe them, in parallel and all within the probing time limit.

    Raises:
        ResourceFailure: AWS does not tell who the caller is.
    """
    caller, until = runtime_context.caller(), time.monotonic() + runtime_context.settings().probe_seconds
    identity = caller.aws.call("sts", "get_caller_identity")
    asked = fan_out(partial(_ask, caller), SOURCES, seconds=(until - time.monotonic()) / 2)  # leave as much to probe
    sources = {name: asked.get(name, Source(f"not read: {NOT_IN_TIME}")) for name in SOURCES}
    names = sorted({name for source in sources.values() for name in source.buckets})
    probed = fan_out(partial(_probe, caller), names[:MAX_BUCKETS], seconds=until - time.monotonic())
    buckets = [_completed(name, probed.get(name), sources) for name in names[:MAX_BUCKETS]]
    return Snapshot(identity, buckets, {key: one.state for key, one in sources.items()}, len(names) - len(buckets))


def _ask(caller: "Caller", source: str) -> Source:
    try:
        return _of_stack(caller) if source == "registry" else _of_account(caller)
    except ResourceFailure as failure:
        return Source(f"not read: {failure.message}")


def _of_account(caller: "Caller") -> Source:
    pages = caller.aws.pages("s3", "list_buckets", "Buckets", token="ContinuationToken", MaxBuckets=LIST_PAGE)  # noqa: S106 - a parameter's name
    return Source(buckets=tuple(bucket["Name"] for bucket in pages))


def _of_stack(caller: "Caller") -> Source:
    answer = caller.graphql("stackAccess", STACK_QUERY, StackAnswer)
    names, me = tuple(one["name"] for one in answer["bucketConfigs"]), answer["me"]
    if me is None or not me["isAdmin"] or me["role"] is None:
        return Source(buckets=names)
    roles = caller.registry(lambda registry: registry.roles_list())
    mine = [role for role in roles if role.name == me["role"]["name"] and role.typename__ == "ManagedRole"]
    return Source(buckets=names, can_write=_write_rights(mine[0], names) if mine else {})


def _write_rights(role: Any, names: tuple[str, ...]) -> dict[str, bool]:
    """Where a managed role may write. With a policy that Quilt does not manage, only what it may is known."""
    allowed = {one["bucket"] for one in permissions_of(role) if one["level"] == "READ_WRITE"}
    if all(policy.managed for policy in role.policies):
        return {name: name in allowed for name in names}
    return dict.fromkeys(allowed, True)


def _completed(name: str, probed: BucketAccess | None, sources: dict[str, Source]) -> BucketAccess:
    access = probed or BucketAccess(name, error=NOT_IN_TIME)
    named_by = tuple(key for key, source in sources.items() if name in source.buckets)
    known = sources["registry"].can_write.get(name)
    return replace(access, named_by=named_by, can_write=known if access.can_write is None else access.can_write)


def _probe(caller: "Caller", name: str) -> BucketAccess:
    access = BucketAccess(name)
    try:
        region = caller.aws.call("s3", "head_bucket", Bucket=name).get("BucketRegion")
        access = replace(access, region=region, can_list=True)
    except RefusedByAWS:
        access = replace(access, can_list=False)
    except ResourceFailure as failure:
        return replace(access, error=failure.message)
    try:
        can_read = _is_allowed(caller, "head_object", name)
    except ResourceFailure as failure:
        return replace(access, error=failure.message)
    return replace(
        access, can_read=can_read or (False if access.can_list else None), can_write=_may_write(caller, name)
    )


def _may_write(caller: "Caller", name: str) -> Known:
    """Tried only if the setting allows it: a put on condition that a missing object has some ETag stores nothing."""
    if not runtime_context.settings().probe_writes:
        return None
    try:
        return _is_allowed(caller, "put_object", name, IfMatch=NO_SUCH_ETAG, Body=b"")
    except ResourceFailure:
        return None


def _is_allowed(caller: "Caller", operation: str, bucket: str, **parameters: Any) -> bool:
    """Whether S3 lets the caller try this on a key that does not exist: it then says that there is no such key."""
    key = f".quilt-mcp-probe/{uuid.uuid4().hex}"
    try:
        caller.aws.call("s3", operation, Bucket=bucket, Key=key, **parameters)
    except NotFound:
        return True
    except RefusedByAWS:
        return False
    return True
