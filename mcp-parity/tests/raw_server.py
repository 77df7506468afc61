"""A server without an SDK, which speaks over stdio: `python raw_server.py`. The variable FAULT names a fault of it."""

import base64
import json
import os
import sys
import time
from typing import Any

FAULT = os.environ.get("FAULT", "")
ROWS = [{"id": number, "price": number / 2} for number in range(30)]
ERA = os.environ.get("ERA", "")
"""`new` for a server of protocol 2026-07-28, `anonymous` for one that does not name itself there."""
IS_NEW = FAULT == "speaks only the newest protocol" or ERA != ""
HINTS: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if IS_NEW else {}
ANY = "has a template that matches all URIs of its scheme"
LARGEST = 60_000_000


def say(message: object) -> None:
    sys.stdout.write(f"{message if isinstance(message, str) else json.dumps(message)}\n")
    sys.stdout.flush()


def start(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `initialize`."""
    if FAULT == "hangs at its start":
        time.sleep(600)
    if FAULT == "prints at its start":
        say("Hello")
    capabilities = {"resources": {"subscribe": True} if FAULT == "can subscribe" else {}, "tools": {}, "prompts": {}}
    return {
        "protocolVersion": "2024-11-05" if FAULT == "speaks an old protocol" else params["protocolVersion"],
        "capabilities": {} if FAULT == "declares nothing" else capabilities,
        "serverInfo": {"name": "other" if FAULT == "another name" else "raw", "version": "1"},
        "instructions": "Other." if FAULT == "other instructions" else "Read it.",
    }


def discover(_: dict[str, Any]) -> dict[str, Any]:
    """Answer `server/discover`, which the newest protocol has in place of `initialize`."""
    said = start({"protocolVersion": ""})
    named = {} if ERA == "anonymous" else {"_meta": {"io.modelcontextprotocol/serverInfo": said["serverInfo"]}}
    return {
        "supportedVersions": ["2026-07-28"],
        **{name: said[name] for name in ("capabilities", "instructions")},
        **named,
    }


def list_resources(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `resources/list`, in two pages."""
    names = ["raw://rows", "raw://text", "raw://blob"]
    names += {"lists a URI twice": ["raw://rows"], "changes its list": [f"raw://{time.monotonic_ns()}"]}.get(FAULT, [])
    entries: list[dict[str, Any]] = [{"uri": uri, "name": uri} for uri in names]
    if FAULT == "announces another type":
        entries[1]["mimeType"] = "text/html"
    if FAULT == "announces another size":
        entries[1]["size"] = 3
    if FAULT == "has an unknown field":
        entries[0]["owner"] = "Ada"
    entries += [
        {"uri": uri, "name": "x"}
        for uri in {"lists a URI without a scheme": ["a"], "lists no URI": [""]}.get(FAULT, ())
    ]
    if FAULT.startswith("lists a secret"):
        entries.append({"uri": "raw://secret", "name": "secret"})
    if FAULT == "lists in another order":
        entries.reverse()
    page = int(params.get("cursor") or 0)
    if FAULT == "has pages without end":
        return {"resources": [{"uri": f"raw://{page}", "name": "x"}], "nextCursor": str(page + 1)}
    if FAULT == "repeats a page":
        return {"resources": entries, "nextCursor": str(page + 1)}
    if FAULT == "repeats a cursor":
        return {"resources": [{"uri": f"raw://{time.monotonic_ns()}", "name": "x"}], "nextCursor": "1"}
    if FAULT == "loses a page" or page:
        return {"resources": entries[2:] if page else entries[:2]}
    return {"resources": entries[:2], "nextCursor": "1"}


def list_prompts(_: dict[str, Any]) -> dict[str, Any]:
    """Answer `prompts/list`."""
    arguments = [{"name": "who", "required": FAULT == "requires an argument"}]
    return {"prompts": [] if FAULT == "has no prompt" else [{"name": "greet", "arguments": arguments}]}


def get_prompt(_: dict[str, Any]) -> dict[str, Any]:
    """Answer `prompts/get`."""
    if FAULT == "refuses to greet":
        raise RuntimeError("no greeting")
    said: Any = {"greets differently": "Bye.", "greets with a clock": f"Hello at {time.monotonic_ns()}"}.get(
        FAULT, "Hello."
    )
    return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}


