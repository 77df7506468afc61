"""The queries of views that Athena has created. Athena stores them in Base64, in a comment."""

import base64
import binascii
import json
import re

from quilt_mcp.services.athena_responses import AWSTable

VIEW = "VIRTUAL_VIEW"
MAX_SQL = 20_000
_COMMENT = re.compile(r"\s*/\*\s*Presto View:\s*([A-Za-z0-9+/=]+)\s*\*/\s*")


def read_view_sql(table: AWSTable) -> str | None:
    """Return the query of a view; None for another table, and for a view of another form than Athena's.

    A view that another engine has created can have its query as plain text. Athena cannot run it, so it is left out. A
    view of several dialects has a query for each engine.
    """
    for one in table.get("ViewDefinition", {}).get("Representations", []):
        if one.get("Dialect") == "ATHENA" and one.get("ViewOriginalText"):
            return one["ViewOriginalText"]
    found = _COMMENT.fullmatch(table.get("ViewOriginalText", "")) if table.get("TableType") == VIEW else None
    if found is None:
        return None
    try:
        definition = json.loads(base64.b64decode(found[1], validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    sql = definition.get("originalSql") if isinstance(definition, dict) else None
    return sql if isinstance(sql, str) else None
