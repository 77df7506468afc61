"""CSV files of Jira, with a mapping of their columns and values."""

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.transfer.jira import JiraReader
from quilt_mcp.requirements.transfer.jira_mapping import read_mapping
from quilt_mcp.requirements.transfer.record_reader import Numbered, Refused
from tests.requirements.transferring import ADA, export, export_kind, import_rejected, write
from tests.support.docs import ROOT

MAPPING = """\
attributes = ["Issue key", "Labels"]

[types]
Epic = "epic"
Story = "user_story"
Task = "requirement"
Sub-task = "acceptance_criteria"
Bug = "skip"

[statuses.epic]
"To Do" = "Backlog"
[statuses.user_story]
"To Do" = "Backlog"
Done = "Done"
[statuses.requirement]
"To Do" = "Draft"
Done = "Active"

[priorities]
Highest = 1
Medium = 3

[links]
"Outward issue link (Blocks)" = "blocks"
"""
FILE = """\
Summary,Issue key,Issue id,Issue Type,Status,Priority,Parent,Labels,Labels,{link},{link},Created,Updated,{text},Votes
Faster runs,SEQ-1,10001,Epic,To Do,Highest,,speed,,,,22/Nov/26 5:24 PM,22/Nov/26 17:25,,0
The queue,SEQ-2,10002,Story,Done,Medium,10001,,,,,2026-11-22T17:24:00.000+0100,2026-11-22 17:24,"Line
""two"", end",0
Sorted,SEQ-3,10003,Task,Done,Medium,SEQ-2,a,b,SEQ-4,SEQ-9,,,,
=Filtered,SEQ-4,10004,Task,To Do,Medium,SEQ-2,,,,,,,,
It SHALL be sorted,SEQ-5,10005,Sub-task,To Do,Medium,SEQ-2,,,,,,,,
Broken,SEQ-9,10009,Bug,Open,Trivial,,,,,,,,,
""".replace("{link}", "Outward issue link (Blocks)").replace("{text}", "Description")


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    path = tmp_path / "jira.toml"
    path.write_text(MAPPING)
    return path


def read(text: str | bytes, mapping: Path) -> tuple[list[Numbered | Refused], Counter[str]]:
    skipped: Counter[str] = Counter()
    raw = text.encode() if isinstance(text, str) else text
    reader = JiraReader(io.BytesIO(raw), read_mapping(mapping), skipped)
    found = list(reader)
    assert reader.bytes_read <= len(raw)
    return found, skipped


def read_problem(text: str | bytes, mapping: Path) -> str:
    found, _ = read(text, mapping)
    [refused] = [one for one in found if isinstance(one, Refused)]
    [(line, field, reason)] = refused.rejections
    return f"{line}: {field}: {reason}"


@pytest.mark.parametrize(("separator", "mark"), [(",", ""), (";", "\ufeff")])
def test_issues_become_records(mapping: Path, separator: str, mark: str) -> None:
    header, rest = FILE.split("\n", 1)
    text = mark + (FILE if separator == "," else header.replace(",", ";") + "\n" + rest.replace(",", ";"))
    found, skipped = read(text, mapping)
    records = [one.values for one in found if isinstance(one, Numbered)]
    assert len(records) == len(found)
    epic, story, sorted_, filtered, criterion, link = sorted(
        records,
        key=lambda one: ["epic", "user_story", "requirement", "acceptance_criteria", "relationship"].index(one["kind"]),
    )
    assert (epic["title"], epic["status"], epic["priority"]) == ("Faster runs", "Backlog", 1)
    assert epic["description"] == "Issue key: SEQ-1\nLabels: speed"
    assert epic["created_at"].isoformat() == "2026-11-22T17:24:00+00:00"
    assert epic["updated_at"].isoformat() == "2026-11-22T17:25:00+00:00"
    assert story["epic_id"] == epic["id"]
    assert story["created_at"].isoformat() == "2026-11-22T16:24:00+00:00"
    assert story["description"] == f'Line\n"two"{separator} end\n\nIssue key: SEQ-2'
    assert sorted_["description"] == "Issue key: SEQ-3\nLabels: a, b"
    assert (sorted_["status"], filtered["status"], filtered["title"]) == ("Active", "Draft", "=Filtered")
    assert sorted_["user_story_id"] == criterion["user_story_id"] == story["id"]
    assert criterion["description"] == "It SHALL be sorted\n\nIssue key: SEQ-5"
    assert (link["source_requirement_id"], link["target_requirement_id"]) == (sorted_["id"], filtered["id"])
    assert link["relationship_type_id"] == "blocks"
    assert dict(skipped) == {
        "column Votes": 2,
        "issues of the type Bug": 1,
        "links Outward issue link (Blocks) that are not between two requirements of the file": 1,
    }


