"""The README's commands run; apart from its other tests, which hold a world open while these enter their own."""

import shlex
from pathlib import Path

import pytest

from quilt_mcp.cli import main
from tests.unit.test_readme import blocks


def commands() -> list[list[str]]:
    """The README's quilt-mcp commands."""
    lines = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    calls = [shlex.split(line) for line in lines if line.startswith("quilt-mcp")]
    return [call[1:] for call in calls if call[1] != "serve"]  # that one does not end


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_quilt_mcp_commands_run(
    command: list[str],
    data_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["requirements", "export", "records.jsonl"]) == 0  # the file that is imported
    assert main(command) == 0
    assert capsys.readouterr().out
