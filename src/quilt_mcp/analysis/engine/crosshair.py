"""The adapter for CrossHair, whose internals are undocumented, so its version is pinned.

An exploration runs a *program* for each path: first with symbolic arguments, while CrossHair decides each branch with
its solver, then with concrete arguments for that path that the solver found. Both runs must have the same judgement. So
everything that is reported has happened in plain Python, and a path on which CrossHair's model of Python is wrong
counts as undecided. If all paths were decided, plain Python must also execute the same instructions on each of them.
"""

import dis
import functools
import gc
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from inspect import BoundArguments, Signature
from time import perf_counter
from types import FrameType
from typing import Any

from crosshair.copyext import CopyMode, deepcopyext
from crosshair.core import ExceptionFilter, ExplorationResult, PathOutcome, deep_realize, explore_loop, gen_args
from crosshair.core_and_libs import ResumedTracing  # importing it registers the models of the library types
from crosshair.enforce import EnforcedConditions
from crosshair.options import DEFAULT_OPTIONS, AnalysisKind, AnalysisOptionSet
from crosshair.statespace import CallAnalysis, RootNode, StateSpace, VerificationStatus
from crosshair.tracers import COMPOSITE_TRACER, TracingModule
from crosshair.util import CrossHairInternal, NotDeterministic, UnexploredPath
from z3 import Z3Exception  # type: ignore[import-untyped] # z3 ships no type information

from quilt_mcp.analysis.engine.candidates import SHARED, separate
from quilt_mcp.analysis.engine.exploration import (
    Budget,
    ConcreteRun,
    End,
    Exploration,
    Judgement,
    NoArguments,
    Program,
    Raised,
    Returned,
    Run,
    Step,
    Undecided,
    Watch,
    collect,
    note_exception,
    watch_exceptions,
)
from quilt_mcp.analysis.engine.models import correct_models
from quilt_mcp.analysis.engine.states import note_change
from quilt_mcp.analysis.engine.subjects import satisfy_invariants
from quilt_mcp.analysis.gate.rules import Interrupted
from quilt_mcp.analysis.messages import FILE_NAME, FOLDER, MODULE_NAME

# The maximum share of the time limit for one path, and the minimum for a path, in seconds
_PATH_SHARE = 0.1
_PATH_LEAST = 0.2
_MOST_ARGUMENTS = 60
_CACHED = type(functools.cache(id))
_LONGEST_AGAIN = 2.0  # seconds of a run
_OTHER_PATH = "Python takes another path here than the analyser's model of it."
_OTHER_RESULT = "The analyser's model of Python had another result than Python."

correct_models()


# Code must use symbolic values only under this context manager
_tracing: Callable[[], AbstractContextManager[object]] = ResumedTracing


# What begins a frame, or belongs to the next instruction, is not traced in plain Python
_UNTRACED = frozenset(
    dis.opmap[name]
    for name in ("RESUME", "MAKE_CELL", "COPY_FREE_VARS", "RETURN_GENERATOR", "EXTENDED_ARG", "CACHE")
    if name in dis.opmap
)


