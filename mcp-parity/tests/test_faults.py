"""Deliberate faults in a server or a project: each fails with a message that names the fault."""

import pytest

from tests.project import INSTALLED, LIE, Project


def test_a_project_without_faults_passes_with_all_plugins_that_are_installed(pinned: Project) -> None:
    status, output = pinned.run(plugins=INSTALLED)
    assert status == 0, output
    assert "10 passed" in output


CHANGES = {
    "a field disappears": ('"orders": 3, ', "", "contents[].data.orders: golden: 3; server: nothing"),
    "a field is new": ('"orders": 3, ', '"orders": 3, "tax": 1, ', "contents[].data.tax: golden: nothing; server: 1"),
    "a value changes": ('"orders": 3', '"orders": 4', "contents[].data.orders: golden: 3; server: 4"),
    "a number becomes another type": ('"orders": 3', '"orders": 3.0', "contents[].data.orders: golden: 3; server: 3.0"),
    "a MIME type changes": (
        'mime_type="text/markdown"',
        'mime_type="text/plain"',
        'contents[].mime_type: golden: "text/markdown"; server: "text/plain"',
    ),
    "a text changes": ("None.", "Some.", 'contents[].lines[]: golden: "None."; server: "Some."'),
    "an image changes": ("x89PNG", "x89GIF", "shop://logo differs from golden/data/shop/logo.json"),
    "an error becomes data": (
        'raise ResourceError("no licence")',
        'return "yes"',
        "shop://licence: the server answers with data, but golden/errors/shop/licence.json is a refusal",
    ),
    "data become an error": (
        'return "# Notes\\n\\nNone."',
        'raise ResourceError("no notes")',
        "shop://notes: the server answers with a refusal, but golden/data/shop/notes.json is data",
    ),
    "an error changes": ('"no licence"', '"no key"', 'resource.message: golden: "no licence"; server: "no key"'),
    "a resource vanishes": (
        '@mcp.resource("shop://notes", mime_type="text/markdown")',
        "",
        "shop://notes: in golden/mcp-list.csv, but the server does not list it",
    ),
    "a resource is renamed": (
        '"shop://notes"',
        '"shop://hints"',
        "shop://hints: the server lists it, but it is not in golden/mcp-list.csv",
    ),
    "a description changes": ("def notes() -> str:", 'def notes() -> str:\n    "New."', "discovery/resources.json"),
    "the tool vanishes": ("add_get_resource(mcp)", "", "a name, description, MIME type, example or tool has changed"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_server_is_named(pinned: Project, name: str) -> None:
    old, new, message = CHANGES[name]
    pinned.change(old, new)
    tests = "inventory" if "vanishes" in name or "renamed" in name else "lists" if "description" in name else "answer"
    assert message in pinned.fail("-k", tests)


LIES = {
    "another value": ('body["data"]["orders"] = 4', "contents[].data.orders: resources/read: 3; get_resource: 4"),
    "a missing field": ('del body["data"]["owner"]', "contents[].data.owner: resources/read: {"),
    "another MIME type": (
        'body["mime_type"] = "text/plain"',
        'contents[].mime_type: resources/read: "application/json"; get_resource: "text/plain"',
    ),
    "a failure": (
        'body.update(success=False, message="broken"); result.is_error = True',
        "resources/read answers with data, but get_resource refuses: broken",
    ),
    "data marked as an error": ("result.is_error = True", "get_resource has success True, but isError True"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_tool_that_lies_is_named(pinned: Project, name: str) -> None:
    statement, message = LIES[name]
    pinned.add(f"def change(body, result):\n    {statement}\n\n{LIE}")
    output = pinned.fail("-k", "status")
    assert message in output
    assert "shop://status: " in output


def test_different_texts_and_structured_contents_are_named(pinned: Project) -> None:
    lie = LIE.replace("json.dumps(body)", "json.dumps(body | {'data': {}})")
    pinned.add(f"def change(body, result):\n    pass\n\n{lie}")
    assert "shop://status: the text and the structured content of get_resource differ" in pinned.fail("-k", "status")


READ_FAULT = """
class Fault(Middleware):
    async def on_read_resource(self, context, call_next):
        if context.fastmcp_context.request_context is not None and context.message.uri == "{uri}":
            {statement}
        return await call_next(context)


mcp.middleware.insert(0, Fault())
"""


def test_a_resource_that_is_listed_but_unknown_is_named(pinned: Project) -> None:
    pinned.change("add_get_resource(mcp)", "")
    pinned.add(
        READ_FAULT.format(
            uri="shop://notes", statement="from fastmcp.exceptions import NotFoundError; raise NotFoundError('gone')"
        )
    )
    assert "shop://notes: the server lists it, but resources/read does not know it" in pinned.fail("-k", "notes")


def test_a_refusal_on_one_surface_only_is_named(pinned: Project) -> None:
    pinned.add(
        "def change(body, result):\n    pass\n\n"
        + LIE.replace("change(body, result)", "pass")
        .replace(
            'context.message.arguments.get("uri") == "shop://status"',
            'context.message.arguments.get("uri") == "shop://licence"',
        )
        .replace(
            "return result", 'body["message"] = "another"; result.content[0].text = json.dumps(body); return result'
        )
    )
    output = pinned.fail("-k", "licence")
    assert "shop://licence: get_resource refuses differently from resources/read" in output
    assert 'message: resources/read: "no licence"; get_resource: "another"' in output


MESSAGE_FAULT = """
from mcp.shared.exceptions import MCPError


class Fault(Middleware):
    by_tool = False

    async def on_call_tool(self, context, call_next):
        self.by_tool = True
        try:
            return await call_next(context)
        finally:
            self.by_tool = False

    async def on_read_resource(self, context, call_next):
        try:
            return await call_next(context)
        except MCPError as error:
            if self.by_tool:
                raise
            raise MCPError(code=error.error.code, message="no", data=error.error.data) from error


mcp.middleware.insert(0, Fault())
"""


def test_an_error_message_on_one_surface_only_is_named(pinned: Project) -> None:
    """The body that is the data of the JSON-RPC error is equal. Only the message beside it differs."""
    pinned.add(MESSAGE_FAULT)
    assert 'resource.message: resources/read: "no"; get_resource: "no licence"' in pinned.fail("-k", "licence")


def test_a_value_that_changes_between_two_reads_is_named_with_the_line_to_add(pinned: Project) -> None:
    pinned.change('"orders": 3', '"orders": next(counter)')
    output = pinned.fail("-k", "status")
    assert "shop://status: the answer changes between two reads" in output
    assert '"shop://status contents[].data.orders",' in output


def test_an_update_refuses_a_value_that_changes_until_it_is_declared(project: Project) -> None:
    project.change('"orders": 3', '"orders": next(counter)')
    status, output = project.update()
    assert status == 1
    assert '"shop://status contents[].data.orders",' in output
    assert "golden/data/shop/status.json" not in project.files
    assert "golden/data/shop/notes.json" in project.files
    project.set('mcp_volatile = ["shop://status contents[].data.orders"]')
    assert project.update()[0] == 0
    assert project.golden("data/shop/status")["contents"][0]["data"]["orders"] == "<differs>"
    assert project.run()[0] == 0


@pytest.mark.parametrize(
    ("text", "reason"), [("{'a': 1}", "not JSON"), ('{"a": NaN}', "not JSON"), ('{"a": Infinity}', "not JSON")]
)
def test_a_text_that_is_announced_as_json_but_is_not_is_named(pinned: Project, text: str, reason: str) -> None:
    pinned.change("return json.dumps({", f"return {text!r} or json.dumps({{")
    output = pinned.fail("-k", "status")
    assert "shop://status: announced as application/json, but the text is not JSON: " in output
    assert reason in output


def test_an_answer_of_100_mb_is_refused_in_one_line(pinned: Project) -> None:
    pinned.change('return "# Notes', 'return "x" * 100_000_000 + "# Notes')
    assert "shop://notes: 100,000,014 characters are too many to compare; add it to mcp_exclude" in pinned.fail(
        "-k", "notes"
    )


UNPINNABLE = {
    "a tool that lies": ("# more", f"def change(body, result):\n    del body['data']['open']\n\n{LIE}\n# more", "lies"),
    "a listed URI that it cannot read": (
        "add_get_resource(mcp)",
        READ_FAULT.format(
            uri="shop://status", statement="from fastmcp.exceptions import NotFoundError; raise NotFoundError('gone')"
        ),
        "shop://status: the server lists it, but resources/read does not know it",
    ),
    "text that is not JSON": ("return json.dumps({", "return '{' or json.dumps({", "the text is not JSON"),
    "100 MB": (
        "return json.dumps({",
        "return ' ' * 100_000_000 or json.dumps({",
        "100,000,000 characters are too many",
    ),
}


@pytest.mark.parametrize("name", UNPINNABLE)
def test_an_update_keeps_the_golden_of_an_answer_that_cannot_be_pinned(pinned: Project, name: str) -> None:
    before = pinned.files
    old, new, message = UNPINNABLE[name]
    pinned.change(old, new)
    status, output = pinned.update("-k", "status")
    assert status == 1
    assert message in output
    assert pinned.files == before


SECRETS = [
    "password in postgres://ada:hunter22@db/shop",
    "Bearer abcdefghijklmnop1234",
    "-----BEGIN RSA PRIVATE KEY-----",
    "ghp_abcdefghijklmnopqrstuvwxyz",
    "AKIAABCDEFGHIJKLMNOP",
]


def test_secrets_in_errors_are_warnings_that_do_not_fail(pinned: Project) -> None:
    for number, secret in enumerate(SECRETS):
        pinned.add(
            f'@mcp.resource("shop://leak/{number}")\ndef leak{number}() -> str:\n    raise ResourceError({secret!r})'
        )
    for status, output in (pinned.update(), pinned.run()):
        assert status == 0, output
        for number in range(len(SECRETS)):
            assert f"shop://leak/{number}: the error contains what looks like a secret" in output
        assert "shop://licence: the error contains" not in output


def test_a_secret_in_an_error_is_a_warning(pinned: Project) -> None:
    pinned.change("mask_error_details=True", "")
    pinned.change('ResourceError("no licence")', 'ValueError("key sk-live-1234567")')
    output = pinned.fail("-k", "licence")
    assert "shop://licence: the error contains the text of an exception; use FastMCP(mask_error_details=True)" in output
    assert "shop://licence: the error contains what looks like a secret" in output


def test_a_resource_that_the_tool_does_not_list_is_named(pinned: Project) -> None:
    lie = LIE.replace('.get("uri") == "shop://status"', '.get("uri") is None')
    pinned.add(f'def change(body, result):\n    del body["data"]["shop"][2]\n\n{lie}')
    assert "shop://notes: listed by resources/list, not by get_resource()" in pinned.fail("-k", "lists")


def test_a_resource_that_the_tool_describes_differently_is_named(pinned: Project) -> None:
    lie = LIE.replace('.get("uri") == "shop://status"', '.get("uri") is None')
    pinned.add(f'def change(body, result):\n    body["data"]["shop"][1]["mime_type"] = "text/html"\n\n{lie}')
    assert 'shop://logo: mime_type: resources/list: "image/png"; get_resource(): "text/html"' in pinned.fail(
        "-k", "lists"
    )


def test_a_template_stands_for_the_resources_that_match_it(project: Project) -> None:
    project.add('mcp.resource("shop://orders/7")(lambda: {"number": 7})')
    lie = LIE.replace('.get("uri") == "shop://status"', '.get("uri") is None')
    change = 'rows = body["data"]["shop"]\n    rows[:] = [one for one in rows if one["uri"] != "shop://orders/7"]'
    project.add(f"def change(body, result):\n    {change}\n\n{lie}")
    assert project.update("-k", "lists")[0] == 0
