"""The answers of the analysis tools, field by field. The output schemas are made from these types.

If `status` is `error`, `error_type` names the problem in one word and `message` says what to change.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from quilt_mcp.analysis.engine.causes import Undecided
from quilt_mcp.analysis.engine.exploration import Coverage
from quilt_mcp.analysis.engine.rendering import Counterexample
from quilt_mcp.analysis.messages import ANSWER_ITEMS, ANSWER_TEXT

_WORD = 100
# The analysis runs beside the code, which may be hostile. So the server checks the length of what it returns.
Counterexamples = Annotated[list[Counterexample], Field(max_length=1_000)]
Text = Annotated[str, Field(max_length=ANSWER_TEXT)]

Message = Annotated[str, Field(description="Why it is undecided, or what to change.", max_length=ANSWER_TEXT)]
ErrorType = Annotated[str, Field(description="The kind of problem, if status is error.", max_length=_WORD)]
Rule = Annotated[str, Field(description="The rule that refused the code, if error_type is Refused.", max_length=_WORD)]
Line = Annotated[int | None, Field(description="The line of the code that breaks the rule.")]
Seconds = Annotated[float, Field(description="Duration of the analysis, in seconds.")]
Paths = Annotated[int, Field(description="Number of execution paths that were run.")]
Waited = Annotated[float, Field(description="Time in the queue, which is part of timeout_seconds.")]
RetryAfter = Annotated[int, Field(description="When to repeat a call that was refused as Busy.")]
Undecideds = Annotated[list[Undecided], Field(description="What was undecided.", max_length=100)]
Dropped = Annotated[list[Text], Field(description="Parts of the code that the function does not use.")]
Replayed = Annotated[bool, Field(description="True if the call gave the same result in plain Python.")]


class SymbolicCheckResult(TypedDict):
    """Whether a function satisfies its contract. `verified` means that every path was confirmed."""

    status: Literal["verified", "counterexample", "unknown", "timeout", "error"]
    counterexamples: Counterexamples
    paths_explored: Paths
    paths_verified: Annotated[int, Field(description="Number of confirmed paths.")]
    time_seconds: Seconds
    coverage: NotRequired[Coverage]
    coverage_estimate: Annotated[
        float | None, Field(description="1 if every path was decided, else null: the number of paths is not known.")
    ]
    confirmed_by_replay: NotRequired[Replayed]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]
    undecided: NotRequired[Undecideds]
    dropped: NotRequired[Dropped]
    waited_seconds: NotRequired[Waited]
    retry_after_seconds: NotRequired[RetryAfter]


class ExceptionPathResult(TypedDict):
    """Whether a function can raise an exception. `unreachable` means that this was confirmed on every path."""

    status: Literal["found", "unreachable", "not_found", "timeout", "error"]
    triggering_inputs: NotRequired[Counterexamples]
    paths_to_exception: NotRequired[Annotated[int, Field(description="Number of triggering inputs.")]]
    total_paths_explored: NotRequired[Paths]
    time_seconds: NotRequired[Seconds]
    coverage: NotRequired[Coverage]
    confirmed_by_replay: NotRequired[Replayed]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]
    undecided: NotRequired[Undecideds]
    dropped: NotRequired[Dropped]
    waited_seconds: NotRequired[Waited]
    retry_after_seconds: NotRequired[RetryAfter]


class ComparisonResult(TypedDict):
    """Whether two functions behave the same. `equivalent` means that this was confirmed on every path."""

    status: Literal["equivalent", "different", "unknown", "timeout", "error"]
    distinguishing_input: NotRequired[Counterexample | None]
    paths_compared: NotRequired[Paths]
    confidence: NotRequired[Literal["proven", "partial"]]
    time_seconds: NotRequired[Seconds]
    coverage: NotRequired[Coverage]
    confirmed_by_replay: NotRequired[Replayed]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]
    undecided: NotRequired[Undecideds]
    dropped: NotRequired[Dropped]
    waited_seconds: NotRequired[Waited]
    retry_after_seconds: NotRequired[RetryAfter]


class Branch(TypedDict):
    """A test with two outcomes. `*_reachable` is null if undecided; `*_example` is a call with that outcome."""

    line: Annotated[int, Field(description="Line in the submitted code, from 1.")]
    condition: Text
    true_reachable: NotRequired[bool | None]
    false_reachable: NotRequired[bool | None]
    true_example: NotRequired[Text | None]
    false_example: NotRequired[Text | None]


class BranchesResult(TypedDict):
    """The branches of a function. `partial` means that some are undecided."""

    status: Literal["complete", "partial", "timeout", "error"]
    branches: NotRequired[Annotated[list[Branch], Field(max_length=ANSWER_ITEMS)]]
    total_branches: NotRequired[int]
    reachable_branches: NotRequired[Annotated[int, Field(description="Number of branches that a call reached.")]]
    dead_code_lines: NotRequired[
        Annotated[list[int], Field(description="Lines that no call can reach.", max_length=ANSWER_ITEMS)]
    ]
    cyclomatic_complexity: NotRequired[int]
    time_seconds: NotRequired[Seconds]
    coverage: NotRequired[Coverage]
    analysis_mode: NotRequired[Literal["static", "symbolic"]]
    paths_explored: NotRequired[Paths]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]
    undecided: NotRequired[Undecideds]
    dropped: NotRequired[Dropped]
    waited_seconds: NotRequired[Waited]
    retry_after_seconds: NotRequired[RetryAfter]


class HealthResult(TypedDict):
    """The status of the server, and versions."""

    status: Literal["healthy"]
    version: str
    python_version: str
    crosshair_version: NotRequired[str]
    z3_version: NotRequired[str]
    platform: Annotated[str, Field(description="Operating system and machine type.")]
    memory_usage_mb: Annotated[float | None, Field(description="Memory of the server; null if not available.")]
