"""The parameters that filter and sort lists of entities, as a caller wrote them in a URI.

    status, priority, assignee, type, project    one value, or several separated by commas: any of them matches
    updated_since                                an ISO 8601 date or time
    sort                                         a key, with `-` before it for the descending order

`parse_filters` checks what needs no database. `RequirementsStore.select` then replaces names with IDs
(`filter_names.py`), and the result makes conditions for SQL (`conditions.py`). This module needs no SQLAlchemy, so that
a server can start without it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Literal, NamedTuple, TypeAlias, TypedDict

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.kinds import KINDS, REQUIREMENT, Kind

ME = "me"
"""The value of `assignee` for the caller."""
NOBODY = "none"
"""The value of `assignee` for entities without an assignee."""
PRIORITIES = {"critical": 1, "high": 2, "medium": 3, "low": 4}
"""The priorities by their names. Both can be written."""
MAX_SHOWN = 20
"""Maximum number of allowed values that an error lists."""

SortKey: TypeAlias = Literal["reference_id", "title", "priority", "created_at", "updated_at"]
SORT_KEYS: tuple[SortKey, ...] = ("reference_id", "title", "priority", "created_at", "updated_at")
SEARCH_FILTERS = ("status", "priority", "assignee", "type", "project", "updated_since")
"""The parameters of a search, which is always sorted by relevance."""
_PLANNED_ONLY = {"title", "priority"}


class FilterTexts(TypedDict, total=False):
    """The parameters as they are in a URI. A missing one does not filter."""

    status: str
    priority: str
    assignee: str
    type: str
    project: str
    updated_since: str
    sort: str


class Sort(NamedTuple):
    """The order of a list. Entities with the same key are in the order of their IDs, which `descending` reverses too.

    Entities without the key come last in both directions.
    """

    key: SortKey
    descending: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The parsed parameters, with names that are not resolved yet. An empty tuple does not filter.

    Attributes:
        status: statuses.
        priority: priorities, 1 to 4.
        assignee: usernames or IDs of users, `me` or `none`.
        type: names or IDs of requirement types.
        project: names or IDs of projects.
        updated_since: the earliest time of the last change, in UTC; None does not filter.
        sort: the order; None for the default order of the list.
    """

    status: tuple[str, ...] = ()
    priority: tuple[int, ...] = ()
    assignee: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    updated_since: datetime | None = None
    sort: Sort | None = None

    def __bool__(self) -> bool:
        """Return whether it filters or sorts at all."""
        return any(getattr(self, one.name) for one in fields(self))


def list_parameters(kind: Kind, *, has_parent: bool = False) -> list[str]:
    """Return the names of the parameters of a list of this kind, in the order of their URI.

    Args:
        kind: the kind.
        has_parent: whether it is the list of the children of one entity, which are all in the same project.
    """
    planned = ["status", "priority", "assignee"] if kind.statuses else []
    own = [*(["type"] if kind is REQUIREMENT else []), *([] if has_parent else ["project"])]
    return [*planned, *own, "updated_since", "sort"]


def describe_filters(kind: Kind) -> str:
    """Return what the parameters of a list of this kind can be, for the description of the resource."""
    filters = f"`status`: {', '.join(kind.statuses)}. `assignee`: me, none, username. " if kind.statuses else ""
    return f"{filters}`sort`: {', '.join(list_sort_keys([kind]))}; `-` reverses."


def list_fixed_values(parameter: str, kind: Kind) -> list[str] | None:
    """Return the values that a parameter can have, if they do not depend on the database."""
    if parameter == "priority":
        return [*map(str, PRIORITIES.values()), *PRIORITIES]
    if parameter == "sort":
        keys = list_sort_keys([kind])
        return [*keys, *(f"-{key}" for key in keys)]
    return None


def list_sort_keys(kinds: Iterable[Kind]) -> list[SortKey]:
    """Return the keys by which lists of these kinds can be sorted. Some of the kinds can lack a key."""
    has_planned = any(kind.statuses for kind in kinds)
    return [key for key in SORT_KEYS if has_planned or key not in _PLANNED_ONLY]


