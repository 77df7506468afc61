"""An exploration: what a program gets and returns, its runs in plain Python, and why paths stay undecided.

A program runs analysed code with `Run.call` and judges the run. It runs once for each path with symbolic arguments and
once with concrete ones; see `crosshair.py`. The time limit of a run in plain Python holds at each line of the analysed
code. Code in C is not interrupted: the server kills the process then.
"""

import ast
import copy
import enum
import gc
import linecache
import math
import sys
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import BoundArguments
from types import FrameType
from typing import Any, NoReturn, Protocol

from crosshair.util import CrosshairUnsupported

from quilt_mcp.analysis.engine.scalars import Literals
from quilt_mcp.analysis.gate.rules import Interrupted, Refused
from quilt_mcp.analysis.messages import FILE_NAME, FOLDER, Cause

MOST_CAUSES = 10
_TEXT_LENGTH = 200
# The exceptions with which CrossHair or a run with concrete values ends, and what each one means
SLOW_PATH: Mapping[str, str] = {
    "PathTimeout": "One path took too long.",
    "UnknownSatisfiability": "The solver did not decide this condition in time.",
    "UnexploredPath": "The solver did not decide this condition in time.",
}
_INEXACT = "The analyser's model of this operation is not exact."
_REASONS: Mapping[str, str] = {
    "CrosshairUnsupported": "The analyser does not support this operation.",
    "Interrupted": "A run with concrete values took too long.",
    **SLOW_PATH,
}


@dataclass(slots=True)
class Causes:
    """The different causes of undecided paths, in the order of their first occurrence."""

    # the lines are those of the canonical source
    found: dict[tuple[int | None, str, str], None] = field(default_factory=dict)

    def add(self, reason: str, line: int | None = None, operation: str = "") -> None:
        """Add a cause, unless it is known or there are too many."""
        if len(self.found) < MOST_CAUSES:
            self.found[line, operation[:_TEXT_LENGTH], reason] = None

    def to_json(self, lines: Mapping[int, int]) -> list[Cause]:
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


def note_operation(function: Callable[..., object]) -> None:
    """Note that the line that runs now has an operation of which CrossHair's model is not exact."""
    causes = _current.get()
    if causes is not None:
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no public access to the running line
        while frame is not None and frame.f_code.co_filename != FILE_NAME:
            frame = frame.f_back
        causes.add(_INEXACT, frame.f_lineno if frame else None, getattr(function, "__qualname__", repr(function)))


def note_exception(error: BaseException) -> None:
    """Note where CrossHair has left a path, or where a run with concrete values has ended."""
    causes, reason = _current.get(), _REASONS.get(type(error).__name__)
    if causes is not None and reason is not None:
        own = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == FILE_NAME]
        line = own[-1] if own else None
        causes.add(reason, line, linecache.getline(FILE_NAME, line).strip() if line else "")


_raised: ContextVar[list[BaseException] | None] = ContextVar("raised", default=None)
_SWALLOWED = "The code suppresses what interrupts the analyser, as a `finally` that returns does."


def note_raised(error: BaseException) -> None:
    """Note an exception of the analyser that is created while code runs."""
    raised = _raised.get()
    if raised is not None:
        raised.append(error)


@contextmanager
def watch_exceptions() -> Iterator[None]:
    """Leave a run undecided if an exception of the analyser is raised in it and does not arrive.

    Raises:
        Undecided: there was one.
        Refused: it was one.
    """
    raised: list[BaseException] = []
    token = _raised.set(raised)
    try:
        yield
    finally:
        _raised.reset(token)
    _stop_if_swallowed(raised)


def _stop_if_swallowed(raised: list[BaseException]) -> None:
    for one in raised:
        if isinstance(one, Refused):
            raise one
        note_exception(one)
        _note(_SWALLOWED)
        raise Undecided


def _note(reason: str) -> None:
    causes = _current.get()
    if causes is not None:
        causes.add(reason)


def map_lines(source: str, tree: ast.Module) -> dict[int, int]:
    """Return the line of the submitted code for each line of the canonical source."""
    nodes = zip(ast.walk(ast.parse(source)), ast.walk(tree), strict=True)
    pairs = [(getattr(one, "lineno", None), getattr(other, "lineno", None)) for one, other in nodes]
    return {one: other for one, other in reversed(pairs) if one and other}


