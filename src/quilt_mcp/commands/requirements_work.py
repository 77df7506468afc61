"""What `quilt-mcp requirements` does with the database; apart from its commands, for it needs what may not be there."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import func, select

from quilt_mcp import runtime_context
from quilt_mcp.requirements import migrating
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.exporting import export_records
from quilt_mcp.requirements.importing import Report, import_records
from quilt_mcp.requirements.record_files import Format, Writer, read_records
from quilt_mcp.requirements.records import TABLES
from quilt_mcp.requirements.schema_state import Schema
from quilt_mcp.requirements.tables import metadata

_NOT_IN_EXISTING = {"projects", "project_members"}


async def import_file(path: Path, form: Format, creator: str | None, progress: Callable[[int, int], None]) -> Report:
    """Import a file into the database of the settings; see `import_records`."""
    async with _opened() as database:
        with path.open("rb") as file:
            return await import_records(database, read_records(file, form), creator=creator, progress=progress)


async def export_file(path: Path | None, form: Format) -> int:
    """Export to a file, which is there when it is whole, or to stdout; answer how many records it has.

    Raises:
        OSError: the file cannot be written.
    """
    count = 0
    async with _opened() as database, aclosing(export_records(database)) as records:
        with _target(path) as file:
            writer = Writer(file, form)
            async for record in records:
                writer.write(record)
                count += 1
    return count


async def migrate() -> tuple[Schema, Schema]:
    """Bring the tables up to date; answer what was there before, and what is now."""
    async with _opened() as database:
        before = await migrating.upgrade(database)
        return before, await database.schema()


async def status() -> dict[str, Any]:
    """Where the database is, what is there, and how many rows its tables have."""
    async with _opened() as database:
        schema = await database.schema()
        found = {"database": _place(database), "state": schema.state, "revision": schema.revision}
        if schema.state not in {"current", "existing"}:
            return found | {"problem": schema.problem, "rows": {}}
        async with database.reading() as connection:
            left_out = _NOT_IN_EXISTING if database.is_existing else set()
            counts = {
                name: await connection.scalar(select(func.count()).select_from(metadata.tables[name]))
                for name in TABLES.values()
                if name not in left_out
            }
        return found | {"problem": None, "rows": counts}


@asynccontextmanager
async def _opened() -> AsyncIterator[Database]:
    database = open_database(runtime_context.settings(), patient=True)
    try:
        yield database
    finally:
        await database.close()


def _place(database: Database) -> str:
    """Where it is, without a user or a password."""
    url = database.engine.url
    if database.dialect == "sqlite":
        return str(url.database)
    host = url.host or url.query.get("host", "localhost")
    return f"postgresql://{host}{f':{url.port}' if url.port else ''}/{url.database}"


@contextmanager
def _target(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
