"""What another world lists and the home world does not is read and pinned there."""

import pytest

from tests.project import Project
from tests.test_raw_faults import WORLD, raw

__all__ = ["raw"]
SECRET = "golden/data/raw/secret--away.json"


@pytest.fixture
def secret(raw: Project) -> Project:
    """A project with goldens of two worlds, of which the second lists one more resource."""
    show(raw, "lists a secret")
    status, output = raw.update()
    assert status == 0, output
    assert SECRET in raw.files
    return raw


def show(project: Project, fault: str) -> None:
    project.write("tests/test_contract.py", WORLD.format(fault=fault, world="away"))


def test_a_resource_that_only_another_world_lists_is_pinned(secret: Project) -> None:
    status, output = secret.run()
    assert status == 0, output
    show(secret, "lists a secret that differs")
    output = secret.fail("-k", "lists")
    assert "raw://secret in away differs from golden/data/raw/secret--away.json" in output
    show(secret, "lists a secret that it refuses")
    assert "raw://secret in away: the server answers with a refusal, but" in secret.fail("-k", "lists")


def test_the_golden_of_a_resource_that_no_world_lists_any_more_is_deleted(secret: Project) -> None:
    show(secret, "")
    assert "resources--away.json equals the golden of the home world: delete it" in secret.fail("-k", "lists")
    for _ in range(2):  # the first update writes the lists, which say what has a case
        assert secret.update("-k", "lists or golden_has_a_case")[0] == 0
    assert SECRET not in secret.files
    status, output = secret.run()
    assert status == 0, output


def test_a_template_that_only_another_world_lists_needs_an_example(raw: Project) -> None:
    show(raw, "lists a template")
    status, output = raw.update("-k", "lists")
    assert status == 1
    assert (
        'raw://secret/{number} is listed only in away: add its example\n    mcp_examples = ["raw://secret/{' in output
    )
    raw.set('mcp_examples = ["raw://secret/{number} = raw://secret/7"]')
    for run in (raw.update, raw.run):
        status, output = run("-k", "lists or golden_has_a_case or configuration")
        assert status == 0, output
    assert "golden/data/raw/secret/7--away.json" in raw.files
