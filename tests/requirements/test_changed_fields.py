"""Which fields a change has changed: what `requirements://changes` says, compared with full rows before and after."""

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.model import BY_NAME, KINDS, RECORDS
from quilt_mcp.requirements.parameters import parse_changes
from quilt_mcp.requirements.store import RequirementsStore
from tests.requirements import generated
from tests.requirements.client import connect, read, read_pages
from tests.requirements.conftest import opened
from tests.requirements.generated import Form, Rows, Size
from tests.requirements.reading import place_of
from tests.requirements.test_merging import strip_times
from tests.requirements.test_update import Cells, read_cells, write_cells
from tests.requirements.transferring import FAMILY, import_family, requirement, write
from tests.support import apps
from tests.support.settings import Settings

Entries = dict[str, dict[str, Any]]
TEXTS = ["a", "A", "ä", "a\nb", "Tür 7", "long " * 8]


def edit(numbers: random.Random, cells: Cells) -> None:
    """Change random cells: also references to others, numbers, places and times."""
    ids = {kind: [row["id"] for row in cells if row["kind"] == kind] for kind in RECORDS}
    for row in cells:
        if row["kind"] not in BY_NAME:
            continue
        record, before = RECORDS[row["kind"]], dict(row)
        choices: dict[str, list[str]] = {
            "title": TEXTS,
            "description": TEXTS,
            "priority": ["1", "2", "3", "4"],
            "status": [*record.choices.get("status", ())],
            "assignee_id": ids["user"],
            "epic_id": ids["epic"],
            "type_id": ids["requirement_type"],
            "acceptance_criteria_id": [""],
            "reference_id": [f"{BY_NAME[row['kind']].prefix}-{numbers.randrange(10_000, 10**9)}"],
            "position": ["5.5", "7", "1000.25"],
            "created_at": ["2019-05-01T00:00:00Z"],
        }
        for name in sorted(choices.keys() & {*record.fields}):
            if numbers.random() < 0.12:
                row[name] = numbers.choice(choices[name])
        if row != before:
            row["updated_at"] = ""
        elif numbers.random() < 0.12:
            row["updated_at"] = "2031-01-01T00:00:00Z"


def export_cells(directory: Path) -> Cells:
    file = directory / "all.csv"
    file.unlink(missing_ok=True)
    assert main(["requirements", "export", str(file), "--with-users"]) == 0
    return read_cells(file)


def write_records(file: Path, cells: Cells) -> None:
    """Write JSON Lines. A record without a description removes it, and one without a position keeps it."""
    emptied = {"description", "acceptance_criteria_id"}
    records = [{name: value or None for name, value in row.items() if value or name in emptied} for row in cells]
    own = [
        {name: value for name, value in record.items() if value or name in RECORDS[record["kind"] or ""].fields}
        for record in records
    ]
    write(file, *own)


def read_entries() -> Entries:
    """Return all changes, by reference ID."""
    with closing(RequirementsStore(apps.current_settings())) as store:
        page = store.read_changes(parse_changes(None, None), KINDS, None, "40")
        found = [*page.rows]
        while page.next_cursor:
            page = store.read_changes(parse_changes(None, None), KINDS, page.next_cursor, "40")
            found += page.rows
    assert len(found) == page.total
    return {one["reference_id"]: dict(one) for one in found}


def check_entries(before: Rows, after: Rows, entries: tuple[Entries, Entries]) -> None:
    """Compare the entries, before and after, with what differs in the rows."""
    for kind in KINDS:
        rows = {row["id"]: row for row in before[kind.table]}
        for row in after[kind.table]:
            old, entry = rows.get(row["id"]), entries[1][row["reference_id"]]
            if old is None:
                assert (entry["change"], entry["fields"]) == ("created", None)
                continue
            fields = set(RECORDS[kind.name].fields) & row.keys()
            differing = sorted(name for name in fields - {"updated_at"} if old[name] != row[name])
            if differing or old["updated_at"] != row["updated_at"]:
                assert (entry["change"], entry["fields"]) == ("updated", differing or ["updated_at"])
            else:
                assert entry == entries[0][old["reference_id"]]


