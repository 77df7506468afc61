"""The processes of a sandbox: when they start, are replaced and end."""

import asyncio
import math
import os
import resource
import signal
import subprocess
import sys
from ast import literal_eval
from contextlib import suppress
from pathlib import Path

import pytest

from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.sandboxes import HONEST, UNGATED, ask, running, script, zygote_of
from tests.support.processes import descendants, is_running
from tests.support.settings import Settings
from tests.support.waiting import until

LOOP = "while True: pass"
SERVER = """
import asyncio
from quilt_mcp.analysis.sandbox import Sandbox
from tests.support.settings import Settings
async def serve():
    sandbox = Sandbox(Settings())
    task = asyncio.create_task(sandbox.analyse({"tool": "symbolic_check", "code": "while True: pass"}, seconds=100))
    while sandbox.zygote_pid is None:
        await asyncio.sleep(0.01)
    print(sandbox.zygote_pid, flush=True)
    await task
asyncio.run(serve())
"""
IDLE_SERVER = """
import asyncio, os, sys
from fastmcp import Client
from quilt_mcp.main import mcp
from tests.support.processes import descendants
async def serve():
    async with Client(mcp) as client:
        await client.list_tools()
        await client.list_resources()
        print(sorted(descendants(os.getpid())), sorted({"crosshair", "z3"} & set(sys.modules)))
asyncio.run(serve())
"""


@pytest.mark.soak
async def test_killed_zygote_is_replaced() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        first = zygote_of(sandbox)
        os.kill(first, signal.SIGKILL)
        answer = await ask(sandbox, HONEST["code"], seconds=60)
        assert answer["status"] == "counterexample"
        assert zygote_of(sandbox) != first


@pytest.mark.soak
async def test_analysis_gets_an_answer_when_its_zygote_is_killed() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        zygote = zygote_of(sandbox)
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(zygote))
        children = descendants(zygote)
        os.kill(zygote, signal.SIGKILL)
        assert (await task)["error_type"] == "WorkerDied"
        await until(lambda: not any(map(is_running, children)))


async def test_cancelled_call_leaves_no_child(sandbox: Sandbox) -> None:
    await ask(sandbox, "x = 1")
    await until(lambda: not descendants(zygote_of(sandbox)))
    task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
    await until(lambda: descendants(zygote_of(sandbox)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not descendants(zygote_of(sandbox)))  # the zygote reaps it


@pytest.mark.soak
async def test_calls_cancelled_at_different_moments_leave_no_child() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        tasks = [asyncio.create_task(ask(sandbox, LOOP, seconds=100)) for _ in range(40)]
        for task in tasks:
            await asyncio.sleep(0.001)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not descendants(zygote_of(sandbox)))
        assert (await ask(sandbox, HONEST["code"], seconds=60))["status"] == "counterexample"


@pytest.mark.soak
async def test_call_cancelled_while_the_zygote_starts_leaves_no_process() -> None:
    before = descendants(os.getpid())
    async with running() as sandbox:
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(os.getpid()) - before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert descendants(os.getpid()) - before == set()


async def test_close_leaves_no_process_and_the_next_call_starts_a_zygote() -> None:
    before = descendants(os.getpid())
    async with running() as sandbox:
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: sandbox.zygote_pid and descendants(sandbox.zygote_pid))
        await sandbox.close()
        assert sandbox.zygote_pid is None
        assert (await task)["error_type"] == "WorkerDied"
        await until(lambda: not descendants(os.getpid()) - before)
        assert (await ask(sandbox, HONEST["code"], seconds=60))["status"] == "counterexample"
    assert descendants(os.getpid()) - before == set()


@pytest.mark.soak
async def test_killed_server_leaves_no_process() -> None:
    command = [sys.executable, "-c", SERVER]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - starting does not block
    assert server.stdout is not None
    with server, server.stdout:
        zygote = int(await asyncio.to_thread(server.stdout.readline))
        await until(lambda: descendants(zygote))
        processes = {zygote, *descendants(zygote)}
        server.kill()
    await until(lambda: not any(map(is_running, processes)))


@pytest.mark.soak
def test_server_without_analyses_starts_no_process() -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"QUILT_MCP_LIST_PROVIDER_SECONDS": "60"}  # for the first list on a busy machine
    command = [sys.executable, "-c", IDLE_SERVER]
    server = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env=environment)
    assert server.stdout == "[] []\n"


@pytest.mark.soak
async def test_honest_call_succeeds_after_a_hundred_hostile_calls() -> None:
    hostile = [LOOP, "def g(): return g()\ng()", "x = 'a' * 10**11", "x = 9**9**9", "raise SystemError"] * 20
    settings = Settings(analysis_concurrency=16, analysis_memory_limit_mb=256)
    async with running(settings=settings) as sandbox:
        await ask(sandbox, "x = 1")
        answers = await asyncio.gather(*(ask(sandbox, code) for code in hostile))
        honest = await ask(sandbox, HONEST["code"], seconds=60)
        assert descendants(zygote_of(sandbox)) == set()
    assert {answer["status"] for answer in answers} <= {"error", "timeout"}
    assert honest["status"] == "counterexample"


@pytest.mark.soak
async def test_concurrency_limits_the_number_of_children() -> None:
    # each child returns when it started and ended, by a clock that all processes share
    sleep = "import time\nstarted = time.monotonic()\ntime.sleep(0.2)\nR = (started, time.monotonic())"
    async with running(UNGATED, Settings(analysis_concurrency=2)) as sandbox:
        answers = await asyncio.gather(*(ask(sandbox, sleep, seconds=30) for _ in range(6)))
    times = [literal_eval(answer["value"]) for answer in answers]
    at_once = [sum(started <= moment < ended for started, ended in times) for moment, _ in times]
    assert max(at_once) <= 2


