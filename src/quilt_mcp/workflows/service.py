"""The workflow:// resources, and the functions of the workflow tools.

Repeating the last write changes nothing and returns the same. All functions raise Unavailable if the database cannot be
reached or is busy for too long, and ResourceExecutionError if it cannot be used; those that write raise
WorkflowRuleError for an argument that is not valid, and for more than the caller's quota.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Annotated,
    NotRequired,  # pydantic needs it before Python 3.12
    cast,
    get_args,
)
from urllib.parse import quote

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.app import current_app, identity
from quilt_mcp.core.answers import JSONObject as AnyObject
from quilt_mcp.core.cursors import compute_tag, decode_values, encode_values, parse_limit
from quilt_mcp.core.cuts import fit
from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.core.parameters import parse_choice
from quilt_mcp.core.uris import VALUE_PATTERN
from quilt_mcp.workflows import model
from quilt_mcp.workflows.model import (
    DEPENDENCIES,
    NAME_LENGTH,
    STEPS,
    TEXT_LENGTH,
    LogEntry,
    Step,
    StepStatus,
    Workflow,
    WorkflowRuleError,
    WorkflowStatus,
    name_some,
)
from quilt_mcp.workflows.settings import WorkflowSettings

if TYPE_CHECKING:
    from quilt_mcp.workflows.store import Summary, WorkflowDatabase, WorkflowStore

RETENTION_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Workflows:
    """Opens the workflow database when it is first used, so that a server starts without SQLAlchemy.

    Args:
        settings: of the workflow domain.
        queue_seconds: as for `WorkflowDatabase`.
        retention_seconds: the minimum time between two deletions of old workflows, while none are left.
    """

    def __init__(
        self, settings: WorkflowSettings, *, queue_seconds: float = 25.0, retention_seconds: float = RETENTION_SECONDS
    ) -> None:
        self._settings, self._retention_seconds = settings, retention_seconds
        self._queue_seconds = queue_seconds
        self._database: WorkflowDatabase | None = None
        self._opening = Lock()
        self._retain_at = 0.0

    @contextmanager
    def reading(self) -> Iterator["WorkflowStore"]:
        owner = identity.current().key
        with self._open().reading(owner) as store:
            yield store

    @contextmanager
    def writing(self) -> Iterator["WorkflowStore"]:
        owner = identity.current().key
        with self._open().writing(owner) as store:
            yield store
        self._delete_expired()

    def check(self) -> None:
        """Check the database in which machines share workflows. Does nothing if workflows are in a file."""
        if self._settings.workflows_url is not None:
            with self._open().reading(""):
                pass

    async def close(self) -> None:
        if self._database:
            self._database.close()

    def _delete_expired(self) -> None:
        """Delete one batch of workflows that are too old, but not soon after the last one. Failures are only logged."""
        days = self._settings.workflow_retention_days
        with self._opening:
            if days is None or time.monotonic() < self._retain_at:
                return
            self._retain_at = time.monotonic() + self._retention_seconds
        retention = import_module("quilt_mcp.workflows.store")
        try:
            with self._open().changing() as connection:
                number = retention.delete_expired(connection, days)
        except ResourceFailure as failure:
            logger.warning("workflows that are too old were not deleted: %s", failure.message)
            return
        if number:
            logger.info("%d workflows were deleted: they have not changed for %d days", number, days)
        if number == retention.BATCH:
            self._retain_at = 0.0  # there can be more

    def _open(self) -> "WorkflowDatabase":
        with self._opening:
            if self._database is None:
                module = import_module("quilt_mcp.workflows.store")
                self._database = cast(
                    "WorkflowDatabase", module.WorkflowDatabase(self._settings, queue_seconds=self._queue_seconds)
                )
            return self._database


STATUSES: tuple[WorkflowStatus, ...] = get_args(WorkflowStatus)
_EXAMPLES = 5
_NAMED = 5
RECENT_ENTRIES = 5
MANUAL = "manual"
_ID = f"^{VALUE_PATTERN}$"


# Short, because each conversation contains these texts. For the same reason null is valid, because some models send it,
# but not declared, and ids that must exist have no pattern.
WorkflowId = Annotated[str, Field(description="The workflow.")]
StepId = Annotated[str, Field(description="The step.")]
NewWorkflowId = Annotated[str, Field(description="The workflow.", pattern=_ID)]
NewStepId = Annotated[str, Field(description="The step.", pattern=_ID)]
Name = Annotated[str, Field(description="Its title.", min_length=1, max_length=NAME_LENGTH)]
Purpose = Annotated[
    Annotated[str, Field(max_length=TEXT_LENGTH)] | SkipJsonSchema[None], Field(description="Its purpose.")
]
Task = Annotated[str, Field(description="What to do.", min_length=1, max_length=TEXT_LENGTH)]
StepType = Annotated[
    Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)] | SkipJsonSchema[None],
    Field(description="Who does it."),
]
Dependencies = Annotated[list[str], Field(max_length=DEPENDENCIES)] | SkipJsonSchema[None]
JSONObject = Annotated[AnyObject | SkipJsonSchema[None], Field(description="Up to 4 KiB.")]


class NewStep(TypedDict):
    """A step."""

    # without texts and limits: each conversation contains its schema, workflow_add_step has them, and they are checked
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # pydantic reads it

    step_id: str
    description: str
    step_type: NotRequired[str | SkipJsonSchema[None]]
    dependencies: NotRequired[list[str] | SkipJsonSchema[None]]
    metadata: NotRequired[AnyObject | SkipJsonSchema[None]]


NewSteps = Annotated[list[NewStep], Field(max_length=STEPS)] | SkipJsonSchema[None]
Status = Annotated[StepStatus, Field(description="The new status.")]
Text = Annotated[str, Field(max_length=TEXT_LENGTH)] | SkipJsonSchema[None]


class ListedProgress(TypedDict):
    """How far a workflow is."""

    completed_steps: int
    """The number of completed steps."""
    skipped_steps: int
    """The number of skipped steps."""
    total_steps: int
    """The number of all steps."""
    percentage: float
    """Of the steps that are completed or skipped, 0 to 100, to one decimal; 0 if there are no steps."""


class ListedWorkflow(TypedDict):
    """A workflow in the list of all."""

    id: str
    """The ID that its creator chose."""
    name: str
    """For a person."""
    status: WorkflowStatus
    """It follows from the steps. With a failed one, `failing` if others are in progress or can start, else `failed`."""
    progress: ListedProgress
    """How many steps are done."""
    created_at: str
    """When it was created, ISO 8601 in UTC."""
    updated_at: str
    """When it or one of its steps last changed, ISO 8601 in UTC."""
    uri: str
    """The URI of its status, with its steps."""


class WorkflowList(TypedDict):
    """A page of the workflows, most recently updated first, and how many there are."""

    workflows: list[ListedWorkflow]
    """Those of this page."""
    status: WorkflowStatus | None
    """They have this status; null for any."""
    count: int
    """The number of workflows of all pages."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""
    total_workflows: int
    """The number of all."""
    active_workflows: int
    """The number with the status created, in_progress or failing."""
    completed_workflows: int
    """The number with the status completed."""


