"""Explore a program: concrete values first, then symbolic paths, then concrete values again.

The first values find errors that need no solver, and the last ones those that the solver missed. A claim about all
arguments needs that CrossHair has decided every path, that its symbolic values stand for all values of the types, and
that no concrete run contradicts it.

A second process, with another hash seed and another time zone, repeats what the first one has recorded: it judges the
same arguments, or tries to refute the claim with the same values and with further ones.
"""

import time
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from inspect import BoundArguments, Parameter, Signature
from itertools import chain, islice
from random import Random
from types import MappingProxyType
from typing import Any, Literal, Union

from quilt_mcp.analysis.engine.candidates import (
    AS_BOOL,
    SHARED,
    Candidates,
    give_bools,
    has_only_plain_values,
    has_sized_values,
    is_harmless,
    limit_length,
    rank_size,
    share,
)
from quilt_mcp.analysis.engine.concrete import LONGEST_RUN, ConcreteSearch
from quilt_mcp.analysis.engine.crosshair import SymbolicSearch
from quilt_mcp.analysis.engine.exploration import Budget, CodeFacts, End, Exploration, NoArguments, Program, Watch
from quilt_mcp.analysis.engine.source_text import Names, evaluate, write_exactly
from quilt_mcp.analysis.messages import ANSWER_TEXT


def find_default_types(annotation: Any) -> set[object]:
    """Return the classes that an annotation names. A default value of another class is outside of its domain."""
    if typing.get_origin(annotation) in {Union, types.UnionType, typing.Annotated}:
        return set().union(*map(find_default_types, typing.get_args(annotation)))
    if typing.get_origin(annotation) is Literal:
        return {type(one) for one in typing.get_args(annotation)}
    return {type(None) if annotation is None else typing.get_origin(annotation) or annotation}


def accepts_default(parameter: Parameter) -> bool:
    """Return whether a parameter has no default value, or one of its type."""
    if parameter.default is Parameter.empty or parameter.annotation is Parameter.empty:
        return True
    return any(one is type(parameter.default) for one in find_default_types(parameter.annotation))


_LAST = 0.2  # the share of the time for concrete values after the symbolic paths
_QUICK_RUNS, _MORE_RUNS, _CLAIM_RUNS, _LAST_RUNS = 60, 4_000, 200, 100_000
_CHANGED_RUNS, _RUNS = 200, 80
_QUICK_SECONDS = 0.3
_SHORT, _MOST_LENGTH = 0.1, 12  # the share of the time for short values, and the maximum length that is tried
_SURVEYED, _SURVEY_SECONDS = 300, 0.5
_MOST_MEMBERS = 1_000
_ONLY_CONCRETE = "The analyser cannot create symbolic arguments of these types. Concrete values were tried."
_MISSED = "A run with concrete values has a result that the analyser found on no path."


