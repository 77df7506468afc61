"""The store of sign-ins through an OpenID provider: registered clients, sign-ins in progress, and their tokens.

The values are encrypted, and have a limited time. FastMCP would keep a registered client forever, and anyone can
register. Here, a client that is not used to sign in is forgotten after an hour.

What may happen once in all processes takes a place first: `claim` is atomic. openid.py imports this module, because it
imports cryptography.
"""

import asyncio
import hashlib
import json
import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, SupportsFloat

import fastmcp
from anyio import CancelScope, to_thread
from cryptography.fernet import Fernet
from fastmcp.server.auth.jwt_issuer import derive_jwt_key
from key_value.aio.errors import DeserializationError, KeyValueStoreError
from key_value.aio.protocols import AsyncKeyValue
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)
from key_value.aio.wrappers.encryption import FernetEncryptionWrapper
from key_value.aio.wrappers.ttl_clamp import TTLClampWrapper

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.http.request_state import SignInStoreError, note_sign_in_failure

logger = logging.getLogger(__name__)

CLIENTS = "mcp-oauth-proxy-clients"
"""FastMCP's collection of registered clients. A test fails if it has another name."""
UNUSED_SECONDS = 3600.0
"""The time in seconds for which a new client stays registered until its first sign-in."""
REGISTRATION_SECONDS = 365 * 86_400.0
"""How long a client stays registered after it was last used to sign in."""
SWEEP_SECONDS = 600.0
ANSWERS = "quilt-mcp-answers"
"""The collection of answers that are repeated for a moment."""
REPEAT_SECONDS = 60.0
"""How long a token that was used gets the same answer, for lost answers, two tabs, two workers (RFC 9700, 4.14.2)."""
TURN_SECONDS = 30.0
"""How long a process keeps the others waiting at most: longer than it may wait for the provider."""
POLL_SECONDS = 0.05
CLAIMED = "claimed"
"""The folder of the files of claims."""


class SignInStore(FernetEncryptionWrapper):
    """A store of FastMCP's OpenID proxy: registered clients, sign-ins in progress, and their tokens.

    The values are encrypted. That does not detect values that somebody else with access to the store copied or deleted.

    Args:
        store: where to keep them.
        secret: to encrypt with. With another one, clients register again.
        repeat_seconds: how long a token that was used gets the same answer.
    """

    def __init__(self, store: AsyncKeyValue, secret: str, *, repeat_seconds: float = REPEAT_SECONDS) -> None:
        self._repeat_seconds = repeat_seconds
        super().__init__(
            _ForgetUnusedClients(store, min_ttl=0, max_ttl=REGISTRATION_SECONDS, missing_ttl=REGISTRATION_SECONDS),
            fernet=Fernet(derive_jwt_key(high_entropy_material=secret, salt="quilt-mcp sign-ins")),
            raise_on_decryption_error=False,
        )

    @abstractmethod
    async def claim(self, name: str, seconds: float) -> bool:
        """Take a name, which nobody else can take for this time. Return whether it was free."""

    @abstractmethod
    async def release(self, name: str) -> None:
        """Let others take a name again."""

    async def find_answer(self, name: str) -> JSONObject | None:
        """Return the answer of a moment ago."""
        return await self.get(hash_secret(name), collection=ANSWERS)

    async def wait_for_answer(self, name: str) -> JSONObject | None:
        """Return the answer of a moment ago, after the turn of the process that makes it now."""
        await self._take_turn(name)
        try:
            return await self.find_answer(name)
        finally:
            await self._end_turn(name)

    async def forget_answer(self, name: str) -> None:
        await self.delete(hash_secret(name), collection=ANSWERS)

    async def answer_once(
        self,
        name: str,
        make: Callable[[], Awaitable[JSONObject]],
        is_final: Callable[[JSONObject], bool] = lambda _: True,
    ) -> JSONObject:
        """Return the answer for a name: that of a moment ago, in any process, else what `make` returns.

        Processes take turns. If the one that makes the answer ends, the next one makes it after TURN_SECONDS.

        Args:
            name: contains a secret, of which only a hash is stored.
            make: makes the answer.
            is_final: whether the answer stays the same, so that it may be repeated.
        """
        await self._take_turn(name)
        try:
            if answer := await self.find_answer(name):
                return answer
            answer = await make()
            if is_final(answer):
                await self.put(hash_secret(name), answer, collection=ANSWERS, ttl=self._repeat_seconds)
            return answer
        finally:  # no context manager: a TokenError of the MCP library is frozen, and contextlib sets its traceback
            await self._end_turn(name)

    async def _take_turn(self, name: str) -> None:
        until = time.monotonic() + TURN_SECONDS
        while not await self.claim(f"turn:{name}", TURN_SECONDS):
            if time.monotonic() > until:
                raise SignInStoreError("Another process does not finish its turn.")
            await asyncio.sleep(POLL_SECONDS)

    async def _end_turn(self, name: str) -> None:
        with CancelScope(shield=True):
            await self.release(f"turn:{name}")

    async def keep_client(self, client_id: str) -> None:
        if found := await self.get(client_id, collection=CLIENTS):
            await self.put(client_id, found, collection=CLIENTS, ttl=REGISTRATION_SECONDS)