def parse_filters(texts: FilterTexts, kinds: Sequence[Kind] = KINDS) -> Filters:
    """Parse the parameters of a list of entities of these kinds.

    Raises:
        InvalidTemplateVariable: a value is not valid. Whether statuses, users, types and projects exist is not checked.
    """
    since, order = texts.get("updated_since"), texts.get("sort")
    return Filters(
        status=_split("status", texts.get("status")),
        priority=tuple(sorted({_parse_priority(one) for one in _split("priority", texts.get("priority"))})),
        assignee=_split("assignee", texts.get("assignee")),
        type=_split("type", texts.get("type")),
        project=_split("project", texts.get("project")),
        updated_since=None if since is None else _parse_time("updated_since", since),
        sort=None if order is None else _parse_sort(order, list_sort_keys(kinds)),
    )


def parse_changes(since: str | None, project: str | None) -> Filters:
    """Parse the parameters of a list of changes.

    Raises:
        InvalidTemplateVariable: a value is not valid. Whether projects exist is not checked.
    """
    earliest = None if since is None else _parse_time("since", since)
    return Filters(project=_split("project", project), updated_since=earliest)


def parse_kinds(text: str | None) -> tuple[Kind, ...]:
    """Parse the kinds of a list of changes, in their own order; all of them if there is no text.

    Raises:
        InvalidTemplateVariable: one is unknown.
    """
    names = [kind.name for kind in KINDS]
    wanted = _split("kind", text) or names
    for one in wanted:
        if one not in names:
            raise refuse_value("kind", one, names)
    return tuple(kind for kind in KINDS if kind.name in wanted)


def refuse_value(
    name: str, value: str, allowed: Collection[str], *, more: str | None = None
) -> InvalidTemplateVariable:
    """Return the failure for a value that a parameter cannot have.

    Args:
        name: the parameter.
        value: the value.
        allowed: the values that the caller may know; they are listed, and the most similar one is suggested.
        more: the suggested action that leads to further values.
    """
    shown = ", ".join(list(allowed)[:MAX_SHOWN]) + (", …" if len(allowed) > MAX_SHOWN else "")
    by_folded = {one.casefold(): one for one in allowed}
    near = get_close_matches(value.casefold(), by_folded, n=1)
    actions = [f"Did you mean {by_folded[one]}?" for one in near]
    return InvalidTemplateVariable(
        f"`{name}` must be one of {shown}." if shown else f"`{name}` has no allowed values here.",
        details=f"It was {value!a}.",
        suggested_actions=[*actions, *([more] if more else []), f"Omit `{name}` for all."],
    )


def _split(name: str, text: str | None) -> tuple[str, ...]:
    """Return the values in a text, each once and sorted, so that their order does not matter."""
    if text is None:
        return ()
    values = {one.strip() for one in text.split(",")}
    if "" in values:
        raise InvalidTemplateVariable(
            f"`{name}` contains an empty value.",
            details=f"It was {text!a}.",
            suggested_actions=["Separate values with one comma. For a name that contains a comma, use the ID."],
        )
    return tuple(sorted(values))


def _parse_priority(text: str) -> int:
    if text in PRIORITIES:
        return PRIORITIES[text]
    if text in map(str, PRIORITIES.values()):
        return int(text)
    raise refuse_value("priority", text, [*map(str, PRIORITIES.values()), *PRIORITIES])


def _parse_sort(text: str, keys: Sequence[SortKey]) -> Sort:
    for key in keys:
        for sort in (Sort(key), Sort(key, descending=True)):
            if str(sort) == text:
                return sort
    raise refuse_value("sort", text, [*keys, *(f"-{key}" for key in keys)])


def _parse_time(name: str, text: str) -> datetime:
    """Parse a date, which means its first moment, or a time. Without a time zone it is in UTC."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidTemplateVariable(
            f"`{name}` must be an ISO 8601 date or time, such as 2026-11-22 or 2026-11-22T09:30:00Z.",
            details=f"It was {text!a}.",
            suggested_actions=[f"Write it in UTC, or with an offset such as +02:00. Omit `{name}` for all."],
        ) from error
