"""The quota of a caller, deletion and retention of workflows, in a file and in PostgreSQL."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import time_machine

from quilt_mcp.app import current_app, identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import NotFound, Unavailable
from quilt_mcp.workflows import store as retention
from quilt_mcp.workflows.model import WorkflowRuleError, create_workflow
from quilt_mcp.workflows.service import (
    Workflows,
    workflow_add_step,
    workflow_create,
    workflow_delete,
    workflow_get_status,
    workflow_ids,
    workflow_update_step,
)
from tests.support import apps
from tests.support.settings import Settings

ISSUER = "https://issuer.example.com"
TEXT = "ü" * 900  # two bytes each


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Change the caller."""

    def change(subject: str) -> None:
        monkeypatch.setattr(identity, "current", partial(Identity, subject, ISSUER))

    change("ann")
    return change


def use(storage: dict[str, Any], **options: Any) -> None:
    apps.use_settings(Settings(**storage | options))


def add_steps(workflow_id: str, number: int, **options: Any) -> None:
    for step in range(number):
        workflow_add_step(workflow_id, f"s{step}", TEXT, **options)


def update_steps(workflow_id: str, number: int, **options: Any) -> None:
    for step in range(number):
        workflow_update_step(workflow_id, f"s{step}", **options)


def create_workflows(number: int) -> None:
    for one in range(number):
        workflow_create(f"w{one}", "Title", TEXT)


def test_the_quota_limits_the_number_of_workflows(storage: dict[str, Any], become: Callable[[str], None]) -> None:
    use(storage, workflows_per_caller=3)
    for name in ("a", "b", "c"):
        workflow_create(name, "Title")
    workflow_add_step("b", "s", "Do")
    workflow_update_step("b", "s", "completed")
    with pytest.raises(WorkflowRuleError, match=r"You have 3 workflows\. Your quota is 3\.") as refusal:
        workflow_create("d", "Title")
    assert refusal.value.suggested_actions[0].endswith("with workflow_delete, such as b, a, c.")
    assert workflow_create("a", "Title")["workflow"]["id"] == "a"  # a repetition is no new workflow
    become("bob")
    workflow_create("d", "Title")
    become("ann")
    assert workflow_delete("b") == {"workflow_id": "b", "deleted": True, "remaining_workflows": 2}
    workflow_create("d", "Title")
    assert sorted(workflow_ids()) == ["a", "c", "d"]


def test_the_quota_limits_the_bytes_of_all_texts(storage: dict[str, Any], become: Callable[[str], None]) -> None:
    become("ann")
    use(storage, workflow_bytes_per_caller=65_536)
    workflow_create("w", "Title", TEXT)
    with pytest.raises(WorkflowRuleError, match="Nothing was changed") as refusal:
        add_steps("w", 100, metadata={"x": "y" * 4000})
    before = workflow_get_status("w")
    assert 9 <= before["workflow"]["total_steps"] <= 11  # of about 5.9 kB each
    assert str(65_536) in refusal.value.message
    texts: list[dict[str, Any]] = [
        {"message": TEXT},
        {"result": {"x": "y" * 4000}},
        {"error_message": TEXT, "status": "failed"},
    ]
    for more in texts:
        with pytest.raises(WorkflowRuleError, match="Your quota is 65536"):
            update_steps("w", 9, **{"status": "completed", "message": TEXT} | more)
    workflow_update_step("w", "s0", "in_progress")
    with pytest.raises(WorkflowRuleError, match="Your quota is 65536"):
        create_workflows(100)
    become("bob")
    workflow_create("w", "Title", TEXT)
    become("ann")
    workflow_delete("w")
    workflow_create("w", "Title", TEXT)


def test_the_size_is_that_of_the_stored_texts(storage: dict[str, Any], become: Callable[[str], None]) -> None:
    become("ann")
    use(storage)
    workflow_create("w", "Töp", "", {"ü": 1})
    with current_app().part(Workflows).reading() as store:
        empty = len(b"w") + len("Töp".encode()) + len(json.dumps({"ü": 1}, ensure_ascii=False).encode())
        assert store.count_bytes() == empty + len("created")
    workflow_add_step("w", "s", "Do", metadata={"a": "b"})
    workflow_update_step("w", "s", "failed", "Note", {"r": 1}, "Ouch")
    with current_app().part(Workflows).reading() as store:
        step = ("w", "s", "Do", "manual", "[]", '{"a": "b"}', "failed", "Ouch", '{"r": 1}')
        entry = ("w", "s", "pending -> failed", "Note")
        assert store.count_bytes() == empty + len("failed") + sum(map(len, (*step, *entry)))


def test_the_local_user_has_no_quota(storage: dict[str, Any]) -> None:
    use(storage, workflows_per_caller=1, workflow_bytes_per_caller=65_536)
    for name in ("a", "b"):
        workflow_create(name, "Title")
    add_steps("a", 12, metadata={"x": "y" * 4000})  # of about 5.9 kB each
    assert sorted(workflow_ids()) == ["a", "b"]


