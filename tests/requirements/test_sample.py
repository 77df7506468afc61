"""The sample requirements of the demo."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.sample import PREBUILT, write_sample
from tests.requirements.conftest import opened
from tests.support import demo_data
from tests.support.settings import Settings

EXPORT = """
import sys
from pathlib import Path
from tests.support import apps
from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.sample import write_sample
from tests.support.settings import Settings
apps.use_settings(Settings(data_dir=Path(sys.argv[1])))
write_sample(apps.current_settings())
sys.exit(main(["requirements", "export"]))
"""


@pytest.mark.soak
def test_the_sample_is_the_same_in_every_process(tmp_path: Path) -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", EXPORT, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Kathmandu"))
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == 452


async def test_the_sample_replaces_a_file_while_an_event_loop_runs(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", database_url=None)
    await asyncio.to_thread((tmp_path / "data").mkdir)
    await asyncio.to_thread((tmp_path / "data" / "requirements.sqlite3").touch)
    write_sample(settings)
    with opened(settings) as database, database.reading() as connection:
        assert connection.scalar(select(tables.epics.c.title).where(tables.epics.c.reference_id == "EP-009"))


def test_the_database_in_the_package_is_the_sample_in_the_newest_schema(tmp_path: Path) -> None:
    packaged = zlib.decompress(PREBUILT.read_bytes())
    assert demo_data.main(tmp_path / "new.zlib") == 0
    new = zlib.decompress((tmp_path / "new.zlib").read_bytes())
    assert read_everything(tmp_path / "packaged", packaged) == read_everything(tmp_path / "new", new), (
        "run `make demo-data`"
    )


def read_everything(file: Path, content: bytes) -> dict[str, list[object]]:
    """Return the statements of the schema, and the rows of each table. SQLite checks what it stores for itself."""
    file.write_bytes(content)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO search_words(search_words) VALUES ('integrity-check')")
        schema = connection.execute("SELECT name, type, sql FROM sqlite_schema ORDER BY name").fetchall()
        names = [name for name, kind, _ in schema if kind == "table" and not name.startswith("search_words_")]
        rows = {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}  # noqa: S608 - our own
    assert len(rows["requirements"]) == 180
    return {"schema": schema, **rows}
