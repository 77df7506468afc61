"""Pages of requirements://search/{query}."""

import re
import sys
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.app.page_size import parse_limit
from quilt_mcp.core import cursors
from quilt_mcp.core.answers import iso
from quilt_mcp.requirements.access import Scope
from quilt_mcp.requirements.answers import SearchPage, SearchResult
from quilt_mcp.requirements.conditions import Selection
from quilt_mcp.requirements.search.candidates import select_candidates
from quilt_mcp.requirements.search.existing import select_existing
from quilt_mcp.requirements.search.facets import make_limits
from quilt_mcp.requirements.search.ranking import DEFAULT_LIMIT, MAX_LIMIT, Hit, rank
from quilt_mcp.requirements.search.text import ParsedQuery

_MATCHES: tuple[Literal["reference_id"], Literal["title"], Literal["text"]] = ("reference_id", "title", "text")
"""The value of `match` for each tier."""

# The best plan depends on the words. A plan that PostgreSQL keeps for a prepared statement does not take them into
# account: for a word that most entries contain, it reads all of them.
_PLAN_FOR_VALUES = select(func.set_config("plan_cache_mode", "force_custom_plan", True))  # noqa: FBT003 - in SQL


async def read_search_page(
    connection: AsyncConnection,
    *,
    query: str,
    parsed: ParsedQuery,
    cursor: str | None,
    limit: str | None,
    cap: int,
    scope: Scope,
    selection: Selection,
    is_existing: bool,
    most_projects: int,
) -> SearchPage:
    """Read a page of the entities that match a query and that the caller may see.

    Args:
        connection: to the database.
        query: the query, as given.
        parsed: the parsed query.
        cursor: of the page; None for the first.
        limit: results per page, 1 to 100.
        cap: maximum number of matches of each tier that are ranked, and of results that can be paged through.
        scope: what the caller may see.
        selection: the filters.
        is_existing: whether the database is one of the earlier requirements system, which has no search index.
        most_projects: as in `Thresholds`.

    Raises:
        InvalidTemplateVariable: the cursor or the limit is not valid.
    """
    size = parse_limit(limit, default=DEFAULT_LIMIT, largest=MAX_LIMIT)
    tag = cursors.compute_tag("search", query, scope, selection)
    offset = _parse_offset(cursors.decode(cursor, tag)) if cursor else 0
    if is_existing:
        candidates = select_existing(parsed, most=cap + 1, selection=selection)
    else:
        limits = make_limits(scope, selection, most_projects=most_projects)
        candidates = select_candidates(parsed, limits, connection.dialect.name, most=cap + 1) if limits else []
    if connection.dialect.name == "postgresql":
        await connection.execute(_PLAN_FOR_VALUES)
    found = await rank(connection, candidates, limit=size, offset=offset, cap=cap)
    return {
        "query": query,
        "results": [_build_result(hit) for hit in found.hits],
        "count": found.total,
        "count_is_exact": found.total_is_exact,
        "ignores": ["case"] if is_existing else ["case", "accents"],
        "next_cursor": cursors.encode(str(found.next_offset), tag) if found.next_offset is not None else None,
    }


def _parse_offset(text: str) -> int:
    """Return the offset of a cursor. For other text it is past the end of every list, which `rank` refuses."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else sys.maxsize


def _build_result(hit: Hit) -> SearchResult:
    return {
        "id": hit.entity_id,
        "reference_id": hit.reference_id,
        "type": hit.kind,
        "title": hit.title,
        "description": hit.description,
        "priority": hit.priority,
        "status": hit.status,
        "created_at": iso(hit.created_at),
        "match": _MATCHES[hit.tier],
        "relevance": round(hit.score, 3),
    }
