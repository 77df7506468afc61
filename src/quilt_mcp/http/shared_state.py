"""The Valkey or Redis that processes and machines share, and the sign-ins through an OpenID provider in it.

admission.py and auth.py import this module on first use, because it imports redis.
"""

from collections.abc import Callable
from typing import Any

from key_value.aio.stores.redis import RedisStore
from key_value.aio.wrappers.prefix_collections import PrefixCollectionsWrapper
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.request_state import SignInStoreError, note_sign_in_failure
from quilt_mcp.http.sign_ins import SignInStore, hash_secret

STATE_SECONDS = 0.5
CONNECTIONS = 32
QUEUE_SECONDS = 10.0
"""How long a request waits for a connection. Many requests at once are not a failure of the shared state."""
CLAIM = "quilt-mcp:claimed:"
_REDIS_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}


def open_pool(
    url: str, *, seconds: float = STATE_SECONDS, connections: int = CONNECTIONS, decode_responses: bool = False
) -> BlockingConnectionPool:
    """Return a pool of connections to a URL such as valkey://:password@host:6379/0. It connects on first use.

    The client library knows redis://, rediss:// and unix:// only. The shared state may take so many seconds to connect,
    or to respond.
    """
    scheme, separator, address = url.partition("://")
    return BlockingConnectionPool.from_url(
        _REDIS_SCHEMES.get(scheme, scheme) + separator + address,
        max_connections=connections,
        timeout=QUEUE_SECONDS,
        socket_connect_timeout=seconds,
        socket_timeout=seconds,
        decode_responses=decode_responses,
    )


class _ReportingRedis(Redis):
    """Reports failures, and hides their texts."""

    failed: Callable[[], None]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # of redis
        except RedisError as error:
            self.failed()
            note_sign_in_failure()
            kind = type(error).__name__  # its text can contain the address
            raise SignInStoreError(f"the shared state does not respond ({kind})") from None


class SharedSignIns(SignInStore):
    """A store in Valkey. All processes with the same secret share it. It calls `failed` if Valkey does not respond."""

    def __init__(
        self, url: str, secret: str, failed: Callable[[], None] = lambda: None, *, connections: int = CONNECTIONS
    ) -> None:
        pool = open_pool(url, connections=connections, decode_responses=True)
        self._client = _ReportingRedis(connection_pool=pool)
        self._client.failed = failed
        super().__init__(PrefixCollectionsWrapper(RedisStore(client=self._client), prefix="quilt-mcp"), secret)

    async def claim(self, name: str, seconds: float) -> bool:
        return bool(await self._client.set(CLAIM + hash_secret(name), "", nx=True, px=round(seconds * 1000)))

    async def release(self, name: str) -> None:
        await self._client.delete(CLAIM + hash_secret(name))

    async def check(self) -> None:
        """Check that the shared state responds.

        Raises:
            Unavailable: it does not respond.
        """
        try:
            await self._client.ping()
        except SignInStoreError as error:
            raise Unavailable("The shared state does not respond.", details=str(error)) from error

    async def close(self) -> None:
        """Close the connections. The next use opens new ones."""
        await self._client.connection_pool.disconnect()
