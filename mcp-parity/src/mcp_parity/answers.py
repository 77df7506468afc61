"""Reads a resource on both surfaces, checks that the answers agree, and shows them as a golden holds them."""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError

from mcp_parity.serving import ANSWER, AnyClient
from mcp_parity.settings import ContractError, Settings
from mcp_parity.values import (
    Place,
    are_equal,
    describe,
    find_differences,
    have_same_items,
    mask,
    parse_json,
    read_json,
    shorten,
)

MOST_CHARACTERS = 50_000_000
LARGEST_IMAGE = 50_000


def show_content(uri: str, content: Any) -> dict[str, Any]:
    """Return a content of resources/read as a golden holds it."""
    shown: dict[str, Any] = {"mime_type": content.mime_type}
    if content.uri != uri:
        shown["uri"] = content.uri
    if content.meta:
        shown["meta"] = content.meta
    if not isinstance(content, mcp_types.TextResourceContents):
        return shown | show_blob(f"{uri}: the blob", content.blob, content.mime_type)
    if len(content.text) > MOST_CHARACTERS:
        raise ContractError(f"{uri}: {len(content.text):,} characters are too many to compare; add it to mcp_exclude")
    shown |= show_text(content.text)
    announced = (content.mime_type or "").partition(";")[0].strip().lower()
    is_json = announced == "application/json" or announced.endswith("+json")
    if "lines" in shown and is_json:
        try:
            read_json(content.text)
        except ValueError as error:
            raise ContractError(f"{uri}: announced as {announced}, but the text is not JSON: {error}") from error
    if (
        "data" in shown and not is_json
    ):  # frameworks announce an object as text/plain; of other texts, each blank counts
        dump = partial(json.dumps, shown["data"], ensure_ascii=False)
        written = {dump(), dump(separators=(",", ":")), json.dumps(shown["data"])}
        shown |= {} if content.text in written else {"lines": content.text.split("\n")}
    return shown


def show_text(text: str) -> dict[str, Any]:
    """Return a text as a golden holds it: JSON as JSON, else its lines."""
    parsed = parse_json(text)
    return {"lines": text.split("\n")} if parsed is None else {"data": parsed}


def show_blob(about: str, blob: str, mime_type: str | None) -> dict[str, Any]:
    """Return base64 text as a golden holds it: by size and hash. A review shows the small images."""
    try:
        raw = base64.b64decode(blob, validate=True)
    except ValueError as error:
        raise ContractError(f"{about} is not base64: {error}") from error
    shown = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    image = {"image": blob} if (mime_type or "").startswith("image/") and len(raw) <= LARGEST_IMAGE else {}
    return {"blob": shown | image}


