"""The adapter over CrossHair: the only module that knows its internals, which are undocumented and pinned.

An exploration runs a *program* once per path: first with symbolic arguments, while the engine decides each branch with
its solver; then, for that path, with concrete arguments that the solver found. Both runs must judge alike, so that what
is reported was seen to happen in plain Python, and a path on which the engine's model of Python is wrong counts as
undecided.
"""

import copy
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from inspect import BoundArguments, Signature
from typing import Any

from crosshair.condition_parser import Pep316Parser
from crosshair.copyext import CopyMode, deepcopyext
from crosshair.core import ExceptionFilter, ExplorationResult, PathOutcome, deep_realize, explore_loop, gen_args
from crosshair.core_and_libs import ResumedTracing  # importing it registers the models of the library types
from crosshair.enforce import EnforcedConditions
from crosshair.fnutil import FunctionInfo, resolve_signature
from crosshair.options import DEFAULT_OPTIONS, AnalysisKind, AnalysisOptionSet
from crosshair.statespace import CallAnalysis, RootNode, StateSpace, VerificationStatus
from crosshair.util import AttributeHolder, CrossHairInternal, NotDeterministic
from z3 import Z3Exception  # type: ignore[import-untyped] # z3 ships no type information

from quilt_mcp.analysis.boundaries import boundary_arguments
from quilt_mcp.analysis.exploration import (
    Budget,
    Clause,
    Contract,
    End,
    Exploration,
    Judgement,
    NoArguments,
    Program,
    Raised,
    Returned,
    Undecided,
)

# The share of the time limit that one path may take, and the least it gets, in seconds of CPU time
_PATH_SHARE = 0.1
_PATH_LEAST = 0.2


# What runs under it may meet symbolic values; all else must not
_tracing: Callable[[], AbstractContextManager[Any]] = ResumedTracing


class _Symbolic:
    symbolic = True

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Returned | Raised:
        value = None
        with ExceptionFilter() as caught, _tracing():
            value = function(*args, **kwargs)
        if caught.ignore:
            raise Undecided
        if caught.user_exc is None:
            return Returned(value)
        if isinstance(caught.user_exc[0], NotDeterministic):
            raise caught.user_exc[0]
        return Raised(caught.user_exc[0])

    def copy(self, arguments: BoundArguments) -> BoundArguments:
        copied: BoundArguments = deepcopyext(arguments, CopyMode.REGULAR, {})
        return copied


class _Concrete:
    symbolic = False

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Returned | Raised:
        try:
            return Returned(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whatever the analysed code raises is the outcome
            return Raised(error)

    def copy(self, arguments: BoundArguments) -> BoundArguments:
        return copy.deepcopy(arguments)


@dataclass(slots=True)
class _Search:
    """The path-by-path work of one exploration, in the form that CrossHair's loop calls it."""

    program: Program
    signature: Signature
    state: Callable[[], Hashable]
    seen: Callable[[BoundArguments, Judgement], None]
    found: Exploration
    kinds: set[Hashable] = field(default_factory=set)
    before: Hashable = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.state()

    def run_path(self, space: StateSpace) -> PathOutcome:
        try:
            outcome = self._judge(space)
        except NotDeterministic:
            self.found.end = End.UNSTABLE
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN), breakout=True)
        except (Undecided, CrossHairInternal, Z3Exception, RecursionError):
            self.found.undecided += 1
            outcome = PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        if self.state() != self.before:
            self.found.end = End.UNSTABLE
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN), breakout=True)
        return outcome

    def _judge(self, space: StateSpace) -> PathOutcome:
        original = self._arguments()
        symbolic, concrete = _Symbolic(), _Concrete()
        expected = self.program(symbolic, symbolic.copy(original))
        with _tracing():
            space.detach_path()  # from here on, choosing concrete values does not narrow what the path covers
        arguments = deep_realize(original)
        judgement = self.program(concrete, concrete.copy(arguments))
        if judgement.stop:
            self.found.arguments, self.found.judgement = arguments, judgement
            return PathOutcome(CallAnalysis(VerificationStatus.REFUTED), breakout=True)
        self.seen(arguments, judgement)
        self.kinds.add(judgement.kind)
        if judgement.kind != expected.kind:
            self.found.undecided += 1
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        if judgement.outside:
            self.found.outside += 1
            return PathOutcome(CallAnalysis())
        self.found.decided += 1
        return PathOutcome(CallAnalysis(VerificationStatus.CONFIRMED))

    def _arguments(self) -> BoundArguments:
        try:
            with EnforcedConditions().enabled_enforcement():  # arguments meet the invariants of their classes
                arguments: BoundArguments = gen_args(self.signature)
                return arguments
        except (TypeError, AttributeError, NameError, ValueError) as error:
            raise NoArguments from error

    def try_out(self, candidates: Iterable[BoundArguments], deadline: float) -> End:
        """Judge these arguments in plain Python, after all paths were decided; tell what then holds."""
        run = _Concrete()
        for arguments in candidates:
            if time.process_time() > deadline:
                return End.TIME
            try:
                judgement = self.program(run, run.copy(arguments))
            except Undecided:
                return End.UNDECIDED
            if self.state() != self.before:
                return End.UNSTABLE
            if judgement.stop:
                self.found.arguments, self.found.judgement = arguments, judgement
                return End.STOPPED
            self.seen(arguments, judgement)
            if not judgement.outside and judgement.kind not in self.kinds:
                return End.UNDECIDED  # there is a path that the engine did not see
        return End.ALL_PATHS


