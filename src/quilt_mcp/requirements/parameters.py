"""The parameters of requirements:// URIs that are not filters: the variable {id}, those of overviews, and of pages."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Literal, NamedTuple, TypeAlias, TypedDict, get_args
from uuid import UUID

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.core.parameters import parse_integer
from quilt_mcp.requirements.model import BY_PREFIX, EPIC, KINDS, PRIORITIES, REQUIREMENT, Kind, format_reference

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NEARLY_REFERENCE = re.compile(r"([A-Za-z]+)[-_.~]*([0-9]{1,15})")
_REFERENCE = re.compile(r"([A-Z]+)-(?:[0-9]{3}|[1-9][0-9]{3,14})")


class EntityId(NamedTuple):
    """The value of one of the two unique columns of an entity."""

    column: str
    """`id` or `reference_id`."""
    value: str


def is_id(text: str) -> bool:
    return bool(_UUID.fullmatch(text))


def parse_id(kind: Kind, text: str) -> EntityId:
    """Parse the ID of an entity of this kind: a UUID, or a reference ID such as EP-001."""
    if is_id(text):
        return EntityId("id", text)
    reference = _REFERENCE.fullmatch(text)
    if reference and reference[1] == kind.prefix:
        return EntityId("reference_id", text)
    other = BY_PREFIX.get(reference[1]) if reference else None
    hint = (
        f"Read requirements://{other.segment}/{text}: {text} is the reference ID of another kind of entity."
        if other
        else f"Use a URI such as requirements://{kind.segment}/{kind.prefix}-001."
    )
    raise InvalidTemplateVariable(
        f"{text!a} is not a valid ID for requirements://{kind.segment}.",
        details=f"An ID is a UUID in lower case, or a reference ID such as {kind.prefix}-001 or {kind.prefix}-1234.",
        suggested_actions=[hint, advise_list(kind)],
    )


class Guess(NamedTuple):
    """The entity that a text nearly names."""

    kind: Kind
    reference: str

    @property
    def advice(self) -> str:
        return f"Did you mean {self.reference}? Read requirements://{self.kind.segment}/{self.reference}."


def guess_reference(text: str) -> Guess | None:
    """Return what a text means that nearly is a reference ID, such as EP-1, EP-0001, ep-001 or EP001; else None."""
    match = _NEARLY_REFERENCE.fullmatch(text)
    kind = BY_PREFIX.get(match[1].upper()) if match else None
    if not match or not kind:
        return None
    reference = format_reference(kind, int(match[2]))
    return None if reference == text else Guess(kind, reference)


def advise_list(kind: Kind) -> str:
    """Return the suggested action that leads to the existing entities of a kind."""
    return f"Read requirements://{kind.segment} for the existing IDs."


GROUPS = ("status", "priority", "assignee", "type", "project")
"""The values of `group`."""
VIEWS = ("full", "brief")
"""The values of `view`."""
MAX_DEPTH = 10
DEFAULT_DEPTH = 3

CATEGORIES = (
    "stories_without_criteria",
    "stories_without_requirements",
    "criteria_without_requirements",
    "requirements_without_criterion",
    "orphans",
)
"""The values of `category`."""


def parse_depth(text: str | None) -> int:
    advice = f"Omit `depth` for {DEFAULT_DEPTH} steps. To go farther, start another trace at `continue_at`."
    return parse_integer("depth", text, default=DEFAULT_DEPTH, largest=MAX_DEPTH, advice=advice)


def parse_groups(text: str | None) -> tuple[str, ...]:
    """Parse the groups of a summary, in their own order; the status and the priority if there is no text."""
    wanted = _split("group", text) or GROUPS[:2]
    for one in wanted:
        if one not in GROUPS:
            raise refuse_value("group", one, GROUPS)
    return tuple(one for one in GROUPS if one in wanted)


def parse_view(text: str | None) -> bool:
    """Return whether rows are brief."""
    if text is not None and text not in VIEWS:
        raise refuse_value("view", text, VIEWS)
    return text == "brief"


def parse_types(text: str | None) -> tuple[str, ...]:
    return _split("type", text)


def parse_category(text: str | None, cursor: str | None, *, has_epic: bool) -> tuple[str, ...]:
    """Return the categories to read: the given one, or all that apply."""
    allowed = CATEGORIES[:-1] if has_epic else CATEGORIES
    if text is None:
        if cursor:
            raise InvalidTemplateVariable(
                "`cursor` needs `category`, because each category has pages of its own.",
                suggested_actions=["Read the URI in `rest` of a gap as it is."],
            )
        return allowed
    if text in allowed:
        return (text,)
    reason = "An orphan belongs to no epic." if text in CATEGORIES else f"It was {text!a}."
    raise InvalidTemplateVariable(
        f"`category` must be one of {', '.join(allowed)}.",
        details=reason,
        suggested_actions=["Omit `category` for the first entities of each."],
    )


class Position(NamedTuple):
    """Where a page starts.

    Attributes:
        after: the ID of the last row before the page, one for each of the lists that are paged together; empty at the
            start of a list.
        totals: the numbers of rows of these lists, as of the first page; None on the first page, which counts them.
    """

    after: tuple[str, ...]
    totals: tuple[int, ...] | None = None


def decode_position(cursor: str | None, tag: str, *, lists: int = 1) -> Position:
    if cursor is None:
        return Position(("",) * lists)
    found = cursors.decode_values(cursor, tag, [UUID] * lists + [int] * lists)
    return Position(tuple(str(one or "") for one in found[:lists]), tuple(found[lists:]))


def encode_position(after: Sequence[str], totals: Sequence[int], tag: str) -> str:
    """Return the cursor of the page that starts after these rows."""
    return cursors.encode_values([*(one and UUID(one) for one in after), *totals], tag)


ME = "me"
"""The value of `assignee` for the caller."""
NOBODY = "none"
"""The value of `assignee` for entities without an assignee."""
MAX_SHOWN = 20
"""Maximum number of allowed values that an error lists."""

SortKey: TypeAlias = Literal["reference_id", "title", "priority", "created_at", "updated_at"]
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)
SEARCH_FILTERS = ("kind", "status", "priority", "assignee", "type", "project", "epic", "updated_since")
"""The parameters of a search, which is always sorted by relevance."""
SINCE = ("updated_since", "created_since")
_PLANNED_ONLY = {"title", "priority"}


class FilterTexts(TypedDict, total=False):
    """The parameters as they are in a URI. A missing one does not filter."""

    status: str
    priority: str
    assignee: str
    type: str
    project: str
    updated_since: str
    created_since: str
    kind: str
    epic: str
    sort: str


class Sort(NamedTuple):
    """The order of a list.

    Entities with the same key are in the order of their IDs, those with the same priority in the order of the document.
    `descending` reverses both. Entities without the key come last in both directions.
    """

    key: SortKey
    descending: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The parsed parameters, with names that are not resolved yet. An empty tuple does not filter."""

    status: tuple[str, ...] = ()
    priority: tuple[int, ...] = ()
    assignee: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    updated_since: datetime | None = None
    created_since: datetime | None = None
    kind: tuple[Kind, ...] = ()
    epic: EntityId | None = None
    sort: Sort | None = None

    def __bool__(self) -> bool:
        """Return whether it filters or sorts at all."""
        return any(getattr(self, one.name) for one in fields(self))


