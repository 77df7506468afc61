"""Analyses: how long they take, how many claims are wrong, and how many violations are found.

The benchmark calls the sandbox as the tools do. The other benchmarks measure what MCP adds.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from quilt_mcp.analysis.messages import Answer, Request
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.settings import Settings
from tests.analysis.measurement import CASES, measure
from tests.bench.estimates import estimate, percentile_95
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds

CONTRACT = 'def f(x: int) -> int:\n    """post: _ != 42"""\n    return x * 2\n'
REFUSED = "import os\n" + CONTRACT.replace("x * 2", "os.getpid()")
SEARCHED = "def f(x: int, y: int):\n    if 5 < x < 10 and x * y == 35:\n        raise KeyError\n"
PAIR = "def a(x: int):\n    return x * 2\ndef b(x: int):\n    return x + x\n"
BRANCHED = "def f(x: int):\n    if x > 10:\n        if x < 5:\n            return 1\n    return 2 if x == 7 else 3\n"
ANALYSES: dict[str, tuple[str, Request]] = {
    "refuse an import": ("Refused", {"tool": "symbolic_check", "code": REFUSED, "function_name": "f"}),
    "check, counterexample": ("counterexample", {"tool": "symbolic_check", "code": CONTRACT, "function_name": "f"}),
    "search an exception": (
        "found",
        {"tool": "find_path_to_exception", "code": SEARCHED, "function_name": "f", "exception_type": "KeyError"},
    ),
    "compare, equivalent": (
        "equivalent",
        {"tool": "compare_functions", "code": PAIR, "function_a": "a", "function_b": "b"},
    ),
    "branches, static": ("complete", {"tool": "analyze_branches", "code": BRANCHED, "function_name": "f"}),
    "branches, symbolic": (
        "complete",
        {"tool": "analyze_branches", "code": BRANCHED, "function_name": "f", "symbolic_reachability": True},
    ),
}
ENDLESS = 'def f(x: int) -> int:\n    """post: True"""\n    while x == x:\n        pass\n    return x\n'
CALLERS, SECONDS, MOST_WARM = 8, 30.0, 0.06
FOUND_SECONDS, LEAST_FOUND = 5.0, 0.85
_CORES = os.cpu_count() or 1
SETTINGS = Settings(analysis_concurrency=_CORES)


async def run(run: Run) -> Outcome:
    """Measure each kind of analysis, and the sandbox's processes."""
    columns = (
        "analysis",
        "warm, ms",
        "95 %, ms",
        "fresh process, ms",
        f"{CALLERS} callers, ms",
        f"{CALLERS} callers, 1/s",
    )
    rows: list[tuple[str, ...]] = []
    outcome = Outcome([Table("One analysis", columns, rows, _NOTE)])
    sandbox = Sandbox(SETTINGS)
    try:
        start = await _seconds(sandbox, "check, counterexample")
        for name in ANALYSES:
            warm = [await _seconds(sandbox, name) for _ in range(run.times(30))]
            fresh = [await _fresh(name) for _ in range(run.times(5))]
            many, rate = await _at_once(sandbox, name, run.times(10))
            rows.append(
                (
                    name,
                    milliseconds(estimate(warm).value),
                    milliseconds(percentile_95(warm)),
                    milliseconds(estimate(fresh).value),
                    milliseconds(estimate(many).value),
                    f"{rate:.0f}",
                )
            )
            outcome.figures[f"{name}, warm [ms]"] = estimate(warm).value * 1000
        outcome.tables.append(await _processes(sandbox, start))
    finally:
        await sandbox.close()
    await _add_soundness(outcome, run)
    reached = outcome.figures["check, counterexample, warm [ms]"]
    text = f"A counterexample, warm, in {MOST_WARM * 1000:.0f} ms"
    outcome.targets.append(Target(text, f"{reached:.0f} ms", reached < MOST_WARM * 1000))
    return outcome


_NOTE = (
    f"Fresh: with a zygote of its own, which imports the engine first. {CALLERS} callers: {_CORES} children at once."
)


async def _add_soundness(outcome: Outcome, run: Run) -> None:
    """Run the soundness table from several starts, each with other seeds and time zones."""
    rows: list[tuple[str, ...]] = []
    cases = CASES[::25] if run.quick else CASES
    shares, wrong = [], 0
    for start in range(run.times(5, quick=1)):
        measured = await measure(start, seconds=FOUND_SECONDS, at_once=_CORES, cases=cases)
        shares.append(measured.share)
        wrong += len(measured.wrong)
        names = ", ".join(name for name, _ in measured.wrong) or "-"
        rows.append((str(start), str(len(measured.wrong)), f"{measured.share:.1%}", str(len(measured.decided)), names))
    columns = ("start", "wrong claims", "violations found", "claims confirmed", "wrong")
    outcome.tables.append(Table(f"{len(cases)} programs with known truth, {FOUND_SECONDS:g} s each", columns, rows))
    outcome.figures["violations found, least [%]"] = min(shares) * 100
    outcome.targets.append(Target("No wrong claim about a program with known truth", str(wrong), wrong == 0))
    found = Target("85 % of the violations found within 5 s", f"{min(shares):.1%}", min(shares) >= LEAST_FOUND)
    outcome.targets.append(found)


async def _analyse(sandbox: Sandbox, request: Request, seconds: float = SECONDS) -> Answer:
    return await sandbox.analyse(request, seconds=seconds)


async def _seconds(sandbox: Sandbox, name: str) -> float:
    """How long one analysis takes; its answer must be the right one."""
    expected, request = ANALYSES[name]
    started = time.perf_counter()
    answer = await _analyse(sandbox, request)
    if expected not in {answer["status"], answer.get("error_type")}:
        raise RuntimeError(f"{name}: {answer}")
    return time.perf_counter() - started


async def _fresh(name: str) -> float:
    sandbox = Sandbox(SETTINGS)
    try:
        return await _seconds(sandbox, name)
    finally:
        await sandbox.close()


async def _at_once(sandbox: Sandbox, name: str, each: int) -> tuple[Sequence[float], float]:
    """The seconds of each call of several callers, and how many calls were answered a second."""

    async def caller() -> list[float]:
        return [await _seconds(sandbox, name) for _ in range(each)]

    started = time.perf_counter()
    found = [seconds for calls in await asyncio.gather(*(caller() for _ in range(CALLERS))) for seconds in calls]
    return found, len(found) / (time.perf_counter() - started)


async def _processes(sandbox: Sandbox, start: float) -> Table:
    """The memory of the zygote and of a child, read while the child is at work."""
    busy = asyncio.create_task(
        _analyse(sandbox, {"tool": "symbolic_check", "code": ENDLESS, "function_name": "f"}, 2.0)
    )
    await asyncio.sleep(1.0)
    zygote = sandbox.zygote_pid or 0
    rows: list[tuple[str, ...]] = [("start of the zygote and first check", f"{milliseconds(start)} ms")]
    for name, process in (("zygote", zygote), ("child at work", _children(zygote)[0])):
        memory = _memory(process)
        rows += [(f"{name}, resident", f"{memory['Rss'] / 1024:.1f} MiB")]
        rows += [(f"{name}, its share of what is shared", f"{memory['Pss'] / 1024:.1f} MiB")]
        rows += [(f"{name}, its own alone", f"{memory['Private_Dirty'] / 1024:.1f} MiB")]
    await busy
    return Table("The sandbox's processes", ("", "measured"), rows)


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text(encoding="ascii").split()]


def _memory(process: int) -> dict[str, int]:
    """The memory of a process in KiB, by the kernel's names."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}
