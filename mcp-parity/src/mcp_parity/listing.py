"""What a server lists and says of itself, and the inventory: a CSV file with a row for each entry."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote

import mcp_types
from fastmcp import FastMCP
from mcp.shared.exceptions import MCPError

from mcp_parity.serving import ANSWER, AnyClient
from mcp_parity.settings import UI, ContractError, Row, Settings, parse_rows
from mcp_parity.values import are_equal, describe, find_differences

MOST_PAGES = 1_000
_PATH_VARIABLE = re.compile(r"\{(\+?)(\w+)(\*?)\}")
_RESERVED = ":/?#[]@!$&'()*+,;="  # in RFC 6570, values of {+path} have them as they are
_BLOCK = re.compile(r"\{[?&+#./;]?([\w,*]+)\}")


class Listing(NamedTuple):
    """A list of the server: its request, the field of the answer, and the field that names an entry."""

    request: type[mcp_types.PaginatedRequest[Any]]
    field: str
    key: str


LISTS = {
    "resources": Listing(mcp_types.ListResourcesRequest, "resources", "uri"),
    "resource-templates": Listing(mcp_types.ListResourceTemplatesRequest, "resourceTemplates", "uriTemplate"),
    "tools": Listing(mcp_types.ListToolsRequest, "tools", "name"),
    "prompts": Listing(mcp_types.ListPromptsRequest, "prompts", "name"),
}


@dataclass(frozen=True)
class Component:
    """A row, and the entry of the list, as the server sends it."""

    row: Row
    listed: dict[str, Any]


async def get_list(client: AnyClient, name: str) -> list[dict[str, Any]]:
    """Return the entries of a list as the server sends them; none if it does not know the request."""
    entries = [entry for page in await get_pages(client, name) for entry in page]
    counts = Counter(str(entry[LISTS[name].key]) for entry in entries)
    if twice := sorted(one for one, count in counts.items() if count > 1):
        raise ContractError("\n".join(f"{name}: {one} is listed more than once" for one in twice))
    return entries


async def get_pages(client: AnyClient, name: str) -> list[list[dict[str, Any]]]:
    """Return the entries of each page of a list. If one occurs twice, or they do not end, it is a ContractError."""
    request, field, _ = LISTS[name]
    cursors: list[str] = []
    pages: list[list[dict[str, Any]]] = []
    cursor = None
    while cursor not in cursors:
        cursors += [cursor] if cursor is not None else []
        try:
            asked = request(params=mcp_types.PaginatedRequestParams(cursor=cursor))
            page = await client.session.send_request(asked, ANSWER)
        except MCPError as error:
            if error.error.code == mcp_types.METHOD_NOT_FOUND and not pages:
                return []
            raise
        if page[field] and page[field] in pages:
            raise ContractError(f"{name}: page {len(pages) + 1} repeats page {pages.index(page[field]) + 1}")
        pages.append(page[field])
        cursor = page.get("nextCursor")
        if cursor is None:
            return pages
        if len(pages) == MOST_PAGES:
            raise ContractError(f"{name}: the list does not end after {MOST_PAGES:,} pages")
    raise ContractError(f"{name}: page {len(pages)} names the next page {cursor!r}, which was read before")


async def describe_start(client: AnyClient, fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the wanted fields of what the server says of itself at its start, in either era of the protocol."""
    said: dict[str, Any] = {"protocol": client.protocol_version, "instructions": client.instructions}
    info, capabilities = client.server_info, client.server_capabilities
    if client.session.discover_result is not None:  # nobody has asked if the configuration names the protocol
        answer = await client.session.send_discover(str(client.protocol_version))
        found = mcp_types.DiscoverResult.model_validate(answer)
        said["instructions"], capabilities = found.instructions, found.capabilities
        named = (found.meta or {}).get(mcp_types.SERVER_INFO_META_KEY)
        said |= named if isinstance(named, dict) else {}
    elif info is not None:
        said |= info.model_dump(mode="json", by_alias=True, exclude_none=True)
    offered = capabilities or mcp_types.ServerCapabilities()
    said["capabilities"] = offered.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: said[name] for name in fields if said.get(name) is not None}


def read_rows(settings: Settings) -> list[Row]:
    """Return the rows of the inventory, or none if there is no file. One that cannot be used is a ContractError."""
    if not settings.inventory.exists():
        return []
    shown = settings.show(settings.inventory)
    try:
        rows, lacks = parse_rows(settings.inventory.read_text(encoding="utf-8"))
    except (ValueError, csv.Error) as error:
        raise ContractError(f"{shown} cannot be read: {error}; restore it, or delete it and update") from error
    if lacks and rows:
        raise ContractError(f"{shown} has a row without type, uri or example_uri: run pytest --snapshot-update")
    return rows


def select_resources(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["type"] != "tool"]


def describe_changes(known: list[Row], listed: list[Row], columns: tuple[str, ...], file: str) -> list[str]:
    """Return a line for each difference between the rows of the inventory in a file and those of the server."""
    was, now = ({(row["type"], row["uri"] or row["name"]): row for row in rows} for rows in (known, listed))
    lines = [f"  {name}: in {file}, but the server does not list it" for _, name in sorted(was.keys() - now.keys())]
    lines += [f"  {name}: the server lists it, but it is not in {file}" for _, name in sorted(now.keys() - was.keys())]
    for key in sorted(was.keys() & now.keys()):
        before, after = ({name: row.get(name, "") for name in columns} for row in (was[key], now[key]))
        lines += describe(list(find_differences(before, after, key[1])), file, "server").splitlines()
    return lines or ["  the rows are in another order, or the columns are others"]


