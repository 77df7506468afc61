"""Writes tests/fixtures/mcp-list.csv from the live server in the demo's admin world: `make mcp-list`."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from dataclasses import asdict, fields
from typing import Any

from fastmcp import Client
from mcp_types import Resource, ResourceTemplate, ResourceTemplateReference, Tool

from quilt_mcp.demo.world import demo_world
from quilt_mcp.registry import optional_parameters, path_of, path_variables
from quilt_mcp.server import create_server
from tests.contract.cases import CSV, HOME, Row
from tests.contract.surfaces import AnyClient


async def csv_text(client: AnyClient) -> str:
    """The file's text, from what the server lists to a client."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows([asdict(row) async for row in _rows(client)])
    return out.getvalue()


async def _rows(client: AnyClient) -> AsyncIterator[Row]:
    templates = await client.list_resource_templates()
    also_templates = {path_of(template.uri_template) for template in templates}
    for resource in await client.list_resources():
        if resource.meta and str(resource.uri) not in also_templates:  # what a database lists has none
            yield _row("resource", resource, str(resource.uri), [], str(resource.uri))
    for template in templates:
        pattern = template.uri_template
        example = path_of(pattern)
        for variable in path_variables(pattern):
            reference = ResourceTemplateReference(type="ref/resource", uri=pattern)
            values = (await client.complete(reference, {"name": variable, "value": ""})).values
            example = example.replace(f"{{{variable}}}", values[0])
        variables = path_variables(pattern) + optional_parameters(pattern)
        yield _row("resource_template", template, pattern, variables, example)
    for tool in await client.list_tools():
        yield _tool_row(tool)


def _row(kind: str, listed: Resource | ResourceTemplate, uri: str, variables: list[str], example: str) -> Row:
    meta: dict[str, Any] = listed.meta or {}
    return Row(
        type=kind,
        uri=uri,
        name=listed.name,
        description=listed.description or "",
        category=meta["category"],
        mime_type=listed.mime_type or "",
        is_template=_word(bool(variables)),
        template_variables=" ".join(variables),
        requires_admin=_word(meta["requires_admin"]),
        example_uri=example,
    )


def _tool_row(tool: Tool) -> Row:
    """A tool's row: its first line describes it; it has no URI."""
    [category] = (tool.meta or {})["fastmcp"]["tags"]
    first_line = (tool.description or "").split("\n")[0]
    return Row("tool", "", tool.name, first_line, category, "", _word(value=False), "", _word(value=False), "")


def _word(value: bool) -> str:  # noqa: FBT001 - it is what it writes
    return "true" if value else "false"


async def _write() -> None:
    with demo_world(HOME):
        async with Client(create_server()) as client:
            CSV.write_text(await csv_text(client), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