class Explorer:
    """Runs a program on every path that arguments of these types can take, until a judgement stops the exploration."""

    def __init__(self, program: Program, signature: Signature, budget: Budget, watch: Watch, facts: CodeFacts) -> None:
        self._budget, self._facts, self._watch = budget, facts, watch
        self._found = Exploration(sets=facts.sets, varies=facts.varies is not None)
        if facts.varies:
            self._found.causes.found[facts.varies] = None
        self._started = time.perf_counter()
        self._candidates = Candidates(signature, facts.literals, facts.seed)
        self._program, self._signature = program, signature
        self._before = before = watch.state()  # of the module, which runs can change
        chance = Random(facts.seed)  # noqa: S311 - it protects nothing
        self._concrete = ConcreteSearch(program, self._candidates, watch, self._found, chance, before)
        self._symbolic = SymbolicSearch(program, signature, watch, self._found, before)
        self._obstacle = _find_obstacle(signature, self._candidates, facts)  # why nothing may be claimed, if so
        self._is_plain = has_only_plain_values(signature)
        self._is_sized = has_sized_values(signature)

    def run(self) -> Exploration:
        """Explore. `NoArguments`: an annotation of the signature is not a type."""
        found = self._found
        found.end = self._try_members() or self._search()
        if found.end is End.ALL_PATHS and not self._obstacle and not self._is_plain:
            found.end = self._refute(share, SHARED)
        if found.end is End.ALL_PATHS and not self._obstacle and self._facts.with_bools:
            found.end = self._refute(give_bools, AS_BOOL)
        if found.end in {End.ALL_PATHS, End.UNDECIDED} and self._obstacle:
            found.complete, found.obstacle = found.end is End.ALL_PATHS, self._obstacle
            found.end = End.UNDECIDED
        if found.varies and found.end is not End.STOPPED:
            found.end = End.UNSTABLE
        if found.end is End.ALL_PATHS:
            found.kinds = frozenset(self._symbolic.kinds | self._concrete.kinds)
        if found.end is End.STOPPED and found.arguments and self._facts.surveys and not found.varies:
            edges = (one for one in self._candidates.make_boundaries() if is_harmless(one))
            further = self._concrete.draw(_SURVEYED, harmless=True)
            until = time.perf_counter() + min(_SURVEY_SECONDS, self._budget.seconds * _SHORT)
            found.survey = self._concrete.survey(chain([found.arguments], edges, further), until)
        if found.end is not End.STOPPED:
            found.arguments = found.judgement = None
        return found

    def _refute(self, change: Callable[[BoundArguments], Iterator[BoundArguments]], reason: str) -> End:
        """Try to refute a claim with changed arguments, which the paths and the other runs do not have."""
        known = chain(self._candidates.make_boundaries(), self._concrete.draw(_CHANGED_RUNS, harmless=True))
        changed = (other for one in chain(self._concrete.corpus[:], known) for other in change(one))
        few = [one for one in islice(changed, _CHANGED_RUNS) if not self._facts.loops or is_harmless(one)]
        end = self._concrete.compare(few, self._moment(1))
        if end is End.STOPPED:
            self._obstacle = reason  # all paths are decided, and `run` claims nothing
            return End.ALL_PATHS
        return end

    def _moment(self, share: float) -> float:
        """Return when this share of the time has passed."""
        return self._started + self._budget.seconds * share

    def _try_members(self) -> End | None:
        """Try all arguments, if they are few. Then no path is left. Return None if they are many."""
        if self._obstacle or self._found.varies:
            return None
        members = self._candidates.list_all(_MOST_MEMBERS)
        if members is None:
            return None
        each = (self._moment(1) - time.perf_counter()) / (len(members) + 1)
        end = self._concrete.try_all(members, self._moment(1), longest=max(each, LONGEST_RUN))
        if end:
            return end
        if time.perf_counter() > self._moment(1):
            return End.TIME
        if self._concrete.doubtful:
            return End.UNDECIDED
        self._found.members = True
        self._found.paths = self._found.runs
        self._found.decided = self._found.runs if self._concrete.kinds else 0
        self._found.outside = self._found.runs - self._found.decided
        return End.ALL_PATHS

    def _search(self) -> End:
        return (
            self._try_boundaries()
            or self._try_random(_QUICK_RUNS)
            or self._follow_paths(min(_QUICK_SECONDS, self._budget.seconds * (1 - self._budget.first - _LAST)))
            or self._try_random(_MORE_RUNS)
            or self._follow_short_values()
            or self._follow_paths(self._moment(1 - _LAST) - time.perf_counter())
            or self._finish()
        )

    def _try_boundaries(self) -> End | None:
        edges = [one for one in self._candidates.make_boundaries() if not self._facts.loops or is_harmless(one)]
        return self._concrete.try_all(sorted(edges, key=rank_size), self._moment(self._budget.first))

    def _try_random(self, runs: int) -> End | None:
        drawn = self._concrete.draw(runs, harmless=self._facts.loops)
        end = self._concrete.try_all(drawn, self._moment(self._budget.first))
        self._watch.on_progress(self._found)
        return end

    def _follow_paths(self, seconds: float) -> End | None:
        """Follow symbolic paths for some time. Return the end of the exploration, or None if it goes on."""
        try:
            end = self._symbolic.follow(max(0.0, seconds), self._budget)
        except NoArguments:
            if not self._candidates.usable:
                raise
            self._symbolic.end = end = End.UNDECIDED  # also that of the exploration, if concrete values find nothing
            self._found.causes.add(_ONLY_CONCRETE)
        self._concrete.corpus.extend(self._symbolic.take_arguments())
        self._watch.on_progress(self._found)
        if end is End.STOPPED and self._found.arguments and self._found.judgement:
            self._symbolic.end = End.UNDECIDED  # unless it is confirmed
            return self._concrete.confirm(self._found.arguments, self._found.judgement)
        if end is End.ALL_PATHS:
            return self._challenge_claim()
        return end if end in {End.UNSTABLE, End.ENOUGH} else None

    def _follow_short_values(self) -> End | None:
        """Follow all paths for short texts and containers, of each length after the other, for a share of the time."""
        if not self._is_sized or self._obstacle or self._found.varies:
            return None
        until = self._moment(self._budget.first) + self._budget.seconds * _SHORT
        for length in range(_MOST_LENGTH):
            found = Exploration()
            program = limit_length(self._program, length)
            search = SymbolicSearch(program, self._signature, Watch(state=self._watch.state), found, self._before)
            end = search.follow(until - time.perf_counter(), self._budget)
            if end is End.STOPPED and found.arguments and found.judgement:
                return self._concrete.confirm(found.arguments, found.judgement)
            if end is not End.ALL_PATHS:
                break
            self._found.longest = length
            self._found.lines |= found.lines
        return None

    def _challenge_claim(self) -> End:
        """Try to refute what holds on all paths with concrete values."""
        concrete, deadline = self._concrete, self._moment(1)
        large = (one for one in self._candidates.make_boundaries() if self._facts.loops and not is_harmless(one))
        end = (
            concrete.try_all(concrete.vary_corpus(12), deadline)
            or concrete.try_all(islice(concrete.draw(_CLAIM_RUNS, harmless=False), _CLAIM_RUNS), deadline)
            or concrete.try_all(large, deadline)  # `_try_boundaries` has tried the others
        )
        if end:
            return end
        if time.perf_counter() > deadline:
            return End.TIME
        if concrete.kinds - self._symbolic.kinds:
            self._found.causes.add(_MISSED)
            return End.UNDECIDED
        return End.UNDECIDED if concrete.doubtful else End.ALL_PATHS

    def _finish(self) -> End:
        """Use a part of the time for concrete values, the large ones last."""
        concrete, large = self._concrete, self._candidates.make_boundaries()
        now = time.perf_counter()
        left = min(self._budget.seconds * _LAST, self._moment(1) - now)
        return (
            concrete.try_all(concrete.vary_corpus(8), now + left / 3)
            or concrete.try_all(concrete.draw(_LAST_RUNS, harmless=self._facts.loops), now + left * 2 / 3)
            or concrete.try_all(large, now + left)
            or concrete.try_all(concrete.draw(_LAST_RUNS, harmless=False), now + left)
            or self._symbolic.end
        )


