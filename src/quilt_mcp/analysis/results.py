"""The answers of the analysis tools, field by field.

The analysis runs beside the code, which may be hostile, so the server checks the form and the length of what it
returns. If `status` is `error`, `error_type` names the problem in one word and `message` says what to change.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from quilt_mcp.analysis.messages import ANSWER_ITEMS, ANSWER_TEXT, Cause, Counterexample, Coverage

Counterexamples = Annotated[list[Counterexample], Field(max_length=1_000)]
Text = Annotated[str, Field(max_length=ANSWER_TEXT)]
Word = Annotated[str, Field(max_length=100)]


class Dropped(TypedDict):
    """Parts of the code that the function does not use: how many, and the first of them."""

    count: int
    first: Annotated[list[Text], Field(max_length=10)]


class Answer(TypedDict):
    """What the answers of all analyses can have."""

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
    paths_verified: int  # number of confirmed paths
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
