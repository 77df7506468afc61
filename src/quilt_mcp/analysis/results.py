"""The answers of the analysis tools, field by field.

The analysis runs beside the code, which may be hostile, so the server checks the form and the length of what it
returns. If `status` is `error`, `error_type` names the problem in one word and `message` says what to change.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from quilt_mcp.analysis.messages import ANSWER_ITEMS, ANSWER_TEXT, Cause, Counterexample, Coverage

Counterexamples = Annotated[list[Counterexample], Field(max_length=1_000)]
Text = Annotated[str, Field(max_length=ANSWER_TEXT)]
Word = Annotated[str, Field(max_length=100)]


Fields = Mapping[str, Any]  # an answer, or a part of one
_LONGEST_CALL = 120


class Dropped(TypedDict):
    """Parts of the code that the function does not use: how many, and the first of them."""

    count: int
    first: Annotated[list[Text], Field(max_length=10)]


class Answer(TypedDict):
    """What the answers of all analyses can have."""

    meaning: NotRequired[Text]  # what the status says, in a sentence
    time_seconds: NotRequired[float]  # duration of the analysis
    coverage: NotRequired[Coverage]  # what was explored
    error_type: NotRequired[Word]  # the kind of problem, if `status` is `error`
    rule: NotRequired[Word]  # the rule that refused the code, if `error_type` is `Refused`
    line: NotRequired[int | None]  # the line of the code that breaks the rule
    message: NotRequired[Text]  # why something is undecided, or what to change
    undecided: NotRequired[Annotated[list[Cause], Field(max_length=100)]]  # what was undecided
    dropped: NotRequired[Dropped]  # what the function does not use
    waited_seconds: NotRequired[float]  # time in the queue, which is part of `timeout_seconds`
    retry_after_seconds: NotRequired[int]  # when to repeat a call that was refused as `Busy`


class SymbolicCheckResult(Answer):
    """Whether a function satisfies its contract. `verified` means that every path was confirmed."""

    status: Literal["verified", "counterexample", "unknown", "timeout", "error"]
    counterexamples: Counterexamples
    paths_explored: int  # number of execution paths that were run
    # number of those on which the contract holds, or no arguments meet the preconditions and invariants
    paths_verified: int
    coverage_estimate: float | None  # 1 if every path was decided, else null: the number of paths is not known
    confirmed_by_replay: NotRequired[bool]  # true if the call gave the same result in plain Python


class ExceptionPathResult(Answer):
    """Whether a function can raise an exception. `unreachable` means that this was confirmed on every path."""

    status: Literal["found", "unreachable", "not_found", "timeout", "error"]
    triggering_inputs: NotRequired[Counterexamples]
    paths_to_exception: NotRequired[int]  # number of triggering inputs
    total_paths_explored: NotRequired[int]
    confirmed_by_replay: NotRequired[bool]  # true if the call gave the same result in plain Python


class ComparisonResult(Answer):
    """Whether two functions behave the same. `equivalent` means that this was confirmed on every path."""

    status: Literal["equivalent", "different", "unknown", "timeout", "error"]
    distinguishing_input: NotRequired[Counterexample | None]
    arguments_tried: NotRequired[int]  # number of arguments that meet the preconditions, after a difference was found
    arguments_with_difference: NotRequired[int]  # number of those for which the functions differ
    further_examples: NotRequired[Counterexamples]  # with other kinds of results; only this process has run them
    paths_compared: NotRequired[int]
    confidence: NotRequired[Literal["proven", "partial"]]
    confirmed_by_replay: NotRequired[bool]


class Branch(TypedDict):
    """A test with two outcomes, and its line in the submitted code.

    `*_reachable` is null if undecided, and for what no call reached in a nested function, which others can call later.
    `*_example` is a call with that outcome.
    """

    line: int
    condition: Text
    true_reachable: NotRequired[bool | None]
    false_reachable: NotRequired[bool | None]
    true_example: NotRequired[Text | None]
    false_example: NotRequired[Text | None]


class BranchesResult(Answer):
    """The branches of a function. `partial` means that some are undecided."""

    status: Literal["complete", "partial", "timeout", "error"]
    branches: NotRequired[Annotated[list[Branch], Field(max_length=ANSWER_ITEMS)]]
    total_branches: NotRequired[int]
    reachable_branches: NotRequired[int]  # number of branches that a call reached
    dead_code_lines: NotRequired[Annotated[list[int], Field(max_length=ANSWER_ITEMS)]]  # lines that no call can reach
    cyclomatic_complexity: NotRequired[int]
    analysis_mode: NotRequired[Literal["static", "symbolic"]]
    paths_explored: NotRequired[int]


class HealthResult(TypedDict):
    """The status of the server, versions, and the memory of this process in MiB; null if that is not known."""

    status: Literal["healthy"]
    version: str
    python_version: str
    crosshair_version: NotRequired[str]
    z3_version: NotRequired[str]
    platform: str
    memory_usage_mb: float | None


def describe_meaning(answer: Fields) -> str:
    """Return what an answer says, in a sentence. It has no text of analysed code that the answer does not show."""
    status = answer["status"]
    if status == "error":
        return "Nothing is known about the code: `message` says why."
    examples = (*answer.get("counterexamples", ()), *answer.get("triggering_inputs", ()))
    example = answer.get("distinguishing_input") or next(iter(examples), None)
    proven = {
        "verified": "The function keeps its contract for all arguments.",
        "unreachable": "No arguments make the function raise such an exception.",
        "equivalent": "The functions behave the same for all arguments.",
    }
    if status in proven:
        return proven[status]
    if example:
        return _describe_example(answer, example)
    if "branches" in answer:
        return _describe_branches(answer)
    return f"Nothing is proven, and nothing was found: {_describe_evidence(answer.get('coverage', {}))}."


def _describe_example(answer: Fields, example: Counterexample) -> str:
    call = example["call"] if len(example["call"]) <= _LONGEST_CALL else "the call in `call`"
    if answer["status"] == "different":
        tried = answer.get("arguments_tried")
        share = f", and for {answer.get('arguments_with_difference')} of {tried} tried arguments" if tried else ""
        return f"The functions differ for {call}{share}."
    return f"A call shows it: {call}: {example['violation']}."


def _describe_branches(answer: Fields) -> str:
    if answer.get("analysis_mode") != "symbolic":
        return "This is read from the text: no call was tried."
    outcomes = [one[key] for one in answer["branches"] for key in ("true_reachable", "false_reachable") if key in one]
    reached, never, open_ = (sum(one is value for one in outcomes) for value in (True, False, None))
    return f"Of {len(outcomes)} outcomes, calls reach {reached}, none can reach {never}, and {open_} are open."


def _describe_evidence(coverage: Fields) -> str:
    parts = [f"{coverage.get('concrete_runs', 0)} runs and {coverage.get('paths', 0)} paths"]
    length = coverage.get("all_paths_up_to_length")
    parts += [] if length is None else [f"all paths for texts and containers up to length {length}"]
    lines = coverage.get("lines_not_reached") or ()
    parts += [f"not reached: line {', '.join(map(str, lines))}"] if lines else []
    return "; ".join(parts)
