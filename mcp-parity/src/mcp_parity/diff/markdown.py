"""Writes the findings as Markdown: grouped by resource, the worst first."""

from collections.abc import Iterable, Iterator

from mcp_parity.diff.change import Change, Finding, Kind, code

LONGEST_LIST = 20
MOST_PLACES = 4
ORDER = list(Kind)


def write_summary(findings: Iterable[Finding], unannounced: list[str], changelog: str) -> str:
    """Return the whole text.

    Args:
        findings: the differences.
        unannounced: the subjects of breaking changes that the changelog does not name.
        changelog: the name of the changelog.
    """
    groups = group_findings(findings)
    if not groups:
        return "No changes for clients.\n"
    parts = ["## Changes for clients", write_verdict(groups, unannounced, changelog)]
    for subject in groups:
        parts += [f"### {code(subject)}", "\n".join(_lines(groups[subject]))]
    return "\n\n".join(parts) + "\n"


def group_findings(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Return the findings by subject, the worst subject first."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.subject, []).append(finding)
    return dict(sorted(groups.items(), key=lambda group: (ORDER.index(worst(group[1])), group[0])))


def write_verdict(groups: dict[str, list[Finding]], unannounced: list[str], changelog: str) -> str:
    """Return one line: whether a breaking change is not announced."""
    if unannounced:
        names = ", ".join(map(code, unannounced))
        return f"**Do not merge yet:** no entry under `### Breaking` of [Unreleased] in {changelog} names {names}."
    if any(worst(group) is Kind.BREAKING for group in groups.values()):
        return f"{changelog} announces all breaking changes."
    return "No breaking changes."


def worst(group: list[Finding]) -> Kind:
    """Return the kind of the most severe change."""
    return min((finding.change.kind for finding in group), key=ORDER.index)


def _lines(group: list[Finding]) -> Iterator[str]:
    """Yield one line per change, for all worlds that have it. Lines beyond the limit are only counted."""
    changes: dict[Change, list[Finding]] = {}
    for finding in group:
        changes.setdefault(finding.change.generalize(), []).append(finding)
    for kind in ORDER:
        lines = [_text(change, seen) for change, seen in changes.items() if change.kind is kind]
        yield from lines[:LONGEST_LIST]
        if len(lines) > LONGEST_LIST:
            yield f"- *{kind}*: … and {len(lines) - LONGEST_LIST} more"


def _text(change: Change, seen: list[Finding]) -> str:
    text = f"- *{change.kind}*: {change.thing} {change.what}"
    values = {finding.change.values for finding in seen}
    if len(values) == 1 and values != {""}:
        text += f": {values.pop()}"
    places = list(dict.fromkeys(finding.where for finding in seen if finding.where))
    if places:
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        text += f" ({', '.join(map(code, places[:MOST_PLACES]))}{more})"
    return text
