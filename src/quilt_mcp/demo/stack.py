"""A Quilt stack on 127.0.0.1: catalog and registry on one HTTP server, with what quilt3 asks of them.

GET  /config.json                the catalog's configuration; needs no token
POST /api/token                  a refresh token for a new pair of tokens
GET  /api/auth/get_credentials   AWS credentials for the caller's role
POST /graphql                    everything else
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, Self

from quilt_mcp.demo import graphql
from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.demo.records import REGION, Company, User

ACCESS_SECONDS = 12 * 3600


class Call(NamedTuple):
    """A request that the stack has received; `operation` is the GraphQL operation's name."""

    method: str
    path: str
    operation: str | None


@dataclass
class Grant:
    """What an access token stands for. `expires_at` is in seconds since 1970."""

    user: User
    is_admin: bool
    expires_at: float


class FakeStack:
    """The stack. Its plain attributes may be changed while it runs.

    Attributes:
        company: what the registry tells.
        views: what it tells a user instead, by the user's name; for those who see another part of it than the others.
        calls: every request, in the order of arrival; holds no tokens.
        grants: the access tokens, and API keys, that are accepted.
        refresh_tokens: the refresh tokens that are accepted, and whose they are; clear it to end all sign-ins.
        forced: answers given instead of the real ones, by path, before any token is looked at.
        delay_seconds: how long every answer is held back.
    """

    def __init__(self, company: Company, credentials: Callable[[User], dict[str, str]], *, port: int = 0) -> None:
        """Take the port; 0 is any free one. `credentials` answers get_credentials, in a thread of the server."""
        self.company = company
        self.views: dict[str, Company] = {}
        self.calls: list[Call] = []
        self.grants: dict[str, Grant] = {}
        self.refresh_tokens: dict[str, User] = {}
        self.forced: dict[str, Answer] = {}
        self.delay_seconds = 0.0
        self._credentials = credentials
        self._lock = threading.Lock()
        self._issued = 0
        self._closing = threading.Event()
        self._server = LoopbackServer(self._receive, port)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop: open connections are cut, new ones are refused. Closing twice does nothing."""
        self._closing.set()
        self._server.stop()

    @property
    def url(self) -> str:
        """The address of both the catalog and the registry."""
        return f"http://127.0.0.1:{self._server.port}"

    def sign_in(self, user: User) -> str:
        """A refresh token for the user, as the sign-in page shows it."""
        token = f"demo-sign-in-{user.name}"
        self.refresh_tokens[token] = user
        return token

    def _issue(self, user: User) -> dict[str, Any]:
        with self._lock:
            self._issued += 1
            access, refresh = f"demo-access-{self._issued}", f"demo-refresh-{self._issued}"
            expires_at = int(time.time()) + ACCESS_SECONDS
            self.grants[access] = Grant(user, user.is_admin, expires_at)
            self.refresh_tokens[refresh] = user
        return {"access_token": access, "refresh_token": refresh, "expires_at": expires_at}

    def _receive(self, request: Request) -> Answer:
        body = _json_object(request.body) if request.path == "/graphql" else {}
        with self._lock:
            self.calls.append(Call(request.method, request.path, body.get("operationName")))
        if self.delay_seconds:
            self._closing.wait(self.delay_seconds)
        if request.path in self.forced:
            return self.forced[request.path]
        match request.method, request.path:
            case "GET", "/config.json":
                return Answer(HTTPStatus.OK, self._config())
            case "POST", "/api/token":
                return Answer(HTTPStatus.OK, self._token(request.form.get("refresh_token", "")))
            case ("GET", "/api/auth/get_credentials") | ("POST", "/graphql"):
                return self._registry(request, body)
        return Answer(HTTPStatus.NOT_FOUND, {"message": "Not found"})

    def _registry(self, request: Request, body: dict[str, Any]) -> Answer:
        grant = self.grants.get(request.bearer or "")
        if grant is None or grant.expires_at <= time.time():
            return Answer(HTTPStatus.UNAUTHORIZED, {"message": "Not authenticated"})
        if request.method == "GET":
            return Answer(HTTPStatus.OK, self._credentials(grant.user))
        me = graphql.describe(grant.user, is_admin=grant.is_admin)
        variables, company = body.get("variables") or {}, self.views.get(grant.user.name, self.company)
        return Answer(HTTPStatus.OK, graphql.execute(body.get("operationName"), variables, company, me))

    def _token(self, refresh_token: str) -> dict[str, Any]:
        user = self.refresh_tokens.get(refresh_token)
        return self._issue(user) if user else {"error": "Invalid refresh token."}

    def _config(self) -> dict[str, Any]:
        stack = self.company.stack_name
        return {
            "registryUrl": self.url,
            "region": REGION,
            "s3Proxy": self.url,
            "apiGatewayEndpoint": f"{self.url}/api",
            "binaryApiGatewayEndpoint": f"{self.url}/binary",
            "analyticsBucket": f"{stack}-analyticsbucket-1x9k2f7q",
            "serviceBucket": f"{stack}-servicebucket-8m3t5w0z",
            "alwaysRequiresAuth": True,
            "mixpanelToken": "",
            "mode": "PRODUCT",
            "passwordAuth": "DISABLED",
            "ssoAuth": "ENABLED",
            "ssoProviders": "okta",
            "stackVersion": "1.62.0",
        }


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
