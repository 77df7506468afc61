"""The rows for foreign exceptions: each row names an existing class, and each class has a row."""

import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module

import botocore.exceptions
import botocore.parsers
import pytest
import requests.exceptions
import urllib3.exceptions
from botocore.exceptions import ClientError
from botocore.model import OperationModel
from pydantic import TypeAdapter, ValidationError

from quilt_mcp.core.errors import NotFound, ResourceExecutionError, ResourceFailure, Unavailable, find_failure
from quilt_mcp.services.stack.aws_failures import BY_CODE
from quilt_mcp.services.stack.aws_statements import ACTIONS
from quilt_mcp.services.stack.exceptions import FAILURES, map_failure
from quilt_mcp.services.stack.failures import (
    AWSKeysExpired,
    ConditionNotMet,
    NotSignedInToQuilt,
    RefusedByAWS,
    Throttled,
    TooSlow,
    UnexplainedByS3,
)
from tests.support.aws_operations import find_operations

STS = "https://sts.us-east-1.amazonaws.com"


def client_error(code: str, operation: str = "GetWorkGroup", status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


@pytest.mark.parametrize("name", FAILURES)
def test_every_row_names_an_existing_exception(name: str) -> None:
    module, _, cls = name.rpartition(".")
    assert issubclass(getattr(import_module(module), cls), Exception)


def descendants(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    yield cls
    for child in cls.__subclasses__():
        yield from descendants(child)


FOREIGN = [
    ClientError,
    *descendants(botocore.exceptions.BotoCoreError),
    *descendants(botocore.parsers.ResponseParserError),
    *descendants(requests.exceptions.RequestException),
    urllib3.exceptions.ReadTimeoutError,
    urllib3.exceptions.ProtocolError,
    urllib3.exceptions.DecodeError,
]


@pytest.mark.parametrize("cls", FOREIGN, ids=lambda cls: cls.__qualname__)
def test_each_exception_of_the_libraries_has_a_row(cls: type[Exception]) -> None:
    names = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    assert names & FAILURES.keys()


@pytest.mark.parametrize(
    ("code", "failure", "transient"),
    [
        ("AccessDenied", RefusedByAWS, False),
        ("AccessDeniedException", RefusedByAWS, False),
        ("ExpiredToken", AWSKeysExpired, False),
        ("ExpiredTokenException", AWSKeysExpired, False),
        ("InvalidClientTokenId", NotSignedInToQuilt, False),
        ("SignatureDoesNotMatch", NotSignedInToQuilt, False),
        ("ThrottlingException", Throttled, True),
        ("SlowDown", Throttled, True),
        ("InternalServerException", Unavailable, True),
        ("NoSuchKey", NotFound, False),
        ("RequestTimeTooSkewed", ResourceExecutionError, False),
        ("InvalidRequestException", ResourceExecutionError, False),
        ("FederationSourceRetryableException", Unavailable, True),
        ("MetadataException", ResourceExecutionError, False),
        ("GlueEncryptionException", ResourceExecutionError, False),
        ("KMS.DisabledException", ResourceExecutionError, False),
        ("PreconditionFailed", ConditionNotMet, False),
        ("FederationSourceException", ResourceExecutionError, False),
        ("RegionDisabledException", ResourceExecutionError, False),
        ("UnknownCode", ResourceExecutionError, False),
        # From "Common Errors" in the references of AWS, and "List of error codes" in that of S3.
        ("NotAuthorized", RefusedByAWS, False),
        ("ConditionalRequestConflict", Unavailable, True),
        ("NoSuchVersion", NotFound, False),
        ("OperationAborted", Unavailable, True),
        ("RequestAbortedException", Unavailable, True),
        ("TemporaryRedirect", Unavailable, True),
        ("RequestExpired", ResourceExecutionError, False),  # for AWS, this is a matter of the clock
        ("RequestInTheFuture", ResourceExecutionError, False),
    ],
)
def test_an_aws_error_code_maps_to_its_failure(code: str, failure: type[ResourceFailure], transient: bool) -> None:  # noqa: FBT001 - a column of the table
    translated = find_failure(client_error(code), FAILURES)
    assert type(translated) is failure
    assert translated.transient is transient
    assert f"athena:GetWorkGroup ({code})" in (translated.details or "")


@pytest.mark.parametrize(
    ("status", "failure"), [(403, RefusedByAWS), (404, NotFound), (503, Throttled), (400, UnexplainedByS3)]
)
def test_a_status_is_a_code_in_response_to_head_only(status: int, failure: type[ResourceFailure]) -> None:
    """AWS sends a code with every other error, and a proxy or a web filter does not."""
    assert type(find_failure(client_error(str(status), "HeadObject", status), FAILURES)) is failure
    other = find_failure(client_error(str(status), status=status), FAILURES)
    assert isinstance(other, Unavailable)
    assert other.transient is (status == 503)
    assert status == 503 or other.message == "AWS did not return a valid response."


@pytest.mark.parametrize("code", ["", "403"])
def test_a_page_of_a_web_filter_is_not_a_refusal_by_aws(code: str) -> None:
    found = find_failure(client_error(code, "ListObjectsV2", 403), FAILURES)
    assert (type(found), found and found.details) == (Unavailable, "s3:ListBucket: HTTP status 403")


NOT_MAPPED = {
    "InvalidWriteOffset": "the only PutObject of this server appends nothing",
    "TooManyParts": "the only PutObject of this server appends nothing",
    "EncryptionTypeMismatch": "the only PutObject of this server stores nothing",
}
OPERATIONS = [operation for _, operation in find_operations()]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_error_code_of_an_operation_is_mapped_or_listed(operation: OperationModel) -> None:
    codes = {shape.metadata.get("error", {}).get("code") or shape.name for shape in operation.error_shapes}
    mapped = {code for codes, _ in BY_CODE for code in codes}
    assert codes - mapped - NOT_MAPPED.keys() == set()
    assert not mapped & NOT_MAPPED.keys()
    assert operation.name in ACTIONS


def test_no_action_is_left_over() -> None:
    assert ACTIONS.keys() == {operation.name for operation in OPERATIONS}


def test_an_unknown_code_with_a_5xx_status_is_transient_unless_the_operation_does_not_exist() -> None:
    assert type(find_failure(client_error("UnknownCode", status=502), FAILURES)) is Unavailable
    found = find_failure(client_error("NotImplemented", "ListObjectsV2", 501), FAILURES)
    assert (type(found), found and found.transient) == (ResourceExecutionError, False)


def test_a_wrong_clock_is_named_where_it_can_be_the_cause() -> None:
    for code in ("InvalidSignatureException", "SignatureDoesNotMatch", "RequestExpired"):
        assert "clock" in str(vars(map_failure(client_error(code)))), code


def test_each_code_has_one_reason() -> None:
    found = Counter(code for codes, _ in BY_CODE for code in codes)
    assert [code for code, count in found.items() if count != 1 or not re.fullmatch(r"[A-Za-z.]+", code)] == []


def test_an_operation_without_an_iam_action_is_named_itself() -> None:
    translated = find_failure(client_error("AccessDenied", operation="MakeCoffee"), FAILURES)
    assert translated is not None
    assert translated.details == "refused by AWS: MakeCoffee (AccessDenied)"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (botocore.exceptions.NoCredentialsError(), NotSignedInToQuilt),
        (botocore.exceptions.UnauthorizedSSOTokenError(), NotSignedInToQuilt),
        (botocore.exceptions.NoRegionError(), ResourceExecutionError),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="https://x"), Unavailable),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="https://x"), TooSlow),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="https://x"), TooSlow),
        (botocore.exceptions.ParamValidationError(report="x"), ResourceExecutionError),
        (requests.exceptions.ConnectTimeout(), Unavailable),
        (requests.exceptions.ConnectionError(), Unavailable),
        (requests.exceptions.JSONDecodeError("x", "y", 0), Unavailable),
        (requests.exceptions.InvalidURL(), ResourceExecutionError),
        (urllib3.exceptions.ProtocolError(), Unavailable),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_of_a_library_maps_to_its_failure(error: Exception, failure: type[ResourceFailure]) -> None:
    assert type(find_failure(error, FAILURES)) is failure


