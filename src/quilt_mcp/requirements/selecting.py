"""The SQL of filtered and sorted pages.

A page is read in two steps in one statement: the IDs, for which an index has all that most filters and orders need, and
the rows with these IDs.

- In the order of the IDs, the index of one filter, the lead, is read once for each of its values, and these are merged.
- In another order, the index of that order is read. If few rows match, all of them are found by the lead, and sorted.

PostgreSQL chooses the indexes by its statistics. SQLite has none, so the other indexes are hidden from it.
"""

import base64
import binascii
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, and_, false, literal, literal_column, null, or_, select, tuple_, union_all

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.conditions import SORTED_LENGTH, Conditions, Selection, hide, restrict, sort_columns
from quilt_mcp.requirements.filters import PRIORITIES, Sort, SortKey
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.shapes import Shape
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, Statement


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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Value = str | int | datetime | None
"""A sort key of a row. A time is null only in a database of the earlier requirements system."""


class Mark(NamedTuple):
    """The last row before a page.

    Attributes:
        row_id: its ID.
        value: its sort key; None if the order is that of the IDs, or if the row has none.
        total: the number of rows of all pages, as of the first page.
    """

    row_id: str
    value: Value
    total: int


def encode_mark(mark: Mark, tag: str) -> str:
    """Return the cursor of the page that starts after this row."""
    return cursors.encode(f"{UUID(mark.row_id).hex} {mark.total} {_write(mark.value)}", tag)


def decode_mark(cursor: str, key: SortKey | None, tag: str) -> Mark:
    """Return the last row before a page.

    Args:
        cursor: as the client sent it.
        key: by which the list is sorted.
        tag: of the list, its filters and its caller.

    Raises:
        InvalidTemplateVariable: `encode_mark` did not make this cursor for a list with this tag.
    """
    text = cursors.decode(cursor, tag)
    try:
        row_id, total, value = text.split(" ")
        mark = Mark(str(UUID(row_id)), _read(value, key), int(total))
        is_ours = cursor == encode_mark(mark, tag) and 0 <= mark.total < 10**15
    except (ValueError, OverflowError, binascii.Error):
        is_ours = False
    if not is_ours:
        raise InvalidTemplateVariable(
            "The cursor is not valid for this list.",
            suggested_actions=["Start without a cursor, and pass each next_cursor unchanged."],
        )
    return mark


