"""A file that was cut off anywhere: an import rejects it, unless nothing shows that something is missing."""

import io
import json
from pathlib import Path
from typing import Literal

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.transfer.files import Numbered, RecordReader, Refused, Writer
from tests.requirements.transferring import ADA, EPIC, FAMILY, export, export_kind, import_rejected, related, write

CUT_OFF = "If the file was cut off here, export or copy it again."
NOTE = "The last row of {} has no line break. If the file was cut off there, its last cell is incomplete.\n"
HEADER = "kind,reference_id,priority,title\n"
RELATED = related(2, 1)
TITLE = 'Ünï "quoted", 数据\n\r\n😀'


def read(raw: bytes, form: Literal["jsonl", "csv"]) -> tuple[list[Numbered | Refused], bool]:
    reader = RecordReader(io.BytesIO(raw), form)
    return list(reader), reader.may_be_cut


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_that_is_cut_off_is_rejected_or_ends_after_a_record(form: Literal["jsonl", "csv"]) -> None:
    text = io.StringIO(newline="")
    writer = Writer(text, form)
    for one in (ADA, {**EPIC, "title": TITLE, "description": TITLE, "updated_at": "2026-01-31T12:00:00Z"}, RELATED):
        writer.write(one)
    whole = text.getvalue().encode()
    records, may_be_cut = read(whole, form)
    assert (len(records), may_be_cut) == (3, False)
    for size in range(len(whole)):
        found, may_be_cut = read(whole[:size], form)
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
