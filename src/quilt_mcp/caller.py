"""The caller: a sign-in to a Quilt stack, and the AWS credentials that come with it.

Imported by `runtime_context.py` and what it imports only, because it imports quilt3 and boto3.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import requests
from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.aws_clients import AWSClients
from quilt_mcp.errors import NeedsAdmin, NotSignedIn, QueryRefused, ResourceExecutionError
from quilt_mcp.local_sign_in import LocalSignIn
from quilt_mcp.login import Login
from quilt_mcp.registry_client import RegistryClient
from quilt_mcp.settings import Settings
from quilt_mcp.sign_in import SignIn, checked
from quilt_mcp.stack_session import Timeout, open_session

ME = "query me { me { name email isAdmin role { name } roles { name } } }"

T = TypeVar("T")


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
    """One identity and its clients, which are made once and may be used from many threads.

    Attributes:
        aws: AWS in the caller's name.
    """

    def __init__(self, sign_in: SignIn, settings: Settings) -> None:
        self._sign_in = sign_in
        self.aws = AWSClients(sign_in, settings)

    @property
    def login(self) -> Login:
        """The stack and the sign-in, as they are now: a call may renew them."""
        return self._sign_in.login

    @property
    def advice(self) -> Sequence[str]:
        """What this caller can do to be signed in; empty for the person at this machine."""
        return self._sign_in.advice

    def is_stale(self) -> bool:
        """Whether its sign-in has changed or ended since."""
        return self._sign_in.is_stale()

    def registry(self, query: Callable[[RegistryClient], T]) -> T:
        """The answer to one of quilt3's GraphQL queries, such as `lambda registry: registry.roles_list()`.

        Raises:
            QueryRefused: the registry answers errors.
            ResourceFailure: as `SignIn.ask`.
        """
        return self._sign_in.ask(lambda session: query(RegistryClient(str(self.login.stack.registry_url), session)))

    def graphql(self, operation: str, query: str, form: type[T]) -> T:
        """The `data` of a GraphQL query which quilt3 has not, checked to be of a form.

        Raises:
            QueryRefused: the registry answers errors.
            ResourceFailure: as `SignIn.ask`.
        """

        def post(session: requests.Session) -> T:
            body = {"query": query, "operationName": operation, "variables": {}}
            payload = session.post(f"{self.login.stack.registry_url}/graphql", json=body).json()
            if not isinstance(payload, dict) or payload.get("errors") or "data" not in payload:
                raise QueryRefused("The Quilt registry refused the query.", details=f"GraphQL query {operation}")
            return TypeAdapter(form).validate_python(payload["data"])

        return self._sign_in.ask(post)

    def admin(self, query: Callable[[RegistryClient], T], what: str) -> T:
        """The answer to a query of quilt3's that the registry allows to administrators only.

        Raises:
            NeedsAdmin: the registry refuses, and the caller is no administrator.
            QueryRefused: it refuses an administrator.
        """
        try:
            return self.registry(query)
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
        return fetch_catalog_config(str(self.login.stack.catalog_url), self._sign_in.timeout)


def local_caller(settings: Settings) -> Caller:
    """The person at this machine, as quilt3's files describe them."""
    return Caller(LocalSignIn(timeout_of(settings)), settings)


def fetch_catalog_config(catalog_url: str, timeout: Timeout) -> CatalogConfig:
    """The config.json that a catalog shows to everyone.

    Raises:
        ResourceFailure: as `LimitedAdapter` and `boundary.translate`, but never one about a sign-in.
    """

    def get() -> CatalogConfig:
        with open_session(timeout) as session:
            answer = session.get(f"{catalog_url}/config.json").json()
        return TypeAdapter(CatalogConfig).validate_python(answer)

    try:
        return checked(get)
    except NotSignedIn as refusal:
        raise ResourceExecutionError("The catalog does not give its config.json.", details=refusal.details) from refusal


def timeout_of(settings: Settings) -> Timeout:
    """The time limits of calls to the stack."""
    return settings.connect_timeout_seconds, settings.read_timeout_seconds
