"""Probes of buckets in S3. They store nothing, and ask only for keys that S3 has listed.

HeadObject of a missing key would prove little: without the right to list, S3 answers like for a forbidden key.
"""

import uuid
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.services.bucket_claims import QUILT, ROOT, Key, KeyResult, Listing, Probe, Put, TriedKey
from quilt_mcp.services.stack.errors import RefusedByAWS, Throttled, TooSlow

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients, Response

CALLS = 4
PAGE = 5
"""Keys per list. Each costs 0.1 ms of CPU in botocore, and `.quilt/` comes first and often has thousands of keys."""
LAST_CHARACTER = "\U0010ffff"
NO_SUCH_ETAG = '"00000000000000000000000000000000"'
REGION_HEADER = "x-amz-bucket-region"
ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
NO_BUCKET = "S3 has no such bucket."


class Page(NamedTuple):
    """A page of a list. `region` is the bucket's."""

    keys: tuple[Key, ...]
    prefixes: tuple[str, ...]
    is_cut: bool
    region: str | None


class Refusal(NamedTuple):
    """A list that S3 refused."""

    region: str | None


def probe_bucket(aws: "AWSClients", bucket: str, *, writes: bool) -> Probe:
    """Find the caller's rights in one bucket, with at most CALLS calls, and one more for the write probe.

    Args:
        aws: AWS in the caller's name.
        bucket: its name.
        writes: whether to send a put that must fail.
    """
    try:
        listing, calls, region = _list_bucket(aws, bucket)
    except NotFound:
        return Probe(error=NO_BUCKET, cause="missing")
    except ResourceFailure as failure:
        return Probe(error=failure.message, cause="late" if isinstance(failure, (Throttled, TooSlow)) else "other")
    chosen = choose_keys(listing.keys, CALLS - calls)
    tried = tuple(try_key(aws, bucket, key) for key in chosen)
    put = try_put(aws, bucket, tried) if writes else None
    has_failed = bool(tried) and all(one.result == "failed" for one in tried)
    return Probe(listing, tried, put, region, tried[0].reason if has_failed else None)


def _list_bucket(aws: "AWSClients", bucket: str) -> tuple[Listing, int, str | None]:
    """List some keys. Return them, the number of calls, and the region."""
    first = list_page(aws, bucket)
    if isinstance(first, Refusal):
        under = list_page(aws, bucket, Prefix=QUILT)
        keys = under.keys if isinstance(under, Page) else ()
        listing = Listing(root=False, quilt=isinstance(under, Page), keys=keys, prefixes=_list_prefixes(keys))
        return listing, 2, first.region or under.region
    prefixes = _list_prefixes(first.keys)
    if not first.is_cut or len(prefixes) > 1 or prefixes == (ROOT,):
        listing = Listing(
            root=True,
            keys=first.keys,
            prefixes=prefixes,
            is_complete=not first.is_cut,
            has_all_keys=not first.is_cut,
        )
        return listing, 1, first.region
    second = list_page(aws, bucket, StartAfter=f"{prefixes[0]}{LAST_CHARACTER}")
    if isinstance(second, Refusal):
        return Listing(root=True, keys=first.keys, prefixes=prefixes), 2, first.region
    keys = first.keys + second.keys
    return Listing(root=True, keys=keys, prefixes=_list_prefixes(keys), is_complete=not second.is_cut), 2, first.region


def list_page(aws: "AWSClients", bucket: str, **parameters: object) -> Page | Refusal:
    """List one page of a bucket.

    Raises:
        ResourceFailure: S3 neither allowed nor refused it.
    """
    try:
        response: Response = aws.call("s3", "list_objects_v2", **{"Bucket": bucket, "MaxKeys": PAGE, **parameters})
    except RefusedByAWS as refusal:
        return Refusal(_find_region(getattr(refusal.__cause__, "response", {})))
    keys = tuple(Key(one["Key"], one.get("StorageClass") in ARCHIVES) for one in response.get("Contents", ()))
    prefixes = tuple(one["Prefix"] for one in response.get("CommonPrefixes", ()))
    return Page(keys, prefixes, bool(response.get("IsTruncated")), _find_region(response))


def _find_region(response: "Response") -> str | None:
    headers: Mapping[str, str] = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers.get(REGION_HEADER)


def _list_prefixes(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key.prefix for key in keys))


def choose_keys(keys: Iterable[Key], count: int) -> list[Key]:
    """Choose one key under each of several first-level prefixes: Quilt's own, then the data's, then the root.

    A single key is chosen from the data. An archived object and a key that ends with a slash, which often has no
    content, come last in their prefix.
    """
    best: dict[str, Key] = {}
    for key in sorted(keys, key=lambda one: (one.is_archived, one.name.endswith("/"))):
        best.setdefault(key.prefix, key)
    ranks = {QUILT: 0 if count > 1 else 3, ROOT: 2}
    return sorted(best.values(), key=lambda key: (ranks.get(key.prefix, 1), key.name))[:count]


def try_key(aws: "AWSClients", bucket: str, key: Key) -> TriedKey:
    """Ask for one object without its content.

    The content of an object under a KMS key needs the right to decrypt, and HeadObject alone does not. With the
    checksum mode S3 needs this right to return the checksum, so an answer without a checksum proves nothing.
    """
    try:
        response: Response = aws.call("s3", "head_object", Bucket=bucket, Key=key.name, ChecksumMode="ENABLED")
    except NotFound:
        return TriedKey(key, "missing")
    except RefusedByAWS:
        return TriedKey(key, "refused")
    except ResourceFailure as failure:
        return TriedKey(key, "failed", failure.message)
    is_under_kms = str(response.get("ServerSideEncryption", "")).startswith("aws:kms")
    has_checksum = any(name.startswith("Checksum") and name != "ChecksumType" for name in response)
    result: KeyResult = "unproven" if is_under_kms and not has_checksum else "read"
    if _is_archived(response):
        result = "archived"
    return TriedKey(key, result, is_under_kms=is_under_kms)


def _is_archived(response: "Response") -> bool:
    """Return whether an object must be restored before it can be read, and no restored copy exists."""
    is_restored = 'ongoing-request="false"' in response.get("Restore", "")
    return not is_restored and (response.get("StorageClass") in ARCHIVES or bool(response.get("ArchiveStatus")))


def try_put(aws: "AWSClients", bucket: str, tried: Iterable[TriedKey]) -> Put:
    """Send a put to a new key that S3 cannot carry out, because it requires an ETag that no object has.

    It is sent under a prefix in which a key was read: policies often allow only some prefixes.
    """
    readable = [one.key.prefix for one in tried if one.result == "read"]
    prefix = min(readable, key=lambda one: (one in (QUILT, ROOT), one == QUILT), default=ROOT)
    key = f"{prefix}.quilt-mcp-probe/{uuid.uuid4().hex}"
    try:
        aws.call("s3", "put_object", Bucket=bucket, Key=key, IfMatch=NO_SUCH_ETAG, Body=b"")
    except NotFound:
        return Put(prefix, is_allowed=True)
    except RefusedByAWS:
        return Put(prefix, is_allowed=False)
    except ResourceFailure as failure:
        if _find_status(failure) == HTTPStatus.PRECONDITION_FAILED:
            return Put(prefix, is_allowed=True)
        return Put(prefix, reason=failure.message)
    return Put(prefix, reason="S3 ignored the condition of the put and stored an empty object")


def _find_status(failure: ResourceFailure) -> int | None:
    response: Response = getattr(failure.__cause__, "response", {})
    status: int | None = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status
