"""The requirements of the demo company, written into the database of a demo world."""

import os
import uuid
import zlib
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import NullPool, create_engine, func, select, update

from quilt_mcp.app.database import StorageSettings
from quilt_mcp.app.database.engines import make_file
from quilt_mcp.app.domain import Scene
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.settings import FILE_NAME

PREBUILT = Path(__file__).with_name("sample.sqlite3.zlib")
"""The requirements as a database, because creating it takes a third of the time of entering a world."""
_REPLACED = "jonas_lindqvist"
"""Who lends his work to the caller of a demo of today."""
_NAMESPACE = uuid.UUID("0c1f8a56-53f0-4f0e-9a3c-8d2f5b7e6a11")


def make_id(of: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, of))


def write_sample(settings: StorageSettings) -> None:
    """Write the sample as the embedded database of these settings. Overwrite an existing file."""
    file = settings.data_dir / FILE_NAME
    make_file(file)
    file.write_bytes(zlib.decompress(PREBUILT.read_bytes()))


def refresh_sample(settings: StorageSettings, now: datetime, user: str) -> None:
    """Move the times of the sample so that its last change was an hour before now. Assign some of it to a user.

    The sample of a world has fixed times, so that its answers are the same in every run. A demo of today shows changes
    of the last days, and what is assigned to the caller.
    """
    file = settings.data_dir / FILE_NAME
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    with engine.begin() as connection:
        entities = [tables.BY_KIND[kind.name] for kind in model.KINDS]
        last = [connection.execute(select(func.max(table.c.updated_at))).scalar_one() for table in entities]
        shift = (now - timedelta(hours=1) - max(last)).total_seconds()
        for table in (*entities, tables.projects):
            moved = {
                name: func.strftime("%Y-%m-%d %H:%M:%S.000000", table.c[name], f"{shift:+.0f} seconds")
                for name in ("created_at", "updated_at")
            }
            connection.execute(update(table).values(moved))
        for table in (tables.epics, tables.user_stories, tables.requirements):
            assigned = update(table).where(table.c.assignee_id == make_id(_REPLACED))
            connection.execute(assigned.values(assignee_id=make_id(user)))


def fill_demo(scene: Scene) -> None:
    """Write the sample, and let the person of the world read it as its user of the same name."""
    if scene.is_empty:
        is_named = scene.is_member
    else:
        assert isinstance(scene.settings, StorageSettings)  # noqa: S101 - for the type checker
        write_sample(scene.settings)
        if scene.now and scene.user:
            refresh_sample(scene.settings, scene.now, scene.user)
        is_named = scene.is_member or scene.now is not None
    if scene.user and scene.has_role and is_named:  # the sample does not know a user without a role
        os.environ["QUILT_MCP_REQUIREMENTS_USER"] = scene.user
