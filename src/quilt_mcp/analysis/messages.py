"""Messages between the server and the process that runs an analysis: requests, answers, and answers about failures.

Both processes import this module, so it imports little.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from quilt_mcp.analysis.policy import STANDARD_LIBRARY, SUPPORTED_PYTHONS, Policy

ANSWER_BYTES = 256 * 1024
"""Maximum size of one answer."""
STREAM_BYTES = 4 * 1024 * 1024
"""Maximum size of everything that a child sends: partial answers, and the answer."""

ANSWER_TEXT = 8_000
"""Maximum number of characters of a text in an answer."""
ANSWER_ITEMS = 20_000
"""Maximum number of items of a list or object in an answer. The code has no more nodes than this."""
ANSWER_DEPTH = 16
"""Maximum number of nested lists and objects in an answer."""

READY = b"ready"
"""The first message of a zygote."""

# The layers of the jail, and what each one prevents
LAYERS = {
    "landlock": "access to files",
    "privileges": "privileges, and access from other processes of the same user",
    "rlimits": "more memory, CPU time, files or stack than the limits",
    "seccomp": "all system calls except those in jail/layers.py, and with them new threads and processes",
}

MODULE_NAME = "submitted"
"""The name of the module of analysed code."""
# Tracebacks, `inspect` and CrossHair find the canonical source under this name. The file does not exist.
FOLDER = "/analysis/"
FILE_NAME = f"{FOLDER}submitted.py"
MOST_FILES = 50
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,9}")
RECORDS = "records"
"""The key of what a child records for the process that repeats its result. The server removes it."""

Answer = Mapping[str, object]
"""The JSON object that an analysis returns. It has a string `status`."""
Report = Callable[[Answer], None]
"""Sends a partial answer. If the child is killed at the timeout, the last one is the answer."""


class Request(TypedDict):
    """An analysis: the tool, the code, and the other arguments of the tool by name.

    For two versions, `code` is the new one. `whole_file` is for tests: the code is not reduced.
    """

    tool: str
    code: str
    function_name: NotRequired[str]
    exception_type: NotRequired[str]
    function_a: NotRequired[str]
    function_b: NotRequired[str]
    symbolic_reachability: NotRequired[bool]
    module_name: NotRequired[str]
    old_code: NotRequired[str]
    files: NotRequired[Mapping[str, str]]
    whole_file: NotRequired[bool]


class Envelope(TypedDict):
    """What the child reads."""

    policy: str  # as JSON text
    request: Request  # the tool and its arguments
    seconds: float  # the timeout
    seed: NotRequired[int]  # of the random values
    records: NotRequired[list[Mapping[str, object]]]  # what another child has recorded, if this one repeats its result


class Limits(TypedDict):
    """What the zygote reads: the limits of a child before it has seen its request."""

    memory_limit_mb: int
    cpu_seconds: int


class ErrorAnswer(TypedDict):
    """An answer about a failure."""

    status: Literal["error"]  # always `error`
    error_type: str  # the kind of failure, one word
    message: str  # what is wrong and what to change
    rule: NotRequired[str]  # for the error type `Refused`, the rule that refused the code
    # for the error type `Refused`, the line of the code, from 1; None if there is no single line
    line: NotRequired[int | None]
    # for the error type `Busy`, how long the call waited for a place; 0 if it was refused at once
    waited_seconds: NotRequired[float]
    retry_after_seconds: NotRequired[int]  # for the error type `Busy`, when to repeat the call


def error(error_type: str, message: str) -> ErrorAnswer:
    """Return an answer about a failure. The message must not contain text from analysed code."""
    return {"status": "error", "error_type": error_type, "message": message[:ANSWER_TEXT]}


def describe_refusal(rule: str, message: str, line: int | None = None) -> ErrorAnswer:
    return {**error("Refused", message), "rule": rule, "line": line}


def check_layers(layers: Mapping[str, bool], policy: Policy) -> ErrorAnswer | None:
    """Return an error if a layer of the jail does not work and the policy does not accept that."""
    missing = sorted(layer for layer in LAYERS if not layers.get(layer))
    if not missing or policy.allow_weaker_sandbox:
        return None
    return error(
        "SandboxUnavailable",
        f"The sandbox does not run analyses: this machine does not support {', '.join(missing)}. Run the server on"
        " Linux with Landlock and seccomp, or set QUILT_MCP_ANALYSIS_ALLOW_WEAKER_SANDBOX=true.",
    )


def check_platform(platform: str, python: tuple[int, int]) -> ErrorAnswer | None:
    """Return an error if analyses cannot run on this operating system or Python version."""
    if platform != "linux":
        return error("SandboxUnavailable", "The sandbox needs Linux. Run the server on Linux.")
    if python not in SUPPORTED_PYTHONS:
        return error(
            "UnsupportedPython",
            f"The sandbox does not run analyses on Python {_join([python])}. It is tested on"
            f" {_join(SUPPORTED_PYTHONS)}. Run the server on one of these versions.",
        )
    return None


def _join(versions: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in versions)


Value = int | float | bool | str | None | list[object] | dict[str, object]


class Cause(TypedDict):
    """Why paths stayed undecided."""

    line: int | None  # of the submitted code, from 1; null if there is no single line
    operation: str  # the operation, or the text of the line
    reason: str  # why the analyser could not decide it


class Coverage(TypedDict):
    """What was explored."""

    all_paths: bool  # whether every path was explored. Otherwise the number of all paths is not known.
    paths: int  # number of execution paths that were run
    undecided_paths: int  # number of those that the analyser gave up, or on which its model disagreed with Python
    concrete_runs: int  # number of runs with boundary values and random values
    all_arguments: bool  # whether these runs were with all values of the parameters' types
    # if not all paths were explored: the lines of the function that no run reached, and the length of texts and
    # containers up to which all paths were explored; null if that is not known
    lines_not_reached: NotRequired[list[int]]
    all_paths_up_to_length: NotRequired[int | None]
    # whether another process, with another hash seed and time zone, repeated the result; null if it did not try
    replayed: NotRequired[bool | None]


class Counterexample(TypedDict):
    """Arguments that reproduce the result in plain Python."""

    # positional arguments by name. Numbers, booleans, null and strings are JSON, and lists of them, and dicts with
    # texts as keys; others, and integers from 2**53 on, are Python source text.
    args: dict[str, Value]
    kwargs: dict[str, Value]  # the same for keyword-only arguments
    call: str  # the call as Python source text
    violation: str  # what happened
    actual_result: str  # what the call returned or raised
    path_condition: str  # the preconditions of the contract, or True
    # a pytest that fails until the code is corrected; null if there is none. The answer's `message` says why then.
    test: str | None


def find_module_name(key: str) -> str | None:
    """Return the module name of a file that is given as `pkg.models` or `pkg/models.py`; None if it is not valid.

    A name of the standard library is not valid, because the file would replace that module.
    """
    name = key.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    parts = name.split(".")
    is_hidden = any(part.startswith("__") and part.endswith("__") for part in parts)
    return name if _NAME.fullmatch(name) and not is_hidden and parts[0] not in STANDARD_LIBRARY else None