class End(enum.Enum):
    """Why an exploration ended."""

    ALL_PATHS = "all paths were decided"
    STOPPED = "the wanted path was found"
    ENOUGH = "the runs have shown all that was asked"
    UNDECIDED = "some paths are undecided"
    PATHS = "the limit of paths was reached"
    TIME = "the time limit was reached"
    UNSTABLE = "the same call can have different results"
    DIFFERS = "another process has a different result"


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a call that returned a value."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The result of a call that raised an exception."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Judgement:
    """A program's judgement of one run."""

    kind: Hashable  # what happened. The symbolic and the concrete run of a path must agree on it.
    stop: bool = False  # whether the exploration searches for this
    outside: bool = False  # whether the arguments violate the preconditions
    outcomes: tuple[Returned | Raised, ...] = ()  # of the calls in the run, for the answer


class Run(Protocol):
    """How a program calls analysed code, in symbolic and in concrete runs."""

    symbolic: bool

    def call(self, function: Callable[..., object], *args: object, **kwargs: object) -> Returned | Raised:
        """Call a function and return the outcome."""

    def copy(self, arguments: BoundArguments) -> BoundArguments:
        """Return a deep copy."""


class Undecided(Exception):
    """A program cannot judge a run."""


class NoArguments(Exception):
    """CrossHair cannot create arguments for these annotations, because one of them is not a type."""


