"""A client of a server over a requirements database, and how to ask as one user or another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from mcp.shared.exceptions import MCPError

from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.contract.surfaces import Answer, AnyClient, ask


@asynccontextmanager
async def client_of(settings: Settings, user: str | None = None, **changes: Any) -> AsyncIterator[AnyClient]:
    """A client whose caller is a user of the database; without one, its administrator."""
    server = create_server(settings.model_copy(update={"requirements_user": user, **changes}))
    async with Client(server) as client:
        yield client


async def read(client: AnyClient, path: str) -> dict[str, Any]:
    """The data of requirements://path, which both surfaces must answer alike."""
    answer = await ask(client, f"requirements://{path}")
    assert answer.body["success"], answer.body
    data: dict[str, Any] = answer.body["data"]
    return data


async def refusal(client: AnyClient, path: str) -> Answer:
    """The refusal of requirements://path on both surfaces."""
    answer = await ask(client, f"requirements://{path}")
    assert not answer.body["success"], answer.body
    return answer


async def every_page(client: AnyClient, path: str, key: str, limit: int) -> list[list[dict[str, Any]]]:
    """All pages of a collection, by its cursors."""
    pages, cursor = [], ""
    while True:
        page = await read(client, f"{path}?limit={limit}{cursor}")
        pages.append(page[key])
        if page["next_cursor"] is None:
            return pages
        cursor = f"&cursor={page['next_cursor']}"


async def listed(client: AnyClient) -> list[str]:
    """The URIs of all pages of resources/list below requirements://."""
    found, cursor = [], None
    while True:
        page = await client.list_resources_mcp(cursor=cursor)
        found += [str(one.uri) for one in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            return [uri for uri in found if uri.startswith("requirements://")]


async def list_refusal(client: AnyClient, cursor: str | None = None) -> dict[str, Any]:
    """The error of resources/list: its code and its body."""
    try:
        await client.list_resources_mcp(cursor=cursor)
    except MCPError as error:
        return {"code": error.error.code, **(error.error.data or {})}
    raise AssertionError("the list was answered")
