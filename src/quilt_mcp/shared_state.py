"""The Valkey or Redis that processes and machines share, and the sign-ins by way of an OpenID provider in it.

Imported by `runtime_context.py` and what it imports only, because it imports redis.
"""

from typing import Any

from key_value.aio.stores.redis import RedisStore
from key_value.aio.wrappers.encryption import FernetEncryptionWrapper
from key_value.aio.wrappers.prefix_collections import PrefixCollectionsWrapper
from key_value.aio.wrappers.ttl_clamp import TTLClampWrapper
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from quilt_mcp.errors import Unavailable
from quilt_mcp.http.lost_sign_ins import SignInsLostError, note_lost
from quilt_mcp.trace import note

STATE_SECONDS = 0.5
"""How long the shared state may take to connect, or to answer."""
CONNECTIONS = 32
QUEUE_SECONDS = 10.0
"""How long a request waits for one of them: in a rush the state is not down, but asked much."""
KEPT_SECONDS = 365 * 86_400.0
"""How long a client stays registered that FastMCP would keep for ever: anyone may register."""
_REDIS_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}


def open_pool(url: str, **options: bool) -> BlockingConnectionPool:
    """Connections to the shared state, none of which is made yet.

    Args:
        url: such as valkey://:password@host:6379/0; the client library knows only redis://, rediss:// and unix://.
        options: of each connection.
    """
    scheme, separator, place = url.partition("://")
    return BlockingConnectionPool.from_url(
        _REDIS_SCHEMES.get(scheme, scheme) + separator + place,
        max_connections=CONNECTIONS,
        timeout=QUEUE_SECONDS,
        socket_connect_timeout=STATE_SECONDS,
        socket_timeout=STATE_SECONDS,
        **options,
    )


class _WatchedRedis(Redis):
    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # of redis
        except RedisError as error:
            note("shared_state_failure")
            note_lost()
            kind = type(error).__name__  # its text may hold the address
            raise SignInsLostError(f"the shared state does not answer ({kind})") from None


class SharedSignIns(FernetEncryptionWrapper):
    """Clients that have registered, sign-ins under way and the tokens that came of them, for FastMCP's proxy.

    Any process that has the same secret can go on with what another has begun; the values are encrypted with it. What
    could be written there by others is not told from what this server wrote.

    Args:
        url: as for `open_pool`.
        secret: the one that this server has at the OpenID provider.
    """

    def __init__(self, url: str, secret: str) -> None:
        self._client = _WatchedRedis(connection_pool=open_pool(url, decode_responses=True))
        kept = TTLClampWrapper(RedisStore(client=self._client), 0, KEPT_SECONDS, missing_ttl=KEPT_SECONDS)
        super().__init__(
            PrefixCollectionsWrapper(kept, prefix="quilt-mcp"),
            source_material=secret,
            salt="quilt-mcp sign-ins",
            raise_on_decryption_error=False,  # after a change of the secret, clients register anew
        )

    async def check(self) -> None:
        """Ask the shared state for a sign of life.

        Raises:
            Unavailable: it gives none.
        """
        try:
            await self._client.ping()
        except SignInsLostError as lost:
            raise Unavailable("The shared state does not answer.", details=str(lost)) from lost

    async def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._client.connection_pool.disconnect()