HEAD = "Summary,Issue key,Issue id,Issue Type,Status,Priority,Epic Link,Created,Labels,Outward issue link (Blocks)\n"
WRONG = [
    (
        "a,K-1,1,Improvement,,,,,,\n",
        "2: Issue Type: 'Improvement' is not in [types] of the mapping, which has Epic, Story,",
    ),
    (
        "a,K-1,1,Epic,In Review,,,,,\n",
        "2: Status: 'In Review' is not in [statuses.epic] of the mapping, which has To Do.",
    ),
    (
        "a,K-1,1,Epic,,Urgent,,,,\n",
        "2: Priority: 'Urgent' is not in [priorities] of the mapping, which has Highest, Medium",
    ),
    ("a,K-1,1,Epic,,,,soon,,\n", "2: Created: 'soon' is not a time in a known format. Set time_format in the mapping."),
    ("a,,1,Epic,,,,,,\n", "2: Issue key: Missing. Add the key of the issue."),
    (",K-1,1,Epic,,,,,,\n", "2: Summary: Missing. Add it."),
    ("a,K-1,1,Epic\n", "2: None: The row has 4 cells; the first line has 10 columns."),
    ("a,K-1,1,Story,,,,,,\n", "2: Epic Link: Missing. Add the parent, or set defaults.epic in the mapping."),
    ("a,K-1,1,Story,,,K-7,,,\n", "2: Epic Link: The file has no issue 'K-7'. Export it too, or remove the value."),
    (
        "a,K-1,1,Epic,,,,,,\nb,K-2,2,Task,,,K-1,,,\n",
        "3: Epic Link: K-1 is of the kind epic, but the parent of the kind requirement must be of the kind user_story.",
    ),
    ('a,K-1,1,Epic,,,,,"x\n\ny",\na,,"1\n",Epic,,,,,,\n', "5: Issue key: Missing. Add the key of the issue."),
    (f"{'x' * 501},K-1,1,Epic,,,,,,\n", "2: Summary: Has more than 500 characters. Shorten it."),
    ('a,K-1,1,"Epic', "2: None: The row is not valid CSV: a quotation mark is missing"),
    (b"\xff,K-1\n", "2: None: The line is not valid UTF-8 at byte 1."),
    ("a\0b,K-1,1,Epic,,,,,,\n", "2: Summary: Must not contain the character U+0000"),
]


@pytest.mark.parametrize(("rows", "reason"), WRONG, ids=[reason[:40] for _, reason in WRONG])
def test_a_wrong_issue_is_rejected_with_its_column(mapping: Path, rows: str | bytes, reason: str) -> None:
    mapping.write_text(MAPPING.replace('"Issue key", ', ""))
    raw = HEAD.encode() + (rows.encode() if isinstance(rows, str) else rows)
    found = read_problem(raw, mapping)
    # parents are looked for in columns that Jira names differently; the problem names the first one without a value
    assert found.startswith((reason, reason.replace("Epic Link: Missing", "Parent key: Missing")))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "1: None: The column Issue key is missing. Add it, or set columns.key in the mapping."),
        ("Issue key,Issue Type\n", "1: None: The column Summary is missing."),
        (
            "Issue key,Issue Type,Summary\n",
            "1: None: The column Outward issue link (Blocks) of the mapping is missing.",
        ),
        ("x," * 400_000, "1: None: The column Issue key is missing."),
        ("x," * 1_000_000, "1: None: The line or row has more than 1,000,000 bytes."),
    ],
    ids=["empty", "title", "links", "columns", "line"],
)
def test_a_wrong_header_is_rejected(mapping: Path, header: str, reason: str) -> None:
    assert read_problem(header, mapping).startswith(reason)


