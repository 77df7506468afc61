"""Rows of a list that are kept for a while: for one scope and one state of the database, never for another's."""

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import anyio
from cachetools import TLRUCache

PAGES = 256
"""How many pages are kept at most: those used last."""

T = TypeVar("T")


class PageCache(Generic[T]):
    """Keeps what was made for a key, and lets those who ask at the same time wait for one of them to make it.

    Args:
        seconds: tells how long a page is kept; asked when it is put in.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._pages: TLRUCache[Hashable, T] = TLRUCache(
            PAGES, ttu=lambda _, __, now: now + seconds(), timer=time.monotonic
        )
        self._locks: WeakValueDictionary[Hashable, anyio.Lock] = WeakValueDictionary()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[tuple[T, bool]]]) -> T:
        """The page of this key: a kept one, or what `make` gives, which tells also whether it may be kept."""
        lock = self._locks.setdefault(key, anyio.Lock())
        async with lock:  # a failed or cancelled maker lets the next in line make it
            if key in self._pages:
                return self._pages[key]
            page, may_be_kept = await make()
            if may_be_kept:
                self._pages[key] = page
            return page
