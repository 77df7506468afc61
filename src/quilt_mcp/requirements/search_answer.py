"""What requirements://search/{query} answers."""

import re
import sys
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp import cursors
from quilt_mcp.requirements.access import Scope
from quilt_mcp.requirements.ids import parse_limit
from quilt_mcp.requirements.search_existing import search_existing
from quilt_mcp.requirements.search_sql import DEFAULT_LIMIT, MAX_LIMIT, Hit, search
from quilt_mcp.requirements.search_text import ParsedQuery
from quilt_mcp.services.timestamps import iso

MATCHES = ("reference_id", "title", "text")
"""Where a hit of each tier has what was asked for."""


async def answer(  # noqa: PLR0913 - all but the connection are keyword-only
    connection: AsyncConnection,
    *,
    query: str,
    parsed: ParsedQuery,
    cursor: str | None,
    limit: str | None,
    cap: int,
    scope: Scope,
    is_existing: bool,
) -> dict[str, Any]:
    """A page of hits, the best first, with their number."""
    size = parse_limit(limit, default=DEFAULT_LIMIT, largest=MAX_LIMIT)
    tag = cursors.tag_of("search", query, scope)
    offset = _offset(cursors.decode(cursor, tag)) if cursor else 0
    if is_existing:
        found = await search_existing(connection, parsed, limit=size, offset=offset, cap=cap)
    else:
        found = await search(connection, parsed, scope=scope, limit=size, offset=offset, cap=cap)
    return {
        "query": query,
        "results": [_result(hit) for hit in found.hits],
        "count": found.total,
        "count_is_exact": found.total_is_exact,
        "next_cursor": cursors.encode(str(found.next_offset), tag) if found.next_offset is not None else None,
    }


def _offset(text: str) -> int:
    """The offset in a cursor; one that is none is past the end of every list, which the search refuses."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else sys.maxsize


def _result(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.entity_id,
        "reference_id": hit.reference_id,
        "type": hit.kind,
        "title": hit.title,
        "description": hit.description,
        "priority": hit.priority,
        "status": hit.status,
        "created_at": iso(hit.created_at),
        "match": MATCHES[hit.tier],
        "relevance": round(hit.score, 3),
    }
