"""What S3 shows of the caller's rights in a bucket.

The calls store nothing, and ask only for keys that S3 has listed: HeadObject of a missing key would prove little,
because without the right to list, S3 answers like for a forbidden key.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from quilt_mcp.core.errors import NotFound, ResourceFailure, Unavailable
from quilt_mcp.services.parallel_calls import NOT_IN_TIME, fan_out
from quilt_mcp.services.stack.failures import ConditionNotMet, RefusedByAWS, Throttled, TooSlow

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients, Response

KeyResult = Literal["read", "refused", "unproven", "archived", "missing", "failed"]
Cause = Literal["missing", "late", "other"]
"""Why a bucket was not listed: there is none, S3 was too busy or there was no time, or anything else."""

QUILT = ".quilt/"
ROOT = ""
CALLS = 4
"""The most calls of a brief probe, without the write probe."""
MOST_CALLS = 18
"""The same of a thorough one: two for the root, and two for each prefix. A write probe takes the place of a prefix."""
PAGE = 5
"""Keys per list. Each costs 0.1 ms of CPU in botocore, and `.quilt/` comes first and often has thousands of keys."""
FIRST_PAGE, PREFIX_PAGE = 1000, 100
"""The same in a thorough probe, for the root and for a prefix: enough to see several subfolders."""
MOST_KEYS = 5
"""Keys to try per prefix, if there are few prefixes."""
LAST_CHARACTER = "\U0010ffff"
NO_SUCH_ETAG = '"00000000000000000000000000000000"'
REGION_HEADER = "x-amz-bucket-region"
ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
NO_BUCKET = "S3 has no such bucket."


class Key(NamedTuple):
    """A key that S3 listed."""

    name: str
    is_archived: bool = False

    @property
    def prefix(self) -> str:
        """The first-level prefix, such as `data/`; empty for a key at the root."""
        first, slash, _ = self.name.partition("/")
        return first + slash if slash else ROOT


class BucketListing(NamedTuple):
    """The results of the list calls.

    Attributes:
        root: whether S3 allowed the list of the root.
        quilt: whether S3 allowed the list under .quilt/, which is tried if it refused the list of the root.
        prefixes: the first-level prefixes that are known to exist; the root is "".
        is_complete: whether these are all first-level prefixes of the bucket.
        has_all_keys: whether `keys` are all keys of the bucket.
        refused: the prefixes that S3 refused to list, although it listed the root.
    """

    root: bool
    quilt: bool = False
    keys: tuple[Key, ...] = ()
    prefixes: tuple[str, ...] = ()
    is_complete: bool = False
    has_all_keys: bool = False
    refused: tuple[str, ...] = ()


class TriedKey(NamedTuple):
    """An object that was asked for. `reason` says why the call failed."""

    key: Key
    result: KeyResult
    reason: str | None = None
    is_under_kms: bool = False


class Put(NamedTuple):
    """A put that must fail: where it was sent, whether S3 allowed it, and why it failed in another way."""

    prefix: str
    is_allowed: bool | None = None
    reason: str | None = None


class Probe(NamedTuple):
    """All that S3 showed about one bucket. `listing` is None if it was not listed; `error` and `cause` say why."""

    listing: BucketListing | None = None
    tried: tuple[TriedKey, ...] = ()
    put: Put | None = None
    region: str | None = None
    error: str | None = None
    cause: Cause = "late"


class KeyPage(NamedTuple):
    """A page of a list. `region` is the bucket's."""

    keys: tuple[Key, ...]
    prefixes: tuple[str, ...]
    is_cut: bool
    region: str | None


class RefusedList(NamedTuple):
    """A list that S3 refused."""

    region: str | None


def probe_bucket(aws: "AWSClients", bucket: str, *, writes: bool) -> Probe:
    """Find the caller's rights in one bucket, with few calls. `writes`: whether to send a put that must fail."""
    try:
        listing, calls, region = _list_bucket(aws, bucket)
    except NotFound:
        return Probe(error=NO_BUCKET, cause="missing")
    except ResourceFailure as failure:
        return Probe(error=failure.message, cause="late" if isinstance(failure, (Throttled, TooSlow)) else "other")
    tried = tuple(try_key(aws, bucket, key) for key in choose_keys(listing.keys, CALLS - calls))
    put = try_put(aws, bucket, tried) if writes else None
    has_failed = bool(tried) and all(key.result == "failed" for key in tried)
    return Probe(listing, tried, put, region, tried[0].reason if has_failed else None)


