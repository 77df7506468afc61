"""The words of an exploration: what a program is given, what it judges, and what comes of it.

A program runs analysed code by `Run.call` and judges the run. It is run once per path with symbolic arguments and once
with concrete ones; see engine.py.
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from inspect import BoundArguments
from typing import Any, Protocol


class End(enum.Enum):
    """Why an exploration ended."""

    ALL_PATHS = "all paths were decided"
    STOPPED = "the path that was looked for was found"
    UNDECIDED = "some paths could not be decided"
    PATHS = "the limit of paths was reached"
    TIME = "the time limit was reached"
    UNSTABLE = "the code answers differently from one call to the next"


@dataclass(frozen=True, slots=True)
class Returned:
    """A call that returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """A call that raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a program says of one run.

    Attributes:
        kind: compared between the symbolic and the concrete run of a path.
        stop: whether this is what the exploration looks for.
        outside: whether the arguments are not among those to be judged.
        detail: for the report, from the concrete run.
    """

    kind: Hashable
    stop: bool = False
    outside: bool = False
    detail: Any = None


class Run(Protocol):
    """How a program calls analysed code: alike in symbolic and in concrete runs."""

    symbolic: bool

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Returned | Raised:
        """Call, and tell what came of it."""

    def copy(self, arguments: BoundArguments) -> BoundArguments:
        """A deep copy."""


class Undecided(Exception):
    """Raised by a program that cannot judge a run."""


class NoArguments(Exception):
    """No arguments can be made up for these annotations, because one of them is no type."""


Program = Callable[[Run, BoundArguments], Judgement]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one exploration: seconds of CPU time, and number of paths."""

    seconds: float
    paths: int


@dataclass(slots=True)
class Exploration:
    """What came of an exploration.

    Attributes:
        end: why it ended.
        paths: how many paths were run.
        decided: how many of them were judged alike in both runs, the arguments being among those to be judged.
        outside: how many had arguments that are not.
        undecided: how many the engine gave up, or judged otherwise than Python.
        arguments: for End.STOPPED, the concrete arguments.
        judgement: for End.STOPPED, the judgement of the concrete run.
    """

    end: End = End.TIME
    paths: int = 0
    decided: int = 0
    outside: int = 0
    undecided: int = 0
    arguments: BoundArguments | None = None
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """One line of a contract: its expression, and a function from the names it may use to its value."""

    source: str
    evaluate: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Contract:
    """The `pre:`, `post:` and `raises:` lines of a function's docstring (PEP 316), and what is wrong with them."""

    pre: list[Clause]
    post: list[Clause]
    raises: tuple[type[BaseException], ...]
    problems: list[str]
