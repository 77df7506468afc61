"""The SQL of changes: the entities of all kinds in one list, the last changed first."""

from collections.abc import Sequence

from sqlalchemy import literal, literal_column, select, tuple_, union_all

from quilt_mcp.core.answers import iso
from quilt_mcp.requirements.answers import Change
from quilt_mcp.requirements.conditions import Conditions, Selection, hide, restrict
from quilt_mcp.requirements.kinds import KINDS, Kind
from quilt_mcp.requirements.reads import Reader, brief_columns
from quilt_mcp.requirements.selecting import Mark, SelectedRows
from quilt_mcp.requirements.tables import BY_KIND, AnyRow, Statement

_SHOWN = {"id", "reference_id", "title", "status"}


class Changes:
    """The pages of one list of changes.

    Args:
        reader: reads for the caller.
        selection: its projects and its earliest time; the rest does not count.
        kinds: the kinds of the entities.
    """

    def __init__(self, reader: Reader, selection: Selection, kinds: Sequence[Kind]) -> None:
        self._reader = reader
        self._selection = selection
        self._kinds = kinds
        self._dialect = reader.connection.dialect.name

    def read(self, mark: Mark | None, limit: int) -> SelectedRows[Change]:
        """Read the page that follows a row, or the first page. The number of all rows is counted for the first."""
        if mark:
            total = mark.total
        else:
            counts = [self._reader.count(BY_KIND[kind.name], self._limit(kind)) for kind in self._kinds]
            total = sum(counts)
        branches = [self._select(kind, mark, limit + 1).subquery() for kind in self._kinds]
        merged = union_all(*map(select, branches)).subquery("changes")
        order = (merged.c.updated_at.desc(), merged.c.id.desc())
        rows = self._reader.execute(select(merged).order_by(*order).limit(limit + 1))
        shown = rows[:limit]
        last = Mark(shown[-1].id, shown[-1].updated_at, total) if len(rows) > limit else None
        return SelectedRows([_build(row) for row in shown], total, last)

    def _select(self, kind: Kind, mark: Mark | None, limit: int) -> Statement:
        """Return the SELECT of the last changed entities of a kind, which the index of their times has in order."""
        table = BY_KIND[kind.name]
        order = (table.c.updated_at, table.c.id)
        statement = select(
            *(column for column in brief_columns(kind) if column.key in _SHOWN),
            literal_column(f"{KINDS.index(kind)}").label("kind"),
            table.c.created_at,
            table.c.updated_at,
            self._reader.name_of(table, f"{kind.author_column.removesuffix('_id')}_name").label("created_by"),
        ).where(*self._limit(kind))
        if mark:
            last = (literal(mark.value, table.c.updated_at.type), literal(mark.row_id, table.c.id.type))
            statement = statement.where(tuple_(*order) < tuple_(*last))
        return statement.order_by(*(column.desc() for column in order)).limit(limit)

    def _limit(self, kind: Kind) -> Conditions:
        table = BY_KIND[kind.name]
        hidden = {column.name for column in table.c} - {"updated_at"}
        conditions = self._selection.limit(kind, self._dialect, hidden=hidden) or []
        if self._reader.scope.projects is not None:
            conditions += restrict(hide(table.c.project_id, self._dialect), self._reader.scope, self._dialect)
        # without a time, which only the earlier system allows, nothing is known about a change
        return [*conditions, table.c.updated_at.is_not(None)]


def _build(row: AnyRow) -> Change:
    kind = KINDS[int(row.kind)]
    return {
        "reference_id": row.reference_id,
        "type": kind.name,
        "title": row.title,
        "status": row.status,
        "change": "created" if row.created_at == row.updated_at else "updated",
        "at": iso(row.updated_at),
        "created_by": row.created_by,
        "uri": f"requirements://{kind.segment}/{row.reference_id}",
    }
