"""`quilt-mcp requirements import` and `export`: what comes in, and what is refused and why; nothing is half written."""

import errno
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp import runtime_context
from quilt_mcp.cli import main
from quilt_mcp.requirements.kinds import DEFAULT_PROJECT_ID
from quilt_mcp.settings import Settings

ADA = {"kind": "user", "username": "ada", "email": "ada@example.com"}
BY_ADA = {"creator_id": "ada"}
EPIC = {"kind": "epic", "reference_id": "EP-001", "title": "Epic", **BY_ADA}
STORY = {"kind": "user_story", "reference_id": "US-001", "title": "Story", "epic_id": "EP-001", **BY_ADA}
CRITERION = {
    "kind": "acceptance_criteria",
    "reference_id": "AC-001",
    "description": "WHEN it rains THEN it SHALL pour.",
    "user_story_id": "US-001",
    "author_id": "ada",
}
UUID = "0b9c4d5e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"


def requirement(number: int, **more: Any) -> dict[str, Any]:
    of = {"user_story_id": "US-001", "type_id": "Functional"}
    return {"kind": "requirement", "reference_id": f"REQ-{number:03d}", "title": f"R{number}", **of, **BY_ADA, **more}


def related(source: int, target: int, name: str = "depends_on") -> dict[str, Any]:
    ends = {"source_requirement_id": f"REQ-{source:03d}", "target_requirement_id": f"REQ-{target:03d}"}
    return {"kind": "relationship", "relationship_type_id": name, "created_by": "ada", **ends}


FAMILY = [ADA, EPIC, STORY, CRITERION, requirement(1, acceptance_criteria_id="AC-001"), requirement(2), related(2, 1)]


@pytest.fixture
def in_force() -> Iterator[Callable[[Settings], None]]:
    """Puts settings into force for the test."""
    before = runtime_context.settings()
    yield runtime_context.use_settings
    runtime_context.use_settings(before)


@pytest.fixture
def tables(settings_with_tables: Settings, in_force: Callable[[Settings], None]) -> None:
    """A database without entities is in force."""
    in_force(settings_with_tables)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def write(file: Path, *records: Any) -> list[str]:
    """Write records into a file, and answer the command that imports it."""
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return ["requirements", "import", str(file)]


