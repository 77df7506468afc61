"""The order of a document: in lists, hierarchies and pages, and in what is exported and imported again."""

import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import NullPool, create_engine, select

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.model import KINDS, read_number
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.transfer.placing import Sibling, arrange
from tests.requirements.client import connect, read, read_pages
from tests.requirements.conftest import opened
from tests.requirements.test_reqif import document, place, spec_object
from tests.requirements.test_revisions import FILES
from tests.support import apps
from tests.support.settings import Settings

FORMATS = ("jsonl", "csv", "reqif")


def run(*words: str) -> None:
    assert main(["requirements", *words]) == 0


def update(capsys: pytest.CaptureFixture[str], file: Path) -> dict[str, Any]:
    capsys.readouterr()
    run("import", str(file), "--update", "--json")
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def list_titles(kind: str = "requirements") -> list[str]:
    """Return the titles of an SQLite file, each parent's in their order."""
    table = tables.metadata.tables[kind]
    file = apps.current_settings().data_dir / FILE_NAME
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    with engine.connect() as connection:
        return [*connection.scalars(select(table.c.title).order_by(table.c.position, table.c.id))]


def write(file: Path, *placed: str, objects: str | None = None, numbers: dict[str, int] | None = None) -> Path:
    """Write a file with some objects in one chapter, whose titles are their identifiers."""
    given_numbers = {key: {"foreign": f"REQ-{number:03d}"} for key, number in (numbers or {}).items()}
    texts = {key: spec_object(key, text=key, **given_numbers.get(key, {})) for key in {*placed, *(objects or "")}}
    listed = [texts[key] for key in objects or placed]
    top = spec_object("top", chapter="Top")
    file.write_bytes(document(top + "".join(listed), place("top", *map(place, placed))))
    return file


async def test_a_table_keeps_its_order(
    settings_with_tables: Settings, set_settings: Callable[[Settings], None], tmp_path: Path
) -> None:
    set_settings(settings_with_tables)
    rows = [f"user_story,US-{number:03d},Chapter {number},EP-001" for number in range(990, 1010)]
    file = tmp_path / "table.csv"
    file.write_text("\n".join(["kind,reference_id,title,parent", "epic,EP-001,Manual,", *rows, ""]))
    if settings_with_tables.database_url:
        users = tmp_path / "users.jsonl"
        users.write_text(json.dumps({"kind": "user", "username": "ada", "email": "a@example.com"}))
        run("import", str(users))
    run("import", str(file), "--creator", "ada") if settings_with_tables.database_url else run("import", str(file))
    expected = [f"Chapter {number}" for number in range(990, 1010)]
    async with connect(settings_with_tables) as client:
        found = await read(client, "epics/EP-001/hierarchy")
        assert [one["title"] for one in found["user_stories"]] == expected
        for path in ("user-stories", "epics/EP-001/user-stories", "user-stories?status=Backlog"):
            pages = await read_pages(client, path, "user_stories", 7)
            assert [one["title"] for page in pages for one in page] == expected
        pages = await read_pages(client, "epics/EP-001/hierarchy", "user_stories", 7)
        assert [one["title"] for page in pages for one in page] == expected
    run("export", str(tmp_path / "again.csv"))
    lines = [line for line in (tmp_path / "again.csv").read_text().splitlines() if line.startswith("user_story")]
    assert [line.split(",")[2] for line in lines] == [f"US-{number:03d}" for number in range(990, 1010)]


@pytest.fixture
def at_home(make_settings: Callable[..., Settings], set_settings: Callable[[Settings], None]) -> Callable[[], None]:
    """A function that sets the settings to another SQLite database without entities."""
    return lambda: set_settings(make_settings("sqlite", "tables"))


def test_new_objects_are_numbered_in_the_order_of_the_hierarchy(at_home: Callable[[], None], tmp_path: Path) -> None:
    at_home()
    run("import", str(write(tmp_path / "a.reqif", *"abc", objects="cba")))
    table = tables.requirements
    engine = create_engine(f"sqlite:///{apps.current_settings().data_dir / FILE_NAME}", poolclass=NullPool)
    with engine.connect() as connection:
        rows = connection.execute(select(table.c.title, table.c.reference_id, table.c.position)).all()
    assert sorted(map(tuple, rows)) == [("a", "REQ-001", 1.0), ("b", "REQ-002", 2.0), ("c", "REQ-003", 3.0)]


