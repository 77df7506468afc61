"""Deliberate faults in a server or a project: each fails with a message that names the fault."""

from dataclasses import replace

from tests.project import INSTALLED, LIE, Fault, Project


def test_a_project_without_faults_passes_with_all_plugins_that_are_installed(pinned: Project) -> None:
    status, output = pinned.run(plugins=INSTALLED)
    assert status == 0, output
    assert "10 passed" in output


def find_unnamed(faults: dict[str, Fault], found: dict[str, str]) -> dict[str, str]:
    """Return what was reported of each fault, if the report lacks one of its messages."""
    reports = {name: found.get(name, "nothing") for name in faults}
    return {name: text for name, text in reports.items() if not all(one in text for one in faults[name].messages)}


STATUS, NOTES, LICENCE, LOGO = "shop://status", "shop://notes", "shop://licence", "shop://logo"
CHANGES = {
    "a field disappears": Fault(
        STATUS, {'"orders": 3, ': ""}, ("contents[0].data.orders: golden: 3; server: nothing",)
    ),
    "a field is new": Fault(
        STATUS, {'"orders": 3, ': '"orders": 3, "tax": 1, '}, ("contents[0].data.tax: golden: nothing; server: 1",)
    ),
    "a value changes": Fault(
        STATUS, {'"orders": 3': '"orders": 4'}, ("contents[0].data.orders: golden: 3; server: 4",)
    ),
    "a number becomes another type": Fault(
        STATUS, {'"orders": 3': '"orders": 3.0'}, ("contents[0].data.orders: golden: 3; server: 3.0",)
    ),
    "a MIME type changes": Fault(
        NOTES,
        {'mime_type="text/markdown"': 'mime_type="text/plain"'},
        ('contents[0].mime_type: golden: "text/markdown"; server: "text/plain"',),
    ),
    "a text changes": Fault(NOTES, {"None.": "Some."}, ('contents[0].lines[2]: golden: "None."; server: "Some."',)),
    "an image changes": Fault(LOGO, {"x89PNG": "x89GIF"}, ("shop://logo differs from golden/data/shop/logo.json",)),
    "an error becomes data": Fault(
        LICENCE,
        {'raise ResourceError("no licence")': 'return "yes"'},
        ("shop://licence: the server answers with data, but golden/errors/shop/licence.json is a refusal",),
    ),
    "data become an error": Fault(
        NOTES,
        {'return "# Notes\\n\\nNone."': 'raise ResourceError("no notes")'},
        ("shop://notes: the server answers with a refusal, but golden/data/shop/notes.json is data",),
    ),
    "an error changes": Fault(
        LICENCE, {'"no licence"': '"no key"'}, ('resource.message: golden: "no licence"; server: "no key"',)
    ),
    "a resource vanishes": Fault(
        "inventory",
        {'@mcp.resource("shop://notes", mime_type="text/markdown")': ""},
        ("shop://notes: in golden/mcp-list.csv, but the server does not list it",),
    ),
    "a resource is renamed": Fault(
        "inventory",
        {'"shop://notes"': '"shop://hints"'},
        ("shop://hints: the server lists it, but it is not in golden/mcp-list.csv",),
    ),
    "a description changes": Fault(
        "lists", {"def notes() -> str:": 'def notes() -> str:\n    "New."'}, ("discovery/resources.json",)
    ),
    "a resource vanishes from a list": Fault(
        "lists",
        {'@mcp.resource("shop://notes", mime_type="text/markdown")': ""},
        ("resources[shop://notes]: golden: {", "server: nothing"),
    ),
    "a resource is added to a list": Fault(
        "lists",
        {"# more": 'mcp.resource("shop://new")(lambda: "x")'},
        ("resources[shop://new]: golden: nothing; server: {",),
    ),
    "the tool vanishes from a list": Fault(
        "lists", {"add_get_resource(mcp)": ""}, ("tools[get_resource]: golden: {", "server: nothing")
    ),
    "the tool vanishes": Fault(
        "inventory",
        {"add_get_resource(mcp)": ""},
        ("get_resource: in golden/mcp-list.csv, but the server does not list it",),
    ),
    "a value changes between two reads": Fault(
        STATUS,
        {'"orders": 3': '"orders": next(counter)'},
        ("shop://status: the answer changes between two reads", '"shop://status contents[].data.orders",'),
    ),
    "a type changes between two reads": Fault(
        STATUS,
        {'"orders": 3': '"orders": [3, 3.0][next(counter) > 0]'},
        ("shop://status: the answer changes between two reads", '"shop://status contents[].data.orders",'),
    ),
    "a sign changes between two reads": Fault(
        STATUS,
        {'"rate": 0.0': '"rate": [0.0, -0.0][next(counter) > 0]'},
        ("shop://status: the answer changes between two reads", '"shop://status contents[].data.rate",'),
    ),
}
# What is named differently in another world, which has no goldens of its own.
IN_ANOTHER_WORLD = {
    "an image changes": ("shop://logo in away", "the answer differs from golden/data/shop/logo.json"),
    "an error becomes data": ("shop://licence in away: there is no golden/data/shop/licence--away.json",),
    "data become an error": ("shop://notes in away: there is no golden/errors/shop/notes--away.json",),
}