def rejected(capsys: pytest.CaptureFixture[str], command: list[str]) -> dict[int, str]:
    """Why each line is rejected; and nothing has been written."""
    before = exported(capsys)
    assert main([*command, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["imported"] == {}
    assert exported(capsys) == before
    lines = [one["line"] for one in report["rejected"]]
    assert lines == sorted(lines)
    return {one["line"]: one["reason"] for one in report["rejected"]}


def expect(found: dict[int, str], reasons: Iterable[str | None]) -> None:
    """The reasons of all lines, by how they begin; None for a line that is not rejected."""
    expected = {line: reason for line, reason in enumerate(reasons, 1) if reason}
    assert {line: reason[: len(expected.get(line, ""))] for line, reason in found.items()} == expected
    assert all(len(reason) < 500 for reason in found.values())


def exported(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["requirements", "export"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def of_kind(capsys: pytest.CaptureFixture[str], kind: str) -> list[dict[str, Any]]:
    return [record for record in exported(capsys) if record["kind"] == kind]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_what_is_exported_imports_to_the_same_bytes(
    settings_with_sample: Settings,
    settings_with_tables: Settings,
    in_force: Callable[[Settings], None],
    tmp_path: Path,
    suffix: str,
) -> None:
    first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
    in_force(settings_with_sample)
    assert main(["requirements", "export", str(first)]) == 0
    in_force(settings_with_tables)
    assert main(["requirements", "import", str(first)]) == 0
    assert main(["requirements", "export", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes().splitlines()) >= 452
    assert sorted(path.name for path in tmp_path.glob("*.*")) == [first.name, second.name]


@pytest.mark.usefixtures("tables")
def test_records_refer_to_each_other_by_names_in_any_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*write(file, *reversed(FAMILY)), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"] == {
        "relationship": 1,
        "requirement": 2,
        "acceptance_criteria": 1,
        "user_story": 1,
        "epic": 1,
        "user": 1,
    }
    found = {record.get("reference_id", record["kind"]): record for record in exported(capsys)}
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
def test_a_second_file_refers_to_the_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, *FAMILY)) == 0
    new = requirement(3, user_story_id="US-001", acceptance_criteria_id="AC-001")
    del new["reference_id"]
    assert main(write(file, new, related(2, 1, "relates_to"))) == 0
    assert main(write(file, {**ADA, "role": "Administrator"})) == 0
    assert {one["reference_id"] for one in of_kind(capsys, "requirement")} == {"REQ-001", "REQ-002", "REQ-003"}
    assert [one["role"] for one in of_kind(capsys, "user")] == ["Administrator"]


@pytest.mark.usefixtures("tables")
def test_a_creator_may_be_given_for_all(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, ADA)) == 0
    nobodys = {"kind": "epic", "title": "Epic"}
    assert "creator_id: It is missing" in rejected(capsys, write(file, nobodys))[1]
    assert main([*write(file, nobodys), "--creator", "ada"]) == 0
    assert len(of_kind(capsys, "epic")) == 1


@pytest.mark.usefixtures("tables")
def test_a_csv_file_of_a_spreadsheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.CSV"
    header = "kind,title,description,priority,username,email,creator_id"
    lines = (header, "user,,,,ada,a@b,", 'epic,Ä,"a\n""b"",",2,,,ada', "")
    file.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert main(["requirements", "import", str(file)]) == 0
    [epic] = of_kind(capsys, "epic")
    assert (epic["title"], epic["description"], epic["priority"]) == ("Ä", 'a\n"b",', 2)


WRONG_LINES = [
    (b"\xff\xfe\n", "The line is not UTF-8, from its byte 1 on."),
    (b"[" * 100_000 + b"\n", "The line is no JSON."),
    (b'{"kind": "epic", "priority": 1' + b"0" * 5000 + b"}\n", "The line is no JSON."),
    (b"[]\n", "It is no object with fields."),
    (b"null\n", "It is no object with fields."),
    (b'{"title": "x"}\n', "kind: It is missing."),
    (b'{"kind": "' + b"poem" * 1000 + b'"}\n', "kind: It is none of user, project, "),
    (b'{"kind": "epic"}\n', "title: Field required"),
    (
        b'{"kind": "epic", "title": "x", "creat',
        "The line is no JSON. It is the last one: the file may have been cut off.",
    ),
]


@pytest.mark.usefixtures("tables")
def test_lines_that_are_no_records(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write(file, ADA)
    file.write_bytes(file.read_bytes() + b"".join(line for line, _ in WRONG_LINES))
    expect(rejected(capsys, command), [None, *(reason for _, reason in WRONG_LINES)])


def test_nothing_is_read_behind_a_line_without_end(
    file: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(b'"' + b"x" * 1_000_001 + b'"\nnull\n')
    command = ["requirements", "import", str(file)]
    expect(rejected(capsys, command), ["The line is longer than 1,000,000 bytes; what follows is not read."])


WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"priority": 5}, "priority: "),
    ({"priority": "high"}, "priority: "),
    ({"status": "Active"}, "status: "),
    ({"title": " "}, "title: it is blank"),
    ({"title": "x" * 501}, "title: "),
    ({"title": "a\x00b"}, "title: it holds control characters"),
    ({"title": "\ud800"}, "title: it holds control characters or half a surrogate"),
    ({"description": "x" * 50_001}, "description: "),
    ({"id": "7"}, "id: it is no UUID"),
    ({"reference_id": "EP-0001"}, "reference_id: "),
    ({"reference_id": "EP-000"}, "reference_id: "),
    ({"reference_id": "US-001"}, "reference_id: "),
    ({"reference_id": "EP-001\n"}, "reference_id: "),
    ({"created_at": "2026-01-01T00:00:00"}, "created_at: "),
    ({"created_at": "yesterday"}, "created_at: "),
    ({"colour": "red"}, "colour: "),
    ({"creator_id": "bob"}, "creator_id: There is no 'bob' in users"),
    ({"creator_id": UUID}, f"creator_id: There is no '{UUID}' in users"),
    ({"creator_id": "'; DROP TABLE users; --"}, "creator_id: There is no"),
    ({"project_id": "Moon"}, "project_id: There is no 'Moon' in projects"),
]


