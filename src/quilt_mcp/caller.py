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
from pydantic import TypeAdapter, ValidationError

# quilt3 names its GraphQL errors nowhere else; tests/unit/test_boundary.py fails when they move.
from quilt3._graphql_client.exceptions import GraphQLClientError
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp import login as quilt_login
from quilt_mcp.aws_clients import AWSClients, renewing_session
from quilt_mcp.boundary import translate
from quilt_mcp.errors import NeedsAdmin, NotSignedIn, QueryRefused, ResourceExecutionError
from quilt_mcp.login import AWSKeys, Login
from quilt_mcp.settings import Settings
from quilt_mcp.stack_session import TokenRefused, fetch_tokens, open_session

ME = "query me { me { name email isAdmin role { name } roles { name } } }"
CONFIGURE_FIRST = "Run `quilt3 config https://<your catalog>`, then `quilt3 login`, in a terminal."

T = TypeVar("T")

_session_lock = threading.RLock()  # quilt3 has one session in the process, whoever the callers are


class Named(TypedDict):
    """A thing of the registry of which only the name was asked."""

    name: str


class Me(Named):
    """The registry's view of the caller."""

    email: str
    isAdmin: bool
    role: Named | None
    roles: list[Named]


class MeAnswer(TypedDict):
    """The answer to the query `me`; None for a caller that the registry does not know."""

    me: Me | None


class CatalogConfig(TypedDict, total=False):
    """The part of a catalog's config.json that is told on."""

    registryUrl: str | None
    region: str | None
    s3Proxy: str | None
    serviceBucket: str | None
    analyticsBucket: str | None
    stackVersion: str | None


class Caller:
    """One identity and its clients, which are made once and may be used from many threads."""

    def __init__(self, settings: Settings) -> None:
        self._timeout = (settings.connect_timeout_seconds, settings.read_timeout_seconds)
        self._session: requests.Session | None = None
        self._mark = quilt_login.fingerprint()  # before reading: a change while it is read is then seen as one
        self.login: Login = quilt_login.read()
        self.aws = AWSClients(self._boto3_session, self.login.region, settings)

    def is_stale(self) -> bool:
        """Whether quilt3's files changed since: another login, another catalog, or fresh credentials."""
        return self._mark != quilt_login.fingerprint()

    def registry(self, call: Callable[[], T]) -> T:
        """The result of a call to the registry, by quilt3 or otherwise, made with a live session and time limits.

        A 401 renews the access token once and repeats the call once.

        Raises:
            ResourceFailure: as `LimitedAdapter` and `boundary.translate`.
        """
        session = _checked(self._open_session)
        try:
            return _checked(call)
        except TokenRefused:
            _checked(lambda: self._reopen_session(session))
            return _checked(call)

    def graphql(self, operation: str, query: str, form: type[T]) -> T:
        """The `data` of a GraphQL query for which quilt3 has no function, checked to be of a form.

        Raises:
            QueryRefused: the registry answers errors.
            ResourceFailure: as `registry`.
        """

        def post() -> T:
            body = {"query": query, "operationName": operation, "variables": {}}
            payload = self._open_session().post(f"{self.login.registry_url}/graphql", json=body).json()
            if not isinstance(payload, dict) or payload.get("errors") or "data" not in payload:
                raise QueryRefused("The Quilt registry refused the query.", details=f"GraphQL query {operation}")
            return TypeAdapter(form).validate_python(payload["data"])

        return self.registry(post)

    @property
    def quilt_admin(self) -> Any:
        """quilt3's functions for administrators; call them inside `admin` or `registry`."""
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

    def me(self) -> Me | None:
        """The registry's view of the caller; None if it knows none."""
        return self.graphql("me", ME, MeAnswer)["me"]

    def catalog_config(self) -> CatalogConfig:
        """The catalog's public config.json. Sent without the caller's token: it needs none."""

        def get() -> CatalogConfig:
            with open_session(self._timeout) as session:
                answer = session.get(f"{self.login.catalog_url}/config.json").json()
            return TypeAdapter(CatalogConfig).validate_python(answer)

        try:
            return _checked(get)
        except NotSignedIn as refusal:
            raise ResourceExecutionError(
                "The catalog does not give its config.json.", details=refusal.details
            ) from refusal

    def _boto3_session(self) -> boto3.Session:
        """The stack's credentials for a caller that is signed in, else what boto3 finds by itself."""
        if not self.login.signed_in:
            return boto3.Session()
        return renewing_session(self.login.aws_keys or self._fetch_aws_keys(), self._fetch_aws_keys)

    def _fetch_aws_keys(self) -> AWSKeys:
        def get() -> AWSKeys:
            given = self._open_session().get(f"{self.login.registry_url}/api/auth/get_credentials").json()
            names = {"AccessKeyId": "access_key", "SecretAccessKey": "secret_key", "SessionToken": "token"}
            names["Expiration"] = "expiry_time"
            return AWSKeys.model_validate({names.get(name, name): value for name, value in dict(given).items()})

        return self.registry(get)

    def _open_session(self) -> requests.Session:
        """The session with the registry; quilt3 uses it too, from now on."""
        with _session_lock:
            if self._session is None:
                self._require_login()
                if self.login.is_expired():
                    self._renew()
                self._session = open_session(self._timeout, self.login.tokens)
            # quilt3's own session has no time limits, and cannot be given one: this is where it keeps it. Set in one
            # statement, so that no other thread finds it empty and makes one.
            quilt3.session._session = self._session  # noqa: SLF001 - see above; pinned by tests/unit/test_caller.py
            return self._session

    def _reopen_session(self, refused: requests.Session) -> None:
        """Replace the session whose token was refused, unless another thread has done so meanwhile."""
        with _session_lock:
            if self._session is refused:
                before = self.login.tokens
                self._reread()
                if self.login.tokens == before:  # else another process has renewed it
                    self._renew()
                self._session = None
            self._open_session()

    def _renew(self) -> None:
        registry_url, tokens, timeout = self.login.registry_url, self.login.tokens, self._timeout
        if registry_url and tokens:
            quilt_login.renew(registry_url, lambda: fetch_tokens(registry_url, tokens.refresh_token, timeout))
        self._reread()

    def _reread(self) -> None:
        self._mark = quilt_login.fingerprint()
        self.login = quilt_login.read()
        self._require_login()

    def _require_login(self) -> None:
        if self.login.registry_url is None:
            raise NotSignedIn("No Quilt catalog is configured.", suggested_actions=[CONFIGURE_FIRST])
        if not self.login.signed_in:
            raise NotSignedIn(f"Nobody is signed in to {self.login.catalog_url or self.login.registry_url}.")


def _checked(call: Callable[[], T]) -> T:
    """Run a call to the stack and turn its failures into ours.

    An answer of another form than is expected is the stack's fault, not a bug of ours.
    """
    try:
        return call()
    except (requests.RequestException, GraphQLClientError) as error:
        failure = translate(error)
        raise error if failure is None else failure from error
    except ValidationError as error:
        raise ResourceExecutionError(
            "The Quilt stack answered in a form that this version does not know.",
            details=f"{error.error_count()} fields of {error.title}",
            suggested_actions=["Upgrade quilt3 and this server, or ask the stack's administrator for its version."],
        ) from error