@dataclass(frozen=True)
class ToolAnswer:
    """The tool's answer: a body if it has `success` and `uri`, else texts, perhaps with structured content."""

    refused: bool
    message: str
    contents: list[dict[str, Any]]
    body: dict[str, Any] | None
    texts: list[str] = field(default_factory=list)
    structured: Any = None

    def check_structured(self, about: str) -> Any:
        """Return structured content that only can be pinned; None if it says what the texts or the contents say.

        It is a contradiction if they have the same form: hosts show one or the other.
        """
        value = self.structured
        if isinstance(value, dict) and value.keys() == {"result"}:
            value = value["result"]
        data = [one.get("data") for one in self.contents]
        said = [*self.texts, *map(parse_json, self.texts), *data]
        if any(are_equal(value, one) for one in (*said, data) if one is not None):
            return None
        for one in said if len(self.contents) == 1 else ():
            if type(one) is type(value) and (not isinstance(one, dict) or one.keys() & value.keys()):
                lines = describe(list(find_differences(one, value)), "text", "structured content")
                raise ContractError(f"{about} differ\n{lines}")
        return self.structured

    def compare(self, uri: str, contents: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        """Return the contents of resources/read and those of the tool, with only the fields that the tool tells."""
        found = [[{"uri": uri} | one for one in contents], self.contents]
        told = {"data", "lines", "blob"} | ({"mime_type"} if self.body is not None else set())
        one, other = ([_pick(content, told) for content in side] for side in found)
        if len(one) != len(other) or (have_same_items(one, other) and not are_equal(one, other)):
            return [one, other]
        fields = [told | (content.keys() & {"uri", "mime_type"}) for content in self.contents]
        return [list(map(_pick, side, fields)) for side in found]


def _pick(content: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return some fields, but not the lines of a text of which the data are known: tools may write it differently."""
    told = names - ({"lines"} if "data" in content else set())
    return {name: value for name, value in content.items() if name in told}


Attachment = mcp_types.ImageContent | mcp_types.AudioContent | mcp_types.EmbeddedResource


async def ask_tool(client: AnyClient, tool: str, uri: str, contents: list[dict[str, Any]] | None) -> ToolAnswer:
    """Call the tool with the URI. `contents` is what resources/read answers. A contradiction is a ContractError."""
    result = await client.call_tool_mcp(tool, {"uri": uri})
    body = result.structured_content
    texts = [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]
    message = " ".join(texts)[:200]
    if not (isinstance(body, dict) and {"success", "uri"} <= body.keys()):
        if result.is_error:
            return ToolAnswer(refused=True, message=message, contents=[], body=None)
        shown = _show_blocks(uri, result.content, texts, contents or [])
        said = texts if body is not None else []
        return ToolAnswer(refused=False, message="", contents=shown, body=None, texts=said, structured=body)
    if not are_equal([parse_json(text) for text in texts], [body]):
        raise ContractError(f"{uri}: the text and the structured content of {tool} differ")
    if result.is_error is not (body["success"] is not True):
        raise ContractError(f"{uri}: {tool} has success {body['success']!r}, but isError {result.is_error}")
    if not result.is_error and body["uri"] != uri:
        raise ContractError(f"{uri}: {tool} answers for {body['uri']!r}")
    body.pop("timestamp", None)
    if result.is_error:
        return ToolAnswer(refused=True, message=str(body.get("message")), contents=[], body=body)
    parts = [body] if body.get("contents") is None else body["contents"]
    if not (isinstance(parts, list) and all(map(_is_content, parts))):
        raise ContractError(f"{uri}: the contents of {tool} are not a list of objects with texts")
    attached = [show_attachment(uri, block) for block in result.content if isinstance(block, Attachment)]
    shown = [{"mime_type": one.get("mime_type")} | _show_part(uri, one, attached) for one in parts]
    return ToolAnswer(refused=False, message="", contents=shown + attached, body=body)


def show_attachment(uri: str, block: Attachment) -> dict[str, Any]:
    """Return a content that the tool gives beside its body. Only an embedded resource tells a URI."""
    if isinstance(block, mcp_types.EmbeddedResource):
        return {"uri": block.resource.uri} | show_content(uri, block.resource)
    return {"mime_type": block.mime_type} | show_blob(f"{uri}: a blob of the tool", block.data, block.mime_type)


def _is_content(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(part.get(one) or "", str) for one in ("text", "blob", "mime_type"))


def _show_part(uri: str, part: dict[str, Any], attached: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the value of a content of the body. What is attached in place of the value is no further content."""
    given = {name for name, value in part.items() if value is not None}
    if "text" in given and "data" not in given:
        return show_text(part["text"])
    if "data" not in given and "blob" in given:
        shown = show_blob(f"{uri}: a blob of the tool", part["blob"], part.get("mime_type"))
        if attached and attached[0].get("blob") == shown["blob"]:
            attached.pop(0)
        return shown
    if "data" not in given and attached and attached[0]["mime_type"] == part.get("mime_type"):
        return attached.pop(0)
    return {"data": part["data"]} if "data" in part else {}


def _show_blocks(uri: str, blocks: list[Any], texts: list[str], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answer of a tool of any form: a text, a list of contents as JSON text, or a block per content."""
    if len(blocks) == len(expected):
        return [_show_block(uri, block, one) for block, one in zip(blocks, expected, strict=True)]
    listed = parse_json(texts[0]) if len(texts) == 1 else None
    if isinstance(listed, list) and len(listed) == len(expected):
        values = [one.get("content") if isinstance(one, dict) else None for one in listed]
        return [_show_value(str(value), one) for value, one in zip(values, expected, strict=True)]
    return [_show_block(uri, block, {}) for block in blocks]


def _show_block(uri: str, block: Any, expected: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(block, Attachment):
        return _show_value(str(getattr(block, "text", "")), expected)
    shown = show_attachment(uri, block)
    return {name: value for name, value in shown.items() if value is not None or name != "mime_type"}


def _show_value(text: str, expected: dict[str, Any]) -> dict[str, Any]:
    if "blob" in expected:
        with suppress(ContractError):
            return show_blob("", text, expected.get("mime_type"))
    return show_text(text)


_UNMASKED = re.compile(r"Error reading resource '.*': ", re.DOTALL)  # what FastMCP writes unless it masks errors
_STACK = re.compile(r"Traceback \(most recent call last\)|\\n\s+at \S.*:\d+")  # of Python; of JavaScript, in JSON
_SECRET = re.compile(
    r"\b(sk-[\w-]{6,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}|xox[bap]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\."
    r"|\w+://\w+:[^\s/@]+@|BEGIN [A-Z ]*PRIVATE KEY|Bearer [\w.~+/-]{16,})"
)
_NOUN = (
    r"(credentials?|(api|access|secret)[ _-]?keys?|((api|access|bearer|auth)[ _-]?)?tokens?|log-?ins?|sign-?ins?"
    r"|password|authenticat(ion|e)|authori[sz]ation|\w+_(token|secret|password|key|credentials))"
)
_LACK = re.compile(
    rf"(?i)\b(unauthenticated|unauthori[sz]ed|forbidden|http (status )?40[13])\b"
    rf"|\bauth\w*(Error|Exception)\b|(?-i:\b[A-Z0-9_]+_(TOKEN|SECRET|PASSWORD|API_KEY)\b)"
    rf"|\b(not|never) (been )?(authenticated|authori[sz]ed|(logged|signed)[ -]in)\b"
    rf"|\b(please|must|to|first,?|and) (log|sign)[ -]?in\b|\b(log|sign)[ -]?in (first|again|to|with|at)\b"
    rf"|\b{_NOUN}\b['\"`]?( (environment )?(variable|header|value))?( is| are| was| were| has)?( currently)? "
    rf"(required|needed|missing|invalid|empty|expired|incorrect|rejected|revoked|unset|absent|denied|failed"
    rf"|not (been )?(set|given|provided|configured|found|defined|supplied|valid)|must be)\b"
    rf"|\b(missing|no|invalid|expired|set|provide|specify|supply|require[sd]?|needs?|without|configure|locate|find|wrong)"
    rf"( (a|an|the|your|any|valid|required|environment variable)){{0,3}}:? ['\"`]?{_NOUN}\b"
)
_NAMED = "No|Not|Key|Auth|Unauth|Credential|Login|Token|Forbidden|Permission"
_EXCEPTION = re.compile(rf"\b(?!{_NAMED})[A-Z]\w*(Error|Exception)\b")
"""An exception that says nothing of a login by its name. It is a failure of the server, whatever names it quotes."""
CREDENTIAL = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD|CREDENTIALS)\b|`[^`]*\b(?:login|auth)\b.*?`")

_TIMES = (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*", r"\d\d?:\d\d:\d\d( [AP]M)?", r"\d{4}-\d\d-\d\d")
_TIME = re.compile(
    "|".join(_TIMES) + r"|\b1[6-9]\d{8}|(?i:time|date|clock|stamp|second|elapsed|\bnow\b|\bage\b|_at\b|seen|\bago\b)"
)
"""A time, or a name of one."""


@dataclass(frozen=True)
class Answer:
    """What a server answers for a URI: the contents of resources/read, or its JSON-RPC error.

    The tool adds its `body`, its `refusal` of an answer above its `max_bytes` or in words, and `other` structured
    content that only can be pinned. `cache` says how long, and for which callers, a client may keep the answer.
    """

    uri: str
    contents: list[dict[str, Any]] | None
    error: dict[str, Any] | None
    body: dict[str, Any] | None = None
    refusal: dict[str, Any] | None = None
    other: Any = None
    cache: dict[str, Any] | None = None

    def to_golden(self) -> dict[str, Any]:
        golden = {"resource": self.error} if self.contents is None else {"contents": self.contents}
        more = {"tool": self.refusal, "structured": self.other, "cache": self.cache}
        return golden | {name: value for name, value in more.items() if value is not None}

    def without_tool(self) -> "Answer":
        """Return what resources/read alone answers."""
        return Answer(self.uri, self.contents, self.error, cache=self.cache)

    def shorten(self, volatile: list[Place]) -> dict[str, Any]:
        """Return what a golden holds, without volatile values, and large contents by shape and hash."""
        golden: dict[str, Any] = mask(self.to_golden(), volatile)
        if isinstance(golden.get("contents"), list):  # else all of it is volatile
            golden["contents"] = [shorten(content) for content in golden["contents"]]
        return golden

    @property
    def error_text(self) -> str:
        """What the error says, without the URI."""
        return json.dumps(self.error or {}).replace(self.uri, "")

    def find_leaks(self) -> list[str]:
        """Return sentences about texts of an error that look as if clients should not see them."""
        message = str((self.error or {}).get("message", ""))
        found = {
            "the text of an exception; use FastMCP(mask_error_details=True)": _UNMASKED.match(message),
            "a stack trace, which shows how the server is made": _STACK.search(self.error_text),
            "what looks like a secret": _SECRET.search(str(self.error or "")),
        }
        return [f"{self.uri}: the error contains {what}" for what, match in found.items() if match]


def has_time(value: Any) -> bool:
    """Return whether there is a sign of a time in a value, so that it can differ a second later."""
    return bool(_TIME.search(json.dumps(value, default=str)))


def wants_login(text: str) -> bool:
    """Return whether a text says that a login is missing or refused. To name one is not enough."""
    return bool(_LACK.search(text)) and not _EXCEPTION.search(text)


_UNCACHED = {"ttlMs": 0, "cacheScope": "private"}


async def get_prompt(client: AnyClient, name: str) -> dict[str, Any]:
    """Return what a prompt says without arguments: its description and messages, or its refusal."""
    request = mcp_types.GetPromptRequest(params=mcp_types.GetPromptRequestParams(name=name))
    try:
        found = await client.session.send_request(request, ANSWER)
    except MCPError as refused:
        return {"resource": accept_refusal(client, refused)}
    return {key: found[key] for key in ("description", "messages") if found.get(key) is not None}


def accept_refusal(client: AnyClient, refused: MCPError) -> dict[str, Any]:
    """Return the error of a server. What the client says itself, or a proxy, is raised again."""
    seen = getattr(client.transport, "last", None)
    if refused.error.code in (mcp_types.CONNECTION_CLOSED, mcp_types.PARSE_ERROR) or (seen and not seen.is_message):
        raise refused
    return refused.error.model_dump(mode="json", exclude_none=True)


async def read(client: AnyClient, uri: str) -> Answer:
    # A plain request, because FastMCP's method normalises the URI and refuses some before they are sent.
    request = mcp_types.ReadResourceRequest(params=mcp_types.ReadResourceRequestParams(uri=uri))
    try:
        found = await client.session.send_request(request, ANSWER)
    except MCPError as refused:
        return Answer(uri, None, accept_refusal(client, refused))
    if found.get("resultType", "complete") != "complete":
        raise ContractError(f"{uri}: the answer is not complete: resultType is {found['resultType']!r}")
    cache = {name: found[name] for name, default in _UNCACHED.items() if found.get(name, default) != default}
    contents = mcp_types.ReadResourceResult.model_validate(found).contents
    if any({"text", "blob"} <= one.keys() for one in found["contents"]):
        raise ContractError(f"{uri}: a content has both text and blob, of which clients read one or the other")
    return Answer(uri, [show_content(uri, one) for one in contents], None, cache=cache or None)


async def observe(client: AnyClient, uri: str, settings: Settings, tool: str) -> Answer:
    """Read the URI on both surfaces, without a tool only with resources/read. A difference is a ContractError."""
    native = await read(client, uri)
    if not tool:
        return native
    reply = await ask_tool(client, tool, uri, native.contents)
    if reply.refused != (native.contents is None):
        return _settle_refusal(native, reply, tool)
    if reply.refused and reply.body is None:
        return replace(native, refusal={"message": reply.message})
    contents = reply.compare(uri, native.contents or [])
    one, other = (dict[str, Any](contents=side) for side in contents)
    if native.error is not None:
        one = {"resource": {name: native.error.get(name) for name in ("message", "data")}}
        other = {"resource": {"message": reply.message, "data": reply.body}}
    volatile = settings.volatile_paths(uri)
    if differences := list(find_differences(mask(one, volatile), mask(other, volatile))):
        again = await read(client, uri)
        moved = {found.volatile for found in find_differences(native.to_golden(), again.to_golden())}
        if {found.volatile for found in differences} <= moved:
            raise ContractError(describe_volatile(uri, moved, native))
        verb = "refuses differently" if reply.refused else "lies: it differs"
        lines = describe(differences, "resources/read", tool)
        raise ContractError(f"{uri}: {tool} {verb} from resources/read\n{lines}")
    about = f"{uri}: the text and the structured content of {tool}"
    structured = None if reply.structured is None else reply.check_structured(about)
    return replace(native, body=reply.body, other=structured)


def _settle_refusal(native: Answer, reply: ToolAnswer, tool: str) -> Answer:
    if not reply.refused:
        reason = (native.error or {}).get("message")
        raise ContractError(f"{native.uri}: {tool} answers with data, but resources/read refuses: {reason}")
    if reply.body is not None and reply.body.get("error") == "TooLarge":  # the tool's limit is a part of the contract
        return replace(native, body=reply.body, refusal=reply.body)
    raise ContractError(f"{native.uri}: resources/read answers with data, but {tool} refuses: {reply.message}")


def describe_volatile(uri: str, paths: set[str], answer: Answer) -> str:
    """Return which lines declare values that differ from read to read."""
    texts = "\n".join(line for one in answer.contents or [] for line in one.get("lines", []))
    time = next(
        (f" /{one}/" for one in _TIMES if re.search(one, texts)), ""
    )  # so that other parts of lines stay pinned
    proposed = (f"{uri} {path}{time if path.endswith('.lines[]') else ''}" for path in sorted(paths))
    lines = "".join(f"\n    {json.dumps(line, ensure_ascii=False)}," for line in proposed)  # as in TOML
    advice = "Make it stable, or declare what changes:"
    return f"{uri}: the answer changes between two reads. {advice}\nmcp_volatile = [{lines}\n]"


async def check_stable(first: Answer, settings: Settings, ask: Callable[[], Awaitable[Answer]], *, about: Any) -> None:
    """Ask for an answer again. If there is a sign of a time in `about`, a clock of one second moves before."""
    await asyncio.sleep(settings.pause if has_time(about) else 0)
    paths = settings.volatile_paths(first.uri)
    one, other = [mask(answer.without_tool().to_golden(), paths) for answer in (first, await ask())]
    if moved := {found.volatile for found in find_differences(one, other)}:
        raise ContractError(describe_volatile(first.uri, moved, first))
