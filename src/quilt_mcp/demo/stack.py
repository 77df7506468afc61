"""A Quilt stack on 127.0.0.1, with the endpoints that quilt3 and this project use. Each host has its own.

GET  /config.json                the catalog's public configuration
POST /api/token                  new tokens in exchange for a refresh token, which is valid once
GET  /api/auth/get_credentials   AWS credentials for the caller's role
POST /graphql                    everything else
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple, Self

from quilt_mcp.demo.account import REGION
from quilt_mcp.demo.graphql import TODAY, VERSIONS, Endpoint, Query, Viewer
from quilt_mcp.demo.http_server import Addresses, Answer, Certificate, LoopbackServer, Request, get_host
from quilt_mcp.demo.records import Company, User

ACCESS_SECONDS = 12 * 3600
FOREIGN_PAGE = b"<!doctype html><title>Sign in to continue</title>"

JSON = dict[str, object]


class Call(NamedTuple):
    """A request that has arrived, at the stack or at another host of the certificate.

    `operation` is the name of the GraphQL operation. `has_token` says whether the client has sent a bearer token, and
    `user` is the name of its user, if the token is valid.
    """

    method: str
    path: str
    operation: str | None = None
    host: str = ""
    has_token: bool = False
    user: str | None = None


@dataclass
class Grant:
    """The user and the rights of an access token or an API key. `expires_at` is in seconds since 1970."""

    user: User
    is_admin: bool
    expires_at: float


class FakeStack:
    """The stack. Its public attributes may be changed while it runs.

    Attributes:
        company: its data.
        endpoint: how it answers GraphQL queries.
        addresses: its hosts.
        views: other data for some users, by their names.
        calls: every request, in the order of arrival, without tokens.
        grants: the valid access tokens and API keys.
        refresh_tokens: the valid refresh tokens and their users. Clear it to end all logins.
        forced: responses to send instead of the real ones, by path, without a check of the token.
        streamed: like `forced`, for JSON that a function yields in parts.
        delay_seconds: how long every response is delayed.
        on_spent_token: what happens when a refresh token is rejected, before the response.
        spent_token: the response to it, which is that of Quilt's registry.
        no_role: the response to a user without a role who requests AWS credentials. Quilt's open registry, which the
            current one replaces, had this status.
    """

    def __init__(
        self,
        company: Company,
        credentials: Callable[[User], dict[str, str]],
        *,
        endpoint: Endpoint = TODAY,
        addresses: Addresses | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        """Open a free port. `credentials` runs in a thread of the server.

        Without a certificate, clients do not need a proxy: the whole stack is one HTTP server on 127.0.0.1.
        """
        self.company = company
        self.views: dict[str, Company] = {}
        self.calls: list[Call] = []
        self.grants: dict[str, Grant] = {}
        self.refresh_tokens: dict[str, User] = {}
        self.forced: dict[str, Answer] = {}
        self.streamed: dict[str, Callable[[], Iterator[bytes]]] = {}
        self.delay_seconds = 0.0
        self.on_spent_token: Callable[[], None] = lambda: None
        self.spent_token = Answer(HTTPStatus.UNAUTHORIZED, {"message": "The refresh token is not valid."})
        self.no_role = Answer(HTTPStatus.BAD_REQUEST, {"message": "The user has no role."})
        self.closing = threading.Event()
        self.endpoint = endpoint
        self.issue_credentials = credentials
        self._lock = threading.Lock()
        self._issued = 0
        self._server = LoopbackServer(self._receive, 0, certificate)
        self.port = self._server.port
        self.addresses = addresses or Addresses(*[f"http://127.0.0.1:{self.port}"] * 3)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close open connections and refuse new ones. Closing twice does nothing."""
        self.closing.set()
        self._server.stop()

    @property
    def url(self) -> str:
        return self.addresses.catalog

    @property
    def registry_url(self) -> str:
        return self.addresses.registry

    def sign_in(self, user: User) -> str:
        """Return a refresh token for the user, as the sign-in page shows it."""
        token = f"demo-sign-in-{user.name}"
        self.refresh_tokens[token] = user
        return token

    def issue_tokens(self, user: User) -> JSON:
        """Return new tokens for the user, in the format of auth.json."""
        with self._lock:
            self._issued += 1
            access, refresh = f"demo-access-{self._issued}", f"demo-refresh-{self._issued}"
            expires_at = int(time.time()) + ACCESS_SECONDS
            self.grants[access] = Grant(user, user.is_admin, expires_at)
            self.refresh_tokens[refresh] = user
        return {"access_token": access, "refresh_token": refresh, "expires_at": expires_at}

    def _receive(self, request: Request) -> Answer:
        query = Query.parse(request.body if request.path == "/graphql" else b"")
        with self._lock:
            grant, has_token = self.grants.get(request.bearer or ""), request.bearer is not None
            user = grant.user.name if grant else None
            self.calls.append(Call(request.method, request.path, query.operation, request.host, has_token, user))
        if self.delay_seconds:
            self.closing.wait(self.delay_seconds)
        if request.host not in self.addresses.hosts:
            return Answer(HTTPStatus.OK, FOREIGN_PAGE, (("Content-Type", "text/html"),))
        if request.path in self.streamed:
            return Answer(HTTPStatus.OK, self.streamed[request.path]())
        if request.path in self.forced:
            return self.forced[request.path]
        asked = request.method, request.path
        if asked == ("GET", "/config.json") and request.host == get_host(self.addresses.catalog):
            return Answer(HTTPStatus.OK, self.describe_catalog())
        if request.host == get_host(self.addresses.registry):
            return self._serve_registry(request, query)
        return Answer(HTTPStatus.NOT_FOUND, {"message": "Not found"})

    def _serve_registry(self, request: Request, query: Query) -> Answer:
        match request.method, request.path:
            case "POST", "/api/token":
                tokens = self.renew_tokens(request.form.get("refresh_token", ""))
                return self.spent_token if tokens is None else Answer(HTTPStatus.OK, tokens)
            case ("GET", "/api/auth/get_credentials") | ("POST", "/graphql"):
                return self._serve_caller(request, query)
        return Answer(HTTPStatus.NOT_FOUND, {"message": "Not found"})

    def _serve_caller(self, request: Request, query: Query) -> Answer:
        grant = self.grants.get(request.bearer or "")
        if grant is None or grant.expires_at <= time.time():
            return Answer(HTTPStatus.UNAUTHORIZED, {"message": "Not authenticated"})
        if request.method == "GET":
            if grant.user.role is None:
                return self.no_role
            return Answer(HTTPStatus.OK, self.issue_credentials(grant.user))
        viewer = Viewer(self.views.get(grant.user.name, self.company), grant.user, grant.is_admin)
        return self.endpoint.answer(query, viewer)

    def renew_tokens(self, refresh_token: str) -> JSON | None:
        """Return new tokens for a refresh token, once; None if it is not valid."""
        with self._lock:
            user = self.refresh_tokens.pop(refresh_token, None)
        if user is None:
            self.on_spent_token()
            return None
        return self.issue_tokens(user)

    def describe_catalog(self) -> JSON:
        stack = self.company.stack_name
        return {
            "registryUrl": self.addresses.registry,
            "region": REGION,
            "s3Proxy": self.addresses.s3_proxy,
            "analyticsBucket": f"{stack}-analyticsbucket-1x9k2f7q",
            "serviceBucket": f"{stack}-servicebucket-8m3t5w0z",
            "mode": "PRODUCT",  # one of many fields that this server does not read
            **({"stackVersion": VERSIONS[self.endpoint.age]} if self.endpoint.age in VERSIONS else {}),
        }
