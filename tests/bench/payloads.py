"""`python -m tests.bench.payloads serve …`: our whole server, with answers of known sizes instead of its domains."""

import json
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from quilt_mcp.app.domain import Domain
from quilt_mcp.commands import cli
from quilt_mcp.core.registry import ResourceDefinition, define
from quilt_mcp.server import QuiltServer, create_server

PAYLOADS = {"1 KB": 1_000, "1 MB": 1_000_000}
"""The sizes of answers, in bytes of JSON."""


def payload_uri(size: int) -> str:
    """The URI of the resource with an answer of this size."""
    return f"payload://bytes/{size}"


def rows(size: int) -> dict[str, Any]:
    """Data with about this number of bytes as JSON: rows such as a database answers."""
    made: list[dict[str, Any]] = []
    length = len('{"rows":[]}')
    while length < size:
        number = len(made)
        made.append({"id": number, "name": f"row {number}", "ratio": number / 7, "tags": ["a", "b"], "active": True})
        length += len(json.dumps(made[-1], separators=(",", ":"))) + 1
    return {"rows": made}


def _create() -> QuiltServer:
    return create_server(domains=[Domain(name="payloads", resources=_list_payloads())])


def _list_payloads() -> list[ResourceDefinition]:
    return [define(payload_uri(size), _constant(rows(size)), name=f"{size} bytes") for size in PAYLOADS.values()]


def _constant(data: dict[str, Any]) -> Callable[[], Any]:
    async def answer() -> dict[str, Any]:
        """Rows."""
        return data

    return answer


if __name__ == "__main__":
    with patch("quilt_mcp.commands.startup.create_server", _create):
        sys.exit(cli.main(sys.argv[1:]))
