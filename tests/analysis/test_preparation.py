"""What the process of an analysis has before it enters the jail. There it opens no file and starts no thread."""

import asyncio
import encodings
import os
import pkgutil
from pathlib import Path

import pytest
import pytest_asyncio

from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.sandboxes import ask, zygote_of
from tests.support.processes import descendants
from tests.support.waiting import until

LOOP = "while True: pass"


async def test_every_encoding_works_in_the_jail(ungated: Sandbox) -> None:
    names = [one.name for one in pkgutil.iter_modules(encodings.__path__)]
    code = f"import codecs\nR = []\nfor name in {names}:\n    try: codecs.lookup(name)\n"
    code += "    except LookupError: R.append(name)"
    answer = await ask(ungated, code, seconds=60)
    # not codecs, or those of another system
    assert set(eval(answer["value"])) <= {"aliases", "mbcs", "oem", "cp65001", "_win_cp_codecs"}  # noqa: S307 - a list that the test made


async def test_solver_with_nested_time_limits_works_in_the_jail(ungated: Sandbox) -> None:
    code = """
import z3
x = z3.Int("x")
solver = z3.TryFor(z3.TryFor("smt", 2000), 3000).solver()
solver.set(timeout=1000)
solver.add(x * x == 49)
R = str(solver.check())
"""
    assert (await ask(ungated, code, seconds=60))["value"] == "'sat'"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def status(sandbox: Sandbox) -> dict[str, str]:
    """The status of a process that runs an analysis."""
    await ask(sandbox, "x = 1")
    await until(lambda: not descendants(zygote_of(sandbox)))
    task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
    await until(lambda: descendants(zygote_of(sandbox)))
    (child,) = descendants(zygote_of(sandbox))
    await until(lambda: _read_status(child).get("Seccomp") == "2")
    found = _read_status(child)
    task.cancel()
    await asyncio.wait([task])
    return found


async def test_child_has_few_threads(status: dict[str, str]) -> None:
    assert int(status["Threads"]) <= 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server that runs as root changes the user of its children")
async def test_child_of_a_server_that_runs_as_root_is_another_user(status: dict[str, str]) -> None:
    assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
    capabilities = {name: status[name] for name in ("CapEff", "CapPrm", "CapInh", "Groups")}
    assert not any(value.strip("0") for value in capabilities.values())


def _read_status(pid: int) -> dict[str, str]:
    """Return the fields of the process's status; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