def list_parameters(kind: Kind, *, has_parent: bool = False) -> list[str]:
    planned = ["status", "priority", "assignee"] if kind.statuses else []
    own = [*(["type"] if kind is REQUIREMENT else []), *([] if has_parent else ["project"])]
    return [*planned, *own, *SINCE, "sort"]


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
    since, created, order = texts.get("updated_since"), texts.get("created_since"), texts.get("sort")
    kind, epic = texts.get("kind"), texts.get("epic")
    return Filters(
        status=_split("status", texts.get("status")),
        priority=tuple(sorted({_parse_priority(one) for one in _split("priority", texts.get("priority"))})),
        assignee=_split("assignee", texts.get("assignee")),
        type=_split("type", texts.get("type")),
        project=_split("project", texts.get("project")),
        updated_since=None if since is None else _parse_time("updated_since", since),
        created_since=None if created is None else _parse_time("created_since", created),
        kind=() if kind is None else parse_kinds(kind),
        epic=None if epic is None else parse_id(EPIC, epic),
        sort=None if order is None else _parse_sort(order, list_sort_keys(kinds)),
    )


def parse_changes(since: str | None, project: str | None) -> Filters:
    earliest = None if since is None else _parse_time("since", since)
    return Filters(project=_split("project", project), updated_since=earliest)


def parse_kinds(text: str | None) -> tuple[Kind, ...]:
    """Parse the kinds of a list of changes, in their own order; all of them if there is no text."""
    names = [kind.name for kind in KINDS]
    wanted = _split("kind", text) or names
    for one in wanted:
        if one not in names:
            raise refuse_value("kind", one, names)
    return tuple(kind for kind in KINDS if kind.name in wanted)


def refuse_value(
    name: str, value: str, allowed: Collection[str], *, more: str | None = None
) -> InvalidTemplateVariable:
    """Return the failure for a value that a parameter cannot have."""
    shown = ", ".join(list(allowed)[:MAX_SHOWN]) + (", …" if len(allowed) > MAX_SHOWN else "")
    by_folded = {one.casefold(): one for one in allowed}
    actions = [f"Did you mean {by_folded[one]}?" for one in get_close_matches(value.casefold(), by_folded, n=1)]
    without = {"sort": "the default order", "view": "all fields"}.get(name, "all")
    return InvalidTemplateVariable(
        f"`{name}` must be one of {shown}." if shown else f"`{name}` has no allowed values here.",
        details=f"It was {value!a}.",
        suggested_actions=[*actions, *([more] if more else []), f"Omit `{name}` for {without}."],
    )


def can_name(text: str) -> bool:
    """Return whether a filter can have this name as a value. Otherwise it can only have the ID."""
    return text == text.strip() and "," not in text


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