class WorkflowAnswer(Workflow):
    """A workflow with its steps in the order in which they were added, and its newest log entries, oldest first."""

    total_steps: int
    """The number of all steps."""
    completed_steps: int
    """The number of completed steps."""
    failed_steps: int
    """The number of failed steps."""
    skipped_steps: int
    """The number of skipped steps."""


class Progress(ListedProgress):
    """The numbers of steps with each status."""

    failed_steps: int
    """The number of failed steps."""
    in_progress_steps: int
    """The number of steps in progress."""
    pending_steps: int
    """The number of pending steps."""


class WorkflowReport(TypedDict):
    """The full status of a workflow."""

    workflow: WorkflowAnswer
    """The workflow."""
    progress: Progress
    """How many steps are done."""
    next_available_steps: list[str]
    """The IDs of the pending steps with finished dependencies."""
    can_proceed: bool
    """Whether there are any."""
    recent_activity: list[LogEntry]
    """The last log entries, at most 5."""
    recommendations: list[str]
    """What to do next."""


class ChangedWorkflow(TypedDict):
    """What a workflow is after a change."""

    id: str
    name: str
    status: WorkflowStatus


class WorkflowChange(TypedDict):
    """What a tool answers: the changed step, and what is next. The resource has all steps."""

    workflow: ChangedWorkflow
    step: Step | None
    """The changed step; null after the creation of a workflow."""
    progress: Progress
    """How many steps are done."""
    next_available_steps: list[str]
    """The IDs of the pending steps with finished dependencies."""
    can_proceed: bool
    """Whether there are any."""
    recommendations: list[str]
    """What to do next."""
    uri: str
    """The URI of the whole status."""


