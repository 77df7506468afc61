"""The requirements and workflows of the demo company, written into the databases of a world."""

import asyncio
import uuid
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import NullPool, create_engine, func, select, update

from quilt_mcp.app import App
from quilt_mcp.app.database.engines import make_file
from quilt_mcp.demo import records
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.settings import FILE_NAME, RequirementsSettings
from quilt_mcp.settings import Settings
from quilt_mcp.workflows import model as workflow_model
from quilt_mcp.workflows.model import LogEntry
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.store import WorkflowStore

PREBUILT = Path(__file__).with_name("requirements_sample.sqlite3.zlib")
"""The requirements as a database, because creating it takes a third of the time of entering a world."""
_REPLACED = "jonas_lindqvist"
"""Who lends his work to the caller of a demo of today."""
_NAMESPACE = uuid.UUID("0c1f8a56-53f0-4f0e-9a3c-8d2f5b7e6a11")


def make_id(of: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, of))


def write_sample(settings: RequirementsSettings) -> None:
    """Write the sample as the embedded database of these settings. Overwrite an existing file."""
    file = settings.data_dir / FILE_NAME
    make_file(file)
    file.write_bytes(zlib.decompress(PREBUILT.read_bytes()))


def refresh_sample(settings: RequirementsSettings, now: datetime, user: str) -> None:
    """Move the times of the sample so that its last change was an hour before now. Assign some of it to a user.

    The sample of a world has fixed times, so that its answers are the same in every run. A demo of today shows changes
    of the last days, and what is assigned to the caller.
    """
    file = settings.data_dir / FILE_NAME
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    with engine.begin() as connection:
        entities = [tables.BY_KIND[kind.name] for kind in model.KINDS]
        last = [connection.execute(select(func.max(table.c.updated_at))).scalar_one() for table in entities]
        shift = (now - timedelta(hours=1) - max(last)).total_seconds()
        for table in (*entities, tables.projects):
            moved = {
                name: func.strftime("%Y-%m-%d %H:%M:%S.000000", table.c[name], f"{shift:+.0f} seconds")
                for name in ("created_at", "updated_at")
            }
            connection.execute(update(table).values(moved))
        for table in (tables.epics, tables.user_stories, tables.requirements):
            assigned = update(table).where(table.c.assignee_id == make_id(_REPLACED))
            connection.execute(assigned.values(assignee_id=make_id(user)))


def write_workflows(settings: Settings, workflows: Iterable[records.Workflow]) -> None:
    """Write the workflows for the caller, as if they had been written with the workflow tools just now.

    They are one transaction. The workflow tools would need one for each change.
    """
    app, now = App(settings), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    given = list(workflows)
    if given:
        with app.active(), app.part(Workflows).writing() as store:
            for workflow in given:
                _write(store, workflow, now)
    with ThreadPoolExecutor(1) as pool:  # this thread can have a running event loop
        pool.submit(asyncio.run, app.close()).result()


def _write(store: WorkflowStore, sample: records.Workflow, now: str) -> None:
    workflow = workflow_model.create_workflow(sample.id, sample.name, sample.description, None, now)
    store.save(workflow)
    for one in sample.steps:
        step = workflow_model.create_step(one.id, one.description, "manual", list(one.dependencies), None, now)
        workflow = workflow_model.set_step(workflow, step, now)
        store.save(workflow, step)
    for one in sample.steps:
        for status in one.statuses:
            message = one.message if status == one.statuses[-1] else None
            before = next(step for step in workflow["steps"] if step["id"] == one.id)
            changed = workflow_model.set_status(before, status, now)
            workflow = workflow_model.set_step(workflow, changed, now)
            change = f"{before['status']} -> {status}"
            entry: LogEntry = {"timestamp": now, "step_id": one.id, "status_change": change, "message": message}
            store.save(workflow, changed, entry)
