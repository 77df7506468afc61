"""Compares the contracts of two revisions: their resources and tools, and the answers of each."""

import re
from collections.abc import Iterator
from typing import Any

from mcp_parity.diff.change import Change, Finding, Kind, code
from mcp_parity.diff.contract import HOME, Contract
from mcp_parity.diff.documents import document_changes
from mcp_parity.diff.schemas import INPUT, OUTPUT, schema_changes

SCHEMAS = {"inputSchema": INPUT, "outputSchema": OUTPUT}


def find_changes(base: Contract, head: Contract) -> Iterator[Finding]:
    """Yield all changes that clients will see."""
    for noun, before, after in (("resource", base.resources, head.resources), ("tool", base.tools, head.tools)):
        for subject in sorted(before.keys() - after.keys()):
            yield Finding(subject, Change(Kind.BREAKING, f"the {noun}", "is gone"))
        for subject in sorted(after.keys() - before.keys()):
            yield Finding(subject, Change(Kind.COMPATIBLE, f"the {noun}", "is new"))
    for uri in sorted(base.resources.keys() & head.resources.keys()):
        yield from _resource_findings(uri, base, head)
    for name in sorted(base.tools.keys() & head.tools.keys()):
        was, now = (_without_uris(contract.tools[name], contract) for contract in (base, head))
        yield from (Finding(name, change) for change in _tool_changes(was, now))
    for name in sorted(base.others.keys() | head.others.keys()):
        directory, _, golden = name.rpartition("/")
        changes = _other_changes(base.others.get(name), head.others.get(name))
        yield from (Finding(directory, change, golden) for change in changes)
    yield from _world_findings(base, head)


def _resource_findings(uri: str, base: Contract, head: Contract) -> Iterator[Finding]:
    before, after = base.resources[uri], head.resources[uri]
    columns = before.keys() & after.keys()  # clients do not see columns that were added or removed
    for change in document_changes(*({name: row[name] for name in columns} for row in (before, after))):
        yield Finding(uri, change, "inventory")
    for label in base.listings:
        for change in _entry_changes(base.listings[label].get(uri), head.listings[label].get(uri)):
            yield Finding(uri, change, label)
    for world in sorted(base.worlds & head.worlds | {HOME}):
        for change in _answer_changes(base.answer(uri, world), head.answer(uri, world)):
            yield Finding(uri, change, world)


def _entry_changes(before: Any, after: Any) -> Iterator[Change]:
    if before is None and after is not None:
        yield Change(Kind.COMPATIBLE, "the entry", "is new")
    elif before is not None and after is None:
        yield Change(Kind.BREAKING, "the entry", "is gone")
    else:
        yield from document_changes(before, after)


def _answer_changes(before: Any, after: Any) -> Iterator[Change]:
    """Compare the answers in one world, and report an answer that is missing on one side."""
    if before is None and after is None:
        return
    if before is None or after is None:
        kind = Kind.COMPATIBLE if before is None else Kind.BREAKING
        yield Change(kind, "the answer", "now has a golden" if before is None else "no longer has a golden")
        return
    was, now = (_documents(golden) for golden in (before, after))
    if "error" not in was[0] and "error" in now[0]:
        yield Change(Kind.BREAKING, "the answer", f"changed from data to the error {code(str(now[0]['error']))}")
    elif "error" in was[0] and "error" not in now[0]:
        yield Change(Kind.COMPATIBLE, "the answer", f"changed from the error {code(str(was[0]['error']))} to data")
    else:
        for one, other in zip(was, now, strict=False):
            yield from document_changes(one, other)


def _documents(golden: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool's body, and for a refusal also the error of the resource surface, with the same paths."""
    if "resource" not in golden:
        return [golden]
    resource = dict(golden["resource"])
    data = resource.pop("data", None)
    refusal = {**(data if isinstance(data, dict) else {}), **resource}
    return [golden["tool"], refusal] if "tool" in golden else [{"error": resource.get("code"), **refusal}]


def _other_changes(before: Any, after: Any) -> Iterator[Change]:
    if before is None:
        yield Change(Kind.COMPATIBLE, "the golden", "is new")
    elif after is None:
        yield Change(Kind.VALUE, "the golden", "was removed and is no longer checked")
    else:
        yield from _answer_changes(before, after)


def _without_uris(tool: dict[str, Any], contract: Contract) -> dict[str, Any]:
    """Remove the lines of a description that only name a resource: the resource's own finding reports them."""
    lines = tool.get("description", "").splitlines()
    kept = [line for line in lines if line not in contract.resources and not re.fullmatch(r"… and \d+ more\.", line)]
    return {**tool, "description": "\n".join(kept)}


def _tool_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    yield from document_changes(
        *({name: value for name, value in tool.items() if name not in SCHEMAS} for tool in (before, after))
    )
    for name, direction in SCHEMAS.items():
        if name in before and name in after:
            yield from schema_changes(before[name], after[name], direction)
        elif name in before:
            yield Change(Kind.BREAKING, code(name), "is gone")
        elif name in after:
            yield Change(Kind.COMPATIBLE, code(name), "is new")


def _world_findings(base: Contract, head: Contract) -> Iterator[Finding]:
    """Yield the worlds that were added or removed. Clients see no difference."""
    for world in sorted(head.worlds - base.worlds - {HOME}):
        yield Finding("worlds", Change(Kind.COMPATIBLE, f"the world {code(world)}", "is now checked"))
    for world in sorted(base.worlds - head.worlds - {HOME}):
        yield Finding("worlds", Change(Kind.VALUE, f"the world {code(world)}", "is no longer checked"))
