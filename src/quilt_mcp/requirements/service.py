"""The service functions of requirements:// resources. The first read opens the database; see `stores.py`."""

from typing import Unpack

from quilt_mcp.requirements import shapes
from quilt_mcp.requirements.answers import (
    AcceptanceCriterion,
    AcceptanceCriterionPage,
    Epic,
    EpicHierarchy,
    EpicPage,
    Requirement,
    RequirementPage,
    RequirementRelationships,
    RequirementTypePage,
    SearchPage,
    UserStory,
    UserStoryPage,
)
from quilt_mcp.requirements.filters import FilterTexts, list_fixed_values, parse_filters
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, EPIC, KINDS, REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.stores import current_store

MAX_COMPLETIONS = 101
"""One more than the values that MCP allows in a completion, which tells whether there are more."""


async def list_epics(cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]) -> EpicPage:
    """All epics that you may see, 50 per page, with the total."""
    page = await current_store().read_page(shapes.EPIC, cursor, limit, parse_filters(filters, [EPIC]))
    return {"epics": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def list_user_stories(
    cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> UserStoryPage:
    """All user stories that you may see, 50 per page, with the total."""
    page = await current_store().read_page(shapes.USER_STORY, cursor, limit, parse_filters(filters, [USER_STORY]))
    return {"user_stories": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def list_requirements(
    cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> RequirementPage:
    """All requirements that you may see, 50 per page, with the total."""
    page = await current_store().read_page(shapes.REQUIREMENT, cursor, limit, parse_filters(filters, [REQUIREMENT]))
    return {"requirements": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def list_acceptance_criteria(
    cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> AcceptanceCriterionPage:
    """All acceptance criteria that you may see, 50 per page, with the total."""
    page = await current_store().read_page(
        shapes.ACCEPTANCE_CRITERION, cursor, limit, parse_filters(filters, [ACCEPTANCE_CRITERIA])
    )
    return {"acceptance_criteria": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def list_requirement_types(cursor: str | None = None, limit: str | None = None) -> RequirementTypePage:
    """All requirement types, 50 per page, with the total. The `type_id` of a requirement is the ID of one."""
    page = await current_store().read_types(cursor, limit)
    return {"requirement_types": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def get_epic(entity_id: str) -> Epic:
    """One epic, by UUID or reference ID (EP-001)."""
    return await current_store().read_entity(shapes.EPIC, entity_id)


async def get_user_story(entity_id: str) -> UserStory:
    """One user story, by UUID or reference ID (US-001)."""
    return await current_store().read_entity(shapes.USER_STORY, entity_id)


async def get_requirement(entity_id: str) -> Requirement:
    """One requirement, by UUID or reference ID (REQ-001)."""
    return await current_store().read_entity(shapes.REQUIREMENT, entity_id)


async def get_acceptance_criterion(entity_id: str) -> AcceptanceCriterion:
    """One acceptance criterion, by UUID or reference ID (AC-001)."""
    return await current_store().read_entity(shapes.ACCEPTANCE_CRITERION, entity_id)


async def get_epic_hierarchy(entity_id: str, cursor: str | None = None, limit: str | None = None) -> EpicHierarchy:
    """An epic with its user stories, each with its acceptance criteria and requirements.

    A page has at most 200 user stories, and ends before the children would exceed 2,000 of one kind.
    """
    return await current_store().read_hierarchy(entity_id, cursor, limit)


async def list_stories_of_epic(
    entity_id: str, cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> UserStoryPage:
    """The user stories of an epic, 50 per page, with the total."""
    parsed = parse_filters(filters, [USER_STORY])
    page = await current_store().read_children(EPIC, shapes.USER_STORY, entity_id, cursor, limit, parsed)
    return {"user_stories": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def list_requirements_of_story(
    entity_id: str, cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> RequirementPage:
    """The requirements of a user story, 50 per page, with the total."""
    parsed = parse_filters(filters, [REQUIREMENT])
    page = await current_store().read_children(USER_STORY, shapes.REQUIREMENT, entity_id, cursor, limit, parsed)
    return {"requirements": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def list_acceptance_criteria_of_story(
    entity_id: str, cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> AcceptanceCriterionPage:
    """The acceptance criteria of a user story, 50 per page, with the total."""
    parsed = parse_filters(filters, [ACCEPTANCE_CRITERIA])
    page = await current_store().read_children(
        USER_STORY, shapes.ACCEPTANCE_CRITERION, entity_id, cursor, limit, parsed
    )
    return {"acceptance_criteria": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def get_requirement_relationships(
    entity_id: str, cursor: str | None = None, limit: str | None = None
) -> RequirementRelationships:
    """A requirement with its relationships to other requirements in both directions, each with its type's name.

    A page has at most 500 relationships of each direction.
    """
    return await current_store().read_relationships(entity_id, cursor, limit)


async def search(
    query: str, cursor: str | None = None, limit: str | None = None, **filters: Unpack[FilterTexts]
) -> SearchPage:
    """Search all epics, user stories, requirements and acceptance criteria. The best match comes first.

    All words must occur. The query can contain "a phrase", prefix*, -excluded, and OR between alternatives.
    """
    return await current_store().search(query, cursor, limit, parse_filters(filters))


async def complete_ids(kind: Kind, prefix: str) -> list[str]:
    """Return the first reference IDs of a kind that start with a prefix."""
    return await current_store().list_references(kind, prefix, MAX_COMPLETIONS)


async def complete_filters(kind: Kind, parameter: str, prefix: str) -> list[str]:
    """Return the first values of a filter of the list of a kind, after those that are complete already."""
    head, comma, last = prefix.rpartition(",")
    if parameter == "project":
        found = await current_store().list_project_names(last, MAX_COMPLETIONS)
    elif (fixed := list_fixed_values(parameter, kind)) is not None:
        found = [one for one in fixed if one.startswith(last)]
    else:
        found = await current_store().list_filter_values(parameter, kind, last, MAX_COMPLETIONS)
    return [f"{head}{comma}{one}" for one in found]


async def complete_search_filters(parameter: str, prefix: str) -> list[str]:
    """Return the first values of a filter of the search. Only statuses depend on the kind."""
    if parameter != "status":
        return await complete_filters(REQUIREMENT, parameter, prefix)
    found = [await complete_filters(kind, parameter, prefix) for kind in KINDS if kind.statuses]
    return list(dict.fromkeys(value for values in found for value in values))


async def complete_queries(prefix: str) -> list[str]:
    """Return the first reference IDs of any kind that start with a prefix. Each is a query that finds its entity."""
    store = current_store()
    found = [await store.list_references(kind, prefix, MAX_COMPLETIONS) for kind in KINDS]
    return [reference for references in found for reference in references][:MAX_COMPLETIONS]
