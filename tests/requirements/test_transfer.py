"""`quilt-mcp requirements import` and `export`: an import writes all records, or none and the reasons."""

import codecs
import errno
import io
import json
import os
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import Pool, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.model import DEFAULT_PROJECT_ID
from quilt_mcp.requirements.transfer.files import Numbered, RecordReader, Refused, Writer
from quilt_mcp.requirements.transfer.records import Rejection
from tests.requirements.transferring import (
    ADA,
    CRITERION,
    EPIC,
    FAMILY,
    INSTRUCTION,
    STORY,
    UUID,
    export,
    export_kind,
    import_family,
    import_rejected,
    related,
    requirement,
    write,
)


def check_reasons(found: dict[int, str], reasons: Iterable[str | None]) -> None:
    """Check that the reasons start as expected; None stands for a line that is not rejected."""
    expected = {line: reason for line, reason in enumerate(reasons, 1) if reason}
    assert {line: reason[: len(expected.get(line, ""))] for line, reason in found.items()} == expected
    assert all(len(reason) < 500 for reason in found.values())


@pytest.mark.usefixtures("tables")
def test_records_can_refer_to_each_other_by_name_in_any_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*write(file, *reversed(FAMILY)), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"] == {
        "relationship": 1,
        "requirement": 2,
        "acceptance_criteria": 1,
        "user_story": 1,
        "epic": 1,
        "user": 1,
    }
    found = {record.get("reference_id", record["kind"]): record for record in export(capsys)}
    assert found["US-001"]["epic_id"] == found["EP-001"]["id"]
    assert found["EP-001"]["project_id"] == DEFAULT_PROJECT_ID
    assert found["EP-001"]["assignee_id"] == found["user"]["id"]
    assert (found["EP-001"]["priority"], found["EP-001"]["status"]) == (3, "Backlog")
    assert found["REQ-001"]["acceptance_criteria_id"] == found["AC-001"]["id"]
    assert found["relationship"]["target_requirement_id"] == found["REQ-001"]["id"]
    assert found["member"] == {
        "kind": "member",
        "user_id": found["user"]["id"],
        "project_id": DEFAULT_PROJECT_ID,
        "role": "Editor",
    }


