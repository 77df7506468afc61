"""Requirements databases of any size, made by SQLite itself: a million entities in well under a minute.

A file is made once and kept. Its name tells of what it was made: a change of the tables, or here, makes a new one.
"""

import asyncio
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from uuid import UUID

from pydantic import SecretStr

from quilt_mcp.requirements import kinds, migrating
from quilt_mcp.requirements.database import open_database
from quilt_mcp.requirements.kinds import KINDS, Kind
from quilt_mcp.settings import Settings

SHARES = {"epic": 0.01, "user_story": 0.10, "acceptance_criteria": 0.30, "requirement": 0.59}
"""Of all entities, how many are of each kind."""
MOST_PROJECTS = 1_000
MEMBERS = {"member_of_1": 1, "member_of_300": 300}
"""Users, and of how many projects each is a member."""
_WIDTH = 10
_WORDS = (  # noqa: SIM905 - 39 quoted words are harder to read
    "import export ledger batch sample report login session token audit archive upload search filter invoice "
    "patient protocol assay plate reagent catalog package bucket workflow schedule alert metric quota replica "
    "backup restore consent genome variant sequence image label review approve notify"
).split()
_TABLE_OF_WORDS = "".join(word.ljust(_WIDTH) for word in _WORDS)
_START = 1_735_689_600_000
"""The time in the ids of the first of each kind, in milliseconds since 1970."""
_PROJECT = len(KINDS)
_NOW = "2026-01-15 12:00:00.000000"
_SPEED = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; PRAGMA temp_store = MEMORY"


async def database(entities: int, folder: Path) -> Path:
    """The file of a database with so many entities; made unless it is there."""
    file = folder / f"requirements-{entities}-{_made_of():08x}.sqlite3"
    unfinished = file.with_suffix(".unfinished")
    if not await asyncio.to_thread(file.exists):
        await asyncio.to_thread(_remove_old, folder, entities)
        await _create_tables(unfinished)
        await asyncio.to_thread(_fill, unfinished, entities)
        await asyncio.to_thread(unfinished.rename, file)
    return file


def _remove_old(folder: Path, entities: int) -> None:
    for old in folder.glob(f"requirements-{entities}-*"):
        old.unlink()


def _made_of() -> int:
    """A number that tells of what the databases are made."""
    made_of = zlib.crc32(Path(__file__).read_bytes())
    for source in sorted(Path(migrating.__file__).parent.rglob("*.py")):
        made_of = zlib.crc32(source.read_bytes(), made_of)
    return made_of


def url(file: Path) -> str:
    """What QUILT_MCP_DATABASE_URL has to be for a file."""
    return f"sqlite:///{file.absolute()}"


def count_of(kind: Kind, entities: int) -> int:
    """How many of them are of a kind."""
    return round(SHARES[kind.name] * entities)


def entity_id(kind: Kind, number: int) -> str:
    """The UUID of the entity with this number, from 0; their order is that of the numbers."""
    return str(UUID(f"{_START + number:012x}700080000000{KINDS.index(kind):08x}"))


async def _create_tables(file: Path) -> None:
    made = open_database(Settings(database_url=SecretStr(url(file))), patient=True)
    try:
        await migrating.upgrade(made)
    finally:
        await made.close()


def _fill(file: Path, entities: int) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript(_SPEED)
        connection.execute("BEGIN")
        projects = min(MOST_PROJECTS, count_of(kinds.EPIC, entities))
        _insert_people(connection, projects)
        for kind in KINDS:
            connection.execute(_insertion(kind, entities, projects), {"words": _TABLE_OF_WORDS})
            _index(connection, kind)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")


