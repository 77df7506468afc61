"""`resources/list`, page by page: what a server has in memory, merged with what its providers read from a database.

Each provider owns the URIs that begin with its prefix: one interval of all URIs in their order. A page asks only the
providers whose interval it reaches, each for no more rows than the page still lacks, and each row by the key that
follows the last one answered: a page costs the same at any depth. What is inserted or deleted elsewhere meanwhile
makes no row appear twice or go missing.
"""

import logging
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Protocol

import anyio
from mcp_types import Resource

from quilt_mcp import cursors
from quilt_mcp.errors import ResourceFailure, Unavailable
from quilt_mcp.page_cache import PageCache
from quilt_mcp.trace import Read

logger = logging.getLogger(__name__)

Translate = Callable[[Exception], ResourceFailure | None]


async def _unknown() -> int:
    return 0


class ListingProvider(Protocol):
    """Lists the resources of one interval of URIs."""

    @property
    def name(self) -> str:
        """Names it in logs, metrics and `_meta`."""

    @property
    def prefix(self) -> str:
        """What each of its URIs begins with; no other provider's do."""

    async def page(self, after: str, limit: int, scope: Any) -> list[Resource]:
        """At most `limit` resources in the order of their URIs: those whose URI without the prefix follows `after`."""


@dataclass(frozen=True)
class Page:
    """One page of the list.

    Attributes:
        resources: in the order of their URIs.
        next_cursor: where the list goes on; None at its end.
        failed: the names of the providers that are left out.
    """

    resources: list[Resource]
    next_cursor: str | None
    failed: list[str]


class Listing:
    """The providers of a server, and how their pages become the list's.

    Args:
        providers: with disjoint intervals.
        scope: tells what the caller of the request may see: a hashable value for the providers, or a failure.
        page_size: tells how many resources are on a page.
        seconds: tells how long a provider may take.
        translate: turns an exception of a foreign library into a ResourceFailure, or answers None: a bug, let through.
        cache: keeps rows of the database, where it is given.
        is_cached: tells whether it is to be used now.
        generation: tells the state of the database: a number that changes with every write.

    Raises:
        ValueError: two intervals overlap.
    """

    def __init__(  # noqa: PLR0913 - all but the providers are keyword-only
        self,
        providers: Sequence[ListingProvider],
        *,
        scope: Callable[[], Awaitable[Any]],
        page_size: Callable[[], int],
        seconds: Callable[[], float],
        translate: Translate,
        cache: PageCache[list[Resource]] | None = None,
        is_cached: Callable[[], bool] = lambda: False,
        generation: Callable[[], Awaitable[int]] = _unknown,
    ) -> None:
        self._providers = sorted(providers, key=lambda provider: provider.prefix)
        for one, following in zip(self._providers, self._providers[1:], strict=False):
            if _end(one.prefix) > following.prefix:
                raise ValueError(f"{one.name} and {following.name} own the same URIs")
        self._scope = scope
        self._page_size = page_size
        self._seconds = seconds
        self._translate = translate
        self._cache = cache
        self._is_cached = is_cached
        self._generation = generation

    async def page(self, cursor: str | None, static: Sequence[Resource], read: Read) -> Page:
        """The page at a cursor, or the first one.

        Raises:
            InvalidTemplateVariable: the cursor is not one of this list and caller.
            Unavailable: none of the providers that the page reaches could answer.
        """
        scope = await self._scope()
        tag = cursors.tag_of("resources/list", scope)
        after = cursors.decode(cursor, tag) if cursor else ""
        size = self._page_size()
        rows = await self._kept_rows(after, size + 1, scope, read)
        ordered = sorted(static, key=_uri)
        following = ordered[bisect_right(ordered, after, key=_uri) :]
        found = list(merge(rows, following[: size + 1], key=_uri))
        more = len(found) > size
        return Page(found[:size], cursors.encode(_uri(found[size - 1]), tag) if more else None, read.failed)

    async def _kept_rows(self, after: str, wanted: int, scope: Any, read: Read) -> list[Resource]:
        if self._cache is None or not self._is_cached():
            return await self._rows(after, wanted, scope, read)

        async def make() -> tuple[list[Resource], bool]:
            read.cache = "miss"
            return await self._rows(after, wanted, scope, read), not read.failed

        key = (scope, await self._generation(), after, wanted)
        read.cache = "hit"  # unless it has to be made
        return await self._cache.get(key, make)

    async def _rows(self, after: str, wanted: int, scope: Any, read: Read) -> list[Resource]:
        """The next rows of the database; fewer than wanted at the end of its intervals, or where a provider failed."""
        rows: list[Resource] = []
        reached = [provider for provider in self._providers if after < _end(provider.prefix)]
        for provider in reached:
            key = after.removeprefix(provider.prefix) if after.startswith(provider.prefix) else ""
            rows += await self._guarded(provider, key, wanted - len(rows), scope, read)
            if len(rows) >= wanted:
                break
        if reached and len(read.failed) == len(reached):
            raise Unavailable("The list cannot be read now.", details=f"No answer from {', '.join(read.failed)}")
        return rows

    async def _guarded(
        self, provider: ListingProvider, after: str, limit: int, scope: Any, read: Read
    ) -> list[Resource]:
        """The provider's rows; none where it fails, which is noted, or takes too long."""
        started = time.perf_counter()
        try:
            with anyio.fail_after(self._seconds()):
                return await provider.page(after, limit, scope)
        except Exception as error:  # one that is ours, foreign or a time limit; a bug goes on
            failure = error if isinstance(error, ResourceFailure | TimeoutError) else self._translate(error)
            if failure is None:
                raise
            logger.warning(
                "%s is left out: %s, correlation_id=%s", provider.name, type(failure).__name__, read.correlation_id
            )
            read.failed.append(provider.name)
            return []
        finally:
            read.providers[provider.name] = time.perf_counter() - started


def _uri(resource: Resource) -> str:
    return str(resource.uri)


def _end(prefix: str) -> str:
    """The least text that is greater than every text with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
