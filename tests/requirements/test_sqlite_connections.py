"""Statements of an event loop over SQLite connections: their rows, and the calls of the connection's thread."""

import logging
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.app.database.sqlite_connections import SQLiteConnection
from quilt_mcp.settings import Settings
from tests.requirements.client import connect
from tests.requirements.conftest import Contents, opened

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count}) SELECT i, 'row ' || i FROM n"
MADE = "CREATE TABLE made (id INTEGER PRIMARY KEY, name TEXT)"
SIZES = [1, 2, 255, 256, 257, 511, 512, 513, 1000]


@pytest.fixture
async def connection(make_settings: Callable[[str, Contents], Settings]) -> AsyncIterator[AsyncConnection]:
    async with opened(make_settings("sqlite", "tables")) as database, database.writing() as connection:
        await connection.execute(text(MADE))
        yield connection


@pytest.fixture
def count_calls(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Return the function that counts the calls of the threads of connections since it was called before."""
    caplog.set_level(logging.DEBUG, "aiosqlite")

    def count() -> int:
        found = [one for one in caplog.records if one.name == "aiosqlite" and one.getMessage().startswith("executing")]
        caplog.clear()
        return len(found)

    return count


async def driver_of(connection: AsyncConnection) -> SQLiteConnection:
    driver = (await connection.get_raw_connection()).driver_connection
    assert isinstance(driver, SQLiteConnection)
    return driver


def expected(count: int) -> list[tuple[int, str]]:
    return [(number, f"row {number}") for number in range(1, count + 1)]


async def test_a_statement_returns_all_rows_in_their_order(connection: AsyncConnection) -> None:
    for count in SIZES:
        found = await connection.execute(text(NUMBERS.format(count=count)))
        assert [tuple(row) for row in found] == expected(count)
        async with connection.stream(text(NUMBERS.format(count=count))) as streamed:
            assert [tuple(row) async for row in streamed] == expected(count)
        async with connection.stream(text(NUMBERS.format(count=count))) as streamed:
            assert [tuple(row) for row in await streamed.fetchmany(2)] == expected(count)[:2]
            assert [tuple(row) for row in await streamed.fetchall()] == expected(count)[2:]


async def test_a_statement_without_rows(connection: AsyncConnection) -> None:
    assert (await connection.execute(text("SELECT id FROM made"))).all() == []
    async with connection.stream(text("SELECT id FROM made")) as streamed:
        assert await streamed.fetchone() is None


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.soak), 100, 300])
async def test_a_cursor_returns_as_many_rows_as_are_wanted(connection: AsyncConnection, size: int) -> None:
    for count in SIZES:
        cursor = await (await driver_of(connection)).cursor().execute(NUMBERS.format(count=count))
        chunks = [await cursor.fetchmany(size) for _ in range(0, count, size)]
        assert chunks == [expected(count)[start : start + size] for start in range(0, count, size)]
        assert await cursor.fetchmany(size) == await cursor.fetchall() == []


async def test_a_cursor_that_is_closed_early_does_not_keep_its_table_in_use(connection: AsyncConnection) -> None:
    for count in SIZES:
        await connection.execute(text("INSERT INTO made (name) VALUES (:name)"), [{"name": "x"}] * count)
        cursor = await (await driver_of(connection)).cursor().execute("SELECT id FROM made ORDER BY id")
        assert await cursor.fetchone() == (1,)
        await cursor.close()
        await connection.execute(text("DROP TABLE made"))  # SQLite refuses this while a statement reads the table
        await connection.execute(text(MADE))


async def test_an_error_in_any_row_is_raised(connection: AsyncConnection) -> None:
    for wrong in (1, 255, 256, 257, 700):
        statement = f"SELECT json(CASE i WHEN {wrong} THEN '{{' ELSE i END) FROM ({NUMBERS.format(count=700)})"  # noqa: S608 - numbers of this test
        with pytest.raises(OperationalError, match="malformed JSON"):
            await connection.execute(text(statement))
        with pytest.raises(OperationalError, match="malformed JSON"):
            async with connection.stream(text(statement)) as streamed:
                await streamed.fetchall()
        await connection.execute(text("DROP TABLE made"))
        await connection.execute(text(MADE))


async def test_writes_return_their_numbers_and_rows(connection: AsyncConnection) -> None:
    one = text("INSERT INTO made (name) VALUES (:name)")
    assert (await connection.execute(one, {"name": "a"})).lastrowid == 1
    assert (await connection.execute(one, [{"name": "b"}, {"name": "c"}])).rowcount == 2
    changed = await connection.execute(text("UPDATE made SET name = upper(name) WHERE id > 1"))
    assert changed.rowcount == 2
    returned = await connection.execute(text("DELETE FROM made RETURNING name"))
    assert returned.scalars().all() == ["a", "B", "C"]
    assert (await connection.scalar(text("SELECT count(*) FROM made"))) == 0


async def test_a_statement_with_few_rows_needs_one_call_of_the_thread(
    connection: AsyncConnection, count_calls: Callable[[], int]
) -> None:
    count_calls()
    await connection.execute(text(NUMBERS.format(count=200)))
    assert count_calls() == 1


async def test_a_read_needs_one_call_of_the_thread_for_each_statement_and_two_for_its_transaction(
    make_settings: Callable[[str, Contents], Settings],
    count_calls: Callable[[], int],
    statements: Callable[[], list[str]],
) -> None:
    async with connect(make_settings("sqlite", "sample")) as client:
        for path in ("requirements/REQ-001", "epics", "epics?limit=2", "epics/EP-001/hierarchy"):
            await client.read_resource(f"requirements://{path}")
            count_calls()
            statements().clear()
            await client.read_resource(f"requirements://{path}")
            assert statements()
            assert (path, count_calls()) == (path, len(statements()) + 2)
