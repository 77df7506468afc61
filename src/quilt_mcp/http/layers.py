"""The layers of the HTTP application, in the order in which they run.

RefuseConnection        for connections above the limit, outside of the application
AuditRequests           one line for each request, outside of all other layers (audit.py)
CORSMiddleware          of Starlette: web pages of the allowed origins can read answers
LimitSignIns            how often one address can begin to sign in through an OpenID provider
ReportSignInFailure     503 instead of 401 while a token cannot be verified
FinishRequests          closes connections while the server shuts down
FastMCP's: host and origin, authentication, context of the request
RequireToken            401 for every path that is not public
RateLimit               429 for a caller that sends too many requests
StreamLimit             429 for a caller that has too many streams, or does not read them (SSE)
UnfinishedBodies        429 for a caller with too many bodies that have begun and not ended
BodyTimeout             408 for a body that does not arrive
RequestBodyLimit...     of the MCP library: 413 for a body that is too long; the whole body is one message from here on
HandleMessage           400 for a message that is nested too deeply, is not UTF-8, or names an unknown version of the
                        protocol; a session id for a client that shows MCP Apps; the end of the work for a client that
                        has left; U+2028 and U+2029 escaped in JSON
Direct                  answers reads (direct.py); the rest is FastMCP's
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Container, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, cast
from uuid import UUID, uuid4

from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.middleware import RequireAuthMiddleware
from fastmcp.server.dependencies import get_access_token
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.app.message_text import find_refusal
from quilt_mcp.core.answers import GetResourceError, escape_separators
from quilt_mcp.core.errors import NotSignedIn, TooManyRequests
from quilt_mcp.core.introduction import APPS, APPS_SESSION, BATCHED
from quilt_mcp.core.surfaces import ResourceRefused
from quilt_mcp.http.admission import Places
from quilt_mcp.http.audit import audit_refusal, begin_record
from quilt_mcp.http.rate_limiter import BoundedMemory, RateLimiter, find_network
from quilt_mcp.http.request_state import COUNTED, SignInStoreError, has_sign_in_failed, note_sign_in_failure
from quilt_mcp.settings import HTTPSettings

FOR_OPERATORS = {"/health", "/ready"}
BODY_SECONDS = 30.0
UNAUTHENTICATED_BODY_BYTES = 16_384
"""The maximum body of a request that needs no token. It is enough to register a client, and the server stores that."""
UNFINISHED_BODIES = 16
"""How many bodies of one caller can have begun and not ended, in each process.

Each can take QUILT_MCP_MAX_REQUEST_BYTES of memory, for BODY_SECONDS. The number is the default of
QUILT_MCP_CONCURRENT_READS: clients do not need more at a time. A body that arrives in one piece, as nearly all do, does
not count.
"""
WATCH_SECONDS = 0.02
"""After how many seconds a request is watched for a disconnect of its client."""
STREAM_SHARE = 10
"""A caller can have one of so many connections as a stream."""
MAX_UNANSWERED = 100
"""How many messages the server takes for a stream while its client reads nothing. Each can take 64 KB."""
IS_STREAM = "quilt_mcp.is_stream"
"""The key in the ASGI scope of a request with an answer that has no end."""
BUSY_SECONDS, SIGN_IN_SECONDS, STREAM_SECONDS = 1, 5, 30
"""After how many seconds to try again: connections, a sign-in that cannot be checked, streams."""
SIGN_IN_RATES = {
    "/register": "20/minute",
    "/authorize": "60/minute",
    "/consent": "120/minute",  # each sign-in reads the form and sends it
    "/auth/callback": "60/minute",
    "/token": "120/minute",
    "/revoke": "60/minute",
}
"""The maximum rate of requests per address, by path. Many people can share an address.

