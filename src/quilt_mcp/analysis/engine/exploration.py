"""The types of an exploration: what a program gets and returns, and the result.

A program runs analysed code with `Run.call` and judges the run. It runs once for each path with symbolic arguments and
once with concrete ones; see `crosshair.py`.
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from inspect import BoundArguments, Parameter
from typing import NotRequired, Protocol

from typing_extensions import TypedDict

from quilt_mcp.analysis.engine.causes import Causes
from quilt_mcp.analysis.engine.scalars import Literals


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
    """A program's judgement of one run.

    Attributes:
        kind: what happened. The symbolic and the concrete run of a path must agree on it.
        stop: whether the exploration searches for this.
        outside: whether the arguments violate the preconditions.
        outcomes: of the calls in the run, for the answer.
    """

    kind: Hashable
    stop: bool = False
    outside: bool = False
    outcomes: tuple[Returned | Raised, ...] = ()


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


Program = Callable[[Run, BoundArguments], Judgement]
OnJudgement = Callable[[BoundArguments, Judgement], None]
"""Gets the judgement of each concrete run that does not stop the exploration, with its arguments."""


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of an exploration.

    Attributes:
        seconds: for everything.
        paths: the maximum number of symbolic paths.
        first: the share of the time for concrete values before the symbolic paths.
    """

    seconds: float
    paths: int
    first: float = 0.1


_NO_LITERALS = Literals()


def _never(arguments: BoundArguments) -> bool:
    del arguments
    return False


@dataclass(frozen=True, slots=True)
class Scope:
    """What the code says about a search.

    Attributes:
        literals: the constants of the code.
        loops: whether a large argument can make the code run for long.
        held: why nothing can be claimed about all arguments, or None.
        unsure: whether the result of a call with these arguments can depend on the process.
        seed: of the random values.
    """

    literals: Literals = _NO_LITERALS
    loops: bool = True
    held: str | None = None
    unsure: Callable[[BoundArguments], bool] = _never
    seed: int = 0


@dataclass(slots=True)
class Exploration:
    """The result of an exploration.

    Attributes:
        end: why it ended.
        paths: number of paths that were run.
        decided: number of paths with the same judgement in both runs, and arguments that meet the preconditions.
        outside: number of paths with arguments that violate the preconditions.
        undecided: number of paths that CrossHair gave up, or on which it disagreed with Python.
        runs: number of runs in plain Python with boundary values and random values.
        members: whether the runs were with all arguments of the types.
        complete: whether all paths were decided, although nothing is claimed.
        held: why nothing can be claimed, also if all paths were decided.
        causes: why paths stayed undecided.
        kinds: for End.ALL_PATHS, the kinds of the judgements.
        arguments: for End.STOPPED, the concrete arguments.
        judgement: for End.STOPPED, the judgement of the concrete run.
    """

    end: End = End.TIME
    paths: int = 0
    decided: int = 0
    outside: int = 0
    undecided: int = 0
    runs: int = 0
    members: bool = False
    complete: bool = False
    held: str | None = None
    causes: Causes = field(default_factory=Causes)
    kinds: frozenset[Hashable] = frozenset()
    arguments: BoundArguments | None = None
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """The callbacks of an exploration.

    Attributes:
        state: returns a fingerprint of everything that outlives a call. If a run changes it, nothing is decided.
        on_judgement: gets each judgement of a concrete run that does not stop the exploration.
        on_progress: gets the exploration between its parts. The process can be killed in any of them.
        enough: whether the judgements have shown all that was asked.
    """

    state: Callable[[], Hashable] = lambda: None
    on_judgement: OnJudgement = _ignore
    on_progress: Callable[[Exploration], None] = _ignore
    enough: Callable[[], bool] = lambda: False


class Coverage(TypedDict):
    """What was explored.

    Attributes:
        all_paths: whether every path was explored. Otherwise the number of all paths is not known.
        paths: number of execution paths that were run.
        undecided_paths: number of those that the analyser gave up, or on which its model disagreed with Python.
        concrete_runs: number of runs with boundary values and random values.
        all_arguments: whether these runs were with all values of the parameters' types.
        replayed: whether another process, with another hash seed and time zone, repeated the result; null if it did
            not try.
    """

    all_paths: bool
    paths: int
    undecided_paths: int
    concrete_runs: int
    all_arguments: bool
    replayed: NotRequired[bool | None]


@dataclass(frozen=True, slots=True)
class Clause:
    """One line of a contract: its expression, and a function from the names that it can use to its value."""

    source: str
    evaluate: Callable[[dict[str, object]], object]


def holds(run: Run, clause: Clause, names: dict[str, object]) -> bool:
    """Return whether a clause is true. One that raises is not."""
    outcome = run.call(lambda: bool(clause.evaluate(names)))
    return not isinstance(outcome, Raised) and bool(outcome.value)


def name_arguments(arguments: BoundArguments) -> dict[str, object]:
    """Return the values that clauses see: the arguments, and the default values of those that are left out."""
    defaults = {one.name: one.default for one in arguments.signature.parameters.values()}
    return {name: one for name, one in defaults.items() if one is not Parameter.empty} | dict(arguments.arguments)


@dataclass(frozen=True, slots=True)
class Contract:
    """The `pre:`, `post:` and `raises:` lines of a function's docstring (PEP 316), and the errors in them."""

    pre: list[Clause]
    post: list[Clause]
    raises: tuple[type[BaseException], ...]
    problems: list[str]