class _Steps(TracingModule):  # type: ignore[no-untyped-call] # CrossHair has no annotation
    """Collects the instructions of the code that a symbolic run executes."""

    opcodes_wanted = frozenset(range(256)) - _UNTRACED

    def __init__(self) -> None:
        self.found: set[Step] = set()
        self.lines: set[int | None] = set()

    def trace_op(self, frame: FrameType, *_: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(FOLDER):
            self.found.add((id(code), frame.f_lasti))
            if code.co_filename == FILE_NAME:
                self.lines.add(frame.f_lineno)


class _Symbolic:
    symbolic = True

    def __init__(self) -> None:
        self.steps = _Steps()

    def call(self, function: Callable[..., object], *args: object, **kwargs: object) -> Returned | Raised:
        value = None
        with watch_exceptions(), ExceptionFilter() as caught:
            try:
                with _tracing():
                    COMPOSITE_TRACER.push_module(self.steps)
                    try:
                        value = function(*args, **kwargs)
                    finally:
                        COMPOSITE_TRACER.pop_config(self.steps)
            except BaseException as error:
                note_exception(error)
                raise
        if caught.ignore:
            raise Undecided
        if caught.user_exc is None:
            return Returned(value)
        if isinstance(caught.user_exc[0], NotDeterministic):
            raise caught.user_exc[0]
        return Raised(caught.user_exc[0])

    def copy(self, arguments: BoundArguments) -> BoundArguments:
        return _rebuild(arguments, lambda one, memo: deepcopyext(one, CopyMode.REGULAR, memo))


def _rebuild(arguments: BoundArguments, make: Callable[[object, dict[int, object]], object]) -> BoundArguments:
    """Rebuild each argument with a function of CrossHair.

    The function never gets the `BoundArguments`: it puts what it gets into the memo, which copied code could see.

    Raises:
        Undecided: the function fails, as for some classes that are written in C, or code that it calls fails.
    """
    memo: dict[int, object] = {}
    try:
        values = {name: make(one, memo) for name, one in arguments.arguments.items()}
    except NotDeterministic:
        raise
    except Exception as error:  # copied classes can raise any exception
        raise Undecided from error
    return BoundArguments(arguments.signature, values)


@dataclass(slots=True)
class SymbolicSearch:
    """A search on the paths of a program. It can be continued."""

    program: Program  # runs the analysed code with `Run.call` and judges the run
    signature: Signature  # of the arguments to create, with resolved annotations
    watch: Watch  # the callbacks of the search
    found: Exploration  # the exploration. The search counts its paths there.
    before: Hashable  # the fingerprint before the search
    kinds: set[Hashable] = field(default_factory=set)  # the kinds of the judgements of concrete runs
    end: End = End.TIME  # why the last part of the search ended
    _root: RootNode = field(default_factory=RootNode)
    _unstable: bool = False
    _arguments: list[BoundArguments] = field(default_factory=list)
    # the arguments of each decided path, and the instructions that it executes
    _decided: list[tuple[BoundArguments, set[Step]]] = field(default_factory=list)

    def follow(self, seconds: float, budget: Budget) -> End:
        """Follow paths for some time. Return how the search ends. `NoArguments`: an annotation is not a type."""
        left = budget.paths - self.found.paths
        if self.end is End.UNDECIDED or left <= 0 or seconds <= 0:
            return self.end
        counts: Counter[str] = Counter()
        options = _make_options(seconds, budget.seconds * _PATH_SHARE, left, counts)
        with collect(self.found.causes):
            result = explore_loop(options, self._root, self._run_path)
            self.found.paths += counts["num_paths"]
            self.end = End.UNSTABLE if self._unstable else self._find_end(result, budget)
            if self.end is End.ALL_PATHS and not self._execute_again():
                self.end = End.UNDECIDED
        return self.end

    def _execute_again(self) -> bool:
        """Return whether plain Python executes the same instructions on each path, and note where it does not."""
        caches = _list_caches()  # on symbolic paths, a call is executed although its result is known
        for arguments, expected in self._decided:
            for cache in caches:
                cache.cache_clear()
            steps: dict[Step, int | None] = {}
            run = ConcreteRun(perf_counter() + _LONGEST_AGAIN, steps=steps)
            try:
                self.program(run, run.copy(arguments))
            except (Undecided, Interrupted):
                return False
            if steps.keys() != expected:
                lines = [line for step, line in steps.items() if line and step not in expected]
                self.found.causes.add(_OTHER_PATH, min(lines, default=None))
                return False
        return True

    def take_arguments(self) -> list[BoundArguments]:
        """Return arguments of the paths since the last call."""
        taken, self._arguments = self._arguments, []
        return taken

    def _run_path(self, space: StateSpace) -> PathOutcome:
        """Follow one path, for CrossHair. An outcome with `breakout` ends the search, as one of unstable code does."""
        outcome = PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        try:
            outcome = self._judge(space)
        except NotDeterministic:
            self._unstable = True
        except (Undecided, CrossHairInternal, Z3Exception, RecursionError):
            self._count_undecided("The analyser cannot follow a path to its end.")
        except UnexploredPath as error:  # outside of the analysed code
            note_exception(error)
            self._count_undecided("The analyser cannot create the arguments of a path.")
            raise
        is_new = not self.found.varies and note_change(self.found, self.before, self.watch.state())
        if is_new and self.found.arguments:  # found, but not in a first call
            self._arguments.append(self.found.arguments)
            self.found.arguments = self.found.judgement = None
        if self._unstable:
            self.found.varies = True
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN), breakout=True)
        return PathOutcome(outcome.analysis, breakout=outcome.breakout or self.watch.enough())

    def _judge(self, space: StateSpace) -> PathOutcome:
        """Judge a path twice: with symbolic arguments, then in plain Python with concrete ones of the same path."""
        original = self._create_arguments()
        symbolic, concrete = _Symbolic(), ConcreteRun()
        expected = self._run(symbolic, original)
        with _tracing():
            space.detach_path()  # after this, concrete values do not narrow the path
        realized = _rebuild(original, deep_realize)
        arguments = separate(realized)  # as a test writes them
        judgement = self._run(concrete, arguments)
        is_valid = satisfy_invariants(concrete, arguments)  # CrossHair creates the items of a list without them
        if not (is_valid or judgement.outside):
            self._count_undecided("An object in an argument does not satisfy the invariants of its class.")
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        if judgement.stop:
            self.found.arguments, self.found.judgement = arguments, judgement
            return PathOutcome(CallAnalysis(VerificationStatus.REFUTED), breakout=True)
        self.watch.on_judgement(arguments, judgement)
        self.kinds.add(judgement.kind)
        if is_valid and len(self._arguments) < _MOST_ARGUMENTS:
            self._arguments.append(arguments)
        self.found.lines |= {line for line in symbolic.steps.lines if line}
        if judgement.kind != expected.kind:
            is_shared = self._run(concrete, realized).kind == expected.kind
            self.found.causes.add(f"{SHARED.capitalize()}." if is_shared else _OTHER_RESULT)
            self.found.undecided += 1
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        if space.status_cap is not None:  # `_hold` has noted an operation, or CrossHair has used a float
            self._count_undecided("The analyser's model of a float is not exact.")
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        self._decided.append((arguments, symbolic.steps.found))
        if judgement.outside:
            self.found.outside += 1
            return PathOutcome(CallAnalysis())
        self.found.decided += 1
        return PathOutcome(CallAnalysis(VerificationStatus.CONFIRMED))

    def _run(self, run: Run, arguments: BoundArguments) -> Judgement:
        if self.found.varies:
            self.watch.restore(0)  # the same random numbers on all paths
        return self.program(run, run.copy(arguments))

    def _count_undecided(self, reason: str) -> None:
        """Count an undecided path, and note the reason unless one is known."""
        self.found.undecided += 1
        if not self.found.causes.found:
            self.found.causes.add(reason)

    def _create_arguments(self) -> BoundArguments:
        try:
            with EnforcedConditions().enabled_enforcement():  # arguments satisfy the invariants of their classes
                arguments: BoundArguments = gen_args(self.signature)
                return arguments
        except (TypeError, AttributeError, NameError, ValueError) as error:
            raise NoArguments from error

    def _find_end(self, result: ExplorationResult, budget: Budget) -> End:
        found = self.found
        status = result.top_analysis.verification_status if result.top_analysis else None
        if found.judgement is not None:
            return End.STOPPED
        if self.watch.enough():
            return End.ENOUGH
        if result.exhausted:
            only_outside = status is None and found.outside == found.paths
            return End.ALL_PATHS if status is VerificationStatus.CONFIRMED or only_outside else End.UNDECIDED
        if found.paths < budget.paths:
            return End.TIME
        return End.UNDECIDED if found.undecided else End.PATHS


def _list_caches() -> list[Any]:
    """Return the functions of the code that keep their results."""
    kept = [one for one in gc.get_objects() if type(one) is _CACHED]
    return [one for one in kept if getattr(one.__wrapped__, "__module__", None) == MODULE_NAME]


def _make_options(seconds: float, path_seconds: float, paths: int, counts: Counter[str]) -> Any:
    return DEFAULT_OPTIONS.overlay(
        AnalysisOptionSet(
            analysis_kind=(AnalysisKind.PEP316,),
            enabled=True,
            per_condition_timeout=seconds,
            per_path_timeout=max(_PATH_LEAST, path_seconds),
            max_iterations=paths,
            stats=counts,
        )
    )
