"""Processes: started when needed, replaced when dead, gone when the analysis, the call or the server is."""

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quilt_mcp import runtime_context
from quilt_mcp.analysis import sandbox as module
from quilt_mcp.analysis.policy import Policy
from tests.analysis.processes import descendants, is_running
from tests.analysis.sandboxes import HONEST, UNGATED, ask, running, script, zygote_of
from tests.waiting import until

LOOP = "while True: pass"
SERVER = """
import asyncio, sys
from quilt_mcp.analysis import sandbox
async def serve():
    task = asyncio.create_task(sandbox.analyse({"tool": "symbolic_check", "code": "while True: pass"}, timeout=100))
    while sandbox._sandbox is None or sandbox._sandbox._warm is None:
        await asyncio.sleep(0.01)
    print(sandbox._sandbox._warm._process.pid, flush=True)
    await task
asyncio.run(serve())
"""
IDLE_SERVER = """
import asyncio, sys
from fastmcp import Client
from quilt_mcp.analysis import sandbox, security_resource
from quilt_mcp.main import mcp
from tests.analysis.processes import descendants
async def serve():
    async with Client(mcp) as client:
        await client.list_tools()
        await client.list_resources()
        import os
        print(sorted(descendants(os.getpid())), sorted({"crosshair", "z3"} & set(sys.modules)))
asyncio.run(serve())
"""


async def test_a_zygote_that_was_killed_is_replaced() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        first = zygote_of(sandbox)
        os.kill(first, signal.SIGKILL)
        answer = await ask(sandbox, HONEST["code"], seconds=20)
        assert answer["status"] == "counterexample"
        assert zygote_of(sandbox) != first


async def test_an_analysis_whose_zygote_is_killed_ends_with_an_answer() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        zygote = zygote_of(sandbox)
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(zygote))
        children = descendants(zygote)
        os.kill(zygote, signal.SIGKILL)
        assert (await task)["error_type"] == "WorkerDied"
        await until(lambda: not any(map(is_running, children)))


async def test_a_cancelled_call_leaves_no_child() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(zygote_of(sandbox)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert descendants(zygote_of(sandbox)) == set()


async def test_calls_cancelled_at_any_moment_leave_no_child() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        tasks = [asyncio.create_task(ask(sandbox, LOOP, seconds=100)) for _ in range(40)]
        for task in tasks:
            await asyncio.sleep(0.001)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not descendants(zygote_of(sandbox)))
        assert (await ask(sandbox, HONEST["code"], seconds=20))["status"] == "counterexample"


async def test_a_call_cancelled_while_the_zygote_starts_leaves_no_process() -> None:
    before = descendants(os.getpid())
    async with running() as sandbox:
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: descendants(os.getpid()) - before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert descendants(os.getpid()) - before == set()


async def test_closing_leaves_no_process_and_the_next_call_starts_anew() -> None:
    before = descendants(os.getpid())
    async with running() as sandbox:
        task = asyncio.create_task(ask(sandbox, LOOP, seconds=100))
        await until(lambda: sandbox._warm and descendants(zygote_of(sandbox)))
        await sandbox.close()
        assert (await task)["error_type"] == "WorkerDied"
        await until(lambda: descendants(os.getpid()) == before)
        assert (await ask(sandbox, HONEST["code"], seconds=20))["status"] == "counterexample"
    assert descendants(os.getpid()) == before


async def test_a_killed_server_leaves_no_process() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    assert server.stdout is not None
    with server, server.stdout:
        zygote = int(await asyncio.to_thread(server.stdout.readline))
        await until(lambda: descendants(zygote))
        processes = {zygote, *descendants(zygote)}
        server.kill()
    await until(lambda: not any(map(is_running, processes)))


def test_a_server_that_analyses_nothing_starts_no_process() -> None:
    root = Path(__file__).parents[2]
    server = subprocess.run([sys.executable, "-c", IDLE_SERVER], capture_output=True, text=True, check=True, cwd=root)
    assert server.stdout == "[] []\n"


async def test_a_hundred_hostile_calls_then_an_honest_one() -> None:
    hostile = [LOOP, "def g(): return g()\ng()", "x = 'a' * 10**11", "x = 9**9**9", "raise SystemError"] * 20
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        calls = [
            sandbox.analyse({**HONEST, "code": code}, seconds=1, policy=Policy(memory_limit_mb=256), concurrency=16)
            for code in hostile
        ]
        answers = await asyncio.gather(*calls)
        honest = await ask(sandbox, HONEST["code"], seconds=20)
        assert descendants(zygote_of(sandbox)) == set()
    assert {answer["status"] for answer in answers} <= {"error", "timeout"}
    assert honest["status"] == "counterexample"


