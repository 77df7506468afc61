"""The same world gives the same answers, byte for byte, with every hash seed, time zone and order."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.contract.cases import HOME, RESOURCES
from tests.support.golden import GOLDEN


@pytest.fixture(scope="module")
def runs() -> list[str]:
    """Return the output of two processes. They read the resources in the reverse of the order of the goldens."""
    started = [observe("1", "Asia/Kathmandu"), observe("2", "America/St_Johns")]
    return [run.communicate(timeout=120)[0] for run in started]


def observe(hash_seed: str, time_zone: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "TZ": time_zone}
    command = [sys.executable, "-m", "tests.contract.observe", HOME]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8")


@pytest.mark.soak
def test_answers_do_not_depend_on_the_process(runs: list[str]) -> None:
    first, second = runs
    assert first == second
    assert json.loads(first).keys() == {row.example_uri for row in RESOURCES}


@pytest.mark.soak
def test_the_answers_are_the_goldens(runs: list[str]) -> None:
    observed: dict[str, Any] = json.loads(runs[0])
    for row in RESOURCES:
        golden = json.loads((GOLDEN / f"{row.data_golden(HOME)}.json").read_text(encoding="utf-8"))
        assert observed[row.example_uri] == golden