def _write(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return str((value - _EPOCH) // _MICROSECOND)
    if isinstance(value, int):
        return str(value)
    return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")


def _read(text: str, key: SortKey | None) -> Value:
    if key is None or (not text and key.endswith("_at")):
        return None
    if key in {"created_at", "updated_at"}:
        return _EPOCH + int(text) * _MICROSECOND
    if key == "priority":
        return int(text[:4])  # which every integer column can be compared with
    found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    if len(found) > SORTED_LENGTH or "\0" in found:
        raise ValueError
    return found


A = TypeVar("A")

_LEADS = {
    "assignee_id": "assignee_ids",
    "project_id": "project_ids",
    "type_id": "type_ids",
    "status": "status",
    "priority": "priority",
}
"""The columns with an index, the most selective first, and their values in a selection."""


@dataclass(frozen=True, slots=True)
class SelectedRows(Generic[A]):
    """Some rows of a filtered or sorted list.

    Attributes:
        rows: in the order of the list.
        total: the number of rows of the list.
        last: the last of these rows; None if it is the last row of the list.
    """

    rows: list[A]
    total: int
    last: Mark | None


class SelectedPages(Generic[A]):
    """The pages of one filtered or sorted list.

    Args:
        reader: reads for the caller.
        shape: of the entities.
        selection: the filters and the order.
        parent: the ID of the parent of all entities; None for all entities of the kind.
        thresholds: decide between the ways to read.
    """

    def __init__(
        self,
        reader: Reader,
        shape: Shape[A],
        selection: Selection,
        *,
        parent: str | None = None,
        thresholds: Thresholds = DEFAULT,
    ) -> None:
        self._reader = reader
        self._shape = shape
        self._dialect = reader.dialect
        self._table = BY_KIND[shape.kind.name]
        self._parent = parent
        self._thresholds = thresholds
        self._selection = self._include_scope(selection)
        # rows that changed since a time are rarely near the start of another order
        self._sort = selection.sort or (Sort("updated_at") if selection.updated_since else None)
        self._keys = sort_columns(shape.kind, self._sort.key, self._dialect) if self._sort else []

    @property
    def sort_key(self) -> SortKey | None:
        """The key by which the list is sorted; None for the order of the IDs."""
        return self._sort and self._sort.key

    def read(self, mark: Mark | None, limit: int) -> SelectedRows[A]:
        """Read the page that starts after a row, or the first page."""
        lead = self._find_lead()
        total = mark.total if mark else self._reader.count(self._table, self._limit(self._selection, {lead}))
        if total == 0:
            return SelectedRows([], 0, None)
        page = self._select_ids(lead, total, mark, limit + 1).subquery("page")
        value: AnyColumn = page.c[f"key{len(self._keys) - 1}"] if self._keys else null()
        columns = [*self._reader.columns_of(self._shape), value.label("sort_value")]
        statement = select(*columns).join_from(page, self._table, self._table.c.id == page.c.id)
        rows = self._reader.execute(statement.order_by(*self._order([*page.c][1:], page.c.id)))
        shown = rows[:limit]
        last = Mark(shown[-1].id, shown[-1].sort_value, total) if len(rows) > limit else None
        return SelectedRows([self._shape.build(row) for row in shown], total, last)

    def _find_lead(self) -> str | None:
        """Return the column with the index that finds the matching rows."""
        if self._parent:
            return self._shape.kind.parent_column
        leads = [column for column, attribute in _LEADS.items() if getattr(self._selection, attribute)]
        if self._selection.includes_unassigned and "assignee_id" in leads:
            leads.remove("assignee_id")
        if self._selection.updated_since and leads[:1] != ["assignee_id"]:
            return "updated_at"
        if self._reader.scope.projects is not None and leads[:1] != ["assignee_id"]:
            return "project_id"
        return leads[0] if leads else None

    def _limit(self, selection: Selection, indexed: Collection[str | None]) -> Conditions:
        """Return all conditions. SQLite uses only the indexes of these columns."""
        shown = {*indexed, "priority"} if "status" in indexed else set(indexed)
        hidden = {column.name for column in self._table.c} - shown
        limited = selection.limit(self._shape.kind, self._dialect, hidden=hidden)
        conditions: Conditions = [false()] if limited is None else limited
        if self._reader.scope.projects is not None:
            column = self._table.c.project_id
            visible = hide(column, self._dialect) if "project_id" in hidden else column
            conditions += restrict(visible, self._reader.scope, self._dialect)
        if self._parent:
            conditions.append(self._table.c[str(self._shape.kind.parent_column)] == self._parent)
        return conditions

    def _select_ids(self, lead: str | None, total: int, mark: Mark | None, limit: int) -> Statement:
        """Return the SELECT of the IDs and the sort keys of a page."""
        few_rows = self._thresholds.few_rows
        if self._keys:
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
        return select(merged).order_by(merged.c.id).limit(limit)

    def _split(self, lead: str | None) -> list[Selection]:
        """Return a selection for each value of the lead, each of which an index has in order; none if it has not."""
        if lead == self._shape.kind.parent_column and self._parent:
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
        """Return the SELECT of the IDs and the sort keys of a page.

        Args:
            selection: the filters.
            indexed: the columns with indexes that SQLite may use.
            mark: the last row before the page.
            limit: the number of rows.
            sorts: whether to find all rows and sort them, instead of reading an index in order.
        """
        labelled = [key.label(f"key{place}") for place, key in enumerate(self._keys)]
        statement = select(self._table.c.id, *labelled).where(*self._limit(selection, indexed))
        order = [*self._keys, self._table.c.id]
        if sorts:  # OFFSET 0 makes both databases find all rows first
            found = statement.offset(literal_column("0")).subquery()
            statement, order = select(found), [*[*found.c][1:], found.c.id]
        if mark:
            statement = statement.where(self._follow(mark, order))
        return statement.order_by(*self._order(order[:-1], order[-1])).limit(limit)

    def _follow(self, mark: Mark, order: Sequence[AnyColumn]) -> ColumnElement[bool]:
        """Return the condition for the rows that follow a row."""
        *keys, row_id = order
        is_descending = self._sort is not None and self._sort.descending
        if keys and mark.value is None:
            return and_(keys[0].is_(None), row_id < mark.row_id if is_descending else row_id > mark.row_id)
        values = [mark.value] if keys else []
        if self.sort_key == "reference_id":
            values = [len(str(mark.value)), mark.value]
        last = tuple_(*(literal(value, key.type) for key, value in zip(order, [*values, mark.row_id], strict=True)))
        follows = tuple_(*order) < last if is_descending else tuple_(*order) > last
        return or_(follows, keys[0].is_(None)) if keys and self._reader.is_existing else follows

    def _order(self, keys: Iterable[AnyColumn], row_id: AnyColumn) -> list[AnyColumn]:
        is_descending = self._sort is not None and self._sort.descending
        order: list[AnyColumn] = [one.desc() if is_descending else one.asc() for one in (*keys, row_id)]
        # our own tables have no nulls, and their indexes no place for them
        return [one.nulls_last() for one in order] if self._reader.is_existing else order

    def _include_scope(self, selection: Selection) -> Selection:
        """Return the selection with what the caller may see as a filter, if that is few projects."""
        projects = self._reader.scope.projects
        if projects and not selection.project_ids and len(projects) <= self._thresholds.most_values:
            return replace(selection, project_ids=tuple(projects))
        return selection
