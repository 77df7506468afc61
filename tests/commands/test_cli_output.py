"""What the command does if stdout has another encoding, is closed or full, and if Ctrl-C comes early."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable

SMILE = "\N{GRINNING FACE}"
WINDOWS = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
"""Lets Python encode stdout as it does on Windows if it is a file or a pipe."""
WITHOUT = ("/bin/sh", "-c", 'closed=$0; eval "exec \\"\\$@\\" $closed"')
"""Closes a stream of a command: `>&-` or `2>&-`, which follows."""


@pytest.fixture
def environment(data_dir: Path, tmp_path: Path) -> dict[str, str]:
    """Leads to requirements with an epic that has a title in no Windows encoding."""
    file = tmp_path / "epics.jsonl"
    file.write_text(json.dumps({"kind": "epic", "reference_id": "EP-001", "title": f"Title {SMILE}"}))
    assert main(["requirements", "import", str(file)]) == 0
    return os.environ | {"QUILT_MCP_DATA_DIR": str(data_dir), "HOME": str(tmp_path)}


def run(*command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)


@pytest.mark.soak
def test_a_file_or_pipe_gets_utf_8(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / f"{SMILE}.jsonl"
    file.write_text(json.dumps({"kind": "epic", "reference_id": "EP-001", "title": f"Later {SMILE}"}))
    found = run(executable(), "requirements", "import", str(file), "--update", environment=environment | WINDOWS)
    assert (found.returncode, found.stderr) == (0, b"")
    assert f"'Title {SMILE}' → 'Later {SMILE}'" in found.stdout.decode("utf-8")
    for arguments in (["get", "requirements://epics"], ["get", "requirements://epics", "--json"]):
        found = run(executable(), *arguments, environment=environment | WINDOWS)
        assert (found.returncode, found.stderr) == (0, b"")
        assert f"Later {SMILE}" in found.stdout.decode("utf-8")
    found = run(executable(), "requirements", "import", f"none {SMILE}", environment=environment | WINDOWS)
    assert (found.returncode, found.stderr.decode("utf-8")) == (1, f"none {SMILE}: No such file or directory.\n")


@pytest.mark.soak
def test_a_terminal_gets_escapes_for_what_it_cannot_show(environment: dict[str, str]) -> None:
    ours, of_command = pty.openpty()
    command = [executable(), "get", "requirements://epics", "--json"]
    with subprocess.Popen(command, env=environment | WINDOWS, stdout=of_command, stderr=subprocess.PIPE) as process:
        os.close(of_command)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # Linux reports the other end as closed so
            pass
        _, problems = process.communicate()
    os.close(ours)
    assert (process.returncode, problems) == (0, b"")
    assert rb"Title \U0001f600" in shown


@pytest.mark.soak
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["list --json", "--help", "requirements export", "install cursor --write"])
def test_a_full_stdout_gives_one_line(arguments: str, unbuffered: str, environment: dict[str, str]) -> None:
    variables = environment | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        command = [executable(), *arguments.split()]
        found = subprocess.run(command, env=variables, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr) == (1, b"stdout: No space left on device.\n")


@pytest.mark.soak
def test_a_client_over_stdio_whose_disk_is_full_gives_one_line(environment: dict[str, str]) -> None:
    variables = environment | {"QUILT_MCP_LOG_LEVEL": "ERROR"}
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    with Path("/dev/full").open("wb") as full:
        command = [executable(), "serve"]
        found = subprocess.run(command, env=variables, input=ping, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr.count(b"\n")) == (1, 1)
    assert found.stderr.endswith(b"stdout: No space left on device\n")


@pytest.mark.soak
@pytest.mark.parametrize("words", [">&- list", ">&- get requirements://epics --json", ">&- serve", "<&- serve"])
def test_without_stdout_or_stdin_a_command_works(words: str, environment: dict[str, str]) -> None:
    closed, *arguments = words.split()
    found = run(*WITHOUT, closed, executable(), *arguments, environment=environment | {"QUILT_MCP_LOG_LEVEL": "ERROR"})
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")


@pytest.mark.soak
def test_without_a_directory_for_temporary_files_the_demo_gives_one_line() -> None:
    full = ("/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh")
    given = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it writes a file
    found = run(*full, executable(), "get", "auth://status", "--demo", environment=given)
    assert (found.returncode, found.stdout, found.stderr.count(b"\n")) == (1, b"", 1)
    assert found.stderr.startswith(b"quilt-mcp: No usable temporary directory found")


@pytest.mark.soak
def test_without_stderr_problems_are_not_printed_to_stdout(environment: dict[str, str]) -> None:
    found = run(*WITHOUT, "2>&-", executable(), "get", "requirements://none", environment=environment)
    assert (found.returncode, found.stdout) == (1, b"")


EARLY = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "quilt_mcp.commands.cli":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["quilt-mcp", "list"]
from quilt_mcp.commands.entry import main
sys.exit(main())
"""


def test_ctrl_c_during_the_imports_gives_no_traceback(environment: dict[str, str]) -> None:
    found = run(sys.executable, "-c", EARLY, environment=environment)
    assert (found.returncode, found.stdout, found.stderr) == (130, b"", b"")