@pytest.mark.parametrize("form", FORMATS)
def test_own_numbers_in_another_order_keep_the_order_of_the_document(
    form: str, at_home: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_home()
    file = write(tmp_path / "a.reqif", *"abcd", numbers={"a": 9, "b": 3, "c": 7, "d": 1})
    run("import", str(file))
    assert list_titles() == [*"abcd"]
    assert update(capsys, file)["updated"] == {}
    again = tmp_path / f"again.{form}"
    run("export", str(again), "--with-users")
    assert update(capsys, again)["updated"] == {}
    at_home()
    run("import", str(again))
    assert list_titles() == [*"abcd"]
    assert update(capsys, again)["updated"] == {}


def test_the_next_version_of_a_file_changes_only_what_it_moves(
    at_home: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_home()
    run("import", str(write(tmp_path / "1.reqif", *"abcdef")))
    added = update(capsys, write(tmp_path / "2.reqif", *"abxcdyef"))
    assert (added["created"], added["updated"]) == ({"requirement": 2}, {})
    assert list_titles() == [*"abxcdyef"]
    moved = update(capsys, write(tmp_path / "3.reqif", *"fabxcdye"))
    assert moved["updated"] == {"requirement": 1}
    [change] = moved["changes"]
    assert (change["name"], change["fields"]) == ("REQ-006", {"position": {"before": 6.0, "after": 0.5}})
    assert list_titles() == [*"fabxcdye"]
    reversed_ = update(capsys, write(tmp_path / "4.reqif", *"eydcxbaf"))
    assert reversed_["updated"] == {"requirement": 7}
    assert list_titles() == [*"eydcxbaf"]


def test_many_insertions_at_one_place_end_in_whole_numbers(
    at_home: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_home()
    placed = ["first", "last"]
    run("import", str(write(tmp_path / "0.reqif", *placed)))
    for number in range(30):
        placed.insert(1, f"n{number}")
        update(capsys, write(tmp_path / "next.reqif", *placed))
    assert list_titles() == placed


@pytest.mark.parametrize("position", [0, -1, 1e300, True, "x", "", "nan", "inf", [5], "9" * 5000])
def test_a_position_that_no_entity_can_have_is_refused(
    position: object, at_home: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_home()
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"kind": "epic", "title": "A", "position": position}))
    assert main(["requirements", "import", str(file)]) == 1
    assert "position: Must be a number from 1 to 1000000000, such as 5.5" in capsys.readouterr().err


def test_a_new_number_moves_what_no_document_places(at_home: Callable[[], None], tmp_path: Path) -> None:
    at_home()
    file = tmp_path / "a.csv"
    file.write_text("kind,id,reference_id,title,position\nepic,,EP-001,A,\nepic,,EP-002,B,\nepic,,EP-003,C,1.5\n")
    run("import", str(file))
    assert list_titles("epics") == ["A", "C", "B"]
    run("export", str(file))
    file.write_text(file.read_text().replace("EP-001", "EP-100").replace("EP-003", "EP-200"))
    run("import", str(file), "--update")
    assert list_titles("epics") == ["C", "B", "A"]


places: st.SearchStrategy[list[Any]] = st.recursive(
    st.just([]), lambda inside: st.lists(inside, max_size=4), max_leaves=12
)


@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.explicit, Phase.generate]
)
@given(tree=st.lists(places, min_size=1, max_size=4), seed=st.integers(0, 99))
def test_an_export_of_an_import_has_its_order_and_hierarchy(
    tree: list[Any], seed: int, at_home: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chapters and texts inside each other, with objects in any order in the file, and any numbers of their own."""
    rng = random.Random(seed)  # noqa: S311 - not a secret
    objects: list[str] = []
    numbers = [*range(1, 200)]
    rng.shuffle(numbers)

    def build(inside: list[Any]) -> str:
        key = f"o{len(objects):03d}"
        is_chapter = rng.random() < 0.4
        number = {"foreign": f"REQ-{numbers.pop():03d}"} if rng.random() < 0.5 else {}
        objects.append(spec_object(key, chapter=key) if is_chapter else spec_object(key, text=key, **number))
        return place(key, *map(build, inside))

    placed = "".join(map(build, tree))
    rng.shuffle(objects)
    file, again = tmp_path / "a.reqif", tmp_path / "again.reqif"
    file.write_bytes(document("".join(objects), placed))
    at_home()
    run("import", str(file))
    before = read_shape()
    for stories in before.values():
        for titles in stories.values():
            assert titles == sorted(titles)  # the names of the objects count up in the document
    run("export", str(again), "--with-users")
    for one in (file, again):
        assert {**update(capsys, one)["updated"], **update(capsys, one)["created"]} == {}
    at_home()
    run("import", str(again))
    assert read_shape() == before
    second = tmp_path / "second.reqif"
    run("export", str(second), "--with-users")
    assert read_places(second) == read_places(again)


def read_shape() -> dict[str, dict[str, list[str]]]:
    """Return the titles of the requirements by epic and user story, each in its order."""
    file = apps.current_settings().data_dir / FILE_NAME
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("""
            SELECT epics.title, user_stories.title, requirements.title FROM epics
            LEFT JOIN user_stories ON epic_id = epics.id LEFT JOIN requirements ON user_story_id = user_stories.id
            ORDER BY epics.position, epics.id, user_stories.position, user_stories.id, requirements.position
        """).fetchall()
    found: dict[str, dict[str, list[str]]] = {}
    for epic, story, title in rows:
        found.setdefault(epic, {}).setdefault(story, []).append(title or "")
    return found


def read_places(file: Path) -> list[str]:
    """Return the hierarchy of a file as text."""
    found = re.findall(r"<SPEC-OBJECT-REF>([^<]*)</SPEC-OBJECT-REF></OBJECT>|</SPEC-HIERARCHY>", file.read_text())
    return [one for one in found if not one.startswith(("user-", "member-"))]


siblings = st.builds(Sibling, number=st.just(0), position=st.integers(1, 30).map(float), is_stored=st.booleans())


@given(st.lists(siblings, max_size=20))
def test_positions_increase_and_as_few_as_possible_change(given_siblings: list[Sibling]) -> None:
    found = arrange(given_siblings)
    assert all(0 < one < other for one, other in pairwise([*found, float("inf")]))
    before = [one.position for one in given_siblings]
    if all(one < other for one, other in pairwise(before)):
        assert found == before
    stored = [(one.position, new) for one, new in zip(given_siblings, found, strict=True) if one.is_stored]
    if all(one < other for one, other in pairwise([position for position, _ in stored])):
        assert all(position == new for position, new in stored)


def test_a_migrated_file_has_the_tables_of_a_new_one_and_the_positions_of_its_numbers(
    make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    found = []
    for name in ("0006", "0007", "0008"):
        file = tmp_path / name / FILE_NAME
        file.parent.mkdir()
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(FILES[name].read_text(encoding="utf-8"))
        with opened(make_settings("sqlite", "nothing").model_copy(update={"data_dir": file.parent})) as database:
            database.upgrade()
        with closing(sqlite3.connect(file)) as connection:
            columns = connection.execute("SELECT m.name, c.* FROM sqlite_master m, pragma_table_info(m.name) c")
            indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
            found.append((sorted(columns.fetchall(), key=str), sorted(indexes.fetchall())))
            assert connection.execute("SELECT position FROM epics").fetchall() == [(1.0,)]
    assert found[0] == found[1] == found[2]


@pytest.mark.soak
def test_a_migrated_database_of_postgresql_has_the_positions_of_its_numbers_and_is_not_larger(
    make_settings: Callable[..., Settings],
) -> None:
    with opened(make_settings("postgresql", "sample")) as database:
        names = " + ".join(f"pg_relation_size('{kind.table}')" for kind in KINDS)
        size = f"SELECT {names}"
        with database.migrating() as connection:
            for kind in KINDS:
                connection.exec_driver_sql(f"ALTER TABLE {kind.table} DROP COLUMN position, DROP COLUMN changed_fields")
            connection.exec_driver_sql("DROP TABLE import_sources, imported_values")
            connection.exec_driver_sql("UPDATE requirements_schema_version SET version_num = '0006'")
            before = connection.exec_driver_sql(size).scalar_one()
        database.upgrade()
        with database.reading() as connection:
            assert connection.exec_driver_sql(size).scalar_one() < 1.5 * before
            for kind in KINDS:
                table = tables.BY_KIND[kind.name]
                found = connection.execute(select(table.c.reference_id, table.c.position)).all()
                assert found
                assert all(position == read_number(reference) for reference, position in found)
