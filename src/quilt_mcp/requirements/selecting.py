"""The SQL of filtered and sorted pages.

A page is read in two steps in one statement: the IDs, for which an index has all that most filters and orders need, and
the rows with these IDs.

- In the order of the positions, the index of one filter, the lead, is read once for each of its values, and these are
  merged.
- In another order, the index of that order is read. If few rows match, all of them are found by the lead, and sorted.

PostgreSQL chooses the indexes by its statistics. SQLite has none, so the other indexes are hidden from it.
"""

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import (
    Column,
    ColumnElement,
    Table,
    and_,
    exists,
    false,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import Page
from quilt_mcp.core.cuts import fit
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.answers import Entities
from quilt_mcp.requirements.conditions import SORTED_LENGTH, Conditions, Selection, match_any, restrict, sort_columns
from quilt_mcp.requirements.model import EPIC, FINAL_STATUSES, KINDS, PRIORITIES, Kind
from quilt_mcp.requirements.parameters import ME, NOBODY, Filters, Sort, SortKey, can_name, is_id, refuse_value
from quilt_mcp.requirements.reads import Reader, restrict_projects
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyColumn,
    Statement,
    project_members,
    projects,
    requirement_types,
    users,
)

_MOST_NAMES = 1000
"""Maximum number of names among which an error looks for a similar one."""


