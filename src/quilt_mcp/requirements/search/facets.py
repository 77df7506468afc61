"""The facets of an entity: tokens of what a search can be limited to, such as `sdraft` for the status Draft.

The index has them beside the words, so that a search reads only entries that have both. Triggers change the facets of
an entity with its columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quilt_mcp.requirements.access import Scope
from quilt_mcp.requirements.conditions import Selection
from quilt_mcp.requirements.thresholds import DEFAULT

LETTERS = {"project_id": "p", "status": "s", "priority": "r", "assignee_id": "a", "type_id": "t"}
"""The first letter of the facet of each column."""


def make_facet(column: str, value: object) -> str:
    """Return the facet of an entity with this value: a letter, then letters and digits in lower case."""
    return LETTERS[column] + str(value).replace("-", "").replace(" ", "").lower()


def make_facets(row: Mapping[str, object]) -> list[str]:
    """Return the facets of an entity, from its columns."""
    return [make_facet(column, row[column]) for column in LETTERS if row.get(column) is not None]


UNFILTERED = Selection()


@dataclass(frozen=True, slots=True)
class Limits:
    """The filters of a search, apart from the words.

    Attributes:
        scope: the projects in which the search looks.
        facets: an entity needs one facet of each of these lists.
        updated_since: the earliest time of the last change; None does not limit.
    """

    scope: Scope
    facets: Sequence[Sequence[str]] = ()
    updated_since: datetime | None = None


def make_limits(
    scope: Scope, selection: Selection = UNFILTERED, *, most_projects: int = DEFAULT.most_projects
) -> Limits | None:
    """Return the limits of a search by a caller; None if no entity is within them.

    Args:
        scope: what the caller may see.
        selection: the filters. Its projects are in the scope.
        most_projects: as in `Thresholds`.
    """
    if selection.project_ids:
        scope = Scope(scope.caller, selection.project_ids)
    wanted: list[tuple[str, Iterable[object]]] = [
        ("status", selection.status),
        ("priority", selection.priority),
        ("assignee_id", selection.assignee_ids),
        ("type_id", selection.type_ids),
    ]
    if scope.projects and len(scope.projects) <= most_projects:
        wanted.append(("project_id", scope.projects))
    if (selection.includes_unassigned and not selection.assignee_ids) or scope.projects == ():
        return None  # every entity with a status has an assignee
    facets = [[make_facet(column, value) for value in values] for column, values in wanted if values]
    return Limits(scope, facets, selection.updated_since)
