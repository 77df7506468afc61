"""What the caller may do in each bucket: found by probes that change nothing."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from quilt_mcp import runtime_context
from quilt_mcp.errors import NotFound, RefusedByAWS, ResourceFailure
from quilt_mcp.services.fan_out import fan_out
from quilt_mcp.services.governance_service import permissions_of

STACK_QUERY = "query stackAccess { me { isAdmin role { name } } bucketConfigs { name } }"
MAX_BUCKETS = 1000
LIST_PAGE = 1000  # without a limit AWS refuses accounts that may have more than 10,000
NO_SUCH_ETAG = '"00000000000000000000000000000000"'

Known = bool | None  # None: not known


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
        """full_access, read_only, list_only, no_access, or unknown where listing or reading could not be tried.

        read_only says that listing and reading are allowed, and writing is not, or not known to be.
        """
        if self.can_list is None or self.can_read is None:
            return "unknown"
        if self.can_read:
            return "full_access" if self.can_write else "read_only"
        return "list_only" if self.can_list else "no_access"


@dataclass(frozen=True)
class Snapshot:
    """The caller's AWS identity and its access to every bucket that the stack or the account names."""

    identity: dict[str, Any]
    buckets: list[BucketAccess]
    sources: dict[str, str]
    """For "registry" and "s3": "read", or why it could not be."""
    not_probed: int
    """How many buckets were left out, beyond the first 1000."""


@dataclass(frozen=True)
class _Source:
    """The buckets that one source names, and for which of them it knows whether the caller may write."""

    state: str = "read"
    buckets: tuple[str, ...] = ()
    writable: dict[str, bool] | None = None


def take_snapshot() -> Snapshot:
    """Find the buckets and probe them, in parallel and within the probing time limit.

    Raises:
        ResourceFailure: AWS does not tell who the caller is.
    """
    aws, seconds = runtime_context.caller().aws, runtime_context.settings().probe_seconds
    identity = aws.call("sts", "get_caller_identity")
    sources = fan_out(_ask, ("registry", "s3"), seconds=seconds)
    names = sorted({name for source in sources.values() for name in source.buckets})
    probed = fan_out(_probe, names[:MAX_BUCKETS], seconds=seconds)
    buckets = [_completed(name, probed.get(name), sources) for name in names[:MAX_BUCKETS]]
    return Snapshot(identity, buckets, {key: one.state for key, one in sources.items()}, len(names) - len(buckets))


def _ask(source: str) -> _Source:
    try:
        return _stack_buckets() if source == "registry" else _Source(buckets=tuple(_own_buckets()))
    except ResourceFailure as failure:
        return _Source(state=f"not read: {failure.message}")


def _own_buckets() -> Iterator[str]:
    aws = runtime_context.caller().aws
    token: dict[str, str] = {}
    while True:
        page = aws.call("s3", "list_buckets", MaxBuckets=LIST_PAGE, **token)
        yield from (bucket["Name"] for bucket in page.get("Buckets", ()))
        if not page.get("ContinuationToken"):
            return
        token = {"ContinuationToken": page["ContinuationToken"]}


def _stack_buckets() -> _Source:
    """The stack's buckets; for an administrator also what its role may write, which the registry tells it for all."""
    caller = runtime_context.caller()
    answer = caller.graphql("stackAccess", STACK_QUERY)
    names, me = tuple(one["name"] for one in answer["bucketConfigs"]), answer.get("me") or {}
    if not me.get("isAdmin") or not me.get("role") or not caller.login.has_aws_credentials:
        return _Source(buckets=names)
    roles = caller.registry(caller.quilt_admin.roles.list)
    mine = [role for role in roles if role.name == me["role"]["name"] and role.typename__ == "ManagedRole"]
    if not mine:
        return _Source(buckets=names)
    writable = {one["bucket"] for one in permissions_of(mine[0]) if one["level"] == "READ_WRITE"}
    return _Source(buckets=names, writable={name: name in writable for name in names})


def _completed(name: str, probed: BucketAccess | None, sources: dict[str, _Source]) -> BucketAccess:
    access = probed or BucketAccess(name, error="not reached in time")
    named_by = tuple(key for key, source in sources.items() if name in source.buckets)
    known = next((one.writable[name] for one in sources.values() if one.writable and name in one.writable), None)
    return replace(access, named_by=named_by, can_write=known if access.can_write is None else access.can_write)


def _probe(name: str) -> BucketAccess:
    aws = runtime_context.caller().aws
    try:
        region = aws.call("s3", "head_bucket", Bucket=name).get("BucketRegion")
        can_list = True
    except RefusedByAWS:
        region, can_list = None, False
    except ResourceFailure as failure:
        return BucketAccess(name, error=failure.message)
    try:
        can_read = _is_allowed("head_object", name)
        can_write = _may_write(name)
    except ResourceFailure as failure:
        return BucketAccess(name, region=region, can_list=can_list, error=failure.message)
    return BucketAccess(name, region=region, can_list=can_list, can_read=can_read, can_write=can_write)


def _may_write(name: str) -> Known:
    """Tried only if the setting allows it: a put on condition that a missing object has some ETag stores nothing."""
    if not runtime_context.settings().probe_writes:
        return None
    return _is_allowed("put_object", name, IfMatch=NO_SUCH_ETAG, Body=b"")


def _is_allowed(operation: str, bucket: str, **parameters: Any) -> bool:
    """Whether S3 lets the caller try this on a key that does not exist: it then says that there is no such key."""
    key = f".quilt-mcp-probe/{uuid.uuid4().hex}"
    try:
        runtime_context.caller().aws.call("s3", operation, Bucket=bucket, Key=key, **parameters)
    except NotFound:
        return True
    except RefusedByAWS:
        return False
    return True