@pytest.mark.soak
async def test_concurrent_analyses_run_at_the_same_time() -> None:
    async with running(settings=Settings(analysis_concurrency=2)) as sandbox:
        await ask(sandbox, "x = 1")
        calls = [asyncio.create_task(ask(sandbox, LOOP, seconds=100)) for _ in range(2)]
        await until(lambda: len(descendants(zygote_of(sandbox))) == 2)
        busy = await ask(sandbox, LOOP, seconds=1)  # both places stay taken
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    assert busy["error_type"] == "Busy"


async def test_zygote_that_does_not_start_is_not_started_again_at_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = (sys.executable, "-c", f"open({str(starts)!r}, 'a').write('x')")
    async with running(command) as sandbox:
        first, second = await ask(sandbox, "x = 1"), await ask(sandbox, "x = 1")
    assert first["error_type"] == second["error_type"] == "SandboxUnavailable"
    assert starts.read_text() == "x"


async def test_zygote_whose_program_does_not_exist_is_an_answer(tmp_path: Path) -> None:
    async with running([str(tmp_path / "missing")]) as sandbox:
        answer = await ask(sandbox, "x = 1")
    assert answer["error_type"] == "SandboxUnavailable"


@pytest.mark.soak
@pytest.mark.parametrize("is_started", [False, True])
async def test_too_many_open_files_are_an_answer_and_the_next_analysis_runs(
    is_started: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    async with running() as sandbox:
        if is_started:
            await ask(sandbox, HONEST["code"], seconds=60)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        held: list[int] = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(list_descriptors()) + 1, hard))
            with suppress(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            answer = await ask(sandbox, HONEST["code"], seconds=60)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in held:
                os.close(descriptor)
        assert answer["error_type"] == "SandboxUnavailable"
    async with running() as sandbox:
        assert (await ask(sandbox, HONEST["code"], seconds=60))["status"] == "counterexample"


def list_descriptors() -> list[int]:
    """Return the descriptors of this process, with the one that reads the list."""
    return [int(path.name) for path in Path("/proc/self/fd").iterdir()]


@pytest.mark.soak
@pytest.mark.parametrize("allowed", [False, True])
async def test_missing_layer_stops_analyses_unless_the_operator_allows_it(
    allowed: bool,  # noqa: FBT001 - pytest passes parameters by name
) -> None:
    settings = Settings(analysis_allow_weaker_sandbox=allowed)
    async with running(script("without_landlock.py"), settings) as sandbox:
        answer = await ask(sandbox, HONEST["code"], seconds=60)
    if allowed:
        assert answer["status"] == "counterexample"
    else:
        assert answer["error_type"] == "SandboxUnavailable"
        assert "does not support landlock." in answer["message"]


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 1e9, 120.5, 0.5])
async def test_timeout_out_of_range_is_refused(seconds: float) -> None:
    async with running() as sandbox:
        answer = await ask(sandbox, "x = 1", seconds=seconds)
        assert answer["error_type"] == "InvalidTimeout"
        assert "1 to 120" in answer["message"]
        assert sandbox.zygote_pid is None


@pytest.mark.parametrize("code", [None, 3, b"x", ["x = 1"]])
async def test_code_that_is_not_a_string_is_refused(code: object) -> None:
    async with running() as sandbox:
        answer = await ask(sandbox, code)
    assert answer["error_type"] == "InvalidCode"


async def test_another_caller_gets_an_answer_beside_six_long_analyses() -> None:
    async with running(settings=Settings(analysis_concurrency=2)) as sandbox:
        await ask(sandbox, "x = 1")
        hog = [
            asyncio.create_task(sandbox.analyse({**HONEST, "code": LOOP}, seconds=100, caller="hog")) for _ in "123456"
        ]
        await until(lambda: descendants(zygote_of(sandbox)))
        answer = await sandbox.analyse(HONEST, seconds=60, caller="other")  # none of the others ends before
        assert answer["status"] == "counterexample"
        assert len(descendants(zygote_of(sandbox))) == 1  # the share of one caller
        for task in hog:
            task.cancel()
        await asyncio.wait(hog)


@pytest.mark.soak
async def test_the_timeout_includes_the_time_in_the_queue() -> None:
    async with running(settings=Settings(analysis_concurrency=1)) as sandbox:
        await ask(sandbox, "x = 1")
        first = asyncio.create_task(ask(sandbox, LOOP, seconds=1))  # it has no end
        await until(lambda: descendants(zygote_of(sandbox)))
        second = await sandbox.analyse({**HONEST, "code": LOOP}, seconds=10)
        await first
    waited = second["waited_seconds"]
    assert isinstance(waited, float)
    assert waited > 0
    assert second["status"] == "timeout"
    assert f"after {10 - waited:g}"[:8] in str(second["message"])


async def test_calls_over_the_limit_of_a_caller_are_refused_with_the_time_to_repeat_them() -> None:
    async with running(settings=Settings(analysis_concurrency=1, analysis_waiting_per_caller=0)) as sandbox:
        await ask(sandbox, "x = 1")
        first = asyncio.create_task(sandbox.analyse({**HONEST, "code": LOOP}, seconds=100, caller="one"))
        await until(lambda: descendants(zygote_of(sandbox)))
        refused = await sandbox.analyse(HONEST, seconds=100, caller="one")
        first.cancel()
        await asyncio.wait([first])
    assert (refused["error_type"], refused["waited_seconds"]) == ("Busy", 0.0)
    retry = refused["retry_after_seconds"]
    assert isinstance(retry, int)
    assert 1 <= retry <= 100
    assert f"Repeat the call in {retry} seconds" in str(refused["message"])