def _list_bucket(aws: "AWSClients", bucket: str) -> tuple[BucketListing, int, str | None]:
    """List some keys. Return them, the number of calls, and the region."""
    first = list_page(aws, bucket)
    if isinstance(first, RefusedList):
        under = list_page(aws, bucket, Prefix=QUILT)
        keys = under.keys if isinstance(under, KeyPage) else ()
        listing = BucketListing(root=False, quilt=isinstance(under, KeyPage), keys=keys, prefixes=_list_prefixes(keys))
        return listing, 2, first.region or under.region
    prefixes = _list_prefixes(first.keys)
    if not first.is_cut or len(prefixes) != 1 or prefixes == (ROOT,):  # a page can be empty, although there are more
        listing = BucketListing(
            root=True, keys=first.keys, prefixes=prefixes, is_complete=not first.is_cut, has_all_keys=not first.is_cut
        )
        return listing, 1, first.region
    second = list_page(aws, bucket, StartAfter=f"{prefixes[0]}{LAST_CHARACTER}")
    if isinstance(second, RefusedList):
        return BucketListing(root=True, keys=first.keys, prefixes=prefixes), 2, first.region
    keys = first.keys + second.keys
    return (
        BucketListing(root=True, keys=keys, prefixes=_list_prefixes(keys), is_complete=not second.is_cut),
        2,
        first.region,
    )


def list_page(aws: "AWSClients", bucket: str, **parameters: object) -> KeyPage | RefusedList:
    try:
        response: Response = aws.call("s3", "list_objects_v2", **{"Bucket": bucket, "MaxKeys": PAGE, **parameters})
    except RefusedByAWS as refusal:
        return RefusedList(find_region(getattr(refusal.__cause__, "response", {})))
    keys = tuple(Key(item["Key"], item.get("StorageClass") in ARCHIVES) for item in response.get("Contents", ()))
    prefixes = tuple(item["Prefix"] for item in response.get("CommonPrefixes", ()))
    return KeyPage(keys, prefixes, bool(response.get("IsTruncated")), find_region(response))


def find_region(response: "Response") -> str | None:
    """Return the region of the bucket, as S3 names it in a response."""
    headers: Mapping[str, str] = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers.get(REGION_HEADER)


def _list_prefixes(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key.prefix for key in keys))


def choose_keys(keys: Iterable[Key], count: int) -> list[Key]:
    """Choose one key under each of several first-level prefixes: Quilt's own, then the data's, then the root.

    A single key is chosen from the data.
    """
    best = _choose_best(_sort_likely(keys), lambda key: key.prefix)
    ranks = {QUILT: 0 if count > 1 else 3, ROOT: 2}
    return sorted(best, key=lambda key: (ranks.get(key.prefix, 1), key.name))[:count]


def choose_spread(keys: Iterable[Key], count: int) -> list[Key]:
    """Choose keys of one prefix: first one of each folder, because policies often allow only some."""
    likely = _sort_likely(keys)
    best = _choose_best(likely, lambda key: key.name.removesuffix("/").rpartition("/")[0])
    return list(dict.fromkeys([*best, *likely]))[:count]


def _sort_likely(keys: Iterable[Key]) -> list[Key]:
    """Return the keys, with archived objects and those that end with a slash last, which often have no content."""
    return sorted(keys, key=lambda key: (key.is_archived, key.name.endswith("/")))


def _choose_best(keys: Iterable[Key], get_place: Callable[[Key], str]) -> list[Key]:
    best: dict[str, Key] = {}
    for key in keys:
        best.setdefault(get_place(key), key)
    return list(best.values())


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
    readable = [tried_key.key.prefix for tried_key in tried if tried_key.result == "read"]
    prefix = min(readable, key=lambda prefix: (prefix in (QUILT, ROOT), prefix == QUILT), default=ROOT)
    key = f"{prefix}.quilt-mcp-probe/{uuid.uuid4().hex}"
    try:
        aws.call("s3", "put_object", Bucket=bucket, Key=key, IfMatch=NO_SUCH_ETAG, Body=b"")
    except (NotFound, ConditionNotMet):
        return Put(prefix, is_allowed=True)
    except RefusedByAWS:
        return Put(prefix, is_allowed=False)
    except ResourceFailure as failure:
        return Put(prefix, reason=failure.message)
    return Put(prefix, reason="S3 ignored the condition of the put and stored an empty object")


