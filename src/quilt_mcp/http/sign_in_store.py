"""Stored sign-ins through an OpenID provider: encrypted, and for a limited time.

FastMCP would keep a registered client forever, and anyone can register. Here, a client that is not used to sign in is
forgotten after an hour.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import SupportsFloat

import fastmcp
from anyio import to_thread
from cryptography.fernet import Fernet
from fastmcp.server.auth.jwt_issuer import derive_jwt_key
from key_value.aio.protocols import AsyncKeyValue
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)
from key_value.aio.wrappers.encryption import FernetEncryptionWrapper
from key_value.aio.wrappers.ttl_clamp import TTLClampWrapper

CLIENTS = "mcp-oauth-proxy-clients"
"""FastMCP's collection of registered clients. A test fails if it has another name."""
UNUSED_SECONDS = 3600.0
"""The time in seconds for which a new client stays registered until its first sign-in."""
REGISTRATION_SECONDS = 365 * 86_400.0
"""How long a client stays registered after it was last used to sign in."""
SWEEP_SECONDS = 600.0


class SignInStore(FernetEncryptionWrapper):
    """A store of FastMCP's OpenID proxy: registered clients, sign-ins in progress, and their tokens.

    The values are encrypted. That does not detect values that somebody else with access to the store copied or deleted.

    Args:
        store: where to keep them.
        secret: to encrypt with. With another one, clients register again.
    """

    def __init__(self, store: AsyncKeyValue, secret: str) -> None:
        super().__init__(
            _ForgetUnusedClients(store, 0, REGISTRATION_SECONDS, missing_ttl=REGISTRATION_SECONDS),
            fernet=Fernet(derive_jwt_key(high_entropy_material=secret, salt="quilt-mcp sign-ins")),
            raise_on_decryption_error=False,
        )

    async def keep_client(self, client_id: str) -> None:
        """Keep a registered client for another year."""
        if found := await self.get(client_id, collection=CLIENTS):
            await self.put(client_id, found, collection=CLIENTS, ttl=REGISTRATION_SECONDS)


class LocalSignIns(SignInStore):
    """A store in files of this machine. Processes with the same `name` share it.

    Args:
        name: identifies the provider and the client at it.
        secret: as for SignInStore.
    """

    def __init__(self, name: str, secret: str) -> None:
        self._directory = fastmcp.settings.home / "oauth-proxy" / hashlib.sha256(name.encode()).hexdigest()[:12]
        self._directory.mkdir(parents=True, exist_ok=True)
        self._sweep_at = 0.0
        store = FileTreeStore(
            data_directory=self._directory,
            key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(self._directory),
            collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(self._directory),
        )
        super().__init__(store, secret)

    async def put(
        self,
        key: str,
        value: Mapping[str, object],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Store a value, and now and then delete the files of values that have expired."""
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_SECONDS
            await to_thread.run_sync(delete_expired, self._directory)
        await super().put(key, value, collection=collection, ttl=ttl)


def delete_expired(directory: Path) -> None:
    """Delete the files of values that have expired. The library only stops to return them."""
    now = datetime.now(UTC)
    for path in directory.rglob("*.json"):
        try:
            expires_at = json.loads(path.read_bytes()).get("expires_at")
            if expires_at and datetime.fromisoformat(expires_at) < now:
                path.unlink()
        except (OSError, ValueError):  # another process has deleted it, or is writing it
            continue


class _ForgetUnusedClients(TTLClampWrapper):
    async def put(
        self,
        key: str,
        value: Mapping[str, object],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        if collection == CLIENTS and ttl is None:
            ttl = UNUSED_SECONDS
        await super().put(key, value, collection=collection, ttl=ttl)
