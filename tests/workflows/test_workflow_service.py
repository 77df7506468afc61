"""How workflows are created, change and end, and the answers about them."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine

from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.workflows.model import Step, StepStatus, WorkflowRuleError
from quilt_mcp.workflows.service import (
    WorkflowList,
    WorkflowReport,
    workflow_add_step,
    workflow_create,
    workflow_get_status,
    workflow_ids,
    workflow_list_all,
    workflow_update_step,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


pytestmark = pytest.mark.usefixtures("no_workflows")


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def create(*steps: str, workflow_id: str = "w", **dependencies: list[str]) -> None:
    """Create a workflow with these steps and dependencies."""
    workflow_create(workflow_id, "Title")
    for step in steps:
        workflow_add_step(workflow_id, step, f"Do {step}", dependencies=dependencies.get(step))


def update(step: str, *statuses: StepStatus) -> WorkflowReport:
    *_, answer = [workflow_update_step("w", step, status) for status in statuses]
    return answer


def steps_of(answer: WorkflowReport) -> dict[str, Step]:
    return {step["id"]: step for step in answer["workflow"]["steps"]}


def test_a_new_workflow_has_nothing_to_do() -> None:
    answer = workflow_create("rna", "RNA", "Counts of run 7", {"team": ["a", 1, None, True, 0.5]})
    assert answer == workflow_get_status("rna")
    workflow = answer["workflow"]
    assert (workflow["name"], workflow["description"], workflow["status"]) == ("RNA", "Counts of run 7", "created")
    assert workflow["metadata"] == {"team": ["a", 1, None, True, 0.5]}
    assert workflow["created_at"] == workflow["updated_at"] == "2026-05-01T12:00:00Z"
    assert (answer["progress"]["percentage"], answer["next_available_steps"], answer["can_proceed"]) == (0.0, [], False)
    assert answer["recommendations"] == ["Add the first step with workflow_add_step."]


def test_a_workflow_under_way(clock: time_machine.Traveller) -> None:
    """The golden has all fields of one."""
    create("fetch", "check", "count", check=["fetch"], count=["check"])
    clock.shift(60)
    workflow_update_step("w", "fetch", "completed", "all there", {"files": 3})
    clock.shift(60)
    answer = workflow_update_step("w", "check", "failed", error_message="2 files are empty")
    assert answer == workflow_get_status("w")
    workflow, step = answer["workflow"], steps_of(answer)["fetch"]
    times = (step["created_at"], step["started_at"], step["completed_at"], workflow["started_at"])
    assert times == ("2026-05-01T12:00:00Z", *["2026-05-01T12:01:00Z"] * 3)
    assert (step["result"], step["error_message"]) == ({"files": 3}, None)
    assert steps_of(answer)["check"]["error_message"] == "2 files are empty"
    assert (workflow["status"], workflow["updated_at"]) == ("failed", "2026-05-01T12:02:00Z")
    assert workflow["execution_log"] == answer["recent_activity"]
    assert [tuple(entry.values()) for entry in answer["recent_activity"]] == [
        ("2026-05-01T12:01:00Z", "fetch", "pending -> completed", "all there"),
        ("2026-05-01T12:02:00Z", "check", "pending -> failed", None),
    ]
    assert (workflow["completed_steps"], workflow["failed_steps"], answer["progress"]["percentage"]) == (1, 1, 33.3)
    assert (answer["next_available_steps"], answer["can_proceed"]) == ([], False)
    assert [one[:14] for one in answer["recommendations"]] == ["Failed: check."]


def test_a_retry_of_a_failed_step_removes_its_error_and_result(clock: time_machine.Traveller) -> None:
    create("a", "b")
    workflow_update_step("w", "a", "failed", result={"partial": 1}, error_message="no disk")
    clock.shift(60)
    answer = update("a", "in_progress")
    assert answer["workflow"]["status"] == "in_progress"
    step = steps_of(answer)["a"]
    assert (step["error_message"], step["result"], step["started_at"]) == (None, None, "2026-05-01T12:01:00Z")
    assert answer["workflow"]["started_at"] == "2026-05-01T12:00:00Z"
    assert answer["recommendations"] == [
        "In progress: a. When one ends, set it to completed or failed with workflow_update_step.",
        "Ready to start: b. When one starts, set it to in_progress with workflow_update_step.",
    ]


def test_a_result_stays_until_a_new_one_replaces_it() -> None:
    create("a", "b")
    workflow_update_step("w", "a", "in_progress", result={"files": 1})
    assert steps_of(update("a", "completed"))["a"]["result"] == {"files": 1}
    assert steps_of(workflow_update_step("w", "a", "completed", "checked"))["a"]["result"] == {"files": 1}
    assert steps_of(workflow_update_step("w", "a", "completed", result={}))["a"]["result"] == {}


def test_a_skipped_step_was_not_started_unless_it_was() -> None:
    create("a", "b")
    assert steps_of(update("a", "skipped"))["a"]["started_at"] is None
    assert steps_of(update("b", "in_progress", "skipped"))["b"]["started_at"] == "2026-05-01T12:00:00Z"


def test_a_workflow_was_completed_when_its_last_step_was(clock: time_machine.Traveller) -> None:
    create("a", "b")
    update("a", "completed")
    update("b", "completed")
    clock.shift(60)
    assert update("a", "skipped")["workflow"]["completed_at"] == "2026-05-01T12:01:00Z"
    assert workflow_update_step("w", "a", "skipped", "noted")["workflow"]["completed_at"] == "2026-05-01T12:01:00Z"


def test_a_new_step_reopens_a_completed_workflow(clock: time_machine.Traveller) -> None:
    create("a")
    assert "reopens the workflow" in update("a", "completed")["recommendations"][0]
    clock.shift(60)
    workflow = workflow_add_step("w", "b", "More")["workflow"]
    assert (workflow["status"], workflow["completed_at"]) == ("in_progress", None)
    assert workflow["started_at"] == "2026-05-01T12:00:00Z"
    assert workflow["updated_at"] == "2026-05-01T12:01:00Z"


@pytest.mark.parametrize("status", ["in_progress", "completed", "failed"])
def test_a_step_waits_for_its_dependencies(status: StepStatus) -> None:
    create("a", "b", "c", c=["a", "b"])
    update("a", "skipped")
    before = workflow_get_status("w")
    with pytest.raises(WorkflowRuleError, match=f"c cannot be {status}: it depends on b, not yet") as refusal:
        update("c", status)
    assert "workflow_update_step" in refusal.value.suggested_actions[0]
    assert workflow_get_status("w") == before
    assert update("c", "skipped", "pending")["next_available_steps"] == ["b"]


@pytest.mark.parametrize("status", ["pending", "in_progress", "failed"])
def test_a_step_that_others_need_stays_done(status: StepStatus) -> None:
    create("a", "b", b=["a"])
    update("a", "completed")
    update("b", "in_progress")
    with pytest.raises(WorkflowRuleError, match=f"a cannot change from completed to {status}: b started after it"):
        update("a", status)
    update("b", "failed")
    assert steps_of(update("a", status))["a"]["status"] == status


@pytest.mark.parametrize(
    ("dependencies", "problem"),
    [
        (["new"], "cannot depend on itself"),
        (["a", "x", "y"], "has no step 'x', 'y' to depend on"),
        ([f"s{number}" for number in range(51)], "51 dependencies are too many"),
    ],
)
def test_dependencies_must_be_earlier_steps(dependencies: list[str], problem: str) -> None:
    create("a")
    with pytest.raises(WorkflowRuleError, match=problem):
        workflow_add_step("w", "new", "New", dependencies=dependencies)
    assert list(steps_of(workflow_get_status("w"))) == ["a"]


def test_repeating_a_write_changes_nothing(clock: time_machine.Traveller) -> None:
    workflow_create("w", "Title", metadata={"a": 1})
    workflow_add_step("w", "a", "Do a")
    workflow_add_step("w", "b", "Do b", dependencies=["a", "a"])
    answer = workflow_update_step("w", "a", "failed", "note", {"n": 1}, "why")
    clock.shift(3600)
    assert workflow_create("w", "Title", metadata={"a": 1}) == answer
    assert workflow_add_step("w", "b", "Do b", dependencies=["a"]) == answer
    assert workflow_update_step("w", "a", "failed", "note", {"n": 1}, "why") == answer
    assert workflow_update_step("w", "b", "pending") == answer


def test_the_same_status_with_something_new_is_logged() -> None:
    create("a")
    update("a", "in_progress")
    workflow_update_step("w", "a", "in_progress", "half of it")
    answer = workflow_update_step("w", "a", "in_progress", "half of it", {"rows": 5})
    assert [(entry["status_change"], entry["message"]) for entry in answer["recent_activity"]] == [
        ("pending -> in_progress", None),
        ("in_progress -> in_progress", "half of it"),
        ("in_progress -> in_progress", "half of it"),
    ]
    answer = workflow_update_step("w", "a", "failed", error_message="first")
    assert steps_of(workflow_update_step("w", "a", "failed", "still"))["a"]["error_message"] == "first"
    assert steps_of(workflow_update_step("w", "a", "failed", error_message="new"))["a"]["error_message"] == "new"


@pytest.mark.parametrize(("before", "after"), [(1, True), (0, False), (True, 1), (1, 1.0)])
def test_numbers_and_booleans_that_are_equal_in_python_are_different_values(before: object, after: object) -> None:
    workflow_create("w", "Title", metadata={"a": before})
    workflow_add_step("w", "a", "Do a", metadata={"a": before})
    workflow_update_step("w", "a", "completed", result={"n": [before]})
    answer = workflow_update_step("w", "a", "completed", result={"n": [after]})
    assert repr(steps_of(answer)["a"]["result"]) == repr({"n": [after]})
    assert len(answer["recent_activity"]) == 2
    with pytest.raises(WorkflowRuleError, match="w already exists"):
        workflow_create("w", "Title", metadata={"a": after})
    with pytest.raises(WorkflowRuleError, match="already has a step a"):
        workflow_add_step("w", "a", "Do a", metadata={"a": after})


def test_the_order_of_keys_does_not_matter() -> None:
    answer = workflow_create("w", "Title", metadata={"a": 1, "b": 2})
    assert workflow_create("w", "Title", metadata={"b": 2, "a": 1}) == answer


@pytest.mark.parametrize("arguments", [("w", "Other"), ("w", "Title", "more"), ("w", "Title", "", {"a": 1})])
def test_the_id_of_another_workflow_is_refused(arguments: tuple[Any, ...]) -> None:
    create("a")
    with pytest.raises(WorkflowRuleError, match="w already exists"):
        workflow_create(*arguments)
    assert workflow_get_status("w")["workflow"]["name"] == "Title"


@pytest.mark.parametrize(
    "arguments", [("Other",), ("Do b", "script"), ("Do b", "manual", []), ("Do b", "manual", ["a"], {"a": 1})]
)
def test_the_id_of_another_step_is_refused(arguments: tuple[Any, ...]) -> None:
    create("a", "b", b=["a"])
    with pytest.raises(WorkflowRuleError, match="already has a step b"):
        workflow_add_step("w", "b", *arguments)


def test_unknown_ids_are_not_found_and_the_failure_names_existing_ones() -> None:
    create("a", workflow_id="first")
    create("b", workflow_id="second")
    calls: list[Callable[[], WorkflowReport]] = [
        lambda: workflow_get_status("x"),
        lambda: workflow_add_step("x", "a", "A"),
        lambda: workflow_update_step("x", "a", "failed"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="'x' does not exist") as refusal:
            call()
        assert "first, second" in refusal.value.suggested_actions[0]
    with pytest.raises(NotFound, match="first has no step 'b'") as refusal:
        workflow_update_step("first", "b", "failed")
    assert refusal.value.suggested_actions[0] == "Use one of its steps: a."


def test_the_list_has_the_latest_update_first_then_the_id(clock: time_machine.Traveller) -> None:
    for workflow_id in ("c", "a", "b"):
        create("one", "two", "three", workflow_id=workflow_id)
    clock.shift(60)
    workflow_update_step("c", "one", "completed")
    workflow_update_step("c", "two", "skipped")
    answer = workflow_list_all()
    assert [row["id"] for row in answer["workflows"]] == ["c", "a", "b"] == workflow_ids()
    assert answer["workflows"][0] == {
        "id": "c",
        "name": "Title",
        "status": "in_progress",
        "progress": {"completed_steps": 1, "skipped_steps": 1, "total_steps": 3, "percentage": 66.7},
        "created_at": "2026-05-01T12:00:00Z",
        "updated_at": "2026-05-01T12:01:00Z",
        "uri": "workflow://workflows/c/status",
    }


def test_the_list_counts_all_by_status() -> None:
    statuses: list[StepStatus] = ["completed", "failed", "in_progress", "pending"]
    for workflow_id, status in zip("abcd", statuses, strict=True):
        create("one", workflow_id=workflow_id)
        workflow_update_step(workflow_id, "one", status)
    answer = workflow_list_all()
    totals = {name: answer[name] for name in ("total_workflows", "active_workflows", "completed_workflows")}
    assert totals == {"total_workflows": 4, "active_workflows": 2, "completed_workflows": 1}


def read_pages(status: str | None = None, limit: str | None = None) -> list[WorkflowList]:
    pages = [workflow_list_all(status, limit=limit)]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(workflow_list_all(status, cursor, limit))
    return pages


def test_pages_have_each_workflow_once_and_each_counts_all() -> None:
    statuses: list[StepStatus] = ["completed", "failed", "in_progress"]
    for number in range(12):
        create("one", workflow_id=f"w{number:02}")
        workflow_update_step(f"w{number:02}", "one", statuses[number % 3])
    whole = workflow_list_all()
    for limit in ("1", "5", "12", "200"):
        pages = read_pages(limit=limit)
        assert [row for page in pages for row in page["workflows"]] == whole["workflows"]
        assert {(page["count"], page["total_workflows"], page["completed_workflows"]) for page in pages} == {
            (12, 12, 4)
        }
    for status in ("completed", "failed", "in_progress", "created"):
        pages = read_pages(status, "3")
        expected = [row for row in whole["workflows"] if row["status"] == status]
        assert [row for page in pages for row in page["workflows"]] == expected
        assert {(page["status"], page["count"], page["total_workflows"]) for page in pages} == {
            (status, len(expected), 12)
        }


def test_a_workflow_that_changes_between_pages_hides_no_other() -> None:
    for name in "abcd":
        workflow_create(name, "Title")
    first = workflow_list_all(limit="2")
    seen = [row["id"] for row in first["workflows"]]
    workflow_add_step(seen[0], "one", "What to do")
    second = workflow_list_all(cursor=first["next_cursor"])
    assert sorted([*seen, *(row["id"] for row in second["workflows"])]) == [*"abcd"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"status": "done"}, "`status` must be one of: created, in_progress, failing, failed, completed."),
        ({"limit": "0"}, "`limit` must be an integer from 1 to 200."),
        ({"cursor": "x"}, "The cursor is not valid for this list."),
    ],
)
def test_a_value_that_is_not_valid_is_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidTemplateVariable, match=re.escape(message)):
        workflow_list_all(**values)


def test_the_cursor_of_another_status_is_refused() -> None:
    for name in "ab":
        workflow_create(name, "Title")
    cursor = workflow_list_all("created", limit="1")["next_cursor"]
    with pytest.raises(InvalidTemplateVariable, match="not valid for this list"):
        workflow_list_all(cursor=cursor)


@pytest.mark.soak
def test_a_page_has_50_workflows_and_counts_all() -> None:
    for number in range(203):
        workflow_create(f"w{number:03}", "Title")
    answer = workflow_list_all()
    assert [row["id"] for row in answer["workflows"]] == [f"w{number:03}" for number in range(50)]
    assert (answer["total_workflows"], answer["active_workflows"]) == (203, 203)
    assert len(workflow_ids()) == 203


@pytest.mark.soak
def test_a_workflow_has_at_most_100_steps_and_100_log_entries() -> None:
    create(*"abcdef", workflow_id="other")
    other = workflow_update_step("other", "a", "completed")
    assert other["recommendations"][0].startswith("Ready to start: b, c, d, e, f. ")
    create(*(f"s{number}" for number in range(100)))
    with pytest.raises(WorkflowRuleError, match="has 100 steps, which is the maximum"):
        workflow_add_step("w", "s100", "One too many")
    for number in range(103):
        answer = workflow_update_step("w", "s0", "in_progress", f"note {number}")
    messages = [entry["message"] for entry in answer["workflow"]["execution_log"]]
    assert messages == [f"note {number}" for number in range(3, 103)]
    assert [entry["message"] for entry in answer["recent_activity"]] == messages[-5:]
    assert workflow_get_status("other") == other
    assert answer["recommendations"][1].startswith("Ready to start: s1, s2, s3, s4, s5 and 94 more.")