class PrefixProbe(NamedTuple):
    """One first-level prefix; "" for the objects at the root.

    Attributes:
        is_listed: whether S3 allowed the list; None if the call failed, for a `reason`.
        is_cut: whether the prefix can have more keys than those that were listed.
    """

    prefix: str
    is_listed: bool | None
    keys: tuple[Key, ...] = ()
    is_cut: bool = True
    tried: tuple[TriedKey, ...] = ()
    reason: str | None = None


class Survey(NamedTuple):
    """All that S3 showed. `prefixes` are those that were tried."""

    probe: Probe
    listing: BucketListing
    prefixes: tuple[PrefixProbe, ...]


def survey_bucket(aws: "AWSClients", bucket: str, *, writes: bool, seconds: float) -> Survey:
    """Find the caller's rights in one bucket, prefix by prefix, for which `seconds` is the time limit.

    Raises:
        NotFound: there is no such bucket.
        ResourceFailure: S3 neither allowed nor refused the list.
    """
    root = list_page(aws, bucket, Delimiter="/", MaxKeys=FIRST_PAGE)
    at_root, prefixes = (root.keys, root.prefixes) if isinstance(root, KeyPage) else ((), (QUILT,))
    most = (MOST_CALLS - 2 - writes) // 2
    names = sorted(prefixes, key=lambda prefix: (prefix != QUILT, prefix))
    chosen = [*names[:most], *([ROOT] if at_root else [])]
    spare = MOST_CALLS - 1 - writes - 2 * len(chosen) + bool(at_root)
    count = min(1 + spare // len(chosen), MOST_KEYS) if chosen else 0
    found = fan_out(partial(_try_prefix, aws, bucket, at_root, count), chosen, seconds=seconds)
    tried_prefixes = tuple(found[name] for name in chosen if name in found)
    if isinstance(root, RefusedList) and (not tried_prefixes or tried_prefixes[0].is_listed is None):
        reason = tried_prefixes[0].reason if tried_prefixes else NOT_IN_TIME
        raise Unavailable(f"S3 refused the list of the root, and {QUILT} could not be listed.", details=reason)
    tried = tuple(key for probed in tried_prefixes for key in probed.tried)
    is_complete, is_open = isinstance(root, KeyPage) and not root.is_cut, isinstance(root, KeyPage)
    has_all_prefixes = len(tried_prefixes) == len(names) + bool(at_root)
    listing = BucketListing(
        root=is_open,
        quilt=any(probed.is_listed for probed in tried_prefixes if probed.prefix == QUILT),
        keys=tuple(key for probed in tried_prefixes for key in probed.keys),
        prefixes=(*names, *([ROOT] if at_root else [])),
        is_complete=is_complete,
        has_all_keys=is_complete and has_all_prefixes and not any(probed.is_cut for probed in tried_prefixes),
        refused=tuple(probed.prefix for probed in tried_prefixes if is_open and probed.is_listed is False),
    )
    put = try_put(aws, bucket, tried) if writes else None
    return Survey(Probe(listing, tried, put, root.region), listing, tried_prefixes)


def _try_prefix(aws: "AWSClients", bucket: str, at_root: tuple[Key, ...], count: int, prefix: str) -> PrefixProbe:
    try:
        page = list_page(aws, bucket, Prefix=prefix, MaxKeys=PREFIX_PAGE) if prefix else None
    except ResourceFailure as failure:
        return PrefixProbe(prefix, None, reason=failure.message)
    if isinstance(page, RefusedList):
        return PrefixProbe(prefix, is_listed=False)
    keys, is_cut = (page.keys, page.is_cut) if page else (at_root, False)
    tried = tuple(try_key(aws, bucket, key) for key in choose_spread(keys, count))
    return PrefixProbe(prefix, is_listed=True, keys=keys, is_cut=is_cut, tried=tried)
