"""A resource is one function and one row: a stranger adds one with CONTRIBUTING alone."""

from pathlib import Path

import pytest
from fastmcp import Client
from mcp_parity import Settings, list_components
from typing_extensions import TypedDict

from quilt_mcp.app.domain import Domain, InvalidDomain
from quilt_mcp.core.registry import ResourceDefinition, define
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server, find_domains


class Greeting(TypedDict):
    greeting: str


def greet(name: str) -> Greeting:
    """Greet somebody.

    Not part of the description.
    """
    return {"greeting": f"Hello, {name}!"}


def nothing() -> dict[str, str]:
    return {}


def names(prefix: str) -> list[str]:
    return [name for name in ("Ann", "Bo") if name.startswith(prefix)]


ROW = define("greeting://hello/{name}", greet, name="Greeting", values={"name": names})


def domain_of(*rows: ResourceDefinition, name: str = "demo") -> Domain:
    return Domain(name=name, resources=rows)


async def test_a_row_is_enough_for_both_surfaces_discovery_completion_and_the_contract(fresh_world: World) -> None:
    async with Client(create_server(domains=[*find_domains(), domain_of(ROW)])) as client:
        answer = await client.call_tool("get_resource", {"uri": "greeting://hello/Ann"})
        [content] = await client.read_resource("greeting://hello/Ann")
        listing = await client.call_tool("get_resource", {})
        description = next(tool.description for tool in await client.list_tools() if tool.name == "get_resource")
        rows = {one.row.get("uri", ""): one.row for one in await list_components(client, Settings(Path()), None)}
    assert (answer.structured_content or {})["data"] == {"greeting": "Hello, Ann!"}
    assert content.text == '{"greeting":"Hello, Ann!"}'
    [listed] = (listing.structured_content or {})["data"]["greeting"]
    assert (listed["name"], listed["description"]) == ("Greeting", "Greet somebody.")
    assert "greeting:// hello/{name}" in (description or "")
    row = rows["greeting://hello/{name}"]
    assert (row["type"], row["name"], row["description"]) == ("resource_template", "Greeting", "Greet somebody.")
    assert (row["category"], row["example_uri"]) == ("greeting", "greeting://hello/Ann")


async def test_a_template_without_values_has_no_example() -> None:
    row = define("greeting://hello/{name}", greet, name="Greeting")
    async with Client(create_server(domains=[domain_of(row)])) as client:
        [listed, *_] = await list_components(client, Settings(Path()), None)
    assert (listed.row["uri"], listed.row["example_uri"]) == ("greeting://hello/{name}", "")  # the contract then fails


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        (
            [domain_of(ROW), domain_of(define("greeting://x", nothing, name="X", description="x"), name="other")],
            "The domains demo and other both claim greeting://",
        ),
        ([domain_of(ROW, ROW)], "URI defined twice: greeting://hello/{name}"),
        (
            [domain_of(ROW, define("greeting://hello/{other}", lambda other: {}, name="X", description="x"))],
            "Two URIs match the same resources: greeting://hello/{other} and greeting://hello/{name}",
        ),
        (
            [domain_of(define("greeting://hello/{nobody}", greet, name="X"))],
            "Service function does not match the URI: missing a required argument: 'name' in greeting://hello/{nobody}",
        ),
        (
            [domain_of(define("greeting://hello", greet, name="X"))],
            "Service function does not match the URI: missing a required argument: 'name' in greeting://hello",
        ),
        (
            [domain_of(define("greeting://x", nothing, name="X"))],
            "Definition lacks a name or a description: greeting://x",
        ),
        (
            [domain_of(define("greeting://x", nothing, name="X", description="x", values={"y": names}))],
            "Definition names variables that the URI does not have: y in greeting://x",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_when_the_server_is_created(domains: list[Domain], message: str) -> None:
    with pytest.raises(InvalidDomain) as refused:
        create_server(domains=domains)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
