"""requirements://: epics, user stories, requirements and acceptance criteria.

Light: the database comes in through `runtime_context.requirements`, on the first read.
"""

from typing import Any

from quilt_mcp import runtime_context
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, BY_SEGMENT, EPIC, KINDS, REQUIREMENT, USER_STORY

COMPLETED = 100
"""How many values completion offers: what MCP allows."""


async def epics(cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """Complete list of all epics in the system: those that you may see, 50 a page, with their number."""
    return await runtime_context.requirements().collection(EPIC, cursor, limit)


async def user_stories(cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """Complete list of all user stories in the system: those that you may see, 50 a page, with their number."""
    return await runtime_context.requirements().collection(USER_STORY, cursor, limit)


async def requirements(cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """Complete list of all requirements in the system: those that you may see, 50 a page, with their number."""
    return await runtime_context.requirements().collection(REQUIREMENT, cursor, limit)


async def acceptance_criteria(cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """Complete list of all acceptance criteria in the system: those that you may see, 50 a page, with their number."""
    return await runtime_context.requirements().collection(ACCEPTANCE_CRITERIA, cursor, limit)


async def requirement_types(cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """The types that a requirement can have: what `type_id` of a requirement refers to."""
    return await runtime_context.requirements().types(cursor, limit)


async def epic(entity_id: str) -> dict[str, Any]:
    """One epic, by UUID or reference id (EP-001)."""
    return await runtime_context.requirements().entity(EPIC, entity_id)


async def user_story(entity_id: str) -> dict[str, Any]:
    """One user story, by UUID or reference id (US-001)."""
    return await runtime_context.requirements().entity(USER_STORY, entity_id)


async def requirement(entity_id: str) -> dict[str, Any]:
    """One requirement, by UUID or reference id (REQ-001)."""
    return await runtime_context.requirements().entity(REQUIREMENT, entity_id)


async def acceptance_criterion(entity_id: str) -> dict[str, Any]:
    """One acceptance criterion, by UUID or reference id (AC-001)."""
    return await runtime_context.requirements().entity(ACCEPTANCE_CRITERIA, entity_id)


async def epic_hierarchy(entity_id: str) -> dict[str, Any]:
    """An epic with its user stories, and each of these with its acceptance criteria and requirements."""
    return await runtime_context.requirements().hierarchy(entity_id)


async def epic_user_stories(entity_id: str, cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """The user stories of an epic, 50 a page, with their number."""
    return await runtime_context.requirements().children(EPIC, USER_STORY, entity_id, cursor, limit)


async def user_story_requirements(
    entity_id: str, cursor: str | None = None, limit: str | None = None
) -> dict[str, Any]:
    """The requirements of a user story, 50 a page, with their number."""
    return await runtime_context.requirements().children(USER_STORY, REQUIREMENT, entity_id, cursor, limit)


async def user_story_acceptance_criteria(
    entity_id: str,
    cursor: str | None = None,
    limit: str | None = None,
) -> dict[str, Any]:
    """The acceptance criteria of a user story, 50 a page, with their number."""
    return await runtime_context.requirements().children(USER_STORY, ACCEPTANCE_CRITERIA, entity_id, cursor, limit)


async def requirement_relationships(entity_id: str) -> dict[str, Any]:
    """A requirement with its relationships to others in both directions, each with the name of its type."""
    return await runtime_context.requirements().relationships(entity_id)


async def search(query: str, cursor: str | None = None, limit: str | None = None) -> dict[str, Any]:
    """Search across all epics, user stories, requirements and acceptance criteria, the best match first.

    Words must all occur; "a phrase", prefix*, -without, and OR between alternatives.
    """
    return await runtime_context.requirements().search(query, cursor, limit)


async def reference_ids(template: str, prefix: str) -> list[str]:
    """The first reference ids that begin so, for {id} of a template such as requirements://epics/{id}."""
    kind = BY_SEGMENT[template.removeprefix("requirements://").partition("/")[0]]
    return await runtime_context.requirements().references(kind, prefix, COMPLETED)


async def queries(_template: str, prefix: str) -> list[str]:
    """The first reference ids of each kind that begin so: a search for one finds the entity itself first."""
    store = runtime_context.requirements()
    found = [await store.references(kind, prefix, COMPLETED) for kind in KINDS]
    return [reference for references in found for reference in references][:COMPLETED]
