"""The Valkey or Redis that processes and machines share, and the sign-ins by way of an OpenID provider in it.

Imported by `runtime_context.py` and what it imports only, because it imports redis.
"""

from key_value.aio.stores.redis import RedisStore
from key_value.aio.wrappers.encryption import FernetEncryptionWrapper
from key_value.aio.wrappers.prefix_collections import PrefixCollectionsWrapper
from redis.asyncio import BlockingConnectionPool, Redis

STATE_SECONDS = 0.5
"""How long the shared state may take to connect, or to answer."""
CONNECTIONS = 32
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
        timeout=STATE_SECONDS,
        socket_connect_timeout=STATE_SECONDS,
        socket_timeout=STATE_SECONDS,
        **options,
    )


class SharedSignIns(FernetEncryptionWrapper):
    """Clients that have registered, sign-ins under way and the tokens that came of them, for FastMCP's proxy.

    Any process that has the same secret can go on with what another has begun; what is kept is encrypted with it.

    Args:
        url: as for `open_pool`.
        secret: the one that this server has at the OpenID provider.
    """

    def __init__(self, url: str, secret: str) -> None:
        self._pool = open_pool(url, decode_responses=True)
        kept = PrefixCollectionsWrapper(RedisStore(client=Redis(connection_pool=self._pool)), prefix="quilt-mcp")
        super().__init__(
            kept,
            source_material=secret,
            salt="quilt-mcp sign-ins",
            raise_on_decryption_error=False,  # after a change of the secret, clients register anew
        )

    async def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._pool.disconnect()
