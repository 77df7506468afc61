"""`quilt-mcp get` and `quilt-mcp list`."""

import json
from io import StringIO

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.console.output import console_on, trace_tree
from quilt_mcp.core.registry import path_variables
from quilt_mcp.tools.resource_access import RESOURCE_REGISTRY, get_resource


def read_output(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    return capsys.readouterr().out


def test_json_is_the_body_of_the_tool_in_the_world_of_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(read_output(capsys, "get", "auth://status", "--demo", "member", "--json"))
    assert found.keys() == {"success", "uri", "resource_name", "data", "timestamp", "mime_type"}
    assert found["data"]["user_info"]["username"] == "jonas_lindqvist"


def test_an_error_goes_to_stderr_with_actions_that_a_person_in_a_shell_can_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["get", "admin://users", "--demo", "member"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    refusal = json.loads(read_output(capsys, "get", "admin://users", "--demo", "member", "--json", status=1))
    *actions, for_clients = refusal["suggested_actions"]
    assert "get_resource()" in for_clients
    lines = [f"Unauthorized: {refusal['message']}", f"  {refusal['details']}", *(f"  - {one}" for one in actions)]
    assert captured.err.splitlines() == [
        *lines,
        "  - Run `quilt-mcp list`: resources without admin are available to you.",
    ]
    assert main(["get", "auth://statsu"]) == 1
    actions = [line.removeprefix("  - ") for line in capsys.readouterr().err.splitlines()]
    assert {"Did you mean auth://status?", "Run `quilt-mcp list` to list all available resources."} <= {*actions}


@pytest.mark.soak
def test_rows_are_shown_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = read_output(capsys, "get", "admin://users", "--demo").splitlines()
    [row] = [line for line in lines if line.strip().startswith("svc_retired_etl ")]
    assert "2024-06-30T23:59:59Z" in row
    assert all(line == line.rstrip() for line in lines)


def test_a_hierarchy_is_shown_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    uri = "requirements://epics/EP-001/hierarchy"
    lines = read_output(capsys, "get", uri, "--demo").splitlines()
    data = json.loads(read_output(capsys, "get", uri, "--demo", "--json"))["data"]
    for story in data["user_stories"]:
        [head] = [place for place, line in enumerate(lines) if line.startswith(f"  {story['reference_id']}  ")]
        assert story["title"] in lines[head]
        for row in [*story["acceptance_criteria"], *story["requirements"]]:
            [line] = [line for line in lines[head:] if f"── {row['reference_id']}  " in line]
            assert (row.get("title") or row["description"])[:60] in line
    assert max(map(len, lines)) <= 160


def test_a_trace_is_shown_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    lines = read_output(capsys, "get", "requirements://requirements/REQ-001/trace", "--demo").splitlines()
    assert lines[0] == "REQ-001 Copy all files of the run to acme-raw-sequencing within one hour"
    assert lines[1] == "├── parent US-001 Copy a finished run to the catalog"
    assert lines[2].startswith("│   └── parent EP-001 ")
    assert any(" depends_on ← REQ-006 " in line for line in lines)
    assert any(line.endswith("  (see above)") for line in lines)
    assert any(line.endswith("  … requirements://user-stories/US-003/trace") for line in lines)
    data = json.loads(read_output(capsys, "get", "requirements://epics/EP-001/trace?limit=9", "--demo", "--json"))[
        "data"
    ]
    page = f"requirements://epics/EP-001/trace?limit=9&cursor={data['next_cursor']}"
    following = read_output(capsys, "get", page, "--demo").splitlines()
    assert following[1].partition(" ")[2][:3] == "US-"  # the entity of an earlier page to which the first link belongs


def test_cycles_of_a_trace_are_shown_with_their_types() -> None:
    start = {"reference_id": "REQ-001", "title": "A"}
    cycle = {
        "path": ["REQ-001", "REQ-002", "REQ-001"],
        "relationship_types": ["blocks", "depends_on"],
        "is_complete": True,
        "closed_by": "x",
    }
    cut = cycle | {"length": 9, "is_complete": False}
    console = console_on(StringIO())
    with console.capture() as captured:
        console.print(trace_tree({"start": start, "links": [], "cycles": [cycle, cut], "cycle_count": 2}))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    path = "cycle: REQ-001 blocks → REQ-002 depends_on → REQ-001"
    assert lines == ["REQ-001 A", "", path, f"{path} … (9 relationships)", "cycle_count  2"]


async def test_the_list_shows_every_resource_and_as_json_it_is_discovery(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # a file or pipe has none
    monkeypatch.setenv("LINES", "24")  # without it, Rich takes a dumb terminal for one of 80 columns
    listed, data = read_output(capsys, "list"), (await get_resource()).body()["data"]
    rows = {line.split()[0]: line.split()[1:] for line in listed.splitlines() if "://" in line}
    assert rows.keys() == RESOURCE_REGISTRY.keys()
    assert "\x1b" not in listed
    for uri, definition in RESOURCE_REGISTRY.items():
        needs = [*path_variables(uri), *(["admin"] if definition["requires_admin"] else [])]
        assert rows[uri] == [*definition["name"].split(), *(", ".join(needs) or "-").split()]
    assert read_output(capsys, "get") == listed
    found = json.loads(read_output(capsys, "list", "--json"))
    assert (found["uri"], found["data"]) == ("", data)
    monkeypatch.setenv("FORCE_COLOR", "1")  # like a terminal
    monkeypatch.setenv("TERM", "dumb")
    narrow = "".join(read_output(capsys, "list").split())
    assert all(f"URI{uri}name{''.join(row['name'].split())}needs" in narrow for uri, row in RESOURCE_REGISTRY.items())
