"""Who may read now: each identity so often, and so much at once. The person at this machine is never limited.

A request over HTTP is counted before its body is read, by quilt_mcp/http/rate_limit.py; a read that comes another way
is counted here. How many reads of an identity are under way is known to each process for itself.
"""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from fastmcp.server.dependencies import get_http_request

from quilt_mcp import identity, runtime_context
from quilt_mcp.errors import TooManyRequests
from quilt_mcp.identity import Identity
from quilt_mcp.trace import Read, note

COUNTED = "quilt_mcp.counted"
"""The key in a request's ASGI scope that says that it has been counted."""

_under_way: Counter[str] = Counter()
"""Of each identity, as long as it has any: it is bounded by how many reads this process serves at once."""


@asynccontextmanager
async def admitted(read: Read) -> AsyncIterator[None]:
    """Let a read of the caller of this request run.

    Raises:
        TooManyRequests: the caller has to wait.
        NotSignedIn: as `identity.current`.
    """
    who = identity.current()
    if who.is_local:
        yield
        return
    read.caller = short_hash(who)
    if not _is_counted():
        await admit_identity(who)
    with _one_more(who):
        yield


async def admit_identity(who: Identity) -> None:
    """Count a request of this identity.

    Raises:
        TooManyRequests: it has to wait.
    """
    if who.is_local or runtime_context.settings().is_unlimited:
        return
    wait = await runtime_context.rate_limiter().hit(who.key)
    if wait:
        note("rate_limit")
        raise TooManyRequests(
            "You ask too often.",
            retry_after_seconds=wait,
            details=f"at most {runtime_context.settings().rate_limit}",
        )


def short_hash(who: Identity) -> str:
    """What stands for an identity in the log: it tells callers apart, and names none.

    Who knows the issuer and the subject can find their lines with it.
    """
    return hashlib.sha256(who.key.encode()).hexdigest()[:12]


def _is_counted() -> bool:
    try:
        return COUNTED in get_http_request().scope
    except RuntimeError:  # not over HTTP
        return False


@contextmanager
def _one_more(who: Identity) -> Iterator[None]:
    most = runtime_context.settings().concurrent_reads
    if most and _under_way[who.key] >= most:
        note("concurrency_limit")
        raise TooManyRequests("You read too much at once.", retry_after_seconds=1, details=f"at most {most} reads")
    _under_way[who.key] += 1
    try:
        yield
    finally:
        _under_way[who.key] -= 1
        if not _under_way[who.key]:
            del _under_way[who.key]