TOOLS: dict[str, dict[str, Any]] = {
    "has a tool with blanks": {"name": "my tool!"},
    "has a tool with a long name": {"name": "x" * 200},
    "has a tool with a dot": {"name": "a.b"},
    "has a tool without a name": {"name": ""},
    "has a tool that refers to nothing": {
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/None"}, "b": {"$ref": "#/properties/a"}},
        }
    },
    "has a tool of an array": {"inputSchema": {"type": "array"}},
    "has a tool without a schema": {"inputSchema": None},
}


def list_tools(_: dict[str, Any]) -> dict[str, Any]:
    """Answer `tools/list`."""
    tool = {"name": "sum", "inputSchema": {"type": "object"}}
    if FAULT == "writes null for what is empty":
        tool = {"name": "get_resource", "inputSchema": {"type": "object", "properties": None}}
    tool |= TOOLS.get(FAULT, {})
    return {"tools": [] if FAULT == "has no tool" else [tool]}


REFUSALS = {
    "refuses with an exception": "Traceback (most recent call last):",
    "fails with the name of a key": "AttributeError: 'Config' object has no attribute 'api_key'",
    "wants a key when it reads": "API_KEY is not set",
    "has a hostile error": "</pre><script>alert(1)</script>\n# `x`\u001b[31mred\u202e",
}


def fail() -> None:
    """Do what no server should do when it reads."""
    if FAULT == "prints when it reads":
        say("reading\u001b[31m")
    if FAULT == "answers with invalid JSON":
        say('{"jsonrpc": "2.0", "id":')
    if FAULT == "ends when it reads":
        sys.exit(3)
    if FAULT == "hangs when it reads":
        time.sleep(600)
    if FAULT == "has a hostile error":
        logged = {"level": "error", "data": "\u001b[2J"}
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": logged})
    if FAULT in REFUSALS:
        raise RuntimeError(REFUSALS[FAULT])
    while FAULT == "asks and reads no answers":
        say({"jsonrpc": "2.0", "id": "x", "method": "ping"})
    while FAULT == "floods":
        say("x" * 1000)
    while FAULT == "floods without a line":
        sys.stdout.write("x" * 100_000)


KEPT: dict[str, Any] = {
    "may be kept by proxies": {"cacheScope": "public"},
    "may be kept for a minute": {"ttlMs": 60_000},
    "asks for input": {"resultType": "input_required"},
}


