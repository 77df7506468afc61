"""The systemd unit. systemd-analyze, where it is installed, is the judge of its form and of its hardening."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quilt_mcp.commands.cli import list_commands
from quilt_mcp.console.parser import create_app
from tests.support.server_process import ROOT
from tests.support.settings import Settings
from tests.support.settings_tables import name_variable

UNIT = ROOT / "deploy" / "quilt-mcp.service"
ANALYZE = shutil.which("systemd-analyze")
ACCEPTED_EXPOSURE = 2.0  # of 10; systemd calls up to 4 "OK" and less than 2 is rare for a server on the network


def service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd have capitals
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def test_the_unit_starts_the_server_with_room_for_its_connections_and_its_reads() -> None:
    program, *arguments = shlex.split(service()["ExecStart"])
    assert Path(program).name == "quilt-mcp"
    create_app(list_commands()).parse_args(arguments)
    assert int(service()["LimitNOFILE"]) > Settings.model_fields["max_connections"].default
    assert float(service()["TimeoutStopSec"]) > Settings.model_fields["deadline_seconds"].default
    named = {word.partition("=")[0] for word in shlex.split(service()["Environment"])}
    assert named - {"HOME"} <= {name_variable(name) for name in Settings.model_fields}


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shlex.split(service()["ExecStart"])[0]
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace(program, sys.executable), encoding="utf-8")
    done = subprocess.run([str(ANALYZE), "verify", copy], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_the_unit_is_hardened() -> None:
    done = subprocess.run(
        [str(ANALYZE), "security", "--offline=true", UNIT], capture_output=True, text=True, check=False
    )
    [exposure] = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(exposure) < ACCEPTED_EXPOSURE
