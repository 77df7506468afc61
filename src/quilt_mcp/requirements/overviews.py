"""Coverage: the entities that lack something.

Each count and each page is an anti-join over an index: of the children's parent column, of the requirements'
`acceptance_criteria_id`, or of the primary key. An entity that the caller may not see counts as absent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, Table, exists, literal, literal_column, null, or_, select, tuple_, union_all

from quilt_mcp.core import cursors
from quilt_mcp.core.answers import iso
from quilt_mcp.core.cursors import Page
from quilt_mcp.core.cuts import PAGE_CHARACTERS, fit
from quilt_mcp.core.errors import NotFound
from quilt_mcp.requirements.answers import BriefEntity, ProjectName
from quilt_mcp.requirements.conditions import Conditions, Selection, hide, is_below, restrict
from quilt_mcp.requirements.model import ACCEPTANCE_CRITERIA, CHANGED, EPIC, KINDS, REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.overview_answers import Change, Coverage, Gap
from quilt_mcp.requirements.parameters import EntityId
from quilt_mcp.requirements.reads import Reader, brief_columns, build_brief, find_project, make_unknown_project
from quilt_mcp.requirements.selecting import DEFAULT, Mark, decode_mark, encode_mark
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyColumn,
    AnyRow,
    Statement,
    acceptance_criteria,
    epics,
    requirements,
    user_stories,
)

FIRST = 5
"""The number of entities that are shown of each category if none is asked for."""


@dataclass(frozen=True)
class Filter:
    """The limits of the answer, besides the rights of the caller."""

    epic: BriefEntity | None = None
    project: ProjectName | None = None

    @property
    def ids(self) -> tuple[str | None, str | None]:
        return self.epic and self.epic["id"], self.project and self.project["id"]

    def limit(self, kind: Kind) -> Conditions:
        """Return the conditions for the entities of a kind, which must be one below epics if there is an epic."""
        columns = BY_KIND[kind.name].c
        conditions: Conditions = []
        if self.project:
            conditions.append(columns.project_id == self.project["id"])
        if self.epic:
            conditions.append(is_below(kind, self.epic["id"]))
        return conditions


def _find_lacks(reader: Reader, category: str) -> dict[Kind, ColumnElement[bool]]:
    """Return the condition for each kind that a category contains."""
    # With a column of the index instead of `*`, SQLite does not read the row.
    refers = requirements.c.acceptance_criteria_id == acceptance_criteria.c.id
    story = user_stories.c.id
    if category == "stories_without_criteria":
        # The children of a visible story are visible: they are in its project.
        child = acceptance_criteria.c.user_story_id
        return {USER_STORY: ~exists(child).where(child == story)}
    if category == "stories_without_requirements":
        child = requirements.c.user_story_id
        return {USER_STORY: ~exists(child).where(child == story)}
    if category == "criteria_without_requirements":
        # SQLite reads only the index if the column is in it. It would look up each project of the caller on its own.
        visible = restrict(hide(requirements.c.project_id, reader.dialect), reader.scope, reader.dialect)
        return {ACCEPTANCE_CRITERIA: ~exists(requirements.c.acceptance_criteria_id).where(refers, *visible)}
    if category == "requirements_without_criterion":
        visible = reader.restrict(acceptance_criteria)
        return {REQUIREMENT: _lacks(reader, requirements.c.acceptance_criteria_id, acceptance_criteria, visible)}
    # Foreign keys prevent orphans. SQLite enforces them only for programs that ask for it.
    return {
        kind: _lacks(reader, BY_KIND[kind.name].c[str(kind.parent_column)], BY_KIND[kind.parent], [])
        for kind in KINDS
        if kind.parent
    }


def _lacks(reader: Reader, column: AnyColumn, table: Table, visible: Conditions) -> ColumnElement[bool]:
    """Return the condition that a column has the ID of no visible row of a table."""
    if reader.dialect == "sqlite" and not visible:  # half of the time of EXISTS
        return or_(column.is_(None), column.not_in(select(table.c.id)))
    return ~exists(table.c.id).where(table.c.id == column, *visible)


def find_filter(reader: Reader, epic: EntityId | None, project: str | None) -> Filter:
    if project is not None and reader.is_existing:
        raise make_unknown_project(project)
    found = None if project is None else find_project(reader, project)
    if epic is None:
        return Filter(None, found)
    epic_id = reader.find_id(EPIC, epic)
    statement = reader.select_briefs(EPIC).where(epics.c.id == epic_id, *Filter(project=found).limit(EPIC))
    for row in reader.execute(statement):
        return Filter(build_brief(EPIC, row), found)
    raise NotFound(
        f"Epic {epic.value} not found in project {project!a}.",
        details="It is in another project.",
        suggested_actions=["Omit `project`: an epic is in one project."],
    )


def read_coverage(
    reader: Reader, *, categories: tuple[str, ...], limited: Filter, limit: int, cursor: str | None, is_page: bool
) -> Coverage:
    gaps: list[Gap] = []
    following: str | None = None
    totals: dict[Kind, int] = {}  # each is counted once
    for category in categories:
        tag = cursors.compute_tag("coverage", category, limited.ids, reader.scope)
        room = PAGE_CHARACTERS // len(categories)
        gap, end = _read_gap(reader, category, limited, _parse_position(cursor, tag), limit, totals, room)
        following = cursors.encode(f"{end.count} {end.total} {end.key}", tag) if end else None
        if following:
            gap["rest"] = _make_uri(category, limited, following, limit if is_page else None)
        gaps.append(gap)
    return {
        "epic": limited.epic,
        "project": limited.project,
        "gaps": gaps,
        "next_cursor": following if is_page else None,
    }


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a page starts. The numbers were counted for the first page."""

    count: int
    """The number of entities of the category."""
    total: int
    """The number of entities that could belong to it."""
    key: str
    """Of the last entity before the page: the place of its kind, and its ID."""


