"""The requirements of the demo's company: about 300 entities in three projects, the same in every process."""

import asyncio
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.demo.people import USERS
from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.database import open_database
from quilt_mcp.requirements.engines import FILE_NAME, make_file
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.writing import create_entities
from quilt_mcp.settings import Settings

Row = dict[str, Any]

TEXTS = Path(__file__).with_name("requirements_sample.toml")
BEGINNING = datetime(2024, 9, 2, 8, 0, tzinfo=UTC)
_NAMESPACE = uuid.UUID("0c1f8a56-53f0-4f0e-9a3c-8d2f5b7e6a11")
# what follows each other in the rows of a kind, again and again
_PRIORITIES = (3, 2, 1, 2, 4, 3, 2)
_STATUSES = {
    kinds.EPIC.name: ("In Progress", "In Progress", "Done", "Backlog"),
    kinds.USER_STORY.name: ("Done", "In Progress", "Draft", "Backlog", "In Progress", "Done", "Backlog", "Cancelled"),
    kinds.REQUIREMENT.name: ("Active", "Active", "Draft", "Active", "Active", "Obsolete", "Active"),
}


def write_sample(settings: Settings) -> None:
    """Put the sample where the embedded database of these settings is; what was there is lost."""
    file = settings.data_dir / FILE_NAME
    make_file(file)
    file.write_bytes(_sample_file())


async def create_sample(connection: AsyncConnection) -> None:
    """Write the sample into an empty database, with a connection of `Database.writing`."""
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    sample = _Sample(texts["project"])
    for table in (tables.projects, tables.requirement_types, tables.relationship_types):
        await connection.execute(update(table).values(_times(0)))
    await connection.execute(insert(tables.users), sample.users)
    await connection.execute(insert(tables.projects), sample.projects)
    await connection.execute(insert(tables.project_members), sample.members)
    columns = (tables.requirement_types.c.name, tables.requirement_types.c.id)
    sample.type_ids = dict((await connection.execute(select(*columns))).all())
    for kind, rows in sample.entities().items():
        await create_entities(connection, kinds.BY_NAME[kind], rows)
    columns = (tables.relationship_types.c.name, tables.relationship_types.c.id)
    type_ids = dict((await connection.execute(select(*columns))).all())
    await connection.execute(insert(tables.requirement_relationships), list(sample.relationships(type_ids)))


@cache
def _sample_file() -> bytes:
    with TemporaryDirectory(prefix="quilt-mcp-sample-") as directory, ThreadPoolExecutor(1) as thread:
        # in a thread, for the caller's may run an event loop
        thread.submit(lambda: asyncio.run(_write(Path(directory)))).result()
        return (Path(directory) / FILE_NAME).read_bytes()


async def _write(directory: Path) -> None:
    database = open_database(Settings().model_copy(update={"data_dir": directory, "database_url": None}))
    try:
        async with database.writing() as connection:
            await create_sample(connection)
    finally:
        await database.close()


def _id(of: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, of))


def _times(hours: int) -> Row:
    created = BEGINNING + timedelta(hours=hours)
    return {"created_at": created, "updated_at": created + timedelta(days=hours % 23, minutes=hours % 59)}


