"""IDs and times as SQLite stores them. Python's own classes, and SQLAlchemy's own types, are the judges."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, DateTime, Uuid, bindparam, cast, create_engine, literal_column, select
from sqlalchemy.pool import NullPool
from sqlalchemy.types import TypeEngine

from quilt_mcp.requirements.tables import Id, Time

MOMENTS = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29))  # noqa: DTZ001 - their zone follows
ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.fixture(scope="module")
def connection() -> Any:
    with create_engine("sqlite://", poolclass=NullPool).connect() as connection:
        yield connection


def store_and_read(connection: Connection, value: object, kind: TypeEngine[Any]) -> object:
    return connection.scalar(select(bindparam("value", value, type_=kind)))


def read_text(connection: Connection, stored: str, kind: TypeEngine[Any]) -> object:
    return connection.scalar(select(literal_column(f"'{stored}'", kind)))


@given(uuid=st.uuids())
def test_an_id_is_read_as_a_uuid_in_lower_case(connection: Connection, uuid: UUID) -> None:
    assert store_and_read(connection, str(uuid), Id) == str(uuid)
    for stored in (uuid.hex, uuid.hex.upper()):
        assert read_text(connection, stored, Id) == read_text(connection, stored, Uuid(as_uuid=False)) == str(uuid)


@pytest.mark.parametrize("stored", ["", "x" * 32, "0" * 31, "0" * 30, "0" * 34, "0" * 15 + "  " + "0" * 15])
def test_a_stored_id_that_is_not_a_uuid_is_an_error(connection: Connection, stored: str) -> None:
    with pytest.raises(ValueError, match=r"UUID|hexadecimal"):
        read_text(connection, stored, Id)


@given(moment=MOMENTS, zone=ZONES)
def test_a_time_is_read_in_utc(connection: Connection, moment: datetime, zone: timezone) -> None:
    aware = moment.replace(tzinfo=zone)
    found = store_and_read(connection, aware, Time())
    assert found == aware
    assert isinstance(found, datetime)
    assert found.tzinfo is UTC


@pytest.mark.parametrize("stored", ["2026-01-15 12:00:00.000000", "2026-01-15 12:00:00", "0900-01-15 12:00:00.000001"])
def test_a_stored_time_is_read_as_sqlalchemy_does(connection: Connection, stored: str) -> None:
    naive = read_text(connection, stored, DateTime())
    assert isinstance(naive, datetime)
    assert read_text(connection, stored, Time()) == naive.replace(tzinfo=UTC)


def test_null_is_none(connection: Connection) -> None:
    for kind in (Id, Time()):
        assert connection.scalar(select(cast(None, kind))) is None