CREATOR = """
import sys
from functools import partial
from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.services.workflow_service import WorkflowRuleError, workflow_create
identity.current = partial(Identity, "ann", "https://issuer.example.com")
for number in range(10):
    try:
        workflow_create(f"{sys.argv[1]}-{number}", "Title", "x" * 1000)
    except WorkflowRuleError:
        print("refused")
    else:
        print("created")
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("limit", "most"), [({"WORKFLOWS_PER_CALLER": "12"}, 12), ({"WORKFLOW_BYTES_PER_CALLER": "65536"}, 64)]
)
def test_creators_at_the_edge_never_exceed_the_quota(
    limit: dict[str, str], most: int, storage: dict[str, Any], become: Callable[[str], None]
) -> None:
    become("ann")
    use(storage)
    if most > 20:
        for number in range(most - 12):
            workflow_create(f"before-{number}", "Title", "x" * 1000)
    environment = os.environ | {f"QUILT_MCP_{name}": value for name, value in limit.items()}
    environment["QUILT_MCP_DATA_DIR"] = str(storage["data_dir"])
    if url := storage.get("workflows_url"):
        environment["QUILT_MCP_WORKFLOWS_URL"] = url.get_secret_value()
    creators = [
        subprocess.Popen([sys.executable, "-c", CREATOR, name], env=environment, stdout=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    answers = [word for creator in creators for word in creator.communicate()[0].split()]
    assert [creator.returncode for creator in creators] == [0, 0]
    assert (len(answers), "refused" in answers) == (20, True)
    with current_app().part(Workflows).reading() as store:
        assert store.count_by_status().total() <= most
        assert store.count_bytes() <= 65_536
        assert store.count_by_status().total() == answers.count("created") + (most - 12 if most > 20 else 0)


def test_only_own_workflows_are_deleted_and_the_call_can_be_repeated(
    storage: dict[str, Any], become: Callable[[str], None]
) -> None:
    use(storage)
    for who in ("ann", "bob"):
        become(who)
        workflow_create("w", f"Of {who}")
        workflow_add_step("w", "s", "Do")
        workflow_update_step("w", "s", "completed", f"by {who}")
    before = workflow_get_status("w")
    become("ann")
    for deleted in (True, False):
        assert workflow_delete("w") == {"workflow_id": "w", "deleted": deleted, "remaining_workflows": 0}
    with pytest.raises(NotFound):
        workflow_get_status("w")
    assert workflow_create("w", "New")["workflow"]["execution_log"] == []
    become("bob")
    assert workflow_get_status("w") == before


def test_retention_deletes_workflows_that_have_not_changed_for_that_time(
    storage: dict[str, Any], become: Callable[[str], None]
) -> None:
    use(storage)
    with time_machine.travel("2026-05-01T12:00:00Z", tick=False):
        for who in ("ann", "bob"):
            become(who)
            for name in ("old", "in-progress", "changed"):
                workflow_create(name, "Title")
                workflow_add_step(name, "s", "Do")
            workflow_update_step("in-progress", "s", "in_progress", "started")
    with time_machine.travel("2026-05-20T12:00:00Z", tick=False):
        workflow_update_step("changed", "s", "in_progress", "started")
    settings = Settings(**storage, workflow_retention_days=31)
    apps.use_settings(settings, {Workflows: Workflows(settings, retention_seconds=0.0)})
    with time_machine.travel("2026-06-01T12:00:00Z", tick=False):
        workflow_create("new", "Title")
        assert sorted(workflow_ids()) == ["changed", "in-progress", "new", "old"]
    with time_machine.travel("2026-06-01T12:00:01Z", tick=False):
        workflow_delete("new")
        assert workflow_ids() == ["changed"]
        become("ann")
        assert workflow_ids() == []


def test_retention_deletes_in_batches(storage: dict[str, Any], become: Callable[[str], None]) -> None:
    become("ann")
    use(storage)
    with current_app().part(Workflows).writing() as store:
        first = create_workflow("w", "Title", "", None, "2026-05-01T12:00:00Z")
        for number in range(retention.BATCH + 5):
            store.save({**first, "id": f"w{number}"})
    use(storage, workflow_retention_days=1)
    workflow_create("new", "Title")
    assert len(workflow_ids()) == 6
    workflow_delete("new")
    assert workflow_ids() == []


def test_a_write_succeeds_if_retention_fails(
    storage: dict[str, Any],
    become: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    become("ann")
    use(storage, workflow_retention_days=1)

    def fail(*_: object) -> int:
        raise Unavailable("The disk is busy.")

    monkeypatch.setattr(retention, "delete_expired", fail)
    workflow_create("w", "Title")
    assert workflow_ids() == ["w"]
    assert "were not deleted: The disk is busy." in caplog.text