def write_rows(rows: list[Row], columns: tuple[str, ...]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    # a file that is read as text has no \r
    writer.writerows({name: value.replace("\r", "") for name, value in row.items()} for row in rows)
    return out.getvalue()


async def list_components(client: AnyClient, settings: Settings, server: Any) -> list[Component]:
    """Return everything that the server lists: resources, then templates, then tools, sorted by URI or name."""
    resources = await get_list(client, "resources")
    found = [Component(_to_row("resource", one, one["uri"], (), one["uri"]), one) for one in resources]
    for template in await get_list(client, "resource-templates"):
        uri = template["uriTemplate"]
        variables = [name.rstrip("*") for block in _BLOCK.findall(uri) for name in block.split(",")]
        example = settings.examples.get(uri) or await find_example(client, uri, server)
        found.append(Component(_to_row("resource_template", template, uri, variables, example), template))
    for pattern in settings.exclude:
        if pattern != UI and not any(fnmatchcase(one.row["uri"], pattern) for one in found):
            raise ContractError(f"mcp_exclude: {pattern}: the server lists no such URI")
    found = [one for one in found if not settings.excludes(one.row["uri"])]
    found.sort(key=lambda one: (one.row["type"], one.row["uri"]))
    tools = sorted(await get_list(client, "tools"), key=itemgetter("name"))
    return found + [Component(_to_row("tool", tool), tool) for tool in tools]


def _to_row(kind: str, listed: dict[str, Any], uri: str = "", variables: Iterable[str] = (), example: str = "") -> Row:
    """Return the row of an entry. `mcp_columns` can name the plain values of its `_meta`."""
    plain = {name: one for name, one in (listed.get("_meta") or {}).items() if isinstance(one, str | int | float)}
    text = listed.get("description") or ""
    return {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in plain.items()} | {
        "type": kind,
        "uri": uri,
        "name": listed["name"],
        "description": text.split("\n")[0] if kind == "tool" else " ".join(text.split()),  # a tool's can name all URIs
        "mime_type": listed.get("mimeType") or "",
        "is_template": "true" if variables else "false",
        "template_variables": " ".join(variables),
        "example_uri": example,
    }


async def find_example(client: AnyClient, uri: str, server: Any) -> str:
    """Return the template with values that the server proposes, without parameters; empty if one is missing."""
    example = uri.partition("{?")[0]
    for plus, name, star in _PATH_VARIABLE.findall(example):
        value = await _complete(client, uri, name) or await _find_documented(server, uri, name)
        if not value:
            return ""
        example = example.replace(f"{{{plus}{name}{star}}}", quote(value, safe=_RESERVED if plus or star else ""))
    return "" if "{" in example else example


async def _complete(client: AnyClient, uri: str, name: str) -> str:
    reference = mcp_types.ResourceTemplateReference(type="ref/resource", uri=uri)
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


OWN_TOOL = "get_resource"


def match_template(uri: str, templates: Iterable[str]) -> bool:
    """Return whether a template can stand for the URI: a variable for any text, `{?…}` also for none."""
    for template in templates:
        parts = [re.escape(part) for part in re.split(r"\{[^}]*\}?", template)]
        kinds = [".*" if one in tuple("?&#;./") else ".+" for one in re.findall(r"\{(.?)[^}]*\}?", template)]
        if re.fullmatch("".join(part + kind for part, kind in zip(parts, [*kinds, ""], strict=True)), uri, re.DOTALL):
            return True
    return False


def find_unknown(uris: Iterable[str], lists: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return misspelt forms of URIs and templates that no list of the server knows."""
    listed = {one["uri"] for one in lists["resources"]}
    templates = [one["uriTemplate"] for one in lists["resource-templates"]]
    misspelt = dict.fromkeys(misspell(uri) for uri in uris)
    return [one for one in misspelt if one and one not in listed and not match_template(one, templates)]


def misspell(uri: str) -> str:
    """Return a URI that is probably unknown; empty if every text is a valid URI."""
    path = uri.partition("{")[0].rstrip("/")
    if not path or path.endswith(":"):
        return ""
    return path[:-1] + ("y" if path.endswith("x") else "x") + ("/v" if "{" in uri else "")


def check_discovery(found: dict[str, Any]) -> None:
    """Check that the tool lists the resources of both lists. A template stands for the resources that match it."""
    data = found["get-resource"].get("data", {})
    shown = {row["uri"]: row for rows in data.values() for row in rows}
    templates = [uri for uri in shown if "{" in uri]
    listed = {one["uri"]: one for one in found["resources"]}
    listed |= {one["uriTemplate"]: one for one in found["resource-templates"]}
    missing = [uri for uri in listed.keys() - shown.keys() if not match_template(uri, templates)]
    lines = [f"  {uri}: listed by resources/list, not by {OWN_TOOL}()" for uri in sorted(missing)]
    lines += [f"  {uri}: listed by {OWN_TOOL}(), not by resources/list" for uri in sorted(shown.keys() - listed.keys())]
    both = sorted(shown.keys() & listed.keys())
    lines += [line for uri in both for line in _describe_row(uri, shown[uri], listed[uri])]
    if lines:
        raise ContractError("\n".join([f"{OWN_TOOL}() and resources/list differ", *lines]))


def _describe_row(uri: str, shown: dict[str, Any], listed: dict[str, Any]) -> list[str]:
    """Return a line for each field of a resource that both lists have, with different values."""
    fields = {**listed.get("_meta", {}), "description": "", "mime_type": listed.get("mimeType"), **listed}
    wrong = [name for name in shown.keys() & fields.keys() if not are_equal(shown[name], fields[name])]
    pairs = ((name, json.dumps(fields[name]), json.dumps(shown[name])) for name in sorted(wrong))
    return [f"  {uri}: {name}: resources/list: {one}; {OWN_TOOL}(): {other}" for name, one, other in pairs]
