"""A workflow database that changes under a running server is noticed by the next call, without a restart."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.workflows.service import workflow_create, workflow_list_all

pytestmark = pytest.mark.usefixtures("data_dir")


def names() -> list[str]:
    return [one["id"] for one in workflow_list_all()["workflows"]]


@pytest.fixture
def file(data_dir: Path) -> Path:
    """The workflow file, with one workflow in it."""
    workflow_create("old", "Title")
    return data_dir / "workflows.sqlite3"


def copy_of(file: Path, directory: Path) -> Path:
    copy = directory / "copy.sqlite3"
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def test_a_file_that_is_deleted_damaged_or_replaced(file: Path, tmp_path: Path) -> None:
    backup = copy_of(file, tmp_path)
    file.unlink()
    assert names() == []
    workflow_create("new", "Title")
    assert names() == ["new"]
    file.write_bytes(b"no database" * 5000)
    with pytest.raises(ResourceExecutionError, match="damaged"):
        names()
    backup.rename(file)
    assert names() == ["old"]
    workflow_create("new", "Title")
    another = copy_of(file, tmp_path)
    workflow_create("newest", "Title")
    another.rename(file)
    assert set(names()) == {"new", "old"}


def test_a_copy_that_sqlite_restores_into_the_open_file_is_read_next(file: Path, tmp_path: Path) -> None:
    """As `sqlite3 workflows.sqlite3 ".restore copy"` does, which the documentation names."""
    copy = copy_of(file, tmp_path)
    workflow_create("new", "Title")
    with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(file)) as target:
        source.backup(target)
    assert names() == ["old"]
    workflow_create("newer", "Title")
    assert set(names()) == {"old", "newer"}
