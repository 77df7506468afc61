"""The service functions of requirements:// resources, and the database of an app, which the first read opens."""

from collections.abc import Callable, Iterable
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Unpack, cast

from quilt_mcp.app import current_app
from quilt_mcp.requirements.answers import (
    BRIEF,
    Entities,
    EpicHierarchy,
    MemberPage,
    ProjectPage,
    RequirementRelationships,
    RequirementTypePage,
    SearchPage,
    Trace,
)
from quilt_mcp.requirements.model import EPIC, KINDS, REQUIREMENT, Kind, format_reference
from quilt_mcp.requirements.overview_answers import ChangePage, Coverage, RelationshipPage, Summary
from quilt_mcp.requirements.parameters import (
    FilterTexts,
    can_name,
    list_fixed_values,
    parse_changes,
    parse_filters,
    parse_kinds,
    parse_view,
)
from quilt_mcp.requirements.settings import RequirementsSettings

if TYPE_CHECKING:
    from quilt_mcp.requirements.store import RequirementsStore

MAX_COMPLETIONS = 101
"""One more than the values that MCP allows in a completion, which tells whether there are more."""


class Requirements:
    """The requirements database of one app. It is opened on first use, so a server starts without SQLAlchemy."""

    def __init__(self, settings: RequirementsSettings) -> None:
        self._settings = settings
        self._store: RequirementsStore | None = None
        self._opening = Lock()

    def open(self) -> "RequirementsStore":
        """Return the store, which connects when it is used."""
        with self._opening:
            if self._store is None:
                module = import_module("quilt_mcp.requirements.store")
                self._store = cast("RequirementsStore", module.RequirementsStore(self._settings))
            return self._store

    async def close(self) -> None:
        """Close every connection that is not in use."""
        if self._store:
            self._store.close()


def current_store() -> "RequirementsStore":
    return current_app().part(Requirements).open()


def check_database() -> None:
    with current_store().database.reading():
        pass


def make_list(collection: Entities[object], parent: Entities[object] | None = None) -> Callable[..., object]:
    kind = collection.kind

    def read(
        entity_id: str | None = None,
        cursor: str | None = None,
        limit: str | None = None,
        view: str | None = None,
        **filters: Unpack[FilterTexts],
    ) -> dict[str, object]:
        selected = parse_filters(filters, [kind])
        owner = (parent.kind, entity_id) if parent and entity_id else None
        rows: Entities[object] = BRIEF[kind.name] if parse_view(view) else collection
        page = current_store().read_page(rows, cursor, limit, selected, owner)
        return {kind.table: page.rows, "count": page.total, "next_cursor": page.next_cursor}

    whole = f"The {collection.many} of {parent.one}" if parent else f"All {collection.many} that you may see"
    return _describe(read, collection.page, f"{whole}, 50 per page, with the total.")


def make_entity(collection: Entities[object]) -> Callable[..., object]:
    def read(entity_id: str) -> object:
        return current_store().read_entity(collection, entity_id)

    noun = collection.one.partition(" ")[2]
    example = format_reference(collection.kind, 1)
    return _describe(read, collection.answer, f"One {noun}, by UUID or reference ID ({example}).")


def make_trace(collection: Entities[object]) -> Callable[..., object]:
    def read(entity_id: str, depth: str | None = None, cursor: str | None = None, limit: str | None = None) -> object:
        return current_store().read_trace(collection.kind, entity_id, depth, cursor, limit)

    text = f"""What {collection.one} leads to: {collection.leads}.

    A page has 50 links. The trace has those within `depth` steps (1 to 10, by default 3), nearest first. It names
    cycles of relationships.
    """
    return _describe(read, Trace, text)


def _describe(read: Callable[..., object], answer: type, text: str) -> Callable[..., object]:
    read.__doc__ = text
    read.__annotations__["return"] = answer
    return read