class LocalSignIns(SignInStore):
    """A store in files of this machine. Processes with the same `name`, of a provider and a client at it, share it."""

    def __init__(self, name: str, secret: str, *, repeat_seconds: float = REPEAT_SECONDS) -> None:
        self._directory = fastmcp.settings.home / "oauth-proxy" / hashlib.sha256(name.encode()).hexdigest()[:12]
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep_at = 0.0
        store = FileTreeStore(
            data_directory=self._directory,
            key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(self._directory),
            collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(self._directory),
        )
        super().__init__(store, secret, repeat_seconds=repeat_seconds)

    async def claim(self, name: str, seconds: float) -> bool:
        with _noting_failing_files():
            return await to_thread.run_sync(self._claim, self._find_claim(name), seconds)

    async def release(self, name: str) -> None:
        with _noting_failing_files():
            await to_thread.run_sync(lambda: self._find_claim(name).unlink(missing_ok=True))

    def _find_claim(self, name: str) -> Path:
        return self._directory / CLAIMED / hash_secret(name)

    def _claim(self, path: Path, seconds: float) -> bool:
        path.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            if path.stat().st_mtime + seconds < time.time():  # whoever took it has ended
                path.unlink()
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """Return a value; None also if its file is damaged, as if it had another secret."""
        with _noting_failing_files():
            try:
                return await super().get(key, collection=collection)
            except (DeserializationError, UnicodeDecodeError):
                return None

    async def put(
        self, key: str, value: Mapping[str, object], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Store a value, and now and then delete the files of values that have expired."""
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_SECONDS
            await to_thread.run_sync(delete_expired, self._directory)
        with _noting_failing_files():
            await super().put(key, value, collection=collection, ttl=ttl)


@contextmanager
def _noting_failing_files() -> Iterator[None]:
    try:
        yield
    except (OSError, SystemError, KeyValueStoreError) as error:  # the library raises a SystemError for a full disk
        logger.error("the sign-ins cannot be read or stored: %s", error)  # noqa: TRY400 - the message is the reason
        note_sign_in_failure()
        raise SignInStoreError("The files of the sign-ins cannot be used.") from None


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
    for path in (directory / CLAIMED).glob("*"):
        with suppress(OSError):
            if path.stat().st_mtime + UNUSED_SECONDS < now.timestamp():
                path.unlink()


def hash_secret(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _ForgetUnusedClients(TTLClampWrapper):
    async def put(
        self, key: str, value: Mapping[str, object], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        if collection == CLIENTS and ttl is None:
            ttl = UNUSED_SECONDS
        await super().put(key, value, collection=collection, ttl=ttl)
