"""Clients of a server with a requirements database, as different users."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from mcp.shared.exceptions import MCPError

from quilt_mcp.requirements.resources import REQUIREMENTS
from quilt_mcp.server import create_server
from quilt_mcp.services.resources import QUILT
from tests.contract.surfaces import Answer, AnyClient, ask
from tests.support.settings import Settings

PARTIAL = "io.github.quilt-mcp/partial"
"""The key of `_meta` that names the providers that are missing from a page."""


@asynccontextmanager
async def connect(settings: Settings, user: str | None = None, **changes: Any) -> AsyncIterator[AnyClient]:
    """A client with this user of the database as its caller. Without a user, the caller is an administrator.

    The server has two domains, because the tools of the others take most of the time of its creation.
    """
    changed = settings.model_copy(update={"requirements_user": user, **changes})
    server = create_server(changed, domains=[QUILT, REQUIREMENTS])
    async with Client(server) as client:
        yield client


async def read(client: AnyClient, path: str) -> dict[str, Any]:
    """Return the data of requirements://path, which must be equal on both surfaces."""
    answer = await ask(client, f"requirements://{path}")
    assert answer.body["success"], answer.body
    data: dict[str, Any] = answer.body["data"]
    return data


async def read_failure(client: AnyClient, path: str) -> Answer:
    """Return the failure of requirements://path, which must be equal on both surfaces."""
    answer = await ask(client, f"requirements://{path}")
    assert not answer.body["success"], answer.body
    return answer


async def read_all(client: AnyClient, path: str) -> list[dict[str, Any]]:
    """Return all pages, as their documentation says to read them."""
    pages = [await read(client, path)]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(await read(client, f"{path}{'&' if '?' in path else '?'}cursor={cursor}"))
    return pages


async def read_pages(client: AnyClient, path: str, key: str, limit: int) -> list[list[dict[str, Any]]]:
    return [page[key] for page in await read_all(client, f"{path}{'&' if '?' in path else '?'}limit={limit}")]


async def list_uris(client: AnyClient) -> list[str]:
    found, cursor = [], None
    while True:
        page = await client.list_resources_mcp(cursor=cursor)
        found += [str(one.uri) for one in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            return [uri for uri in found if uri.startswith("requirements://")]


async def list_failure(client: AnyClient, cursor: str | None = None) -> dict[str, Any]:
    """Return the error of resources/list: its code and its body."""
    try:
        await client.list_resources_mcp(cursor=cursor)
    except MCPError as error:
        return {"code": error.error.code, **(error.error.data or {})}
    raise AssertionError("resources/list succeeded")
