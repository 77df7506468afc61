"""Reading a database in tests, and how that fails."""

from pathlib import Path

import pytest
from sqlalchemy import func, select

from quilt_mcp.errors import ResourceFailure
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database
from quilt_mcp.settings import Settings

PASSWORD = "correct-horse-battery"


async def epics(database: Database) -> int:
    async with database.reading() as connection:
        return int(await connection.scalar(select(func.count()).select_from(tables.epics)) or 0)


async def failure_of(database: Database) -> ResourceFailure:
    """How a read of the database fails; with nothing of a driver's words or the address in it."""
    with pytest.raises(ResourceFailure) as failed:
        await epics(database)
    said = f"{failed.value.message} {failed.value.details} {failed.value.suggested_actions}"
    assert PASSWORD not in said
    assert "sqlalche" not in said
    return failed.value


def file_of(settings: Settings) -> Path:
    return settings.data_dir / "requirements.sqlite3"
