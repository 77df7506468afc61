"""The service functions of traces, coverage and projects."""

from quilt_mcp.requirements.answers import ChangePage, Coverage, ProjectPage, Trace
from quilt_mcp.requirements.filters import parse_changes, parse_kinds
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, EPIC, KINDS, REQUIREMENT, USER_STORY
from quilt_mcp.requirements.parameters import CATEGORIES, MAX_DEPTH
from quilt_mcp.requirements.service import MAX_COMPLETIONS
from quilt_mcp.requirements.stores import current_store


async def trace_epic(
    entity_id: str, depth: str | None = None, cursor: str | None = None, limit: str | None = None
) -> Trace:
    """What an epic leads to: its descendants, and the requirements that these have relationships with.

    A page has 50 links. The trace has those within `depth` steps (1 to 10, by default 3), nearest first.
    """
    return await current_store().read_trace(EPIC, entity_id, depth, cursor, limit)


async def trace_user_story(
    entity_id: str, depth: str | None = None, cursor: str | None = None, limit: str | None = None
) -> Trace:
    """What a user story leads to: its epic, its children, and the requirements that these have relationships with.

    A page has 50 links. The trace has those within `depth` steps (1 to 10, by default 3), nearest first.
    """
    return await current_store().read_trace(USER_STORY, entity_id, depth, cursor, limit)


async def trace_requirement(
    entity_id: str, depth: str | None = None, cursor: str | None = None, limit: str | None = None
) -> Trace:
    """What a requirement leads to: up to its epic, to its acceptance criterion, and along relationships both ways.

    A page has 50 links. The trace has those within `depth` steps (1 to 10, by default 3), nearest first. It names
    cycles of relationships.
    """
    return await current_store().read_trace(REQUIREMENT, entity_id, depth, cursor, limit)


async def trace_acceptance_criterion(
    entity_id: str, depth: str | None = None, cursor: str | None = None, limit: str | None = None
) -> Trace:
    """What an acceptance criterion leads to: up to its epic, and the requirements that refer to it, with theirs.

    A page has 50 links. The trace has those within `depth` steps (1 to 10, by default 3), nearest first.
    """
    return await current_store().read_trace(ACCEPTANCE_CRITERIA, entity_id, depth, cursor, limit)


async def read_coverage(
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
    return await current_store().read_coverage(epic, project, category, cursor, limit)


async def list_changes(
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
    page = await current_store().read_changes(parse_changes(since, project), parse_kinds(kind), cursor, limit)
    return {"changes": page.rows, "count": page.total, "next_cursor": page.next_cursor}


def complete_kinds(prefix: str) -> list[str]:
    """Return the kinds that start with a prefix, after those that are complete already."""
    head, comma, last = prefix.rpartition(",")
    return [f"{head}{comma}{kind.name}" for kind in KINDS if kind.name.startswith(last)]


async def list_projects(cursor: str | None = None, limit: str | None = None) -> ProjectPage:
    """The projects that you may see, 50 per page, with the total and the number of epics of each.

    A database of the earlier requirements system has none.
    """
    page = await current_store().read_projects(cursor, limit)
    return {"projects": page.rows, "count": page.total, "next_cursor": page.next_cursor}


async def complete_projects(prefix: str) -> list[str]:
    """Return the first names of projects that start with a prefix."""
    return await current_store().list_project_names(prefix, MAX_COMPLETIONS)


def complete_categories(prefix: str) -> list[str]:
    """Return the categories of coverage that start with a prefix."""
    return [category for category in CATEGORIES if category.startswith(prefix)]


def complete_depths(prefix: str) -> list[str]:
    """Return the depths of a trace that start with a prefix."""
    return [str(depth) for depth in range(1, MAX_DEPTH + 1) if str(depth).startswith(prefix)]
