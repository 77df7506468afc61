"""GraphQL queries to a Quilt stack: those of quilt3's generated client, and our own.

The protocols describe the parts of quilt3's models that this server reads. quilt3 has no type information.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Generic, Protocol, TypeVar, cast

import requests
from pydantic import TypeAdapter, ValidationError

# quilt3 exposes its generated client nowhere else. If it moves, every test of admin:// fails.
from quilt3._graphql_client import Client

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.services.stack.failures import WHOLE_QUERY, QueryRefused, list_paths, make_refusal

T = TypeVar("T")


class QuiltBucket(Protocol):
    """A bucket."""

    name: str


class QuiltPermission(Protocol):
    """The right of a role in one bucket."""

    bucket: QuiltBucket
    level: Enum


class QuiltPolicy(Protocol):
    """A policy. Quilt knows the content of managed policies only."""

    id: str
    title: str
    arn: str
    managed: bool


class QuiltRole(Protocol):
    """A role. `typename__` is the GraphQL type."""

    typename__: str
    id: str
    name: str
    arn: str


class ManagedRole(QuiltRole, Protocol):
    """A role with policies that Quilt manages."""

    policies: Sequence[QuiltPolicy]
    permissions: Sequence[QuiltPermission]


class QuiltPerson(Protocol):
    """A user's name and email."""

    name: str
    email: str


class QuiltUser(QuiltPerson, Protocol):
    """A user of the stack."""

    is_active: bool
    is_admin: bool
    is_sso_only: bool
    is_service: bool
    date_joined: datetime
    last_login: datetime
    role: QuiltRole | None
    extra_roles: Sequence[QuiltRole]


class QuiltSSOConfig(Protocol):
    """The SSO configuration."""

    text: str
    timestamp: datetime
    uploader: QuiltPerson | None


class QuiltTable(Protocol):
    """A tabulator table. `config` is YAML."""

    name: str
    config: str


class QuiltTables(Protocol):
    """The tabulator tables of a bucket."""

    tabulator_tables: Sequence[QuiltTable]


class StackQueries(Protocol):
    """The queries of quilt3's client that this server sends."""

    def users_list(self) -> Sequence[QuiltUser]:
        """Return all users."""

    def roles_list(self) -> Sequence[QuiltRole]:
        """Return all roles."""

    def sso_config_get(self) -> QuiltSSOConfig | None:
        """Return the SSO configuration; None if there is none."""

    def tabulator_get_open_query(self) -> bool:
        """Return whether open query is enabled."""

    def bucket_tabulator_tables_list(self, name: str) -> QuiltTables | None:
        """Return the tabulator tables of a bucket; None if the stack does not show the bucket to the caller."""


class _QueryClient(Client):  # type: ignore[misc]  # quilt3 has no types
    """quilt3's queries and models, with the caller's session."""

    def __init__(self, registry_url: str, session: requests.Session) -> None:
        # The base class would use quilt3's session, which has the login of this machine.
        self.url = f"{registry_url}/graphql"
        self.http_client = session

    def get_data(self, response: requests.Response) -> object:
        """Return the data of a response. The base class fails on errors that have not the documented form.

        Raises:
            QueryRefused: the stack returned errors.
        """
        payload = response.json()
        if isinstance(payload, dict) and payload.get("errors"):
            raise make_refusal(_find_error_paths(payload["errors"]))
        return super().get_data(response)


def create_client(registry_url: str, session: requests.Session) -> StackQueries:
    """Create a client that sends quilt3's queries in a session."""
    return cast("StackQueries", _QueryClient(registry_url, session))


@dataclass(frozen=True)
class PartialAnswer(Generic[T]):
    """What a stack returned for a query: data, errors, or both.

    Attributes:
        data: the data in the form that was requested; None if there are none in this form.
        error_paths: where the errors are, sorted, such as "me.role"; "query" for the query as a whole. Empty if there
            are no errors: then the data are complete.
    """

    data: T | None
    error_paths: list[str]

    @property
    def is_not_understood(self) -> bool:
        """Whether the stack rejected the query as a whole, as it does if its schema has not all fields of the query.

        A stack that cannot process any query can return the same.
        """
        return self.data is None and self.error_paths == [WHOLE_QUERY]

    @property
    def refusal(self) -> QueryRefused:
        """The failure for a caller who needs complete data."""
        return make_refusal(self.error_paths)


def post_query(
    registry_url: str, session: requests.Session, operation: str, query: str, form: type[T], **variables: object
) -> PartialAnswer[T]:
    """Send a query that quilt3 does not have.

    Raises:
        Unavailable: the response is not a GraphQL response.
        ValidationError: the stack returned no errors, and data in another form.
    """
    body = {"query": query, "operationName": operation, "variables": variables}
    payload = session.post(f"{registry_url}/graphql", json=body).json()
    if not isinstance(payload, dict) or not ("data" in payload or payload.get("errors")):
        raise Unavailable("The Quilt stack did not return a valid response.", details=f"GraphQL query {operation}")
    errors, data = payload.get("errors"), payload.get("data")
    if not errors:
        return PartialAnswer(_validate(form, data), [])
    return PartialAnswer(_validate_or_drop(form, data), _find_error_paths(errors))


def _find_error_paths(errors: object) -> list[str]:
    """Return the paths of the errors in a response, in any form."""
    paths = [one.get("path") if isinstance(one, dict) else None for one in errors] if isinstance(errors, list) else []
    return list_paths([path if isinstance(path, list) else None for path in paths] or [None])


def _validate_or_drop(form: type[T], data: object) -> T | None:
    """Return the data in their form; None for another form, which the errors in the same response explain."""
    try:
        return _validate(form, data)
    except ValidationError:
        return None


def _validate(form: type[T], data: object) -> T:
    return cast("T", _create_adapter(cast("Hashable", form)).validate_python(data))


@cache  # to create an adapter takes longer than the rest of a query, without the network
def _create_adapter(form: Hashable) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", form))
