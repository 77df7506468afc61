"""Runs of analysed code in plain Python, within a time limit.

The limit holds at each line of the analysed code. Code in C is not interrupted: the server kills the process then.
"""

import copy
import gc
import math
import sys
import time
from collections.abc import Callable
from inspect import BoundArguments
from types import FrameType
from typing import Any, NoReturn

from crosshair.util import CrosshairUnsupported

from quilt_mcp.analysis.engine.causes import note_exception
from quilt_mcp.analysis.engine.exploration import Raised, Returned, Undecided
from quilt_mcp.analysis.gate.project import FILE_NAME

_PLAIN = (int, float, bool, str, bytes, type(None))


class Interrupted(BaseException):
    """A run took too long. Analysed code cannot catch it."""


class ConcreteRun:
    """Calls analysed code in plain Python.

    Args:
        deadline: by `time.perf_counter`, when a run is interrupted.
        longest: seconds of CPU time after which it is interrupted.
        lines: gets the lines of the code that are executed.
    """

    symbolic = False

    def __init__(self, deadline: float | None = None, longest: float = math.inf, lines: set[int] | None = None) -> None:
        self._deadline = deadline
        self._last_cpu = time.process_time() + longest
        self._look_at = time.perf_counter() + longest
        self._lines = set() if lines is None else lines
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
        """Return a deep copy.

        Raises:
            Undecided: an argument cannot be copied.
        """
        memo: dict[int, object] = {}
        try:
            values = {name: _copy(one, memo) for name, one in arguments.arguments.items()}
        except Exception as error:  # copied classes can raise any exception
            raise Undecided from error
        return BoundArguments(arguments.signature, values)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del event, argument
        if frame.f_code.co_filename == FILE_NAME:
            return self._trace_line
        self._check_time()
        return None

    def _trace_line(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if event == "line":
            self._lines.add(frame.f_lineno)
            self._check_time()
        return self._trace_line

    def _check_time(self) -> None:
        now = time.perf_counter()
        if self._deadline is not None and now > self._deadline:
            self._interrupt()
        if now > self._look_at:  # CPU time is slow to read, and never longer than this
            left = self._last_cpu - time.process_time()
            if left <= 0:
                self._interrupt()
            self._look_at = now + left

    def _interrupt(self) -> NoReturn:
        self._interrupted = True
        raise Interrupted


def _call(function: Callable[..., object], *args: object, **kwargs: object) -> Returned | Raised:
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
