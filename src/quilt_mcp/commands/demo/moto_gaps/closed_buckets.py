"""Buckets that refuse everybody, without the cost of moto.

A world with very many buckets needs them: moto takes more than a millisecond to find that a bucket grants no rights.
The access key of the sender is not checked.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from moto.core.botocore_stubber import BotocoreStubber
from moto.core.common_types import TYPE_RESPONSE

from quilt_mcp.commands.demo.moto_gaps.behaviour import Behaving
from quilt_mcp.commands.demo.records import REGION

ACCESS_DENIED = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"

Process = Callable[[BotocoreStubber, Any], TYPE_RESPONSE | None]


def refuse_closed_buckets(process: Process) -> Process:
    """Return moto's function that processes a request, preceded by the refusal of closed buckets."""

    def process_request(stubber: BotocoreStubber, request: Any) -> TYPE_RESPONSE | None:
        closed = Behaving.behaviour.closed_buckets
        if not closed or _find_bucket(request.url) not in closed:
            return process(stubber, request)
        headers = {"x-amz-bucket-region": REGION, "content-type": "application/xml"}
        return HTTPStatus.FORBIDDEN, headers, "" if request.method == "HEAD" else ACCESS_DENIED

    return process_request


def _find_bucket(url: str) -> str:
    """Return the bucket in the host, or in the path of a URL; "" for other requests."""
    parts = urlsplit(url)
    bucket, _, service = parts.netloc.partition(".")
    if service.startswith("s3."):
        return bucket
    return parts.path.split("/")[1] if bucket == "s3" else ""
