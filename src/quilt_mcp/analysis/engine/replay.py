"""Repeat a result in another process, which has another hash seed and another time zone.

The first process records how each of its explorations ended: with which arguments, or that nothing was found. The
second process judges the same arguments, or tries to refute the claim with the same values and with further ones.
"""

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Signature
from random import Random
from types import ModuleType
from typing import Any

from quilt_mcp.analysis.engine.candidates import Candidates, is_harmless
from quilt_mcp.analysis.engine.concrete import ConcreteSearch
from quilt_mcp.analysis.engine.exploration import End, Exploration, Program, Scope, Watch
from quilt_mcp.analysis.engine.portable import NotPortable, read_arguments, write_arguments

Record = Mapping[str, Any]
"""How an exploration ended: the name of its `end`, its `arguments`, its `kinds` of judgements and its `paths`."""


@dataclass(frozen=True, slots=True)
class Start:
    """How an analysis starts.

    Attributes:
        seed: of the random values.
        records: what another process has recorded, if this one repeats its result.
    """

    seed: int = 0
    records: Sequence[Record] | None = None


_RUNS = 80
_MOST_MEMBERS = 1_000


def record(explored: Exploration) -> Record:
    """Return how an exploration ended, as JSON types."""
    found: dict[str, Any] = {"end": explored.end.name, "paths": explored.paths, "decided": explored.decided}
    if explored.end is End.ALL_PATHS:
        found["kinds"] = sorted({write_kind(one) for one in explored.kinds})
    if explored.end is End.STOPPED and explored.arguments:
        try:
            found["arguments"] = write_arguments(explored.arguments)
        except NotPortable:
            found["arguments"] = None
    return found


def write_kind(kind: Hashable) -> str:
    """Return the kind of a judgement as text that does not depend on the process."""
    return repr(sorted(kind)) if isinstance(kind, frozenset) else repr(kind)


def can_repeat(records: Sequence[Record]) -> bool:
    """Return whether another process can repeat these explorations."""
    return all(one["end"] != End.STOPPED.name or one["arguments"] is not None for one in records)


class Replay:
    """Repeats the explorations of another process, in their order.

    Args:
        records: of the other process.
        modules: the code, and the other files that it has imported.
    """

    def __init__(self, records: Sequence[Record], modules: Sequence[ModuleType]) -> None:
        self._waiting = list(records)
        self._modules = modules

    def explore(
        self, program: Program, signature: Signature, seconds: float, watch: Watch, scope: Scope
    ) -> Exploration:
        """Repeat the next exploration. It ends as in the other process, or with End.DIFFERS or End.TIME."""
        known = self._waiting.pop(0)
        found = Exploration(End[known["end"]], known["paths"], known["decided"])
        if found.end not in {End.ALL_PATHS, End.STOPPED}:
            return found
        deadline = time.perf_counter() + seconds
        seen: set[str] = set()

        def note(arguments: Any, judgement: Any) -> None:
            watch.on_judgement(arguments, judgement)
            if not judgement.outside:
                seen.add(write_kind(judgement.kind))

        end: End | None = None
        for number in range(2):
            candidates = Candidates(signature, scope.literals, scope.seed + number)
            chance = Random(scope.seed + number)  # noqa: S311 - it protects nothing
            search = ConcreteSearch(
                program, candidates, replace(watch, on_judgement=note), found, chance, watch.state(), simplifies=False
            )
            if found.end is End.STOPPED:
                return self._repeat(search, known, signature, deadline)
            end = end or _try_to_refute(search, replace(scope, seed=scope.seed + number), deadline)
        if end or not seen <= set(known["kinds"]):
            return Exploration(End.DIFFERS)
        return found if time.perf_counter() < deadline else Exploration(End.TIME)

    def _repeat(self, search: ConcreteSearch, known: Record, signature: Signature, deadline: float) -> Exploration:
        try:
            arguments = read_arguments(known["arguments"], signature, self._modules)
        except (NotPortable, TypeError, ValueError):
            return Exploration(End.DIFFERS)
        end = search.try_all([arguments], deadline)
        return search.found if end is End.STOPPED else Exploration(End.DIFFERS)


def _try_to_refute(search: ConcreteSearch, scope: Scope, deadline: float) -> End | None:
    members = search.candidates.list_all(_MOST_MEMBERS)
    if members is not None:
        return search.try_all(members, deadline)
    edges = [one for one in search.candidates.make_boundaries() if not scope.loops or is_harmless(one)]
    return search.try_all(edges, deadline) or search.try_all(search.draw(_RUNS, harmless=scope.loops), deadline)
