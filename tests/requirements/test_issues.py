"""CSV files as people have them: of issue trackers, and of spreadsheets."""

import json
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.cli import main
from tests.distribution.building import create_environment, run_or_skip
from tests.requirements.transferring import ADA, export, write

JIRA = """\
Summary,Issue key,Issue id,Issue Type,Status,Priority,Parent,Labels,Labels,Description,Assignee
Sorted,SEQ-3,10003,Task,Done,High,SEQ-2,a,b,,Ada
The queue,SEQ-2,10002,Story,In Review,Medium,10001,,,"Line
""two"", end",
Faster runs,SEQ-1,10001,Epic,To Do,Highest,,speed,,,
It SHALL be sorted,SEQ-4,10004,Sub-task,To Do,Medium,SEQ-2,,,,
Part of a task,SEQ-6,10006,Sub-task,To Do,Medium,SEQ-3,,,,
Broken,SEQ-5,10005,Bug,Open,Trivial,,,,,nobody
Outside,SEQ-7,10007,Story,Limbo,Blocker,999,,,,
Above,SEQ-8,10008,Task,Won't Do,P2,SEQ-1,,,,
"""
DATA_CENTER = """\
Summary,Issue key,Issue id,Parent id,Issue Type,Status,Priority,Custom field (Epic Link),Created
Faster runs,SEQ-1,10001,,Epic,To Do,Highest,,01/Feb/26
The queue,SEQ-2,10002,,Story,Closed,Major,SEQ-1,01/Feb/26
It SHALL be sorted,SEQ-4,10004,10002,Sub-task,Open,Minor,,01/Feb/26
"""
AZURE = """\
ID,Work Item Type,Title 1,Title 2,Title 3,State,Assigned To,Priority,Area Path
1,Epic,Faster runs,,,New,Ada <ada@example.com>,1,Team
2,Feature,,Queue,,Active,,2,Team
3,User Story,,,See the queue,Resolved,,2,Team
4,Task,,,Sort it,Removed,,,Team
"""
AZURE_FLAT = """\
ID,Work Item Type,Title,State,Parent,Priority
4,Task,Sort it,Done,3,4
3,Product Backlog Item,See the queue,Committed,,2
"""
GITHUB = """\
Title\tURL\tAssignees\tStatus\tLabels\tParent issue
Sort the queue\thttps://github.com/a/b/issues/1\tada\tIn Progress\tbug, speed\t
By start\thttps://github.com/a/b/issues/2\t\tTodo\t\tSort the queue
"""


DOORSTOP = """\
uid,level,text,ref,links,active,derived,header,normative,reviewed
REQ001,1.0,Stopping,,,True,False,,False,
REQ002,1.1,The pump shall stop.,,,True,False,,True,
REQ003,1.2,"Within three seconds.
Always.",,"REQ002
SYS001",True,False,At once,True,
REQ004,1.3.0,Valves,,,True,False,,False,
REQ005,1.3.1,The valve shall close.,,,False,False,,True,
"""


@pytest.fixture(autouse=True)
def _database(tables: None) -> None:
    """Each test has a database."""


def import_text(tmp_path: Path, contents: str | bytes, *words: str, code: int = 0, name: str = "issues.csv") -> Path:
    file = tmp_path / name
    file.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    assert main(["requirements", "import", str(file), "--creator", "ada", *words]) == code
    return file


