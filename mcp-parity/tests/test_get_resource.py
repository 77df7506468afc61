"""The tool and the typed errors. Each of the hazards that were met on other servers has a test."""

import base64
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import AuthorizationError
from fastmcp.resources.base import InputRequiredResourceResult
from fastmcp.server import create_proxy
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from mcp_parity import InvalidVariable, NotFound, Unauthorized, Unavailable, add_get_resource
from mcp_parity.nearest import find_nearest
from tests.reading import call, read, refuse
from tests.zoo import PNG, make_zoo


@pytest.fixture(autouse=True)
def _no_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def zoo() -> FastMCP[Any]:
    return make_zoo()


VALUES = [
    ("zoo://dict", "text/plain", "data", {"a": 1, "ä": [1.0, None]}),
    ("zoo://list", "application/json", "data", [1, 2]),
    ("zoo://text", "text/plain", "text", "hello\nworld"),
    ("zoo://json-as-text", "text/plain", "data", {"x": 1}),
    ("zoo://not-json", "text/plain", "text", '{"x": NaN}'),
    ("zoo://yaml", "application/yaml", "text", "a: 1\n"),
    ("zoo://bin", "text/plain", "blob", base64.b64encode(b"\x00\xff" * 50).decode()),
    ("zoo://async", "text/plain", "data", {"ok": True}),
    ("zoo://context", "text/plain", "data", {"request": True, "server": "zoo"}),
    ("zoo://dependency", "text/plain", "data", {"value": 42}),
    ("zoo://user/7", "text/plain", "data", {"id": 7}),
    ("zoo://file/a/b.txt", "text/plain", "text", "<a/b.txt>"),
    ("zoo://search?q=y&limit=2", "text/plain", "data", {"q": "y", "limit": 2}),
    ("Zoo+X.1://CamelCase/u1", "text/plain", "text", "u1"),
    ("inner://ns/data", "text/plain", "data", {"inner": True}),
    ("inner://ns/t/1", "text/plain", "data", {"x": "1"}),
    ("far://px/data", "application/json", "data", {"far": True}),
]


async def test_the_tool_returns_the_value(zoo: FastMCP[Any]) -> None:
    """JSON is recognised by the content, because FastMCP announces a dict as text/plain."""
    found = [await call(zoo, {"uri": uri}) for uri, *_ in VALUES]
    assert found == [
        ({"success": True, "uri": uri, "mime_type": mime_type, key: value}, []) for uri, mime_type, key, value in VALUES
    ]


async def test_an_image_is_an_image(zoo: FastMCP[Any]) -> None:
    body, images = await call(zoo, {"uri": "zoo://png"})
    assert body == {"success": True, "uri": "zoo://png", "mime_type": "image/png", "bytes": len(PNG)}
    assert images == [PNG]


async def test_several_contents_are_a_list(zoo: FastMCP[Any]) -> None:
    body, images = await call(zoo, {"uri": "zoo://many"})
    assert body["contents"] == [
        {"mime_type": "application/json", "data": {"k": 1}},
        {"mime_type": "application/octet-stream", "blob": "AQ=="},
        {"mime_type": "text/markdown", "text": "t"},
        {"mime_type": "image/png", "bytes": len(PNG)},
    ]
    assert images == [PNG]
    assert (await call(zoo, {"uri": "zoo://empty"}))[0]["contents"] == []


async def test_one_call_lists_everything_that_the_caller_may_see(zoo: FastMCP[Any]) -> None:
    body, _ = await call(zoo, {})
    assert [await call(zoo, {"uri": uri}) for uri in (None, "")] == [(body, [])] * 2
    listed = {one["uri"]: one for rows in body["data"].values() for one in rows}
    async with Client(zoo) as client:
        resources = {str(one.uri) for one in await client.list_resources()}
        templates = {one.uri_template for one in await client.list_resource_templates()}
    assert listed.keys() == (resources | templates) - {"ui://renderer"}
    assert listed["zoo://search{?q,limit}"]["variables"] == ["q", "limit"]
    assert sorted(body["data"]) == ["Zoo+X.1", "far", "inner", "zoo"]
    assert "zoo://hidden" not in listed


async def test_wrong_arguments_are_refused_with_the_right_ones(zoo: FastMCP[Any]) -> None:
    for arguments in ({"uri": 7}, {"url": "zoo://dict"}, {"uri": "zoo://dict", "x": 1}):
        body, _ = await call(zoo, arguments)
        expected = ("InvalidURI", "get_resource has one argument: `uri`, a string.")
        assert (body["error"], body["message"]) == expected, arguments


