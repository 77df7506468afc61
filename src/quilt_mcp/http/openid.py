"""Sign-ins through an OpenID provider: FastMCP's proxy, with 503 while the provider fails, and with one turn at a time.

A code is exchanged once in all processes. A refresh token, of a client or of the provider, that is used again within a
minute gets the same answer: providers end a sign-in whose refresh token is used twice.

auth.py imports this module on first use, because it imports authlib.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import httpx2
from fastmcp.server.auth import OIDCProxy, TokenVerifier
from fastmcp.server.auth.oauth_proxy.upstream import AsyncOAuth2Client, OAuthError
from fastmcp.server.auth.oidc_proxy import OIDCConfiguration
from joserfc.errors import JoseError
from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.server.auth.settings import RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.http.request_state import SignInStoreError, note_sign_in_failure
from quilt_mcp.http.sign_ins import SignInStore
from quilt_mcp.http.tokens import ANSWER_BYTES, AnyVerifier, IntrospectionVerifier, StrictJWTVerifier

logger = logging.getLogger(__name__)

PROVIDER_SECONDS = 10.0
CONSENT, REVOKE, TOKEN = "/consent", "/revoke", "/token"
MAX_NAME = 100
"""The most characters of a client's name. The page of consent shows it."""
NO_STORE = {"Cache-Control": "no-store"}
TOKENS, PROVIDER_TOKENS = "mcp-jti-mappings", "mcp-upstream-tokens"
"""FastMCP's collections: of its own tokens by their ids, and of the provider's. A test fails if the names change."""
CODE_SECONDS = 600.0
"""How long a code stays used. FastMCP's are valid for five minutes."""
EARLY_SECONDS = 60
"""How long before its end a token counts as ended for clients. A repeated answer can be a minute old."""
CHALLENGE = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
"""The form of a `code_challenge` (RFC 7636, 4.2)."""
NO_VERDICT = {"invalid_client", "server_error", "temporarily_unavailable"}
"""Errors of the provider that say nothing about a sign-in. With the first, it does not accept the client secret."""
CLIENT_SCOPES = ("openid", "profile", "email", "offline_access")
"""Scopes that clients ask for, some of them always. They have no effect."""