def test_issues_without_a_parent_get_the_default_one(mapping: Path) -> None:
    mapping.write_text(f'{MAPPING}\n[defaults]\nepic = "Other"\nuser_story = "Other tasks"\n')
    text = (
        HEAD.replace("Labels", "Labels,Issue key2") + "s,K-1,1,Story,,,,,,,\nt,K-2,2,Task,,,,,,,\nu,K-3,3,Task,,,,,,,\n"
    )
    found, _ = read(text, mapping)
    records = [one.values for one in found if isinstance(one, Numbered)]
    assert [(one["kind"], one["title"]) for one in records] == [
        ("epic", "Other"),
        ("user_story", "s"),
        ("user_story", "Other tasks"),
        ("requirement", "t"),
        ("requirement", "u"),
    ]
    assert records[3]["user_story_id"] == records[4]["user_story_id"] == records[2]["id"]


MAPPINGS = [
    ("types = 1", "types: the value has the wrong type."),
    ("", "types: it is missing."),
    ("[types]\n", "types: must not be empty."),
    (
        '[types]\nBug = "bug"\n',
        "types.Bug: must be one of 'epic', 'user_story', 'acceptance_criteria', 'requirement' or",
    ),
    ('[types]\nBug = "epic"\n[priorities]\nHigh = 9\n', "priorities.High: must be a whole number from 1 to 4."),
    ('[types]\nBug = "epic"\n[status]\n', "status: there is no such setting."),
    ('time_zone = "Moon"\n[types]\nBug = "epic"\n', "time_zone: is not a time zone such as Europe/Berlin."),
    ("[types\n", "It is not valid TOML: "),
    ("x = " + "[" * 100_000, "It is n"),
    ("#" * 1_000_001, "It has more than 1,000,000 bytes."),
]


@pytest.mark.parametrize(("text", "reason"), MAPPINGS, ids=[reason[:20] for _, reason in MAPPINGS])
def test_a_wrong_mapping_is_rejected(mapping: Path, text: str, reason: str) -> None:
    mapping.write_text(text)
    with pytest.raises(ResourceExecutionError) as failed:
        read_mapping(mapping)
    assert failed.value.message == f"The mapping {mapping} is not valid. Nothing was imported."
    assert str(failed.value.details).startswith(reason)


def test_a_mapping_in_another_encoding_is_rejected(mapping: Path) -> None:
    mapping.write_bytes('project = "Ä"'.encode("latin-1"))
    with pytest.raises(ResourceExecutionError) as failed:
        read_mapping(mapping)
    assert failed.value.details == "It is not valid UTF-8 at byte 12."


@pytest.mark.parametrize(
    ("settings", "text", "time"),
    [
        ("", "22/Nov/26 5:24 PM", "2026-11-22T17:24:00+00:00"),
        ("", "2026-11-22T17:24:00.000+0000", "2026-11-22T17:24:00+00:00"),
        ('time_zone = "Europe/Berlin"', "22/Nov/2026 17:24", "2026-11-22T17:24:00+01:00"),
        ('time_format = "%d.%m.%Y %H:%M"', "22.11.2026 17:24", "2026-11-22T17:24:00+00:00"),
        ('time_format = "%d.%m.%Y %H:%M"', "22/Nov/26 5:24 PM", None),
        ('time_format = "%Y-%d-%m %H:%M"', "2026-05-06 10:00", "2026-06-05T10:00:00+00:00"),
        ('time_format = "%Y-%d-%m %H:%M"', "2026-06-05T10:00:00Z", "2026-06-05T10:00:00+00:00"),
    ],
)
def test_times_of_jira_are_read(mapping: Path, settings: str, text: str, time: str | None) -> None:
    mapping.write_text(f'{settings}\n[types]\nBug = "epic"\n')
    found = read_mapping(mapping).parse_time(text)
    assert (found.isoformat() if found else None) == time