def test_a_change_of_the_server_is_named(pinned: Project) -> None:
    assert find_unnamed(CHANGES, pinned.read(CHANGES)) == {}


def test_a_change_in_another_world_is_named(pinned: Project) -> None:
    faults = {
        name: replace(fault, messages=IN_ANOTHER_WORLD.get(name, fault.messages), world="away")
        for name, fault in CHANGES.items()
        if fault.where != "inventory"  # it is the same in all worlds
    }
    assert find_unnamed(faults, pinned.read(faults)) == {}


READ_STATUS = '.get("uri") == "shop://status"'


def lie(statement: str, code: str = LIE) -> dict[str, str]:
    """Return the edit for a tool that lies. The statement changes the body or the result."""
    return {"# more": f"def change(body, result):\n    {statement}\n\n{code}"}


def unlist(uri: str) -> str:
    """Return the code of a server with a resource that it lists and its resources/read does not know."""
    statement = "from fastmcp.exceptions import NotFoundError; raise NotFoundError('gone')"
    return READ_FAULT.format(uri=uri, statement=statement)


READ_FAULT = """
class Fault(Middleware):
    async def on_read_resource(self, context, call_next):
        if context.fastmcp_context.request_context is not None and context.message.uri == "{uri}":
            {statement}
        return await call_next(context)


mcp.middleware.insert(0, Fault())
"""


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


LIES = {
    "contents that are no objects": Fault(
        STATUS, lie('body["contents"] = ["x"]'), ("shop://status: the contents of get_resource are not a list of ob",)
    ),
    "a number of another type": Fault(
        STATUS,
        lie('body["data"]["orders"] = 3.0'),
        ("shop://status: ", "contents[0].data.orders: resources/read: 3; get_resource: 3.0"),
    ),
    "a row that only the tool lacks": Fault(
        STATUS,
        {'"orders": 3': '"orders": [1, 2, 3]'} | lie('del body["data"]["orders"][1]'),
        ("contents[0].data.orders[1]: resources/read: 2; get_resource: nothing",),
    ),
    "a missing field": Fault(
        STATUS, lie('del body["data"]["owner"]'), ("shop://status: ", "contents[0].data.owner: resources/read: {")
    ),
    "another MIME type": Fault(
        STATUS,
        lie('body["mime_type"] = "text/plain"'),
        ("shop://status: ", 'contents[0].mime_type: resources/read: "application/json"; get_resource: "text/plain"'),
    ),
    "a failure": Fault(
        STATUS,
        lie('body.update(success=False, message="broken"); result.is_error = True'),
        ("shop://status: ", "resources/read answers with data, but get_resource refuses: broken"),
    ),
    "data marked as an error": Fault(
        STATUS, lie("result.is_error = True"), ("shop://status: ", "get_resource has success True, but isError True")
    ),
    "a success that is no truth value": Fault(
        STATUS, lie('body["success"] = "false"'), ("get_resource has success 'false', but isError False",)
    ),
    "the answer for another URI": Fault(
        STATUS, lie(f'body["uri"] = "{NOTES}"'), (f"shop://status: get_resource answers for '{NOTES}'",)
    ),
    "a text with a key twice": Fault(
        STATUS,
        lie("pass", LIE.replace("json.dumps(body)", """'{"uri": 1, ' + json.dumps(body)[1:]""")),
        ("shop://status: the text and the structured content of get_resource differ",),
    ),
    "a text with a number of another type than the structured content": Fault(
        STATUS,
        lie("pass", LIE.replace("json.dumps(body)", "json.dumps(body).replace('3', '3.0')")),
        ("shop://status: the text and the structured content of get_resource differ",),
    ),
    "another refusal": Fault(
        LICENCE,
        lie('body["message"] = "another"', LIE.replace(READ_STATUS, '.get("uri") == "shop://licence"')),
        (
            "shop://licence: get_resource refuses differently from resources/read",
            'message: resources/read: "no licence"; get_resource: "another"',
        ),
    ),
    "another message beside the same body": Fault(
        LICENCE, {"# more": MESSAGE_FAULT}, ('resource.message: resources/read: "no"; get_resource: "no licence"',)
    ),
    "a resource that it does not list": Fault(
        "lists",
        lie('del body["data"]["shop"][2]', LIE.replace(READ_STATUS, '.get("uri") is None')),
        ("shop://notes: listed by resources/list, not by get_resource()",),
    ),
    "a resource that it describes differently": Fault(
        "lists",
        lie('body["data"]["shop"][1]["mime_type"] = "text/html"', LIE.replace(READ_STATUS, '.get("uri") is None')),
        ('shop://logo: mime_type: resources/list: "image/png"; get_resource(): "text/html"',),
    ),
    "a resource that it describes with a value of another type": Fault(
        "lists",
        {'@mcp.resource("shop://logo"': '@mcp.resource("shop://logo", meta={"size": 1}'}
        | lie('body["data"]["shop"][1]["size"] = 1.0', LIE.replace(READ_STATUS, '.get("uri") is None')),
        ("shop://logo: size: resources/list: 1; get_resource(): 1.0",),
    ),
}


