"""Calls of tools: which ones, and what they answer, in the form of an answer of a resource."""

from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError

from mcp_parity.answers import Answer, Attachment, ToolAnswer, accept_refusal, show_attachment, show_text
from mcp_parity.serving import AnyClient
from mcp_parity.settings import Call, ContractError, Entry, Settings

SAME = "as the text"


def is_harmless(tool: Entry) -> bool:
    """Return whether the tool says that it only reads."""
    return (tool.get("annotations") or {}).get("readOnlyHint") is True


def find_calls(tools: list[Entry]) -> list[Call]:
    """Return the calls that the input schemas of harmless tools give as examples, as a whole or for each argument."""
    calls = []
    for tool in filter(is_harmless, tools):
        schema = tool.get("inputSchema") or {}
        whole = [one for one in schema.get("examples") or [] if isinstance(one, dict)]
        properties = (schema.get("properties") or {}).items()
        listed = {name: one.get("examples") for name, one in properties if isinstance(one, dict)}
        first = {name: one[0] for name, one in listed.items() if isinstance(one, list) and one}
        if not whole and set(schema.get("required") or ()) <= first.keys():
            whole = [first]
        calls += [Call(tool["name"], arguments) for arguments in whole]
    return calls


async def call_tool(client: AnyClient, call: Call) -> Answer:
    """Call a tool. The structured content, if any, must not contradict the text; the client checks its schema."""
    try:
        result = await client.call_tool_mcp(call.tool, call.arguments)
    except MCPError as refused:
        return Answer(call.subject, None, accept_refusal(client, refused))
    shown = [_show_block(call.subject, block) for block in result.content]
    texts = [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]
    if result.is_error:
        return Answer(call.subject, None, {"message": "\n".join(texts)})
    structured = None
    if result.structured_content is not None:
        found = ToolAnswer(False, "", shown, None, texts, result.structured_content)  # noqa: FBT003 - not refused
        structured = found.check_structured(f"{call.subject}: the text and the structured content") or SAME
    return Answer(call.subject, shown, None, other=structured)


def _show_block(subject: str, block: Any) -> dict[str, Any]:
    if isinstance(block, Attachment):
        return show_attachment(subject, block)
    is_text = isinstance(block, mcp_types.TextContent)
    return show_text(block.text) if is_text else block.model_dump(mode="json", by_alias=True, exclude_none=True)


def parse_calls(settings: Settings, tools: list[Entry]) -> list[Call]:
    """Return the calls of the lines of `mcp_calls`. `examples` stands for those of the schemas."""
    lines = settings.calls
    calls = [call for line in lines for call in (find_calls(tools) if line == "examples" else [Call.parse(line)])]
    if len({call.subject for call in calls}) < len(calls):
        raise ContractError("mcp_calls: a call occurs twice")
    return calls
