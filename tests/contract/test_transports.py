"""The same contract on every transport and in both protocol versions: the answers equal the goldens."""

import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_parity import ContractError
from mcp_types import ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult

from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.cases import HOME, RESOURCES
from tests.contract.scrub import scrub
from tests.contract.surfaces import AnyClient, ask
from tests.contract.test_bad_input import BAD_URIS
from tests.support.golden import GOLDEN
from tests.support.server_process import connect_to_world
from tests.support.serving import HANDSHAKE, PROTOCOLS, SESSIONLESS, TRANSPORTS, serving
from tests.support.waiting import SECONDS
from tests.support.worlds import in_world

READERS = 8
FAILING = ("signed_out", "stack_refused", "stack_error_graphql")
"""With the bad URIs of the admin's world, these have every error code."""
CODES = {-32602, -31002, -31001, -32603}
BEFORE = {"NotFound": -32003, "Unauthorized": -32002}
UNAVAILABLE = {-31001: -32001}
"""The codes of protocols before 2026-07-28, by the error's name or the code of the golden."""

Goldens = dict[str, Any]
"""The answers by URI."""


def goldens_of(world: str) -> Goldens:
    """Return the admin's answers and the errors of bad URIs, or the errors of another world."""
    if world == HOME:
        bad_uris = {uri: read(f"errors/bad-input/{kind}") for kind, uri in BAD_URIS.items()}
        return {row.example_uri: read(row.data_golden(world)) for row in RESOURCES} | bad_uris
    refused = [row for row in RESOURCES if (GOLDEN / f"{row.error_golden(world)}.json").exists()]
    return {row.example_uri: read(row.error_golden(world)) for row in refused}


def read(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


async def differences(client: AnyClient, world: World, goldens: Goldens) -> list[str]:
    """Return a description of each answer that differs from its golden."""
    found = [await difference(client, world, uri, golden) for uri, golden in goldens.items()]
    return [text for text in found if text]


async def difference(client: AnyClient, world: World, uri: str, golden: Any) -> str:
    try:
        answer = scrub((await ask(client, uri)).to_golden(), world)
    except (AssertionError, ContractError, KeyError, MCPError) as error:
        return f"{uri}: {error!r}"
    if client.protocol_version == HANDSHAKE and "resource" in golden:
        golden = golden | {"resource": golden["resource"] | {"code": find_older_code(golden["resource"])}}
    return "" if answer == golden else f"{uri}: {json.dumps(answer)}, and not {json.dumps(golden)}"


def find_older_code(error: Any) -> int:
    code: int = error["code"]
    return BEFORE.get(error["data"]["error"], UNAVAILABLE.get(code, code))


def test_the_goldens_have_every_error_code() -> None:
    goldens = [golden for world in (HOME, *FAILING) for golden in goldens_of(world).values()]
    assert {golden["resource"]["code"] for golden in goldens if "resource" in golden} == CODES


def part_of(goldens: Goldens, name: str, mode: str) -> Goldens:
    """Return a part of the goldens for each transport and protocol. Together they have all."""
    pairs = list(product(TRANSPORTS, PROTOCOLS))
    return {uri: goldens[uri] for uri in list(goldens)[pairs.index((name, mode)) :: len(pairs)]}


@in_world(HOME, soak=FAILING)
@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize("all_uris", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "all"])
async def test_over_http_the_answers_equal_the_goldens(
    name: str,
    all_uris: bool,  # noqa: FBT001 - a case
    world: World,
    server: QuiltServer,
) -> None:
    every = goldens_of(world.name)
    async with serving(server, TRANSPORTS[name]) as url:
        for mode, version in PROTOCOLS.items():
            goldens = every if all_uris else part_of(every, name, mode)
            assert goldens
            async with Client(url, mode=mode, timeout=SECONDS) as client:
                assert client.protocol_version == version
                assert await differences(client, world, goldens) == []


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_the_protocol_version_that_fastmcps_client_chooses(name: str) -> None:
    async with serving(create_server(), TRANSPORTS[name]) as url, Client(url, timeout=SECONDS) as client:
        assert client.protocol_version == TRANSPORTS[name].auto


@pytest.mark.parametrize(
    ("mode", "length"),
    [
        ("legacy", 5_000_000),  # the MCP library accepts bodies of up to 4 MiB
        (
            SESSIONLESS,
            100_000,
        ),  # this protocol also sends the URI in a header, and uvicorn accepts headers of up to 64 KiB
    ],
)
async def test_after_a_request_too_large_for_http_the_next_is_answered(mode: str, length: int) -> None:
    parameters = ReadResourceRequestParams(uri="x://" + "x" * length)
    transport = TRANSPORTS["streamable HTTP"]
    async with serving(create_server(), transport) as url, Client(url, mode=mode, timeout=SECONDS) as client:
        with pytest.raises(MCPError):
            await client.session.send_request(ReadResourceRequest(params=parameters), ReadResourceResult)
        assert (await ask(client, "metadata://templates")).body["success"]


@pytest.mark.soak
@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_over_stdio_the_answers_equal_the_goldens_also_for_eight_concurrent_readers(
    mode: str, tmp_path: Path
) -> None:
    goldens = goldens_of(HOME)
    at_once = list(goldens)[:READERS]
    async with connect_to_world(HOME, mode, tmp_path) as (client, world):
        assert client.protocol_version == PROTOCOLS[mode]
        assert await differences(client, world, goldens) == []
        found = await asyncio.gather(*(difference(client, world, uri, goldens[uri]) for uri in at_once))
        assert found == [""] * READERS
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert log.count(" surface=resource ") == log.count(" surface=tool ") == len(goldens) + READERS
    assert "Traceback" not in log