def _insert_people(connection: sqlite3.Connection, projects: int) -> None:
    """The projects, and the users with their memberships; the first user is the author of everything."""
    project = _id("n.i", _PROJECT)
    connection.execute(
        f"INSERT INTO projects (id, name, created_at, updated_at) {_numbers(projects)}"  # noqa: S608 - constants
        f" SELECT {project}, 'project ' || n.i, '{_NOW}', '{_NOW}' FROM n"
    )
    for number, (name, memberships) in enumerate(MEMBERS.items()):
        user = f"{number:032x}"
        row = (user, name, f"{name}@example.com", "User", _NOW, _NOW)
        connection.execute(
            "INSERT INTO users (id, username, email, role, created_at, updated_at) VALUES (?,?,?,?,?,?)", row
        )
        connection.execute(
            "INSERT INTO project_members (user_id, project_id, role)"  # noqa: S608 - constants
            f" {_numbers(min(memberships, projects))} SELECT '{user}', {project}, 'Editor' FROM n"
        )


def _insertion(kind: Kind, entities: int, projects: int) -> str:
    """The statement that inserts all entities of a kind; children go round their parents, epics round the projects."""
    count, place = count_of(kind, entities), "n.i"
    values = {"id": _id(place, KINDS.index(kind)), "reference_id": f"printf('{kind.prefix}-%03d', {place} + 1)"}
    parent = kinds.BY_NAME.get(kind.parent or "")
    while parent:
        place = f"({place} % {count_of(parent, entities)})"
        if parent.name == kind.parent:
            values[f"{parent.name}_id"] = _id(place, KINDS.index(parent))
        parent = kinds.BY_NAME.get(parent.parent or "")
    values["project_id"] = _id(f"({place} % {projects})", _PROJECT)
    values["description"] = f"{_phrase(8, 40_503)} || ' case' || (n.i / 20)"
    values[kind.author_column] = f"'{0:032x}'"
    if kind.statuses:
        values |= {"assignee_id": f"'{0:032x}'", "title": _phrase(3, 2_654_435), "priority": "1 + n.i % 4"}
        values["status"] = f"'{kind.statuses[0]}'"
    if kind is kinds.REQUIREMENT:
        values["type_id"] = "(SELECT min(id) FROM requirement_types)"
    values |= {"created_at": f"'{_NOW}'", "updated_at": f"'{_NOW}'"}
    return (
        f"INSERT INTO {kind.table} ({', '.join(values)}) {_numbers(count)}"  # noqa: S608 - constants
        f" SELECT {', '.join(values.values())} FROM n"
    )


def _index(connection: sqlite3.Connection, kind: Kind) -> None:
    """Put a kind into the search index; the texts are made so that they need no analysis."""
    title = "t.title" if kind.statuses else "''"
    connection.execute(
        "INSERT INTO search_entries (kind, entity_id, project_id, reference_id)"  # noqa: S608 - constants
        f" SELECT '{kind.name}', id, project_id, reference_id FROM {kind.table} ORDER BY id"
    )
    connection.execute(
        f"INSERT INTO search_words (rowid, title, body) SELECT e.id, {title}, t.description"  # noqa: S608 - constants
        f" FROM search_entries e CROSS JOIN {kind.table} t ON t.id = e.entity_id WHERE e.kind = '{kind.name}'"
    )


def _numbers(count: int) -> str:
    """The beginning of a SELECT that may take its rows from `n`, whose column `i` goes from 0 to count - 1."""
    return f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"  # noqa: S608 - a number


def _id(number: str, kind: int) -> str:
    """The SQL of the id of the thing with this number among those of its kind: a UUID of version 7."""
    return f"printf('%012x700080000000{kind:08x}', {_START} + {number})"


def _phrase(length: int, factor: int) -> str:
    """The SQL of so many words; which they are depends on the row's number."""
    numbers = (f"((n.i + {place}) * {factor + 7919 * place} >> 4) % {len(_WORDS)}" for place in range(length))
    words = (f"trim(substr(:words, 1 + {_WIDTH} * ({number}), {_WIDTH}))" for number in numbers)
    return " || ' ' || ".join(words)
