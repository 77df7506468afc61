"""Why paths stay undecided: the lines, operations and types, for the answer."""

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType, TracebackType

from typing_extensions import TypedDict

from quilt_mcp.analysis.gate.project import FILE_NAME

MOST_CAUSES = 10
_TEXT_LENGTH = 200
# The exceptions with which CrossHair or a run with concrete values ends, and what each one means
_SLOW_PATH: Mapping[str, str] = {
    "PathTimeout": "One path took too long.",
    "UnknownSatisfiability": "The solver did not decide this condition in time.",
    "UnexploredPath": "The solver did not decide this condition in time.",
}
_REASONS: Mapping[str, str] = {
    "CrosshairUnsupported": "The analyser does not support this operation.",
    "Interrupted": "A run with concrete values took too long.",
    **_SLOW_PATH,
}


class Undecided(TypedDict):
    """Why paths stayed undecided.

    Attributes:
        line: of the submitted code, from 1; null if there is no single line.
        operation: the operation, or the text of the line.
        reason: why the analyser could not decide it.
    """

    line: int | None
    operation: str
    reason: str


@dataclass(slots=True)
class Causes:
    """The different causes of undecided paths, in the order of their first occurrence.

    Attributes:
        found: the lines are those of the canonical source.
    """

    found: dict[tuple[int | None, str, str], None] = field(default_factory=dict)

    def add(self, line: int | None, operation: str, reason: str) -> None:
        """Add a cause, unless it is known or there are too many."""
        if len(self.found) < MOST_CAUSES:
            self.found[line, operation[:_TEXT_LENGTH], reason] = None

    @property
    def need_time(self) -> bool:
        """Whether the time limit of a path is one of the causes. It grows with the timeout."""
        return any(reason in _SLOW_PATH.values() for _, _, reason in self.found)

    def to_json(self, lines: Mapping[int, int]) -> list[Undecided]:
        """Return the causes with the lines of the submitted code."""
        return [
            {"line": lines.get(line or 0, line), "operation": operation, "reason": reason}
            for line, operation, reason in self.found
        ]


_current: ContextVar[Causes | None] = ContextVar("causes", default=None)


@contextmanager
def collect(causes: Causes) -> Iterator[None]:
    """Add the causes that this process notes until the context ends."""
    token = _current.set(causes)
    try:
        yield
    finally:
        _current.reset(token)


def note_operation(function: Callable[..., object], reason: str) -> None:
    """Note that an operation of the line that runs now is undecided."""
    causes = _current.get()
    if causes is not None:
        frame = sys._getframe(1)  # noqa: SLF001 - there is no public access to the running line
        causes.add(_find_line(frame), getattr(function, "__qualname__", repr(function)), reason)


def note_exception(error: BaseException) -> None:
    """Note where CrossHair has left a path, or where a run with concrete values has ended."""
    causes, reason = _current.get(), _REASONS.get(type(error).__name__)
    if causes is not None and reason is not None:
        line = _find_last_line(error.__traceback__)
        causes.add(line, _read_line(line), reason)


def _find_line(frame: FrameType | None) -> int | None:
    while frame is not None and frame.f_code.co_filename != FILE_NAME:
        frame = frame.f_back
    return frame.f_lineno if frame else None


def _find_last_line(trace: TracebackType | None) -> int | None:
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE_NAME:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def _read_line(line: int | None) -> str:
    return linecache.getline(FILE_NAME, line).strip() if line else ""


def map_lines(source: str, tree: ast.Module) -> dict[int, int]:
    """Return the line of the submitted code for each line of the canonical source."""
    nodes = zip(ast.walk(ast.parse(source)), ast.walk(tree), strict=True)
    pairs = [(getattr(one, "lineno", None), getattr(other, "lineno", None)) for one, other in nodes]
    return {one: other for one, other in reversed(pairs) if one and other}