Step = tuple[int, int]
"""An instruction of the code: the id of its code object, and its offset there."""
Program = Callable[[Run, BoundArguments], Judgement]
OnJudgement = Callable[[BoundArguments, Judgement], None]
"""Gets the judgement of each concrete run that does not stop the exploration, with its arguments."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of an exploration."""

    seconds: float  # for everything
    paths: int  # the maximum number of symbolic paths
    first: float = 0.1  # the share of the time for concrete values before the symbolic paths


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What is known about the code before a search."""

    literals: Literals = field(default_factory=Literals)  # the constants of the code
    loops: bool = True  # whether a large argument can make the code run for long
    obstacle: str | None = None  # why nothing can be claimed about all arguments, or None
    seed: int = 0  # of the random values
    # the cause why results differ between calls or processes, if the syntax shows one
    varies: tuple[int | None, str, str] | None = None
    sets: bool = False  # whether the code has sets
    surveys: bool = False  # whether further arguments are tried after something was found
    with_bools: bool = True  # whether a claim about `int` includes `bool`


@dataclass(slots=True)
class Survey:
    """What further arguments show after the search has found what it was for."""

    tried: int = 0  # number of arguments that meet the preconditions
    stopping: int = 0  # number of those with a judgement that the search is for
    examples: dict[Hashable, tuple[BoundArguments, Judgement]] = field(default_factory=dict)  # one of each kind


@dataclass(slots=True)
class Exploration:
    """The result of an exploration."""

    end: End = End.TIME  # why it ended
    paths: int = 0  # number of paths that were run
    decided: int = 0  # number of paths with the same judgement in both runs, and arguments that meet the preconditions
    outside: int = 0  # number of paths with arguments that violate the preconditions
    undecided: int = 0  # number of paths that CrossHair gave up, or on which it disagreed with Python
    runs: int = 0  # number of runs in plain Python with boundary values and random values
    lines: set[int] = field(default_factory=set)  # of the canonical source, that runs have executed
    longest: int | None = None  # the length up to which all paths were decided, of arguments and what is in them
    members: bool = False  # whether the runs were with all arguments of the types
    sets: bool = False  # whether the code has sets, of which the order differs between processes
    varies: bool = False  # whether the result of a call can depend on the time, random numbers or earlier calls
    complete: bool = False  # whether all paths were decided, although nothing is claimed
    obstacle: str | None = None  # why nothing can be claimed, also if all paths were decided
    causes: Causes = field(default_factory=Causes)  # why paths stayed undecided
    kinds: frozenset[Hashable] = frozenset()  # for End.ALL_PATHS, the kinds of the judgements
    arguments: BoundArguments | None = None  # for End.STOPPED, the concrete arguments
    judgement: Judgement | None = None  # for End.STOPPED, the judgement of the concrete run
    survey: Survey | None = None  # for End.STOPPED, if it was asked for


@dataclass(frozen=True, slots=True)
class Watch:
    """The callbacks of an exploration."""

    # returns a fingerprint of everything that outlives a call. If a run changes it, nothing is claimed.
    state: Callable[[], Hashable] = lambda: None
    # puts it back and seeds random numbers, for code with results that differ: then each run is a first call
    restore: Callable[[int], None] = lambda _: None
    # gets each judgement of a concrete run that does not stop the exploration
    on_judgement: OnJudgement = lambda *_: None
    # gets the exploration between its parts. The process can be killed in any of them.
    on_progress: Callable[[Exploration], None] = lambda _: None
    enough: Callable[[], bool] = lambda: False  # whether the judgements have shown all that was asked


_PLAIN = (int, float, bool, str, bytes, type(None))


class ConcreteRun:
    """Calls analysed code in plain Python, until a deadline by `time.perf_counter`, or for `longest` of CPU time.

    `lines` gets the lines of the code that are executed, `steps` the instructions with their lines.
    """

    symbolic = False

    def __init__(
        self,
        deadline: float | None = None,
        longest: float = math.inf,
        lines: set[int] | None = None,
        steps: dict[Step, int | None] | None = None,
    ) -> None:
        self._deadline = deadline
        self._last_cpu = time.process_time() + longest
        self._next_look = time.perf_counter() + longest
        self._lines = set() if lines is None else lines
        self._steps = steps
        self._interrupted = False

    def call(self, function: Callable[..., object], *args: object, **kwargs: object) -> Returned | Raised:
        """Call a function and return the outcome.

        Raises:
            Undecided: the memory is not sufficient, or the result depends on the program that uses the code.
            Interrupted: the deadline has passed.
        """
        if self._deadline is None:
            return _call(function, *args, **kwargs)
        earlier, trace, collects = sys.gettrace(), self._trace, gc.isenabled()
        gc.disable()  # it closes generators of other code, which would swallow Interrupted
        sys.settrace(trace)  # Python only borrows it, so `trace` must keep it alive
        try:
            outcome = _call(function, *args, **kwargs)
            if self._interrupted:
                raise Interrupted  # a generator has swallowed it
            return outcome
        finally:
            sys.settrace(earlier)
            if collects:
                gc.enable()

    def copy(self, arguments: BoundArguments) -> BoundArguments:
        """Return a deep copy. `Undecided`: an argument cannot be copied."""
        memo: dict[int, object] = {}
        try:
            values = {name: _copy(one, memo) for name, one in arguments.arguments.items()}
        except Exception as error:  # copied classes can raise any exception
            raise Undecided from error
        return BoundArguments(arguments.signature, values)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del event, argument
        if self._steps is not None and frame.f_code.co_filename.startswith(FOLDER):
            frame.f_trace_opcodes = True
            return self._trace_line
        if frame.f_code.co_filename == FILE_NAME:
            return self._trace_line
        self._check_time()
        return None

    def _trace_line(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if event == "line":
            self._lines.add(frame.f_lineno)
            self._check_time()
        elif event == "opcode" and self._steps is not None:
            self._steps[id(frame.f_code), frame.f_lasti] = frame.f_lineno
        return self._trace_line

    def _check_time(self) -> None:
        now = time.perf_counter()
        if self._deadline is not None and now > self._deadline:
            self._interrupt()
        if now > self._next_look:  # CPU time is slow to read. It cannot run out before `left` seconds have passed.
            left = self._last_cpu - time.process_time()
            if left <= 0:
                self._interrupt()
            self._next_look = now + left

    def _interrupt(self) -> NoReturn:
        self._interrupted = True
        raise Interrupted


def _call(function: Callable[..., object], *args: object, **kwargs: object) -> Returned | Raised:
    with watch_exceptions():
        try:
            return Returned(function(*args, **kwargs))
        except (MemoryError, CrosshairUnsupported) as error:
            note_exception(error)
            raise Undecided from None
        except Exception as error:  # noqa: BLE001 - any exception of analysed code is an outcome
            return Raised(error)


def _copy(value: Any, memo: dict[int, object]) -> Any:
    """Return a deep copy. Most values are plain, and their copy is fast. What is shared stays shared."""
    if type(value) in _PLAIN:
        return value
    if id(value) in memo:
        return memo[id(value)]
    if type(value) in {list, set} and all(type(one) in _PLAIN for one in value):
        return memo.setdefault(id(value), value.copy())
    return copy.deepcopy(value, memo)


def read_attributes(value: object) -> dict[str, object]:
    """Return the attributes in `__dict__` and in slots."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found
