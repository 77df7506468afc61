"""Sign-ins through an OpenID provider: FastMCP's proxy, with 503 while the provider fails, and a store that forgets.

The stored values are encrypted, and have a limited time. FastMCP would keep a registered client forever, and anyone can
register. Here, a client that is not used to sign in is forgotten after an hour.

auth.py imports this module on first use, because it imports authlib.
"""

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, SupportsFloat
from urllib.parse import urlsplit

import fastmcp
import httpx2
from anyio import to_thread
from cryptography.fernet import Fernet
from fastmcp.server.auth import OIDCProxy, TokenVerifier
from fastmcp.server.auth.jwt_issuer import derive_jwt_key
from fastmcp.server.auth.oauth_proxy.upstream import AsyncOAuth2Client, OAuthError
from fastmcp.server.auth.oidc_proxy import OIDCConfiguration
from key_value.aio.errors import DeserializationError, KeyValueStoreError
from key_value.aio.protocols import AsyncKeyValue
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)
from key_value.aio.wrappers.encryption import FernetEncryptionWrapper
from key_value.aio.wrappers.ttl_clamp import TTLClampWrapper
from mcp.server.auth.provider import AuthorizationCode, RefreshToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.routing import Route

from quilt_mcp.http.request_state import SignInStoreError, note_sign_in_failure
from quilt_mcp.http.tokens import ANSWER_BYTES, StrictJWTVerifier

logger = logging.getLogger(__name__)

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
            _ForgetUnusedClients(store, min_ttl=0, max_ttl=REGISTRATION_SECONDS, missing_ttl=REGISTRATION_SECONDS),
            fernet=Fernet(derive_jwt_key(high_entropy_material=secret, salt="quilt-mcp sign-ins")),
            raise_on_decryption_error=False,
        )

    async def keep_client(self, client_id: str) -> None:
        if found := await self.get(client_id, collection=CLIENTS):
            await self.put(client_id, found, collection=CLIENTS, ttl=REGISTRATION_SECONDS)


class LocalSignIns(SignInStore):
    """A store in files of this machine. Processes with the same `name`, of a provider and a client at it, share it."""

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


