"""The answers of the analysis tools, field by field: the source of their output schemas.

Where `status` is `error`, `error_type` names the problem in one word and `message` says what to change.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from quilt_mcp.analysis.rendering import Counterexample

Message = Annotated[str, Field(description="Why it is not decided, or what to change.")]
ErrorType = Annotated[str, Field(description="The kind of problem; only where status is error.")]
Rule = Annotated[str, Field(description="The rule that refused the code; only where error_type is Refused.")]
Line = Annotated[int | None, Field(description="Where in the code the rule was broken.")]
Seconds = Annotated[float, Field(description="How long the analysis took, in seconds.")]
Paths = Annotated[int, Field(description="How many paths through the code were run.")]
Replayed = Annotated[bool, Field(description="Whether it was seen to happen in plain Python.")]


class SymbolicCheckResult(TypedDict):
    """Whether a function keeps its contract. `verified` only if that was confirmed on all paths."""

    status: Literal["verified", "counterexample", "unknown", "timeout", "error"]
    counterexamples: list[Counterexample]
    paths_explored: Paths
    paths_verified: Annotated[int, Field(description="How many of them were confirmed.")]
    time_seconds: Seconds
    coverage_estimate: Annotated[float, Field(description="1 if all paths were decided, else less.")]
    confirmed_by_replay: NotRequired[Replayed]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]


class ExceptionPathResult(TypedDict):
    """Whether an exception can be raised. `unreachable` only if that was confirmed on all paths."""

    status: Literal["found", "unreachable", "not_found", "timeout", "error"]
    triggering_inputs: NotRequired[list[Counterexample]]
    paths_to_exception: NotRequired[Annotated[int, Field(description="How many inputs are given.")]]
    total_paths_explored: NotRequired[Paths]
    time_seconds: NotRequired[Seconds]
    confirmed_by_replay: NotRequired[Replayed]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]


class ComparisonResult(TypedDict):
    """Whether two functions do the same. `equivalent` only if that was confirmed on all paths."""

    status: Literal["equivalent", "different", "unknown", "timeout", "error"]
    distinguishing_input: NotRequired[Counterexample | None]
    paths_compared: NotRequired[Paths]
    confidence: NotRequired[Literal["proven", "partial"]]
    time_seconds: NotRequired[Seconds]
    confirmed_by_replay: NotRequired[Replayed]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]


class Branch(TypedDict):
    """A test with two outcomes. `*_reachable` is null where it is not decided; an example is a call that takes it."""

    line: Annotated[int, Field(description="Its line in the submitted code, from 1.")]
    condition: str
    true_reachable: NotRequired[bool | None]
    false_reachable: NotRequired[bool | None]
    true_example: NotRequired[str | None]
    false_example: NotRequired[str | None]


class BranchesResult(TypedDict):
    """The branches of a function. `partial` if not all of them could be decided."""

    status: Literal["complete", "partial", "timeout", "error"]
    branches: NotRequired[list[Branch]]
    total_branches: NotRequired[int]
    reachable_branches: NotRequired[Annotated[int, Field(description="How many were seen to be reached.")]]
    dead_code_lines: NotRequired[Annotated[list[int], Field(description="Lines that no call can reach.")]]
    cyclomatic_complexity: NotRequired[int]
    time_seconds: NotRequired[Seconds]
    analysis_mode: NotRequired[Literal["static", "symbolic"]]
    paths_explored: NotRequired[Paths]
    error_type: NotRequired[ErrorType]
    rule: NotRequired[Rule]
    line: NotRequired[Line]
    message: NotRequired[Message]


class HealthResult(TypedDict):
    """That the server answers, and with which versions."""

    status: Literal["healthy"]
    version: str
    python_version: str
    crosshair_version: NotRequired[str]
    z3_version: NotRequired[str]
    platform: Annotated[str, Field(description="System and machine.")]
    memory_usage_mb: Annotated[float | None, Field(description="Memory of the server; null where not known.")]