def _announce_early(token: OAuthToken) -> OAuthToken:
    """Announce the end of a token before it ends.

    Clients such as the MCP library use a token until its last moment, and after 401 they ask the person to sign in
    again, although they could have refreshed it.
    """
    if token.expires_in:
        token.expires_in -= min(EARLY_SECONDS, max(1, token.expires_in // 4))
    return token


def _forbid_storing(app: ASGIApp) -> ASGIApp:
    """Return what serves an application whose answers no cache may keep."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unstored(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("cache-control", "no-store")
            await send(message)

        await app(scope, receive, send_unstored)

    return serve


class TokenEndpoint:
    """Refuses tokens for another resource (RFC 8707, 2), and answers `invalid_grant` with 400 (RFC 6749, 5.2).

    FastMCP answers it with 401, which is for a request to the resource.
    """

    def __init__(self, app: ASGIApp, resource: str) -> None:
        self._app, self._resource = app, resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()  # which a layer limits
        asked = parse_qs(body.decode("utf-8", "replace")).get("resource", [])
        if any(one.rstrip("/") != self._resource.rstrip("/") for one in asked):
            content = {
                "error": "invalid_target",
                "error_description": f"The resource of this server is {self._resource}",
            }
            await JSONResponse(content, HTTPStatus.BAD_REQUEST, NO_STORE)(scope, receive, send)
            return
        start: Message = {}

        async def receive_again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send_corrected(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.UNAUTHORIZED:
                start = message
                return
            if start:
                if b'"invalid_grant"' in message.get("body", b""):
                    start["status"] = HTTPStatus.BAD_REQUEST
                await send(start)
                start = {}
            await send(message)

        await self._app(scope, receive_again, send_corrected)


VerifiedToken = Literal["access", "id", "introspection"]


class OpenIDProxy(OIDCProxy):
    """Signs callers in at an OpenID provider.

    Args:
        client_secret: of this server at the provider. It also signs this server's own tokens.
        verified: what of the provider's tokens is verified: the access token as a JWT, the ID token, or the access
            token by introspection.
        options: as for FastMCP's proxy.
    """

    def __init__(
        self, *, store: SignInStore, client_id: str, client_secret: str, verified: VerifiedToken, **options: Any
    ) -> None:
        self.sign_ins = store
        self._credentials = (client_id, client_secret)
        self._verified = verified
        self._renewals: dict[str, asyncio.Task[JSONObject]] = {}
        required = options["required_scopes"]
        super().__init__(
            client_id=client_id,
            client_secret=client_secret,
            client_storage=store,
            verify_id_token=verified == "id",
            valid_scopes=list(dict.fromkeys([*required, *CLIENT_SCOPES])),
            # without `openid`, a provider does not have to answer (OpenID Connect Core 1.0, 3.1.2.1)
            extra_authorize_params={"scope": " ".join(dict.fromkeys(["openid", *required]))},
            **options,
        )
        self.revocation_options = RevocationOptions(enabled=True)

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
        scopes = required_scopes or []
        if self._verified == "introspection":
            endpoint = self.oidc_config.introspection_endpoint
            if endpoint is None:
                raise ValueError("the provider's metadata name no introspection_endpoint")
            client_id, secret = self._credentials
            self._verifier: StrictJWTVerifier | IntrospectionVerifier = IntrospectionVerifier(
                issuer=str(self.oidc_config.issuer),
                introspection_url=str(endpoint),
                client_id=client_id,
                client_secret=secret,
                audience=[audience] if audience else [],
            )
        else:
            self._verifier = StrictJWTVerifier(
                jwks_uri=str(self.oidc_config.jwks_uri),
                issuer=str(self.oidc_config.issuer),
                algorithm=algorithm,
                audience=audience,
            )
        return AnyVerifier([self._verifier], scopes)

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes, also the one where clients look for the metadata of an issuer with a path (RFC 8414)."""
        routes, path = super().get_routes(mcp_path), urlsplit(str(self.issuer_url)).path.rstrip("/")
        routes = [one for one in routes if one.path != REVOKE] + [Route(REVOKE, self._revoke, methods=["POST"])]
        resource = str(self.base_url).rstrip("/") + (mcp_path or "")
        for one in (one for one in routes if one.path == TOKEN):
            one.app = TokenEndpoint(one.app, resource)
        for one in (one for one in routes if one.path == CONSENT):
            one.app = _forbid_storing(one.app)
        known = [one for one in routes if path and one.path == "/.well-known/oauth-authorization-server"]
        return [*routes, *(Route(one.path + path, one.endpoint, methods=["GET", "OPTIONS"]) for one in known)]

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a client, if the page of consent can show its name.

        Raises:
            RegistrationError: the name is long or has invisible characters, or an address has a fragment.
        """
        name = client_info.client_name or ""
        if len(name) > MAX_NAME or not name.isprintable():
            raise RegistrationError(
                "invalid_client_metadata",
                f"client_name must have at most {MAX_NAME} characters, all of them visible",
            )
        if any(uri.fragment is not None for uri in client_info.redirect_uris or []):  # RFC 6749, 3.1.2
            raise RegistrationError("invalid_redirect_uri", "a redirect URI has no fragment")
        await super().register_client(client_info)

    async def check_issuer(self) -> None:
        await self._verifier.check_issuer()

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Start a sign-in.

        Raises:
            AuthorizeError: the challenge is none.
        """
        if not CHALLENGE.fullmatch(params.code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge must have 43 to 128 characters (RFC 7636, 4.2)")
        return await super().authorize(client, params)

    async def _handle_idp_callback(self, request: Request) -> HTMLResponse | RedirectResponse:
        """Take the answer of the provider, if it is its own: it can name itself (RFC 9207)."""
        named = request.query_params.get("iss")
        if named is not None and named != str(self.oidc_config.issuer):
            logger.warning("the answer of the OpenID provider names another issuer than its metadata")
            return HTMLResponse("This answer is not of the OpenID provider of this server.", HTTPStatus.BAD_REQUEST)
        return await super()._handle_idp_callback(request)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Exchange a code, once in all processes."""
        name = f"code:{authorization_code.code}"
        if not await self.sign_ins.claim(name, CODE_SECONDS):
            raise TokenError("invalid_grant", "The authorization code was used.")
        try:
            token = await super().exchange_authorization_code(client, authorization_code)
        except SignInStoreError:  # it is not used yet
            await self.sign_ins.release(name)
            raise
        await self.sign_ins.keep_client(str(client.client_id))
        return _announce_early(token)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        """Return what is known about a refresh token, also about one that was used a moment ago."""
        name = _name_refresh(refresh_token)
        answer = await self.sign_ins.find_answer(name)
        if answer is None and (known := await super().load_refresh_token(client, refresh_token)):
            return known
        # FastMCP forgets a token before its answer is stored, perhaps in another process
        answer = answer or await self.sign_ins.wait_for_answer(name)
        if answer is None or answer["client_id"] != client.client_id:
            return None
        scopes = (answer["token"].get("scope") or "").split()
        return RefreshToken(token=refresh_token, client_id=answer["client_id"], scopes=scopes)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Renew a sign-in. Requests with the same token get the same answer for a minute, in all processes."""

        async def renew() -> JSONObject:
            token = await super(OpenIDProxy, self).exchange_refresh_token(client, refresh_token, scopes)
            await self.sign_ins.keep_client(str(client.client_id))
            return {"client_id": client.client_id, "token": _announce_early(token).model_dump(mode="json")}

        key = refresh_token.token
        if key not in self._renewals:  # in a task of its own: another request can wait for it when this one ends
            renewing = asyncio.create_task(self.sign_ins.answer_once(_name_refresh(key), renew))
            self._renewals[key] = renewing
            renewing.add_done_callback(lambda _: self._renewals.pop(key))
        answer = await asyncio.shield(self._renewals[key])
        return OAuthToken.model_validate(answer["token"])

    async def _revoke(self, request: Request) -> Response:
        """End the sign-in of a token (RFC 7009). FastMCP's endpoint needs a secret, which most clients do not have."""
        try:
            client = await ClientAuthenticator(self).authenticate_request(request)
        except AuthenticationError:
            return JSONResponse({"error": "invalid_client"}, HTTPStatus.UNAUTHORIZED, headers=NO_STORE)
        token = str((await request.form()).get("token", ""))
        for use in ("refresh", "access"):
            payload = self._verify(token, use)
            if payload and payload.get("client_id") == client.client_id:
                await self._end_sign_in(token, str(payload["jti"]))
        return Response(headers=NO_STORE)

    def _verify(self, token: str, use: str) -> JSONObject | None:
        try:
            return dict(self.jwt_issuer.verify_token(token, expected_token_use=use))
        except (JoseError, ValueError, KeyError):
            return None

    async def _end_sign_in(self, token: str, jti: str) -> None:
        """End a sign-in here, with all of its tokens, and at the provider, if that can revoke tokens."""
        await self.sign_ins.forget_answer(_name_refresh(token))
        mapping = await self.sign_ins.get(jti, collection=TOKENS)
        if mapping is None:
            return
        tokens = await self.sign_ins.get(mapping["upstream_token_id"], collection=PROVIDER_TOKENS)
        await self.sign_ins.delete(mapping["upstream_token_id"], collection=PROVIDER_TOKENS)
        await self.sign_ins.delete(jti, collection=TOKENS)
        endpoint, revoked = self.oidc_config.revocation_endpoint, (tokens or {}).get("refresh_token")
        if endpoint and revoked:
            try:
                async with httpx2.AsyncClient(auth=httpx2.BasicAuth(*self._credentials)) as http:
                    answer = await http.post(str(endpoint), data={"token": revoked}, timeout=PROVIDER_SECONDS)
                    answer.raise_for_status()
            except httpx2.HTTPError as error:
                logger.warning("the OpenID provider did not revoke a token (%s)", type(error).__name__)

    def _prepare_scopes_for_upstream_refresh(self, _: list[str]) -> list[str]:
        """Return no scopes, so that the provider keeps those of the sign-in. The client's mean nothing there."""
        return []

    def _create_upstream_oauth_client(self) -> AsyncOAuth2Client:
        return _ProviderClient(
            *self._credentials, sign_ins=self.sign_ins, check=self._check_tokens, timeout=PROVIDER_SECONDS
        )

    async def _check_tokens(self, tokens: JSONObject) -> None:
        """Check that requests with the provider's tokens will be accepted, before a client gets a code.

        Raises:
            UnusableTokens: they will not.
        """
        name = "id_token" if self._verified == "id" else "access_token"
        token = tokens.get(name)
        problem = await self._verifier.find_problem(token) if isinstance(token, str) else "is missing"
        if problem:
            logger.warning("the %s of the OpenID provider cannot be used: it %s", name, problem)
            raise UnusableTokens(f"the {name} of the provider {problem}. Ask the operator of this server.")


class UnusableTokens(Exception):
    """The tokens of the provider are none that this server accepts. The message contains no part of them."""


def _name_refresh(token: str) -> str:
    return f"refresh:{token}"


class _ProviderClient(AsyncOAuth2Client):
    """Lets requests get 503 if the provider says nothing about the sign-in. FastMCP would refuse them for good.

    A refresh token of the provider is used once, in all processes: the others get the same answer for a minute.

    Args:
        check: checks the tokens of a sign-in.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        *,
        sign_ins: SignInStore,
        check: Callable[[JSONObject], Awaitable[None]],
        **options: Any,
    ) -> None:
        super().__init__(client_id, client_secret, **options)
        self._client.event_hooks = {"response": [_check_answer]}
        self._sign_ins, self._check = sign_ins, check

    async def fetch_token(
        self, url: str, *, grant_type: str = "authorization_code", **params: object
    ) -> dict[str, object]:
        with _noting_failures():
            tokens = await super().fetch_token(url, grant_type=grant_type, **params)
        await self._check(tokens)
        return tokens

    async def refresh_token(self, url: str, *, refresh_token: str | None = None, **params: object) -> dict[str, object]:
        async def renew() -> JSONObject:
            with _noting_failures():
                found = await super(_ProviderClient, self).refresh_token(url, refresh_token=refresh_token, **params)
            return dict(found)

        def is_final(tokens: JSONObject) -> bool:
            # one that can be used again has another answer each time
            return tokens.get("refresh_token") not in {None, refresh_token}

        try:
            return await self._sign_ins.answer_once(f"provider:{refresh_token}", renew, is_final)
        except OAuthError as error:
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
