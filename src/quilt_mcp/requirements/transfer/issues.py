"""Reads CSV files of Jira (Cloud and Data Center), Azure DevOps, projects of GitHub, and documents of Doorstop.

The file is read twice: first the hierarchy of its issues, which can have any order, then the issues. An issue without a
parent of the kind that it needs gets one that says so.
"""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import ACCEPTANCE_CRITERIA, EPIC, PRIORITIES, REQUIREMENT, USER_STORY
from quilt_mcp.requirements.transfer.files import (
    Numbered,
    Parse,
    RecordReader,
    Refused,
    UnreadableFile,
    describe_cells,
    parse_numbered,
)
from quilt_mcp.requirements.transfer.records import Rejection, parse_record, shorten
from quilt_mcp.requirements.transfer.sources import Chosen, Memory

_CHILD_OF, _DERIVES_FROM = "child_of", "derives_from"
_LEVELS = tuple(f"title {level}" for level in range(1, 20))
"""The columns of a tree of Azure DevOps: the title of an item is in that of its level."""


@dataclass(frozen=True)
class Tracker:
    """A program whose files are recognised.

    Attributes:
        name: its name in messages.
        scheme: the start of what IDs are computed from.
        marks: columns that only its files have.
        key: the column that tells issues apart.
        columns: the columns of a field, the first one with a value first.
    """

    name: str
    scheme: str
    marks: frozenset[str]
    key: str
    columns: Mapping[str, tuple[str, ...]]


TRACKERS = (
    Tracker(
        "Jira",
        "jira",
        frozenset({"issue key", "summary"}),
        "issue key",
        {
            "other": ("issue id",),
            "type": ("issue type",),
            "parent": (
                "parent key", "parent", "parent id", "custom field (epic link)", "epic link",
                "custom field (parent link)",
            ),
            "title": ("summary",),
            "text": ("description",),
            "status": ("status",),
            "priority": ("priority",),
            "assignee": ("assignee",),
        },
    ),
    Tracker(
        "Azure DevOps",
        "azure-devops",
        frozenset({"id", "work item type"}),
        "id",
        {
            "type": ("work item type",),
            "parent": ("parent",),
            "title": ("title", *_LEVELS),
            "text": ("description",),
            "status": ("state",),
            "priority": ("priority",),
            "assignee": ("assigned to",),
        },
    ),
    Tracker(
        "GitHub",
        "github",
        frozenset({"title", "url"}),
        "url",
        {
            "type": ("type", "issue type"),
            "parent": ("parent issue", "parent"),
            "title": ("title",),
            "text": ("body",),
            "status": ("status", "state"),
            "priority": ("priority",),
            "assignee": ("assignees", "assignee"),
        },
    ),
    Tracker(
        "Doorstop",
        "doorstop",
        frozenset({"uid", "level", "normative"}),
        "uid",
        {
            "type": ("type",),
            "parent": ("parent",),
            "title": ("header", "text"),
            "text": ("text",),
            "status": ("status",),
            "links": ("links",),
            "used": ("level", "normative", "active"),
        },
    ),
)  # fmt: skip
_KINDS = {
    **dict.fromkeys(("initiative", "epic", "feature"), EPIC),
    **dict.fromkeys(("heading", "story", "user story", "product backlog item", "backlog item"), USER_STORY),
    **dict.fromkeys(("sub-task", "subtask"), ACCEPTANCE_CRITERIA),
}
"""The kinds of the types of issues. All others are requirements."""
_STATUSES = (
    ("Backlog", "to do|todo|open|new|proposed|backlog|selected for development|ready|triage|approved"),
    ("In Progress", "in progress|in review|review|doing|active|committed|in development|testing|in testing|blocked"),
    ("Done", "done|closed|resolved|released|complete|completed|fixed|verified|merged"),
    ("Cancelled", "cancelled|canceled|won't do|won't fix|rejected|duplicate|removed|declined|obsolete"),
)  # fmt: skip
_BY_WORD = {word: status for status, words in _STATUSES for word in words.split("|")}
_OF_REQUIREMENTS = {"Backlog": "Draft", "In Progress": "Draft", "Done": "Active", "Cancelled": "Obsolete"}
_PRIORITIES = {
    **PRIORITIES,
    **{str(number): number for number in PRIORITIES.values()},
    "blocker": 1,
    "highest": 1,
    "urgent": 1,
    "major": 2,
    "normal": 3,
    "minor": 4,
    "lowest": 4,
    "trivial": 4,
    **{f"p{number}": max(number, 1) for number in range(5)},
}