def describe_change(found: WorkflowReport, step_id: str | None) -> WorkflowChange:
    """Return what a change of a workflow, or of one of its steps, leads to."""
    workflow = found["workflow"]
    return {
        "workflow": {"id": workflow["id"], "name": workflow["name"], "status": workflow["status"]},
        "step": next((one for one in workflow["steps"] if one["id"] == step_id), None),
        "progress": found["progress"],
        "next_available_steps": found["next_available_steps"],
        "can_proceed": found["can_proceed"],
        "recommendations": found["recommendations"],
        "uri": _make_uri(workflow["id"]),
    }


def _make_uri(workflow_id: str) -> str:
    return f"workflow://workflows/{quote(workflow_id, safe='')}/status"


class WorkflowDeletion(TypedDict):
    """`deleted` is false if the caller had no such workflow. `remaining_workflows` is how many the caller has now."""

    workflow_id: str
    deleted: bool
    remaining_workflows: int


def report(workflow: Workflow) -> WorkflowReport:
    steps = workflow["steps"]
    count = Counter(step["status"] for step in steps)
    ready = model.list_ready(steps)
    progress: Progress = {
        "total_steps": len(steps),
        "completed_steps": count["completed"],
        "skipped_steps": count["skipped"],
        "failed_steps": count["failed"],
        "in_progress_steps": count["in_progress"],
        "pending_steps": count["pending"],
        "percentage": _calculate_percentage(count["completed"] + count["skipped"], len(steps)),
    }
    return {
        "workflow": {
            **workflow,
            "total_steps": len(steps),
            "completed_steps": count["completed"],
            "failed_steps": count["failed"],
            "skipped_steps": count["skipped"],
        },
        "progress": progress,
        "next_available_steps": ready,
        "can_proceed": bool(ready),
        "recent_activity": workflow["execution_log"][-RECENT_ENTRIES:],
        "recommendations": list(_recommend(workflow, ready)),
    }


def _calculate_percentage(done: int, total: int) -> float:
    return round(100 * done / total, 1) if total else 0.0


def _recommend(workflow: Workflow, ready: list[str]) -> Iterable[str]:
    failed = [step["id"] for step in workflow["steps"] if step["status"] == "failed"]
    running = [step["id"] for step in workflow["steps"] if step["status"] == "in_progress"]
    if not workflow["steps"]:
        yield "Add the first step with workflow_add_step."
    if failed:
        yield (
            f"Failed: {name_some(failed)}. Read the error_message of each and fix the cause. Then use "
            "workflow_update_step: in_progress to retry, or skipped to continue without it."
        )
    if running:
        yield (
            f"In progress: {name_some(running)}. When one ends, set it to completed or failed with "
            "workflow_update_step."
        )
    if ready:
        yield f"Ready to start: {name_some(ready)}. When one starts, set it to in_progress with workflow_update_step."
    if workflow["status"] == "completed":
        yield "Every step is completed or skipped. Adding a step with workflow_add_step reopens the workflow."


def _check_number(store: "WorkflowStore") -> None:
    """Check that the caller can have another workflow. Writers take turns, so no other one is created meanwhile."""
    most = current_app().settings_as(WorkflowSettings).workflows_per_caller
    if not identity.current().is_local and (number := store.count_by_status().total()) >= most:
        raise WorkflowRuleError(f"You have {number} workflows. Your quota is {most}.", _suggest_deletion(store))


def _check_size(store: "WorkflowStore") -> None:
    """Check after a write that the workflows of the caller are not too large. If they are, it is rolled back."""
    most = current_app().settings_as(WorkflowSettings).workflow_bytes_per_caller
    if not identity.current().is_local and (size := store.count_bytes()) > most:
        raise WorkflowRuleError(
            f"With this change, your workflows would have {size} bytes. Your quota is {most}. Nothing was changed.",
            _suggest_deletion(store),
        )


