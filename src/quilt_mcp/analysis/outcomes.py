"""What every analysis needs around an exploration: its limits, its clock, and sentences about how it ended."""

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from quilt_mcp.analysis import engine
from quilt_mcp.analysis.exploration import Budget, End, Exploration, NoArguments, Program
from quilt_mcp.analysis.loaded import Loaded
from quilt_mcp.analysis.stability import Fingerprint, changing_name
from quilt_mcp.analysis.subjects import AnalysisRefused, Subject

# The share of the wall-clock limit that the search may take; the rest is for loading the code and for the answer
_SEARCH_SHARE = 0.75


class PathLimit(Protocol):
    """The part of the policy that an analysis obeys."""

    @property
    def coverage_threshold(self) -> int:
        """The most paths that are explored for one condition."""


@dataclass(slots=True)
class Task:
    """One analysis under way.

    Attributes:
        loaded: the code.
        seconds: the wall-clock limit of the whole analysis.
        path_limit: the most paths for one condition.
    """

    loaded: Loaded
    seconds: float
    path_limit: int
    started: float = field(default_factory=time.perf_counter)

    def explore(self, subject: Subject, program: Program, *, share: float = 1.0, seen: Any = None) -> Exploration:
        """Explore within this share of the time that is left; nothing, if the code is seen to be unstable at once."""
        if changing_name(self.loaded.tree):
            return Exploration(End.UNSTABLE)
        budget = Budget(max(0.0, self.seconds * _SEARCH_SHARE - self.elapsed()) * share, self.path_limit)
        watched = {"seen": seen} if seen else {}
        state = Fingerprint(self.loaded.module)
        try:
            return engine.explore(program, subject.signature, budget, state=state, **watched)
        except NoArguments as error:
            raise AnalysisRefused(
                "UnsupportedSignature",
                f"No arguments can be made up for `{subject.function.__name__}`. Annotate each parameter with a type.",
            ) from error

    def keep(self, answer: dict[str, Any]) -> None:
        """Keep an answer for the case that the wall clock ends the analysis."""
        self.loaded.report(answer | {"time_seconds": self.seconds})

    def elapsed(self) -> float:
        """Seconds since the analysis began, to the millisecond."""
        return round(time.perf_counter() - self.started, 3)


def undecided_message(end: End, path_limit: int) -> str:
    """Why nothing was decided, and what may help."""
    return {
        End.TIME: "The time limit was reached first. Raise timeout_seconds, or bound loops and lengths.",
        End.PATHS: f"The limit of {path_limit} paths was reached first. Bound loops and lengths.",
        End.UNSTABLE: "The code depends on or changes something that outlives a call (the time, an identity, random "
        "numbers, module data). Pass it in as an argument instead.",
    }.get(end, "Some paths lead where the engine cannot decide, for example into library code written in C.")
