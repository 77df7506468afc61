"""Fixtures that the tests share."""

from pathlib import Path

import pytest

from tests.project import SERVER, Project


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