The first four store something or ask the provider. With the last two, a client whose id is a URL makes the server read
that address.
"""
LENGTHS = {b"content-length", b"transfer-encoding"}
QUERY_BYTES = 8192
"""The maximum length of a query. The server stores the parameters of a sign-in, such as `state`."""

CountRequest = Callable[[Identity], Awaitable[None]]
"""Counts a request of an identity; raises TooManyRequests if the identity exceeds its rate limit."""


class Flag(Protocol):
    """Whether this server shuts down. Several processes can share it."""

    value: bool


def add_layers(
    app: Starlette,
    settings: HTTPSettings,
    *,
    is_sse: bool,
    has_sign_in: bool,
    leaving: Flag,
    count: CountRequest | None,
    body_seconds: float = BODY_SECONDS,
) -> None:
    """Add all layers but AuditRequests and Direct to FastMCP's application."""
    browsers = Middleware(
        CORSMiddleware,
        allow_origins=settings.allowed_origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],  # a setting names the one with the Quilt token
        expose_headers=["Mcp-Session-Id", "Retry-After", "WWW-Authenticate"],
    )
    app.user_middleware[:0] = [
        *([browsers] if settings.allowed_origins else []),
        *([Middleware(LimitSignIns)] if settings.oidc_config_url else []),
        *([Middleware(ReportSignInFailure)] if has_sign_in else []),
        Middleware(FinishRequests, leaving=leaving, path=app.state.path),
    ]
    if has_sign_in:
        require_token(app)
        app.user_middleware += [Middleware(RateLimit, count=count)] if count else []
    if is_sse:
        app.user_middleware.append(
            Middleware(StreamLimit, path=app.state.path, max_connections=settings.max_connections)
        )
    app.user_middleware += [
        Middleware(UnfinishedBodies),
        Middleware(BodyTimeout, seconds=body_seconds),
        Middleware(RequestBodyLimitMiddleware, max_body_size=settings.max_request_bytes),
        Middleware(HandleMessage, is_sse=is_sse),
    ]


@dataclass(eq=False)
class Layer:
    """Responds to requests. The start and the end of the server are passed on."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.respond if scope["type"] == "http" else self.app)(scope, receive, send)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class RefuseConnection(Layer):
    """The application for connections above the limit: it lets requests of load balancers through, one for each.

    Otherwise a load balancer or a container platform would end a server that is only busy.
    """

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in FOR_OPERATORS:
            await self.app(scope, receive, _closing(send))
            return
        await _unavailable(scope, receive, _closing(send))
        audit_refusal(scope["state"], begin_record(scope, "http"), HTTPStatus.SERVICE_UNAVAILABLE, "limit")


class LimitSignIns(Layer):
    """Returns 429 with `Retry-After` to addresses that begin too many sign-ins, and 400 if a query is too long.

    Each process counts by itself.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        memory = BoundedMemory()
        self._limiters = {path: RateLimiter(rate, memory=memory) for path, rate in SIGN_IN_RATES.items()}

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/") if scope["method"] != "OPTIONS" else ""
        refusal = await self._find_refusal(path, scope) if path in SIGN_IN_RATES else None
        await (refusal or self.app)(scope, receive, send)

    async def _find_refusal(self, path: str, scope: Scope) -> JSONResponse | None:
        if len(scope["query_string"]) > QUERY_BYTES:
            reason = f"The query is longer than {QUERY_BYTES} bytes."
            return JSONResponse({"error": "invalid_request", "error_description": reason}, HTTPStatus.BAD_REQUEST)
        wait = await self._limiters[path].hit(f"{path} {find_network(scope)}")
        if not wait:
            return None
        reason = f"At most {SIGN_IN_RATES[path].replace('/', ' requests per ')} to {path} from one address."
        return JSONResponse(
            {"error": "temporarily_unavailable", "error_description": reason},
            HTTPStatus.TOO_MANY_REQUESTS,
            headers={"Retry-After": str(wait)},
        )


