"""The caller: a login to a Quilt stack, and the AWS credentials that come with it.

Imported by `runtime_context.caller()` only, because it imports quilt3 and boto3.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import boto3
import quilt3
import quilt3.admin
import requests
from pydantic import ValidationError

# quilt3 names its GraphQL errors nowhere else; tests/unit/test_boundary.py fails when they move.
from quilt3._graphql_client.exceptions import GraphQLClientError

from quilt_mcp import login as quilt_login
from quilt_mcp.aws_clients import AWSClients
from quilt_mcp.boundary import translate
from quilt_mcp.errors import NeedsAdmin, NotSignedIn, QueryRefused, ResourceExecutionError, Unavailable
from quilt_mcp.login import Login
from quilt_mcp.settings import Settings

ME = "query me { me { name email isAdmin role { name } roles { name } } }"

T = TypeVar("T")


class Caller:
    """One identity and its clients, which are made once and may be used from many threads."""

    def __init__(self, settings: Settings) -> None:
        self._mark = quilt_login.fingerprint()
        self._timeout = (settings.connect_timeout_seconds, settings.read_timeout_seconds)
        self._lock = threading.RLock()
        self._session: requests.Session | None = None
        self.login: Login = quilt_login.read()
        self.aws = AWSClients(self._boto3_session, self.login.region, settings)

    def is_stale(self) -> bool:
        """Whether quilt3's files changed since: another login, another catalog, or fresh credentials."""
        return self._mark != quilt_login.fingerprint()

    def registry(self, call: Callable[[], T]) -> T:
        """The result of a quilt3 call to the registry, made with a live session and time limits.

        A 401 renews the access token once and repeats the call once.

        Raises:
            NotSignedIn, Unavailable, ResourceExecutionError: as `LimitedAdapter` and `login.renew`.
        """
        token = self._open_session()
        try:
            return _checked(call)
        except quilt_login.TokenRefused:
            self._reopen_session(token)
            return _checked(call)

    def graphql(self, operation: str, query: str) -> dict[str, Any]:
        """The `data` of a GraphQL query for which quilt3 has no function."""

        def post() -> Any:
            session, url = quilt3.session.get_session(), f"{self.login.registry_url}/graphql"
            return session.post(url, json={"query": query, "operationName": operation, "variables": {}}).json()

        payload = self.registry(post)
        data = payload.get("data") if isinstance(payload, dict) else None
        if not isinstance(data, dict) or payload.get("errors"):
            raise QueryRefused("The Quilt registry refused the query.", details=f"GraphQL query {operation}")
        return data

    @property
    def quilt_admin(self) -> Any:
        """quilt3's functions for administrators; call them inside `admin`."""
        return quilt3.admin

    def admin(self, call: Callable[[], T], what: str) -> T:
        """The result of a quilt3 call that the registry allows to administrators only.

        Raises:
            NeedsAdmin: the registry refuses, and the caller is no administrator.
            QueryRefused: it refuses an administrator.
        """
        try:
            return self.registry(call)
        except QueryRefused:
            me = self.me()
            if me is None or me["isAdmin"]:
                raise
            raise NeedsAdmin(f"Only administrators may read {what}.", details=f"{me['name']} is not one") from None

    def me(self) -> dict[str, Any] | None:
        """The registry's view of the caller: name, email, isAdmin, role, roles; None if it knows none."""
        me: dict[str, Any] | None = self.graphql("me", ME).get("me")
        return me

    def catalog_config(self) -> dict[str, Any]:
        """The catalog's public config.json. Sent without the caller's token: it needs none."""
        config = _checked(lambda: _get_json(f"{self.login.catalog_url}/config.json", self._timeout))
        if not isinstance(config, dict):
            raise Unavailable("The catalog's config.json is not an object.")
        return config

    def _boto3_session(self) -> boto3.Session:
        if self.login.has_aws_credentials and self.login.signed_in:
            self._open_session()  # renewing these goes through quilt3's session: it must have our time limits
        return quilt3.get_boto3_session()

    def _open_session(self) -> str | None:
        """Make quilt3's session, with our limits on it; answers the access token that it carries."""
        with self._lock:
            if self._session is None:
                self._require_login()
                if self.login.is_expired():
                    self._renew()
                quilt3.session.clear_session()
                self._session = quilt3.session.get_session(timeout=self._timeout)
                for scheme in ("https://", "http://"):
                    self._session.mount(scheme, quilt_login.LimitedAdapter(self._timeout))
            return self.login.access_token

    def _reopen_session(self, refused_token: str | None) -> None:
        """Renew the token that was refused, unless another thread has done so meanwhile."""
        with self._lock:
            if self.login.access_token == refused_token:
                self._renew()
                self._session = None
            self._open_session()

    def _renew(self) -> None:
        quilt_login.renew(self.login, self._timeout)
        self.login, self._mark = quilt_login.read(), quilt_login.fingerprint()

    def _require_login(self) -> None:
        if self.login.registry_url is None:
            raise NotSignedIn(
                "No Quilt catalog is configured.",
                suggested_actions=["Run `quilt3 config https://<your catalog>`, then `quilt3 login`, in a terminal."],
            )
        if not self.login.signed_in:
            raise NotSignedIn(f"Nobody is signed in to {self.login.catalog_url}.")


def _checked(call: Callable[[], T]) -> T:
    """Run a call to the stack and turn its failures into ours.

    An answer that quilt3's models do not accept is the registry's fault, not a bug of ours.
    """
    try:
        return call()
    except (requests.RequestException, GraphQLClientError) as error:
        failure = translate(error)
        raise error if failure is None else failure from error
    except ValidationError as error:
        raise ResourceExecutionError(
            "The Quilt registry answered in a form that this version of quilt3 does not know.",
            details=f"{error.error_count()} fields of {error.title}",
            suggested_actions=["Upgrade quilt3 and this server, or ask the stack's administrator for its version."],
        ) from error


def _get_json(url: str, timeout: tuple[float, float]) -> Any:
    response = requests.get(url, timeout=timeout)
    quilt_login.check_status(response)
    return response.json()
