"""Requirements databases with unusual contents, generated and dumped with plain SQL, without the code under test.

The three forms are the tables of SQLite, those of PostgreSQL, and those of the earlier requirements system.
"""

import random
import sqlite3
import uuid
from collections.abc import Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import psycopg

Form = Literal["sqlite", "postgresql", "earlier"]
Rows = dict[str, list[dict[str, Any]]]
"""The rows of a database by table: IDs as text, times in UTC as text."""

DEFAULT_PROJECT = "00000000-0000-4000-8000-000000000001"
TABLES = (
    "users",
    "projects",
    "project_members",
    "requirement_types",
    "relationship_types",
    "epics",
    "user_stories",
    "acceptance_criteria",
    "requirements",
    "requirement_relationships",
)
"""In an order in which rows follow those that they refer to."""
STATUSES = ("Backlog", "Draft", "In Progress", "Done", "Cancelled")
_START = datetime(2020, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)


@dataclass(frozen=True)
class Size:
    """How many rows a database has."""

    users: int
    members: int
    entities: int
    """Of each kind, and of relationships."""


def generate(seed: int, size: Size, texts: Iterable[str], *, version: int = 4) -> Rows:
    """Return the rows of a database. The texts occur in every column that can have them."""
    return _Generator(random.Random(seed), size, list(texts), version).rows()  # noqa: S311 - not a secret


