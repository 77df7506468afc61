"""The example that changes CSV files of Jira to records."""

import subprocess
import sys
from pathlib import Path

import pytest

from quilt_mcp.commands.cli import main
from tests.requirements.transferring import ADA, export_kind, write
from tests.support.docs import ROOT

FILE = """\
Summary,Issue key,Issue id,Issue Type,Status,Priority,Parent,Labels,Labels,Description
Faster runs,SEQ-1,10001,Epic,To Do,Highest,,speed,,
The queue,SEQ-2,10002,Story,Done,Medium,10001,,,"Line
""two"", end"
Sorted,SEQ-3,10003,Task,Done,High,SEQ-2,a,b,
It SHALL be sorted,SEQ-4,10004,Sub-task,To Do,Medium,SEQ-2,,,
Broken,SEQ-5,10005,Bug,Open,Trivial,,,,
"""


@pytest.mark.usefixtures("data_dir_with_tables")
def test_the_program_changes_issues_to_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issues, records = tmp_path / "issues.csv", tmp_path / "records.csv"
    issues.write_text(FILE, encoding="utf-8")
    command = [sys.executable, str(ROOT / "examples" / "jira_records.py"), str(issues)]
    records.write_text(subprocess.run(command, capture_output=True, check=True, text=True).stdout, encoding="utf-8")
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    assert main(["requirements", "import", str(records), "--creator", "ada"]) == 0
    [epic], [story], [requirement], [criterion] = (
        export_kind(capsys, kind) for kind in ("epic", "user_story", "requirement", "acceptance_criteria")
    )
    assert (epic["title"], epic["priority"], epic["status"]) == ("Faster runs", 1, "Backlog")
    assert (story["epic_id"], story["description"], story["status"]) == (epic["id"], 'Line\n"two", end', "Done")
    assert (requirement["user_story_id"], requirement["status"]) == (story["id"], "Active")
    assert (criterion["user_story_id"], criterion["description"]) == (story["id"], "It SHALL be sorted")
    records.write_text(records.read_text().replace("Sorted", "Sorted by start"))
    assert main(["requirements", "import", str(records), "--update", "--creator", "ada"]) == 0
    assert "updated 1 requirement" in capsys.readouterr().out