@pytest.mark.usefixtures("tables")
def test_a_file_is_imported_and_updated(tmp_path: Path, mapping: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    file = tmp_path / "jira.csv"
    file.write_text(FILE)
    command = ["requirements", "import", str(file), "--mapping", str(mapping), "--creator", "ada"]
    assert main(command) == 0
    assert "Skipped: issues of the type Bug (1)\n" in capsys.readouterr().err
    before = export(capsys)
    assert main([*command, "--update"]) == 0
    assert export(capsys) == before
    file.write_text(FILE.replace("Faster runs", "Slower runs").replace("17:25", "17:55"))
    assert main([*command, "--update", "--dry-run"]) == 0
    assert "title: 'Faster runs' → 'Slower runs'" in capsys.readouterr().out
    file.write_text(FILE.replace(",Done,", ",Closed,"))
    assert main([*command, "--json"]) == 1
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (3, "Status") in [(one["line"], one["field"]) for one in report["rejected"]]
    mapping.write_text("[types]\n")
    assert main(command) == 1
    assert "is not valid. Nothing was imported.\n  types: must not be empty.\n" in capsys.readouterr().err
    assert main([*command[:4], str(tmp_path / "none.toml")]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'none.toml'}: No such file or directory.\n"
    assert len(export_kind(capsys, "epic")) == 1


@pytest.mark.usefixtures("tables")
def test_conflicts_with_the_database_name_the_columns_and_settings(
    tmp_path: Path, mapping: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    file = tmp_path / "jira.csv"
    command = ["requirements", "import", str(file), "--mapping", str(mapping), "--creator", "ada"]
    file.write_text(FILE)
    assert main(command) == 0
    found = import_rejected(capsys, command)
    assert found[2].startswith("Issue key: ")
    assert found[2].endswith(" is already in the database. Use --update to change it, or remove the record.")
    file.write_text(FILE.replace("Faster runs", "Slower runs").replace("17:25", "17:20"))
    assert import_rejected(capsys, [*command, "--update"]) == {
        2: "Updated: The record was changed in the database at 2026-11-22T17:25:00Z, after the time in the file. "
        "Export again and repeat your changes, or remove this time to overwrite the record."
    }
    changed = MAPPING.replace('"blocks"', '"stops"') + '[columns]\nassignee = "Votes"\ncreator = "Labels"\n'
    mapping.write_text('project = "Moon"\n' + changed)
    file.write_text(FILE.replace("SEQ-", "OTHER-").replace("speed", "bob").replace(",0\n", ",eve\n"))
    found = import_rejected(capsys, command)
    assert "project in the mapping: 'Moon' not found in projects, " in found[2]
    assert "Labels: 'bob' not found in users, " in found[2]
    assert "Votes: 'eve' not found in users, " in found[2]
    assert "links in the mapping: 'stops' not found in relationship_types, " in found[5]


@pytest.mark.usefixtures("tables")
def test_texts_that_a_file_does_not_have_are_kept(
    tmp_path: Path, mapping: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping.write_text(MAPPING.replace(MAPPING.splitlines()[0], ""))
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    file = tmp_path / "jira.csv"
    command = ["requirements", "import", str(file), "--mapping", str(mapping), "--creator", "ada"]
    file.write_text(FILE)
    assert main(command) == 0
    [before] = export_kind(capsys, "user_story")
    assert before["description"] == 'Line\n"two", end'
    file.write_text(FILE.replace(",Description,", ",Notes,").replace("The queue", "The line"))
    assert main([*command, "--update"]) == 0
    [after] = export_kind(capsys, "user_story")
    assert (after["title"], after["description"]) == ("The line", before["description"])


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("updated", ["Updated", pytest.param("Notes", marks=pytest.mark.soak)])
def test_a_changed_mapping_can_be_imported_again_and_again(
    updated: str, tmp_path: Path, mapping: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    file = tmp_path / "jira.csv"
    file.write_text(f"Summary,Issue key,Issue Type,{updated},Labels,Sprint\nE,A-1,Epic,2026-01-20 10:00,x,s1\n")
    command = ["requirements", "import", str(file), "--mapping", str(mapping), "--creator", "ada", "--update"]
    found = []
    for attributes in ([], ["Labels"], ["Labels", "Sprint"]):
        mapping.write_text(f'attributes = {json.dumps(attributes)}\n[types]\nEpic = "epic"\n')
        assert main(command) == 0
        found += export_kind(capsys, "epic")
    assert [one.get("description") for one in found] == [None, "Labels: x", "Labels: x\nSprint: s1"]
    times = [one["updated_at"] for one in found]
    if updated == "Updated":
        assert times == ["2026-01-20T10:00:00Z"] * 3
        file.write_text(file.read_text().replace("10:00", "09:00").replace(",x,", ",y,"))
        assert list(import_rejected(capsys, command)) == [2]
    else:
        assert times == sorted(set(times))


@pytest.mark.usefixtures("tables")
def test_repeated_links_are_imported_once(tmp_path: Path, mapping: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    links = '"Cloners" = "relates_to"\n"Duplicate" = "relates_to"\n"Blocks" = "blocks"\n'
    defaults = '[defaults]\nepic = "E"\nuser_story = "S"\n'
    mapping.write_text(f'[types]\nTask = "requirement"\n[links]\n{links}{defaults}')
    file = tmp_path / "jira.csv"
    file.write_text(
        "Summary,Issue key,Issue id,Issue Type,Cloners,Duplicate,Duplicate,Blocks\n"
        "a,A-1,1,Task,A-2,A-2,2,A-2\nb,A-2,2,Task,,,A-1,\n"
    )
    command = ["requirements", "import", str(file), "--mapping", str(mapping), "--creator", "ada"]
    assert main(command) == 0
    assert "Skipped: links Duplicate that are repeated (2)\n" in capsys.readouterr().err
    names = {one["id"]: one.get("title", one.get("name")) for one in export(capsys) if "id" in one}
    found = [
        [names[one[f"{field}_id"]] for field in ("source_requirement", "relationship_type", "target_requirement")]
        for one in export_kind(capsys, "relationship")
    ]
    assert sorted(found) == [["a", "blocks", "b"], ["a", "relates_to", "b"], ["b", "relates_to", "a"]]


def test_users_of_jira_become_usernames(mapping: Path) -> None:
    mapping.write_text(
        f'{MAPPING}\n[users]\n"Ada Lovelace" = "ada"\n[columns]\ncreator = "Reporter"\nassignee = ["Assignee"]\n'
    )
    text = FILE.replace("Votes", "Reporter").replace(",0\n", ",Ada Lovelace\n")
    found, skipped = read(text, mapping)
    assert {one.values.get("creator_id") for one in found if isinstance(one, Numbered)} == {"ada", None}
    assert "column Votes" not in skipped


def test_a_pipe_is_refused(mapping: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    [refused] = JiraReader(Pipe(FILE.encode()), read_mapping(mapping), Counter())
    assert isinstance(refused, Refused)
    assert "is read twice" in refused.rejections[0].reason


@pytest.mark.usefixtures("tables")
def test_the_example_of_the_documentation_is_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "interchange.md").read_text(encoding="utf-8").partition("## Jira")[2]
    blocks = re.findall(r"```(csv|toml)\n(.*?)```", page, re.DOTALL)
    for language, text in blocks:
        (tmp_path / f"jira.{language}").write_text(text)
    assert [language for language, _ in blocks] == ["csv", "toml"]
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    command = ["requirements", "import", str(tmp_path / "jira.csv"), "--mapping", str(tmp_path / "jira.toml")]
    capsys.readouterr()
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Imported: 1 epic, 1 user story, 2 requirements, 1 relationship.")
    assert not err
    assert {one["creator_id"] for one in export_kind(capsys, "epic")} == {export_kind(capsys, "user")[0]["id"]}


@pytest.mark.usefixtures("tables")
def test_default_parents_of_different_projects_are_different(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projects = [{"kind": "project", "name": name} for name in "AB"]
    assert main(write(tmp_path / "first.jsonl", ADA, *projects)) == 0
    for name in "AB":
        (tmp_path / f"{name}.toml").write_text(
            f'project = "{name}"\n[types]\nTask = "requirement"\n'
            f'[defaults]\nepic = "Epic of {name}"\nuser_story = "Story of {name}"\n'
        )
        file = tmp_path / f"{name}.csv"
        file.write_text(f"Summary,Issue key,Issue Type\nTask of {name},{name}-1,Task\n")
        command = ["requirements", "import", str(file), "--mapping", str(tmp_path / f"{name}.toml")]
        assert main([*command, "--creator", "ada"]) == 0
        assert main([*command, "--creator", "ada", "--update"]) == 0
    names = {one["id"]: one["name"] for one in export_kind(capsys, "project")}
    epics = {one["id"]: one for one in export_kind(capsys, "epic")}
    assert {one["title"]: names[one["project_id"]] for one in epics.values()} == {"Epic of A": "A", "Epic of B": "B"}
    stories = {one["id"]: one for one in export_kind(capsys, "user_story")}
    assert {one["title"]: epics[one["epic_id"]]["title"] for one in stories.values()} == {
        "Story of A": "Epic of A",
        "Story of B": "Epic of B",
    }
    assert {one["title"]: stories[one["user_story_id"]]["title"] for one in export_kind(capsys, "requirement")} == {
        "Task of A": "Story of A",
        "Task of B": "Story of B",
    }
