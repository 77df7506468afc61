"""Which arguments are valid."""

import itertools
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.workflows.model import WorkflowRuleError
from quilt_mcp.workflows.service import workflow_add_step, workflow_create, workflow_get_status, workflow_update_step
from tests.support.examples import count_examples

pytestmark = pytest.mark.usefixtures("data_dir")


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


@pytest.mark.parametrize("bad_id", ["", ".", "..", "a/b", "a b", "ä", "a\n", "x" * 129, "%41"])
def test_ids_that_a_uri_cannot_contain_are_refused(bad_id: str, data_dir: Path) -> None:
    with pytest.raises(WorkflowRuleError, match="workflow_id is not valid"):
        workflow_create(bad_id, "Title")
    with pytest.raises(WorkflowRuleError, match="step_id is not valid"):
        workflow_add_step("w", bad_id, "Do it")
    assert not data_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": " "}, "name is empty"),
        ({"name": "x" * 201}, "name has 201 characters"),
        ({"name": "\ud800"}, "name is not valid Unicode"),
        ({"name": "a\0b"}, "name contains a NUL character"),
        ({"description": "x" * 4001}, "description has 4001 characters"),
        ({"metadata": {"a": float("nan")}}, "metadata is not a JSON object"),
        ({"metadata": {"a": date(2026, 5, 1)}}, "metadata is not a JSON object"),
        ({"metadata": {"a": "\ud800"}}, "metadata is not a JSON object"),
        ({"metadata": {1: "a"}}, "metadata is not a JSON object"),
        ({"metadata": {"a": (1, 2)}}, "metadata is not a JSON object"),
        ({"metadata": {"a": "x" * 4_096}}, "metadata has 4105 bytes"),
        ({"metadata": {"a": "ä" * 2_048}}, "metadata has 4105 bytes"),
        ({"metadata": nested(33)}, "metadata is nested too deeply"),
        ({"metadata": nested(5000)}, "metadata (is not a JSON object|is nested too deeply|has)"),
    ],
)
def test_arguments_that_are_not_valid_are_refused_before_a_write(
    arguments: dict[str, Any], problem: str, data_dir: Path
) -> None:
    with pytest.raises(WorkflowRuleError, match=problem) as refusal:
        workflow_create(**{"workflow_id": "w", "name": "Title"} | arguments)
    assert refusal.value.suggested_actions[0]
    assert not data_dir.exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"status": "done"}, "Unknown step status"),
        ({"status": "cancelled"}, "Unknown step status"),
        ({"message": "x" * 4001}, "message has 4001 characters"),
        ({"error_message": "x" * 4001, "status": "failed"}, "error_message has 4001 characters"),
        ({"error_message": "why"}, "error_message is only valid with"),
        ({"result": {"a": float("inf")}}, "result is not a JSON object"),
    ],
)
def test_updates_that_are_refused(arguments: dict[str, Any], problem: str) -> None:
    workflow_create("w", "Title")
    before = workflow_add_step("w", "a", "Do a")
    with pytest.raises(WorkflowRuleError, match=problem):
        workflow_update_step(**{"workflow_id": "w", "step_id": "a", "status": "completed"} | arguments)
    assert workflow_get_status("w") == before


def test_arguments_at_their_limits_are_stored() -> None:
    metadata = {"a": "x" * 4_087}
    workflow_create("x" * 128, "n" * 200, "d" * 1000, nested(32))
    answer = workflow_add_step("x" * 128, ".-_~", "d" * 1000, "t" * 200, metadata=metadata)
    assert answer["workflow"]["metadata"] == nested(32)
    assert answer["workflow"]["steps"][0]["metadata"] == metadata


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
numbers = itertools.count()


# all examples can share the file, because each has its own workflow
@settings(max_examples=count_examples(24), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(metadata=st.dictionaries(st.text(max_size=9), json_values, max_size=4))
def test_any_json_object_is_stored_without_changes(metadata: dict[str, Any]) -> None:
    workflow_id = f"json-{next(numbers)}"
    workflow_create(workflow_id, "Title", metadata=metadata)
    assert json.dumps(workflow_get_status(workflow_id)["workflow"]["metadata"]) == json.dumps(metadata)
