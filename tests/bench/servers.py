"""`python -m tests.bench.servers NAME …`: servers for comparison, which run exactly like ours.

payloads                   our server with synthetic payloads instead of its domains
payloads-as-tools          the same by FastMCP's ResourcesAsTools
quilt-as-tools             our resources by FastMCP's ResourcesAsTools
list-all FILE              FastMCP's own paging over a requirements database

The arguments that follow are those of `quilt-mcp serve`.
"""

import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any
from unittest.mock import patch
from uuid import UUID

from fastmcp import FastMCP
from fastmcp.resources import Resource
from fastmcp.server.providers import Provider

from quilt_mcp.app import App
from quilt_mcp.commands import cli
from quilt_mcp.requirements.model import KINDS, Kind
from quilt_mcp.server import create_manager
from quilt_mcp.settings import Settings
from tests.bench.synthetic import payload_server, payloads, server_with_resources_as_tools

PAGE_SIZE = 200


class ListAll(Provider):
    """Lists every entity of a requirements database, as FastMCP requires of a provider."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    async def _list_resources(self) -> Sequence[Resource]:
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as connection:
            return [one for kind in KINDS for one in _entities(connection, kind)]


def _entities(connection: sqlite3.Connection, kind: Kind) -> list[Resource]:
    title = "title" if kind.statuses else "description"
    rows = connection.execute(f"SELECT id, reference_id, {title} FROM {kind.table} ORDER BY id")  # noqa: S608 - constants
    return [_resource(kind, *row) for row in rows]


def _resource(kind: Kind, entity_id: str, reference_id: str, title: str) -> Resource:
    return Resource(
        uri=f"requirements://{kind.segment}/{UUID(entity_id)}",
        name=f"{kind.title}: {title[:120]}",
        description=f"{kind.title} {reference_id}: {title[:120]}",
        mime_type="application/json",
    )


def _quilt_as_tools() -> FastMCP:
    return server_with_resources_as_tools(create_manager(App(Settings())))


def _list_all(file: str) -> FastMCP:
    return FastMCP("list-all", providers=[ListAll(file)], list_page_size=PAGE_SIZE)


SERVERS: dict[str, Callable[..., FastMCP[Any]]] = {
    "payloads": payload_server,
    "payloads-as-tools": lambda: server_with_resources_as_tools(payloads()),
    "quilt-as-tools": _quilt_as_tools,
    "list-all": _list_all,
}


def main(arguments: Sequence[str]) -> int:
    """Serve the named server as `quilt-mcp serve` serves ours."""
    name, *others = arguments
    own = [others.pop(0)] if name == "list-all" else []

    def create() -> FastMCP:
        server = SERVERS[name](*own)
        vars(server).setdefault("app", App(Settings()))  # `serve` looks for the audit log there
        return server

    with patch("quilt_mcp.commands.startup.create_server", create):
        return cli.main(["serve", *others])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