REFUSALS = [
    ("zoo://dicd", "InvalidURI", -32602, "There is no resource 'zoo://dicd'."),
    ("zoo://user/{user_id}", "MissingTemplateVariable", -32602, "is a template"),
    ("zoo://user/abc", "InvalidTemplateVariable", -32602, "invalid literal for int() with base 10: 'abc'."),
    ("zoo://search?limit=abc", "InvalidTemplateVariable", -32602, "'abc'"),
    ("zoo://user/100", "NotFound", -32003, "no user 100"),
    ("zoo://user/1000", "NotFound", -32003, "no user 1000"),
    ("zoo://refused", "ResourceExecutionError", -32603, "no licence"),
    ("zoo://timeout", "ResourceExecutionError", -32001, "timeout"),
    ("far://px/boom", "ResourceExecutionError", -32603, "far away failure"),
]


@pytest.mark.parametrize("masked", [False, True])
async def test_both_surfaces_refuse_with_the_same_typed_error(*, masked: bool) -> None:
    zoo = make_zoo(masked=masked)
    for uri, error, code, message in REFUSALS:
        body = await refuse(zoo, uri)
        assert (body["error"], body["code"], body["uri"]) == (error, code, uri)
        assert message in body["message"]
        assert body["suggested_actions"]
        assert body["transient"] is (uri == "zoo://timeout")


async def test_a_failure_has_the_actions_that_the_resource_function_names(zoo: FastMCP[Any]) -> None:
    body = await refuse(zoo, "zoo://user/1000")
    assert body["suggested_actions"] == ["Use a number below 1000."]


async def test_a_near_miss_is_named(zoo: FastMCP[Any]) -> None:
    assert (await refuse(zoo, "zoo://dicd"))["suggested_actions"][0] == "Did you mean zoo://dict?"
    assert "zoo://user/7" in (await refuse(zoo, "zoo://users/7"))["suggested_actions"][0]


def test_the_nearest_uris_have_the_given_values() -> None:
    known = ["shop://users/{id}", "shop://orders", "shop://search{?q}"]
    assert find_nearest("shop://user/7", known) == ["shop://users/7", "shop://search"]
    assert find_nearest("SHOP://orders", known) == ["shop://orders"]
    assert find_nearest("shop://search?q=x", known) == ["shop://search"]
    assert find_nearest("nothing://like/it", known) == []
    assert find_nearest("x", []) == []


async def test_exception_texts_are_hidden_if_the_server_masks_them(zoo: FastMCP[Any]) -> None:
    assert "sk-123" in (await refuse(zoo, "zoo://boom"))["message"]
    assert "sk-123" not in str(await refuse(make_zoo(masked=True), "zoo://boom"))


async def test_path_traversal_is_refused_like_an_unknown_uri(zoo: FastMCP[Any]) -> None:
    traversal = await refuse(zoo, "zoo://file/../../etc/passwd")
    assert traversal["error"] == "InvalidURI"
    assert traversal["message"] == "There is no resource 'zoo://file/../../etc/passwd'."


async def test_a_hidden_resource_is_refused_without_a_hint(zoo: FastMCP[Any]) -> None:
    body = await refuse(zoo, "zoo://hidden")
    assert body["error"] == "InvalidURI"
    assert "zoo://hidden" not in str(body["suggested_actions"])


async def test_the_renderers_of_user_interfaces_are_not_offered(zoo: FastMCP[Any]) -> None:
    contents, _ = await read(zoo, "ui://renderer")
    assert contents[0].text == "<p></p>"
    assert (await call(zoo, {"uri": "ui://renderer"}))[0]["error"] == "InvalidURI"
    assert (await call(make_zoo(exclude=()), {"uri": "ui://renderer"}))[0]["text"] == "<p></p>"


async def test_an_answer_above_max_bytes_is_refused_by_the_tool_only() -> None:
    zoo = make_zoo(max_bytes=10)
    body, _ = await call(zoo, {"uri": "zoo://text"})
    assert (body["error"], body["message"]) == (
        "TooLarge",
        "The resource has 11 bytes. get_resource returns at most 10.",
    )
    assert (await read(zoo, "zoo://text"))[0][0].text == "hello\nworld"
    assert (await call(zoo, {"uri": "zoo://yaml"}))[0]["text"] == "a: 1\n"


async def test_the_description_names_the_uris_that_the_caller_may_see(zoo: FastMCP[Any]) -> None:
    """FastMCP lists the tools when it starts, outside of a request, so that the description is built on tools/list."""
    assert [tool.description for tool in await zoo.list_tools(run_middleware=False) if tool.name == "get_resource"] == [
        "Read any resource of this server."
    ]
    async with Client(zoo) as client:
        [tool] = await client.list_tools()
    lines = (tool.description or "").splitlines()
    assert {"zoo://dict", "zoo://user/{user_id}", "inner://ns/data", "far://px/data"} <= set(lines)
    assert "zoo://hidden" not in lines