@pytest.mark.parametrize(
    ("retry_after", "action"),
    [
        ("17", "Repeat the call in 17 seconds."),
        ("soon", "Repeat the call in a minute."),
        ("9" * 9, "Repeat the call in a minute."),
        ("-1", "Repeat the call in a minute."),
    ],
)
def test_the_retry_after_header_becomes_an_action(retry_after: str, action: str) -> None:
    failure = find_failure(http_error(503, retry_after), FAILURES)
    assert failure is not None
    assert failure.suggested_actions == [action]


def http_error(status: int, retry_after: str = "") -> requests.HTTPError:
    response = requests.Response()
    response.status_code, response.headers["Retry-After"] = status, retry_after
    return requests.HTTPError(response=response)


def test_a_validation_error_is_the_stacks_fault_only_during_a_call_to_it() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("S3CRET")
    during_a_call = map_failure(caught.value)
    assert type(during_a_call) is ResourceExecutionError
    assert "S3CRET" not in str(vars(during_a_call))
    assert find_failure(caught.value, FAILURES) is None


@pytest.mark.parametrize(
    ("error", "variable", "details"),
    [
        (
            botocore.exceptions.SSLError(endpoint_url=STS, error="x"),
            "AWS_CA_BUNDLE",
            "SSLError: sts.us-east-1.amazonaws.com",
        ),
        (botocore.exceptions.ProxyConnectionError(proxy_url="http://user:S3CRET@proxy", error="x"), "HTTPS_PROXY", ""),
        (requests.exceptions.SSLError(), "REQUESTS_CA_BUNDLE", ""),
        (requests.exceptions.ProxyError(), "HTTPS_PROXY", ""),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}" if isinstance(value, Exception) else "",
)
def test_a_wrong_certificate_or_proxy_does_not_pass_by_itself(error: Exception, variable: str, details: str) -> None:
    failure = find_failure(error, FAILURES)
    assert failure is not None
    assert not failure.transient
    assert variable in failure.suggested_actions[0]
    assert details in str(failure.details)
    assert "S3CRET" not in str(vars(failure))


def test_a_failed_connection_names_the_host_that_was_called() -> None:
    error = botocore.exceptions.EndpointConnectionError(endpoint_url="http://localhost:4566/x")
    failure = find_failure(error, FAILURES)
    assert failure is not None
    assert failure.details == "EndpointConnectionError: localhost"


def test_a_refusal_by_glue_names_lake_formation() -> None:
    failure = find_failure(client_error("AccessDeniedException", "GetTables"), FAILURES)
    assert failure is not None
    assert "Lake Formation" in failure.suggested_actions[1]


def test_an_exception_without_a_row_is_a_bug() -> None:
    bug = KeyError("x")
    assert find_failure(bug, FAILURES) is None
    assert map_failure(bug) is bug