class _Sample:
    """Rows for the tables."""

    def __init__(self, texts: list[Mapping[str, Any]]) -> None:
        self._texts = texts
        self._rows: dict[str, list[Row]] = {kind.name: [] for kind in kinds.KINDS}
        self.type_ids: dict[str, str] = {}
        people = [user for user in USERS if user.is_active and not user.is_service]
        self.users = [
            {
                "id": _id(user.name),
                "username": user.name,
                "email": user.email,
                "role": kinds.ADMINISTRATOR if user.is_admin else "User",
                "created_at": datetime.fromisoformat(user.joined),
                "updated_at": datetime.fromisoformat(user.joined),
            }
            for user in people
        ]
        self.projects = [
            {"id": _id(one["name"]), "name": one["name"], "description": one["description"], **_times(number)}
            for number, one in enumerate(texts)
        ]
        self.members = [
            {"user_id": _id(name), "project_id": _id(one["name"]), "role": "Viewer" if place else "Editor"}
            for one in texts
            for place, name in enumerate(one["members"])
        ]

    def entities(self) -> dict[str, list[Row]]:
        """The rows of each kind, by its name; parents before what belongs to them."""
        for project in self._texts:
            for epic in project["epic"]:
                row = self._add(kinds.EPIC, project, None, title=epic["title"], description=epic["description"])
                row["project_id"] = _id(project["name"])
                for story in epic["story"]:
                    self._add_story(project, row["id"], story)
        return self._rows

    def relationships(self, type_ids: Mapping[str, str]) -> Iterator[Row]:
        """Relationships: inside each story, from each story to the one before, and a few from project to project."""
        stories = [
            self._rows["requirement"][start : start + 5] for start in range(0, len(self._rows["requirement"]), 5)
        ]
        pairs = [("derives_from", own[1], own[0]) for own in stories]
        pairs += [("relates_to", own[2], own[0]) for own in stories]
        pairs += [("depends_on", own[0], before[0]) for before, own in pairwise(stories)]
        pairs += [("blocks", stories[13][0], stories[5][1]), ("conflicts_with", stories[28][2], stories[8][2])]
        for number, (name, source, target) in enumerate(pairs):
            yield {
                "id": _id(f"{name}/{source['id']}/{target['id']}"),
                "source_requirement_id": source["id"],
                "target_requirement_id": target["id"],
                "relationship_type_id": type_ids[name],
                "created_by": source["creator_id"],
                "created_at": BEGINNING + timedelta(days=40, hours=number),
            }

    def _add_story(self, project: Mapping[str, Any], epic_id: str, texts: Mapping[str, str]) -> None:
        story = self._add(kinds.USER_STORY, project, epic_id, title=texts["title"], description=texts["story"])["id"]
        criteria = [
            self._add(kinds.ACCEPTANCE_CRITERIA, project, story, description=text)["id"]
            for text in (
                f"WHEN {texts['when']} THEN the system SHALL {texts['then']}.",
                f"IF {texts['fault']} THEN the system SHALL {texts['reply']}.",
            )
        ]
        for criterion, (type_name, title, description) in zip(
            [*criteria, None, criteria[0], None], _requirements(texts), strict=True
        ):
            type_id = self.type_ids[type_name]
            row = self._add(kinds.REQUIREMENT, project, story, title=title, description=description, type_id=type_id)
            row["acceptance_criteria_id"] = criterion

    def _add(self, kind: Kind, project: Mapping[str, Any], parent: str | None, **texts: str) -> Row:
        number = len(self._rows[kind.name]) + 1
        members = project["members"]
        row: Row = {
            "id": _id(f"{kind.table}/{number}"),
            "reference_id": kinds.format_reference(kind, number),
            kind.author_column: _id(members[number % len(members)]),
            **_times(number * 5),
            **texts,
        }
        if kind.parent_column:
            row[kind.parent_column] = parent
        if kind.statuses:
            row["assignee_id"] = _id(members[number // 2 % len(members)])
            row["priority"] = _PRIORITIES[number % len(_PRIORITIES)]
            row["status"] = _STATUSES[kind.name][(number - 1) % len(_STATUSES[kind.name])]
        self._rows[kind.name].append(row)
        return row


def _requirements(texts: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Type, title and description of a story's requirements."""
    title, then, reply = texts["title"], texts["then"], texts["reply"]
    return (
        ("Functional", _sentence(then), f"Whenever {texts['when']}, the system shall {then}."),
        ("Business Rule", _sentence(reply), f"If {texts['fault']}, the system shall {reply}."),
        ("Non-Functional", texts["quality"], f"It holds for: {title}. It is measured in every release."),
        ("Data", f"Keep a record for: {title}", f"Each time {texts['when']}, the system shall record who and when."),
        ("Interface", f"Offer in the catalog and in the API: {title}", "Both shall take and give the same fields."),
    )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]
