"""Run the soundness table in a sandbox, and count wrong claims and violations that were found."""

import ast
import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from quilt_mcp.analysis.engine.stability import differs_between_processes
from quilt_mcp.analysis.messages import Request
from quilt_mcp.analysis.processes import FURTHER, Surroundings
from quilt_mcp.analysis.sandbox import Chance, Sandbox
from tests.analysis.programs import OPEN, PROGRAMS, Program
from tests.support.settings import Settings

FOUND = frozenset({"counterexample", "found", "different"})
_AT_ONCE, _SECONDS = 2, 5.0
ZONES = ("UTC0", "EST5EDT,M3.2.0,M11.1.0", "MOVED-5:45", "WEST11", "EAST-13")


@dataclass
class Measurement:
    """What the sandbox answered about the programs.

    Attributes:
        wrong: the programs with a wrong answer, with the answer.
        found: names of the programs with a violation that was found.
        missed: names of the programs with a witness and a violation that was not found.
        by_chance: names of the programs with a result that depends on the process, about which all four that repeat a
            finding agree. For the first of three words, that happens in one start of five, and for a lottery in 16.
        answers: each program with its tool and its answer.
    """

    wrong: list[tuple[str, object]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    by_chance: list[str] = field(default_factory=list)
    answers: list[tuple[str, Program, Mapping[str, Any]]] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of the violations that were found."""
        return len(self.found) / max(1, len(self.found) + len(self.missed))


def chance_of(start: int) -> Chance:
    """Return the seeds and time zones of one start. The first one is that of the server."""
    if start == 0:
        return Chance()
    first = Surroundings(10 * start, ZONES[start % 5])
    further = tuple(one._replace(time_zone=zone) for one, zone in zip(FURTHER, (ZONES[0], ZONES[4]), strict=True))
    return Chance(first, Surroundings(10 * start + 1, ZONES[(start + 2) % 5]), further, seed=start)


def _depends_on_chance(code: str) -> bool:
    return "import random" in code or differs_between_processes(ast.parse(code))


async def measure(start: int, seconds: float = _SECONDS) -> Measurement:
    """Run all programs in a sandbox with the seeds of this start."""
    sandbox = Sandbox(Settings(analysis_concurrency=_AT_ONCE), chance=chance_of(start))
    measured = Measurement()
    places = asyncio.Semaphore(_AT_ONCE)

    async def run(tool: str, program: Program) -> None:
        request = cast("Request", {"tool": tool, "code": program.code, **program.arguments})
        async with places:
            answer = await sandbox.analyse(request, seconds=seconds)
        measured.answers.append((tool, program, answer))
        status = answer["status"]
        name = f"{tool}: {program.name}"
        if status in FOUND and program.right <= OPEN and _depends_on_chance(program.code):
            measured.by_chance.append(name)
        elif status not in program.right | OPEN:
            measured.wrong.append((name, answer))
        if program.right & FOUND and program.witness is not None:
            (measured.found if status in FOUND else measured.missed).append(name)

    try:
        await asyncio.gather(*(run(tool, program) for tool, programs in PROGRAMS.items() for program in programs))
    finally:
        await sandbox.close()
    return measured