def _suggest_deletion(store: "WorkflowStore") -> str:
    names = ", ".join(store.oldest(_NAMED))
    return f"Delete workflows that you no longer need with workflow_delete, such as {names}."


def workflow_list_all(status: str | None = None, cursor: str | None = None, limit: str | None = None) -> WorkflowList:
    """Workflows, the latest update first.

    There are 50 per page: `?cursor=` and the `next_cursor` of a page read the next one. `?status=` selects a status.
    A workflow that changes while the pages are read moves to the first one.

    Returns:
        `workflows`: those of the page. `total_workflows`, `active_workflows` (created, in progress or failing)
        and `completed_workflows` count all workflows, also those of other statuses.

    Raises:
        InvalidTemplateVariable: the status, the cursor or the limit is not valid.
    """
    chosen = parse_choice("status", status, STATUSES)
    size, tag = parse_limit(limit), compute_tag("workflows", status)
    after = decode_values(cursor, tag, (str, str)) if cursor else None
    with current_app().part(Workflows).reading() as store:
        found = store.newest(size + 1, status=chosen, after=(after[0], after[1]) if after else None)
        counts = store.count_by_status()
    shown = fit([_describe(row) for row in found[:size]])
    last = shown[-1] if len(shown) < len(found) else None
    return {
        "workflows": shown,
        "status": chosen,
        "count": counts.total() if chosen is None else counts[chosen],
        "next_cursor": encode_values((last["updated_at"], last["id"]), tag) if last else None,
        "total_workflows": counts.total(),
        "active_workflows": counts["created"] + counts["in_progress"] + counts["failing"],
        "completed_workflows": counts["completed"],
    }


def workflow_get_status(id: str) -> WorkflowReport:  # noqa: A002 - the resource contract maps workflow_id to `id`
    """A workflow's steps, log and next steps.

    Args:
        id: the workflow's id.

    Raises:
        NotFound: the workflow does not exist.
    """
    with current_app().part(Workflows).reading() as store:
        return report(_load(store, id))


def workflow_ids() -> list[str]:
    with current_app().part(Workflows).reading() as store:
        return store.ids()


def workflow_create(
    workflow_id: NewWorkflowId,
    name: Name,
    description: Purpose = "",
    metadata: JSONObject = None,
    steps: Annotated[NewSteps, Field(description="Its steps, as in workflow_add_step.")] = None,
) -> WorkflowReport:
    """Create a workflow, a list of steps that is stored across conversations. Returns its status."""
    new = model.create_workflow(workflow_id, name, description or "", metadata, now := _now())
    added = [
        model.create_step(
            one["step_id"],
            one["description"],
            one.get("step_type") or MANUAL,
            one.get("dependencies"),
            one.get("metadata"),
            now,
        )
        for one in steps or []
    ]
    for step in added:
        if (earlier := model.find_step(new, step["id"])) and not model.is_defined_like(earlier, step):
            raise WorkflowRuleError(f"`steps` has two steps {step['id']}, with other values.", "Use each step_id once.")
        model.check_new_step(new, step)
        new = model.set_step(new, step, now)
    with current_app().part(Workflows).writing() as store:
        existing = store.load(workflow_id)
        if existing is None:
            _check_number(store)
            store.save(new)
            for step in added:
                store.save(new, step)
            _check_size(store)
        elif not model.is_defined_like(existing, new) or not all(_has(existing, step) for step in added):
            raise WorkflowRuleError(
                f"Workflow {workflow_id} already exists, with another name, description or metadata, or other steps.",
                f"Use another id, or continue the existing workflow: read workflow://workflows/{workflow_id}/status.",
            )
        return report(existing or new)


def _has(workflow: Workflow, step: Step) -> bool:
    found = model.find_step(workflow, step["id"])
    return found is not None and model.is_defined_like(found, step)