class _Generator:
    def __init__(self, numbers: random.Random, size: Size, texts: list[str], version: int) -> None:
        self._numbers = numbers
        self._size = size
        self._texts = texts
        self._version = version
        self._clock = 0
        self._users: list[str] = []

    def rows(self) -> Rows:
        users = [self._user(number) for number in range(self._size.users)]
        self._users = [user["id"] for user in users]
        projects = [self._named("project", number) for number in range(1 + self._size.members // 40)]
        projects[0]["id"] = DEFAULT_PROJECT
        projects[-1]["name"] = "Default"  # no longer the name of the default project
        types = [self._named("type", number) for number in range(3)]
        relations = [self._named("relation", number) for number in range(2)]
        types[1]["name"], relations[1]["name"] = "Functional", "depends_on"  # ours have the same names and other IDs
        count = range(1, self._size.entities + 1)
        epics = [self._planned("EP", one, STATUSES, project_id=self._pick(projects)) for one in count]
        stories = [self._planned("US", one, STATUSES, **self._parent("epic", epics)) for one in count]
        criteria = [self._criterion(one, stories) for one in count]
        requirements = [self._requirement(one, stories, criteria, types) for one in count]
        return {
            "users": users,
            "projects": projects,
            "project_members": self._members(projects),
            "requirement_types": types,
            "relationship_types": relations,
            "epics": epics,
            "user_stories": stories,
            "acceptance_criteria": criteria,
            "requirements": requirements,
            "requirement_relationships": self._relationships(requirements, relations),
        }

    def _id(self) -> str:
        made = uuid.UUID(int=self._numbers.getrandbits(128), version=4)
        if self._version == 7:
            self._clock += self._numbers.randrange(3)
            made = uuid.UUID(int=(1_700_000_000_000 + self._clock) << 80 | 7 << 76 | made.int & ((1 << 76) - 1))
        return str(made)

    def _pick(self, rows: list[dict[str, Any]]) -> str:
        return str(self._numbers.choice(rows)["id"])

    def _text(self, most: int) -> str:
        text = self._numbers.choice(self._texts)
        return text[:most] if text[:most].strip() else "x"

    def _times(self) -> dict[str, str]:
        made = _START + timedelta(seconds=self._numbers.randrange(10**8), microseconds=self._numbers.randrange(10**6))
        changed = made + timedelta(microseconds=self._numbers.randrange(10**12))
        return {"created_at": _write_time(made), "updated_at": _write_time(changed)}

    def _optional(self, text: str) -> str | None:
        return self._numbers.choice((text, text, "", None))

    def _user(self, number: int) -> dict[str, Any]:
        # the name of one user is the ID of another
        name = self._users_name(number)
        role = self._numbers.choice(("Administrator", "User", "Commenter"))
        made = {
            "id": self._id(),
            "username": name,
            "email": f"{number}{self._text(100)}",
            "role": role,
            **self._times(),
        }
        self._users.append(made["id"])
        return made

    def _users_name(self, number: int) -> str:
        return self._users[0] if number == 1 else f"{self._text(80)}{number}"

    def _named(self, kind: str, number: int) -> dict[str, Any]:
        name = f"{self._text(80)}{kind}{number}"
        return {"id": self._id(), "name": name, "description": self._optional(self._text(1000)), **self._times()}

    def _members(self, projects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        pairs = [(user, project["id"]) for user in self._users for project in projects]
        chosen = self._numbers.sample(pairs, min(self._size.members, len(pairs)))
        roles = ("Editor", "Viewer")
        return [{"user_id": u, "project_id": p, "role": self._numbers.choice(roles)} for u, p in chosen]

    def _parent(self, kind: str, parents: list[dict[str, Any]]) -> dict[str, Any]:
        parent = self._numbers.choice(parents)
        return {f"{kind}_id": parent["id"], "project_id": parent["project_id"]}

    def _entity(self, prefix: str, number: int) -> dict[str, Any]:
        place = self._numbers.choice((number * 7.0, number * 7.0, self._numbers.uniform(0.5, 700)))
        return {"id": self._id(), "reference_id": f"{prefix}-{number * 7:03d}", "position": place, **self._times()}

    def _planned(self, prefix: str, number: int, statuses: tuple[str, ...], **more: Any) -> dict[str, Any]:
        return {
            **self._entity(prefix, number),
            "creator_id": self._numbers.choice(self._users),
            "assignee_id": self._numbers.choice(self._users),
            "priority": self._numbers.randrange(1, 5),
            "status": self._numbers.choice(statuses),
            "title": self._text(500),
            "description": self._optional(self._text(50_000)),
            **more,
        }

    def _criterion(self, number: int, stories: list[dict[str, Any]]) -> dict[str, Any]:
        author = self._numbers.choice(self._users)
        parent = self._parent("user_story", stories)
        return {**self._entity("AC", number), "author_id": author, "description": self._text(50_000), **parent}

    def _requirement(
        self, number: int, stories: list[dict[str, Any]], criteria: list[dict[str, Any]], types: list[dict[str, Any]]
    ) -> dict[str, Any]:
        more: dict[str, Any] = self._parent("user_story", stories) | {"acceptance_criteria_id": None}
        if self._numbers.random() < 0.5:
            criterion = self._numbers.choice(criteria)
            of_story = {name: criterion[name] for name in ("user_story_id", "project_id")}
            more = {**of_story, "acceptance_criteria_id": criterion["id"]}
        type_id = self._pick(types)
        return self._planned("REQ", number, ("Draft", "Active", "Obsolete"), type_id=type_id, **more)

    def _relationships(
        self, requirements: list[dict[str, Any]], relations: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        ends = set()
        for _ in range(self._size.entities):
            first, second = sorted(self._numbers.choices(range(len(requirements)), k=2))
            if first != second:
                ends.add((requirements[first]["id"], requirements[second]["id"], self._pick(relations)))
        return [
            {
                "id": self._id(),
                "source_requirement_id": source,
                "target_requirement_id": target,
                "relationship_type_id": type_id,
                "created_by": self._numbers.choice(self._users),
                "created_at": self._times()["created_at"],
            }
            for source, target, type_id in sorted(ends)
        ]


def fit(rows: Rows, form: Form) -> Rows:
    """Return the rows as the tables of a form have them."""
    if form != "earlier":
        return rows
    without = {"projects", "project_members"}
    return {
        table: [
            {name: value for name, value in row.items() if name not in {"project_id", "position"}} for row in of_table
        ]
        for table, of_table in rows.items()
        if table not in without
    }


def write(form: Form, place: str, rows: Rows) -> None:
    """Write rows to a database that has the tables. Remove what was there."""
    with _connect(form, place) as (execute, executemany):
        for table in reversed(TABLES):
            if table in rows:
                execute(f"DELETE FROM {table}")  # noqa: S608 - a constant
        for table in TABLES:
            for_table = rows.get(table, [])
            if form == "earlier" and table == "users":
                for_table = [{**row, "password_hash": "-"} for row in for_table]
            if not for_table:
                continue
            columns = list(for_table[0])
            mark = "?" if form == "sqlite" else "%s"
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"  # noqa: S608 - constants
            executemany(statement, [[_to_sql(form, name, row[name]) for name in columns] for row in for_table])


def dump(form: Form, place: str, like: Rows) -> Rows:
    """Return the rows of a database, in the columns that other rows have, sorted by their values."""
    found: Rows = {}
    with _connect(form, place) as (execute, _):
        for table, of_table in like.items():
            columns = list(of_table[0]) if of_table else ["*"]
            rows = execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - constants
            found[table] = [
                {name: _from_sql(name, value) for name, value in zip(columns, row, strict=True)} for row in rows
            ]
    return sort(found)


def sort(rows: Rows) -> Rows:
    """Return the rows in an order that depends only on their values."""
    return {table: sorted(of_table, key=lambda row: sorted(map(str, row.items()))) for table, of_table in rows.items()}


def _is_id(name: str) -> bool:
    return name in {"id", "created_by"} or (name.endswith("_id") and name != "reference_id")


def _to_sql(form: Form, name: str, value: Any) -> Any:
    return value.replace("-", "") if form == "sqlite" and value and _is_id(name) else value


def _from_sql(name: str, value: Any) -> Any:
    if value is not None and _is_id(name):
        return str(uuid.UUID(str(value)))
    return _write_time(value.astimezone(UTC)) if isinstance(value, datetime) else value


def _write_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S.%f")


@contextmanager
def _connect(form: Form, place: str) -> Any:
    """Yield two functions, of a transaction: for a statement, which returns its rows, and for many."""
    if form == "sqlite":
        assert Path(place).exists()
        with closing(sqlite3.connect(place)) as connection, connection:
            yield lambda statement: connection.execute(statement).fetchall(), connection.executemany
        return
    with psycopg.connect(place, options="-c timezone=UTC") as other, other.cursor() as cursor:

        def execute(statement: str) -> list[Any]:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

        yield execute, cursor.executemany
