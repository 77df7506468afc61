"""Fixtures of the tests of workflows."""

import os
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import SecretStr

from quilt_mcp.app import App
from quilt_mcp.app.database.engines import make_file
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.settings import FILE_NAME
from tests.support import apps
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

_numbers = count()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A database of PostgreSQL for one test."""
    return postgres.create(f"workflows-{os.getpid()}-{next(_numbers)}")


@pytest.fixture(params=["file", "postgresql"])
def storage(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[dict[str, Any]]:
    """The settings of where workflows are stored: a file that does not exist, or a database without tables."""
    where: dict[str, Any] = {"data_dir": data_dir}
    if request.param == "postgresql":
        where["workflows_url"] = SecretStr(request.getfixturevalue("url"))
    apps.use_settings(Settings(**where))
    yield where
    apps.use_environment()


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