class FilterNames:
    """Finds for one caller what the values of filters name."""

    def __init__(self, reader: Reader, username: str | None) -> None:
        self._reader = reader
        self._username = username
        self._dialect = reader.dialect

    def resolve(self, filters: Filters, kinds: Sequence[Kind] = KINDS) -> Selection:
        """Replace the names in filters with IDs, for a list of entities of these kinds."""
        self._check_statuses(filters.status, kinds)
        return Selection(
            status=filters.status,
            priority=filters.priority,
            assignee_ids=self._find_users(filters.assignee),
            includes_unassigned=NOBODY in filters.assignee,
            type_ids=self._find_types(filters.type),
            project_ids=self._find_projects(filters.project),
            updated_since=filters.updated_since,
            created_since=filters.created_since,
            kinds=tuple(kind.name for kind in filters.kind),
            epic_id=filters.epic and self._reader.find_id(EPIC, filters.epic),
            sort=filters.sort,
        )

    def list_values(self, parameter: str, kinds: Sequence[Kind], prefix: str, limit: int) -> list[str]:
        """List the first values that a parameter can have, and that start with a prefix."""
        if parameter == "status":
            return [one for one in self._list_statuses(kinds) if one.startswith(prefix)]
        if parameter == "type":
            return self._list_names(requirement_types.c.name, [], prefix, limit)
        if parameter == "project":
            visible = restrict_projects(self._reader)
            return [] if self._reader.is_existing else self._list_names(projects.c.name, visible, prefix, limit)
        reserved = [one for one in self._reserved if one.startswith(prefix)]
        if not self._reader.has_users:
            return reserved
        visible = [*self._select_colleagues(), users.c.username.not_in([ME, NOBODY])]
        return reserved + self._list_names(users.c.username, visible, prefix, limit)

    @property
    def _reserved(self) -> list[str]:
        return [*([ME] if self._username and self._reader.has_users else []), NOBODY]

    def _list_statuses(self, kinds: Iterable[Kind]) -> list[str]:
        kinds = [kind for kind in kinds if kind.statuses]
        found = dict.fromkeys(status for kind in kinds for status in kind.statuses)
        for kind in kinds if self._reader.is_existing else ():
            status = BY_KIND[kind.name].c.status
            rows = self._reader.execute(select(status).distinct().limit(_MOST_NAMES))
            found |= dict.fromkeys(sorted(row.status for row in rows))
        return list(found)

    def _list_names(self, name: Column[str], visible: Conditions, prefix: str, limit: int) -> list[str]:
        # not LIKE and not the default order, in which the two databases differ
        starts = [func.substr(name, 1, len(prefix)) == prefix] if prefix else []
        order = name.collate("C" if self._dialect == "postgresql" else "BINARY")
        statement = select(name.label("name")).where(*starts, *visible).order_by(order).limit(limit)
        return [row.name for row in self._reader.execute(statement)]

    def _check_statuses(self, values: Sequence[str], kinds: Sequence[Kind]) -> None:
        known = {status for kind in kinds for status in kind.statuses}
        for value in values:
            if value not in known and not (self._reader.is_existing and self._occurs(value, kinds)):
                raise refuse_status(value, self._list_statuses(kinds))

    def _find_users(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the IDs of users. `none` has no ID."""
        wanted = {value for value in values if value != NOBODY}
        if not wanted:
            return ()
        if not self._reader.has_users:
            return self._require_ids(wanted)
        others = self._find("assignee", wanted - {ME}, users.c.username, self._select_colleagues(), self._reserved)
        return tuple(sorted({*others, self._find_own_id()} if ME in wanted else others))

    def _find_own_id(self) -> str:
        """Return the ID of the caller. The username can look like the ID of another user, so it is not a name here."""
        own = select(users.c.id).where(users.c.username == self._username)
        rows = self._reader.execute(own) if self._username is not None else []
        if not rows:
            raise InvalidTemplateVariable(
                "`assignee` cannot be `me`: you are not a user of the requirements database.",
                suggested_actions=[
                    "Use a username or the ID of a user.",
                    "The setting QUILT_MCP_REQUIREMENTS_USER names the user of local callers.",
                ],
            )
        return str(rows[0].id)

    def _find_types(self, values: Sequence[str]) -> tuple[str, ...]:
        more = "Read requirements://requirements-types for all types."
        return self._find("type", values, requirement_types.c.name, [], more=more)

    def _find_projects(self, values: Sequence[str]) -> tuple[str, ...]:
        if values and self._reader.is_existing:
            raise InvalidTemplateVariable(
                "`project` is not allowed: a database of the earlier requirements system has no projects.",
                suggested_actions=["Omit `project`."],
            )
        more = "Read requirements://projects for your projects."
        return self._find("project", values, projects.c.name, restrict_projects(self._reader), more=more)

    def _find(  # noqa: PLR0917 - three callers, all above
        self,
        parameter: str,
        values: Iterable[str],
        name: Column[str],
        visible: Conditions,
        reserved: Sequence[str] = (),
        more: str | None = None,
    ) -> tuple[str, ...]:
        """Return the IDs of the rows with these names or IDs, sorted."""
        values = sorted(values)
        if not values:
            return ()
        table: Table = name.table
        ids = [value for value in values if is_id(value)]
        matches = or_(match_any(table.c.id, ids, self._dialect), name.in_(values))
        rows = self._reader.execute(select(table.c.id, name.label("name")).where(matches, *visible))
        # a name can look like the ID of another row: the ID comes first
        known = {row.name: row.id for row in rows} | {row.id: row.id for row in rows}
        for value in values:
            if value not in known:
                names = self._list_names(name, visible, "", _MOST_NAMES)
                if not all(map(can_name, names)):
                    more = f"Use the ID for a name with a comma, or with spaces around it. {more or ''}".rstrip()
                raise refuse_value(parameter, value, [*reserved, *filter(can_name, names)], more=more)
        return tuple(sorted({known[value] for value in values}))

    def _select_colleagues(self) -> Conditions:
        """Return the conditions that select the users that the caller may see.

        These are the caller, the members of the caller's projects, and the assignees in these projects.
        """
        scope = self._reader.scope
        if scope.projects is None:
            return []
        of_projects = match_any(project_members.c.project_id, scope.projects, self._dialect)
        known: list[ColumnElement[bool]] = [
            users.c.username == self._username,
            users.c.id.in_(select(project_members.c.user_id).where(of_projects)),
        ]
        for kind in KINDS:
            if kind.statuses:
                table = BY_KIND[kind.name]
                is_assigned = table.c.assignee_id == users.c.id
                known.append(exists().where(is_assigned, *restrict(table.c.project_id, scope, self._dialect)))
        return [or_(*known)]

    def _occurs(self, status: str, kinds: Iterable[Kind]) -> bool:
        tables = (BY_KIND[kind.name] for kind in kinds if kind.statuses)
        return any(self._reader.execute(select(one.c.id).where(one.c.status == status).limit(1)) for one in tables)

    @staticmethod
    def _require_ids(values: Iterable[str]) -> tuple[str, ...]:
        if all(map(is_id, values)):
            return tuple(sorted(values))
        raise InvalidTemplateVariable(
            "`assignee` must be the ID of a user, because the database user cannot read the table `users`.",
            suggested_actions=["Use an `assignee_id`.", "Grant the database user SELECT on `users`."],
        )


def refuse_status(value: str, allowed: Sequence[str]) -> InvalidTemplateVariable:
    """Return the failure for a status that no entity can have. `open` and `closed` mean several of the statuses."""
    refused = refuse_value("status", value, allowed)
    if value.casefold() in {"open", "closed"}:
        is_final = value.casefold() == "closed"
        meant = ",".join(one for one in allowed if (one in FINAL_STATUSES) == is_final)
        refused.suggested_actions = [f"Did you mean {meant}?", *refused.suggested_actions]
    return refused


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The numbers, as measured for both databases.

    Attributes:
        few_rows: up to this number of rows of a list, all of them are found and sorted.
        most_values: the maximum number of values of a filter for which each value has its own query.
        most_projects: the maximum number of a caller's projects that a search looks up in the index. With more, both
            databases are faster when they compare the project of each match.
    """

    few_rows: int = 5000
    most_values: int = 20
    most_projects: int = 32


DEFAULT = Thresholds()


Value = str | int | float | datetime | None
"""A sort key of a row. A time is null only in a database of the earlier requirements system."""


class Mark(NamedTuple):
    """The last row before a page.

    Attributes:
        row_id: its ID.
        value: its sort key, by default its position; None if the row has none.
        total: the number of rows of all pages, as of the first page.
        position: its position, if that follows the sort key in the order.
    """

    row_id: str
    value: Value
    total: int
    position: float | None = None


def encode_mark(mark: Mark, tag: str) -> str:
    position = [] if mark.position is None else [mark.position]
    return cursors.encode_values([UUID(mark.row_id).bytes, mark.total, mark.value, *position], tag)


def decode_mark(cursor: str | None, key: SortKey | None, tag: str) -> Mark | None:
    """Return the last row before a page of a list that is sorted by a key; None for the first page."""
    if cursor is None:
        return None
    last = [float] if key in _WITH_POSITION else []
    row_id, total, value, *position = cursors.decode_values(cursor, tag, [bytes, int, _TYPES[key], *last])
    is_text = isinstance(value, str)
    # every text must be as long as the indexes have it, and every integer column can be compared with four digits
    is_valid = (
        (len(value) <= SORTED_LENGTH and "\0" not in value) if is_text else key != "priority" or value < _TOO_LARGE
    )
    if len(row_id) != len(UUID(int=0).bytes) or not is_valid:
        raise cursors.make_invalid()
    return Mark(str(UUID(bytes=row_id)), value, total, *position)


_TOO_LARGE = 10_000
_TYPES: Mapping[SortKey | None, type] = {
    None: float,
    "reference_id": str,
    "title": str,
    "priority": int,
    "created_at": datetime,
    "updated_at": datetime,
}


_WITH_POSITION = {"priority"}
"""The sort keys that many entities share, so that their positions follow."""

A = TypeVar("A")

_LEADS = {
    "assignee_id": "assignee_ids",
    "project_id": "project_ids",
    "type_id": "type_ids",
    "status": "status",
    "priority": "priority",
}
"""The columns with an index, the most selective first, and their values in a selection."""


class SelectedPages(Generic[A]):
    """The pages of one filtered or sorted list."""

    def __init__(
        self,
        reader: Reader,
        collection: Entities[A],
        selection: Selection,
        *,
        parent: str | None = None,
        thresholds: Thresholds = DEFAULT,
    ) -> None:
        self._reader = reader
        self._collection = collection
        self._dialect = reader.dialect
        self._table = BY_KIND[collection.kind.name]
        self._parent = parent
        self._thresholds = thresholds
        self._is_plain = selection == Selection()
        self._selection = self._include_scope(selection)
        # rows that changed since a time are rarely near the start of another order
        since: SortKey | None = (
            "updated_at" if selection.updated_since else "created_at" if selection.created_since else None
        )
        self._sort = selection.sort or (Sort(since) if since else None)
        self._is_descending = self._sort is not None and self._sort.descending
        own = sort_columns(collection.kind, self._sort.key, self._dialect) if self._sort else []
        self._has_position = self._sort is None or (self._sort.key in _WITH_POSITION and bool(own))
        self._keys = [*own, *([reader.place_of(self._table)] if self._has_position else [])]

    @property
    def sort_key(self) -> SortKey | None:
        """The key by which the list is sorted; None for the default order, that of the positions."""
        return self._sort and self._sort.key

    def read(self, cursor: str | None, limit: int) -> Page[A]:
        scope = self._reader.scope
        tag = cursors.compute_tag(self._collection.kind.segment, self._parent, self._selection, scope)
        mark, lead = decode_mark(cursor, self.sort_key, tag), self._find_lead()
        is_counted = mark is not None or not self._is_plain
        total = mark.total if mark else self._count(lead) if is_counted else 0
        if is_counted and total == 0:
            return Page([], 0, None)
        rows = self._reader.execute(self._select_page(lead, total, mark, limit + 1))
        shown = fit([self._collection.build(row) for row in rows[:limit]])
        if not is_counted:  # to count a big list costs much more than a page
            total = len(rows) if len(rows) <= limit else self._count(lead)
        if len(rows) == len(shown):
            return Page(shown, total, None)
        end = rows[len(shown) - 1]
        return Page(shown, total, encode_mark(Mark(end.id, end.sort_value, total, end.sort_position), tag))

    def _select_page(self, lead: str | None, total: int, mark: Mark | None, limit: int) -> Statement:
        """Return the SELECT of the rows of a page, with their sort keys."""
        columns = self._reader.columns_of(self._collection)
        if self._is_plain and (lead is None or len(self._split(lead)) == 1):  # one index has the rows in their order
            [key], row_id = self._keys, self._table.c.id
            statement = select(*columns, key.label("sort_value"), null().label("sort_position"))
            statement = statement.where(*self._limit(self._selection, {lead}))
            if mark:
                statement = statement.where(self._is_after(mark, self._keys, row_id))
            return statement.order_by(*self._order(self._keys, row_id)).limit(limit)
        page = self._select_ids(lead, total, mark, limit).subquery("page")
        shared = self._has_position and len(self._keys) > 1  # then the position is the last key
        value: AnyColumn = page.c[f"key{len(self._keys) - 1 - shared}"] if self._keys else null()
        position: AnyColumn = page.c[f"key{len(self._keys) - 1}"] if shared else null()
        marks = [value.label("sort_value"), position.label("sort_position")]
        statement = select(*columns, *marks).join_from(page, self._table, self._table.c.id == page.c.id)
        return statement.order_by(*self._order([*page.c][1:], page.c.id))

    def _count(self, lead: str | None) -> int:
        return self._reader.count(self._table, self._limit(self._selection, {lead}))

    def _find_lead(self) -> str | None:
        """Return the column with the index that finds the matching rows: that of the most selective filter."""
        if self._parent:
            return self._collection.kind.parent_column
        if self._selection.assignee_ids and not self._selection.includes_unassigned:  # nobody is no value to split by
            return "assignee_id"
        if self._selection.updated_since:
            return "updated_at"
        if self._selection.created_since:
            return "created_at"
        if self._reader.scope.projects is not None:
            return "project_id"
        others = {column: attribute for column, attribute in _LEADS.items() if column != "assignee_id"}
        return next((column for column, attribute in others.items() if getattr(self._selection, attribute)), None)

    def _limit(self, selection: Selection, indexed: Collection[str | None]) -> Conditions:
        """Return all conditions. SQLite uses only the indexes of these columns."""
        shown = {*indexed, "priority"} if "status" in indexed else set(indexed)
        limited = selection.limit(self._collection.kind, self._reader.scope, self._dialect, indexed=shown)
        conditions: Conditions = [false()] if limited is None else limited
        if self._parent:
            conditions.append(self._table.c[str(self._collection.kind.parent_column)] == self._parent)
        return conditions

    def _select_ids(self, lead: str | None, total: int, mark: Mark | None, limit: int) -> Statement:
        few_rows = self._thresholds.few_rows
        if self._sort:
            is_small = total <= few_rows or self._parent is not None
            finds_all = lead is not None and lead != self.sort_key and is_small
            indexed = {lead} if finds_all else {self.sort_key}
            return self._select(self._selection, indexed, mark, limit, sorts=finds_all)
        branches = self._split(lead)
        if not branches:
            finds_all = lead is not None and total <= few_rows
            return self._select(self._selection, {lead} if finds_all else (), mark, limit, sorts=finds_all)
        selects = [self._select(one, {lead}, mark, limit).subquery() for one in branches]
        if len(selects) == 1:
            return select(selects[0])
        merged = union_all(*map(select, selects)).subquery()
        return select(merged).order_by(*self._order([*merged.c][1:], merged.c.id)).limit(limit)

    def _split(self, lead: str | None) -> list[Selection]:
        """Return a selection for each value of the lead, each of which an index has in order; none if it has not."""
        if lead == self._collection.kind.parent_column and self._parent:
            return [self._selection]
        if lead is None or lead not in _LEADS or self._reader.is_existing:
            return []
        changes: list[dict[str, Any]] = [{_LEADS[lead]: (value,)} for value in getattr(self._selection, _LEADS[lead])]
        if lead == "status":  # its index continues with the priority
            priorities = self._selection.priority or PRIORITIES.values()
            changes = [{**change, "priority": (one,)} for change in changes for one in priorities]
        is_few = len(changes) <= self._thresholds.most_values
        return [replace(self._selection, **change) for change in changes] if is_few else []

    def _select(
        self,
        selection: Selection,
        indexed: Collection[str | None],
        mark: Mark | None,
        limit: int,
        *,
        sorts: bool = False,
    ) -> Statement:
        """Return the SELECT of the IDs and the sort keys of a page."""
        labelled = [key.label(f"key{place}") for place, key in enumerate(self._keys)]
        statement = select(self._table.c.id, *labelled).where(*self._limit(selection, indexed))
        order = [*self._keys, self._table.c.id]
        if sorts:  # OFFSET 0 makes both databases find all rows first
            found = statement.offset(literal_column("0")).subquery()
            statement, order = select(found), [*[*found.c][1:], found.c.id]
        if mark:
            statement = statement.where(self._is_after(mark, order[:-1], order[-1]))
        return statement.order_by(*self._order(order[:-1], order[-1])).limit(limit)

    def _is_after(self, mark: Mark, keys: Sequence[AnyColumn], row_id: AnyColumn) -> ColumnElement[bool]:
        """Return the condition that a row follows the mark in the order of the sort keys and then of the IDs."""
        compare = operator.lt if self._is_descending else operator.gt
        if keys and mark.value is None:  # rows without a sort key are the last ones
            rest, place = [*keys[1:], row_id], [] if mark.position is None else [mark.position]
            last = [literal(one, column.type) for column, one in zip(rest, [*place, mark.row_id], strict=True)]
            return and_(keys[0].is_(None), compare(tuple_(*rest), tuple_(*last)))
        values = [mark.value] if keys else []
        if self.sort_key == "reference_id":  # its first column is the length, as `sort_columns` says
            values = [len(str(mark.value)), mark.value]
        if mark.position is not None:
            values.append(mark.position)
        columns = [*keys, row_id]
        last = [literal(value, column.type) for column, value in zip(columns, [*values, mark.row_id], strict=True)]
        follows: ColumnElement[bool] = compare(tuple_(*columns), tuple_(*last))
        # only a database of the earlier requirements system has rows without a sort key
        return or_(follows, keys[0].is_(None)) if self._sort and self._reader.is_existing else follows

    def _order(self, keys: Iterable[AnyColumn], row_id: AnyColumn) -> list[AnyColumn]:
        order: list[AnyColumn] = [one.desc() if self._is_descending else one.asc() for one in (*keys, row_id)]
        # our own tables have no nulls, and their indexes no place for them
        return [one.nulls_last() for one in order] if self._reader.is_existing else order

    def _include_scope(self, selection: Selection) -> Selection:
        """Return the selection with what the caller may see as a filter, if that is few projects."""
        projects = self._reader.scope.projects
        if projects and not selection.project_ids and len(projects) <= self._thresholds.most_values:
            return replace(selection, project_ids=tuple(projects))
        return selection
