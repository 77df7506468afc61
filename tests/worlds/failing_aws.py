"""An AWS endpoint that fails: every request gets the same kind of error, as each service reports it."""

from functools import partial
from http import HTTPStatus
from typing import Literal, NamedTuple

from quilt_mcp.demo.http_server import Answer, Request
from tests.support.silent_server import SilentServer

Outage = Literal["expired", "throttled", "broken"]
"""The access keys have expired, the account sends too much, or the service has an error."""

Service = Literal["athena", "cloudwatch", "glue", "s3", "sts"]


class Error(NamedTuple):
    """An error code and its HTTP status."""

    code: str
    status: HTTPStatus


EXPIRED = Error("ExpiredTokenException", HTTPStatus.BAD_REQUEST)
THROTTLED = Error("ThrottlingException", HTTPStatus.BAD_REQUEST)
ERRORS: dict[Outage, dict[Service, Error]] = {
    "expired": {
        "athena": EXPIRED,
        "cloudwatch": EXPIRED,
        "glue": EXPIRED,
        "s3": Error("ExpiredToken", HTTPStatus.BAD_REQUEST),
        "sts": Error("ExpiredToken", HTTPStatus.FORBIDDEN),
    },
    "throttled": {
        "athena": THROTTLED,
        "cloudwatch": THROTTLED,
        "glue": THROTTLED,
        "s3": Error("SlowDown", HTTPStatus.SERVICE_UNAVAILABLE),
        "sts": Error("Throttling", HTTPStatus.BAD_REQUEST),
    },
    "broken": {
        "athena": Error("InternalServerException", HTTPStatus.INTERNAL_SERVER_ERROR),
        "cloudwatch": Error("InternalFailure", HTTPStatus.INTERNAL_SERVER_ERROR),
        "glue": Error("InternalServiceException", HTTPStatus.INTERNAL_SERVER_ERROR),
        "s3": Error("InternalError", HTTPStatus.INTERNAL_SERVER_ERROR),
        "sts": Error("InternalFailure", HTTPStatus.INTERNAL_SERVER_ERROR),
    },
}


QUERY_CODES = {"ExpiredTokenException": "ExpiredToken", "ThrottlingException": "Throttling"}
"""The codes that CloudWatch had before JSON, and still sends in a header. An older botocore uses that protocol."""
JSON_SERVICES = {"athena", "cloudwatch", "glue"}
TARGETS: dict[str, Service] = {
    "AWSGlue": "glue",
    "AmazonAthena": "athena",
    "GraniteServiceVersion20100801": "cloudwatch",
}
"""The services by the first part of the header X-Amz-Target."""


class FailingAWS(SilentServer):
    """An endpoint that responds to every request with the error of an outage."""

    def __init__(self, outage: Outage) -> None:
        super().__init__(partial(_refuse, ERRORS[outage]))


def _refuse(errors: dict[Service, Error], request: Request) -> Answer:
    service = _find_service(request)
    code, status = errors[service]
    if service in JSON_SERVICES:
        query_code = ("x-amzn-query-error", f"{QUERY_CODES.get(code, code)};Sender")
        headers = (query_code,) if service == "cloudwatch" else ()
        return Answer(status, {"__type": code, "message": "Refused."}, headers)
    error = f"<Error><Code>{code}</Code><Message>Refused.</Message></Error>"
    if service == "sts":  # it uses the query protocol
        return Answer(status, f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>".encode())
    return Answer(status, error.encode())


def _find_service(request: Request) -> Service:
    if request.target:
        return TARGETS[request.target.partition(".")[0]]
    return "sts" if (request.path, request.method) == ("/", "POST") else "s3"
