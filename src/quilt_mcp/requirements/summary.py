"""How many entities there are of each status, priority, assignee, type and project, in one answer.

Each group of a kind is one statement over an index that has all that it needs.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from sqlalchemy import FromClause, func, select

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import KINDS, PRIORITIES, Kind
from quilt_mcp.requirements.overview_answers import Group, KindSummary, Summary, ValueCount
from quilt_mcp.requirements.overviews import Filter
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, AnyRow, metadata

COLUMNS = {
    "status": "status",
    "priority": "priority",
    "assignee": "assignee_id",
    "type": "type_id",
    "project": "project_id",
}
"""The column of each group. A kind without the column does not have the group."""
DEFAULT_GROUPS = ("status", "priority")
MOST_VALUES = 50


def read_summary(reader: Reader, limited: Filter, groups: Sequence[str]) -> Summary:
    """Count the entities that the caller may see, within an epic or a project."""
    kinds: list[KindSummary] = []
    for kind in KINDS:
        if limited.epic and kind is model.EPIC:
            continue  # an epic is not below itself
        found = [_read_group(reader, kind, limited, one) for one in groups if _has_column(reader, kind, one)]
        counted: KindSummary = {
            "type": kind.name,
            "count": reader.count_entities(kind, limited.limit(kind)),
            "uri": _make_uri(kind, limited, {}),
            "groups": found,
        }
        kinds.append(counted)
    return {"epic": limited.epic, "project": limited.project, "kinds": kinds}


def _has_column(reader: Reader, kind: Kind, group: str) -> bool:
    column = COLUMNS[group]
    return column in BY_KIND[kind.name].c and not (column == "project_id" and reader.is_existing)


def _read_group(reader: Reader, kind: Kind, limited: Filter, group: str) -> Group:
    table, name = BY_KIND[kind.name], COLUMNS[group]
    conditions = [*reader.restrict(table), *limited.limit(kind)]
    number = func.count().label("number")
    grouped = select(table.c[name].label("value"), number).where(*conditions).group_by(table.c[name]).subquery()
    linked = model.LINKS.get(name)
    shown: AnyColumn = grouped.c.value
    rows: FromClause = grouped
    if linked and (linked != "users" or reader.has_users):
        names = metadata.tables[linked]
        shown, rows = names.c[model.NAMES[linked]], grouped.outerjoin(names, names.c.id == grouped.c.value)
    columns = (grouped.c.value, shown.label("shown"), grouped.c.number)
    ordered = select(*columns).select_from(rows).order_by(grouped.c.number.desc(), shown)
    found = reader.execute(ordered.limit(MOST_VALUES + 1))
    values = [_build(kind, limited, group, row) for row in found[:MOST_VALUES]]
    return {"by": group, "values": _complete(kind, limited, group, values), "is_complete": len(found) <= MOST_VALUES}


def _build(kind: Kind, limited: Filter, group: str, row: AnyRow) -> ValueCount:
    value = str(row.value if row.shown is None else row.shown)
    # a name that contains a comma can only be asked for by its ID
    asked = str(row.value) if group in {"assignee", "type", "project"} and "," in value else value
    return {"value": value, "count": row.number, "uri": _make_uri(kind, limited, {group: asked})}


def _complete(kind: Kind, limited: Filter, group: str, values: list[ValueCount]) -> list[ValueCount]:
    """Add what a status or a priority can be and is nowhere, in the order of the model."""
    allowed: Sequence[str] = {"status": kind.statuses, "priority": tuple(map(str, PRIORITIES.values()))}.get(group, ())
    known = {one["value"]: one for one in values}
    of_model: list[ValueCount] = [
        known.pop(value, {"value": value, "count": 0, "uri": _make_uri(kind, limited, {group: value})})
        for value in allowed
    ]
    return [*of_model, *known.values()]


def _make_uri(kind: Kind, limited: Filter, filters: Mapping[str, str]) -> str | None:
    """Return the list of what is counted; None if no list is limited to an epic like that."""
    if limited.epic and kind is not model.USER_STORY:
        return None
    path = f"epics/{limited.epic['reference_id']}/{kind.segment}" if limited.epic else kind.segment
    of_project = {"project": limited.project["id"]} if limited.project and not limited.epic else {}
    query = urlencode({**of_project, **filters}, quote_via=quote)
    return f"requirements://{path}{'?' if query else ''}{query}"
