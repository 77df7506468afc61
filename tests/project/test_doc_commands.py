"""The commands of the documents run. In a module of their own, because each enters a world."""

import html
import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest

from quilt_mcp.commands.cli import main
from tests.support.demo_picture import output_of, terminal_lines
from tests.support.docs import COMMAND, LIVE_SECTIONS, PICTURE, documents, find_outdated
from tests.support.pages import shell_lines
from tests.support.worlds import enter_stopped

PARSED_ONLY = {"serve", "doctor", "install", "login"}
"""Commands that do not end, need a Quilt login, or write outside of the data directory: test_docs.py parses them."""
ONCE = (("demo",),)
"""Commands that the picture needs too."""


def commands() -> list[list[str]]:
    lines = dict.fromkeys(line for page in documents() for line in shell_lines(page))
    calls = [shlex.split(line) for line in lines if line.startswith("quilt-mcp")]
    return [call[1:] for call in calls if call[1] not in PARSED_ONLY]


@pytest.mark.soak
@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_runs(
    command: list[str],
    data_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if tuple(command) in ONCE:
        assert output_of(*command)
        return
    monkeypatch.chdir(tmp_path)
    if command[0] == "requirements":
        for file in ("records.jsonl", "records.csv"):
            assert main(["requirements", "export", file]) == 0  # the files that are imported
    needs_login = command[0] == "get" and "--demo" not in command
    with enter_stopped("admin") if needs_login else nullcontext():
        assert main(command) == 0
    assert capsys.readouterr().out


@pytest.mark.soak
def test_the_picture_shows_what_the_commands_print() -> None:
    drawn: dict[float, str] = {}
    for y, text in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>([^<]*)</text>', PICTURE.read_text(encoding="utf-8")):
        drawn[float(y)] = drawn.get(float(y), "") + html.unescape(text)
    found = [words for _, line in sorted(drawn.items()) if (words := line.split())]
    wanted = [words for line in terminal_lines() if (words := line.split())]
    assert [line for line in found if line != ["quilt-mcp"]] == wanted, f"run `make mcp-list` or `{COMMAND}`"


def test_the_examples_from_the_demo_are_up_to_date() -> None:
    assert [path.name for path, _ in find_outdated(LIVE_SECTIONS)] == [], f"run `make mcp-list` or `{COMMAND}`"