class ReportSignInFailure(Layer):
    """Returns 503 with `Retry-After` instead of 401 or a server error if the store of sign-ins or the issuer failed.

    FastMCP treats a store that fails like one that does not contain the token, and a token without a known key like an
    invalid one. After its 401, clients would discard a valid token and register again.
    """

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_replaced = False

        async def send_or_replace(message: Message) -> None:
            nonlocal is_replaced
            status = message.get("status", HTTPStatus.OK)
            is_refusal = status == HTTPStatus.UNAUTHORIZED or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            if message["type"] == "http.response.start" and is_refusal and has_sign_in_failed():
                is_replaced = True
                await _sign_in_unavailable(scope, receive, send)
            elif not is_replaced:
                await send(message)

        note_sign_in_failure(failed=False)  # it could be that of an earlier request on the same connection
        try:
            await self.app(scope, receive, send_or_replace)
        except SignInStoreError:
            if not is_replaced:
                await _sign_in_unavailable(scope, receive, send)


@dataclass(eq=False)
class FinishRequests(Layer):
    """Closes each connection after its request while the server shuts down, so that clients move to another server.

    A connection also ends after a request with two statements of the length of its body (RFC 9112, 6.1). A request that
    is cancelled because it takes too long gets 503.
    """

    leaving: Flag
    path: str

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == f"{self.path}/":  # Starlette's redirect lacks the path of QUILT_MCP_PUBLIC_URL
            scope["path"] = self.path
        is_started = False
        is_last = {name for name, _ in scope["headers"]} >= LENGTHS

        async def send_closing(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await (_closing(send) if is_last or self.leaving.value else send)(message)

        try:
            await self.app(scope, receive, send_closing)
        except asyncio.CancelledError:  # by uvicorn, at the end of its time
            if is_started:
                raise
            await _unavailable(scope, receive, _closing(send))


class RequireToken(Layer):
    """Returns 401 to requests without a valid token, except for the public routes.

    FastMCP protects its MCP endpoint only. Unknown paths, wrong methods and redirects would get their usual answers.

    Args:
        challenge: FastMCP's middleware for the MCP endpoint, which defines the `WWW-Authenticate` header.
    """

    def __init__(self, app: ASGIApp, *, public_routes: Sequence[BaseRoute], challenge: RequireAuthMiddleware) -> None:
        super().__init__(app)
        self._public = BodyTimeout(RequestBodyLimitMiddleware(app, UNAUTHENTICATED_BODY_BYTES))
        self._public_routes = public_routes
        self._protected = RequireAuthMiddleware(
            app, challenge.required_scopes, challenge.resource_metadata_url, challenge.challenge_scopes
        )

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_public = any(route.matches(scope)[0] is Match.FULL for route in self._public_routes)
        await (self._public if is_public else self._protected)(scope, receive, send)


def require_token(app: Starlette) -> None:
    """Require a token for the whole application, except for its routes that FastMCP does not protect.

    Those are the routes of the sign-in provider, and our own, which check their callers themselves.
    """
    protected = {id(route): found for route in app.routes if (found := _find_protection(route))}
    public = [route for route in app.routes if id(route) not in protected]
    challenge = next(iter(protected.values()))
    # The last middleware is the innermost: FastMCP has verified the token by then.
    app.user_middleware.append(Middleware(RequireToken, public_routes=public, challenge=challenge))


def _find_protection(route: BaseRoute) -> RequireAuthMiddleware | None:
    found = route.endpoint if isinstance(route, Route) else route.app if isinstance(route, Mount) else None
    return found if isinstance(found, RequireAuthMiddleware) else None


@dataclass(eq=False)
class RateLimit(Layer):
    """Returns 429 with `Retry-After` if a caller exceeds its rate limit. Must run after authentication.

    The body is a JSON-RPC error without an id. MCP clients treat it as the answer to their request.
    """

    count: CountRequest

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (token := get_access_token()) is not None:
            try:
                await self.count(find_counted(token))
                scope[COUNTED] = True
            except TooManyRequests as refusal:
                await too_many_requests(refusal, scope)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def find_counted(token: AccessToken) -> Identity:
    """Return the caller; for tokens without an owner, which no read accepts, their client: it counts them together."""
    try:
        return identity.current()
    except NotSignedIn:
        return Identity(token.client_id, issuer=f"client of {token.claims.get('iss')}")


def _find_caller(scope: Scope) -> str:
    """Return the key of the caller, or the address without sign-in."""
    token = get_access_token()
    return find_counted(token).key if token else str((scope.get("client") or ("",))[0])


def too_many_requests(refusal: TooManyRequests, scope: Scope) -> JSONResponse:
    body = GetResourceError.model_validate(refusal, from_attributes=True)
    refused = ResourceRefused(body, Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER))
    error = refused.error.model_dump(mode="json", exclude_none=True)
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error},
        HTTPStatus.TOO_MANY_REQUESTS,
        headers={"Retry-After": str(refusal.retry_after_seconds), "Cache-Control": "no-store"},
    )


