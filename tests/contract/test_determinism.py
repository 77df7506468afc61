"""The same world gives the same answers, byte for byte, whatever the hash seed, the time zone and the order."""

import json
import os
import subprocess
import sys

from tests.contract.cases import HOME, RESOURCES
from tests.golden import GOLDEN


def observe(hash_seed: str, time_zone: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "TZ": time_zone}
    command = [sys.executable, "-m", "tests.contract.observe", HOME]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def test_answers_do_not_depend_on_the_process() -> None:
    runs = [observe("1", "Asia/Kathmandu"), observe("2", "America/St_Johns")]
    first, second = (run.communicate(timeout=120)[0] for run in runs)
    assert first == second
    assert json.loads(first).keys() == {row.example_uri for row in RESOURCES}


def test_the_goldens_are_these_answers_too() -> None:
    """In the reverse of the order in which the goldens were written."""
    observed = json.loads(observe("3", "UTC").communicate(timeout=120)[0])
    for row in RESOURCES:
        golden = json.loads((GOLDEN / f"{row.data_golden(HOME)}.json").read_text(encoding="utf-8"))
        assert observed[row.example_uri] == golden