def read(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `resources/read`."""
    fail()
    uri = params["uri"]
    content = {"uri": uri, "mimeType": "Application/JSON ; v=1" if FAULT == "announces JSON" else "application/json"}
    if uri == "raw://rows":
        return {"contents": read_rows(content)}
    if uri == "raw://text" and FAULT in KEPT:
        return {**KEPT[FAULT], "contents": [{"uri": uri, "mimeType": "text/plain", "text": read_text()}]}
    if uri == "raw://text":
        about = "raw://other" if FAULT == "answers for another URI" else uri
        return {"contents": [{"uri": about, "mimeType": "text/plain", "text": read_text()}]}
    if uri == "raw://blob":
        blob = "-_-_" if FAULT == "has another base64" else base64.b64encode(b"\x89PNG").decode()
        more = {"text": "x"} if FAULT == "has text and bytes" else {}
        return {"contents": [content | more | {"mimeType": "image/png", "blob": blob}]}
    if uri.endswith("/7" if FAULT != "has a name" else "/a%20b%2F7") or is_secret(uri):
        return {
            "contents": [
                content | {"text": json.dumps({"uri": uri, "fault": FAULT} if is_secret(uri) else {"uri": uri})}
            ]
        }
    if FAULT == "refuses unknown URIs with another code":
        raise RuntimeError("Traceback: no rows")
    if FAULT == "answers unknown URIs":
        return {"contents": [content | {"text": "{}"}]}
    raise LookupError(uri)


def is_secret(uri: str) -> bool:
    """Return whether only a server with this fault knows the URI."""
    of_all = FAULT == ANY and uri.startswith("raw://")
    return of_all or (uri == "raw://secret" and FAULT != "lists a secret that it refuses")


def read_rows(content: dict[str, Any]) -> list[Any]:
    """Return the contents of the resource with rows."""
    rows = {
        "loses a row": ROWS[:5] + ROWS[6:],
        "repeats a row": ROWS[:6] + ROWS[5:],
        "changes a row": [row | {"price": 99.0} if row["id"] == 17 else row for row in ROWS],
    }.get(FAULT, ROWS)
    texts = {
        "has a key twice": '{"id": 1, "id": 2}',
        "has a number that is too large": '{"id": 1e400}',
        "announces JSON": "host: x",
        "is nested deeply": f"{'[' * 500}{time.monotonic_ns()}{']' * 500}",
        "is huge": f'"{"x" * LARGEST}"' if FAULT == "is huge" else "",
    }
    found = [content | {"text": texts.get(FAULT, json.dumps(rows))}]
    return found * 2 if FAULT == "repeats a content" else found


def read_text() -> str:
    """Return the text of the other resource."""
    return {
        "has a line more": "one\nmore\ntwo",
        "ends with a line": "one\ntwo\n",
        "has JSON in its text": '{"a": 1}',
        "has JSON with blanks in its text": '{ "a": 1 }',
        "has JSON and a line in its text": '{"a": 1}\n',
        "has a clock": f"one\ncreated at {time.strftime('%H:%M:%S')}\ntwo",
        "is hostile": "</pre><script>alert(1)</script>\n# `x` [y](javascript:z)\n\u001b[31mred\u202e",
    }.get(FAULT, "one\ntwo")


PATHS = {"has another form": "{/number}", "has a path": "/{+number}", "has a name": "/{number}"}
"""The form of the variable of a template, with a value that is not a plain word."""


def complete(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `completion/complete`."""
    return (
        {"completion": {"values": ["a b/7" if FAULT in PATHS else "7"]}}
        if params["argument"]["name"] == "number"
        else {}
    )


def list_templates(params: dict[str, Any]) -> dict[str, Any]:
    """Answer `resources/templates/list`: as many as the variable TEMPLATES says, in pages of 50."""
    first = int(params.get("cursor") or 0)
    last = min(first + 50, int(os.environ.get("TEMPLATES", "0")))
    page: dict[str, Any] = {"nextCursor": str(last)} if last == first + 50 else {}
    form = PATHS.get(FAULT, "/{number}")
    templates = [{"uriTemplate": f"raw://t{at}{form}", "name": f"t{at}"} for at in range(first, last)]
    if FAULT == "lists half a template":
        templates = [{"uriTemplate": "raw://t/{number", "name": "half"}]
    if FAULT == "lists a template":
        templates = [{"uriTemplate": "raw://secret/{number}", "name": "secret"}]
    if FAULT == ANY:
        templates = [{"uriTemplate": "raw://{number}", "name": "any"}]
    return {"resourceTemplates": templates} | page


METHODS = {
    "initialize": start,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "completion/complete": complete,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "tools/list": list_tools,
    "resources/read": read,
}


WAITS = "waits at its start"
AT_ITS_START = {
    "shows its usage": "error: no database\nusage: rows [-h] FILE\n  - Use --db-path md: for a cloud",
    "ends at its start": "no such file: rows.db",
    "wants a key at its start": "set API_KEY",
}
"""What the server says on stderr before it ends."""


def main() -> None:
    """Answer until stdin ends."""
    if FAULT in AT_ITS_START:
        sys.exit(AT_ITS_START[FAULT])
    if FAULT == WAITS:
        sys.stdin.readlines()
        sys.exit("reading credentials")
    for line in sys.stdin:
        request = json.loads(line)
        assert None not in request.values()  # what has no value is not sent
        if "id" not in request:
            continue
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        method = METHODS.get(request["method"])
        if IS_NEW:
            method = {"server/discover": discover, "initialize": None}.get(request["method"], method)
        try:
            if method is None:
                answer["error"] = {"code": -32601, "message": "Method not found"}
            else:
                answer["result"] = HINTS | method(request.get("params") or {})
        except RuntimeError as error:
            answer["error"] = {"code": -32603, "message": str(error)}
        except LookupError as error:
            answer["error"] = {"code": -32002, "message": f"no resource {error}"}
        answer_wrongly(request, answer)
        say(answer)


def answer_wrongly(request: dict[str, Any], answer: dict[str, Any]) -> None:
    """Do what no server should do beside its answer to a read."""
    if request["method"] != "resources/read":
        return
    if FAULT == "answers with a text as id":
        answer["id"] = str(request["id"])
    if FAULT == "answers twice":
        say(answer)
    if FAULT == "asks for a sample":
        asked = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
        say({"jsonrpc": "2.0", "id": "s"} | asked)


if __name__ == "__main__":
    main()