@pytest.mark.parametrize("form", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
@given(seed=st.integers(0, 2**32), formats=st.lists(st.sampled_from(["csv", "jsonl"]), min_size=1, max_size=2))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_each_change_has_the_fields_that_differ(
    form: Form, seed: int, formats: list[str], make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    target, numbers = make_settings(form, "tables"), random.Random(seed)  # noqa: S311 - not a secret
    rows = generated.generate(seed, Size(users=2, members=4, entities=6), TEXTS)
    generated.write(form, place_of(target), rows)
    apps.use_settings(target)
    assert not any(one["fields"] for one in read_entries().values())  # no import of this version wrote them
    for suffix in formats:
        before, entries = generated.dump(form, place_of(target), rows), read_entries()
        cells, file = export_cells(tmp_path), tmp_path / f"edited.{suffix}"
        edit(numbers, cells)
        (write_cells if suffix == "csv" else write_records)(file, cells)
        command = ["requirements", "import", str(file), "--update"]
        assert main([*command, "--dry-run"]) == 0
        assert read_entries() == entries
        assert main(command) == 0
        check_entries(before, generated.dump(form, place_of(target), rows), (entries, read_entries()))


@pytest.fixture
def family(settings_with_tables: Settings, set_settings: Callable[[Settings], None], tmp_path: Path) -> Settings:
    """A database with the family of records, which has been created."""
    set_settings(settings_with_tables)
    import_family(tmp_path / "family.jsonl")
    return settings_with_tables


def change(file: Path, *records: dict[str, Any]) -> None:
    assert main([*write(file, *records), "--update"]) == 0


def fields_of(reference: str) -> tuple[str, list[str] | None]:
    entry = read_entries()[reference]
    return entry["change"], entry["fields"]


@pytest.mark.usefixtures("family")
def test_an_entry_has_the_last_change(file: Path) -> None:
    assert {(one["change"], one["fields"]) for one in read_entries().values()} == {("created", None)}
    epic = {"kind": "epic", "reference_id": "EP-001"}
    change(file, {**epic, "title": "x" * 500, "status": "Done"})
    assert fields_of("EP-001") == ("updated", ["status", "title"])
    assert "xxx" not in str(read_entries()["EP-001"]["fields"])
    before = read_entries()
    change(file, {**epic, "status": "Done"})
    assert read_entries() == before  # nothing differs
    change(file, {**epic, "priority": 1})  # in the same second
    assert fields_of("EP-001") == ("updated", ["priority"])
    assert next(iter(read_entries())) == "EP-001"
    change(file, {"kind": "epic", "title": "Another", "creator_id": "ada"})
    assert fields_of("EP-002") == ("created", None)


@pytest.mark.usefixtures("family")
def test_numbers_parents_and_times_are_fields(file: Path) -> None:
    moved = {"kind": "epic", "reference_id": "EP-002", "title": "Moon", "creator_id": "ada", "project_id": "Moon"}
    change(file, {"kind": "project", "name": "Moon"}, moved)
    change(file, {"kind": "user_story", "reference_id": "US-001", "epic_id": "EP-002"})
    assert fields_of("US-001") == ("updated", ["epic_id"])  # the project is that of the epic
    assert fields_of("REQ-001") == ("created", None)
    ids = {one["reference_id"]: one["id"] for one in export_cells(file.parent)}
    change(file, {"kind": "requirement", "id": ids["REQ-002"], "reference_id": "REQ-009"})
    assert fields_of("REQ-009") == ("updated", ["position", "reference_id"])
    change(file, {"kind": "requirement", "reference_id": "REQ-001", "acceptance_criteria_id": None})
    assert fields_of("REQ-001") == ("updated", ["acceptance_criteria_id"])
    change(file, {"kind": "requirement", "reference_id": "REQ-001", "updated_at": "2041-01-01T00:00:00Z"})
    assert fields_of("REQ-001") == ("updated", ["updated_at"])


@pytest.mark.usefixtures("tables")
def test_an_entity_with_a_time_that_is_to_come_is_not_created_by_its_update(file: Path) -> None:
    times = dict.fromkeys(("created_at", "updated_at"), "2041-01-01T00:00:00Z")
    assert main(write(file, *FAMILY[:3], requirement(1, **times))) == 0
    assert fields_of("REQ-001") == ("created", None)
    change(file, {"kind": "requirement", "reference_id": "REQ-001", "status": "Active"})
    assert fields_of("REQ-001") == ("updated", ["status"])


@pytest.mark.usefixtures("tables")
def test_what_changed_before_the_import_is_not_known(file: Path) -> None:
    times = {"created_at": "2020-01-01T00:00:00Z", "updated_at": "2021-01-01T00:00:00Z"}
    assert main(write(file, *FAMILY[:3], requirement(1, **times))) == 0
    assert fields_of("REQ-001") == ("updated", None)


@pytest.mark.usefixtures("family")
def test_a_deleted_entity_and_relationships_leave_no_entry(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_entries()
    records = [*FAMILY[:5], {"kind": "user", "username": "eve", "email": "eve@example.com"}]
    change(file, *records, {"kind": "member", "user_id": "eve", "project_id": "Default", "role": "Viewer"})
    assert read_entries() == before
    assert main([*write(file, *FAMILY[1:5]), "--update", "--delete-missing"]) == 1  # a relationship refers to it
    capsys.readouterr()
    other = {"kind": "relationship", "relationship_type_id": "blocks", "created_by": "ada"}
    ends = {"source_requirement_id": "REQ-001", "target_requirement_id": "REQ-003"}
    assert main([*write(file, *FAMILY[:5], requirement(3), {**other, **ends}), "--update", "--delete-missing"]) == 0
    found = read_entries()
    assert found.pop("REQ-003")["change"] == "created"
    assert found == {name: entry for name, entry in before.items() if name != "REQ-002"}


@pytest.mark.usefixtures("family")
def test_an_update_that_is_merged_names_what_it_takes(tmp_path: Path) -> None:
    supplier, file = tmp_path / "supplier.reqif", tmp_path / "local.jsonl"
    one = {"kind": "requirement", "reference_id": "REQ-001"}
    assert main(["requirements", "export", str(supplier)]) == 0
    update = ["requirements", "import", str(strip_times(supplier)), "--update"]
    assert main(update) == 0
    assert fields_of("REQ-001") == ("created", None)
    change(file, {**one, "title": "Theirs", "description": "Both"})
    next_file = tmp_path / "next.reqif"
    assert main(["requirements", "export", str(next_file)]) == 0
    change(file, {**one, "title": "R1", "description": "Both", "priority": 1})
    assert fields_of("REQ-001") == ("updated", ["priority", "title"])
    supplier.write_bytes(strip_times(next_file).read_bytes())
    assert main(update) == 0
    assert fields_of("REQ-001") == ("updated", ["title"])  # the priority is ours, and the description is the same


def test_a_database_of_the_schema_before_has_changes_without_fields(
    family: Settings, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(file, {"kind": "epic", "reference_id": "EP-001", "status": "Done"})
    remove_column(family)
    assert main(["requirements", "migrate"]) == 0
    assert "was migrated from 0007; its schema is 0008." in capsys.readouterr().out
    assert fields_of("EP-001") == ("updated", None)
    assert fields_of("US-001") == ("created", None)
    change(file, {"kind": "epic", "reference_id": "EP-001", "status": "Draft"})
    assert fields_of("EP-001") == ("updated", ["status"])


def remove_column(target: Settings) -> None:
    """Make the tables those of the schema 0007."""
    with opened(target) as database, database.migrating() as connection:
        for kind in KINDS:
            connection.exec_driver_sql(f"ALTER TABLE {kind.table} DROP COLUMN changed_fields")
        connection.exec_driver_sql("UPDATE requirements_schema_version SET version_num = '0007'")


async def test_a_page_of_long_titles_ends_early_and_has_all_fields(
    settings_with_tables: Settings, set_settings: Callable[[Settings], None], file: Path
) -> None:
    set_settings(settings_with_tables)
    assert main(write(file, *FAMILY[:3], *[requirement(number) for number in range(1, 101)])) == 0
    long = {"title": "ä" * 500, "description": "x", "priority": 1, "status": "Active"}
    change(file, *[requirement(number, **long) for number in range(1, 101)])
    async with connect(settings_with_tables) as client:
        first = await read(client, "changes?limit=200")
        pages = await read_pages(client, "changes?kind=requirement", "changes", 200)
    assert len(first["changes"]) < first["count"] == 102
    assert first["next_cursor"]
    found = [one["fields"] for page in pages for one in page]
    assert found == [["description", "priority", "status", "title"]] * 100
