"""`quilt-mcp get` and `search` in a terminal: few columns, pages to follow, a pager, and the completion of URIs."""

import asyncio
import io
import json
import re
import shlex
from io import StringIO
from typing import Any

import pytest

from quilt_mcp.commands import pages
from quilt_mcp.commands.cli import main
from quilt_mcp.commands.uri_completion import find_candidates
from quilt_mcp.console.columns import choose_columns, name_columns
from quilt_mcp.console.output import console_on, document

ROWS: list[dict[str, Any]] = [
    {
        "id": f"7602ff80-41ea-5c35-a28f-380deff9dc6{at}",
        "reference_id": f"REQ-00{at}",
        "title": f"Copy all files of the run to the bucket within one hour, part {at}",
        "description": "x" * 300,
        "status": ("Active", "Draft")[at % 2],
        "priority": at,
        "kind_is_the_same": "one",
        "can_read": True,
        "created_at": f"2026-10-0{at}T00:00:00Z",
        "owner": {"name": "ada", "more": "y" * 200},
        "uri": f"requirements://requirements/REQ-00{at}",
    }
    for at in range(1, 6)
]


def drawn(width: int) -> list[str]:
    console = console_on(StringIO())
    console.width = width
    with console.capture() as captured:
        console.print(document({"count": 5, "rows": ROWS}))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_columns_are_chosen_by_what_they_tell() -> None:
    assert name_columns(ROWS) == ["reference_id", "title"]
    assert choose_columns(ROWS) == [
        *("reference_id", "title", "can_read", "status", "priority", "created_at"),
        "uri",
    ]
    assert name_columns([{"a": 1}, {"b": 2}]) == ["a"]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_wide_list_has_one_line_for_each_row(width: int) -> None:
    lines = drawn(width)
    assert max(map(len, lines)) <= width
    assert len(lines) == 2 + 1 + 2 + len(ROWS) + 1
    assert all(f"REQ-00{at}"[: 3 if width == 20 else 7] in lines[4 + at] for at in range(1, 6))
    assert "Not shown" in lines[-1]
    if width >= 80:
        assert all(word in lines[3] for word in ("reference_id", "title", "can_read", "status"))
        assert ("…" in lines[5]) == (width == 80)


def test_values_of_a_brief_table_cannot_control_the_terminal() -> None:
    rows = [{"name": f"\x1b[2J{at}\n\u202e", "text": "x" * 300} for at in range(4)]
    console = console_on(StringIO())
    console.width = 40
    with console.capture() as captured:
        console.print(document({"rows": rows}))
    assert "\x1b" not in captured.get()
    assert "␛[2J3" in captured.get()


def read_output(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    return capsys.readouterr().out


LIST = "requirements://requirements?status=Active"


def test_the_last_line_is_the_command_for_the_next_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # like a terminal
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "24")
    *_, last = read_output(capsys, "get", f"{LIST}&limit=3", "--demo").splitlines()
    shown, _, command = last.partition("; next: ")
    program, *words = shlex.split(command)
    assert (program, words[0], words[2:]) == ("quilt-mcp", "get", ["--demo", "admin"])
    following = json.loads(read_output(capsys, *words, "--json"))["data"]
    whole = json.loads(read_output(capsys, "get", f"{LIST}&limit=6", "--demo", "--json"))["data"]
    # each command has a demo of its own, with times that follow the clock
    assert [row["id"] for row in following["requirements"]] == [row["id"] for row in whole["requirements"][3:]]
    assert shown == f"3 of {whole['count']}"


