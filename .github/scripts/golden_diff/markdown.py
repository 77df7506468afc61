"""Writes the findings as Markdown: grouped by resource, the worst first."""

from collections.abc import Iterable, Iterator

from golden_diff.change import Change, Finding, Kind, code

LONGEST_LIST = 20
MOST_PLACES = 4
ORDER = list(Kind)

Line = tuple[Kind, str, str, str]


def summary(findings: Iterable[Finding], unannounced: list[str]) -> str:
    """The whole text.

    Args:
        findings: what differs.
        unannounced: what breaks clients, and is not in the changelog.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.subject, []).append(finding)
    if not groups:
        return "No change for clients.\n"
    parts = ["## What clients will see differently", _verdict(groups, unannounced)]
    for subject in sorted(groups, key=lambda subject: (_worst(groups[subject]), subject)):
        parts += [f"### {code(subject)}", "\n".join(_lines(groups[subject]))]
    return "\n\n".join(parts) + "\n"


def _verdict(groups: dict[str, list[Finding]], unannounced: list[str]) -> str:
    if unannounced:
        names = ", ".join(map(code, unannounced))
        return f"**Not to be merged yet:** no entry under `### Breaking` of [Unreleased] in CHANGELOG.md names {names}."
    if any(_worst(group) == 0 for group in groups.values()):
        return "What breaks clients is announced in CHANGELOG.md."
    return "Nothing here breaks clients."


def _worst(group: list[Finding]) -> int:
    return min(ORDER.index(finding.change.kind) for finding in group)


def _lines(group: list[Finding]) -> Iterator[str]:
    """One line a change, however many worlds it was seen in; those beyond the longest list as a count."""
    changes: dict[Line, list[Finding]] = {}
    for finding in group:
        changes.setdefault(_line(finding.change), []).append(finding)
    for kind in ORDER:
        lines = [_text(line, seen) for line, seen in changes.items() if line[0] is kind]
        yield from lines[:LONGEST_LIST]
        if len(lines) > LONGEST_LIST:
            yield f"- *{kind}*: … and {len(lines) - LONGEST_LIST} more"


def _line(change: Change) -> Line:
    """What makes one line: values that differ from world to world make several only where they break clients."""
    return change.kind, change.thing, change.what, change.values if change.kind is Kind.BREAKING else ""


def _text(line: Line, seen: list[Finding]) -> str:
    kind, thing, what, _ = line
    text = f"- *{kind}*: {thing} {what}"
    values = {finding.change.values for finding in seen}
    if len(values) == 1 and values != {""}:
        text += f": {values.pop()}"
    places = list(dict.fromkeys(finding.where for finding in seen if finding.where))
    if places:
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        text += f" ({', '.join(map(code, places[:MOST_PLACES]))}{more})"
    return text