def workflow_add_step(  # noqa: PLR0917 - clients name the arguments
    workflow_id: WorkflowId,
    step_id: NewStepId,
    description: Task,
    step_type: StepType = MANUAL,
    dependencies: Annotated[Dependencies, Field(description="Earlier steps.")] = None,
    metadata: JSONObject = None,
) -> WorkflowReport:
    """Add a pending step to the end of a workflow. Reopens a completed workflow. Returns its status."""
    new = model.create_step(step_id, description, step_type or MANUAL, dependencies, metadata, now := _now())
    with current_app().part(Workflows).writing() as store:
        workflow = _load(store, workflow_id)
        if (existing := model.find_step(workflow, step_id)) is None:
            model.check_new_step(workflow, new)
            workflow = model.set_step(workflow, new, now)
            store.save(workflow, new)
            _check_size(store)
        elif not model.is_defined_like(existing, new):
            raise WorkflowRuleError(
                f"Workflow {workflow_id} already has a step {step_id}, with other values.",
                "Use another step_id, or change the status of the existing step with workflow_update_step.",
            )
        return report(workflow)


def workflow_update_step(  # noqa: PLR0917 - clients name the arguments
    workflow_id: WorkflowId,
    step_id: StepId,
    status: Status,
    message: Annotated[Text, Field(description="For the log.")] = None,
    result: JSONObject = None,
    error_message: Annotated[Text, Field(description="If it failed.")] = None,
) -> WorkflowReport:
    """Set the status of a step. It can start when its dependencies are completed or skipped.

    Retry a failed step with in_progress, which removes its result and error. Returns the workflow with its next steps.
    """
    new_status, new_result = model.parse_update(status, message, result, error_message)
    with current_app().part(Workflows).writing() as store:
        workflow = _load(store, workflow_id)
        step = _load_step(workflow, step_id)
        model.check_change(workflow, step, new_status)
        changed = model.set_status(step, new_status, now := _now(), result=new_result, error_message=error_message)
        change = f"{step['status']} -> {new_status}"
        entry: LogEntry = {"timestamp": now, "step_id": step_id, "status_change": change, "message": message}
        if not model.is_same(changed, step) or not model.is_repeated(workflow, entry):
            store.save(model.set_step(workflow, changed, now), changed, entry)
            if message or result or error_message:  # a status without a text can always be set
                _check_size(store)
        return report(_load(store, workflow_id))


def workflow_delete(workflow_id: WorkflowId) -> WorkflowDeletion:
    """Delete a workflow with its steps and log. Returns whether it existed."""
    with current_app().part(Workflows).writing() as store:
        deleted = store.delete(workflow_id)
        return {"workflow_id": workflow_id, "deleted": deleted, "remaining_workflows": store.count_by_status().total()}


def _load(store: "WorkflowStore", workflow_id: str) -> Workflow:
    if workflow := store.load(workflow_id):
        return workflow
    if not (ids := store.ids(_EXAMPLES)):
        raise NotFound(
            f"Workflow {workflow_id!r} does not exist. There are no workflows yet.",
            suggested_actions=["Create a workflow with the tool workflow_create."],
        )
    raise NotFound(
        f"Workflow {workflow_id!r} does not exist.",
        suggested_actions=[
            f"Use an existing id, such as {', '.join(ids)}. workflow://workflows lists all.",
            "Or create it with the tool workflow_create.",
        ],
    )


def _load_step(workflow: Workflow, step_id: str) -> Step:
    if step := model.find_step(workflow, step_id):
        return step
    raise NotFound(
        f"Workflow {workflow['id']} has no step {step_id!r}.",
        suggested_actions=[
            f"Use one of its steps: {name_some(step['id'] for step in workflow['steps'])}.",
            "Or add the step with the tool workflow_add_step.",
        ],
    )


def list_statuses(prefix: str) -> list[str]:
    return [one for one in STATUSES if one.startswith(prefix)]


def _describe(row: "Summary") -> ListedWorkflow:
    done, total = row["completed_steps"] + row["skipped_steps"], row["total_steps"]
    return {
        "id": row["id"],
        "name": row["name"],
        "status": row["status"],
        "progress": {
            "completed_steps": row["completed_steps"],
            "skipped_steps": row["skipped_steps"],
            "total_steps": total,
            "percentage": _calculate_percentage(done, total),
        },
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "uri": _make_uri(row["id"]),
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