def explore(
    program: Program,
    signature: Signature,
    budget: Budget,
    *,
    state: Callable[[], Hashable] = lambda: None,
    seen: Callable[[BoundArguments, Judgement], None] = lambda *_: None,
) -> Exploration:
    """Run a program on every path that arguments of these types can take, until one judgement says stop.

    Args:
        program: runs the analysed code by `Run.call` and judges the run.
        signature: of the arguments to make up, with resolved annotations.
        budget: the limits; they are looked at between two paths and at each question to the solver.
        state: a fingerprint of everything that outlives a call; if a path changes it, nothing can be said.
        seen: told of each judgement of a concrete run that does not say stop, with its arguments.

    Raises:
        NoArguments: an annotation is no type.
    """
    found = Exploration()
    search = _Search(program, signature, state, seen, found)
    deadline = time.process_time() + budget.seconds
    counts: Counter[str] = Counter()
    result = explore_loop(_options(budget, counts), RootNode(), search.run_path)
    found.paths = counts["num_paths"]
    if found.end is not End.UNSTABLE:
        found.end = _end(found, result, budget)
    if found.end is End.ALL_PATHS:
        found.end = search.try_out(boundary_arguments(signature), deadline)
    if found.end is not End.STOPPED:
        found.arguments = found.judgement = None
    return found


def _end(found: Exploration, result: ExplorationResult, budget: Budget) -> End:
    status = result.top_analysis.verification_status if result.top_analysis else None
    if found.judgement is not None:
        return End.STOPPED
    if result.exhausted:
        only_outside = status is None and found.outside == found.paths
        return End.ALL_PATHS if status is VerificationStatus.CONFIRMED or only_outside else End.UNDECIDED
    if found.paths < budget.paths:
        return End.TIME
    return End.UNDECIDED if found.undecided else End.PATHS


def _options(budget: Budget, counts: Counter[str]) -> Any:
    return DEFAULT_OPTIONS.overlay(
        AnalysisOptionSet(
            analysis_kind=(AnalysisKind.PEP316,),
            enabled=True,
            per_condition_timeout=budget.seconds,
            per_path_timeout=max(_PATH_LEAST, budget.seconds * _PATH_SHARE),
            max_iterations=budget.paths,
            stats=counts,
        )
    )


def signature_of(function: Callable[..., Any]) -> Signature | None:
    """The signature with its annotations resolved to types; None if that is not possible."""
    try:
        resolved = resolve_signature(function)
    except SyntaxError:  # an annotation is text that is no expression
        return None
    return resolved if isinstance(resolved, Signature) else None


def contract_of(function: Callable[..., Any]) -> Contract:
    """The contract in the docstring of a function. A `pre:` alone promises that nothing is raised."""
    parsed = Pep316Parser().get_fn_conditions(FunctionInfo(None, "", function))
    if parsed is None:
        return Contract([], [], (), [])
    problems = [problem.message for problem in parsed.syntax_messages()]
    pre = [Clause(one.expr_source, one.evaluate) for one in parsed.pre if one.evaluate]
    post = [Clause(one.expr_source, one.evaluate) for one in parsed.post if one.evaluate]
    return Contract(pre, post, tuple(sorted(parsed.raises, key=lambda error: error.__name__)), problems)


def old_values(arguments: BoundArguments) -> Any:
    """What `__old__` is in a contract: an object with the arguments, as they were before the call, as attributes."""
    return AttributeHolder(arguments.arguments)
