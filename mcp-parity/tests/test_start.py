"""`mcp-parity diff --start` compares two revisions without goldens: it starts both."""

import sys
from pathlib import Path

import pytest

from tests.repository import CHANGELOG, Repository

SERVER = (Path(__file__).parent / "raw_call_server.py").read_text(encoding="utf-8")
START = f"{sys.executable} server.py"
ANNOUNCED = "## [Unreleased]\n\n### Breaking\n\n- `raw://rows`, `search`: other types.\n"


def write(fault: str) -> str:
    """Return the code of a server with a fault."""
    root = str(Path(__file__).parents[1])
    code = SERVER.replace("str(Path(__file__).parents[1])", repr(root))
    return f"import os\nos.environ.setdefault('FAULT', {fault!r})\n" + code.partition('"""\n')[2]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a server, and nothing else."""
    root = tmp_path / "repository"
    root.mkdir()
    repository = Repository(root)
    repository.files = {"server.py": write("")}
    repository.commit("first", parent="")
    return repository


FAULTS = {
    "finds another type": (0, "- *value*: `contents[].data.found` changed: `3` → `3.0` (`q%3Db`)"),
    "finds more": (0, "- *value*: `contents[].data.found` changed: `3` → `4` (`q%3Db`)"),
    "refuses to search": (1, "- *breaking*: the answer changed from data to the error"),
    "has no prompt": (1, "- *breaking*: the prompt is gone"),
    "changes a row": (0, "- *value*: `contents[].data[].price` changed: `8.5` → `99.0` (`home`)"),
    "other instructions": (0, "- *description*: `instructions` changed"),
    "does not search": (1, "- *breaking*: the tool is gone"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_change_is_found_without_goldens(fault: str, repository: Repository, tmp_path: Path) -> None:
    repository.files["server.py"] = write(fault)
    repository.commit("second")
    done = repository.diff("first", "--start", START, "--html", str(tmp_path / "review.html"))
    status, line = FAULTS[fault]
    assert (done.returncode, line in done.stdout) == (status, True), done
    assert "<h1>Changes for clients</h1>" in (tmp_path / "review.html").read_text(encoding="utf-8")
    assert [*(repository.root / ".git/worktrees").glob("*")] == []


RARE = [pytest.param(f"{verb} with a clock", marks=pytest.mark.soak) for verb in ("searches", "plots")]


@pytest.mark.parametrize("fault", ["", "has a clock", *RARE])
def test_what_differs_from_read_to_read_is_not_reported(fault: str, repository: Repository) -> None:
    repository.files["server.py"] = write(fault)
    repository.commit("second")
    repository.files["src/new.py"] = "x = 1\n"
    repository.commit("third")
    done = repository.diff("second", "third", "--start", START)
    assert (done.stdout, done.returncode) == ("No changes for clients.\n", 0), done


def test_uncommitted_changes_and_other_worktrees_are_left_alone(repository: Repository) -> None:
    repository.files["src/new.py"] = "x = 1\n"
    repository.commit("second")
    dirty = repository.root / "server.py"
    dirty.write_text("not committed", encoding="utf-8")
    done = repository.diff("first", "second", "--start", START)
    assert (done.stdout, done.returncode) == ("No changes for clients.\n", 0), done
    assert dirty.read_text(encoding="utf-8") == "not committed"


def test_without_a_merge_base_nothing_is_started(repository: Repository) -> None:
    repository.files["src/new.py"] = "x = 1\n"
    repository.commit("unrelated", parent="")
    done = repository.diff("first", "unrelated", "--start", "no-such-command")
    assert (done.returncode, "there is no merge base" in done.stderr) == (2, True), done
    done = repository.diff("first", "unrelated", "--start", START, "--exact")
    assert (done.stdout, done.returncode) == ("No changes for clients.\n", 0), done


def test_the_changelog_announces_what_breaks(repository: Repository) -> None:
    repository.files = {"server.py": write("refuses to search"), CHANGELOG: ANNOUNCED}
    repository.commit("second")
    done = repository.diff("first", "second", "--start", START)
    assert (done.returncode, "CHANGELOG.md announces all breaking changes." in done.stdout) == (0, True), done


def test_a_server_can_need_a_build(repository: Repository) -> None:
    repository.files = {"source.py": write("finds more")}
    repository.commit("second")
    repository.files = {"source.py": write("")}
    repository.commit("third")
    done = repository.diff("second", "third", "--start", START, "--build", "cp source.py server.py")
    assert (done.returncode, "`4` → `3`" in done.stdout) == (0, True), done
    done = repository.diff("second", "third", "--start", START, "--build", "echo no compiler >&2; exit 7")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mcp-parity diff: --build fails at second with status 7: no compiler\n"


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("no-such-command-here", "No such file or directory: 'no-such-command-here'"),
        (
            f"{sys.executable} no.py",
            "first: no answer: MCPError: Connection closed (the process has ended with status 2)",
        ),
        ("os:mcp", "mcp_server = os:mcp: AttributeError"),
        ("http://127.0.0.1:9/mcp", "--start http://127.0.0.1:9/mcp: this is no command"),
    ],
)
def test_a_server_that_does_not_start_is_named_in_one_line(start: str, message: str, repository: Repository) -> None:
    repository.files["x"] = "1"
    repository.commit("second")
    done = repository.diff("first", "second", "--start", start)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert message in done.stderr
