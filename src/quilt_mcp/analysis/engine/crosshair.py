"""The adapter for CrossHair. Only this module uses CrossHair's internals, which are undocumented and pinned.

An exploration runs a *program* for each path: first with symbolic arguments, while CrossHair decides each branch with
its solver, then with concrete arguments for that path that the solver found. Both runs must have the same judgement. So
everything that is reported has happened in plain Python, and a path on which CrossHair's model of Python is wrong
counts as undecided. Where its models are known to be wrong, they are corrected, or a path that uses one stays
undecided.
"""

import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from inspect import BoundArguments, Signature
from re import _parser
from time import perf_counter
from typing import Any

from crosshair import core, statespace, type_repo
from crosshair.copyext import CopyMode, deepcopyext
from crosshair.core import ExceptionFilter, ExplorationResult, PathOutcome, deep_realize, explore_loop, gen_args
from crosshair.core_and_libs import (
    NoTracing,
    ResumedTracing,  # importing it registers the models of the library types
)
from crosshair.enforce import EnforcedConditions
from crosshair.libimpl import builtinslib, relib
from crosshair.options import DEFAULT_OPTIONS, AnalysisKind, AnalysisOptionSet
from crosshair.statespace import CallAnalysis, RootNode, StateSpace, VerificationStatus
from crosshair.util import CrossHairInternal, NotDeterministic, UnexploredPath
from z3 import Z3Exception  # type: ignore[import-untyped] # z3 ships no type information

from quilt_mcp.analysis.engine.candidates import SHARED, separate
from quilt_mcp.analysis.engine.exploration import (
    Budget,
    ConcreteRun,
    End,
    Exploration,
    NoArguments,
    Program,
    Raised,
    Returned,
    Undecided,
    Watch,
    collect,
    note_exception,
    note_operation,
)
from quilt_mcp.analysis.engine.subjects import satisfy_invariants
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES

