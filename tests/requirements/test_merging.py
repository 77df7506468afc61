"""Updates of rows that others have changed since the last import of the same source: nothing is undone silently."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quilt_mcp.commands.cli import main
from tests.requirements.test_reqif import document, place, spec_object
from tests.requirements.transferring import ADA, FAMILY, export_kind, import_rejected, requirement, write
from tests.support.settings import Settings


@pytest.fixture(autouse=True)
def _database(tables: None) -> None:
    """Each test has a database."""


def run(*words: str) -> None:
    assert main(["requirements", *words]) == 0


def write_reqif(file: Path, *, text: str = "The pump shall stop.", status: str = "") -> Path:
    """Write a file with one requirement, whose number is REQ-001."""
    values = {"foreign": "REQ-001"} | ({"chapter": status} if status else {})
    raw = document(spec_object("a", text=f"<x:div>{text}</x:div>", **values), place("a"))
    raw = raw.replace(b'LONG-NAME="ReqIF.ChapterName"', b'LONG-NAME="Note"')
    if status:
        raw = raw.replace(b"Note", b"Status")
    file.write_bytes(raw)
    return file


def change_locally(tmp_path: Path, **fields: Any) -> None:
    """Change the requirement with a file of our own fields, which is another source."""
    record = {"kind": "requirement", "reference_id": "REQ-001", **fields}
    run(*write(tmp_path / "local.jsonl", record)[1:], "--update")


def read_row(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    [row] = export_kind(capsys, "requirement")
    return row


def report(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["requirements", "import", *words, "--update", "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def supplied(tmp_path: Path) -> Path:
    """The file of a supplier, which was imported."""
    run(*write(tmp_path / "users.jsonl", ADA)[1:])
    file = write_reqif(tmp_path / "supplier.reqif")
    run("import", str(file), "--creator", "ada")
    return file


def test_the_same_file_keeps_what_was_changed_here(
    supplied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_locally(tmp_path, title="Ours", description="Also ours", status="Active", priority=1)
    found = report(capsys, str(supplied))
    assert (found["updated"], found["kept"]) == ({}, 2)  # of the four, the file has the title and no description
    row = read_row(capsys)
    assert (row["title"], row["description"], row["status"], row["priority"]) == ("Ours", "Also ours", "Active", 1)
    capsys.readouterr()
    run("import", str(supplied), "--update")
    assert "Kept: 2 values that only the database has changed since the last import." in capsys.readouterr().out


def test_what_only_the_file_changed_is_taken_and_the_rest_is_kept(
    supplied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_locally(tmp_path, priority=1, description="Ours")
    found = report(capsys, str(write_reqif(supplied, text="The pump shall stop at once.")))
    assert (found["updated"], found["kept"]) == ({"requirement": 1}, 1)
    row = read_row(capsys)
    assert (row["title"], row["priority"], row["description"]) == ("The pump shall stop at once.", 1, "Ours")


def test_what_both_changed_is_a_conflict_until_somebody_decides(
    supplied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_locally(tmp_path, title="Ours")
    write_reqif(supplied, text="Theirs")
    command = ["requirements", "import", str(supplied), "--update"]
    for more in ([], ["--dry-run"]):
        reasons = import_rejected(capsys, [*command, *more])
        [reason] = reasons.values()
        assert reason.startswith("title: Changed in the file and, to 'Ours', in the database since the last import.")
    [conflict] = report(capsys, str(supplied), "--dry-run", code=1)["conflicts"]
    assert {**conflict, "line": 0} == {
        "line": 0,
        "kind": "requirement",
        "name": "REQ-001",
        "field": "title",
        "ours": "Ours",
        "theirs": "Theirs",
    }
    report(capsys, str(supplied), "--theirs", "--dry-run")
    assert read_row(capsys)["title"] == "Ours"
    report(capsys, str(supplied), "--ours")
    assert read_row(capsys)["title"] == "Ours"
    assert report(capsys, str(supplied))["kept"] == 1  # what is decided is no conflict of the same file again
    report(capsys, str(write_reqif(supplied, text="Theirs again")), "--theirs")
    assert read_row(capsys)["title"] == "Theirs again"
    assert report(capsys, str(supplied))["unchanged"]["requirement"] == 1


def test_the_same_change_on_both_sides_is_none(
    supplied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_locally(tmp_path, title="Both")
    assert report(capsys, str(write_reqif(supplied, text="Both")))["updated"] == {}


def test_a_file_decides_each_conflict(supplied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_reqif(supplied, status="Draft")
    run("import", str(supplied), "--update")
    change_locally(tmp_path, title="=Ours", status="Active")
    write_reqif(supplied, text="Theirs", status="Obsolete")
    decisions = tmp_path / "decisions.csv"
    report(capsys, str(supplied), "--dry-run", "--decisions", str(decisions), code=1)
    with decisions.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(one["record"], one["field"], one["ours"], one["theirs"]) for one in rows] == [
        ("REQ-001", "status", "Active", "Obsolete"),
        ("REQ-001", "title", "'=Ours", "Theirs"),
    ]
    report_of = [str(supplied), "--decisions", str(decisions)]
    assert main(["requirements", "import", *report_of, "--update"]) == 1  # nothing is decided
    assert "Row 2 must have a record, a field, and the decision ours or theirs." in capsys.readouterr().err
    with decisions.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([{**rows[0], "decision": "Ours "}, {**rows[1], "decision": "theirs"}])
    report(capsys, *report_of)
    row = read_row(capsys)
    assert (row["status"], row["title"]) == ("Active", "Theirs")


@pytest.mark.parametrize(
    "contents", [b"", b"\xff\xfe", b"record,field\nREQ-001,title\n", b'record,field,decision\n"', b"a"]
)
def test_a_file_that_decides_nothing_is_refused(contents: bytes, supplied: Path, tmp_path: Path) -> None:
    decisions = tmp_path / "decisions.csv"
    decisions.write_bytes(contents)
    code = main(["requirements", "import", str(supplied), "--update", "--decisions", str(decisions)])
    assert code == (0 if contents in {b"", b"a"} else 1)


def test_options_that_exclude_each_other_are_refused(supplied: Path) -> None:
    for options in (["--ours"], ["--update", "--ours", "--theirs"], ["--decisions", "x.csv"]):
        assert main(["requirements", "import", str(supplied), *options]) == 2
    assert main(["requirements", "import", str(supplied), "--update", "--decisions", "gone.csv"]) == 1


def test_files_of_one_source_follow_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "first.jsonl", *FAMILY)
    run(*first[1:])
    run(*write(tmp_path / "second.jsonl", {**requirement(1), "title": "Second"})[1:], "--update")
    run(*first[1:], "--update")
    titles = {one["reference_id"]: one["title"] for one in export_kind(capsys, "requirement")}
    assert titles == {"REQ-001": "R1", "REQ-002": "R2"}


def test_a_user_story_of_the_file_and_a_criterion_of_the_database_do_not_mix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = {"kind": "user_story", "reference_id": "US-003", "title": "S", "epic_id": "EP-001"}
    criteria = [
        {"kind": "acceptance_criteria", "reference_id": f"AC-00{number}", "description": "x", "user_story_id": of}
        for number, of in ((2, "US-001"), (3, "US-003"))
    ]
    run(*write(tmp_path / "family.jsonl", *FAMILY, story, *criteria)[1:], "--creator", "ada")
    file, moved = tmp_path / "export.reqif", {"kind": "requirement", "reference_id": "REQ-001"}
    run("export", str(file))
    run("import", str(strip_times(file)), "--update")
    theirs = {**moved, "user_story_id": "US-003", "acceptance_criteria_id": "AC-003"}
    run(*write(tmp_path / "1.jsonl", theirs)[1:], "--update")
    run("export", str(file))
    before = {**moved, "user_story_id": "US-001", "acceptance_criteria_id": "AC-001"}
    run(*write(tmp_path / "2.jsonl", before)[1:], "--update")
    run(*write(tmp_path / "3.jsonl", {**moved, "acceptance_criteria_id": "AC-002"})[1:], "--update")
    command = ["requirements", "import", str(strip_times(file)), "--update"]
    reasons = import_rejected(capsys, [*command, "--ours"]).values()
    assert any("Its acceptance criterion in the database belongs to another user story." in one for one in reasons)
    report(capsys, str(file), "--theirs")


FIELDS = ("title", "description", "status", "priority")
VALUES: dict[str, list[Any]] = {
    "title": ["a", "b", "c"],
    "description": ["x", "y", None],
    "status": ["Draft", "Active", "Obsolete"],
    "priority": [1, 2, 3],
}
rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
sides = st.sampled_from(["ours", "theirs"])


@pytest.fixture
def start(make_settings: Callable[..., Settings], set_settings: Callable[[Settings], None]) -> Callable[[], None]:
    """A function that sets the settings to another SQLite database without entities."""
    return lambda: set_settings(make_settings("sqlite", "tables"))


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
@given(versions=st.tuples(rows, rows, rows), side=sides)
def test_nothing_is_lost_that_one_side_alone_changed(
    versions: tuple[dict[str, Any], ...],
    side: str,
    start: Callable[[], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    base, here, there = versions
    start()
    supplier = tmp_path / "supplier.reqif"
    run(*write(tmp_path / "1.jsonl", *FAMILY[:3], requirement(1, **base))[1:])
    run("export", str(supplier))
    run("import", str(strip_times(supplier)), "--update")
    change_locally(tmp_path, **there)
    run("export", str(supplier))  # the supplier's next file, which is not imported yet
    change_locally(tmp_path, **base)
    change_locally(tmp_path, **here)
    both = [one for one in FIELDS if base[one] != here[one] and base[one] != there[one] and here[one] != there[one]]
    command = [str(strip_times(supplier))]
    if both:
        conflicts = report(capsys, *command, "--dry-run", code=1)["conflicts"]
        assert sorted(one["field"] for one in conflicts) == sorted(both)
    report(capsys, *command, f"--{side}")
    row = read_row(capsys)
    for name in FIELDS:
        takes_file = side == "theirs" if name in both else base[name] == here[name]
        assert row.get(name) == (there if takes_file else here)[name], name


def strip_times(file: Path) -> Path:
    """Remove the times of change from a file of ours, as tools do."""
    lines = file.read_text().splitlines(keepends=True)
    for place_, line in enumerate(lines):
        if line.startswith("<SPEC-OBJECT "):
            parts = line.split("<ATTRIBUTE-VALUE-DATE")
            lines[place_] = parts[0] + "".join(one.partition("</ATTRIBUTE-VALUE-DATE>")[2] for one in parts[1:])
    file.write_text("".join(lines))
    return file