_POSITION = r"[0-9]{1,9} [0-9]{1,9} [0-9][0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def _parse_position(cursor: str | None, tag: str) -> _Position | None:
    if not cursor:
        return None
    count, total, key = cursors.decode(cursor, tag, _POSITION).split(" ")
    return _Position(int(count), int(total), key)


def _read_gap(  # noqa: PLR0917 - one caller
    reader: Reader,
    category: str,
    limited: Filter,
    position: _Position | None,
    limit: int,
    totals: dict[Kind, int],
    room: int,
) -> tuple[Gap, _Position | None]:
    """Return the gaps of one category, and the position of the next page; None if this is the last page."""
    conditions = {kind: [*limited.limit(kind), lacks] for kind, lacks in _find_lacks(reader, category).items()}
    if position:
        count, total = position.count, position.total
    else:
        for kind in conditions.keys() - totals.keys():
            totals[kind] = reader.count_entities(kind, limited.limit(kind))
        total = sum([totals[kind] for kind in conditions])
        count = sum([reader.count_entities(kind, lacks) for kind, lacks in conditions.items()])
    found: list[tuple[str, BriefEntity]] = []
    for kind, of_kind in conditions.items():
        if count and len(found) <= limit:
            after = position.key if position else ""
            found += _read_kind(reader, kind, of_kind, after, limit + 1 - len(found))
    shown = fit([brief for _, brief in found[:limit]], room)
    gap: Gap = {"category": category, "count": count, "total": total, "entities": shown, "rest": None}
    return gap, _Position(count, total, found[len(shown) - 1][0]) if len(found) > len(shown) else None


def _read_kind(
    reader: Reader, kind: Kind, conditions: Conditions, after: str, limit: int
) -> list[tuple[str, BriefEntity]]:
    """Read the first entities of a kind that follow a key. Return them with their keys."""
    table, place = BY_KIND[kind.name], str(KINDS.index(kind))
    if after > place:
        if not after.startswith(place):
            return []
        conditions = [*conditions, table.c.id > after.removeprefix(place)]
    statement = reader.select_briefs(kind).where(*conditions).order_by(table.c.id).limit(limit)
    return [(f"{place}{row.id}", build_brief(kind, row)) for row in reader.execute(statement)]