def _note_heading(values: dict[str, str], headings: dict[tuple[str, ...], str]) -> None:
    """Note the type, the parent and the status of an item of Doorstop: its level says where it is.

    Level 1.2.0 of an item that is not normative is the heading of the items 1.2.1, 1.2.2 and so on.
    """
    level, is_normative = values.get("level", "").split("."), values.get("normative", "").casefold() != "false"
    is_heading = level[-1] == "0" and not is_normative
    place = tuple(level[:-1] if level[-1] == "0" else level)
    above = [place[:length] for length in range(len(place) - 1, 0, -1) if place[:length] in headings]
    if above:
        values.setdefault("parent", headings[above[0]])
    if is_heading and "uid" in values:
        headings[place] = values["uid"]
    values["type"] = "heading" if is_heading else "requirement"
    if values.get("active", "").casefold() == "false":
        values["status"] = "obsolete"


class _Issue(NamedTuple):
    kind: model.Kind
    parent: str
    title: str


def find_tracker(file: BinaryIO) -> Tracker | None:
    """Return the program that wrote a CSV file, by the columns in its first line. The file is at its start again."""
    if not file.seekable():
        return None
    try:
        _, header = next(RecordReader(file, "csv").read_rows(), (1, []))
    except UnreadableFile:  # which its reader says too
        header = []
    file.seek(0)
    found = {column.strip().casefold() for column in header}
    # a file with our own columns can have others, such as a URL
    return next((one for one in TRACKERS if one.marks <= found and "kind" not in found), None)


