"""The workflows of the demo company, written into the file of a demo world."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel

from quilt_mcp.app import App
from quilt_mcp.app.domain import Scene
from quilt_mcp.workflows import model as workflow_model
from quilt_mcp.workflows.model import LogEntry, StepStatus
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.store import WorkflowStore


@dataclass(frozen=True)
class SampleStep:
    """A step of a workflow, the steps that it depends on, and the statuses that it has had."""

    id: str
    description: str
    dependencies: tuple[str, ...] = ()
    statuses: tuple[StepStatus, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class Sample:
    """A workflow of the signed-in user of a demo world."""

    id: str
    name: str
    description: str
    steps: tuple[SampleStep, ...]


SAMPLES = (
    Sample(
        "run-250519-intake",
        "Intake of run 250519",
        "Bring one sequencing run from the instrument into the catalog.",
        (
            SampleStep("copy", "Copy the run's files to acme-raw-sequencing", (), ("in_progress", "completed")),
            SampleStep("validate", "Check the files against the sample sheet", ("copy",), ("in_progress", "completed")),
            SampleStep("package", "Push the package runs/250519", ("validate",), ("in_progress", "completed")),
        ),
    ),
    Sample(
        "quarterly-aggregation",
        "Quarterly aggregation",
        "Aggregate the quarter's runs into one package of results.",
        (
            SampleStep(
                "select-runs", "Choose the runs of the quarter", (), ("in_progress", "completed"), "14 runs chosen"
            ),
            SampleStep("quality-check", "Drop samples below Q30", ("select-runs",), ("in_progress", "completed")),
            SampleStep(
                "aggregate", "Merge the gene counts", ("quality-check",), ("in_progress",), "9 of 14 runs merged"
            ),
            SampleStep("compare", "Compare with the last quarter", ("aggregate",)),
            SampleStep("publish", "Push the package rnaseq/quarterly", ("aggregate", "compare")),
        ),
    ),
)


def fill_demo(scene: Scene) -> None:
    """Write the workflows, unless the company has no data."""
    write_workflows(scene.settings, () if scene.is_empty else SAMPLES)


def write_workflows(settings: BaseModel, workflows: Iterable[Sample]) -> None:
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


def _write(store: WorkflowStore, sample: Sample, now: str) -> None:
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