async def test_no_more_children_at_once_than_there_are_places() -> None:
    async with running() as sandbox:
        await ask(sandbox, "x = 1")
        calls = [
            asyncio.create_task(sandbox.analyse({**HONEST, "code": LOOP}, seconds=2, policy=Policy(), concurrency=2))
            for _ in range(5)
        ]
        most = 0
        while not all(call.done() for call in calls):
            most = max(most, len(descendants(zygote_of(sandbox))))
            await asyncio.sleep(0.05)
        answers = [call.result() for call in calls]
    assert most == 2
    assert [answer for answer in answers if answer.get("error_type") == "Busy"]


async def test_a_zygote_that_does_not_start_is_not_started_over_and_over(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = (sys.executable, "-c", f"open({str(starts)!r}, 'a').write('x')")
    async with running(command) as sandbox:
        first, second = await ask(sandbox, "x = 1"), await ask(sandbox, "x = 1")
    assert first["error_type"] == second["error_type"] == "SandboxUnavailable"
    assert starts.read_text() == "x"


async def test_a_missing_layer_is_named_and_nothing_is_analysed() -> None:
    async with running(script("without_landlock.py")) as sandbox:
        refused = await ask(sandbox, HONEST["code"], seconds=20)
        accepted = await ask(sandbox, HONEST["code"], seconds=20, policy=Policy(allow_weaker_sandbox=True))
    assert refused["error_type"] == "SandboxUnavailable"
    assert "lacks landlock." in refused["message"]
    assert accepted["status"] == "counterexample"


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 1e9, 120.5, 0.5])
async def test_a_time_limit_out_of_bounds_is_refused(seconds: float) -> None:
    async with running() as sandbox:
        answer = await ask(sandbox, "x = 1", seconds=seconds)
        assert answer["error_type"] == "InvalidTimeout"
        assert "1 to 120" in answer["message"]
        assert sandbox._warm is None


@pytest.mark.parametrize("code", [None, 3, b"x", ["x = 1"]])
async def test_code_that_is_no_text_is_refused(code: object) -> None:
    async with running() as sandbox:
        answer = await sandbox.analyse({**HONEST, "code": code}, seconds=1, policy=Policy(), concurrency=1)
    assert answer["error_type"] == "InvalidCode"


async def test_what_a_child_kept_stands_when_its_time_is_over() -> None:
    async with running(UNGATED) as sandbox:
        code = "report({'status': 'timeout', 'found': 1})\nreport({'status': 'timeout', 'found': 2})\n" + LOOP
        assert await ask(sandbox, code) == {"status": "timeout", "found": 2}
        # but not when it crashed, nor when it has an answer
        crash = "report({'status': 'verified'})\nimport os\nos._exit(1)"
        assert (await ask(sandbox, crash))["error_type"] == "WorkerDied"
        assert (await ask(sandbox, "report({'status': 'timeout'})"))["status"] == "ran"


async def test_a_forged_answer_is_the_callers_own_and_nobody_elses() -> None:
    forge = 'import os\nfor fd in range(3, 40):\n    try: os.write(fd, b\'{"answer": {"status": "forged"}}\\n\')\n'
    forge += "    except OSError: pass\nos._exit(0)"
    async with running(UNGATED) as sandbox:
        forged, other = await asyncio.gather(ask(sandbox, forge), ask(sandbox, "R = 'own'"))
    assert forged == {"status": "forged"}
    assert other["value"] == "'own'"


async def test_answers_are_json_that_can_be_sent() -> None:
    async with running(UNGATED) as sandbox:
        answer = await ask(sandbox, "raise ValueError('\\ud800')")
        assert answer["value"] == "ValueError: ?"
        json.dumps(answer, ensure_ascii=False).encode()
        shapes = [
            "[]",
            "{}",
            "1",
            '{"status": 1}',
            '{"status": "x", "n": NaN}',
            '{"status": "x", "d": ' + "[" * 20 + "]" * 20 + "}",
        ]
        for shape in shapes:
            code = f"import os\nfor fd in range(3, 40):\n    try: os.write(fd, b'{{\"answer\": {shape}}}\\n')\n"
            code += "    except OSError: pass\nos._exit(0)"
            assert (await ask(sandbox, code))["error_type"] == "WorkerDied", shape


async def test_a_result_that_is_too_large_is_refused() -> None:
    async with running(UNGATED) as sandbox:
        large = "import os\nfor fd in range(3, 40):\n    try:\n        while True: os.write(fd, b'x' * 65536)\n"
        large += "    except OSError: pass"
        assert (await ask(sandbox, large, seconds=20))["error_type"] == "ResultTooLarge"


async def test_the_modules_own_functions_use_the_settings_in_force() -> None:
    try:
        answer = await module.analyse({**HONEST}, timeout=runtime_context.settings().analysis_default_timeout_seconds)
        assert answer["status"] == "counterexample"
    finally:
        await module.close()
    assert module._sandbox is None
