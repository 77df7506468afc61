"""An import: who the author is, what it updates, when it reports, and what it leaves behind."""

import io
import json
import os
import signal
import sqlite3
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.commands import work as requirements_work
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import TABLES
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.transfer.files import COLUMNS, Numbered, RecordReader, Refused
from quilt_mcp.requirements.transfer.importing import Mode, import_records
from quilt_mcp.requirements.transfer.records import InvalidRecord, Rejection, Rejections, parse_record
from quilt_mcp.requirements.transfer.spool import BATCH, open_spool
from tests.requirements.transferring import (
    ADA,
    BY_ADA,
    EPIC,
    FAMILY,
    STORY,
    UUID,
    export,
    export_kind,
    import_rejected,
    related,
    requirement,
    write,
)
from tests.support.settings import Settings
from tests.support.waiting import until

FIRST_FILE = """\
kind,reference_id,title,priority,parent
epic,EP-001,Faster runs,1,
user_story,US-001,As a scientist I see the queue,2,EP-001
acceptance_criteria,AC-001,WHEN the page opens THEN the queue SHALL be shown,,US-001
requirement,REQ-001,The queue is sorted by start,,US-001
"""


@pytest.fixture
def first_file(tmp_path: Path) -> list[str]:
    """The command that imports a file of five columns."""
    (tmp_path / "first.csv").write_text(FIRST_FILE)
    return ["requirements", "import", str(tmp_path / "first.csv")]