def read_tree(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the entities in the order of an export: kind, title, status, priority, and the title of the parent."""
    found = export(capsys)
    titles = {one["id"]: one.get("title") or one.get("description", "").split("\n")[0] for one in found if "id" in one}
    shown = []
    for one in found:
        parent = one.get("user_story_id") or one.get("epic_id") or one.get("source_requirement_id")
        if one["kind"] in {"epic", "user_story", "acceptance_criteria", "requirement", "relationship"}:
            words = [one["kind"], titles[one["id"]], one.get("status"), one.get("priority"), titles.get(parent or "")]
            shown.append(" | ".join(str(word) for word in words if word))
    return shown


TREES: list[tuple[str, str, list[str]]] = [
    (
        "Jira Cloud",
        JIRA,
        [
            "epic | Faster runs | Backlog | 1",
            "epic | Jira issues without an epic | Backlog | 3",
            "user_story | The queue | In Progress | 3 | Faster runs",
            "user_story | Issues without a story | Backlog | 3 | Jira issues without an epic",
            "user_story | Outside | Backlog | 1 | Jira issues without an epic",
            "user_story | Issues of Faster runs | Backlog | 3 | Faster runs",
            "acceptance_criteria | It SHALL be sorted | The queue",
            "requirement | Sorted | Active | 2 | The queue",
            "requirement | Part of a task | Draft | 3 | The queue",
            "requirement | Broken | Draft | 4 | Issues without a story",
            "requirement | Above | Obsolete | 2 | Issues of Faster runs",
            "relationship | Part of a task",
        ],
    ),
    (
        "Jira Data Center",
        DATA_CENTER,
        [
            "epic | Faster runs | Backlog | 1",
            "user_story | The queue | Done | 2 | Faster runs",
            "acceptance_criteria | It SHALL be sorted | The queue",
        ],
    ),
    (
        "a tree of Azure DevOps",
        AZURE,
        [
            "epic | Faster runs | Backlog | 1",
            "epic | Queue | In Progress | 2",
            "user_story | See the queue | Done | 2 | Queue",
            "user_story | Issues of Queue | Backlog | 3 | Queue",
            "requirement | Sort it | Obsolete | 3 | Issues of Queue",
        ],
    ),
    (
        "a list of Azure DevOps",
        AZURE_FLAT,
        [
            "epic | Azure DevOps issues without an epic | Backlog | 3",
            "user_story | See the queue | In Progress | 2 | Azure DevOps issues without an epic",
            "requirement | Sort it | Active | 4 | See the queue",
        ],
    ),
    (
        "a project of GitHub",
        GITHUB,
        [
            "epic | GitHub issues without an epic | Backlog | 3",
            "user_story | Issues without a story | Backlog | 3 | GitHub issues without an epic",
            "requirement | Sort the queue | Draft | 3 | Issues without a story",
            "requirement | By start | Draft | 3 | Issues without a story",
            "relationship | By start",
        ],
    ),
    (
        "a document of Doorstop",
        DOORSTOP,
        [
            "epic | Doorstop issues without an epic | Backlog | 3",
            "user_story | Stopping | Backlog | 3 | Doorstop issues without an epic",
            "user_story | Valves | Backlog | 3 | Doorstop issues without an epic",
            "requirement | The pump shall stop. | Draft | 3 | Stopping",
            "requirement | At once | Draft | 3 | Stopping",
            "requirement | The valve shall close. | Obsolete | 3 | Valves",
            "relationship | At once",
        ],
    ),
    ("a cycle", JIRA.replace("SEQ-1,10001,Epic,To Do,Highest,", "SEQ-1,10001,Story,To Do,Highest,SEQ-2"), []),
]


@pytest.mark.parametrize(("contents", "expected"), [one[1:] for one in TREES], ids=[one[0] for one in TREES])
def test_issues_become_records_with_their_hierarchy(
    contents: str, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = import_text(tmp_path, contents)
    found = read_tree(capsys)
    assert found == (expected or found)
    assert main(["requirements", "import", str(file), "--update"]) == 0
    assert read_tree(capsys) == found
    assert main(["requirements", "import", str(file), "--update", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["updated"] == {}


def test_what_has_no_field_is_a_line_or_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_text(tmp_path, JIRA)
    err = capsys.readouterr().err
    for name, count in (("column labels", 2), ("status Limbo; it is a line of the description", 1)):
        assert f"Skipped: {name} ({count})" in err
    assert "Skipped: parent that the file does not have; it is a line of the description (1)" in err
    found = {one.get("title"): one for one in export(capsys)}
    assert found["Outside"]["description"] == "Jira: SEQ-7\nStatus: Limbo\nParent: 999"
    assert found["The queue"]["description"] == 'Line\n"two", end\n\nJira: SEQ-2'
    assert found["Broken"]["description"] == "Jira: SEQ-5\nAssignee: nobody"


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (JIRA.replace("Sorted,SEQ-3", ",SEQ-3"), "2: summary: Jira issue 'SEQ-3' has no value here. Add it"),
        (JIRA.replace("Sorted,SEQ-3", "Sorted,"), "2: issue key: Jira issue '' has no value here."),
        (JIRA.replace("SEQ-3,10003", "SEQ-2,10003"), "Duplicate of line 2. Change or remove one of the two."),
        (JIRA + "a,b\n", "11: The row has 2 cells; the first line has 11 columns."),
        (JIRA + 'a,"b\n', "11: The row is not valid CSV"),
    ],
)
def test_a_bad_issue_is_named(contents: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_text(tmp_path, contents, code=1)
    assert reason in capsys.readouterr().err


def test_long_texts_of_issues_are_whole_in_the_description(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_text(tmp_path, JIRA.replace("Sorted,", f"{'long ' * 200},"))
    [found] = [one for one in export(capsys) if one.get("title", "").startswith("long")]
    assert len(found["title"]) == 500
    assert found["description"].startswith("long " * 199)


def test_columns_of_issues_can_have_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = JIRA.replace("Issue Type", "Vorgangstyp")
    import_text(tmp_path, contents, "--map", "type=vorgangstyp,text=Summary")
    assert "user_story | The queue | In Progress | 3 | Faster runs" in read_tree(capsys)
    import_text(tmp_path, contents, "--map", "type=gone", code=1)
    assert "The file has no column 'gone', which --map names." in capsys.readouterr().err


TABLE = "kind,reference_id,title,parent\nepic,EP-005,Größe €,\nuser_story,US-005,Café,EP-005\n"
FORMS: list[tuple[str, bytes]] = [
    ("UTF-8 with a mark", b"\xef\xbb\xbf" + TABLE.encode()),
    ("UTF-16", TABLE.encode("utf-16")),
    ("UTF-16, big", b"\xfe\xff" + TABLE.encode("utf-16-be")),
    ("Unicode text of Excel", TABLE.replace(",", "\t").replace("\n", "\r\n").encode("utf-16")),
    ("Windows-1252", TABLE.encode("cp1252")),
    ("CSV of Excel in Germany", ("sep=;\r\n" + TABLE.replace(",", ";").replace("\n", "\r\n")).encode("cp1252")),
    ("a quoted separator", b'"sep=;"\n' + TABLE.replace(",", ";").encode()),
    ("blank lines before", b"\r\n;;;\n" + TABLE.replace(",", ";").encode()),
    ("empty columns behind", TABLE.replace("\n", ",,\n").encode()),
    ("an empty column behind the first row", TABLE.replace("parent\n", "parent,\n").replace("5\n", "5,\n").encode()),
    ("another way to write the parent", TABLE.replace("Café,EP-005", "Café, ep-5 ").encode()),
]


@pytest.mark.parametrize("contents", [one[1] for one in FORMS], ids=[one[0] for one in FORMS])
def test_a_table_of_a_spreadsheet_is_read(contents: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_text(tmp_path, contents)
    found = [(one["title"], one.get("reference_id")) for one in export(capsys) if "title" in one]
    assert found == [("Größe €", "EP-005"), ("Café", "US-005")]


BAD: list[tuple[str, bytes, str]] = [
    ("two encodings", TABLE.encode("cp1252") + "epic,EP-006,né,\n".encode(), "4: The lines before are in Windows-1252"),
    ("two, UTF-8 first", TABLE.encode() + "epic,EP-006,né,\n".encode("cp1252"), "4: The line is not valid UTF-8"),
    ("damaged UTF-8", TABLE.encode().replace("ß".encode(), b"\xc3"), "2: The line is not valid UTF-8 at byte 17."),
    ("UTF-32", TABLE.encode("utf-32"), "1: The file is in UTF-32. Save it in UTF-8."),
    ("half of UTF-16", TABLE.encode("utf-16")[:-1], "3: The line is not valid UTF-16."),
    ("bad UTF-16", TABLE.encode("utf-16") + b"\x00\xd8\x00\xd8", "The line is not valid UTF-16."),
    ("only blanks", b"\n;;;\n\n", "The file is empty. Write the names of the columns in the first line."),
    ("only a separator", b"sep=;\n", "The file is empty."),
    ("a column in the middle", TABLE.replace("reference_id", "").encode(), "1: Column 2 has no name."),
    ("a cell behind", TABLE.replace("€,\n", "€,,x\n").encode(), "2: The row has 5 cells; the first"),
    ("a status", TABLE.replace("title", "status").replace("Café", "DONE").encode(), "Did you mean Done?"),
    ("in_progress", TABLE.replace("title", "status").replace("Café", "in_progress").encode(), "mean In Progress?"),
    ("a parent that is none", TABLE.replace("Café,EP-005", "Café,ep-6 ").encode(), "parent: 'ep-6 ' not found"),
    ("own columns", TABLE.replace("title", "owner").encode(), "The column 'owner' is unknown."),
]


@pytest.mark.parametrize(("contents", "reason"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
def test_a_table_that_cannot_be_read_is_named(
    contents: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_text(tmp_path, contents, code=1)
    assert reason in " ".join(capsys.readouterr().err.split())


def test_columns_are_mapped_and_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = "Art;Name;Owner;Owner;Ref\nepic;Pumps;me;you;EP-007\nepic;Valves;;;EP-008\n"
    mapped = ["--map", "kind=art,title=Name", "--map", "reference_id=Ref"]
    import_text(tmp_path, contents, *mapped, "--ignore-columns")
    assert "Skipped: column Owner (2)" in capsys.readouterr().err
    assert [one["title"] for one in export(capsys) if one["kind"] == "epic"] == ["Pumps", "Valves"]
    for options, reason in (
        (mapped, "The column 'Owner' is unknown."),
        (["--map", "titel=Name"], "--map names 'titel', which is no field. Did you mean title?"),
        (["--map", "title=Nam"], "--map names 'Nam', which is no column. Did you mean Name?"),
        (["--ignore-columns"], "The column 'Art' is unknown."),
    ):
        import_text(tmp_path, contents, *options, code=1)
        assert reason in capsys.readouterr().err


def test_a_conflict_of_an_issue_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = import_text(tmp_path, DATA_CENTER)
    change: dict[str, Any] = {"kind": "user_story", "reference_id": "US-001", "title": "Ours"}
    assert main([*write(tmp_path / "c.jsonl", change), "--update"]) == 0
    assert main(["requirements", "import", str(file), "--update"]) == 0
    assert "Ours" in str(export(capsys))
    file.write_text(DATA_CENTER.replace("The queue", "Theirs"))
    assert main(["requirements", "import", str(file), "--update"]) == 1
    assert "title: Changed in the file and, to 'Ours', in the database" in capsys.readouterr().err


def test_a_table_of_ours_with_a_url_is_not_taken_for_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_text(tmp_path, "kind,title,URL\nepic,A,x\n", "--ignore-columns")
    assert [one["title"] for one in export(capsys) if one["kind"] == "epic"] == ["A"]


@pytest.mark.soak
def test_a_document_of_doorstop_is_imported_by_the_commands_of_the_documentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doorstop = create_environment(tmp_path / "venv", "doorstop") / "doorstop"
    run_or_skip("git", "init", "--quiet", str(tmp_path), cwd=tmp_path)
    run_or_skip(doorstop, "create", "REQ", "reqs", cwd=tmp_path)
    for text in ("The pump shall stop.", "The valve shall close."):
        run_or_skip(doorstop, "add", "REQ", cwd=tmp_path)
        newest = max((tmp_path / "reqs").glob("REQ*.yml"))
        newest.write_text(
            newest.read_text().replace("text: |", f"text: |\n  {text}").replace("text: ''", f"text: {text}")
        )
    run_or_skip(doorstop, "export", "REQ", "requirements.csv", "--csv", cwd=tmp_path)
    import_text(tmp_path, (tmp_path / "requirements.csv").read_bytes())
    titles = [one["title"] for one in export(capsys) if one["kind"] == "requirement"]
    assert titles == ["The pump shall stop.", "The valve shall close."]