@pytest.mark.usefixtures("tables")
def test_values_that_are_wrong(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    epics = [{**EPIC, "reference_id": None, **wrong} for wrong, _ in WRONG_VALUES]
    found = rejected(capsys, write(file, ADA, *epics))
    expect(found, [None, *(reason for _, reason in WRONG_VALUES)])


OTHER_STORY = {**STORY, "reference_id": "US-002"}
UNFIT = [
    (EPIC, "reference_id: The record in line 2 has it too."),
    ({**EPIC, "reference_id": "EP-002", "id": UUID}, None),
    ({**EPIC, "reference_id": "EP-003", "id": UUID.upper()}, "id: The record in line 9 has it too."),
    ({**OTHER_STORY, "id": UUID}, None),  # ids are unique in their table
    ({**ADA, "username": "bob"}, "email: The record in line 1 has it too."),
    ({**STORY, "reference_id": "US-003", "epic_id": "EP-404"}, "epic_id: There is no 'EP-404' in epics."),
    ({**STORY, "reference_id": "US-004", "epic_id": "US-001"}, "epic_id: There is no 'US-001' in epics."),
    ({**STORY, "reference_id": "US-005", "epic_id": "US-005"}, "epic_id: There is no 'US-005' in epics."),
    (requirement(3, type_id="Poetic"), "type_id: There is no 'Poetic' in requirement_types."),
    (related(1, 2, "likes"), "relationship_type_id: There is no 'likes' in relationship_types."),
    (related(1, 9), "target_requirement_id: There is no 'REQ-009' in requirements."),
]
UNFIT_RELATIONSHIPS = [
    (related(1, 1), "A requirement has no relationship to itself."),
    (related(2, 1), "The relationship is in line 7 too."),
    (related(1, 2), "By depends_on the source comes before the target, and the target before the source."),
    (related(1, 2, "blocks"), None),
    (requirement(3), None),
    (related(3, 2), None),
    (related(1, 3), "By depends_on the source comes before the target"),
    (OTHER_STORY, None),
    (
        requirement(4, user_story_id="US-002", acceptance_criteria_id="AC-001"),
        "acceptance_criteria_id: It belongs to another user story.",
    ),
]


@pytest.mark.parametrize("table", [UNFIT, UNFIT_RELATIONSHIPS], ids=["links", "relationships"])
@pytest.mark.usefixtures("tables")
def test_records_that_do_not_fit_together(
    file: Path, capsys: pytest.CaptureFixture[str], table: list[tuple[Any, str | None]]
) -> None:
    found = rejected(capsys, write(file, *FAMILY, *(record for record, _ in table)))
    expect(found, [*(None for _ in FAMILY), *(reason for _, reason in table)])


ALREADY_THERE = [
    (EPIC, "EP-001 is in the database already."),
    ({**ADA, "id": UUID}, "username: In the database ada has another id, "),
]


@pytest.mark.usefixtures("tables")
def test_records_that_do_not_fit_into_the_database(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, *FAMILY)) == 0
    found = rejected(capsys, write(file, *(record for record, _ in ALREADY_THERE)))
    expect(found, [reason for _, reason in ALREADY_THERE])
    found = rejected(capsys, write(file, related(2, 1), related(1, 2)))
    expect(found, ["The relationship is in the database already.", "By depends_on the source comes before the target"])
    [reason] = rejected(capsys, write(file, {**ADA, "username": "bob"})).values()
    assert reason == "A value that has to be unique, an email, is in the database already."


@pytest.mark.usefixtures("tables")
def test_all_that_is_wrong_is_told_at_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = write(file, ADA, {"kind": "poem"}, EPIC | {"creator_id": "bob"}, EPIC | {"priority": 7})
    assert list(rejected(capsys, command)) == [2, 3, 4]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("Nothing was imported: 3 rejected.\n  line 2: kind: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "line 1: The file is empty"),
        (b"kind,colour\n", "line 1: There is no column 'colour'"),
        (b"kind,title,kind\n", "line 1: There is no column 'kind', or it stands there twice"),
        (b"kind,title\nepic\n", "line 2: The row has 1 cells where the first line names 2"),
        (b'kind,title\nepic,"cut o', "line 2: A quoted cell does not end"),
        (b"kind,title\nepic,\xff\n", "line 2: The line is not UTF-8"),
        (b'kind,title\nepic,"' + b"x" * 140_000 + b'"\n', "line 2: A quoted cell does not end, or is too long"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_csv_file_that_is_broken(
    file: Path, data_dir: Path, capsys: pytest.CaptureFixture[str], text: bytes, reason: str
) -> None:
    file.write_bytes(text)
    assert main(["requirements", "import", str(file), "--format", "csv"]) == 1
    assert reason in capsys.readouterr().err


def test_an_empty_file_is_no_mistake(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "empty.jsonl")) == 0
    assert "the file is empty" in capsys.readouterr().out
    assert data_dir.exists()


def test_a_file_that_is_not_there(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requirements", "import", str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl: No such file or directory." in capsys.readouterr().err
    assert main(["requirements", "export", str(tmp_path / "none" / "out.jsonl")]) == 1
    assert "No such file or directory." in capsys.readouterr().err


class FullDisk(io.StringIO):
    def write(self, text: str, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_export_onto_a_full_disk(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", FullDisk())
    assert main(["requirements", "export"]) == 1
    assert capsys.readouterr().err == "stdout: No space left on device.\n"


def test_an_import_onto_a_full_disk(
    make_settings: Callable[..., Settings],
    in_force: Callable[[Settings], None],
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_force(make_settings("sqlite", "tables"))
    before = exported(capsys)
    monkeypatch.setattr("quilt_mcp.requirements.engines.PRAGMAS", ("foreign_keys = ON", "max_page_count = 80"))
    assert main(write(file, ADA, *({**EPIC, "reference_id": None, "description": "x" * 9000} for _ in range(90)))) == 1
    assert "The disk that holds the requirements database is full." in capsys.readouterr().err
    assert exported(capsys) == before
