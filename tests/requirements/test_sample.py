"""The sample of the demo world."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from sqlalchemy import select

from quilt_mcp.demo.people import ADMIN, MEMBER
from quilt_mcp.demo.requirements_sample import write_sample
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database
from quilt_mcp.settings import Settings
from tests.requirements.conftest import opened

EXPORT = """
import sys
from pathlib import Path
from quilt_mcp import runtime_context
from quilt_mcp.cli import main
from quilt_mcp.demo.requirements_sample import write_sample
from quilt_mcp.settings import Settings
runtime_context.use_settings(Settings(data_dir=Path(sys.argv[1])))
write_sample(runtime_context.settings())
sys.exit(main(["requirements", "export"]))
"""


async def test_about_300_entities_with_believable_texts(database: Database) -> None:
    async with database.reading() as connection:
        epics = (await connection.execute(select(tables.epics).order_by(tables.epics.c.reference_id))).all()
        counts = [
            len((await connection.scalars(select(table.c.id))).all())
            for table in (tables.epics, tables.user_stories, tables.acceptance_criteria, tables.requirements)
        ]
        criteria = (await connection.scalars(select(tables.acceptance_criteria.c.description))).all()
        titles = (await connection.scalars(select(tables.requirements.c.title))).all()
    assert counts == [9, 36, 72, 180]
    assert epics[0].reference_id == "EP-001"
    assert epics[0].title == "Intake of sequencing runs"
    assert all(" THEN the system SHALL " in text and text.startswith(("WHEN ", "IF ")) for text in criteria)
    assert len(set(titles)) == len(titles)


async def test_the_administrator_sees_all_and_the_member_one_project(database: Database) -> None:
    async with database.reading() as connection:
        roles = dict((await connection.execute(select(tables.users.c.username, tables.users.c.role))).all())
        memberships = await connection.scalars(
            select(tables.projects.c.name)
            .join(tables.project_members, tables.project_members.c.project_id == tables.projects.c.id)
            .join(tables.users, tables.users.c.id == tables.project_members.c.user_id)
            .where(tables.users.c.username == MEMBER)
        )
        assert memberships.all() == ["Sequencing Platform"]
        per_project = Counter(await connection.scalars(select(tables.epics.c.project_id)))
    assert (roles[ADMIN], roles[MEMBER]) == ("Administrator", "User")
    assert sorted(per_project.values()) == [3, 3, 3]


async def test_new_numbers_follow_those_of_the_sample(database: Database) -> None:
    async with database.reading() as connection:
        counters = (await connection.execute(select(tables.reference_counters))).all()
    assert dict(counters) == {"EP": 9, "US": 36, "AC": 72, "REQ": 180}


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
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


async def test_it_is_written_also_where_an_event_loop_runs_and_something_else_was(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", database_url=None)
    await asyncio.to_thread((tmp_path / "data").mkdir)
    await asyncio.to_thread((tmp_path / "data" / "requirements.sqlite3").touch)
    write_sample(settings)
    async with opened(settings) as database, database.reading() as connection:
        assert await connection.scalar(select(tables.epics.c.title).where(tables.epics.c.reference_id == "EP-009"))
