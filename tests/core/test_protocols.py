"""What differs between the protocol versions, and what a server says at the start."""

import re
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.server.middleware import MiddlewareContext
from mcp import Client as SDKClient
from mcp.shared.exceptions import MCPError
from mcp_types import (
    InitializeRequest,
    InitializeResult,
    PromptReference,
    ServerCapabilities,
)

from quilt_mcp.core import errors
from quilt_mcp.core.introduction import APPS, Introduction
from quilt_mcp.core.registry import build_registry
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.support.low_level import low_level
from tests.support.serving import PROTOCOLS, SESSIONLESS
from tests.support.toys import toy, toy_manager, toy_server
from tests.support.worlds import in_world

FAILURES: list[tuple[errors.ResourceFailure, int, int]] = [
    (errors.NotFound("There is no such thing."), -32003, -32602),
    (errors.Unauthorized("Not yours."), -32002, -31002),
    (errors.NotSignedIn("Who are you?"), -32002, -31002),
    (errors.Unavailable("Later."), -32001, -31001),
    (errors.TooManyRequests("Slowly.", retry_after_seconds=1), -32001, -31001),
    (errors.ResourceExecutionError("It failed."), -32603, -32603),
    (errors.InvalidURI("What?"), -32602, -32602),
]
"""Each failure with its code before protocol 2026-07-28, and since."""


def failing(failure: errors.ResourceFailure) -> Any:
    def fail() -> dict[str, Any]:
        raise failure

    return fail


@pytest.mark.parametrize("mode", PROTOCOLS)
@pytest.mark.parametrize(("failure", "before", "since"), FAILURES, ids=lambda one: type(one).__name__)
async def test_a_failure_has_the_code_of_the_protocol_and_the_same_body_in_all(
    failure: errors.ResourceFailure, before: int, since: int, mode: str
) -> None:
    server = toy_server(toy_manager(toy("toys://one", failing(failure))))
    async with Client(server, mode=mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource("toys://one")
        by_tool = await client.call_tool("get_resource", {"uri": "toys://one"}, raise_on_error=False)
    assert refused.value.error.code == (since if mode == SESSIONLESS else before)
    assert refused.value.error.data == by_tool.structured_content
    assert by_tool.structured_content["error"] == failure.error


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_server_announces_what_it_has_and_nothing_else(mode: str) -> None:
    async with Client(create_server(), mode=mode) as client:
        assert client.protocol_version == PROTOCOLS[SESSIONLESS if mode == "auto" else mode]
        announced, info = client.server_capabilities, client.server_info
        prompts = await client.list_prompts()
    assert isinstance(announced, ServerCapabilities)
    # protocols before 2026-07-28 have no extensions
    extensions: dict[str, Any] = {} if mode == "legacy" else {"extensions": {APPS: {}}}
    assert announced.model_dump(exclude_none=True) == extensions | {
        "prompts": {"list_changed": False},
        "resources": {"list_changed": False, "subscribe": False},
        "tools": {"list_changed": False},
        "completions": {},
    }
    assert prompts
    assert info is not None
    assert (info.name, info.title, info.website_url) == ("quilt-mcp", "Quilt", "https://quilt.bio")
    assert [icon.mime_type for icon in info.icons or ()] == ["image/svg+xml"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_without_prompts_announces_what_it_answers(mode: str) -> None:
    server = create_server(domains=[])
    async with Client(server, mode=mode) as client:
        announced = client.server_capabilities
        assert await client.list_prompts() == []
    assert announced is not None
    assert announced.prompts is not None


@pytest.mark.parametrize(
    ("asked", "given"),
    [("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2024-11-05"), ("x", "2025-11-25")],
)
async def test_the_version_with_batches_is_not_negotiated(asked: str, given: str) -> None:
    async with Client(create_server(domains=[]), mode="legacy", auto_initialize=False) as client:
        parameters = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        request = InitializeRequest.model_validate({"method": "initialize", "params": parameters})
        result = await client.session.send_request(request, InitializeResult)
    assert result.protocol_version == given


URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=-]|%[0-9A-Fa-f]{2})+")
"""RFC 3986, which the format `uri` of the protocol's schema means. Without the quote, which needs no escape there."""


@in_world("admin")
@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_what_the_schema_calls_a_uri_is_one(mode: str, world: World) -> None:
    del world
    async with Client(create_server(), mode=mode) as client:
        found = [str(one.uri) for one in await client.list_resources()]
        info = client.server_info
    if mode != SESSIONLESS:  # which names the server in an answer that this client does not ask for
        assert info is not None
        assert info.icons
        found += [str(info.website_url), *(icon.src for icon in info.icons)]
    assert len(found) > 100
    assert [one for one in found if not URI.fullmatch(one)] == []


async def test_a_client_may_keep_only_what_depends_on_no_caller() -> None:
    async with Client(create_server(), mode=SESSIONLESS) as client:
        hints = {
            uri: (found.ttl_ms, found.cache_scope)
            for uri in ("metadata://templates", "metadata://templates/standard", "config://security", "config://server")
            if (found := await client.read_resource_mcp(uri))
        }
        tools = await client.list_tools_mcp()
        with pytest.raises(MCPError) as refused:
            await client.read_resource("metadata://templates/none")
    assert hints == {
        "metadata://templates": (3_600_000, "public"),
        "metadata://templates/standard": (3_600_000, "public"),
        "config://security": (300_000, "public"),
        "config://server": (0, "private"),
    }
    assert (tools.ttl_ms, tools.cache_scope) == (300_000, "private")
    assert "ttlMs" not in str(refused.value.error)


async def test_the_cache_of_a_client_answers_the_second_read_of_a_static_text() -> None:
    reads = list[str]()

    def read() -> dict[str, Any]:
        reads.append("read")
        return {"text": "the same for everybody"}

    rows = [
        toy("toys://kept", read, ttl_seconds=60, shared=True),
        toy("toys://fresh", read),
    ]
    async with SDKClient(low_level(toy_server(toy_manager(*rows))), mode=SESSIONLESS) as client:
        for uri in ("toys://kept", "toys://fresh"):
            for _ in range(3):
                await client.read_resource(uri)
    assert len(reads) == 4


@pytest.mark.parametrize("rights", ["requires_admin", "requires_sign_in"])
def test_an_answer_that_not_everybody_may_read_cannot_be_shared(rights: str) -> None:
    row = toy("toys://one", failing(errors.NotFound("x")), shared=True, **{rights: True})
    with pytest.raises(ValueError, match="callers who may not read it: toys://one"):
        build_registry([row])


def test_a_time_to_live_is_not_negative() -> None:
    row = toy("toys://one", failing(errors.NotFound("x")), ttl_seconds=-1)
    with pytest.raises(ValueError, match="Negative time to live: toys://one"):
        build_registry([row])


@pytest.mark.parametrize(("hook", "answer"), [("on_initialize", None), ("on_discover", {"of": "an extension"})])
async def test_an_introduction_of_something_else_is_passed_on(hook: str, answer: object) -> None:
    async def call_next(_: object) -> object:
        return answer

    introduction = Introduction(title="Toys", website_url="https://example.com", icons=[])
    assert await getattr(introduction, hook)(MiddlewareContext(message=None), call_next) == answer


async def test_arguments_of_prompts_have_no_completion() -> None:
    server = toy_server(toy_manager(toy("toys://one", failing(errors.NotFound("x")))))
    server.prompt(lambda who: f"Greet {who}.", name="greet")
    async with Client(server) as client:
        found = await client.complete(PromptReference(type="ref/prompt", name="greet"), {"name": "who", "value": ""})
    assert found.values == []