def _find_obstacle(signature: Signature, candidates: Candidates, facts: CodeFacts) -> str | None:
    """Return why nothing can be claimed about all arguments, or None."""
    if facts.obstacle:
        return facts.obstacle
    if not all(map(accepts_default, signature.parameters.values())):
        return "a default value does not have the type of its parameter"
    if not candidates.usable:
        return "the values of a parameter's type are not known"
    if not candidates.modelled and candidates.list_all(_MOST_MEMBERS) is None:
        return "the solver does not cover all values of the type of a parameter"
    return None


Record = Mapping[str, Any]
"""How an exploration ended: the name of its `end`, its `arguments`, its `kinds` of judgements and its `paths`."""


def record(explored: Exploration, names: Names = MappingProxyType({})) -> Record:
    """Return how an exploration of code with these names ended, as JSON types. A text of an answer has a limit."""
    found: dict[str, Any] = {"end": explored.end.name, "paths": explored.paths, "decided": explored.decided}
    if explored.end is End.ALL_PATHS:
        found["kinds"] = sorted({write_kind(one) for one in explored.kinds})
    found |= {name: True for name in ("varies", "sets") if getattr(explored, name)}
    if explored.end is End.STOPPED and explored.arguments:
        texts = {name: write_exactly(one, names) for name, one in explored.arguments.arguments.items()}
        pieces = {
            name: [text[at : at + ANSWER_TEXT] for at in range(0, len(text), ANSWER_TEXT)]
            for name, text in texts.items()
            if text is not None
        }
        found["arguments"] = pieces if len(pieces) == len(texts) else None
    return found


def write_kind(kind: Hashable) -> str:
    """Return the kind of a judgement as text that does not depend on the process."""
    return repr(sorted(kind)) if isinstance(kind, frozenset) else repr(kind)


class Replay:
    """Repeats the explorations that another process has recorded, in their order, for code with these names."""

    def __init__(self, records: Sequence[Record], names: Names) -> None:
        self._waiting = list(records)
        self._names = names

    def explore(
        self, program: Program, signature: Signature, seconds: float, watch: Watch, facts: CodeFacts
    ) -> Exploration:
        """Repeat the next exploration. It ends as in the other process, or with End.DIFFERS or End.TIME."""
        recorded = self._waiting.pop(0)
        found = Exploration(End[recorded["end"]], recorded["paths"], recorded["decided"])
        if found.end not in {End.ALL_PATHS, End.STOPPED}:
            return found
        deadline = time.perf_counter() + seconds

        def make_search(seed: int) -> ConcreteSearch:
            candidates, chance = Candidates(signature, facts.literals, seed), Random(seed)  # noqa: S311 - it protects nothing
            return ConcreteSearch(program, candidates, watch, found, chance, watch.state(), simplifies=False)

        if found.end is End.STOPPED:
            return self._repeat(make_search(facts.seed), recorded, signature, deadline)
        for seed in (facts.seed, facts.seed + 1):  # the same values, then further ones
            search = make_search(seed)
            is_refuted = _try_to_refute(search, deadline, loops=facts.loops)
            if is_refuted or not {write_kind(kind) for kind in search.kinds} <= set(recorded["kinds"]):
                return Exploration(End.DIFFERS)
        return found if time.perf_counter() < deadline else Exploration(End.TIME)

    def _repeat(self, search: ConcreteSearch, recorded: Record, signature: Signature, deadline: float) -> Exploration:
        try:
            values = {name: evaluate("".join(parts), self._names) for name, parts in recorded["arguments"].items()}
        except Exception:  # noqa: BLE001 - the constructors are analysed code
            return Exploration(End.DIFFERS)
        search.found.varies = recorded.get("varies", False)
        end = search.try_all([BoundArguments(signature, values)], deadline)
        return search.found if end is End.STOPPED else Exploration(End.DIFFERS)


def _try_to_refute(search: ConcreteSearch, deadline: float, *, loops: bool) -> End | None:
    members = search.candidates.list_all(_MOST_MEMBERS)
    if members is not None:
        return search.try_all(members, deadline)
    edges = [one for one in search.candidates.make_boundaries() if not loops or is_harmless(one)]
    return search.try_all(edges, deadline) or search.try_all(search.draw(_RUNS, harmless=loops), deadline)