def list_requirement_types(cursor: str | None = None, limit: str | None = None) -> RequirementTypePage:
    """All requirement types, 50 per page, with the total. The `type_id` of a requirement is the ID of one."""
    page = current_store().read_types(cursor, limit)
    return {"requirement_types": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def get_epic_hierarchy(
    entity_id: str, cursor: str | None = None, limit: str | None = None, view: str | None = None
) -> EpicHierarchy:
    """An epic with its user stories, each with its acceptance criteria and requirements.

    A page has at most 200 user stories, and ends before they would not fit into an answer.
    """
    return current_store().read_hierarchy(entity_id, cursor, limit, is_brief=parse_view(view))


def get_requirement_relationships(
    entity_id: str, cursor: str | None = None, limit: str | None = None
) -> RequirementRelationships:
    """A requirement with its relationships to other requirements in both directions, each with its type's name.

    A page has at most 500 relationships of each direction.
    """
    return current_store().read_relationships(entity_id, cursor, limit)


def search(
    query: str,
    cursor: str | None = None,
    limit: str | None = None,
    view: str | None = None,
    **filters: Unpack[FilterTexts],
) -> SearchPage:
    """Search all epics, user stories, requirements and acceptance criteria. The best match comes first.

    All words must occur; if few results have them, results with other forms of them or with most of them follow. The
    query can contain "a phrase", prefix*, -excluded, and OR between alternatives.
    """
    return current_store().search(query, cursor, limit, parse_filters(filters), is_brief=parse_view(view))


def complete_ids(kind: Kind, prefix: str) -> list[str]:
    return current_store().list_references(kind, prefix, MAX_COMPLETIONS)


def complete_filters(kind: Kind, parameter: str, prefix: str) -> list[str]:
    """Return the first values of a filter of the list of a kind, after those that are complete already."""
    head, comma, last = prefix.rpartition(",")
    if (fixed := list_fixed_values(parameter, kind)) is not None:
        return complete_several(fixed, prefix)
    found = current_store().list_filter_values(parameter, kind, last, 2 * MAX_COMPLETIONS)
    return [f"{head}{comma}{one}" for one in found if can_name(one)][:MAX_COMPLETIONS]


def complete_search_filters(parameter: str, prefix: str) -> list[str]:
    """Return the first values of a filter of the search. Only statuses depend on the kind."""
    if parameter == "kind":
        return complete_several([kind.name for kind in KINDS], prefix)
    if parameter == "epic":
        return complete_ids(EPIC, prefix)
    if parameter != "status":
        return complete_filters(REQUIREMENT, parameter, prefix)
    found = [complete_filters(kind, parameter, prefix) for kind in KINDS if kind.statuses]
    return list(dict.fromkeys(value for values in found for value in values))


def complete_queries(prefix: str) -> list[str]:
    """Return the first reference IDs of any kind that start with a prefix. Each is a query that finds its entity."""
    store = current_store()
    found = [store.list_references(kind, prefix, MAX_COMPLETIONS) for kind in KINDS]
    return [reference for references in found for reference in references][:MAX_COMPLETIONS]


def read_coverage(
    epic: str | None = None,
    project: str | None = None,
    category: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> Coverage:
    """Gaps: stories without criteria, criteria without requirements, requirements without a criterion, and orphans.

    Each with its number and its first 5 entities, or one `category` with 50 per page. For everything that the caller
    may see, or for one epic (EP-001) or one project (its ID or its name).
    """
    return current_store().read_coverage(epic, project, category, cursor, limit)


def list_changes(
    since: str | None = None,
    project: str | None = None,
    kind: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> ChangePage:
    """What changed last: epics, user stories, requirements and acceptance criteria in one list, 50 per page.

    `since`: an ISO 8601 date or time. `kind`: epic, user_story, acceptance_criteria, requirement.
    Deletions are not recorded.
    """
    page = current_store().read_changes(parse_changes(since, project), parse_kinds(kind), cursor, limit)
    return {"changes": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def read_summary(group: str | None = None, project: str | None = None, epic: str | None = None) -> Summary:
    """How many epics, user stories, acceptance criteria and requirements there are, by status and priority.

    `group`: status, priority, assignee, type, project. For all that you may see, or for one project or one epic.
    """
    return current_store().read_summary(group, project, epic)


def list_relationships(
    type: str | None = None,  # noqa: A002 - the parameter of the URI
    project: str | None = None,
    epic: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> RelationshipPage:
    """Which requirements depend on, block or contradict others, each in a sentence, 50 per page, with counts by type.

    `type`: depends_on, blocks, relates_to, conflicts_with, derives_from, or one of the database's own. With a project
    or an epic, at least one of the two requirements is in it.
    """
    page, types = current_store().read_all_relationships(type, project, epic, cursor, limit)
    return {"types": types, "relationships": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def complete_relationship_types(prefix: str) -> list[str]:
    return complete_several(current_store().list_relationship_types(), prefix)


def complete_one(values: Iterable[str], prefix: str) -> list[str]:
    return [value for value in values if value.startswith(prefix)]


def complete_several(values: Iterable[str], prefix: str) -> list[str]:
    """Return the values that start with the last part of a prefix, after those that are complete already."""
    head, comma, last = prefix.rpartition(",")
    return [f"{head}{comma}{value}" for value in complete_one(values, last)]


def list_projects(cursor: str | None = None, limit: str | None = None) -> ProjectPage:
    """The projects that you may see, 50 per page, with the total and the number of epics of each.

    A database of the earlier requirements system has none.
    """
    page = current_store().read_projects(cursor, limit)
    return {"projects": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def list_members(project: str, cursor: str | None = None, limit: str | None = None) -> MemberPage:
    """The members of a project that you may see, with their roles, 50 per page."""
    page = current_store().read_members(project, cursor, limit)
    return {"members": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def complete_project_ids(prefix: str) -> list[str]:
    """Return the first IDs of projects that start with a prefix."""
    page = current_store().read_projects(None, str(MAX_COMPLETIONS))
    return [one["id"] for one in page.rows if one["id"].startswith(prefix)]


def complete_projects(prefix: str) -> list[str]:
    """Return the first names of projects. A name can contain a comma, because only one is expected."""
    return current_store().list_filter_values("project", EPIC, prefix, MAX_COMPLETIONS)
