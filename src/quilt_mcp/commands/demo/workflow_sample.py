"""Writes the workflows of the demo company in one transaction. The workflow tools would need one for each change."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from quilt_mcp.app import App
from quilt_mcp.commands.demo import records
from quilt_mcp.settings import Settings
from quilt_mcp.workflows import model
from quilt_mcp.workflows.model import LogEntry
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.store import WorkflowStore


def write_workflows(settings: Settings, workflows: Iterable[records.Workflow]) -> None:
    """Write the workflows for the caller, as if they had been written with the workflow tools just now."""
    app, now = App(settings), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    given = list(workflows)
    if given:
        with app.active(), app.part(Workflows).writing() as store:
            for workflow in given:
                _write(store, workflow, now)
    with ThreadPoolExecutor(1) as pool:  # this thread can have a running event loop
        pool.submit(asyncio.run, app.close()).result()


def _write(store: WorkflowStore, sample: records.Workflow, now: str) -> None:
    workflow = model.create_workflow(sample.id, sample.name, sample.description, None, now)
    store.save(workflow)
    for one in sample.steps:
        step = model.create_step(one.id, one.description, "manual", list(one.dependencies), None, now)
        workflow = model.set_step(workflow, step, now)
        store.save(workflow, step)
    for one in sample.steps:
        for name in one.statuses:
            last = name == one.statuses[-1]
            message = one.message if last else None
            status, _ = model.parse_update(name, message, None, None)
            before = next(step for step in workflow["steps"] if step["id"] == one.id)
            changed = model.set_status(before, status, now)
            workflow = model.set_step(workflow, changed, now)
            change = f"{before['status']} -> {status}"
            entry: LogEntry = {"timestamp": now, "step_id": one.id, "status_change": change, "message": message}
            store.save(workflow, changed, entry)