def _make_uri(category: str, limited: Filter, cursor: str, limit: int | None) -> str:
    parameters = {
        "epic": limited.epic and limited.epic["reference_id"],
        "project": limited.project and limited.project["id"],
        "category": category,
        "cursor": cursor,
        "limit": limit,
    }
    return f"requirements://coverage?{urlencode({name: value for name, value in parameters.items() if value})}"


_SHOWN = {"id", "reference_id", "title", "status"}


def read_changes(
    reader: Reader, selection: Selection, kinds: Sequence[Kind], cursor: str | None, limit: int
) -> Page[Change]:
    """Read a page of changes of entities of some kinds. Of the selection, only the projects and the time count.

    If few entities are in the projects, they are found by their project and sorted. Else the index of their times has
    the order. The number of all is counted for the first page.
    """
    tag = cursors.compute_tag("changes", [kind.name for kind in kinds], selection, reader.scope)
    mark = decode_mark(cursor, "updated_at", tag)
    is_limited = bool(selection.project_ids) or reader.scope.projects is not None
    counted_by = "project_id" if is_limited and not selection.updated_since else "updated_at"
    counts = (reader.count(BY_KIND[kind.name], _limit(reader, selection, kind, counted_by)) for kind in kinds)
    total = mark.total if mark else sum(counts)
    lead = counted_by if total <= DEFAULT.few_rows else "updated_at"
    branches = [_select_changes(reader, selection, kind, lead, mark, limit + 1).subquery() for kind in kinds]
    merged = union_all(*map(select, branches)).subquery("changes")
    order = (merged.c.updated_at.desc(), merged.c.id.desc())
    rows = reader.execute(select(merged).order_by(*order).limit(limit + 1))
    shown = fit([_build(row) for row in rows[:limit]])
    last = None
    if len(rows) > len(shown):
        last = encode_mark(Mark(rows[len(shown) - 1].id, rows[len(shown) - 1].updated_at, total), tag)
    return Page(shown, total, last)


def _select_changes(  # noqa: PLR0917 - one caller
    reader: Reader, selection: Selection, kind: Kind, lead: str, mark: Mark | None, limit: int
) -> Statement:
    """Return the SELECT of the last changed entities of a kind."""
    table = BY_KIND[kind.name]
    order = (table.c.updated_at, table.c.id)
    statement = select(
        *(column for column in brief_columns(kind) if column.key in _SHOWN),
        literal_column(f"{KINDS.index(kind)}").label("kind"),
        table.c.created_at,
        table.c.updated_at,
        reader.name_of(table, f"{kind.author_column.removesuffix('_id')}_name").label("author_name"),
        (null() if reader.is_existing else table.c[CHANGED]).label("fields"),
    ).where(*_limit(reader, selection, kind, lead))
    if mark:
        last = (literal(mark.value, table.c.updated_at.type), literal(mark.row_id, table.c.id.type))
        statement = statement.where(tuple_(*order) < tuple_(*last))
    return statement.order_by(*(column.desc() for column in order)).limit(limit)


def _limit(reader: Reader, selection: Selection, kind: Kind, lead: str) -> Conditions:
    """Return the conditions for the entities of a kind. SQLite uses only the indexes that start with `lead`."""
    table = BY_KIND[kind.name]
    conditions = selection.limit(kind, reader.scope, reader.dialect, indexed={lead}) or []
    # without a time, which only the earlier system allows, nothing is known about a change
    return [*conditions, *([table.c.updated_at.is_not(None)] if reader.is_existing else [])]


def _build(row: AnyRow) -> Change:
    kind = KINDS[int(row.kind)]
    return {
        "reference_id": row.reference_id,
        "type": kind.name,
        "title": row.title,
        "status": row.status,
        "change": "created" if row.created_at == row.updated_at and not row.fields else "updated",
        "fields": row.fields.split(" ") if row.fields else None,
        "at": iso(row.updated_at),
        "author_name": row.author_name,
        "uri": kind.make_uri(row.reference_id),
    }
