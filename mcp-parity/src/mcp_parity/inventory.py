"""The inventory: a CSV file with a row for each resource, template and tool of the server."""

import csv
import io
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from fastmcp import FastMCP
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from mcp_parity.serving import AnyClient, get_list
from mcp_parity.settings import UI, ContractError, Settings

Row = dict[str, str]
_PATH_VARIABLE = re.compile(r"\{(\w+)\*?\}")
_BLOCK = re.compile(r"\{[?&]?([\w,*]+)\}")


@dataclass(frozen=True)
class Component:
    """A row, and what the server lists for it."""

    row: Row
    listed: Any


def read_rows(settings: Settings) -> list[Row]:
    """Return the rows of resources and templates in the inventory, or none if there is no file.

    Raises:
        ContractError: the file is no CSV file in UTF-8, or it lacks a column that is needed.
    """
    if not settings.inventory.exists():
        return []
    shown = settings.show(settings.inventory)
    try:
        rows = list(csv.DictReader(io.StringIO(settings.inventory.read_text(encoding="utf-8"))))
    except (ValueError, csv.Error) as error:
        raise ContractError(f"{shown} cannot be read: {error}; restore it, or delete it and update") from error
    if any(None in (row.get("type"), row.get("uri"), row.get("example_uri")) for row in rows):
        raise ContractError(f"{shown} has a row without type, uri or example_uri: run pytest --snapshot-update")
    return select_resources(rows)


def select_resources(rows: list[Row]) -> list[Row]:
    """Return the rows of resources and templates."""
    return [row for row in rows if row["type"] != "tool"]


def write_rows(rows: list[Row], columns: tuple[str, ...]) -> str:
    """Return the text of the CSV file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


async def list_components(client: AnyClient, settings: Settings, server: Any) -> list[Component]:
    """Return everything that the server lists: resources, then templates, then tools, sorted by URI or name.

    Raises:
        ContractError: a pattern of `mcp_exclude` matches nothing.
    """
    resources = await get_list(client.list_resources)
    found = [Component(_resource_row("resource", one, str(one.uri), [], str(one.uri)), one) for one in resources]
    for template in await get_list(client.list_resource_templates):
        uri = template.uri_template
        variables = [name.rstrip("*") for block in _BLOCK.findall(uri) for name in block.split(",")]
        example = settings.examples.get(uri) or await _find_example(client, uri, server)
        found.append(Component(_resource_row("resource_template", template, uri, variables, example), template))
    for pattern in settings.exclude:
        if pattern != UI and not any(fnmatchcase(one.row["uri"], pattern) for one in found):
            raise ContractError(f"mcp_exclude: {pattern}: the server lists no such URI")
    found = [one for one in found if not settings.excludes(one.row["uri"])]
    found.sort(key=lambda one: (one.row["type"], one.row["uri"]))
    tools = sorted(await get_list(client.list_tools), key=lambda tool: tool.name)
    return found + [Component(_tool_row(tool), tool) for tool in tools]


def _resource_row(kind: str, listed: Any, uri: str, variables: list[str], example: str) -> Row:
    return {
        **_meta_columns(listed),
        "type": kind,
        "uri": uri,
        "name": listed.name,
        "description": " ".join((listed.description or "").split()),
        "mime_type": listed.mime_type or "",
        "is_template": "true" if variables else "false",
        "template_variables": " ".join(variables),
        "example_uri": example,
    }


def _tool_row(tool: Any) -> Row:
    """Return a tool's row. The description is the first line: the rest can name every resource."""
    row = {"type": "tool", "name": tool.name, "is_template": "false"}
    return {**_meta_columns(tool), **row, "description": (tool.description or "").split("\n")[0]}


def _meta_columns(listed: Any) -> Row:
    """Return the plain values of the component's `_meta`. `mcp_columns` can name them."""
    plain = {name: value for name, value in (listed.meta or {}).items() if isinstance(value, str | int | float)}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in plain.items()}


async def _find_example(client: AnyClient, uri: str, server: Any) -> str:
    """Return the template with values that the server proposes, without parameters; empty if there are none."""
    example = uri.partition("{?")[0]
    for name in _PATH_VARIABLE.findall(example):
        value = await _complete(client, uri, name) or await _find_documented(server, uri, name)
        if not value:
            return ""
        # mypy cannot infer the type of a lambda with a default value
        example = re.sub(rf"\{{{name}\*?\}}", lambda _, value=value: value, example)  # type: ignore[misc]  # mypy cannot infer a default of a lambda
    return example


async def _complete(client: AnyClient, uri: str, name: str) -> str:
    reference = ResourceTemplateReference(type="ref/resource", uri=uri)
    try:
        values = (await client.complete(reference, {"name": name, "value": ""})).values
    except MCPError:  # the server completes nothing
        return ""
    return values[0] if values else ""


async def _find_documented(server: Any, uri: str, name: str) -> str:
    """Return the first of `Field(examples=[…])`. Only a server in this process tells them."""
    if not isinstance(server, FastMCP):
        return ""
    parameters = {one.uri_template: one.parameters for one in await server.list_resource_templates()}
    values = parameters.get(uri, {}).get("properties", {}).get(name, {}).get("examples")
    return str(values[0]) if values else ""
