"""Compares the contracts of two revisions: their resources and tools, and the answers of each."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from mcp_parity.diff.change import Change, Finding, Kind, code
from mcp_parity.diff.contract import HOME, Contract
from mcp_parity.diff.documents import document_changes
from mcp_parity.diff.schemas import INPUT, OUTPUT, schema_changes

SCHEMAS = {"inputSchema": INPUT, "outputSchema": OUTPUT}
FindChanges = Callable[[Any, Any], Iterator[Change]]


class Words(NamedTuple):
    """What is said of a thing that only one revision has. `kind` is that of a thing that is gone."""

    thing: str
    new: str = "is new"
    gone: str = "is gone"
    kind: Kind = Kind.BREAKING


ANSWER = Words("the answer", "now has a golden", "no longer has a golden")
OTHER = Words("the golden", gone="was removed and is no longer checked", kind=Kind.VALUE)


def find_changes(base: Contract, head: Contract) -> Iterator[Finding]:
    """Yield all changes that clients will see."""
    for subject, where, changes in _compare_contracts(base, head):
        yield from (Finding(subject, change, where) for change in changes)


def _compare_contracts(base: Contract, head: Contract) -> Iterator[tuple[str, str, Iterator[Change]]]:
    """Yield the subject of each comparison, where it is, and its changes."""
    for noun, before, after in (("resource", base.resources, head.resources), ("tool", base.tools, head.tools)):
        for subject in sorted(before.keys() ^ after.keys()):
            yield subject, "", _compare(before.get(subject), after.get(subject), Words(f"the {noun}"))
    for uri in sorted(base.resources.keys() & head.resources.keys()):
        yield from _compare_resource(uri, base, head)
    for name in sorted(base.tools.keys() & head.tools.keys()):
        yield name, "", _tool_changes(*(_without_uris(contract.tools[name], contract) for contract in (base, head)))
    for name in sorted(base.others.keys() | head.others.keys()):
        directory, _, golden = name.rpartition("/")
        yield directory, golden, _compare(base.others.get(name), head.others.get(name), OTHER, _answer_changes)
    for world in sorted((base.worlds ^ head.worlds) - {HOME}):  # clients see no difference
        words = Words(f"the world {code(world)}", "is now checked", "is no longer checked", Kind.VALUE)
        was, now = (world if world in contract.worlds else None for contract in (base, head))
        yield "worlds", "", _compare(was, now, words)


def _compare_resource(uri: str, base: Contract, head: Contract) -> Iterator[tuple[str, str, Iterator[Change]]]:
    before, after = base.resources[uri], head.resources[uri]
    columns = before.keys() & after.keys()  # clients do not see columns that were added or removed
    yield uri, "inventory", document_changes(*({name: row[name] for name in columns} for row in (before, after)))
    for label in base.listings:
        was, now = (contract.listings[label].get(uri) for contract in (base, head))
        yield uri, label, _compare(was, now, Words("the entry"))
    for world in sorted(base.worlds & head.worlds | {HOME}):
        yield uri, world, _compare(base.answer(uri, world), head.answer(uri, world), ANSWER, _answer_changes)


def _compare(before: Any, after: Any, words: Words, changes: FindChanges = document_changes) -> Iterator[Change]:
    """Yield the changes of a thing that one of the revisions can lack."""
    if before is not None and after is not None:
        yield from changes(before, after)
    elif before is not None:
        yield Change(words.kind, words.thing, words.gone)
    elif after is not None:
        yield Change(Kind.COMPATIBLE, words.thing, words.new)


def _answer_changes(before: Any, after: Any) -> Iterator[Change]:
    """Compare the answers in one world."""
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


def _without_uris(tool: dict[str, Any], contract: Contract) -> dict[str, Any]:
    """Remove the lines of a description that only name a resource: the resource's own finding reports them."""
    lines = tool.get("description", "").splitlines()
    kept = [line for line in lines if line not in contract.resources and not re.fullmatch(r"… and \d+ more\.", line)]
    return {**tool, "description": "\n".join(kept)}


def _tool_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    was, now = ({name: value for name, value in tool.items() if name not in SCHEMAS} for tool in (before, after))
    yield from document_changes(was, now)
    for name, direction in SCHEMAS.items():
        changes = partial(schema_changes, direction=direction)
        yield from _compare(before.get(name), after.get(name), Words(code(name)), changes)
