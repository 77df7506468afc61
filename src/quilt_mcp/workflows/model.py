"""A workflow, its steps, and the status that follows from the statuses of the steps.

    step       pending, in_progress, completed, failed, skipped
    workflow   created      every step is pending, or there is none
               in_progress  not all steps are pending, not all are done, and none has failed
               failed       at least one step has failed
               completed    there are steps, and all are completed or skipped

Points in time are text: ISO 8601 in UTC, to the second, with a `Z`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from quilt_mcp.core.answers import JSONObject

StepStatus = Literal["pending", "in_progress", "completed", "failed", "skipped"]
WorkflowStatus = Literal["created", "in_progress", "failed", "completed"]

STEP_STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
DONE = frozenset({"completed", "skipped"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. First the fields that are set when it is added, then those that updates change."""

    id: str
    description: str
    step_type: str
    dependencies: list[str]
    metadata: JSONObject
    created_at: str
    status: StepStatus = "pending"
    started_at: str | None = None
    """When the latest attempt started."""
    completed_at: str | None = None
    """When it was completed or skipped."""
    error_message: str | None = None
    result: JSONObject | None = None

    def defined_like(self, other: "Step") -> bool:
        """Return whether both were added with the same values. Later updates do not matter."""
        mine = self.description, self.step_type, self.dependencies, _as_text(self.metadata)
        return mine == (other.description, other.step_type, other.dependencies, _as_text(other.metadata))

    def is_same(self, other: "Step") -> bool:
        """Return whether both are equal in every field."""
        return self == other and _as_text(self.result) == _as_text(other.result)

    def with_status(
        self, status: StepStatus, now: str, *, result: JSONObject | None = None, error_message: str | None = None
    ) -> "Step":
        """Return this step with another status, or with the same status and a new result or error message.

        The statuses pending and in_progress remove the result and the error message of an earlier attempt.
        """
        if status == self.status:
            return replace(
                self,
                result=self.result if result is None else result,
                error_message=self.error_message if error_message is None else error_message,
            )
        first_start = self.started_at if status == "skipped" else self.started_at or now
        started = {"pending": None, "in_progress": now}.get(status, first_start)
        kept = None if status in {"pending", "in_progress"} else self.result
        return replace(
            self,
            status=status,
            started_at=started,
            completed_at=now if status in DONE else None,
            error_message=error_message,
            result=kept if result is None else result,
        )


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """One update of a step. The form of `status_change` is "old -> new"."""

    timestamp: str
    step_id: str
    status_change: str
    message: str | None

    def repeats(self, earlier: "LogEntry | None") -> bool:
        """Return whether an earlier entry of the same step has the same status and message."""
        if earlier is None:
            return self.message is None
        return (earlier.status_change.split()[-1], earlier.message) == (self.status_change.split()[-1], self.message)


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow with its steps in the order in which they were added, and its log, oldest entry first."""

    id: str
    name: str
    description: str
    metadata: JSONObject
    created_at: str
    updated_at: str
    status: WorkflowStatus = "created"
    started_at: str | None = None
    completed_at: str | None = None
    steps: list[Step] = field(default_factory=list)
    execution_log: list[LogEntry] = field(default_factory=list)

    def defined_like(self, other: "Workflow") -> bool:
        """Return whether both were created with the same values. Later updates do not matter."""
        mine = self.name, self.description, _as_text(self.metadata)
        return mine == (other.name, other.description, _as_text(other.metadata))

    def step(self, step_id: str) -> Step | None:
        """Return the step with this id; None if there is none."""
        return next((step for step in self.steps if step.id == step_id), None)

    def last_entry(self, step_id: str) -> LogEntry | None:
        """Return the newest log entry of a step; None if the log has none."""
        return next((entry for entry in reversed(self.execution_log) if entry.step_id == step_id), None)

    def unfinished_dependencies(self, step: Step) -> list[str]:
        """Return the ids of the step's dependencies that are neither completed nor skipped."""
        return [other.id for other in self.steps if other.id in step.dependencies and other.status not in DONE]

    def with_step(self, changed: Step, now: str) -> "Workflow":
        """Return this workflow with a step added or replaced, and the status that follows."""
        if self.step(changed.id) is None:
            steps = [*self.steps, changed]
        else:
            steps = [changed if step.id == changed.id else step for step in self.steps]
        status = derive_status(step.status for step in steps)
        return replace(
            self,
            steps=steps,
            status=status,
            updated_at=now,
            started_at=None if status == "created" else self.started_at or now,
            completed_at=(self.completed_at or now) if status == "completed" else None,
        )


def derive_status(step_statuses: Iterable[StepStatus]) -> WorkflowStatus:
    """Return a workflow's status, which depends only on the statuses of its steps."""
    present = set(step_statuses)
    if "failed" in present:
        return "failed"
    if present and present <= DONE:
        return "completed"
    return "in_progress" if present - {"pending"} else "created"


def _as_text(value: JSONObject | None) -> str:
    """Return a text that is equal for equal JSON only. In Python, `1 == True == 1.0`."""
    return json.dumps(value, sort_keys=True)
