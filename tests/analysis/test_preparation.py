"""What the process of an analysis has before it enters the jail. There it opens no file and starts no thread."""

import asyncio
import encodings
import os
import pkgutil
from pathlib import Path

import pytest

from tests.analysis.sandboxes import UNGATED, ask, running, zygote_of
from tests.support.processes import descendants
from tests.support.waiting import until

LOOP = "while True: pass"


async def test_every_encoding_works_in_the_jail() -> None:
    names = [one.name for one in pkgutil.iter_modules(encodings.__path__)]
    code = f"import codecs\nR = []\nfor name in {names}:\n    try: codecs.lookup(name)\n"
    code += "    except LookupError: R.append(name)"
    async with running(UNGATED) as sandbox:
        answer = await ask(sandbox, code, seconds=60)
    # not codecs, or those of another system
    assert set(eval(answer["value"])) <= {"aliases", "mbcs", "oem", "cp65001", "_win_cp_codecs"}  # noqa: S307 - a list that the test made


async def test_solver_with_nested_time_limits_works_in_the_jail() -> None:
    code = """
import z3
x = z3.Int("x")
solver = z3.TryFor(z3.TryFor("smt", 2000), 3000).solver()
solver.set(timeout=1000)
solver.add(x * x == 49)
R = str(solver.check())
"""
    async with running(UNGATED) as sandbox:
        assert (await ask(sandbox, code, seconds=60))["value"] == "'sat'"


async def test_child_has_few_threads() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(zygote_of(sandbox)))
        (child,) = descendants(zygote_of(sandbox))
        await until(lambda: _read_status(child, "Seccomp") == "2")
        threads = int(_read_status(child, "Threads"))
        task.cancel()
        await asyncio.wait([task])
    assert threads <= 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server that runs as root changes the user of its children")
async def test_child_of_a_server_that_runs_as_root_is_another_user() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(zygote_of(sandbox)))
        (child,) = descendants(zygote_of(sandbox))
        await until(lambda: _read_status(child, "Seccomp") == "2")
        users, groups = _read_status(child, "Uid").split(), _read_status(child, "Gid").split()
        capabilities = {name: _read_status(child, name) for name in ("CapEff", "CapPrm", "CapInh", "Groups")}
        task.cancel()
        await asyncio.wait([task])
    assert users == groups == ["65534"] * 4
    assert not any(value.strip("0") for value in capabilities.values())


def _read_status(pid: int, name: str) -> str:
    """Return a field of the process's status; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
