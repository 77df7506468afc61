"""After any sequence of writes, a workflow obeys the rules."""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.workflows.model import WorkflowRuleError
from quilt_mcp.workflows.service import (
    WorkflowReport,
    workflow_add_step,
    workflow_create,
    workflow_get_status,
    workflow_list_all,
    workflow_update_step,
)
from tests.support.examples import count_examples
from tests.workflows.test_workflow_service import steps_of

STATUSES = ["pending", "in_progress", "completed", "failed", "skipped"]
DONE = {"completed", "skipped"}

numbers = itertools.count()


pytestmark = pytest.mark.usefixtures("data_dir")


def expected_status(statuses: list[str], *, can_proceed: bool) -> str:
    if "failed" in statuses:
        return "failing" if can_proceed or "in_progress" in statuses else "failed"
    if all(status in DONE for status in statuses):
        return "completed"
    return "created" if set(statuses) == {"pending"} else "in_progress"


def check_rules(answer: WorkflowReport) -> None:
    """Check the rules of a workflow with steps."""
    workflow, steps = answer["workflow"], steps_of(answer)
    status = {name: step["status"] for name, step in steps.items()}
    assert workflow["status"] == expected_status(list(status.values()), can_proceed=answer["can_proceed"])
    assert (workflow["started_at"] is None) == (workflow["status"] == "created")
    assert (workflow["completed_at"] is None) == (workflow["status"] != "completed")
    for name, step in steps.items():
        waiting = {other for other in step["dependencies"] if status[other] not in DONE}
        assert not waiting or status[name] in {"pending", "failed", "skipped"}
        assert (name in answer["next_available_steps"]) == (status[name] == "pending" and not waiting)
        assert (step["completed_at"] is None) == (status[name] not in DONE)
        assert step["started_at"] is not None or status[name] in {"pending", "skipped"}
    assert answer["can_proceed"] == bool(answer["next_available_steps"])
    stuck = workflow["status"] != "completed" and not answer["can_proceed"]
    assert not stuck or {"failed", "in_progress"} & set(status.values())
    count: dict[str, Any] = {**answer["progress"]}
    assert sum(count[f"{name}_steps"] for name in STATUSES) == count["total_steps"] == len(steps)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Generate steps that depend on earlier ones, and updates of any of them, in any order."""
    history: list[tuple[str, Any]] = []
    for number in range(draw(st.integers(1, 5))):
        earlier = [f"s{other}" for other in range(number)]
        history.append((f"s{number}", draw(st.sets(st.sampled_from(earlier)) if earlier else st.just(set()))))
        updates = st.tuples(st.sampled_from([*earlier, f"s{number}"]), st.sampled_from(STATUSES))
        history += draw(st.lists(updates, max_size=6))
    return history


# all examples can share the file, because each has its own workflow
@settings(max_examples=count_examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_after_any_history_the_status_obeys_the_rules(history: list[tuple[str, Any]]) -> None:
    workflow_id = f"any-{next(numbers)}"
    answer = workflow_create(workflow_id, "Title")
    for step, change in history:
        try:
            if isinstance(change, set):
                after = workflow_add_step(workflow_id, step, "Do it", dependencies=sorted(change))
            else:
                after = workflow_update_step(workflow_id, step, change)
                assert steps_of(after)[step]["status"] == change
        except WorkflowRuleError:
            after = workflow_get_status(workflow_id)
            assert after == answer
        check_rules(after)
        assert after == workflow_get_status(workflow_id)
        answer = after
    row = next(row for row in workflow_list_all()["workflows"] if row["id"] == workflow_id)
    assert row["status"] == answer["workflow"]["status"]
    assert row["progress"].items() <= answer["progress"].items()