def test_a_tool_that_lies_is_named(pinned: Project) -> None:
    assert find_unnamed(LIES, pinned.read(LIES)) == {}


def test_a_tool_that_lies_in_another_world_is_named(pinned: Project) -> None:
    names = ("a number of another type", "another refusal", "a resource that it describes with a value of another type")
    faults = {name: replace(LIES[name], world="away") for name in names}
    assert find_unnamed(faults, pinned.read(faults)) == {}


REMOVED = {'@mcp.resource("shop://notes", mime_type="text/markdown")': ""}
GROWN = {'"orders": 3': '"orders": 3, "notes": "x" * 100_001'}
CLEAR: dict[str, Fault] = {
    "a resource that is gone": Fault(
        NOTES, REMOVED, ("shop://notes: the inventory has it, but the server neither lists nor knows it: ",)
    ),
    "an answer that grows": Fault(
        STATUS,
        GROWN,
        (
            "contents[0].large.characters: golden: 66; server: ",
            'contents[0].large.shape.notes: golden: nothing; server: "str',
        ),
    ),
}


def test_a_resource_that_is_gone_and_an_answer_that_grows_are_described_as_such(pinned: Project) -> None:
    found = pinned.read(CLEAR)
    assert find_unnamed(CLEAR, found) == {}
    assert "contents[0].data" not in found["an answer that grows"]


LARGE = {"return json.dumps({": "return ' ' * 50_000_001 or json.dumps({"}
UNPINNABLE = {
    "a tool that lies": Fault(STATUS, lie("del body['data']['open']"), ("lies",)),
    "a listed URI that it cannot read": Fault(
        STATUS,
        {"add_get_resource(mcp)": unlist("shop://status")},
        ("shop://status: the server lists it, but resources/read does not know it",),
    ),
    "text that is not JSON": Fault(
        STATUS, {"return json.dumps({": "return '{' or json.dumps({"}, ("the text is not JSON",)
    ),
    "more than 50 MB": Fault(STATUS, LARGE, ("50,000,001 characters are too many",)),
}


def test_an_update_keeps_the_golden_of_an_answer_that_cannot_be_pinned(pinned: Project) -> None:
    before = pinned.files
    assert find_unnamed(UNPINNABLE, pinned.read(UNPINNABLE, "--snapshot-update")) == {}
    assert pinned.files == before


NOT_JSON = "shop://status: announced as application/json, but the text is not JSON: "
UNUSABLE = {
    "a resource that is listed but unknown": Fault(
        NOTES,
        {"add_get_resource(mcp)": unlist("shop://notes")},
        ("shop://notes: the server lists it, but resources/read does not know it",),
    ),
    "quotes that are not JSON": Fault(STATUS, {"return json": """return "{'a': 1}" or json"""}, (NOT_JSON,)),
    "a number that is not JSON": Fault(STATUS, {"return json": """return '{"a": NaN}' or json"""}, (NOT_JSON,)),
    "infinity": Fault(STATUS, {"return json": """return '{"a": Infinity}' or json"""}, (NOT_JSON,)),
    "more than 50 MB": Fault(
        STATUS, LARGE, ("shop://status: 50,000,001 characters are too many to compare; add it to mcp_exclude",)
    ),
}


def test_an_answer_that_cannot_be_compared_is_named(pinned: Project) -> None:
    assert find_unnamed(UNUSABLE, pinned.read(UNUSABLE)) == {}


def test_an_update_refuses_a_value_that_changes_until_it_is_declared(project: Project) -> None:
    project.change('"orders": 3', '"orders": next(counter)')
    status, output = project.update("-k", "inventory or status or notes")
    assert status == 1
    assert '"shop://status contents[].data.orders",' in output
    assert "golden/data/shop/status.json" not in project.files
    assert "golden/data/shop/notes.json" in project.files
    project.set('mcp_volatile = ["shop://status contents[].data.orders"]')
    assert project.update("-k", "status")[0] == 0
    assert project.golden("data/shop/status")["contents"][0]["data"]["orders"] == "<differs>"
    assert project.run("-k", "status")[0] == 0
    declared = "contents[].data.orders"
    for path, contents in (("contents[]", ["<differs>"]), ("contents", "<differs>")):
        project.change(declared, path, "pyproject.toml")
        declared = path
        assert project.update("-k", "status")[0] == 0
        assert project.golden("data/shop/status")["contents"] == contents


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
    for status, output in (pinned.update("-k", "inventory or leak or licence"), pinned.run("-k", "leak or licence")):
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


def test_a_template_stands_for_the_resources_that_match_it(project: Project) -> None:
    project.add('mcp.resource("shop://orders/7")(lambda: {"number": 7})')
    liar = LIE.replace('.get("uri") == "shop://status"', '.get("uri") is None')
    change = 'rows = body["data"]["shop"]\n    rows[:] = [one for one in rows if one["uri"] != "shop://orders/7"]'
    project.add(f"def change(body, result):\n    {change}\n\n{liar}")
    assert project.update("-k", "lists")[0] == 0