_PLAIN = (int, float, bool, str, bytes, type(None))
# The model of these functions and methods differs from Python for some values
_HELD_FUNCTIONS: tuple[Callable[..., object], ...] = (
    *(re.Pattern.search, re.Pattern.split, re.Pattern.sub, re.Pattern.subn),
    *(re.Pattern.findall, re.Pattern.finditer),
    *(chr, format, ascii, hash, str.format, str.format_map, str.__mod__),
    *(json.dumps, json.loads, json.JSONEncoder.encode, json.JSONDecoder.decode),
    *(statistics.mean, statistics.median, statistics.fmean, statistics.stdev, statistics.pstdev),
)
_HELD_TEXT_METHODS = (
    *("capitalize", "casefold", "expandtabs", "format", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit"),
    *("isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower", "splitlines"),
    *("swapcase", "title", "translate", "upper", "zfill", "__mod__", "__format__", "encode"),
    *("split", "rsplit", "strip", "lstrip", "rstrip"),  # white space of Unicode
)


def correct_models() -> None:
    """Correct the models in this process. This cannot be undone.

    `AttributeError, KeyError`: CrossHair has no such model. The process must not analyse anything then.
    """
    for module in (core, statespace):
        vars(module)["process_time"] = perf_counter  # its limits are seconds, not seconds of CPU time
    relib.parse = _parse_pattern
    vars(core)["get_subclass_map"] = _list_subclasses
    registered = core._PATCH_REGISTRATIONS  # noqa: SLF001 - there is no public access
    for function in _HELD_FUNCTIONS:
        registered[function] = _hold(registered.get(function, function), function)
    registered[len] = _hold(registered[len], len, (builtinslib.SymbolicRange,))  # one can be longer than a C integer
    for name in _HELD_TEXT_METHODS:
        plain = getattr(builtinslib.LazyIntSymbolicStr, name)
        setattr(builtinslib.LazyIntSymbolicStr, name, _hold(plain, getattr(str, name)))


_USABLE = frozenset({"builtins", *ALLOWED_MODULES})
_list_all_subclasses = type_repo.get_subclass_map


def _list_subclasses() -> dict[type, list[type]]:
    """Return the subclasses of each class that the code can name, in an order that does not depend on the process.

    CrossHair chooses among them for an argument. The process also has classes of the analyser and of other modules.
    """
    if type_repo._MAP is None:  # noqa: SLF001 - there is no public access
        found: dict[type, list[type]] = defaultdict(list)
        for cls, known in _list_all_subclasses().items():
            found[cls] = sorted(filter(_is_usable, known), key=lambda one: (str(one.__module__), one.__qualname__))
        type_repo._MAP = found  # noqa: SLF001 - the same
    return type_repo._MAP  # noqa: SLF001 - the same


def _is_usable(cls: type) -> bool:
    """Return whether the code defines a class, or could import it by its name."""
    module = str(cls.__module__)
    if module == MODULE_NAME:
        return True
    return module in _USABLE and getattr(sys.modules.get(module), cls.__qualname__, None) is cls


def _hold(
    model: Callable[..., object], model_of: Callable[..., object], kinds: tuple[type, ...] = ()
) -> Callable[..., object]:
    """Make a model leave its path undecided if an argument is of these kinds, by default if it can be symbolic."""

    def held(*args: object, **kwargs: object) -> object:
        with NoTracing():  # type: ignore[no-untyped-call] # CrossHair has no annotation
            space = statespace.optional_context_statespace()
            given = (*args, *kwargs.values())
            is_held = any(isinstance(one, kinds) if kinds else type(one) not in _PLAIN for one in given)
            if space is not None and is_held:
                note_operation(model_of)
                space.cap_result_at_unknown()  # type: ignore[no-untyped-call] # the same
        return model(*args, **kwargs)

    return held


_plain_parse = relib.parse
_LINE_FEED = 10


def _parse_pattern(pattern: object, flags: int) -> list[Any]:
    """Parse a regular expression. Outside of multi-line mode, `$` also matches before a line feed at the end."""
    parsed = _plain_parse(pattern, flags)
    return list(_expand_ends(parsed)) if not flags & re.MULTILINE else parsed


def _expand_ends(items: Sequence[Any]) -> Iterator[Any]:
    for operation, argument in items:
        if operation is relib.AT and argument is relib.AT_END:
            end = [(relib.AT, relib.AT_END_STRING)]
            before = [(relib.ASSERT, (1, [(relib.LITERAL, _LINE_FEED), *end]))]
            yield relib.BRANCH, (None, [end, before])
        else:
            yield operation, _expand_argument(argument)


def _expand_argument(argument: Any) -> Any:
    if isinstance(argument, _parser.SubPattern):
        argument.data = list(_expand_ends(argument.data))
        return argument
    if isinstance(argument, list):
        return [_expand_argument(one) for one in argument]
    if isinstance(argument, tuple):
        return tuple(_expand_argument(one) for one in argument)
    return argument


# The maximum share of the time limit for one path, and the minimum for a path, in seconds
_PATH_SHARE = 0.1
_PATH_LEAST = 0.2
_MOST_ARGUMENTS = 60
_OTHER_RESULT = "The analyser's model of Python had another result than Python."

correct_models()


# Code must use symbolic values only under this context manager
_tracing: Callable[[], AbstractContextManager[object]] = ResumedTracing


class _Symbolic:
    symbolic = True

    def call(self, function: Callable[..., object], *args: object, **kwargs: object) -> Returned | Raised:
        value = None
        with ExceptionFilter() as caught:
            try:
                with _tracing():
                    value = function(*args, **kwargs)
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
        return self.end

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
        if self._unstable or self.watch.state() != self.before:
            self._unstable = True
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN), breakout=True)
        return PathOutcome(outcome.analysis, breakout=outcome.breakout or self.watch.enough())

    def _judge(self, space: StateSpace) -> PathOutcome:
        """Judge a path twice: with symbolic arguments, then in plain Python with concrete ones of the same path."""
        original = self._create_arguments()
        symbolic, concrete = _Symbolic(), ConcreteRun()
        expected = self.program(symbolic, symbolic.copy(original))
        with _tracing():
            space.detach_path()  # after this, concrete values do not narrow the path
        realized = _rebuild(original, deep_realize)
        arguments = separate(realized)  # as a test writes them
        judgement = self.program(concrete, concrete.copy(arguments))
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
        if judgement.kind != expected.kind:
            is_shared = self.program(concrete, concrete.copy(realized)).kind == expected.kind
            self.found.causes.add(f"{SHARED.capitalize()}." if is_shared else _OTHER_RESULT)
            self.found.undecided += 1
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        if space.status_cap is not None:  # `_hold` has noted an operation, or CrossHair has used a float
            self._count_undecided("The analyser's model of a float is not exact.")
            return PathOutcome(CallAnalysis(VerificationStatus.UNKNOWN))
        if judgement.outside:
            self.found.outside += 1
            return PathOutcome(CallAnalysis())
        self.found.decided += 1
        return PathOutcome(CallAnalysis(VerificationStatus.CONFIRMED))

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