@pytest.mark.usefixtures("tables")
def test_records_can_refer_to_the_database(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(file)
    new = requirement(3, user_story_id="US-001", acceptance_criteria_id="AC-001")
    del new["reference_id"]
    assert main(write(file, new, related(2, 1, "relates_to"))) == 0
    assert main(write(file, {**ADA, "role": "Administrator"})) == 0
    assert {one["reference_id"] for one in export_kind(capsys, "requirement")} == {"REQ-001", "REQ-002", "REQ-003"}
    assert [one["role"] for one in export_kind(capsys, "user")] == ["Administrator"]


@pytest.mark.usefixtures("tables")
def test_a_csv_file_from_a_spreadsheet_is_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.CSV"
    header = "kind,title,description,priority,username,email,creator_id"
    lines = (header, "user,,,,ada,a@b,", 'epic,Ä,"a\n""b"",",high,,,ada', "")
    file.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert main(["requirements", "import", str(file)]) == 0
    [epic] = export_kind(capsys, "epic")
    assert (epic["title"], epic["description"], epic["priority"]) == ("Ä", 'a\n"b",', 2)


WRONG_LINES: list[tuple[bytes, str | None]] = [
    (b" \t\n", None),
    (b"\xff\xfe\n", "The line is not valid UTF-8 at byte 1."),
    (b"[" * 100_000 + b"\n", "The line is not valid JSON. Write one JSON object in each line."),
    (b'{"kind": epic}\n', "The line is not valid JSON at character 10. Write one JSON object in each line."),
    (b'{"kind": "epic", "priority": 1' + b"0" * 5000 + b"}\n", "The line is not valid JSON."),
    (b"[]\n", "The line is not a JSON object."),
    (b"null\n", "The line is not a JSON object."),
    (b'{"title": "x"}\n', "kind: Missing."),
    (b'{"kind": "' + b"poem" * 1000 + b'"}\n', "kind: Must be one of user, project, "),
    (b'{"kind": "epic", "title": "a", "title": "b"}\n', "title: Appears twice in the record. Remove one."),
    (b'{"kind": "user_story", "title": "a"}\n', "epic_id: Missing. Add it, or the field parent."),
    (b'{"kind": "acceptance_criteria", "parent": "US-1"}\n', "description: Missing. Add it."),
    (
        b'{"kind": "acceptance_criteria", "parent": "US-1", "title": "a", "description": "b"}\n',
        "title: An acceptance criterion has one text. Remove the title or the description.",
    ),
    (b'{"kind": "epic"}\n', "title: Missing. Add it."),
    (
        b'{"kind": "epic", "title": "x", "creat',
        "The line is not valid JSON. Correct it. If the file was cut off here, export or copy it again.",
    ),
]


@pytest.mark.usefixtures("data_dir")
def test_records_without_ids_keep_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person who imports a table and exports it finds the rows where they were."""
    stories = [f"user_story,,Chapter {number},EP-001" for number in range(1, 41)]
    table = ["kind,reference_id,title,parent", "epic,EP-001,Manual,", *stories]
    (tmp_path / "chapters.csv").write_text("\n".join(table), encoding="utf-8")
    assert main(["requirements", "import", str(tmp_path / "chapters.csv")]) == 0
    exported = [record for record in export(capsys) if record["kind"] == "user_story"]
    assert [record["title"] for record in exported] == [f"Chapter {number}" for number in range(1, 41)]
    assert [record["reference_id"] for record in exported] == [f"US-{number:03d}" for number in range(1, 41)]


@pytest.mark.usefixtures("tables")
def test_invalid_lines_are_rejected(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write(file, ADA)
    file.write_bytes(file.read_bytes() + b"".join(line for line, _ in WRONG_LINES))
    check_reasons(import_rejected(capsys, command), [None, *(reason for _, reason in WRONG_LINES)])


REFERENCE_RULE = "Must be EP- and a number of 3 to 9 digits from 001, such as EP-007."
WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    *(
        ({"priority": wrong}, "priority: Must be a whole number from 1 to 4, or critical, high, medium or low.")
        for wrong in (0, 5, 1.5, True, "urgent", "9" * 5000)
    ),
    ({"status": "Active"}, "status: "),
    ({"title": " "}, "title: Must not be blank."),
    ({"title": "x" * 501}, "title: Has more than 500 characters. Shorten it."),
    ({"title": "a\x00b"}, "title: Must not contain the character U+0000"),
    ({"title": "\ud800"}, "title: Must not contain the character U+0000 or half of a surrogate pair."),
    ({"description": "x" * 50_001}, "description: "),
    ({"id": "7"}, "id: Must be a UUID."),
    ({"reference_id": "EP-001001"}, "reference_id: 'EP-001001' is not a reference ID. Write EP-1001."),
    ({"reference_id": "ep-0001"}, "reference_id: 'ep-0001' is not a reference ID. Write EP-001."),
    ({"reference_id": "EP-000"}, f"reference_id: {REFERENCE_RULE}"),
    ({"reference_id": "EP-01234567890"}, f"reference_id: {REFERENCE_RULE}"),
    ({"reference_id": "US-0001"}, f"reference_id: {REFERENCE_RULE}"),
    ({"reference_id": "EP-001\n"}, "reference_id: "),
    ({"created_at": "2026-01-01T00:00:00"}, "created_at: "),
    ({"created_at": "yesterday"}, "created_at: Must be a date and a time with a time zone, such as "),
    ({"created_at": 2026}, "created_at: Must be a date and a time"),
    ({"created_at": "2026"}, "created_at: Must be a date and a time"),
    ({"created_at": "0001-01-01T00:00:00+05:00"}, "created_at: Must be a date and a time"),
    ({"colour": "red"}, "colour: Records of the kind epic have no such field. Remove it."),
    (
        {"status": None, "parent": "Default", "project_id": "Default"},
        "parent: Means the same as project_id. Remove one",
    ),
    ({"parent": "Moon"}, "parent: 'Moon' not found in projects, neither by ID nor by name."),
    ({"creator_id": "bob"}, "creator_id: 'bob' not found in users"),
    ({"creator_id": UUID}, f"creator_id: '{UUID}' not found in users"),
    ({"creator_id": "'; DROP TABLE users; --"}, "creator_id: "),
    ({"project_id": "Moon"}, "project_id: 'Moon' not found in projects,"),
]


@pytest.mark.usefixtures("tables")
def test_invalid_values_are_rejected(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    epics = [{**EPIC, "reference_id": None, **wrong} for wrong, _ in WRONG_VALUES]
    found = import_rejected(capsys, write(file, ADA, *epics))
    check_reasons(found, [None, *(reason for _, reason in WRONG_VALUES)])


OTHER_STORY = {**STORY, "reference_id": "US-002"}
UNFIT = [
    (EPIC, "reference_id: Duplicate of line 2."),
    ({**EPIC, "reference_id": "EP-002", "id": UUID}, None),
    ({**EPIC, "reference_id": "EP-003", "id": UUID.upper()}, "id: Duplicate of line 9."),
    ({**OTHER_STORY, "id": UUID}, "id: Duplicate of line 9."),
    ({"kind": "project", "name": "Sequencing", "id": UUID}, None),  # only entities share the search and the links
    ({**ADA, "username": "bob"}, "email: Duplicate of line 1."),
    ({**STORY, "reference_id": "US-003", "epic_id": "EP-404"}, "epic_id: 'EP-404' not found in epics,"),
    ({**STORY, "reference_id": "US-004", "epic_id": "US-001"}, "epic_id: 'US-001' not found in epics,"),
    ({**STORY, "reference_id": "US-005", "epic_id": "US-005"}, "epic_id: 'US-005' not found in epics,"),
    (requirement(3, type_id="Poetic"), "type_id: 'Poetic' not found in requirement_types,"),
    (related(1, 2, "likes"), "relationship_type_id: 'likes' not found in relationship_types,"),
    (related(1, 9), "target_requirement_id: 'REQ-009' not found in requirements,"),
]
UNFIT_RELATIONSHIPS = [
    (related(1, 1), "target_requirement_id: The source and the target are the same requirement."),
    (related(2, 1), "target_requirement_id: Duplicate of the relationship in line 7."),
    (related(1, 2), "target_requirement_id: The relationship depends_on forms a cycle with others."),
    (related(1, 2, "blocks"), None),
    (requirement(3), None),
    (related(3, 2), None),
    (related(1, 3), "target_requirement_id: The relationship depends_on forms a cycle with others."),
    (OTHER_STORY, None),
    (
        requirement(4, user_story_id="US-002", acceptance_criteria_id="AC-001"),
        "acceptance_criteria_id: The acceptance criterion belongs to another user story.",
    ),
]


@pytest.mark.parametrize("table", [UNFIT, UNFIT_RELATIONSHIPS], ids=["links", "relationships"])
@pytest.mark.usefixtures("tables")
def test_conflicting_records_are_rejected(
    file: Path, capsys: pytest.CaptureFixture[str], table: list[tuple[Any, str | None]]
) -> None:
    found = import_rejected(capsys, write(file, *FAMILY, *(record for record, _ in table)))
    check_reasons(found, [*(None for _ in FAMILY), *(reason for _, reason in table)])


ALREADY_THERE = [
    (EPIC, "reference_id: EP-001 is already in the database. Use --update to change it, or"),
    ({**ADA, "id": UUID}, "username: 'ada' has another ID in the database, "),
]


@pytest.mark.usefixtures("tables")
def test_records_that_conflict_with_the_database_are_rejected(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(file)
    found = import_rejected(capsys, write(file, *(record for record, _ in ALREADY_THERE)))
    check_reasons(found, [reason for _, reason in ALREADY_THERE])
    found = import_rejected(capsys, write(file, related(2, 1), related(1, 2)))
    check_reasons(
        found,
        [
            "target_requirement_id: The relationship is already in the database.",
            "target_requirement_id: The relationship depends_on forms a cycle with others.",
        ],
    )
    eve = {"kind": "user", "username": "eve", "email": "eve@example.com"}
    found = import_rejected(capsys, write(file, eve, {**ADA, "username": "bob"}))
    assert found == {2: "email: The user 'ada' in the database has the same email. Change one of the two."}


@pytest.mark.soak
@pytest.mark.usefixtures("tables")
def test_entities_of_two_kinds_do_not_have_the_same_id(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, *FAMILY[:2], {**STORY, "id": UUID}, CRITERION)) == 0
    criterion = {**CRITERION, "reference_id": "AC-002"}
    new = [{**EPIC, "reference_id": "EP-007", "id": UUID}, {**criterion, "id": UUID}, requirement(9, id=UUID)]
    in_database = "id: US-001 in the database has the same ID. Use another ID, or leave it out."
    for record in new:
        command = write(file, record)
        assert import_rejected(capsys, command) == {1: in_database}
        assert import_rejected(capsys, [*command, "--update"]) == {1: in_database}
    unlike = "0b9c4d5e-1f2a-4b3c-8d4e-5f6a7b8c9d0f"
    found = import_rejected(capsys, write(file, requirement(9, id=unlike), criterion, {**criterion, "id": unlike}))
    assert "id: Duplicate of line 1." in found[3]
    assert found.keys() == {3}
    again = {"kind": "user_story", "id": UUID, "title": "Again"}
    assert main([*write(file, again, requirement(9, id=unlike)), "--update"]) == 0
    assert [one["title"] for one in export_kind(capsys, "user_story")] == ["Again"]


@pytest.mark.usefixtures("tables")
def test_all_problems_are_reported_together(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write(file, ADA, {"kind": "poem"}, EPIC | {"creator_id": "bob"}, EPIC | {"priority": 7})
    assert list(import_rejected(capsys, command)) == [2, 3, 4]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert not out
    printed = [line.removeprefix(f"{command[2]}:")[:9] for line in err.splitlines()]
    assert printed == ["2: kind: ", "4: priori", "3: creato", "Nothing w"]  # the references are checked last
    assert err.endswith("Nothing was imported: 3 problems.\n")


INVALID = [
    (b"", "1: The file is empty"),
    (
        b"kind,colour\n",
        "1: The column 'colour' is unknown. Rename or remove it, or use --map or --ignore-columns. Col",
    ),
    (
        b"Kind,Title\n",
        "1: The column 'Kind' is unknown. Rename or remove it, or use --map or --ignore-columns. Did you mean kind?",
    ),
    (
        b"kind,Created at\n",
        "1: The column 'Created at' is unknown. Rename or remove it, or use --map or --ignore-columns. Did you",
    ),
    (b"PK\x03\x04\x14\x00", "1: The file is a workbook, or another ZIP archive. Save its table as CSV in UTF-8."),
    (b"kind,,title\n", "1: Column 2 has no name. Name it, or remove it."),
    (b"kind,title,kind\n", "1: The column kind appears twice. Remove one."),
    (b"kind," * 100_000 + b"kind\n", "1: The column kind appears twice. Remove one."),
    (b"x," * 400_000 + b"x\n", "1: The column 'x' is unknown."),
    (b"x," * 1_000_000 + b"x\n", "1: The line or row has more than 1,000,000 bytes. Shorten it."),
    (b"kind,title\repic,x\r", "1: The lines end with CR alone. Save the file with LF or CRLF at the end of lines."),
    (b"kind|title\n", "1: The column 'kind|title' is unknown."),
    (b"kind;title\nepic;a;b\n", "2: The row has 3 cells; the first line has 2 columns. Remove the last cells, or"),
    (b"kind,title\nepic\n", "2: The row has 1 cells; the first line has 2 columns. Add the missing cells, or put"),
    (b"kind,title\n" + b"," * 400_000 + b"x\n", "2: The row has 400001 cells; the first line has 2 columns."),
    (b'kind,title\nepic,"cut o', "2: The row is not valid CSV: a quotation mark is missing"),
    (b'kind,title\nepic,"first\n\nline"\nepic\n', "5: The row has 1 cells; the first line has 2 columns."),
    (b'kind,title\n\nepic,"a\nb",c\n', "3: The row has 3 cells; the first line has 2 columns."),
    (b'kind,title\nepic,"a\nb" c\n', "2: The row is not valid CSV: a quotation mark is missing"),
    (b'kind,title\nepic,"not closed\nepic,b\nepic,c\n', "2: The row is not valid CSV: a quotation mark is missing"),
    (b"kind,title\nepic,\x81\n", "2: The line is not valid UTF-8 at byte 6. Save the file in UTF-8."),
    ("kind,title\nepic,é\xff\n".encode() + b"\xff", "3: The line is not valid UTF-8 at byte 1."),
    ("kind,title\n".encode("utf-32-be"), "1: The file is in UTF-32. Save it in UTF-8."),
    (b'kind,title\nepic,"' + b"x" * 140_000 + b'"\n', "2: The row is not valid CSV: a quotation mark is missing"),
    (b"kind,title\nepic" + b',"x\n"' * 300_000, "has more than 1,000,000 bytes."),
]


@pytest.mark.usefixtures("data_dir_with_tables")
def test_an_invalid_csv_file_is_rejected(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, reason in INVALID:
        file.write_bytes(text)
        assert main(["requirements", "import", str(file), "--format", "csv"]) == 1
        found = capsys.readouterr().err
        assert reason in found, text[:40]
        assert found.startswith(f"{file}:")
        assert INSTRUCTION.search(found)
        assert found.endswith("Nothing was imported: 1 problem.\n")


ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
BIG_ENDIAN = {"utf-16": codecs.BOM_UTF16_BE, "utf-32": codecs.BOM_UTF32_BE}


ZIPPED = "The file is a workbook, or another ZIP archive. Save its table as CSV in UTF-8."
ZEROS = "The file starts with zero bytes: it is damaged. Export or copy it again."


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n\n", " "])
def test_a_file_in_another_form_is_rejected_once_by_its_name(form: Any, line_end: str) -> None:
    text = {"csv": f"kind,title{line_end}epic,x{line_end}", "jsonl": json.dumps(EPIC) + line_end}[form]
    files = {encoding: text.encode(encoding) for encoding in ENCODINGS}
    files |= {f"{name} mark": mark + files[f"{name}-be"] for name, mark in BIG_ENDIAN.items()}
    if form == "csv":  # which spreadsheets write
        in_utf_8 = list(RecordReader(io.BytesIO(text.encode()), form))
        for name in [one for one in files if one.startswith("utf-16")]:
            assert list(RecordReader(io.BytesIO(files.pop(name)), form)) == in_utf_8
    reasons = {content: f"The file is in {name[:6].upper()}. Save it in UTF-8." for name, content in files.items()}
    for content, reason in {**reasons, b"PK\x03\x04" + b"\xff\n" * 60: ZIPPED, bytes(5000): ZEROS}.items():
        found = list(RecordReader(io.BytesIO(content), form))
        assert found == [Refused([Rejection(1, None, reason)], None, ends_file=True)], reason


@pytest.mark.parametrize(
    ("form", "start", "line"),
    [
        ("csv", "kind,title,parent\nuser_story,in the part that is not read,EP-009\nepic,x", 3),
        pytest.param("csv", 'kind,title\nepic,"x', 2, marks=pytest.mark.soak),
        pytest.param("csv", "kind,", 1, marks=pytest.mark.soak),
        ("jsonl", '{"kind": "epic", "title": "x', 1),
        pytest.param("jsonl", f"{json.dumps(ADA)}\n", 2, marks=pytest.mark.soak),
    ],
)
@pytest.mark.usefixtures("data_dir_with_tables")
def test_a_line_of_two_gigabytes_is_rejected_in_little_memory(
    form: str, start: str, line: int, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(start)
    os.truncate(file, 2 * 10**9)  # the rest are zero bytes, which take no space
    command = ["requirements", "import", str(file), "--format", form]
    reason = "The line or row has more than 1,000,000 bytes. Shorten it. The rest of the file was not read."
    assert import_rejected(capsys, command) == {line: reason}
    tracemalloc.start()
    try:
        assert main(command) == 1
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("data_dir_with_tables")
def test_a_record_with_too_many_fields_is_rejected(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = {f"f{number}": 1 for number in range(10_000)}
    command = write(file, {"kind": "epic", "title": "x", **many})
    check_reasons(import_rejected(capsys, command), ["f0: Records of the kind epic have no such field. Remove it."])
    file.write_text("{" + '"f": 1, ' * 10**6 + "}\n")
    check_reasons(import_rejected(capsys, command), ["The line or row has more than 1,000,000 bytes. Shorten it."])


def test_an_empty_file_imports_nothing(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "empty.jsonl")) == 0
    assert "the file is empty" in capsys.readouterr().out
    assert data_dir.exists()


@pytest.mark.usefixtures("data_dir")
def test_a_missing_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requirements", "import", str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl: No such file or directory." in capsys.readouterr().err


class FullDisk(io.StringIO):
    def write(self, text: str, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_export_to_a_full_disk_is_reported(
    data_dir_with_tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", FullDisk())
    assert main(["requirements", "export"]) == 1
    assert capsys.readouterr().err == "stdout: No space left on device.\n"


@contextmanager
def limited_pages(pages: int) -> Iterator[None]:
    """Limit the size of SQLite databases that are opened inside, as a full disk does."""

    def limit(connection: DBAPIConnection, _: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count = {pages}")

    event.listen(Pool, "connect", limit)
    try:
        yield
    finally:
        event.remove(Pool, "connect", limit)


@pytest.mark.usefixtures("data_dir_with_tables")
def test_an_import_to_a_full_disk_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = export(capsys)
    with limited_pages(80):
        epics = ({**EPIC, "reference_id": None, "description": "x" * 9000} for _ in range(90))
        assert main(write(file, ADA, *epics)) == 1
    assert "The disk of the requirements database is full." in capsys.readouterr().err
    assert export(capsys) == before


CUT_OFF = "If the file was cut off here, export or copy it again."
NOTE = "The last row of {} has no line break. If the file was cut off there, its last cell is incomplete.\n"
HEADER = "kind,reference_id,priority,title\n"
RELATED = related(2, 1)
TITLE = 'Ünï "quoted", 数据\n\r\n😀'


def read_all(raw: bytes, form: Literal["jsonl", "csv"]) -> tuple[list[Numbered | Refused], bool]:
    reader = RecordReader(io.BytesIO(raw), form)
    return list(reader), reader.may_be_cut


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_that_is_cut_off_is_rejected_or_ends_after_a_record(form: Literal["jsonl", "csv"]) -> None:
    text = io.StringIO(newline="")
    writer = Writer(text, form)
    for one in (ADA, {**EPIC, "title": TITLE, "description": TITLE, "updated_at": "2026-01-31T12:00:00Z"}, RELATED):
        writer.write(one)
    whole = text.getvalue().encode()
    records, may_be_cut = read_all(whole, form)
    assert (len(records), may_be_cut) == (3, False)
    for size in range(len(whole)):
        found, may_be_cut = read_all(whole[:size], form)
        refused = [one for one in found if isinstance(one, Refused)]
        assert found[:-1] == records[: len(found[:-1])]
        if refused and form == "jsonl":
            assert CUT_OFF in refused[0].rejections[0].reason
        if not refused and not may_be_cut:
            assert found == records[: len(found)]
            assert not size or whole[:size].endswith(b"\n" if form == "csv" else (b"\n", b"}"))


@pytest.mark.usefixtures("tables")
def test_a_last_row_without_a_line_break_is_imported_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "records.csv"
    assert main(write(tmp_path / "a.jsonl", ADA)) == 0
    command = ["requirements", "import", str(file), "--creator", "ada"]
    file.write_text(HEADER + "epic,EP-001,1,The whole ti")
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().err == NOTE.format(file)
    assert [one["title"] for one in export_kind(capsys, "epic")] == ["The whole ti"]
    for text, may_be_cut in (("epic,EP-002,1,The whole ti", True), ("epic,EP-003,1,The whole title\n", False)):
        file.write_text(HEADER + text)
        assert main([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["may_be_cut"] is may_be_cut


@pytest.mark.usefixtures("tables")
def test_nothing_is_deleted_for_a_file_that_can_be_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.csv"
    second = {**EPIC, "reference_id": "EP-002", "title": "Second"}
    assert main(write(tmp_path / "a.jsonl", *FAMILY, second)) == 0
    command = ["requirements", "import", str(file), "--update", "--delete-missing"]
    file.write_text(HEADER + "epic,EP-001,1,New ti")
    found = import_rejected(capsys, command)
    assert list(found) == [0]
    assert found[0].startswith("The last row has no line break, so the file can be cut off. ")
    assert len(export(capsys)) > len(FAMILY)
    file.write_text(HEADER + "epic,EP-001,1,New title\n")
    assert main(command) == 0
    assert [one["title"] for one in export_kind(capsys, "epic")] == ["New title"]