def test_a_first_file_needs_no_user(data_dir: Path, first_file: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(first_file) == 0
    assert capsys.readouterr().out.endswith("The author of the records without one is local.\n")
    found = {record.get("reference_id", record["kind"]): record for record in export(capsys)}
    user = found["user"]
    assert (user["username"], user["email"], user["role"]) == ("local", "local@localhost", "User")
    assert found["EP-001"]["creator_id"] == found["AC-001"]["author_id"] == user["id"]
    assert found["US-001"]["epic_id"] == found["EP-001"]["id"]
    assert found["AC-001"]["description"] == "WHEN the page opens THEN the queue SHALL be shown"
    assert found["REQ-001"]["user_story_id"] == found["US-001"]["id"]
    types = {record["id"]: record["name"] for record in export_kind(capsys, "requirement_type")}
    assert types[found["REQ-001"]["type_id"]] == "Functional"


def test_a_trial_creates_no_database(data_dir: Path, first_file: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*first_file, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(
        "Dry run, nothing was written. It would import: 1 epic, 1 user story, 1 acceptance criterion, 1 requirement"
    )
    assert not (data_dir / FILE_NAME).exists()
    assert main([*first_file, "--update", "--dry-run"]) == 0
    assert not (data_dir / FILE_NAME).exists()


@pytest.mark.usefixtures("data_dir_with_tables")
def test_rows_without_text_are_left_out(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = file.with_suffix(".csv")
    table.write_text("kind,title,priority\n,,\nepic,First,1\n\n,,\nepic,,2\nepic,Second,3\n,,\n")
    command = ["requirements", "import", str(table)]
    assert import_rejected(capsys, command) == {6: "title: Missing. Add it."}
    table.write_text(table.read_text().replace("epic,,2\n", ""))
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("Imported: 2 epics, 1 user.\n")


@pytest.mark.usefixtures("data_dir_with_tables")
def test_the_local_user_is_the_author_until_there_are_others(
    file: Path, first_file: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(first_file) == 0
    assert main(write(file, {"kind": "epic", "title": "Second"})) == 0
    assert {record["username"] for record in export_kind(capsys, "user")} == {"local"}
    missing = {2: "creator_id: Missing. Add it, or use --creator to name one for all records."}
    assert import_rejected(capsys, write(file, ADA, {"kind": "epic", "title": "Third"})) == missing
    assert main(write(file, ADA)) == 0
    assert import_rejected(capsys, write(file, {"kind": "user_story", "title": "x", "parent": "EP-001"})).keys() == {1}
    assert main([*write(file, {"kind": "epic", "title": "Third"}), "--creator", "ada"]) == 0


@pytest.mark.soak
def test_a_shared_database_gets_no_local_user(
    make_settings: Callable[..., Settings],
    set_settings: Callable[[Settings], None],
    first_file: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_settings(make_settings("postgresql", "tables"))
    found = import_rejected(capsys, first_file)
    assert list(found) == [2, 3, 4, 5]
    assert found[4].startswith("author_id: Missing.")


@pytest.mark.parametrize(
    ("creator", "shown"),
    [("bob", "bob"), ("\udcff", "?"), ("a\nb\x1b", "a?b?"), ("", ""), ("x" * 5000, "x" * 60 + "…")],
)
@pytest.mark.usefixtures("tables")
def test_an_unusual_creator_is_reported_in_one_line(
    creator: str, shown: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epics = [{"kind": "epic", "title": f"{number}"} for number in range(3)]
    assert main([*write(file, *epics), "--creator", creator]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: The creator '{shown}' is not a user. Add a record for this user, or name another user.",
        "Nothing was imported: 1 problem.",
    ]


@pytest.mark.usefixtures("tables")
def test_users_can_swap_their_names_and_emails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    eve = {"kind": "user", "username": "eve", "email": "eve@example.com"}
    assert main(write(file, ADA, eve)) == 0
    ids = {record["username"]: record["id"] for record in export_kind(capsys, "user")}
    assert main(write(file, {**ADA, "id": ids["eve"]}, {**eve, "id": ids["ada"]})) == 0
    users = {record["username"]: record for record in export_kind(capsys, "user")}
    assert {name: user["id"] for name, user in users.items()} == {"ada": ids["eve"], "eve": ids["ada"]}
    assert users["ada"]["email"] == ADA["email"]
    # the name of a user can be the ID of another, in the form of either database
    named = [{**eve, "username": one, "email": one} for one in (ids["ada"], ids["ada"].replace("-", ""))]
    assert main(write(file, *named)) == 0
    assert main(write(file, {**eve, "id": ids["ada"], "email": "new@example.com"})) == 0
    assert len(export_kind(capsys, "user")) == 4


@pytest.mark.usefixtures("tables")
def test_a_type_gets_another_id_until_it_is_used(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functional = {"kind": "requirement_type", "name": "Functional", "id": UUID}
    twice = import_rejected(capsys, write(file, functional, {**functional, "name": "Data"}))
    assert twice[2].startswith("id: Duplicate of line 1.")
    assert main(write(file, functional, *FAMILY)) == 0
    assert {record["type_id"] for record in export_kind(capsys, "requirement")} == {UUID}
    assert len(export_kind(capsys, "requirement_type")) == 5
    found = import_rejected(capsys, write(file, {**functional, "id": UUID.replace("0b", "0c")}))
    assert found == {1: f"name: 'Functional' has another ID in the database, {UUID}. Use that ID, or leave the ID out."}
    [reason] = import_rejected(capsys, write(file, {**functional, "name": "Data"})).values()
    assert reason.startswith("name: 'Data' has another ID in the database, ")


@pytest.mark.usefixtures("tables")
def test_a_relationship_that_exists_is_rejected_by_its_id(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, *FAMILY[:-1], {**related(2, 1), "id": UUID})) == 0
    found = import_rejected(capsys, write(file, {**related(1, 2, "relates_to"), "id": UUID}))
    assert found[1].startswith(f"id: {UUID} is already in the database.")


@pytest.mark.usefixtures("tables")
def test_a_new_number_is_not_one_of_a_later_record(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unnumbered = [{"kind": "epic", "title": f"{number}", **BY_ADA} for number in range(BATCH)]
    last = {**EPIC, "reference_id": "EP-002"}
    assert main(write(file, ADA, *unnumbered, last)) == 0
    numbers = range(3, BATCH + 3)
    assert {one["reference_id"] for one in export_kind(capsys, "epic")} == {
        "EP-002",
        *(f"EP-{number:03d}" for number in numbers),
    }
    [changed] = [one for one in export_kind(capsys, "epic") if one["reference_id"] == "EP-002"]
    renamed = {"kind": "epic", "id": changed["id"], "reference_id": "EP-900"}
    assert main([*write(file, *unnumbered, renamed), "--update"]) == 0
    found = {one["reference_id"] for one in export_kind(capsys, "epic")}
    assert {"EP-900", "EP-901", f"EP-{900 + BATCH}"} <= found
    assert "EP-002" not in found


@pytest.mark.usefixtures("tables")
def test_the_last_number_is_the_highest_that_a_file_can_have(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = {**EPIC, "reference_id": "EP-999999999"}
    another = {**EPIC, "reference_id": None, "title": "Another"}
    assert main(write(file, ADA, last)) == 0
    before = export(capsys)
    for options in [], ["--update"]:
        assert main([*write(file, another), *options]) == 1
        error = capsys.readouterr().err
        assert "The next reference ID would be EP-1000000000, but the highest is EP-999999999." in error
        assert "Give the new records reference IDs that are not used." in error
    assert export(capsys) == before
    assert main(write(file, {**another, "reference_id": "EP-007"}, {**STORY, "epic_id": "EP-007"})) == 0


@pytest.mark.usefixtures("tables")
def test_records_that_refer_to_a_rejected_record_are_not_rejected(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(import_rejected(capsys, write(file, ADA, {**EPIC, "priority": 9}, STORY))) == [2]


@pytest.mark.usefixtures("tables")
def test_a_long_cycle_is_reported_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requirements = [requirement(number) for number in range(1, 401)]
    chain = [related(number, number + 1) for number in range(1, 400)]
    tail = [related(400, 3), related(1, 3), related(5, 9), related(1, 400, "blocks")]
    found = import_rejected(capsys, write(file, ADA, EPIC, STORY, *requirements, *chain, *tail))
    assert found == {
        803: "target_requirement_id: The relationship depends_on forms a cycle with others. Remove one of them."
    }


@pytest.mark.parametrize(
    ("form", "text"), [("jsonl", '\ufeff{"kind": "user", "username": "u"}\n'), ("csv", "\ufeffkind\n")]
)
def test_a_byte_order_mark_is_ignored(form: Any, text: str) -> None:
    found = list(RecordReader(io.BytesIO(text.encode()), form))
    assert all("valid JSON" not in str(one) and "unknown" not in str(one) for one in found)


def make_epics(count: int) -> Iterator[Numbered | Refused]:
    for line in range(1, count + 1):
        yield Numbered(
            line, parse_record({"kind": "epic", "title": f"{line}", "creator_id": "ada", "description": "x" * 500})
        )


@pytest.mark.soak
def test_the_memory_does_not_grow_with_the_file() -> None:
    def measure(count: int) -> int:
        tracemalloc.start()
        with open_spool(Counter()) as spool:
            for record in make_epics(count):
                assert isinstance(record, Numbered)
                spool.add(record, Rejections(print))
            for records in spool.list_records("epic"):
                assert records
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    measure(10)
    assert measure(3000) - measure(1000) < 100_000
    with open_spool(Counter()) as spool:
        pages = -int(spool.connection.execute("PRAGMA cache_size").fetchone()[0])
    assert pages <= 64_000  # KB


def test_problems_are_announced_when_they_are_found(empty_database: Database) -> None:
    announced: list[Rejection] = []

    def records() -> Iterator[Numbered | Refused]:
        yield Refused([Rejection(1, "title", "Missing.")], None)
        assert announced == [Rejection(1, "title", "Missing.")]
        yield Numbered(2, parse_record(ADA))
        yield Numbered(3, parse_record(ADA))
        assert len(announced) == 3

    report = import_records(empty_database, records(), announce=announced.append)
    assert report.rejected_count == len(announced) == 3
    assert [(one.line, one.field) for one in announced[1:]] == [(3, "username"), (3, "email")]


@pytest.mark.usefixtures("tables")
def test_many_problems_are_counted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write(file, *([None] * 1200))
    assert main(command) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 51
    assert lines[-1] == "Nothing was imported: 1200 problems. 1150 more are not shown; --json shows more."
    assert main([*command, "--json"]) == 1
    out, err = capsys.readouterr()
    assert not err
    report = json.loads(out)
    assert (len(report["rejected"]), report["rejected_count"], report["author"]) == (1000, 1200, None)


def test_the_progress_starts_with_bytes(
    settings_with_tables: Settings, set_settings: Callable[[Settings], None], file: Path
) -> None:
    set_settings(settings_with_tables)
    epics = [{**EPIC, "reference_id": None, "description": "x" * 1000} for _ in range(1200)]
    write(file, ADA, *epics)
    size = file.stat().st_size
    seen: list[tuple[str, int, int]] = []
    report, *_ = requirements_work.import_file(file, "jsonl", Mode(), lambda *one: seen.append(one), print)
    assert report.imported == {"user": 1, "epic": 1200}
    assert seen[0] == ("Reading", 0, size)
    assert sorted({doing for doing, _, _ in seen}, key=[one[0] for one in seen].index) == [
        "Reading",
        "Checking",
        "Writing",
    ]
    assert len(seen) > 15
    for doing, total in (("Checking", 1201), ("Writing", 1201)):
        assert [one for one in seen if one[0] == doing][-1] == (doing, total, total)


def test_a_full_temporary_directory_is_reported(
    data_dir: Path, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spool of this size is full as if the directory were."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def limit(name: str, **options: Any) -> sqlite3.Connection:
        connection = connect(name, **options)
        if not name:
            connection.execute("PRAGMA max_page_count = 40")
        return connection

    monkeypatch.setattr(sqlite3, "connect", limit)
    assert main(write(file, *({**EPIC, "reference_id": None, "description": "x" * 9000} for _ in range(90)))) == 1
    found = capsys.readouterr().err
    assert found.startswith("The import cannot write its temporary file. Nothing was imported.\n  SQLITE_FULL\n")
    assert "SQLITE_TMPDIR" in found
    assert not export(capsys)[-1].get("title")


@pytest.mark.soak
async def test_a_killed_import_leaves_nothing(
    data_dir: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = export(capsys)
    epics = ({**EPIC, "reference_id": None, "description": "x" * 9000} for _ in range(1500))
    command = write(file, ADA, *epics)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "SQLITE_TMPDIR": str(temporary), "TMPDIR": str(temporary)}
    program = "import sys; from quilt_mcp.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    running = await anyio.open_process([sys.executable, "-c", program, *command], env=environment, stderr=None)
    log = data_dir / f"{FILE_NAME}-wal"
    try:
        await until(lambda: log.exists() and log.stat().st_size > 300_000)
    finally:
        running.kill()
        assert await running.wait() == -signal.SIGKILL
    assert export(capsys) == before
    assert list(temporary.iterdir()) == []


NAMES = [*COLUMNS[1:], "parent", "colour"]
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=120),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@pytest.mark.soak
@given(kind=st.sampled_from(sorted(TABLES)), fields=st.dictionaries(st.sampled_from(NAMES), values, max_size=8))
def test_every_reason_is_in_our_own_words(kind: str, fields: dict[str, Any]) -> None:
    try:
        parse_record({**fields, "kind": kind})
    except InvalidRecord as error:
        for field, reason in error.problems:
            assert field in NAMES
            assert reason.endswith(".")
            assert not any(word in reason for word in ("validation", "Input", "pattern", "^", "is not valid."))
