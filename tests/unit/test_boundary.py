"""The map from foreign exceptions to ours: each row names a class that exists, and each class has a row."""

from collections.abc import Iterator
from importlib import import_module

import botocore.exceptions
import pytest
import quilt3.util
import requests.exceptions
from botocore.exceptions import ClientError
from quilt3._graphql_client import exceptions as graphql  # private: pinned here, so that an upgrade that moves it fails

from quilt_mcp import boundary
from quilt_mcp.errors import (
    NotFound,
    NotSignedIn,
    QueryRefused,
    RefusedByAWS,
    ResourceExecutionError,
    ResourceFailure,
    Unavailable,
)


def client_error(code: str, operation: str = "GetWorkGroup", status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


@pytest.mark.parametrize("name", boundary.BY_CLASS)
def test_every_row_names_an_exception_that_exists(name: str) -> None:
    module, _, cls = name.rpartition(".")
    assert issubclass(getattr(import_module(module), cls), Exception)


def descendants(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    yield cls
    for child in cls.__subclasses__():
        yield from descendants(child)


FOREIGN = [
    ClientError,
    *descendants(botocore.exceptions.BotoCoreError),
    *descendants(requests.exceptions.RequestException),
    quilt3.util.QuiltException,
    graphql.GraphQLClientGraphQLMultiError,
    graphql.GraphQLClientInvalidResponseError,
]


@pytest.mark.parametrize("cls", FOREIGN, ids=lambda cls: cls.__qualname__)
def test_every_exception_of_the_libraries_has_a_row(cls: type[Exception]) -> None:
    names = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    assert names & boundary.BY_CLASS.keys()


@pytest.mark.parametrize(
    ("code", "failure", "transient"),
    [
        ("AccessDenied", RefusedByAWS, False),
        ("AccessDeniedException", RefusedByAWS, False),
        ("403", RefusedByAWS, False),
        ("ExpiredToken", NotSignedIn, False),
        ("ExpiredTokenException", NotSignedIn, False),
        ("InvalidClientTokenId", NotSignedIn, False),
        ("SignatureDoesNotMatch", NotSignedIn, False),
        ("ThrottlingException", Unavailable, True),
        ("SlowDown", Unavailable, True),
        ("InternalServerException", Unavailable, True),
        ("503", Unavailable, True),
        ("NoSuchKey", NotFound, False),
        ("404", NotFound, False),
        ("RequestTimeTooSkewed", ResourceExecutionError, False),
        ("InvalidRequestException", ResourceExecutionError, False),
        ("NeverHeardOf", ResourceExecutionError, False),
    ],
)
def test_a_code_of_aws_becomes(code: str, failure: type[ResourceFailure], transient: bool) -> None:  # noqa: FBT001 - a table's column
    translated = boundary.translate(client_error(code))
    assert type(translated) is failure
    assert translated.transient is transient
    assert f"athena:GetWorkGroup ({code})" in (translated.details or "")


def test_an_unknown_code_with_a_server_errors_status_is_transient() -> None:
    assert type(boundary.translate(client_error("NeverHeardOf", status=502))) is Unavailable


def test_no_code_means_two_things() -> None:
    codes = [code for row in boundary.BY_CODE for code in row.codes]
    assert sorted(codes) == sorted(set(codes))


def test_an_operation_without_a_row_is_named_as_it_is() -> None:
    translated = boundary.translate(client_error("AccessDenied", operation="MakeCoffee"))
    assert translated is not None
    assert translated.details == "refused by AWS: MakeCoffee (AccessDenied)"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (botocore.exceptions.NoCredentialsError(), NotSignedIn),
        (botocore.exceptions.NoRegionError(), ResourceExecutionError),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="https://x"), Unavailable),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="https://x"), Unavailable),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="https://x"), Unavailable),
        (botocore.exceptions.ParamValidationError(report="x"), ResourceExecutionError),
        (requests.exceptions.ConnectTimeout(), Unavailable),
        (requests.exceptions.ConnectionError(), Unavailable),
        (requests.exceptions.JSONDecodeError("x", "y", 0), Unavailable),
        (requests.exceptions.InvalidURL(), ResourceExecutionError),
        (graphql.GraphQLClientInvalidResponseError(requests.Response()), Unavailable),
        (quilt3.util.QuiltException("whatever it says"), NotSignedIn),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_of_the_libraries_becomes(error: Exception, failure: type[ResourceFailure]) -> None:
    assert type(boundary.translate(error)) is failure


def test_a_graphql_refusal_tells_the_fields_but_not_the_text() -> None:
    error = graphql.GraphQLClientGraphQLMultiError.from_errors_dicts(
        [{"message": "secret", "path": ["admin", "user"]}, {"message": "secret"}], data={}
    )
    translated = boundary.translate(error)
    assert type(translated) is QueryRefused
    assert translated.details == "GraphQL error at admin.user, query"


def test_quilts_one_exception_is_told_apart_by_what_it_was_raised_from() -> None:
    connection, inner, outer = (
        requests.exceptions.ConnectionError(),
        quilt3.util.QuiltException("Failed to connect"),
        (quilt3.util.QuiltException("Failed to update")),
    )
    inner.__context__, outer.__context__ = connection, inner  # as it is after quilt3's `raise` in an `except`

    assert type(boundary.translate(outer)) is Unavailable


def test_what_no_row_describes_is_a_bug_of_ours() -> None:
    assert boundary.translate(KeyError("x")) is None