def test_all_pages_are_one_answer(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["get", "requirements://epics?limit=4", "--demo", "--all"]
    found = json.loads(read_output(capsys, *words, "--json"))["data"]
    references = [row["reference_id"] for row in found["epics"]]
    assert (len(references), len({*references}), found["next_cursor"]) == (found["count"], found["count"], None)
    lines = read_output(capsys, *words, "--fields", "reference_id,status").splitlines()
    assert [line.split()[0] for line in lines[-len(references) :]] == references
    assert "next:" not in lines[-1]


def test_pages_that_are_not_one_answer_are_refused_and_a_failed_page_is_the_answer() -> None:
    first = {
        "success": True,
        "uri": "a://b?limit=1",
        "data": {"rows": [{"a": 1}], "notes": {"x": 1}, "next_cursor": "c/="},
    }

    async def read(uri: str) -> dict[str, Any]:
        assert uri == "a://b?limit=1&cursor=c%2F%3D"
        return second

    second: dict[str, Any] = {"success": True, "uri": "", "data": {"rows": [{"a": 2}], "notes": {"y": 2}}}
    joined = asyncio.run(pages.read_all(first, read))
    assert joined["data"] == {"rows": [{"a": 1}, {"a": 2}], "notes": {"x": 1, "y": 2}, "next_cursor": None}
    second = {"success": True, "uri": "", "data": {"notes": {"x": 2}}}
    with pytest.raises(pages.Unjoinable, match="notes differs"):
        asyncio.run(pages.read_all(first, read))
    second = {"success": False, "error": "NotFound"}
    assert asyncio.run(pages.read_all(first, read)) == second
    assert pages.find_next_uri(second) is None


@pytest.mark.parametrize("words", [["--fields", "nothing"], ["--fields", ","], ["--fields", "name", "--json"]])
def test_fields_that_the_list_lacks_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "quilt://buckets", "--demo", *words]) == 2
    assert "--fields" in capsys.readouterr().err


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("kind", "height", "times"), [("xterm", "5", 1), ("xterm", "500", 0), ("dumb", "5", 0)])
def test_a_person_gets_a_pager_for_more_lines_than_the_terminal_has(
    kind: str,
    height: str,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paged: list[str] = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    for name, value in (("TERM", kind), ("LINES", height), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    assert main(["get", "auth://status", "--demo"]) == 0
    assert len(paged) == times


def test_a_search_without_a_resource_that_takes_a_query_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILT_MCP_DOMAINS", "workflows")
    assert main(["search", "x"]) == 2
    assert capsys.readouterr() == (
        "",
        "quilt-mcp: No resource of the installed domains takes a query. `quilt-mcp list` shows what can be read.\n",
    )


def test_a_search_asks_each_resource_that_takes_a_query(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(read_output(capsys, "search", "first", "quarter", "--demo", "--json"))["searches"]
    assert [body["uri"] for body in found] == [
        "quilt://search/first%20quarter",
        "requirements://search/first%20quarter",
    ]
    shown = read_output(capsys, "search", "2025-q1", "--demo")
    assert "reports/2025-q1 acme-analysis-results" in shown
    assert "\n  quilt://buckets/acme-analysis-results/packages/reports/2025-q1" in shown
    assert "nothing found" in shown  # requirements
    shown = read_output(capsys, "search", "liver", "--demo")
    assert re.search(r"\n  in [^\n]+ and 11 more\n", shown)
    assert main(["search", "run", "--demo", "signed_out"]) == 0  # requirements need no sign-in
    captured = capsys.readouterr()
    assert "Unauthorized" in captured.err
    assert "requirements://search/run" in captured.out


CANDIDATES = {
    "perm": ["permissions://buckets/", "permissions://discover", "permissions://recommendations"],
    "requirements://ep": ["requirements://epics", "requirements://epics/"],
    "auth://status": ["auth://status"],
    "auth://x": [],
}


@pytest.mark.parametrize(("text", "expected"), CANDIDATES.items())
def test_the_beginnings_of_uris_are_completed(text: str, expected: list[str]) -> None:
    assert find_candidates(text) == (expected, [])


def test_values_are_completed_by_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    shown = read_output(capsys, "__complete", "get", "--demo", "admin", "quilt://buckets/acme-a")
    assert "quilt://buckets/acme-analysis-results\t" in shown.replace("\n", "\t\n")
    typed = "quilt://buckets/acme-analysis-results/packages/reports/"
    assert f"{typed}2025-q1" in read_output(capsys, "__complete", "get", "--demo", "admin", typed)
    assert "requirements://epics/EP-001/trace" in read_output(
        capsys, "__complete", "get", "--demo", "requirements://epics/EP-00"
    )
