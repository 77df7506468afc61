"""Probes of one bucket that try several first-level prefixes. They store nothing."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from quilt_mcp.core.errors import ResourceFailure, Unavailable
from quilt_mcp.services.bucket_claims import QUILT, ROOT, Key, Listing, Probe, TriedKey
from quilt_mcp.services.bucket_probes import Page, Refusal, list_page, try_key, try_put
from quilt_mcp.services.fan_out import NOT_IN_TIME, fan_out

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients

MOST_CALLS = 18
"""Two for the root, and two for each prefix. With a write probe there is one prefix less."""
FIRST_PAGE = 1000
PREFIX_PAGE = 100
"""Keys per prefix: enough to see several subfolders."""
MOST_KEYS = 5
"""Keys to try per prefix, if there are few prefixes."""


@dataclass(frozen=True)
class PrefixProbe:
    """One first-level prefix.

    Attributes:
        prefix: the prefix; "" for the objects at the root.
        is_listed: whether S3 allowed the list; None if the call failed.
        keys: the keys that were listed.
        is_cut: whether the prefix can have more keys.
        tried: the keys that were tried.
        reason: why the list failed.
    """

    prefix: str
    is_listed: bool | None
    keys: tuple[Key, ...] = ()
    is_cut: bool = True
    tried: tuple[TriedKey, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Survey:
    """All that S3 showed. `prefixes` are those that were tried."""

    probe: Probe
    prefixes: tuple[PrefixProbe, ...]

    @property
    def listing(self) -> Listing:
        """The results of the list calls."""
        return self.probe.listing or Listing(root=False)


def survey_bucket(aws: "AWSClients", bucket: str, *, writes: bool, seconds: float) -> Survey:
    """Find the caller's rights in one bucket, with at most MOST_CALLS calls.

    Args:
        aws: AWS in the caller's name.
        bucket: its name.
        writes: whether to send a put that must fail.
        seconds: the time limit for the prefixes.

    Raises:
        NotFound: there is no such bucket.
        ResourceFailure: S3 neither allowed nor refused the list.
    """
    root = list_page(aws, bucket, Delimiter="/", MaxKeys=FIRST_PAGE)
    at_root, prefixes = (root.keys, root.prefixes) if isinstance(root, Page) else ((), (QUILT,))
    most = (MOST_CALLS - 2 - writes) // 2
    names = sorted(prefixes, key=lambda one: (one != QUILT, one))
    chosen = [*names[:most], *([ROOT] if at_root else [])]
    spare = MOST_CALLS - 1 - writes - 2 * len(chosen) + bool(at_root)
    count = min(1 + spare // len(chosen), MOST_KEYS) if chosen else 0
    found = fan_out(partial(_try_prefix, aws, bucket, at_root, count), chosen, seconds=seconds)
    tried_prefixes = tuple(found[name] for name in chosen if name in found)
    if isinstance(root, Refusal) and (not tried_prefixes or tried_prefixes[0].is_listed is None):
        reason = tried_prefixes[0].reason if tried_prefixes else NOT_IN_TIME
        raise Unavailable(f"S3 refused the list of the root, and {QUILT} could not be listed.", details=reason)
    tried = tuple(key for one in tried_prefixes for key in one.tried)
    is_complete, is_open = isinstance(root, Page) and not root.is_cut, isinstance(root, Page)
    has_all_prefixes = len(tried_prefixes) == len(names) + bool(at_root)
    listing = Listing(
        root=is_open,
        quilt=any(one.is_listed for one in tried_prefixes if one.prefix == QUILT),
        keys=tuple(key for one in tried_prefixes for key in one.keys),
        prefixes=(*names, *([ROOT] if at_root else [])),
        is_complete=is_complete,
        has_all_keys=is_complete and has_all_prefixes and not any(one.is_cut for one in tried_prefixes),
        refused=tuple(one.prefix for one in tried_prefixes if is_open and one.is_listed is False),
    )
    put = try_put(aws, bucket, tried) if writes else None
    return Survey(Probe(listing, tried, put, root.region), tried_prefixes)


def _try_prefix(aws: "AWSClients", bucket: str, at_root: tuple[Key, ...], count: int, prefix: str) -> PrefixProbe:
    try:
        page = list_page(aws, bucket, Prefix=prefix, MaxKeys=PREFIX_PAGE) if prefix else None
    except ResourceFailure as failure:
        return PrefixProbe(prefix, None, reason=failure.message)
    if isinstance(page, Refusal):
        return PrefixProbe(prefix, is_listed=False)
    keys, is_cut = (page.keys, page.is_cut) if page else (at_root, False)
    tried = tuple(try_key(aws, bucket, key) for key in choose_spread(keys, count))
    return PrefixProbe(prefix, is_listed=True, keys=keys, is_cut=is_cut, tried=tried)


def choose_spread(keys: tuple[Key, ...], count: int) -> list[Key]:
    """Choose keys to try: first one of each folder, because policies often allow only some. Archived keys come last."""
    best: dict[str, Key] = {}
    likely = sorted(keys, key=lambda one: (one.is_archived, one.name.endswith("/")))
    for key in likely:
        best.setdefault(key.name.removesuffix("/").rpartition("/")[0], key)
    return list(dict.fromkeys([*best.values(), *likely]))[:count]
