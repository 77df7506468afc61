"""Fixtures that the tests share, and what makes the tests fast."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from tests.project import SERVER, Project


def pytest_collection_finish() -> None:
    """Leave the modules and the collected tests out of garbage collections."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 1_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_bytecode() -> Iterator[None]:
    """Compile the modules of small projects in each run. Python does not notice that one changed within a second."""
    with patch.object(sys, "dont_write_bytecode", True):  # noqa: FBT003 - a value
        yield


@pytest.fixture(scope="session", autouse=True)
def _schemas_checked_once() -> Iterator[None]:
    """Let clients check each schema of a tool once: not in each case, which has a client of its own."""
    check = Draft202012Validator.check_schema
    valid: set[str] = set()

    def check_once(schema: dict[str, Any]) -> None:
        text = json.dumps(schema)
        if text not in valid:
            check(schema)
            valid.add(text)

    with patch.object(Draft202012Validator, "check_schema", check_once):
        yield


@pytest.fixture(scope="session")
def _first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which the goldens of the first server are written once."""
    return tmp_path_factory.mktemp("first")


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project with a server and the contract's tests, without goldens."""
    return Project(pytester, SERVER)


@pytest.fixture
def pinned(project: Project, _first: Path) -> Project:
    """The same project with goldens."""
    project.pin(_first)
    return project