class _ForgetUnusedClients(TTLClampWrapper):
    async def put(
        self, key: str, value: Mapping[str, object], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        if collection == CLIENTS and ttl is None:
            ttl = UNUSED_SECONDS
        await super().put(key, value, collection=collection, ttl=ttl)


PROVIDER_SECONDS = 10.0
STORED_SECONDS = 0.5
"""How long a process may take to store the tokens that it has renewed."""
NO_VERDICT = {"invalid_client", "server_error", "temporarily_unavailable"}
"""Errors of the provider that say nothing about a sign-in. With the first, it does not accept the client secret."""
CLIENT_SCOPES = ("openid", "profile", "email", "offline_access")
"""Scopes that clients ask for, some of them always. They have no effect."""


class OpenIDProxy(OIDCProxy):
    """Signs callers in at an OpenID provider.

    Args:
        client_secret: of this server at the provider. It also signs this server's own tokens.
        options: as for FastMCP's proxy.
    """

    def __init__(self, *, store: SignInStore, client_id: str, client_secret: str, **options: Any) -> None:
        self.sign_ins = store
        self._credentials = (client_id, client_secret)
        self._renewals: dict[str, asyncio.Task[OAuthToken]] = {}
        required = options["required_scopes"]
        super().__init__(
            client_id=client_id,
            client_secret=client_secret,
            client_storage=store,
            valid_scopes=list(dict.fromkeys([*required, *CLIENT_SCOPES])),
            # without `openid`, a provider does not have to answer (OpenID Connect Core 1.0, 3.1.2.1)
            extra_authorize_params={"scope": " ".join(dict.fromkeys(["openid", *required]))},
            **options,
        )

    def get_oidc_configuration(self, config_url: AnyHttpUrl, *_: object) -> OIDCConfiguration:
        """Read the provider's metadata. FastMCP would read any number of bytes for any time."""
        until = time.monotonic() + PROVIDER_SECONDS
        content = bytearray()
        with httpx2.stream("GET", str(config_url), timeout=PROVIDER_SECONDS) as response:
            response.raise_for_status()
            for piece in response.iter_bytes():
                content += piece
                if len(content) > ANSWER_BYTES or time.monotonic() > until:
                    raise ValueError("it is too long, or takes too long")
        found = OIDCConfiguration.model_validate_json(content)
        expected = re.sub("(?<=://)[^/]*@", "", str(config_url)).removesuffix("/.well-known/openid-configuration")
        if str(found.issuer).rstrip("/") != expected.rstrip("/"):  # OpenID Connect Discovery 1.0, 4.3
            logger.warning("QUILT_MCP_OIDC_CONFIG_URL is of %s, but names the issuer %r", expected, str(found.issuer))
        return found

    def get_token_verifier(
        self,
        *,
        algorithm: str | None = None,
        audience: str | None = None,
        required_scopes: list[str] | None = None,
        timeout_seconds: int | None = None,  # noqa: ARG002 - of FastMCP
    ) -> TokenVerifier:
        self._verifier = StrictJWTVerifier(
            jwks_uri=str(self.oidc_config.jwks_uri),
            issuer=str(self.oidc_config.issuer),
            algorithm=algorithm,
            audience=audience,
            required_scopes=required_scopes,
        )
        return self._verifier

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes, also the one where clients look for the metadata of an issuer with a path (RFC 8414)."""
        routes, path = super().get_routes(mcp_path), urlsplit(str(self.issuer_url)).path.rstrip("/")
        known = [one for one in routes if path and one.path == "/.well-known/oauth-authorization-server"]
        return [*routes, *(Route(one.path + path, one.endpoint, methods=["GET", "OPTIONS"]) for one in known)]

    async def check_issuer(self) -> None:
        await self._verifier.check_issuer()

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        token = await super().exchange_authorization_code(client, authorization_code)
        await self.sign_ins.keep_client(str(client.client_id))
        return token

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Renew a sign-in, once for concurrent requests: providers end it if their refresh token is used twice."""
        key = refresh_token.token
        if key not in self._renewals:
            self._renewals[key] = asyncio.create_task(super().exchange_refresh_token(client, refresh_token, scopes))
            self._renewals[key].add_done_callback(lambda _: self._renewals.pop(key))
        token = await asyncio.shield(self._renewals[key])
        await self.sign_ins.keep_client(str(client.client_id))
        return token

    def _prepare_scopes_for_upstream_refresh(self, _: list[str]) -> list[str]:
        """Return no scopes, so that the provider keeps those of the sign-in. The client's mean nothing there."""
        return []

    def _create_upstream_oauth_client(self) -> AsyncOAuth2Client:
        return _ProviderClient(*self._credentials, timeout=PROVIDER_SECONDS)


class _ProviderClient(AsyncOAuth2Client):
    """Lets requests get 503 if the provider says nothing about the sign-in. FastMCP would refuse them for good."""

    def __init__(self, client_id: str, client_secret: str, **options: Any) -> None:
        super().__init__(client_id, client_secret, **options)
        self._client.event_hooks = {"response": [_check_answer]}

    async def fetch_token(
        self, url: str, *, grant_type: str = "authorization_code", **params: object
    ) -> dict[str, object]:
        with _noting_failures():
            return await super().fetch_token(url, grant_type=grant_type, **params)

    async def refresh_token(self, url: str, *, refresh_token: str | None = None, **params: object) -> dict[str, object]:
        try:
            with _noting_failures():
                return await super().refresh_token(url, refresh_token=refresh_token, **params)
        except OAuthError as error:
            # another process may have used it just now: FastMCP then looks for what that one stores
            await asyncio.sleep(STORED_SECONDS)
            # FastMCP has an answer only for this error, and a traceback for others, such as interaction_required
            raise OAuthError("invalid_grant", error.description) from error


async def _check_answer(response: httpx2.Response) -> None:
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        response.raise_for_status()
    try:
        answer = json.loads(await response.aread())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not (isinstance(answer, dict) and ("error" in answer or isinstance(answer.get("access_token"), str))):
        raise ValueError("neither tokens nor an error")


@contextmanager
def _noting_failures() -> Iterator[None]:
    try:
        yield
    except OAuthError as error:
        if error.error not in NO_VERDICT:
            raise
        reason = str(error.error)
    except (httpx2.HTTPError, ValueError) as error:  # a ValueError if it returns no JSON
        reason = type(error).__name__
    else:
        return
    note_sign_in_failure()
    raise SignInStoreError(f"The OpenID provider returned no tokens ({reason}).")
