"""An export: one snapshot, and a file that appears complete or not at all. The status that `requirements` prints."""

import csv
import errno
import io
import json
import os
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import delete, update

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.commands import work as requirements_work
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import TABLES
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.transfer.exporting import export_records
from quilt_mcp.requirements.transfer.files import Writer
from tests.requirements.transferring import (
    ADA,
    EPIC,
    STORY,
    export,
    export_kind,
    import_family,
    related,
    requirement,
    write,
)
from tests.support.settings import Settings


class Terminal(io.StringIO):
    """A stderr that shows progress."""

    def isatty(self) -> bool:
        return True


def run_in_terminal(command: list[str], *, to_terminal: bool = False) -> tuple[str, str]:
    """Run a command whose stderr is a terminal, and also its stdout if `to_terminal`. Return what they show."""
    variables = {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "200"}
    output, shown = Terminal() if to_terminal else io.StringIO(), Terminal()
    with patch.dict(os.environ, variables), redirect_stdout(output), redirect_stderr(shown):
        assert main(command) == 0
    return output.getvalue(), shown.getvalue()


@pytest.mark.usefixtures("sample")
def test_records_and_progress_do_not_go_to_the_same_terminal() -> None:
    command = ["requirements", "export"]
    records, shown = run_in_terminal(command, to_terminal=True)
    assert (len(records.splitlines()) > 400, shown) == (True, "")
    again, shown = run_in_terminal(command)
    assert again == records
    count = len(records.splitlines())
    assert shown.index(f"0 of {count} rows") < shown.index(f"{count} of {count} rows")


def test_an_import_shows_the_bytes_of_the_file_before_it_reads_them(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    command = write(file, ADA, *({**EPIC, "reference_id": None, "description": "x" * 1000} for _ in range(100)))
    _, shown = run_in_terminal(command)
    first = shown[shown.index("Reading") :].splitlines()[0]
    assert f"0.0/{file.stat().st_size / 1000:.1f} kB" in first


def test_an_export_is_one_snapshot(database: Database) -> None:
    with closing(export_records(database)) as records:
        expected = list(records)
    found: list[Any] = []
    with closing(export_records(database)) as records:
        for record in records:
            if not found:
                with database.writing() as connection:
                    connection.execute(delete(tables.epics))
                    connection.execute(update(tables.projects).values(description="later"))
            found.append(record)
    assert found == expected


@pytest.fixture
def sample(settings_with_sample: Settings, set_settings: Callable[[Settings], None]) -> None:
    set_settings(settings_with_sample)


@pytest.mark.parametrize("form", [pytest.param("jsonl", marks=pytest.mark.soak), "csv"])
def test_an_export_to_stdout_has_the_bytes_of_a_file(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    target = tmp_path / "out"
    assert main(write(tmp_path / "in.jsonl", ADA, {**EPIC, "title": "数据 é", "description": "a\nb"})) == 0
    assert main(["requirements", "export", str(target), "--format", form]) == 0
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="latin-1", newline="\r\n"))
    assert main(["requirements", "export", "--format", form]) == 0
    assert output.getvalue() == target.read_bytes()


@pytest.mark.usefixtures("sample")
def test_a_failed_export_leaves_the_previous_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("previous")

    class FullDisk(Writer):
        written = 0

        def write(self, values: Any) -> None:
            super().write(values)
            self.written += 1
            if self.written == 100:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as context:
        context.setattr(requirements_work, "Writer", FullDisk)
        assert main(["requirements", "export", str(target)]) == 1
    assert capsys.readouterr().err == f"{target}: No space left on device.\n"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.jsonl"]
    assert target.read_text() == "previous"
    assert main(["requirements", "export", str(target)]) == 0
    assert len(target.read_text().splitlines()) > 400


