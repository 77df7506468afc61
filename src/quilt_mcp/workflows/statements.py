"""The statements, which SQLite and PostgreSQL both take. Each is bound to an owner, `of_owner`."""

from sqlalchemy import (
    BindParameter,
    Delete,
    Integer,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from quilt_mcp.workflows.tables import log, steps, workflows

_OWNER: BindParameter[str] = bindparam("of_owner")
_WORKFLOW: BindParameter[str] = bindparam("of_workflow")
_KEYS = {"owner", "workflow_id", "position"}
_STAMPS = ("created_at", "updated_at", "started_at", "completed_at", "timestamp")
"""Columns with short texts that a caller does not choose."""
"""The columns that are not part of a workflow, a step or a log entry."""


def columns_of(table: Table) -> list[str]:
    """Return the names of the columns that are part of a workflow, a step or a log entry."""
    return [column.name for column in table.columns if column.name not in _KEYS]


def _select_items(table: Table) -> Select[tuple[object, ...]]:
    return select(*(table.c[name] for name in columns_of(table))).where(table.c.owner == _OWNER)


def _update(table: Table) -> Update:
    return update(table).where(table.c.owner == _OWNER)


class _Bytes(GenericFunction[int]):
    """The size of a text in bytes of UTF-8."""

    type = Integer()
    inherit_cache = True
    name = "octet_length"


@compiles(_Bytes, "sqlite")
def _count_bytes(element: _Bytes, compiler: SQLCompiler, **options: object) -> str:
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"  # octet_length needs SQLite 3.43


def _sum_sizes(table: Table) -> Select[int]:
    texts = [column for name, column in table.columns.items() if name not in {"owner", "position", *_STAMPS}]
    size = sum((func.coalesce(_Bytes(column), 0) for column in texts[1:]), func.coalesce(_Bytes(texts[0]), 0))
    return select(func.coalesce(func.sum(size), 0).label("number")).where(table.c.owner == _OWNER)


def _delete(table: Table) -> Delete:
    key = table.c.id if table is workflows else table.c.workflow_id
    return delete(table).where(table.c.owner == _OWNER, key == _WORKFLOW)


WORKFLOW = _select_items(workflows).where(workflows.c.id == _WORKFLOW)
STEPS = _select_items(steps).where(steps.c.workflow_id == _WORKFLOW).order_by(steps.c.position)
LOG = _select_items(log).where(log.c.workflow_id == _WORKFLOW).order_by(log.c.position)

IDS = (
    select(workflows.c.id)
    .where(workflows.c.owner == _OWNER)
    .order_by(workflows.c.updated_at.desc(), workflows.c.id)
    .limit(bindparam("number"))
)
COUNTS = (
    select(workflows.c.status, func.count().label("number"))
    .where(workflows.c.owner == _OWNER)
    .group_by(workflows.c.status)
)
OLDEST = (
    select(workflows.c.id)
    .where(workflows.c.owner == _OWNER)
    .order_by((workflows.c.status == "completed").desc(), workflows.c.updated_at, workflows.c.id)
    .limit(bindparam("number"))
)
"""The completed ones first."""
WORKFLOW_BYTES, STEP_BYTES, LOG_BYTES = _sum_sizes(workflows), _sum_sizes(steps), _sum_sizes(log)

_newest = IDS.with_only_columns(
    workflows.c.id, workflows.c.name, workflows.c.status, workflows.c.created_at, workflows.c.updated_at
).subquery()
NEWEST = (
    select(
        *_newest.c,
        func.count(steps.c.id).label("total_steps"),
        func.count().filter(steps.c.status == "completed").label("completed_steps"),
        func.count().filter(steps.c.status == "skipped").label("skipped_steps"),
    )
    .select_from(_newest)
    .outerjoin(steps, and_(steps.c.owner == _OWNER, steps.c.workflow_id == _newest.c.id))
    .group_by(*_newest.c)
    .order_by(_newest.c.updated_at.desc(), _newest.c.id)
)

# The parameters of these are also the columns to set.
INSERT_WORKFLOW, INSERT_STEP, INSERT_LOG_ENTRY = insert(workflows), insert(steps), insert(log)
UPDATE_WORKFLOW = _update(workflows).where(workflows.c.id == _WORKFLOW)
UPDATE_STEP = _update(steps).where(steps.c.workflow_id == _WORKFLOW, steps.c.id == bindparam("of_step"))
# Log entries refer to steps, and steps to workflows.
DELETE_LOG, DELETE_STEPS, DELETE_WORKFLOW = _delete(log), _delete(steps), _delete(workflows)

_of_log = and_(log.c.owner == _OWNER, log.c.workflow_id == _WORKFLOW)
TRIM_LOG = delete(log).where(
    _of_log,
    log.c.position
    <= select(log.c.position)
    .where(_of_log)
    .order_by(log.c.position.desc())
    .offset(bindparam("number"))
    .limit(1)
    .scalar_subquery(),
)
