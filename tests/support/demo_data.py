"""Makes the requirements of the demo company: about 300 entities in three projects, the same in every process.

The package contains them as a database. `make demo-data` writes that file; a test compares.
"""

import sys
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from sqlalchemy import Connection, insert, select, update

from quilt_mcp.demo.company import USERS
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.database import open_database
from quilt_mcp.requirements.model import Kind
from quilt_mcp.requirements.sample import PREBUILT, make_id
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.tables import Values
from quilt_mcp.requirements.writing import create_entities
from tests.support.settings import Settings

TEXTS = Path(__file__).with_name("requirements_sample.toml")
START = datetime(2024, 9, 2, 8, 0, tzinfo=UTC)
# repeated over the rows of a kind
_PRIORITIES = (3, 2, 1, 2, 4, 3, 2)
_STATUSES = {
    model.EPIC.name: ("In Progress", "In Progress", "Done", "Backlog"),
    model.USER_STORY.name: ("Done", "In Progress", "Draft", "Backlog", "In Progress", "Done", "Backlog", "Cancelled"),
    model.REQUIREMENT.name: ("Active", "Active", "Draft", "Active", "Active", "Obsolete", "Active"),
}


class _Story(TypedDict):
    title: str
    story: str
    when: str
    then: str
    fault: str
    reply: str
    quality: str


class _Epic(TypedDict):
    title: str
    description: str
    story: list[_Story]


class _Project(TypedDict):
    name: str
    description: str
    members: list[str]
    epic: list[_Epic]


def create_sample(connection: Connection) -> None:
    """Write the sample to an empty database, with a connection of `Database.writing`."""
    texts = tomllib.loads(TEXTS.read_text(encoding="utf-8"))
    sample = _Sample(texts["project"])
    for table in (tables.projects, tables.requirement_types, tables.relationship_types):
        connection.execute(update(table).values(_make_times(0)))
    connection.execute(insert(tables.users), sample.users)
    connection.execute(insert(tables.projects), sample.projects)
    connection.execute(insert(tables.project_members), sample.members)
    columns = (tables.requirement_types.c.name, tables.requirement_types.c.id)
    sample.type_ids = dict(connection.execute(select(*columns)).all())
    for kind, rows in sample.make_entities().items():
        create_entities(connection, model.BY_NAME[kind], rows)
        table = tables.BY_KIND[kind]
        changed = update(table).where(table.c.updated_at != table.c.created_at)
        connection.execute(changed.values(changed_fields="status" if "status" in table.c else "description"))
        if "priority" in table.c:
            connection.execute(changed.where(table.c.priority == 1).values(changed_fields="assignee_id priority"))
    columns = (tables.relationship_types.c.name, tables.relationship_types.c.id)
    type_ids = dict(connection.execute(select(*columns)).all())
    connection.execute(insert(tables.requirement_relationships), list(sample.make_relationships(type_ids)))


def build_sample() -> bytes:
    """Return a new database with the sample, as SQLite stores it."""
    with TemporaryDirectory(prefix="quilt-mcp-sample-") as directory:
        database = open_database(Settings(data_dir=Path(directory), database_url=None))
        with closing(database), database.writing() as connection:
            create_sample(connection)
        return (Path(directory) / FILE_NAME).read_bytes()


def _make_times(hours: int) -> Values:
    created = START + timedelta(hours=hours)
    return {"created_at": created, "updated_at": created + timedelta(days=hours % 23, minutes=hours % 59)}


