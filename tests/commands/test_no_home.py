"""The command for a user without a home directory: one line that names the variable to set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quilt_mcp.commands.cli import list_commands, main
from tests.support.client_home import remove_home
from tests.support.settings import Settings

LINE = "quilt-mcp: You have no home directory. Set HOME to the absolute path of a directory that you may write.\n"
WORDS = {"get": ["workflow://x"], "install": ["cursor"], "requirements": ["status"]}
PROGRAM = """
import pwd, sys
from quilt_mcp.commands.entry import main
def find_account(number):
    raise KeyError(number)
pwd.getpwuid = find_account
sys.exit(main())
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other variables")


def test_each_command_names_the_variable_and_the_command_itself_needs_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_home(monkeypatch)
    for command in list_commands():
        assert main([command, *WORDS.get(command, [])]) == 2, command
        assert capsys.readouterr() == ("", LINE)
    for words in (["--version"], ["--help"], []):
        main(words)
        assert "home directory" not in "".join(capsys.readouterr())


def test_a_data_directory_replaces_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_home(monkeypatch)
    monkeypatch.setenv("QUILT_MCP_DATA_DIR", "")  # as programs do that start this server
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Settings().data_dir == tmp_path / "quilt-mcp"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("QUILT_MCP_DATA_DIR", "~/data")  # no shell reads the configuration of a client
    assert Settings().data_dir == tmp_path / "data"


@pytest.mark.soak
@pytest.mark.parametrize(("words", "variable"), [("serve", None), ("serve --demo", None), ("list", "XDG_DATA_HOME")])
def test_a_process_of_a_user_without_an_account(words: str, variable: str | None, tmp_path: Path) -> None:
    """The imports of FastMCP and quilt3 look for the data directory."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words.split()],
        env={"PATH": os.environ["PATH"]} | ({variable: str(tmp_path)} if variable else {}),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if variable:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert (done.returncode, done.stdout, done.stderr) == (2, "", LINE)
