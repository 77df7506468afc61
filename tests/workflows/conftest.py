"""Fixtures of the tests of workflows."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quilt_mcp.app import App
from quilt_mcp.app.database.engines import make_file
from quilt_mcp.settings import Settings
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.settings import FILE_NAME
from tests.support.compiled_statements import statements_compiled_once  # noqa: F401 - a fixture


@pytest.fixture
def no_workflows(data_dir: Path) -> None:
    """A file with the tables, for tests that do not depend on who creates it: only the first of them creates one."""
    make_file(data_dir / FILE_NAME)
    (data_dir / FILE_NAME).write_bytes(_create_tables())


@cache
def _create_tables() -> bytes:
    with TemporaryDirectory() as directory:
        app = App(Settings(data_dir=Path(directory)))
        with app.active(), app.part(Workflows).writing():
            pass
        return (Path(directory) / FILE_NAME).read_bytes()
