"""Describes changes for a review: in Markdown, and as one HTML page without scripts. Every value is text."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sized
from html import escape
from importlib.resources import files
from typing import Any

from mcp_parity.changes import TO_READ, Change, Finding, Kind, code
from mcp_parity.revisions import Contract
from mcp_parity.values import are_equal, make_visible


def read_entries(changelog: str) -> dict[str, set[str]]:
    """Return the names in backticks of each entry under `### Breaking` of [Unreleased], by its words."""
    text = re.sub(r"<!--.*?-->|^```.*?^```", "", changelog, flags=re.DOTALL | re.MULTILINE)
    unreleased = _below(r"## \[Unreleased\][^\n]*", r"##? ", text)
    breaking = _below(r"### Breaking *", r"#{1,3} ", unreleased)
    entries = re.findall(r"^[-*] .*(?:\n(?![-*] |\n).*)*", breaking, re.MULTILINE)
    return {" ".join(entry.split()): set(re.findall(r"`([^`\n]+)`", entry)) for entry in entries}


def find_unannounced(subjects: Iterable[str], before: str, after: str) -> list[str]:
    """Return the subjects that no new or changed entry of the changelog `after` names, perhaps by `shop://item/*`."""
    known = read_entries(before)  # they announced earlier changes
    announced = {name for entry, names in read_entries(after).items() if entry not in known for name in names}
    patterns = [_to_pattern(name) for name in announced if "://" in name]
    return sorted(
        one for one in subjects if one not in announced and not any(pattern.fullmatch(one) for pattern in patterns)
    )


def _to_pattern(name: str) -> re.Pattern[str]:
    """Return what a name matches. `*` and variables stand for a part of one segment, `{?…}` for any query or none."""
    parts = re.split(r"(\{[^}]*\}|\*)", name)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [r"(?:\{?[?&].*)?" if part[1:2] in ("?", "&") else "[^/?]*" for part in parts[1::2]]
    return re.compile("".join(parts))


def _below(heading: str, end: str, text: str) -> str:
    found = re.search(rf"^{heading}$\n(.*?)(?=^{end}|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


LONGEST_LIST = 20
MOST_PLACES = 4
MOST_NAMED = 5  # the first change should be on the first screen of a phone
ORDER = list(Kind)


def write_summary(findings: Iterable[Finding], unannounced: list[str], changelog: str) -> str:
    """Return the whole text. `unannounced` are the subjects of breaking changes that the changelog does not name."""
    groups = group_findings(findings)
    if not groups:
        return "No changes for clients.\n"
    parts = ["## Changes for clients", write_verdict(groups, unannounced, changelog)]
    for alike in _join_alike(groups, least=MOST_PLACES):  # fewer have a section each
        subject, *more = alike
        parts.append(f"### {code(subject)}{_and_more(more)}")
        if more:
            parts.append(f"The same in {_name_some(more)}.")
        parts.append("\n".join(_lines([finding for name in alike for finding in groups[name]])))
    return "\n\n".join(parts) + "\n"


def group_findings(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.subject, []).append(finding)
    return dict(sorted(groups.items(), key=lambda group: (ORDER.index(worst(group[1])), group[0])))


def write_verdict(groups: dict[str, list[Finding]], unannounced: list[str], changelog: str) -> str:
    """Return one line: whether a breaking change is not announced, and whether descriptions changed."""
    if unannounced:
        names = _name_some(unannounced)
        return f"**Do not merge yet:** no new entry under `### Breaking` of [Unreleased] in {changelog} names {names}."
    kinds = {finding.change.kind for group in groups.values() for finding in group}
    verdict = f"{changelog} announces all breaking changes." if Kind.BREAKING in kinds else "No breaking changes."
    return verdict + (" Read the changed descriptions." if Kind.DESCRIPTION in kinds else "")


def _name_some(names: list[str]) -> str:
    return ", ".join(map(code, names[:LONGEST_LIST])) + _and_more(names[LONGEST_LIST:])


def _and_more(others: Sized) -> str:
    return f" and {len(others)} more" if others else ""


def worst(group: list[Finding]) -> Kind:
    return min((finding.change.kind for finding in group), key=ORDER.index)


def _lines(group: list[Finding]) -> Iterator[str]:
    """Yield one line per change, for all worlds that have it. Lines beyond the limit are only counted."""
    changes: dict[Change, list[Finding]] = {}
    for finding in group:
        changes.setdefault(finding.change.generalize(), []).append(finding)
    for kind in ORDER:
        lines = [_line(change, seen) for change, seen in changes.items() if change.kind is kind]
        yield from lines[:LONGEST_LIST]
        if len(lines) > LONGEST_LIST:
            yield f"- *{kind}*: … and {len(lines) - LONGEST_LIST} more"


def _line(change: Change, seen: list[Finding]) -> str:
    text = f"- *{change.kind}*: {change.thing} {change.what}"
    values = {finding.change.values for finding in seen}
    if len(values) == 1 and values != {""}:
        text += f": {values.pop()}"
    places = list(dict.fromkeys(finding.where for finding in seen if finding.where))
    if places:
        text += f" ({', '.join(map(code, places[:MOST_PLACES]))}{_and_more(places[MOST_PLACES:])})"
    return text


_TEMPLATE = files("mcp_parity").joinpath("review.html")
_MOST_LINES = 400
_IMAGE = re.compile(r'("bytes": \d+,\s+"image": ")[^"]+(?=",\s+"sha256": ")')


def write_page(
    findings: list[Finding], unannounced: list[str], contracts: list[tuple[str, Contract]], changelog: str
) -> str:
    """Return the whole page: breaking changes first, and a diff for each world."""
    (base, before), (head, after) = contracts
    subjects = {name for one in (before, after) for name in (*one.resources, *one.tools, *(one.prompts or {}))}
    groups = group_findings(findings)
    counts = {kind: sum(worst(group) is kind for group in groups.values()) for kind in Kind}
    counted = [f"{count} {kind}" for kind, count in counts.items() if count] or ["no changes for clients"]
    total = ", ".join([*counted, f"{len(subjects - groups.keys())} unchanged"])
    parts = [
        f"<p><code>{_text(base)}</code> → <code>{_text(head)}</code></p>",
        f'<p class="quiet">Resources, tools and prompts by their most severe change: {total}.</p>',
        _write_banner(unannounced, changelog)
        if unannounced
        else f"<p>{_text(write_verdict(groups, [], changelog))}</p>",
        *(_write_group({name: groups[name] for name in names}, before, after) for names in _join_alike(groups)),
    ]
    return write_document("Changes for clients", parts)


def write_document(title: str, parts: Iterable[str]) -> str:
    """Return a page without scripts."""
    return "\n".join([_TEMPLATE.read_text("utf-8").replace("TITLE", title), *parts, "</html>", ""])


def _write_banner(unannounced: list[str], changelog: str) -> str:
    names = "".join(f"<li><code>{_text(name)}</code></li>" for name in unannounced[:MOST_NAMED])
    if len(unannounced) > MOST_NAMED:
        names += f"<li>… and {len(unannounced) - MOST_NAMED} more</li>"
    return (
        f'<section class="banner"><h2>Breaking changes that are not announced: {len(unannounced)}</h2>'
        f"<p>Name them in a new entry under <code>### Breaking</code> of [Unreleased] in {_text(changelog)}.</p>"
        f"<ul>{names}</ul></section>"
    )


def _join_alike(groups: dict[str, list[Finding]], least: int = 2) -> Iterator[list[str]]:
    """Yield subjects with the same changes together, if they are enough. Values may differ if nobody must read them."""
    merged: dict[object, list[str]] = {}
    for subject, group in groups.items():
        key = frozenset((one.change.generalize(), one.where) for one in group)
        merged.setdefault(key, []).append(subject)
    for names in merged.values():
        yield from [names] if len(names) >= least else ([name] for name in names)


def _write_group(groups: dict[str, list[Finding]], before: Contract, after: Contract) -> str:
    """Return the changes that all subjects of the group have, and the diffs of each."""
    [subject, *more], [group, *_] = groups, groups.values()
    kind = worst(group)
    opened = " open" if kind in TO_READ else ""
    changes: dict[Change, list[str]] = {}
    for finding in sorted(group, key=lambda finding: list(Kind).index(finding.change.kind)):
        change = finding.change.generalize() if more else finding.change
        changes.setdefault(change, []).append(finding.where)
    lines = "".join(_write_line(change, places, kind) for change, places in changes.items())
    first, *others = [_words(change) for change in changes]
    tag = f'<span class="kind {kind}">{kind}</span><code>{_text(subject)}</code>{_and_more(more)}'
    if not opened:
        tag += f' <span class="quiet">{_code(first)}{_and_more(others)}</span>'
    diffs = ["".join(_write_diffs(one, before, after, opened)) for one in groups]
    if more:
        named = zip(groups, diffs, strict=True)
        diffs = [f"<details><summary><code>{_text(one)}</code></summary>{diff}</details>" for one, diff in named]
    return f"<details{opened}><summary>{tag}</summary><ul>{lines}</ul>{''.join(diffs)}</details>"


def _words(change: Change) -> str:
    return f"{change.thing} {change.what}" + (f": {change.values}" if change.values else "")


def _write_line(change: Change, places: list[str], known: Kind) -> str:
    """Return the change as an item of a list, with its kind if it is not that of the whole row."""
    where = ", ".join(dict.fromkeys(place for place in places if place))
    shown = f' <span class="quiet">({_text(where)})</span>' if where else ""
    kind = "" if change.kind is known else f'<span class="{change.kind}">{change.kind}</span>: '
    return f"<li>{kind}{_code(_words(change))}{shown}</li>"


def _code(markdown: str) -> str:
    """Return Markdown with code in backticks as HTML."""
    parts = markdown.split("`")
    return "".join(f"<code>{_text(part)}</code>" if at % 2 else _text(part) for at, part in enumerate(parts))


def _write_diffs(subject: str, before: Contract, after: Contract, opened: str) -> Iterator[str]:
    """Yield a diff for each world in which the answer changed. Worlds with the same diff share it."""
    shared: dict[tuple[str, str], list[str]] = {}
    for world in sorted(before.worlds | after.worlds, key=lambda world: (world != "home", world)):
        was, now = before.answer(subject, world), after.answer(subject, world)
        if not are_equal(was, now):
            shared.setdefault((_to_lines(was), _to_lines(now)), []).append(world)
    lists = {"tools/list": (before.tools, after.tools), "prompts/list": (before.prompts, after.prompts)}
    for label, both in lists.items():
        was, now = ((one or {}).get(subject) for one in both)
        if was is not None and now is not None and not are_equal(was, now):
            shared[_to_lines(was), _to_lines(now)] = [label]
    for (one, other), worlds in shared.items():
        places = f"{'Entry' if worlds[0].endswith('/list') else 'Answer'} in {', '.join(worlds)}"
        yield f"<details{opened}><summary>{_text(places)}</summary>"
        yield from _write_images(_find_images(one), _find_images(other))
        yield f"<pre>{_write_diff(one, other)}</pre></details>"
        opened = ""  # only the first


def _to_lines(golden: Any) -> str:
    return "" if golden is None else json.dumps(golden, indent=2, ensure_ascii=False, sort_keys=True)


def _find_images(text: str) -> list[tuple[str, str]]:
    golden = json.loads(text) if text else {}
    contents = (golden.get("contents") if isinstance(golden, dict) else None) or []
    blobs = ((str(one.get("mime_type")), one.get("blob", {})) for one in contents if isinstance(one, dict))
    return [(mime_type, blob["image"]) for mime_type, blob in blobs if isinstance(blob, dict) and "image" in blob]


def _write_images(was: list[tuple[str, str]], now: list[tuple[str, str]]) -> Iterator[str]:
    if was != now:
        yield '<div class="images">'
        for label, images in (("before", was), ("after", now)):
            for mime_type, image in images:
                source = escape(f"data:{mime_type};base64,{image}")
                yield f'<figure><img alt="{label}" src="{source}"><figcaption>{label}</figcaption></figure>'
        yield "</div>"


def _write_diff(one: str, other: str) -> str:
    was, now = (_IMAGE.sub(r"\1…", text).splitlines() for text in (one, other))
    lines = list(difflib.unified_diff(was, now, lineterm="", n=3))[2:]
    kinds = {"+": "plus", "-": "minus", "@": "at"}
    shown = [f'<span class="{kinds.get(line[:1], "")}">{_text(line)}</span>' for line in lines[:_MOST_LINES]]
    more = [f'<span class="at">… and {len(lines) - _MOST_LINES} more lines</span>'] if len(lines) > _MOST_LINES else []
    return "".join(shown + more)


def _text(value: str) -> str:
    """Return a text as HTML. What cannot be seen is written as an escape."""
    return escape(make_visible(value))
