"""Checks every response of a fake AWS, as it arrives at botocore, against botocore's service model."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from typing import Any
from xml.etree import ElementTree as ET

import botocore
import botocore.session

from tests.support.aws_errors import HEAD, SERVICE_ERRORS
from tests.support.aws_shapes import Element, compare_headers, compare_json, compare_xml, strip_namespace

SERVICES = frozenset(SERVICE_ERRORS)
JSON_SERVICES = frozenset({"athena", "cloudwatch", "glue"})
ANY_S3_HEADER = frozenset({"x-amz-bucket-region", "x-amz-request-id", "x-amz-id-2"})


class Validation:
    """The operations that were answered, and the faults in the answers."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.faults: set[str] = set()
        self._lock = threading.Lock()

    def register(self, session: Any) -> None:
        """Check the responses that the clients of a botocore session receive."""
        session.register("response-received", self._check)

    def _check(self, event_name: str, response_dict: Any, **_: Any) -> None:
        service, operation = event_name.split(".")[1:]
        if response_dict is None or service not in SERVICES:
            return
        is_refusal = response_dict["status_code"] >= HTTPStatus.MULTIPLE_CHOICES
        try:
            faults = list(find_faults(service, operation, response_dict))
        except (ET.ParseError, ValueError, LookupError) as error:  # the body has another format
            faults = [f"cannot be read: {error!r}"]
        with self._lock:
            (self.refused if is_refusal else self.answered)[f"{service}:{operation}"] += 1
            self.faults |= {f"{service}:{operation}: {fault}" for fault in faults}


@contextmanager
def validate_aws() -> Iterator[Validation]:
    """Check the responses of all sessions that are created until the context ends."""
    validation = Validation()
    botocore.register_initializer(validation.register)
    try:
        yield validation
    finally:
        botocore.unregister_initializer(validation.register)


def find_faults(service: str, operation: str, response: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between a response and the service model."""
    model = load_model(service).operation_model(operation)
    if response["status_code"] >= HTTPStatus.MULTIPLE_CHOICES:
        yield from _check_error(service, model, response)
    elif uses_json(model):
        yield from compare_json(json.loads(response["body"]), model.output_shape, operation)
    elif service in {"cloudwatch", "sts"}:  # an older botocore calls CloudWatch so, too
        yield from _check_query(model, _parse_xml(response["body"]))
    else:
        yield from compare_headers(response["headers"], model.output_shape, ANY_S3_HEADER)
        if not model.has_streaming_output and response["body"]:
            yield from compare_xml(_parse_xml(response["body"]), model.output_shape, operation)


def uses_json(model: Any) -> bool:
    """Return whether botocore uses AWS's JSON protocol, which it prefers if a service has several."""
    metadata = model.service_model.metadata
    return "json" in metadata.get("protocols", [metadata["protocol"]])


@cache
def load_model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _check_query(model: Any, root: Element) -> Iterator[str]:
    result = root.find(f"{{*}}{model.name}Result")
    if result is None or strip_namespace(root.tag) != f"{model.name}Response":
        yield "there is no result"
    else:
        yield from compare_xml(result, model.output_shape, model.name)


def _check_error(service: str, model: Any, response: Mapping[str, Any]) -> Iterator[str]:
    status = response["status_code"]
    if model.http["method"] == "HEAD" or status == HTTPStatus.NOT_MODIFIED:
        if response["body"]:
            yield "the response to a HEAD, or a response 304, has a body"
        if status not in HEAD:
            yield f"the status {status} is not documented"
        return
    code, message = _read_error(service, response["body"])
    of_operation = {shape.error_code: shape.metadata.get("error", {}) for shape in model.error_shapes}
    of_service = SERVICE_ERRORS[service]
    if not message:
        yield f"{code} has no message"
    if code in of_operation:
        expected = {of_operation[code].get("httpStatusCode", 500 if of_operation[code].get("fault") else 400)}
        expected |= {500} if code.startswith("Internal") else set()
    else:
        expected = of_service.get(code, set())
    if not expected:
        yield f"the code {code} is not documented"
    elif status not in expected:
        yield f"{code} has the status {status}"


def _read_error(service: str, body: bytes) -> tuple[str, str]:
    """Return the code and the message."""
    if service in JSON_SERVICES:
        error = json.loads(body)
        return str(error["__type"]).rpartition("#")[2], str(error.get("message") or error.get("Message") or "")
    root = _parse_xml(body)
    start = "{*}Error/" if strip_namespace(root.tag) == "ErrorResponse" else ""
    return root.findtext(f"{start}{{*}}Code") or "", root.findtext(f"{start}{{*}}Message") or ""


def _parse_xml(body: bytes) -> Element:
    return ET.fromstring(body)  # noqa: S314 - the fake wrote it