@dataclass(eq=False)
class _Stream:
    session: str = ""  # the first event names it
    sending: int = 0  # how many events wait for the client to read
    unanswered: int = 0  # messages of the client without the events that it has received


class StreamLimit(Layer):
    """Returns 429 if a caller has too many streams, or reads nothing from a stream and sends further messages.

    So one caller cannot take all connections, nor all memory: the answers of a session wait for its stream. Callers
    without sign-in are counted by address. Must run after authentication.
    """

    def __init__(self, app: ASGIApp, *, path: str, max_connections: int, max_unanswered: int = MAX_UNANSWERED) -> None:
        super().__init__(app)
        self._path = path
        self._open = Places(max(1, max_connections // STREAM_SHARE))
        self._max_unanswered = max_unanswered
        self._streams: dict[str, _Stream] = {}

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != self._path:
            await self._pass_message(scope, receive, send)
            return
        with self._open.hold(_find_caller(scope)) as is_free:
            if is_free:
                scope[IS_STREAM] = True
                await self._pass_stream(scope, receive, send)
                return
        details = f"at most {self._open.limit} streams"
        refusal = TooManyRequests("Too many streams.", retry_after_seconds=STREAM_SECONDS, details=details)
        await too_many_requests(refusal, scope)(scope, receive, send)

    async def _pass_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = self._streams.get(_find_session(scope["query_string"]), _Stream())
        if stream.sending and stream.unanswered >= self._max_unanswered:
            message, details = "Too many messages wait for your stream.", "read the stream of the session"
            refusal = TooManyRequests(message, retry_after_seconds=BUSY_SECONDS, details=details)
            await too_many_requests(refusal, scope)(scope, receive, send)
            return
        stream.unanswered += 1
        await self.app(scope, receive, send)

    async def _pass_stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the events of a stream. Count those that the client does not read, and its messages without one."""
        stream = _Stream()

        async def send_noting(message: Message) -> None:
            if not stream.session:  # the first event is the address for messages, which ends with ?session_id=…
                stream.session = _find_session(message.get("body", b"").strip().rpartition(b"?")[2])
                self._streams |= {stream.session: stream} if stream.session else {}
            stream.sending += 1
            try:
                await send(message)
            finally:
                stream.sending -= 1
                stream.unanswered = max(0, stream.unanswered - 1)

        try:
            await self.app(scope, receive, send_noting)
        finally:
            self._streams.pop(stream.session, None)


def _find_session(query: str | bytes) -> str:
    """Return the session that a query names, as the MCP library reads it, or ""."""
    try:
        return UUID(QueryParams(query).get("session_id", "")).hex
    except ValueError:
        return ""


class _TooManyBodies(Exception):
    """The caller has too many bodies that have begun and not ended."""


class UnfinishedBodies(Layer):
    """Returns 429 if a caller has too many bodies that have begun and not ended. Must run after authentication.

    Otherwise one caller could fill the memory: concurrent reads are counted when their requests are complete. Callers
    without sign-in are counted by address.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._begun = Places(UNFINISHED_BODIES)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as place:
            has_begun = False

            async def receive_counted() -> Message:
                nonlocal has_begun
                message = await receive()
                if not message.get("more_body", False):
                    place.close()
                elif not has_begun:
                    has_begun = True
                    if not place.enter_context(self._begun.hold(_find_caller(scope))):
                        raise _TooManyBodies
                return message

            try:
                await self.app(scope, receive_counted, send)
            except _TooManyBodies:
                details = f"at most {UNFINISHED_BODIES} bodies that are not complete"
                refusal = TooManyRequests(
                    "Too many requests at a time.", retry_after_seconds=BUSY_SECONDS, details=details
                )
                await too_many_requests(refusal, scope)(scope, receive, send)


class _BodyTimeout(Exception):
    """The client did not send the whole body in time."""


@dataclass(eq=False)
class BodyTimeout(Layer):
    """Returns 408 if the whole body of a request has not arrived in time."""

    seconds: float = BODY_SECONDS

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        until = asyncio.get_running_loop().time() + self.seconds
        is_complete = False

        async def receive_in_time() -> Message:
            nonlocal is_complete
            if is_complete:  # the next message is the disconnect, which can come at any time
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError as error:
                raise _BodyTimeout from error
            is_complete = not message.get("more_body", False)
            return message

        try:
            await self.app(scope, receive_in_time, send)
        except _BodyTimeout:
            refusal = PlainTextResponse("", HTTPStatus.REQUEST_TIMEOUT, headers={"Connection": "close"})
            await refusal(scope, receive, send)


FORMS_OF_SIGN_INS = {"/authorize", "/consent", "/register", "/revoke", "/token"}
"""They get no messages, and have errors of their own (RFC 6749, 5.2; RFC 7591, 3.2.2)."""


@dataclass(eq=False)
class HandleMessage(Layer):
    """Refuses a message that cannot be read, remembers MCP Apps, and cancels the work for a client that leaves.

    The whole body must be one message, as `RequestBodyLimitMiddleware` passes it on.

    With SSE, clients receive answers on the stream of their session: a request that is not Unicode is replaced by one
    that the MCP library refuses with the same code.
    """

    is_sse: bool = False

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = _escape_separators(send)
        if scope["method"] != "POST":  # the handlers of GET detect a disconnect
            await self.app(scope, receive, send)
            return
        first = await receive()
        if first["type"] != "http.request" or first.get("more_body", False):  # the client has left
            return
        body: bytes = first.get("body", b"")
        if scope["path"] in FORMS_OF_SIGN_INS:
            await self._work(_WatchedRequest(first, receive, send), scope)
            return
        if refusal := find_refusal(body):
            if not (self.is_sse and refusal.is_request and refusal.request_id is not None):
                await _refuse(refusal.to_error())(scope, receive, send)
                return
            invalid = {"jsonrpc": "2.0", "id": refusal.request_id, "method": "resources/read", "params": {"uri": None}}
            first = {"type": "http.request", "body": json.dumps(invalid).encode(), "more_body": False}
        if not self.is_sse and (error := _find_unsupported(Headers(scope=scope), body)):
            await _refuse(error)(scope, receive, send)
            return
        if not self.is_sse and _declares_apps(body):
            # The client sends the id with each request. Before 2026-07-28, only `initialize` says what a client can,
            # and any process answers the next request. The id says it again; there is no session to protect.
            send = _add_header(send, "Mcp-Session-Id", f"{APPS_SESSION}{uuid4().hex}", to={HTTPStatus.OK})
        await self._work(_WatchedRequest(first, receive, send), scope)

    async def _work(self, request: "_WatchedRequest", scope: Scope) -> None:
        """Cancel the work when the client closes the connection, as the sessionless protocol requires."""
        # Most reads are answered before that, and need no task of their own for the watch.
        work = cast("asyncio.Task[object]", asyncio.current_task())
        starting = asyncio.get_running_loop().call_later(WATCH_SECONDS, request.watch, work)
        try:
            await self.app(scope, request.receive, request.send)
        except asyncio.CancelledError:
            if not request.is_cancelled:  # by the server
                raise
            work.uncancel()
        finally:
            starting.cancel()
            request.end()


def _refuse(error: bytes) -> Response:
    return Response(error, HTTPStatus.BAD_REQUEST, headers={"Cache-Control": "no-store"}, media_type="application/json")


def _find_unsupported(headers: Headers, body: bytes) -> bytes | None:
    """Return the error of a request whose header names a version that does not exist, or that has no handshake.

    The MCP library reads such a request as one of the newest version, and says that its `_meta` is missing.
    """
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if version in HANDSHAKE_PROTOCOL_VERSIONS or version is None or PROTOCOL_VERSION_META_KEY.encode() in body:
        return None
    try:
        message = json.loads(body)
    except ValueError:  # the MCP library refuses it
        return None
    fields = message if isinstance(message, dict) else {}
    known = HANDSHAKE_PROTOCOL_VERSIONS
    if fields.get("method") != "initialize":
        known += MODERN_PROTOCOL_VERSIONS
    if version in known:
        return None
    data = {"supported": [one for one in known if one != BATCHED], "requested": version}
    error = {"code": UNSUPPORTED_PROTOCOL_VERSION, "message": "Unsupported protocol version", "data": data}
    return json.dumps({"jsonrpc": "2.0", "id": fields.get("id"), "error": error}).encode()


def _escape_separators(send: Send) -> Send:
    """Return what sends a response with U+2028 and U+2029 in JSON escaped. A stream has a chunk for each event."""
    waiting: list[Message] = []
    is_json = False

    async def send_escaped(message: Message) -> None:
        nonlocal is_json
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            is_json = headers.get("content-type", "").startswith(("application/json", "text/event-stream"))
            if is_json and "content-length" in headers:
                waiting.append(message)  # its length depends on the body, which follows at once
                return
        content = message.get("body", b"") if is_json else b""
        escaped = escape_separators(content)
        if waiting:
            headers = MutableHeaders(scope=waiting[0])
            headers["content-length"] = str(int(headers["content-length"]) + len(escaped) - len(content))
            await send(waiting.pop())
        if content:
            message["body"] = escaped
        await send(message)

    return send_escaped


def _declares_apps(body: bytes) -> bool:
    """Return whether a message is the `initialize` of a client that shows MCP Apps."""
    if APPS.encode() not in body or b'"initialize"' not in body:
        return False
    try:
        message = json.loads(body)
        declared = message["params"]["capabilities"]["extensions"][APPS]
        return message["method"] == "initialize" and isinstance(declared, dict)
    except (ValueError, TypeError, LookupError):  # FastMCP refuses it
        return False


class _WatchedRequest:
    """The ASGI channels of a request. Its client can disconnect at any time.

    Attributes:
        is_cancelled: whether the work was cancelled because the client has disconnected.
    """

    def __init__(self, body: Message, receive: Receive, send: Send) -> None:
        self._body: Message | None = body
        self._receive = receive
        self._send = send
        self._disconnected = asyncio.Event()
        self._is_answered = False
        self._watching: asyncio.Task[None] | None = None
        self.is_cancelled = False

    def watch(self, work: asyncio.Task[object]) -> None:
        self._watching = asyncio.create_task(self._watch(work))

    def end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, work: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected.set()
        if not self._is_answered:  # after the answer, uvicorn reports a disconnect too
            self.is_cancelled = True
            work.cancel()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return body
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self._is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


def repeat(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


def _closing(send: Send) -> Send:
    return _add_header(send, "connection", "close")


def _add_header(send: Send, name: str, value: str, to: Container[int] = range(600)) -> Send:
    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in to:
            MutableHeaders(scope=message)[name] = value
        await send(message)

    return send_with_header


_unavailable = PlainTextResponse(
    "The server has too many connections, or shuts down. Try again.\n",
    HTTPStatus.SERVICE_UNAVAILABLE,
    headers={"Retry-After": str(BUSY_SECONDS), "Cache-Control": "no-store"},
)
_sign_in_unavailable = JSONResponse(
    {"error": "temporarily_unavailable", "error_description": "The sign-in cannot be checked now. Try again later."},
    HTTPStatus.SERVICE_UNAVAILABLE,
    headers={"Retry-After": str(SIGN_IN_SECONDS)},
)
