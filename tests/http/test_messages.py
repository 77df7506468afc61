"""Messages over HTTP that are refused before anything reads them, and how answers are written."""

import json
from typing import Any

import pytest
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from tests.http.web import CALL_QUICK, READ_QUICK, SESSIONLESS, older, request, shop, whole_server, with_headers

INITIALIZE = older(
    "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "a", "version": "1"}
)
HANDSHAKES = ["2024-11-05", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("version", [*HANDSHAKES, "2025-03-26", SESSIONLESS, None])
async def test_a_batch_is_refused_in_words(version: str | None) -> None:
    batch = older("ping") | {"json": [older("ping")["json"]]}
    async with shop() as (client, _):
        headers = {"MCP-Protocol-Version": version} if version else {}
        response = await client.post(
            **with_headers(batch | {"headers": {"Accept": batch["headers"]["Accept"]}}, headers)
        )
    assert response.status_code == 400
    assert response.json()["id"] is None
    assert response.json()["error"]["code"] == INVALID_REQUEST
    assert response.json()["error"]["message"].startswith("Batches are not supported.")


@pytest.mark.parametrize("version", ["2099-01-01", "", "2025-11-26", "x" * 500])
@pytest.mark.parametrize("asked", [older("ping"), INITIALIZE], ids=["ping", "initialize"])
async def test_a_header_with_an_unknown_version_is_answered_with_those_that_exist(
    asked: dict[str, Any], version: str
) -> None:
    async with shop() as (client, _):
        response = await client.post(**with_headers(asked, {"MCP-Protocol-Version": version}))
    error = response.json()["error"]
    modern = [] if asked is INITIALIZE else [SESSIONLESS]
    assert (response.status_code, response.json()["id"]) == (400, 1)
    assert error["code"] == UNSUPPORTED_PROTOCOL_VERSION
    assert error["data"] == {"supported": HANDSHAKES + modern, "requested": version}


async def test_the_handshake_has_no_newest_version() -> None:
    async with shop() as (client, _):
        response = await client.post(**with_headers(INITIALIZE, {"MCP-Protocol-Version": SESSIONLESS}))
        whole = await client.post(**request("initialize", **INITIALIZE["json"]["params"]))
        usual = await client.post(**INITIALIZE)
        about = await client.post(**request("resources/read", uri='toy://"initialize"'))
    assert response.json()["error"]["data"] == {"supported": HANDSHAKES, "requested": SESSIONLESS}
    assert (whole.status_code, whole.json()["error"]["code"]) == (404, METHOD_NOT_FOUND)
    assert "result" in usual.text
    assert about.json()["error"]["data"]["error"] == "InvalidURI"


@pytest.mark.parametrize(
    "asked",
    [READ_QUICK, CALL_QUICK, request("ping"), request("tools/list"), older("ping"), older("tools/list")],
    ids=lambda asked: asked["json"]["method"],
)
async def test_line_separators_are_escaped_in_each_answer(asked: dict[str, Any]) -> None:
    number = "a\u2028b\u2029"
    async with shop() as (client, _):
        response = await client.post(**asked | {"json": asked["json"] | {"id": number}})
    assert "\u2028" not in response.text
    assert "\u2029" not in response.text
    assert int(response.headers.get("content-length", len(response.content))) == len(response.content)
    [answer] = [line for line in response.text.replace("data: ", "").splitlines() if line.startswith("{")]
    assert json.loads(answer)["id"] == number


async def test_errors_name_invalid_parameters_and_methods_that_are_not_announced() -> None:
    valid = INITIALIZE["json"]["params"]
    required = "params.clientInfo.version: Field required"
    cases = [
        ("initialize", valid | {"clientInfo": {"name": "a"}}, required),
        ("initialize", valid | {"capabilities": None}, "params.capabilities: "),
        ("initialize", {}, "params.capabilities: Field required; params.clientInfo: Field required; "),
        ("tools/call", {}, "params.name: Field required"),
        ("resources/read", {"uri": 5}, "params.uri: "),
    ]
    async with whole_server() as client:
        for method, parameters, named in cases:
            error = (await client.post(**older(method, **parameters))).json()["error"]
            assert (error["code"], named in error["message"]) == (INVALID_PARAMS, True), error
            assert error["message"].startswith("Invalid request parameters: params.")
        capabilities = (await client.post(**INITIALIZE)).json()["result"]["capabilities"]
        refused = (await client.post(**older("logging/setLevel", level="info"))).json()["error"]
    assert "logging" not in capabilities
    assert refused["code"] == METHOD_NOT_FOUND