class IssueReader:
    """Reads the records of a file, once: iterate over it. See `RecordReader`."""

    def __init__(
        self,
        file: BinaryIO,
        tracker: Tracker,
        skipped: Counter[str],
        *,
        parse: Parse = parse_record,
        given: Mapping[str, str] | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._file, self._tracker, self._skipped, self._parse = file, tracker, skipped, parse
        self._memory = memory or Memory()
        own = {name: (column.strip().casefold(),) for name, column in (given or {}).items()}
        self._columns = {**tracker.columns, **own}
        self._given = own
        self._rows = RecordReader(file, "csv")
        self._issues: dict[str, _Issue] = {}
        self._others: dict[str, str] = {}  # the keys of issues, by their other names
        self._made: set[str] = set()
        self.source, self.mapping, self.mapped = tracker.scheme, Chosen(), ()

    @property
    def bytes_read(self) -> int:
        return self._rows.bytes_read

    @property
    def may_be_cut(self) -> bool:
        return self._rows.may_be_cut

    @property
    def encoding(self) -> str | None:
        return self._rows.encoding

    def __iter__(self) -> Iterator[Numbered | Refused]:
        self._memory.recall(self.source)
        try:
            for _, values in self._read_rows():
                if isinstance(values, dict):
                    self._note(values)
            self._file.seek(0)
            self._rows = RecordReader(self._file, "csv")
            for line, values in self._read_rows():
                yield from self._read_issue(line, values) if isinstance(values, dict) else [values]
        except UnreadableFile as end:
            yield Refused([end.rejection], None, ends_file=True)

    def _read_rows(self) -> Iterator[tuple[int, dict[str, str] | Refused]]:
        """Yield the line and the values of each issue, by column in lower case. Repeated columns have one value."""
        rows, path, headings = self._rows.read_rows(), list[str](), dict[tuple[str, ...], str]()
        line, header = next(rows)
        names = [column.strip().casefold() for column in header]
        if missing := [one for [one] in self._given.values() if one not in names]:
            raise UnreadableFile(
                line, f"The file has no column {shorten(missing[0])!r}, which --map names. Correct it."
            )
        for number, cells in rows:
            if len(cells) != len(header):
                reason = describe_cells(cells, header, is_cut=self.may_be_cut)
                yield number, Refused([Rejection(number, None, reason)], None)
                continue
            values: dict[str, str] = {}
            for name, cell in zip(names, cells, strict=True):
                if cell.strip():
                    values[name] = f"{values[name]}, {cell.strip()}" if name in values else cell.strip()
            self._note_level(values, path)
            if self._tracker.scheme == "doorstop":
                _note_heading(values, headings)
            yield number, values

    def _note_level(self, values: dict[str, str], path: list[str]) -> None:
        """Note the parent of an item that is only in the columns of a tree."""
        level = next((place for place, name in enumerate(_LEVELS) if name in values), None)
        if level is not None and self._tracker.key in values:
            del path[level:]
            if path:
                values.setdefault("parent", path[-1])
            path.append(values[self._tracker.key])

    def _get(self, values: Mapping[str, str], name: str) -> str:
        return next((values[one] for one in self._columns.get(name, ()) if values.get(one)), "")

    def _note(self, values: Mapping[str, str]) -> None:
        key = values.get(self._tracker.key, "")
        kind = _KINDS.get(self._get(values, "type").casefold(), REQUIREMENT)
        title = self._get(values, "title")[: model.TITLE_LENGTH]
        self._issues.setdefault(key, _Issue(kind, self._get(values, "parent"), title))
        for other in (self._get(values, "other"), title if self._tracker.key == "url" else ""):
            if other:
                self._others.setdefault(other, key)

    def _read_issue(self, line: int, values: Mapping[str, str]) -> Iterator[Numbered | Refused]:
        key, title = values.get(self._tracker.key, ""), self._get(values, "title")
        if not key or not title:
            column = self._tracker.key if not key else self._columns["title"][0]
            reason = f"{self._tracker.name} issue {shorten(key)!r} has no value here. Add it, or remove the row."
            yield Refused([Rejection(line, column, reason)], None)
            return
        kind, above = self._find_kind(key), self._find_parent(key)
        fields: dict[str, object] = {"kind": kind.name, "id": self._make_id(key)}
        lines = [f"{self._tracker.name}: {key}", *self._read_plan(kind, values, fields)]
        if self._issues[key].parent and (not above or kind is EPIC):
            lines.append(f"Parent: {self._issues[key].parent}")
            if not above:
                self._skipped["parent that the file does not have; it is a line of the description"] += 1
        if kind.parent:
            yield from self._place(line, kind, key, fields)
        self._count_columns(values)
        body = self._get(values, "text")
        text = "\n\n".join(one for one in (body if body != title else "", "\n".join(lines)) if one)
        if kind is ACCEPTANCE_CRITERIA:
            fields["description"] = f"{title}\n\n{text}"
        else:
            first = title.split("\n", 1)[0]
            is_long = len(first) > model.TITLE_LENGTH
            fields["title"] = f"{first[: model.TITLE_LENGTH - 1]}…" if is_long else first
            fields["description"] = f"{title}\n\n{text}" if is_long or first != title else text
        yield parse_numbered(line, fields, self._parse)
        if kind is REQUIREMENT and above and self._find_kind(above) is REQUIREMENT:
            yield from self._relate(line, key, above, _CHILD_OF)
        for target in self._get(values, "links").split():
            if kind is REQUIREMENT and target in self._issues and self._find_kind(target) is REQUIREMENT:
                yield from self._relate(line, key, target, _DERIVES_FROM)
            else:
                self._skipped["link to something that the file does not have, or of a heading"] += 1

    def _read_plan(self, kind: model.Kind, values: Mapping[str, str], fields: dict[str, object]) -> Iterator[str]:
        """Set the planned fields. Yield a line for each value that means none of ours."""
        found = {name: self._get(values, name) for name in ("status", "priority", "assignee")}
        if not kind.statuses:
            yield from (f"{name.title()}: {value}" for name, value in found.items() if value)
            return
        own = {one.casefold(): one for one in kind.statuses}
        word = found["status"].casefold()
        by_word = _BY_WORD.get(word, "")
        status = own.get(word) or (_OF_REQUIREMENTS.get(by_word) if kind is REQUIREMENT else by_word)
        priority = found["priority"].casefold()
        plan = {
            "status": status or None,
            "priority": _PRIORITIES.get(priority) or _PRIORITIES.get(priority.partition(" - ")[0]),
            "assignee_id": self._memory.users.get(found["assignee"].casefold()),
        }
        fields |= {name: value for name, value in plan.items() if value}
        for name, value in found.items():
            if value and not plan[f"{name}_id" if name == "assignee" else name]:
                yield f"{name.title()}: {value}"
                self._skipped[f"{name} {shorten(value)}; it is a line of the description"] += 1

    def _find_kind(self, key: str) -> model.Kind:
        """Return the kind of an issue. A part of something that is no user story is a requirement."""
        kind, above = self._issues[key].kind, self._find_parent(key)
        is_part = kind is ACCEPTANCE_CRITERIA and not (above and self._issues[above].kind is USER_STORY)
        return REQUIREMENT if is_part else kind

    def _find_parent(self, key: str) -> str:
        """Return the key of the parent; empty if the file does not have it."""
        named = self._issues[key].parent if key in self._issues else ""
        found = self._others.get(named, named)
        return found if found in self._issues and found != key else ""

    def _place(self, line: int, kind: model.Kind, key: str, fields: dict[str, object]) -> Iterator[Numbered | Refused]:
        """Set the parent of an issue: the next one above of the kind that it needs, or one that is made."""
        above: dict[str, _Issue] = {}
        place = self._find_parent(key)
        while place and place not in above:
            above[place] = self._issues[place]
            place = self._find_parent(place)
        kinds = {self._issues[one].kind: one for one in reversed(above)}
        epic = kinds.get(EPIC)
        epic_id = self._make_id(epic) if epic else self._make_id("no epic")
        if not epic and (kind is USER_STORY or USER_STORY not in kinds):
            yield from self._make(line, EPIC, epic_id, f"{self._tracker.name} issues without an epic", {})
        if kind is USER_STORY:
            fields["epic_id"] = epic_id
        elif story := kinds.get(USER_STORY):
            fields["user_story_id"] = self._make_id(story)
        else:
            fields["user_story_id"] = self._make_id(f"{epic or 'no epic'} no story")
            title = f"Issues of {self._issues[epic].title}" if epic else "Issues without a story"
            parent = {"epic_id": epic_id}
            yield from self._make(line, USER_STORY, str(fields["user_story_id"]), title, parent)

    def _make(
        self, line: int, kind: model.Kind, row_id: str, title: str, more: dict[str, str]
    ) -> Iterator[Numbered | Refused]:
        if row_id not in self._made:
            self._made.add(row_id)
            fields = {"kind": kind.name, "id": row_id, "title": title[: model.TITLE_LENGTH], **more}
            yield parse_numbered(line, fields, self._parse)

    def _relate(self, line: int, key: str, above: str, name: str) -> Iterator[Numbered | Refused]:
        if name == _CHILD_OF and name not in self._made:
            self._made.add(_CHILD_OF)
            yield parse_numbered(line, {"kind": "relationship_type", "name": _CHILD_OF}, self._parse)
        ends = {"source_requirement_id": self._make_id(key), "target_requirement_id": self._make_id(above)}
        identifier = f"{key} {name}" if name == _CHILD_OF else f"{key} {name} {above}"
        fields = {"kind": "relationship", "id": self._make_id(identifier), **ends, "relationship_type_id": name}
        yield parse_numbered(line, fields, self._parse)

    def _make_id(self, key: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._tracker.scheme}:{key}"))

    def _count_columns(self, values: Mapping[str, str]) -> None:
        used = {self._tracker.key, *(one for names in self._columns.values() for one in names)}
        for name in values.keys() - used:
            self._skipped[f"column {shorten(name)}"] += 1
