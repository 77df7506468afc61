"""What a workflow is: its steps, their states, and the state that follows from them.

    step       pending, in_progress, completed, failed, skipped
    workflow   created      no step has left pending, or there is none
               in_progress  some have, and not all are done
               failed       at least one step is failed
               completed    there are steps, and all are completed or skipped

Points in time are texts: ISO 8601 in UTC, to the second, with a `Z`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

StepStatus = Literal["pending", "in_progress", "completed", "failed", "skipped"]
WorkflowStatus = Literal["created", "in_progress", "failed", "completed"]

STEP_STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
DONE = frozenset({"completed", "skipped"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. What is set when it is added comes first, what its updates change after it."""

    id: str
    description: str
    step_type: str
    dependencies: list[str]
    metadata: dict[str, Any]
    created_at: str
    status: StepStatus = "pending"
    started_at: str | None = None
    """When the latest attempt began."""
    completed_at: str | None = None
    """When it was completed or skipped."""
    error_message: str | None = None
    result: dict[str, Any] | None = None

    def defined_like(self, other: "Step") -> bool:
        """Whether both were added with the same values, whatever became of them."""
        mine = self.description, self.step_type, self.dependencies, self.metadata
        return mine == (other.description, other.step_type, other.dependencies, other.metadata)

    def moved(
        self, status: StepStatus, now: str, *, result: dict[str, Any] | None = None, error_message: str | None = None
    ) -> "Step":
        """This step with another status, or with the same one and a new result or error message.

        Going (back) to pending or in_progress begins anew: what an earlier attempt left is dropped.
        """
        if status == self.status:
            return replace(
                self,
                result=self.result if result is None else result,
                error_message=self.error_message if error_message is None else error_message,
            )
        begun = self.started_at if status == "skipped" else self.started_at or now
        started = {"pending": None, "in_progress": now}.get(status, begun)
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
    """One update of a step; `status_change` reads "old -> new"."""

    timestamp: str
    step_id: str
    status_change: str
    message: str | None

    def repeats(self, earlier: "LogEntry | None") -> bool:
        """Whether it says again what an earlier entry said of the same step."""
        if earlier is None:
            return self.message is None
        return (earlier.status_change.split()[-1], earlier.message) == (self.status_change.split()[-1], self.message)


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow with its steps in the order of their adding, and its log, oldest entry first."""

    id: str
    name: str
    description: str
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    status: WorkflowStatus = "created"
    started_at: str | None = None
    completed_at: str | None = None
    steps: list[Step] = field(default_factory=list)
    execution_log: list[LogEntry] = field(default_factory=list)

    def defined_like(self, other: "Workflow") -> bool:
        """Whether both were created with the same values, whatever became of them."""
        return (self.name, self.description, self.metadata) == (other.name, other.description, other.metadata)

    def step(self, step_id: str) -> Step | None:
        """The step with this id, if there is one."""
        return next((step for step in self.steps if step.id == step_id), None)

    def last_entry(self, step_id: str) -> LogEntry | None:
        """The newest log entry of a step, if the log still has one."""
        return next((entry for entry in reversed(self.execution_log) if entry.step_id == step_id), None)

    def unfinished_dependencies(self, step: Step) -> list[str]:
        """The ids of the step's dependencies that are neither completed nor skipped."""
        return [other.id for other in self.steps if other.id in step.dependencies and other.status not in DONE]

    def with_step(self, changed: Step, now: str) -> "Workflow":
        """This workflow with a step added or put in the place of its former self; its status follows."""
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
    """A workflow's status: it follows from its steps' statuses alone, never from its own past."""
    present = set(step_statuses)
    if "failed" in present:
        return "failed"
    if present and present <= DONE:
        return "completed"
    return "in_progress" if present - {"pending"} else "created"
