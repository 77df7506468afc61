"""Repeat a result in a second process, which has another hash seed and another time zone.

A result that is not the same there is not reported: it depends on the order of a set or on the time zone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import anyio

from quilt_mcp.analysis.messages import RECORDS, Answer, Envelope
from quilt_mcp.analysis.zygote_keeper import ZygoteKeeper
from quilt_mcp.analysis.zygote_process import FIRST, SECOND, Surroundings


@dataclass(frozen=True, slots=True)
class Chance:
    """What could change results from start to start.

    Attributes:
        first: the surroundings of the process that runs analyses.
        second: those of the process that repeats their results.
        seed: of the random values.
    """

    first: Surroundings = FIRST
    second: Surroundings = SECOND
    seed: int = 0


# Claims, and the status without the claim
_CLAIMS = {"verified": "unknown", "equivalent": "unknown", "unreachable": "not_found", "complete": "partial"}
_FINDINGS = frozenset({"counterexample", "different", "found"})
_LEAST_SECONDS = 0.5
_UNCLAIMED = {"coverage_estimate": None, "confidence": "partial"}
_NOT_REPEATED = (
    "Every path was explored, but the second process did not repeat the result in time. Raise timeout_seconds, or"
    " repeat the call later."
)


async def run_and_repeat(first: ZygoteKeeper, second: ZygoteKeeper, envelope: Envelope) -> Answer:
    """Run an analysis, and repeat its result in a child of the second zygote.

    Args:
        first: runs the analysis.
        second: repeats it.
        envelope: of the analysis. Its timeout holds for both children together.
    """
    started = anyio.current_time()
    answer = dict(await first.run_child(envelope))
    records = answer.pop(RECORDS, None)
    if answer.get("status") not in _FINDINGS | _CLAIMS.keys() or not isinstance(answer.get("coverage"), dict):
        return answer
    if answer["status"] == "complete" and cast("Mapping[str, object]", answer["coverage"]).get("all_paths") is False:
        return _note(answer, replayed=None)  # a call has reached every outcome, and nothing is claimed about others
    if not isinstance(records, list):
        return _withdraw(answer)
    left = max(_LEAST_SECONDS, envelope["seconds"] - (anyio.current_time() - started))
    again: Envelope = {**envelope, "seconds": left, "records": records}
    repeated = {name: one for name, one in (await second.run_child(again)).items() if name != RECORDS}
    if repeated.get("status") == answer["status"]:
        return _note(answer, replayed=True)
    unfinished = repeated.get("status") in {"error", "timeout"} or "coverage" not in repeated
    return _withdraw(answer) if unfinished else _note(repeated, replayed=False)


def _withdraw(answer: dict[str, object]) -> Answer:
    """Return the answer without its claim, because it was not repeated. A finding remains, for it has happened."""
    status = str(answer["status"])
    if status in _FINDINGS:
        return _note(answer, replayed=None)
    answer.pop("dead_code_lines", None)
    changed: dict[str, object] = {"status": _CLAIMS[status], "message": _NOT_REPEATED}
    changed |= {name: one for name, one in _UNCLAIMED.items() if name in answer}
    if isinstance(branches := answer.get("branches"), list):
        changed["branches"] = [{key: None if one is False else one for key, one in each.items()} for each in branches]
    return _note({**answer, **changed}, replayed=None)


def _note(answer: Mapping[str, object], *, replayed: bool | None) -> Answer:
    """Add to the coverage whether the result was repeated."""
    coverage = cast("Mapping[str, object]", answer["coverage"])
    return {**answer, "coverage": {**coverage, "replayed": replayed}}