async def test_a_long_list_of_uris_is_cut_in_the_description() -> None:
    mcp: FastMCP[Any] = FastMCP("long")
    for number in range(45):
        mcp.resource(f"x://{number}")(lambda: "x")
    add_get_resource(mcp, name="read_any")
    async with Client(mcp) as client:
        [tool] = await client.list_tools()
    assert (tool.name, (tool.description or "").splitlines()[43]) == ("read_any", "… and 5 more.")


async def test_resources_that_are_added_later_can_be_read(zoo: FastMCP[Any]) -> None:
    zoo.resource("zoo://late")(lambda: {"late": True})
    assert (await call(zoo, {"uri": "zoo://late"}))[0]["data"] == {"late": True}


class Recorder(Middleware):
    def __init__(self) -> None:
        self.methods: list[str | None] = []

    async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        self.methods.append(context.method)
        return await call_next(context)


async def test_a_read_by_the_tool_runs_middleware_twice(zoo: FastMCP[Any]) -> None:
    """README.md says so: a rate limit counts such a read double."""
    recorder = Recorder()
    zoo.add_middleware(recorder)
    await call(zoo, {"uri": "zoo://dict"})
    assert [method for method in recorder.methods if method in {"tools/call", "resources/read"}] == [
        "tools/call",
        "resources/read",
    ]


class Refusing(Middleware):
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        raise self.error


class OnlyOne(Middleware):
    """Lets the caller see one resource."""

    async def on_list_resources(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Any]]
    ) -> Sequence[Any]:
        return [one for one in await call_next(context) if str(one.uri) == "zoo://dict"]

    async def on_list_resource_templates(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Any]]
    ) -> Sequence[Any]:
        return []


async def test_refusals_of_middleware_are_typed(zoo: FastMCP[Any]) -> None:
    zoo.add_middleware(Refusing(AuthorizationError("not for you")))
    body = await refuse(zoo, "zoo://dict")
    assert (body["error"], body["message"], body["code"]) == ("Unauthorized", "not for you", -32002)


@pytest.mark.parametrize(
    "failure", [Unauthorized("no"), Unavailable("later"), InvalidVariable("bad"), NotFound("none")]
)
async def test_a_typed_failure_keeps_its_code_wherever_it_is_raised(
    zoo: FastMCP[Any], failure: NotFound | Unauthorized
) -> None:
    zoo.add_middleware(Refusing(failure))
    body = await refuse(zoo, "zoo://dict")
    assert (body["error"], body["code"], body["transient"]) == (failure.error, failure.code, failure.transient)


async def test_the_hint_names_only_what_the_caller_may_see(zoo: FastMCP[Any]) -> None:
    zoo.add_middleware(OnlyOne())
    assert (await refuse(zoo, "zoo://tezt"))["suggested_actions"][0].startswith("Call the tool")
    body, _ = await call(zoo, {})
    assert [one["uri"] for rows in body["data"].values() for one in rows] == ["zoo://dict"]


async def test_a_parent_and_its_mounted_child_can_both_have_the_tool(zoo: FastMCP[Any]) -> None:
    parent: FastMCP[Any] = FastMCP("parent")
    parent.mount(zoo, namespace="sub")
    add_get_resource(parent)
    async with Client(parent) as client:
        assert {tool.name for tool in await client.list_tools()} == {"get_resource", "sub_get_resource"}
    assert (await call(parent, {"uri": "zoo://sub/dict"}))[0]["data"]["a"] == 1
    assert (await call(parent, {"uri": "zoo://dict"}, "sub_get_resource"))[0]["data"]["a"] == 1
    assert (await refuse(parent, "zoo://sub/user/100"))["error"] == "NotFound"


async def test_a_refusal_keeps_its_body_through_a_proxy(zoo: FastMCP[Any]) -> None:
    outer = create_proxy(zoo)
    _, native = await read(outer, "zoo://user/100")
    assert (native["error"], native["code"]) == ("NotFound", -32003)


async def test_a_resource_can_ask_the_user_through_the_tool() -> None:
    mcp: FastMCP[Any] = FastMCP("asking")

    @mcp.resource("ask://name")
    def ask() -> Any:
        schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
        request = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=schema))
        return InputRequiredResourceResult(InputRequiredResult(input_requests={"name": request}))

    add_get_resource(mcp)
    asked: list[str] = []

    async def elicit(message: str, *_: object) -> ElicitResult:
        asked.append(message)
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with Client(mcp, elicitation_handler=elicit, input_required_max_rounds=1) as client:
        with pytest.raises(Exception, match="round"):
            await client.call_tool("get_resource", {"uri": "ask://name"})
    assert asked
