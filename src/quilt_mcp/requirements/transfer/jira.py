"""Reads CSV files that Jira exports, with a mapping of their columns and values."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TypeVar

from quilt_mcp.requirements.kinds import BY_NAME
from quilt_mcp.requirements.transfer.jira_mapping import IssueKind, JiraMapping
from quilt_mcp.requirements.transfer.lines import Lines, UnreadableFile, describe_cells
from quilt_mcp.requirements.transfer.record_reader import Numbered, Parse, Refused, parse_numbered
from quilt_mcp.requirements.transfer.records import PARENTS, parse_record
from quilt_mcp.requirements.transfer.rejections import Rejection
from quilt_mcp.requirements.transfer.wording import InvalidRecord, Problem, shorten

_IDS = uuid.UUID("8f1d6b52-0b0f-4f0e-8d8a-3a1f5e2c9d10")
"""The namespace of the IDs of issues, which depend only on their keys."""
T = TypeVar("T")


class JiraReader:
    """Reads the records of a file, once: iterate over it. A record that is not valid is `Refused`.

    The file is read twice: first the keys and types of the issues. Iterating raises OSError if it cannot be read.

    Args:
        file: the file.
        mapping: of columns and values.
        skipped: takes how often each column or issue type that is not imported has a value.
        parse: validates the fields of a record.

    Attributes:
        bytes_read: of the file, so far; half of them until the second reading starts.
        may_be_cut: whether the last row has no line break, so that its last cell can be incomplete.
        has_times: whether the file has a column with the times of the last changes; false until its header is read.
    """

    def __init__(
        self, file: BinaryIO, mapping: JiraMapping, skipped: Counter[str], *, parse: Parse = parse_record
    ) -> None:
        self._file = file
        self._mapping = mapping
        self._skipped = skipped
        self._parse = parse
        self._issues = _Issues(mapping)
        self._added: set[str] = set()
        self.bytes_read = 0
        self.may_be_cut = False
        self.has_times = False

    def __iter__(self) -> Iterator[Numbered | Refused]:
        """Read the file."""
        if not self._file.seekable():
            reason = "A file of Jira is read twice, so it cannot be read from a pipe. Save it to a file."
            yield Refused([Rejection(0, None, reason)], None, ends_file=True)
            return
        try:
            for _, row in self._read_rows(0):
                self._issues.add(row)
            self._file.seek(0)
            for line, row in self._read_rows(self.bytes_read):
                yield from self._read_issue(line, row)
        except UnreadableFile as error:
            yield Refused([error.rejection], None, ends_file=True)

    def _read_rows(self, before: int) -> Iterator[tuple[int, "_Row"]]:
        lines = Lines(self._file)
        rows = lines.read_rows()
        _, header = next(rows, (1, []))
        places = _find_columns(header, self._mapping)
        self.has_times = not places.keys().isdisjoint(self._mapping.columns.updated_at)
        for line, cells in rows:
            self.bytes_read = (before * 2 + lines.bytes_read) // 2
            self.may_be_cut = lines.has_open_end
            yield line, _Row(places, header, cells)

    def _read_issue(self, line: int, row: "_Row") -> Iterator[Numbered | Refused]:
        try:
            records = list(self._make_records(row))
        except InvalidRecord as error:
            yield Refused([Rejection(line, *problem) for problem in error.problems], None)
            return
        for fields in records:
            yield self._name_fields(parse_numbered(line, fields, self._parse))
        used = self._issues.used_columns
        for name, cell in zip(row.header, row.cells, strict=True):
            if cell and name not in used:
                self._skipped[f"column {shorten(name)}"] += 1

    def _make_records(self, row: "_Row") -> Iterator[dict[str, object]]:
        """Yield the record of an issue, after the records that it needs, and before its relationships."""
        columns, mapping = self._mapping.columns, self._mapping
        if len(row.cells) != len(row.header):
            raise InvalidRecord([Problem(None, describe_cells(row.cells, row.header, is_cut=self.may_be_cut))])
        key, issue_type = row.get(columns.key), row.get(columns.type)
        if not key:
            raise InvalidRecord([Problem(columns.key[0], "Missing. Add the key of the issue.")])
        kind = _look_up(mapping.types, issue_type, columns.type[0], "types")
        if kind == "skip":
            self._skipped[f"issues of the type {shorten(issue_type)}"] += 1
            return
        fields: dict[str, object] = {"kind": kind, "id": make_issue_id(key)}
        text = self._describe(row)
        if kind == "acceptance_criteria":
            fields["description"] = "\n\n".join(one for one in (row.get(columns.title), text) if one) or None
        else:
            fields |= {"title": row.get(columns.title) or None}
            if text or not {*columns.description, *mapping.attributes}.isdisjoint(row.header):
                fields["description"] = text or None
            fields |= self._read_planned(row, kind)
        author = self._find_user(row, columns.creator)
        fields |= self._read_times(row) | {BY_NAME[kind].author_column: author}
        if kind == "epic":
            fields["project_id"] = mapping.project
        else:
            yield from self._set_parent(fields, row, kind, author)
        yield fields
        for link in self._list_links(row, kind, key):
            yield {**link, "created_by": author}

    def _describe(self, row: "_Row") -> str:
        attributes = [(name, ", ".join(row.list(name))) for name in self._mapping.attributes]
        lines = "\n".join(f"{name}: {value}" for name, value in attributes if value)
        return "\n\n".join(one for one in (row.get(self._mapping.columns.description), lines) if one)

    def _read_planned(self, row: "_Row", kind: IssueKind) -> dict[str, object]:
        columns, mapping = self._mapping.columns, self._mapping
        fields: dict[str, object] = {}
        if status := row.get(columns.status):
            statuses = mapping.statuses.model_dump()[kind]
            fields["status"] = _look_up(statuses, status, columns.status[0], f"statuses.{kind}")
        if priority := row.get(columns.priority):
            fields["priority"] = _look_up(mapping.priorities, priority, columns.priority[0], "priorities")
        fields["assignee_id"] = self._find_user(row, columns.assignee)
        return fields

    def _find_user(self, row: "_Row", names: Sequence[str]) -> str | None:
        user = row.get(names)
        return self._mapping.users.get(user, user) or None

    def _read_times(self, row: "_Row") -> dict[str, object]:
        fields: dict[str, object] = {}
        for field in ("created_at", "updated_at"):
            names: list[str] = getattr(self._mapping.columns, field)
            if text := row.get(names):
                fields[field] = self._mapping.parse_time(text)
                if fields[field] is None:
                    reason = f"{shorten(text)!r} is not a time in a known format. Set time_format in the mapping."
                    raise InvalidRecord([Problem(names[0], reason)])
        return fields

    def _set_parent(
        self, fields: dict[str, object], row: "_Row", kind: IssueKind, author: str | None
    ) -> Iterator[dict[str, object]]:
        names = self._mapping.columns.parent
        wanted = str(BY_NAME[kind].parent)
        given = row.get(names)
        if given:
            parent = self._issues.find(given)
            if parent is None:
                reason = f"The file has no issue {shorten(given)!r}. Export it too, or remove the value."
                raise InvalidRecord([Problem(row.find(names), reason)])
            if self._issues.kinds[parent] != wanted:
                reason = (
                    f"{shorten(parent)} is of the kind {self._issues.kinds[parent]}, but the parent of the kind {kind} "
                    f"must be of the kind {wanted}. Change [types] in the mapping, or the parent."
                )
                raise InvalidRecord([Problem(row.find(names), reason)])
            fields[PARENTS[kind]] = make_issue_id(parent)
            return
        for parent_kind in ("epic", "user_story")[: 1 if wanted == "epic" else 2]:
            for added in self._add_default(parent_kind, names[0]):
                yield {**added, "creator_id": author}
        fields[PARENTS[kind]] = _make_default_id(wanted, self._mapping.project)

    def _add_default(self, kind: str, column: str) -> Iterator[dict[str, object]]:
        title: str | None = getattr(self._mapping.defaults, kind)
        if title is None:
            reason = f"Missing. Add the parent, or set defaults.{kind} in the mapping."
            raise InvalidRecord([Problem(column, reason)])
        if kind not in self._added:
            self._added.add(kind)
            project = self._mapping.project
            parent = {"project_id": project} if kind == "epic" else {"epic_id": _make_default_id("epic", project)}
            yield {"kind": kind, "id": _make_default_id(kind, project), "title": title, **parent}

    def _list_links(self, row: "_Row", kind: IssueKind, key: str) -> Iterator[dict[str, object]]:
        added: set[tuple[str, str]] = set()
        for column, name in self._mapping.links.items():
            for linked in row.list(column):
                other = self._issues.find(linked)
                if kind != "requirement" or other is None or self._issues.kinds[other] != "requirement":
                    self._skipped[f"links {column} that are not between two requirements of the file"] += 1
                elif (name, other) in added:
                    self._skipped[f"links {column} that are repeated"] += 1
                else:
                    added.add((name, other))
                    yield {
                        "kind": "relationship",
                        "id": str(uuid.uuid5(_IDS, f"{key}\n{name}\n{other}")),
                        "source_requirement_id": make_issue_id(key),
                        "target_requirement_id": make_issue_id(other),
                        "relationship_type_id": name,
                    }

    def name_field(self, field: str) -> str:
        """Return what the file or the mapping calls a field of a record."""
        return self._mapping.name_field(field)

    def _name_fields(self, one: Numbered | Refused) -> Numbered | Refused:
        if isinstance(one, Numbered):
            return one
        rejections = [each._replace(field=each.field and self.name_field(each.field)) for each in one.rejections]
        return one._replace(rejections=rejections)


class _Row:
    """The cells of an issue."""

    def __init__(self, places: dict[str, list[int]], header: list[str], cells: list[str]) -> None:
        self._places = places
        self.header = header
        self.cells = cells

    def list(self, name: str) -> Sequence[str]:
        """Return the values of a column that can be repeated."""
        return [self.cells[place].strip() for place in self._places.get(name, ()) if self.cells[place].strip()]

    def find(self, names: Sequence[str]) -> str | None:
        """Return the first of these columns that has a value."""
        return next((name for name in names if self.list(name)), None)

    def get(self, names: Sequence[str]) -> str:
        """Return the first value of these columns; empty if there is none."""
        return next((value for name in names for value in self.list(name)), "")


class _Issues:
    """The keys and kinds of all issues of a file."""

    def __init__(self, mapping: JiraMapping) -> None:
        self._mapping = mapping
        self._keys: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        of_fields = (name for names in mapping.columns.model_dump().values() for name in names)
        self.used_columns = {*of_fields, *mapping.links, *mapping.attributes}

    def add(self, row: _Row) -> None:
        """Add an issue."""
        columns = self._mapping.columns
        if len(row.cells) != len(row.header):
            return
        if key := row.get(columns.key):
            self.kinds[key] = self._mapping.types.get(row.get(columns.type), "unknown")
            self._keys[row.get(columns.id)] = key

    def find(self, text: str) -> str | None:
        """Return the key of the issue with this key or number."""
        return text if text in self.kinds else self._keys.get(text)


def make_issue_id(key: str) -> str:
    """Return the ID of the record of an issue. It is the same in every import."""
    return str(uuid.uuid5(_IDS, key))


def _make_default_id(kind: str, project: str | None) -> str:
    """Return the ID of a default parent. Each project has its own: an import must not move those of another one."""
    return str(uuid.uuid5(_IDS, f"default {kind}" if project is None else f"default {kind}\n{project}"))


def _find_columns(header: list[str], mapping: JiraMapping) -> dict[str, list[int]]:
    """Return the places of each column. Jira repeats columns that have several values."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(header):
        places.setdefault(name.strip(), []).append(place)
    columns = mapping.columns
    for field, names in (("key", columns.key), ("type", columns.type), ("title", columns.title)):
        if not any(name in places for name in names):
            wanted = " or ".join(names)
            raise UnreadableFile(1, f"The column {wanted} is missing. Add it, or set columns.{field} in the mapping.")
    for name in (*mapping.links, *mapping.attributes):
        if name not in places:
            raise UnreadableFile(1, f"The column {name} of the mapping is missing. Add it, or remove it there.")
    return places


def _look_up(known: dict[str, T], value: str, column: str, setting: str) -> T:
    if value in known:
        return known[value]
    allowed = ", ".join(map(shorten, list(known)[:10])) or "none"
    reason = f"{shorten(value)!r} is not in [{setting}] of the mapping, which has {allowed}. Add it there."
    raise InvalidRecord([Problem(column, reason)])
