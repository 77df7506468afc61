"""Which of two answers is reported when a second process repeats a result."""

from collections.abc import Mapping
from typing import cast

import pytest

from quilt_mcp.analysis.messages import Answer, Envelope
from quilt_mcp.analysis.policy import Policy
from quilt_mcp.analysis.processes import ZygoteKeeper
from quilt_mcp.analysis.sandbox import run_and_repeat

ENVELOPE: Envelope = {
    "policy": Policy().to_json(),
    "request": {"tool": "symbolic_check", "code": "", "function_name": "f"},
    "seconds": 9.0,
}
COVERAGE = {"coverage": {"paths": 1}}
RECORDS = {"records": [{"end": "ALL_PATHS"}]}


class Answering:
    """A keeper with children that give this answer."""

    def __init__(self, answer: Mapping[str, object]) -> None:
        self._answer = answer
        self.asked: list[Envelope] = []

    async def run_child(self, envelope: Envelope) -> Answer:
        self.asked.append(envelope)
        return self._answer


async def repeat(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[Answer, list[Envelope]]:
    other = Answering(second)
    answer = await run_and_repeat(cast("ZygoteKeeper", Answering(first)), cast("ZygoteKeeper", other), ENVELOPE)
    return answer, other.asked


@pytest.mark.parametrize(
    ("first", "replayed"),
    [
        *(({"status": one, **COVERAGE, **RECORDS}, ...) for one in ("unknown", "timeout", "error", "partial")),
        ({"status": "complete"}, ...),  # without an exploration
        ({"status": "different", **COVERAGE}, None),  # without records
    ],
)
async def test_answer_that_is_not_repeated(first: Mapping[str, object], replayed: object) -> None:
    answer, asked = await repeat(first, {})
    coverage = {"coverage": {"paths": 1, "replayed": replayed}} if replayed is None else {}
    assert (answer, asked) == ({key: one for key, one in first.items() if key != "records"} | coverage, [])


async def test_second_process_gets_the_records_and_the_rest_of_the_time() -> None:
    _, (asked,) = await repeat({"status": "verified", **COVERAGE, **RECORDS}, {"status": "verified"})
    assert asked["records"] == RECORDS["records"]
    assert 0 < asked["seconds"] <= ENVELOPE["seconds"]


@pytest.mark.parametrize(
    ("first", "second", "reported", "replayed"),
    [
        ("verified", {"status": "verified", **COVERAGE}, "verified", True),
        ("counterexample", {"status": "counterexample", **COVERAGE}, "counterexample", True),
        ("verified", {"status": "unknown", **COVERAGE}, "unknown", False),
        ("verified", {"status": "timeout", **COVERAGE}, "unknown", None),
        ("found", {"status": "not_found", **COVERAGE}, "not_found", False),
        ("found", {"status": "timeout", **COVERAGE}, "found", None),
        ("verified", {"status": "error", "error_type": "WorkerDied"}, "unknown", None),
        ("equivalent", {"status": "timeout", "message": "stopped"}, "unknown", None),
        ("unreachable", {"status": "timeout", "message": "stopped"}, "not_found", None),
        ("complete", {"status": "timeout", "message": "stopped"}, "partial", None),
        ("different", {"status": "timeout", "message": "stopped"}, "different", None),
    ],
)
async def test_result_of_two_processes(
    first: str, second: Mapping[str, object], reported: str, replayed: object
) -> None:
    answer, _ = await repeat({"status": first, **COVERAGE, **RECORDS}, {**second, **RECORDS})
    assert answer["status"] == reported
    assert answer["coverage"] == {"paths": 1, "replayed": replayed}
    assert "records" not in answer


async def test_withdrawn_answer_contains_nothing_that_was_claimed() -> None:
    branch = {"line": 1, "condition": "x", "true_reachable": True, "false_reachable": False}
    claimed = {"coverage_estimate": 1.0, "confidence": "proven", "branches": [branch], "dead_code_lines": [3]}
    answer, _ = await repeat({"status": "complete", **claimed, **COVERAGE, **RECORDS}, {"status": "error"})
    assert answer["branches"] == [branch | {"false_reachable": None}]
    assert (answer["coverage_estimate"], answer["confidence"]) == (None, "partial")
    assert "dead_code_lines" not in answer
    assert "second process" in str(answer["message"])


@pytest.mark.parametrize("flag", ["sets", "varies"])
async def test_finding_that_can_depend_on_the_process_is_repeated_in_further_ones(flag: str) -> None:
    found = {"status": "counterexample", **COVERAGE}
    records = {"records": [{"end": "STOPPED", flag: True}]}
    others = [Answering(found), Answering(found), Answering({"status": "unknown", **COVERAGE})]
    for count, status in ((2, "counterexample"), (3, "unknown")):
        keepers = [cast("ZygoteKeeper", one) for one in (Answering({**found, **records}), *others[:count])]
        answer = await run_and_repeat(keepers[0], keepers[1], ENVELOPE, keepers[2:])
        assert answer["status"] == status
    assert [len(one.asked) for one in others] == [2, 2, 1]
    plain = {**found, "records": [{"end": "STOPPED"}]}
    keepers = [cast("ZygoteKeeper", one) for one in (Answering(plain), *others)]
    assert (await run_and_repeat(keepers[0], keepers[1], ENVELOPE, keepers[2:]))["status"] == "counterexample"
    assert [len(one.asked) for one in others] == [3, 2, 1]
