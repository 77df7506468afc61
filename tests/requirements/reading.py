"""Reads a database in tests, and checks how that fails."""

from pathlib import Path

import pytest
from sqlalchemy import func, select

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database
from tests.support.settings import Settings

PASSWORD = "correct-horse-battery"


def epics(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.scalar(select(func.count()).select_from(tables.epics)) or 0)


def failure_of(database: Database) -> ResourceFailure:
    """Return the failure of a read. Check that it contains no password and no text of a driver."""
    with pytest.raises(ResourceFailure) as failed:
        epics(database)
    text = f"{failed.value.message} {failed.value.details} {failed.value.suggested_actions}"
    assert PASSWORD not in text
    assert "sqlalche" not in text
    return failed.value


def name_of(settings: Settings) -> str:
    """Return the name of a database of PostgreSQL."""
    assert settings.database_url
    return settings.database_url.get_secret_value().partition("?")[0].rpartition("/")[2]


def place_of(settings: Settings) -> str:
    """Return the URL or the file of a database."""
    return settings.database_url.get_secret_value() if settings.database_url else str(file_of(settings))


def file_of(settings: Settings) -> Path:
    return settings.data_dir / "requirements.sqlite3"
