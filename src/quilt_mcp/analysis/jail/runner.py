"""What the child does in the jail: check the code, load it, analyse it, and always return an answer."""

import time
from collections.abc import Callable, Mapping, Sequence

from quilt_mcp.analysis.engine.branches import analyze_branches, read_branches
from quilt_mcp.analysis.engine.comparison import compare_functions
from quilt_mcp.analysis.engine.search import Record, Replay
from quilt_mcp.analysis.engine.subjects import AnalysisRefused
from quilt_mcp.analysis.engine.symbolic_check import find_path_to_exception, symbolic_check
from quilt_mcp.analysis.engine.task import Task
from quilt_mcp.analysis.gate.admit import admit_request, parse
from quilt_mcp.analysis.gate.loading import Loaded, load_submission
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.jail.guards import install_guards
from quilt_mcp.analysis.messages import (
    MODULE_NAME,
    RECORDS,
    Answer,
    Envelope,
    Report,
    Request,
    check_layers,
    describe_refusal,
    error,
)
from quilt_mcp.analysis.policy import Policy

ANALYSES: Mapping[str, Callable[[Request, Task], Answer]] = {
    "symbolic_check": symbolic_check,
    "find_path_to_exception": find_path_to_exception,
    "compare_functions": compare_functions,
    "analyze_branches": analyze_branches,
}


def run_analysis(
    request: Request,
    loaded: Loaded,
    *,
    seconds: float,  # for the whole analysis
    path_limit: int,  # for each condition
    seed: int = 0,  # of the random values
    records: Sequence[Record] | None = None,  # what another process has recorded, if this one repeats its result
) -> Answer:
    """Return the answer of the tool about admitted code, or an `ErrorAnswer` if the request cannot be analysed.

    If another process can repeat the result, the answer contains the `records` for it.
    """
    try:
        replay = None if records is None else Replay(records, loaded.names)
        module_name = request.get("module_name", MODULE_NAME)
        task = Task(loaded, seconds, path_limit, seed, replay, module_name=module_name)
        answer = ANALYSES[request["tool"]](request, task)
    except AnalysisRefused as refusal:
        return error(refusal.error_type, refusal.message)
    can_repeat = all(one.get("arguments", ...) is not None for one in task.records)  # of what stopped the exploration
    return {**answer, RECORDS: task.records} if task.records and can_repeat else answer


_LONGEST_NAME = 100
_SHOWN = 5


def answer_request(envelope: Envelope, layers: Mapping[str, bool], report: Report) -> Answer:
    """Answer one request, also if its code breaks the analyser. `layers` are those that this process has entered."""
    policy = Policy.from_json(envelope["policy"])
    if missing := check_layers(layers, policy):
        return missing
    try:
        return _analyse(envelope, policy, report)
    except Refused as refusal:
        return describe_refusal(refusal.rule, str(refusal), refusal.line)
    except MemoryError:
        return error("MemoryLimit", "The code or its analysis needs more than memory_limit_mb in config://security.")
    except RecursionError:
        return error("RecursionLimit", "The recursion of the code or of its analysis is too deep.")
    except BaseException as raised:  # noqa: BLE001 - analysed code can break the analyser in any way
        return error("AnalysisFailed", f"The analyser failed on this code with {_type_name(raised)}.")


def _analyse(envelope: Envelope, policy: Policy, report: Report) -> Answer:
    request = envelope["request"]
    if request["tool"] == "analyze_branches" and not request.get("symbolic_reachability"):
        return _read_branches(request, policy)
    submission = admit_request(request, policy)
    install_guards(policy)
    try:
        loaded = load_submission(submission, report)
    except (Refused, MemoryError, RecursionError):
        raise
    except BaseException as raised:  # noqa: BLE001 - the code can raise anything, also SystemExit
        return error("CodeRaised", f"The code raised {_type_name(raised)} when it was loaded.")
    answer = run_analysis(
        request,
        loaded,
        seconds=envelope["seconds"],
        path_limit=policy.coverage_threshold,
        seed=envelope.get("seed", 0),
        records=envelope.get("records"),
    )
    dropped = submission.code.dropped
    return {**answer, "dropped": {"count": len(dropped), "first": [*dropped[:_SHOWN]]}} if dropped else answer


def _read_branches(request: Request, policy: Policy) -> Answer:
    started = time.perf_counter()
    try:
        found = read_branches(parse(request["code"], policy), request["function_name"])
    except AnalysisRefused as refusal:
        return error(refusal.error_type, refusal.message)
    return {**found, "time_seconds": round(time.perf_counter() - started, 3)}


def _type_name(raised: BaseException) -> str:
    """Return the name of an exception class, if it is plain. Analysed code may have chosen it."""
    name = type(raised).__name__
    plain = name.isascii() and name.isidentifier() and len(name) <= _LONGEST_NAME
    return name if plain else "an exception"
