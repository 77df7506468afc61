"""Deletes workflows that have not changed for a long time, of all owners, in batches.

stores.py imports this module when it is needed, because it imports SQLAlchemy.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, bindparam, delete, select, tuple_

from quilt_mcp.core.tracing import calling
from quilt_mcp.workflows.tables import log, steps, workflows

BATCH = 100
"""The most that one transaction deletes, because other writers wait for it."""

_EXPIRED = (
    select(workflows.c.owner, workflows.c.id)
    .where(workflows.c.updated_at < bindparam("until"))
    .order_by(workflows.c.updated_at, workflows.c.owner, workflows.c.id)
    .limit(BATCH)
)
# Log entries refer to steps, and steps to workflows: so all three statements find the same workflows.
_STATEMENTS = [
    *(delete(table).where(tuple_(table.c.owner, table.c.workflow_id).in_(_EXPIRED)) for table in (log, steps)),
    delete(workflows).where(tuple_(workflows.c.owner, workflows.c.id).in_(_EXPIRED)),
]


def delete_expired(connection: Connection, days: int) -> int:
    """Delete at most one batch of workflows with their last change more than `days` ago; return how many."""
    until = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with calling("sql", "workflows"):
        return [connection.execute(statement, {"until": until}).rowcount for statement in _STATEMENTS][-1]