@pytest.mark.usefixtures("sample")
def test_an_export_that_cannot_be_written_names_the_file_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "none" / "out.jsonl"
    assert main(["requirements", "export", str(missing)]) == 1
    assert capsys.readouterr().err == f"{missing}: No such file or directory.\n"
    (tmp_path / "none").touch()
    assert main(["requirements", "export", str(missing)]) == 1
    assert capsys.readouterr().err.startswith(f"{missing}: ")

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    file = tmp_path / "out.jsonl"
    assert main(["requirements", "export", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: Permission denied.\n"
    assert not list(tmp_path.glob("*out.jsonl*"))


@pytest.mark.usefixtures("sample")
def test_an_export_keeps_links_and_devices(tmp_path: Path) -> None:
    link, target = tmp_path / "link.jsonl", tmp_path / "target.jsonl"
    link.symlink_to(target)
    assert main(["requirements", "export", str(link)]) == 0
    assert link.is_symlink()
    assert target.stat().st_size > 1000
    assert main(["requirements", "export", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask and no modes of files")
@pytest.mark.parametrize(("before", "after"), [(None, 0o640), (0o666, 0o666), (0o600, 0o600), (0o444, 0o444)])
@pytest.mark.usefixtures("sample")
def test_an_export_keeps_the_mode_of_the_file_that_it_replaces(before: int | None, after: int, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    if before is not None:
        target.touch()
        target.chmod(before)
    umask = os.umask(0o027)
    try:
        assert main(["requirements", "export", str(target)]) == 0
    finally:
        os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == after


def test_an_export_replaces_no_database(
    make_settings: Callable[..., Settings],
    set_settings: Callable[[Settings], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = make_settings("sqlite", "sample")
    set_settings(settings)
    own, link, other = settings.data_dir / FILE_NAME, tmp_path / "link", tmp_path / "other"
    link.symlink_to(own)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE x (y)")
    kept = own.read_bytes(), other.read_bytes()
    for target in (own, link, other, *(Path(f"{own}{end}") for end in ("-wal", "-shm", "-journal"))):
        capsys.readouterr()
        assert main(["requirements", "export", str(target)]) == 1
        assert capsys.readouterr().err.splitlines()[0] == f"{target} belongs to an SQLite database. It was not changed."
    assert (own.read_bytes(), other.read_bytes()) == kept
    assert not Path(f"{own}-journal").exists()
    set_settings(settings.model_copy(update={"data_dir": tmp_path / "fresh"}))
    assert main(["requirements", "export", str(tmp_path / "fresh" / FILE_NAME)]) == 1
    assert "belongs to an SQLite database" in capsys.readouterr().err


IN_PUMPS = [
    {"kind": "user", "username": "bob", "email": "bob@example.com"},
    {"kind": "project", "name": "Pumps"},
    {"kind": "project", "name": "Valves"},
    {"kind": "member", "user_id": "bob", "project_id": "Pumps"},
    {"kind": "requirement_type", "name": "Hydraulic"},
    {"kind": "requirement_type", "name": "Secret"},
    {**EPIC, "reference_id": "EP-002", "project_id": "Pumps"},
    {**STORY, "reference_id": "US-002", "epic_id": "EP-002"},
    requirement(8, user_story_id="US-002", type_id="Hydraulic"),
    requirement(9, user_story_id="US-002"),
    related(8, 9),
    related(8, 1, "blocks"),
]
"""A project beside the one of the family. One of its relationships leads out of it."""
CALLED_LIKE_OURS = [
    {"kind": "relationship_type", "name": "acceptance criterion"},
    related(9, 8, "acceptance criterion"),
]
"""A type of relationships with the name of ReqIF's relations to acceptance criteria."""


def read_kinds(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a file in JSON Lines or CSV by their kinds, without empty cells."""
    with file.open(newline="") as opened:
        read = csv.DictReader(opened) if file.suffix == ".csv" else map(json.loads, opened)
        records = [{name: value for name, value in record.items() if value != ""} for record in read]
    return {kind: [one for one in records if one["kind"] == kind] for kind in TABLES}


@pytest.mark.usefixtures("tables")
def test_an_export_of_a_project_has_what_belongs_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(tmp_path / "in.jsonl", *IN_PUMPS)
    target = tmp_path / "out.jsonl"
    capsys.readouterr()
    assert main(["requirements", "export", str(target), "--project", "Pumps"]) == 0
    shown = capsys.readouterr().out
    assert (
        "2 users, 1 project, 1 member, 2 requirement types, 1 relationship type, 1 epic, 1 user story, 2 req" in shown
    )
    assert "It has usernames and e-mail addresses." in shown
    found = read_kinds(target)
    assert {one["username"] for one in found["user"]} == {"ada", "bob"}
    assert [one["name"] for one in found["project"]] == ["Pumps"]
    assert {one["name"] for one in found["requirement_type"]} == {"Functional", "Hydraulic"}
    assert [one["name"] for one in found["relationship_type"]] == ["depends_on"]
    assert [one["reference_id"] for one in found["epic"]] == ["EP-002"]
    assert {one["reference_id"] for one in found["requirement"]} == {"REQ-008", "REQ-009"}
    assert len(found["relationship"]) == 1
    assert main(["requirements", "import", str(target), "--update", "--dry-run"]) == 0
    assert "created" not in capsys.readouterr().out
    both = [
        *("requirements", "export", str(tmp_path / "both.csv")),
        *("--project", "Pumps", "--project", "Default", "--project", "Valves", "--with-users"),
    ]
    assert main(both) == 0
    assert len(read_kinds(tmp_path / "both.csv")["relationship"]) == 3


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_import_of_a_part_deletes_nothing_of_other_projects(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the relationship that leads out of the project stays, which the part does not have."""
    import_family(tmp_path / "in.jsonl", *IN_PUMPS, requirement(10, user_story_id="US-002"))
    everything = {json.dumps(one) for one in export(capsys)}
    part = tmp_path / f"part.{suffix}"
    assert main(["requirements", "export", str(part), "--project", "Pumps", "--with-users"]) == 0
    command = ["requirements", "import", str(part), "--update", "--delete-missing", "--json"]
    capsys.readouterr()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["change_count"] == 0
    part.write_text("".join(line for line in part.read_text().splitlines(keepends=True) if "REQ-010" not in line))
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == {"requirement": 1}
    [gone] = everything - {json.dumps(one) for one in export(capsys)}
    assert json.loads(gone)["reference_id"] == "REQ-010"


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("suffix", ["csv", "reqif"])
def test_a_file_for_others_has_no_people(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(tmp_path / "in.jsonl", *IN_PUMPS, *CALLED_LIKE_OURS)
    everyone = {row["id"] for row in export_kind(capsys, "user")} | {"ada@example.com", "bob@example.com", "bob"}
    target = tmp_path / f"out.{suffix}"
    assert main(["requirements", "export", str(target)]) == 0
    assert "It has no usernames and no e-mail addresses." in capsys.readouterr().out
    text = target.read_text()
    assert not [one for one in everyone if one in text]
    assert main(["requirements", "export", str(target), "--with-users"]) == 0
    assert not [one for one in everyone if one not in target.read_text()]
    assert main(["requirements", "export", str(tmp_path / "out.jsonl"), "--without-users"]) == 0
    assert not [one for one in everyone if one in (tmp_path / "out.jsonl").read_text()]
    target.write_text(text)
    assert main(["requirements", "import", str(target), "--update", "--dry-run", "--json"]) == 0
    capsys.readouterr()
    assert main(["requirements", "import", str(target), "--update", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


@pytest.mark.usefixtures("tables")
def test_an_unknown_project_is_refused_with_the_nearest_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_family(tmp_path / "in.jsonl", *IN_PUMPS)
    target = tmp_path / "out.csv"
    capsys.readouterr()
    assert main(["requirements", "export", str(target), "--project", "pump"]) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert "Project 'pump' not found." in shown
    assert "Did you mean Pumps?" in shown
    assert "The projects are Default, Pumps, Valves." in shown
    assert not target.exists()


def test_the_earlier_system_has_no_projects_to_export(
    existing_settings: Settings, set_settings: Callable[[Settings], None], capsys: pytest.CaptureFixture[str]
) -> None:
    set_settings(existing_settings)
    assert main(["requirements", "export", "--project", "Default"]) == 1
    assert "has no projects" in " ".join(capsys.readouterr().err.split())