class _Sample:
    """The rows of the tables."""

    def __init__(self, texts: list[_Project]) -> None:
        self._texts = texts
        self._rows: dict[str, list[Values]] = {kind.name: [] for kind in model.KINDS}
        self.type_ids: dict[str, str] = {}
        people = [user for user in USERS if user.is_active and not user.is_service]
        self.users = [
            {
                "id": make_id(user.name),
                "username": user.name,
                "email": user.email,
                "role": model.ADMINISTRATOR if user.is_admin else "User",
                "created_at": datetime.fromisoformat(user.joined),
                "updated_at": datetime.fromisoformat(user.joined),
            }
            for user in people
        ]
        self.projects = [
            {"id": make_id(one["name"]), "name": one["name"], "description": one["description"], **_make_times(number)}
            for number, one in enumerate(texts)
        ]
        self.members = [
            {"user_id": make_id(name), "project_id": make_id(one["name"]), "role": "Viewer" if place else "Editor"}
            for one in texts
            for place, name in enumerate(one["members"])
        ]

    def make_entities(self) -> dict[str, list[Values]]:
        """Return the rows by the name of their kind. Parents precede their children."""
        for project in self._texts:
            for epic in project["epic"]:
                row = self._add(model.EPIC, project, None, title=epic["title"], description=epic["description"])
                row["project_id"] = make_id(project["name"])
                for story in epic["story"]:
                    self._add_story(project, row["id"], story)
        return self._rows

    def make_relationships(self, type_ids: Mapping[str, str]) -> Iterator[Values]:
        """Yield relationships within stories, from each story to the previous one, and between projects."""
        stories = [
            self._rows["requirement"][start : start + 5] for start in range(0, len(self._rows["requirement"]), 5)
        ]
        pairs = [("derives_from", own[1], own[0]) for own in stories]
        pairs += [("relates_to", own[2], own[0]) for own in stories]
        pairs += [("depends_on", own[0], before[0]) for before, own in pairwise(stories)]
        pairs += [("blocks", stories[13][0], stories[5][1]), ("conflicts_with", stories[28][2], stories[8][2])]
        for number, (name, source, target) in enumerate(pairs):
            yield {
                "id": make_id(f"{name}/{source['id']}/{target['id']}"),
                "source_requirement_id": source["id"],
                "target_requirement_id": target["id"],
                "relationship_type_id": type_ids[name],
                "created_by": source["creator_id"],
                "created_at": START + timedelta(days=40, hours=number),
            }

    def _add_story(self, project: _Project, epic_id: str, texts: _Story) -> None:
        story = self._add(model.USER_STORY, project, epic_id, title=texts["title"], description=texts["story"])["id"]
        criteria = [
            self._add(model.ACCEPTANCE_CRITERIA, project, story, description=text)["id"]
            for text in (
                f"WHEN {texts['when']} THEN the system SHALL {texts['then']}.",
                f"IF {texts['fault']} THEN the system SHALL {texts['reply']}.",
            )
        ]
        for criterion, (type_name, title, description) in zip(
            [*criteria, None, criteria[0], None], _describe_requirements(texts), strict=True
        ):
            type_id = self.type_ids[type_name]
            row = self._add(model.REQUIREMENT, project, story, title=title, description=description, type_id=type_id)
            row["acceptance_criteria_id"] = criterion

    def _add(self, kind: Kind, project: _Project, parent: str | None, **texts: str) -> Values:
        number = len(self._rows[kind.name]) + 1
        members = project["members"]
        row: Values = {
            "id": make_id(f"{kind.table}/{number}"),
            "reference_id": model.format_reference(kind, number),
            kind.author_column: make_id(members[number % len(members)]),
            **_make_times(number * 5),
            **texts,
        }
        if kind.parent_column:
            row[kind.parent_column] = parent
        if kind.statuses:
            row["assignee_id"] = make_id(members[number // 2 % len(members)])
            row["priority"] = _PRIORITIES[number % len(_PRIORITIES)]
            row["status"] = _STATUSES[kind.name][(number - 1) % len(_STATUSES[kind.name])]
        self._rows[kind.name].append(row)
        return row


def _describe_requirements(texts: _Story) -> tuple[tuple[str, str, str], ...]:
    """Return the type, title and description of each requirement of a user story."""
    title, then, reply = texts["title"], texts["then"], texts["reply"]
    return (
        ("Functional", _capitalize(then), f"Whenever {texts['when']}, the system shall {then}."),
        ("Business Rule", _capitalize(reply), f"If {texts['fault']}, the system shall {reply}."),
        ("Non-Functional", texts["quality"], f"Applies to: {title}. Measured in every release."),
        ("Data", f"Keep a record for: {title}", f"Each time {texts['when']}, the system shall record who and when."),
        ("Interface", f"Offer in the catalog and in the API: {title}", "Both shall take and give the same fields."),
    )


def _capitalize(words: str) -> str:
    return words[0].upper() + words[1:]


def main(file: Path = PREBUILT) -> int:
    """Write the database that the package contains."""
    file.write_bytes(zlib.compress(build_sample(), 9))
    return 0


if __name__ == "__main__":
    sys.exit(main())
