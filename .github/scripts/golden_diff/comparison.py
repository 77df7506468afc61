"""Compares the contracts of two revisions: which resources and tools there are, and what each of them answers."""

from collections.abc import Iterator
from typing import Any

from golden_diff.change import Change, Finding, Kind, code
from golden_diff.contract import HOME, Contract
from golden_diff.documents import document_changes
from golden_diff.schemas import GIVES, TAKES, schema_changes

SCHEMAS = {"inputSchema": TAKES, "outputSchema": GIVES}


def findings(base: Contract, head: Contract) -> Iterator[Finding]:
    """All that clients will see differently."""
    for noun, before, after in (("resource", base.resources, head.resources), ("tool", base.tools, head.tools)):
        for subject in sorted(before.keys() - after.keys()):
            yield Finding(subject, Change(Kind.BREAKING, f"the {noun}", "is gone"))
        for subject in sorted(after.keys() - before.keys()):
            yield Finding(subject, Change(Kind.COMPATIBLE, f"the {noun}", "is new"))
    for uri in sorted(base.resources.keys() & head.resources.keys()):
        yield from _resource_findings(uri, base, head)
    for name in sorted(base.tools.keys() & head.tools.keys()):
        yield from (Finding(name, change) for change in _tool_changes(base.tools[name], head.tools[name]))
    for name in sorted(base.others.keys() | head.others.keys()):
        directory, _, golden = name.rpartition("/")
        changes = _other_changes(base.others.get(name), head.others.get(name))
        yield from (Finding(directory, change, golden) for change in changes)
    yield from _world_findings(base, head)


def _resource_findings(uri: str, base: Contract, head: Contract) -> Iterator[Finding]:
    before, after = base.resources[uri], head.resources[uri]
    columns = before.keys() & after.keys()  # those that come or go are the file's own: no client sees them
    for change in document_changes(*({name: row[name] for name in columns} for row in (before, after))):
        yield Finding(uri, change, "mcp-list.csv")
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
    """Compare what is answered in one world; where there was or is no answer to compare, tell so."""
    if before is None and after is None:
        return
    if before is None or after is None:
        kind = Kind.COMPATIBLE if before is None else Kind.BREAKING
        yield Change(kind, "the answer", "has a golden now" if before is None else "has no golden any more")
        return
    was, now = (_documents(golden) for golden in (before, after))
    if "error" not in was[0] and "error" in now[0]:
        yield Change(Kind.BREAKING, "the answer", f"is no data now but the error {code(str(now[0]['error']))}")
    elif "error" in was[0] and "error" not in now[0]:
        yield Change(Kind.COMPATIBLE, "the answer", f"is data now, was the error {code(str(was[0]['error']))}")
    else:
        for one, other in zip(was, now, strict=False):
            yield from document_changes(one, other)


def _documents(golden: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool's body, and for a refusal also what the resource surface says, with the fields at the same places."""
    if golden.keys() != {"resource", "tool"}:
        return [golden]
    resource = dict(golden["resource"])
    return [golden["tool"], {**resource.pop("data"), **resource}]


def _other_changes(before: Any, after: Any) -> Iterator[Change]:
    if before is None:
        yield Change(Kind.COMPATIBLE, "the golden", "is new")
    elif after is None:
        yield Change(Kind.VALUE, "the golden", "is gone: this is not checked any more")
    else:
        yield from _answer_changes(before, after)


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
    """A world's first goldens show nothing that clients did not see before; neither do its last ones."""
    for world in sorted(head.worlds - base.worlds - {HOME}):
        yield Finding("worlds", Change(Kind.COMPATIBLE, f"the world {code(world)}", "is checked from now on"))
    for world in sorted(base.worlds - head.worlds - {HOME}):
        yield Finding("worlds", Change(Kind.VALUE, f"the world {code(world)}", "is not checked any more"))
