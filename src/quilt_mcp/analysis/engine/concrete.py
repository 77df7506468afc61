"""The search with concrete arguments: judge runs in plain Python, and vary the arguments that reach new lines.

The arguments that are found become simpler as long as the judgement stays.
"""

import dataclasses
import sys
import time
import types
import typing
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import BoundArguments
from itertools import chain
from random import Random
from typing import Any, Union

from quilt_mcp.analysis.engine.candidates import Candidates, find_annotation, find_member, is_harmless
from quilt_mcp.analysis.engine.domains import Unusable, create
from quilt_mcp.analysis.engine.exploration import (
    ConcreteRun,
    End,
    Exploration,
    Judgement,
    Program,
    Raised,
    Survey,
    Undecided,
    Watch,
    collect,
    note_exception,
)
from quilt_mcp.analysis.engine.states import note_change
from quilt_mcp.analysis.gate.rules import Interrupted
from quilt_mcp.analysis.messages import MODULE_NAME

_MOST_STEPS, _MOST_TRIES, _LONGEST = 60, 400, 0.1
_MOST_SINGLE = 8
_SMALL = (0, 1, -1, 2, 3, 5, 10, 100, 1000)
_SMALL_FLOATS = (0.0, 1.0, -1.0, 0.5, 0.1, 2.0, 10.0, 100.0)
_LETTERS = "a0 "
_EXCEPTIONS = (Exception, ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def simplify(arguments: BoundArguments, keeps: Callable[[BoundArguments], bool]) -> BoundArguments:
    """Return the simplest arguments that `keeps`, the same judgement, holds for and that were found in a short time."""
    started, tries = time.process_time(), 0
    for _ in range(_MOST_STEPS):
        for simpler in _list_simpler(arguments):
            tries += 1
            if tries > _MOST_TRIES or time.process_time() - started > _LONGEST:
                return arguments
            if keeps(simpler):
                arguments = simpler
                break
        else:
            return arguments
    return arguments


def _list_simpler(arguments: BoundArguments) -> Iterator[BoundArguments]:
    values = arguments.arguments
    for name, value in values.items():
        for simpler in _simplify(find_annotation(arguments.signature.parameters[name]), value):
            yield BoundArguments(arguments.signature, {**values, name: simpler})


def _simplify(annotation: Any, value: Any) -> Iterator[Any]:
    """Yield simpler values of the type, the simplest ones first."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {Union, types.UnionType}:
        if value is not None and type(None) in inner:
            yield None
        member = find_member(inner, value)
        yield from _simplify(member, value) if member else ()
    elif isinstance(annotation, typing.NewType):
        yield from _simplify(annotation.__supertype__, value)
    elif isinstance(value, Exception) and type(value) is not annotation:
        yield from (cls() for cls in _EXCEPTIONS if cls is annotation)
    elif type(value) is not (origin or annotation) or isinstance(value, bool):
        return
    elif isinstance(value, int):
        yield from _simplify_integer(value)
    elif isinstance(value, float):
        known = (*_SMALL_FLOATS, float(round(value)) if abs(value) < 1 << 53 else value, float(f"{value:.3g}"))
        yield from (one for one in known if _is_shorter(one, value))
    else:
        yield from _simplify_parts(inner, value)


def _simplify_integer(value: int) -> Iterator[int]:
    yield from (one for one in _SMALL if (abs(one), one < 0) < (abs(value), value < 0))
    if not value:
        return
    if value < 0:
        yield -value
    size = abs(value).bit_length()
    sign = -1 if value < 0 else 1
    yield from (sign << power for power in (size // 2, size - 1) if 1 << power < abs(value))
    yield from (sign * (abs(value) >> shift) for shift in (size // 2, size // 4, 1) if shift)
    yield value - sign


def _is_shorter(one: float, value: float) -> bool:
    return (len(repr(one)), one < 0, abs(one)) < (len(repr(value)), value < 0, abs(value))


def _simplify_parts(inner: tuple[Any, ...], value: Any) -> Iterator[Any]:
    match value:
        case str():
            yield from _simplify_items([*value], "".join, lambda _, one: _LETTERS.partition(one)[0])
        case bytes():
            yield from _simplify_items([*value], bytes, lambda *_: ())
        case list() | set() | frozenset():
            yield from _simplify_items([*value], type(value), lambda _, one: _simplify(inner[0], one) if inner else ())
        case dict():
            yield from _simplify_items([*value], lambda keys: {key: value[key] for key in keys}, lambda *_: ())
            for key, one in [*value.items()][: _MOST_SINGLE if len(inner) > 1 else 0]:
                yield from ({**value, key: simpler} for simpler in _simplify(inner[1], one))
        case tuple():
            of_each = [inner[0]] * len(value) if inner[1:] == (...,) else inner
            if len(of_each) == len(value):
                yield from _simplify_items([*value], tuple, lambda at, one: _simplify(of_each[at], one), shorten=False)
        case _ if type(value).__module__ == MODULE_NAME and dataclasses.is_dataclass(value):
            hints = typing.get_type_hints(type(value))
            names = [one.name for one in dataclasses.fields(value) if one.init]
            yield from _simplify_items(
                [getattr(value, name) for name in names],
                lambda values: create(type(value), names, *values),
                lambda at, one: _simplify(hints[names[at]], one),
                shorten=False,
            )


def _simplify_items(
    items: list[Any],
    make: Callable[[list[Any]], object],
    simplify_item: Callable[[int, Any], Iterable[Any]],
    *,
    shorten: bool = True,
) -> Iterator[object]:
    """Yield what is made of fewer items if `shorten`, then what is made with one simpler item."""
    half, places = len(items) // 2, range(min(len(items), _MOST_SINGLE))
    fewer = [[], items[:half], items[half:], *([*items[:at], *items[at + 1 :]] for at in places)]
    shorter = (tried for tried in fewer if shorten and len(tried) < len(items))
    simpler = ([*items[:at], item, *items[at + 1 :]] for at in places for item in simplify_item(at, items[at]))
    for tried in chain(shorter, simpler):
        with suppress(Unusable):
            yield make(tried)


def replace_integers(value: Any, change: Callable[[int], int]) -> Any:
    """Return a value with other integers, also in containers and dataclasses. `Unusable`: a constructor fails."""
    replaced = partial(replace_integers, change=change)
    if type(value) is int:
        return change(value)
    if type(value) in {list, tuple, set, frozenset}:
        return type(value)(map(replaced, value))
    if type(value) is dict:
        return {replaced(key): replaced(one) for key, one in value.items()}
    if type(value).__module__ == MODULE_NAME and dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if one.init]
        return create(type(value), names, *(replaced(getattr(value, name)) for name in names))
    return value


LONGEST_RUN = 0.25
"""Seconds of CPU time after which a run is interrupted."""
_NO_JUDGEMENT = "A run with concrete values has no result that the analyser can copy or compare."
_DIFFERS = "Two runs with the same arguments have different results."
_STATE_EVERY = 16  # runs between two checks of the state
_CORPUS = 300
_INSIDE = 60
# How often addresses move, by how many objects of a size at most, and the sizes: with their head of 33 bytes, one for
# each size of Python's small objects. An empty one is shared.
_MOVES, _STEPS, _SIZES = 100, 8, range(1, 480, 16)
_REPLAYS, _REPLAY_SECONDS, _SHUFFLED = 16, 0.1, 24  # of an accepted judgement; and the objects of a size to shuffle
# Frames that simpler arguments have besides Python's limit: what is too deep by a few frames is not so everywhere.
_SPARE_FRAMES = 200
_VARIED = 0.5  # the share of arguments that are variations of earlier ones
_MIXED = 0.3  # the share of those that are made from two arguments, if there are preconditions


@dataclass(slots=True)
class ConcreteSearch:
    """A search for arguments with a judgement that stops the exploration."""

    program: Program  # runs the analysed code and judges the run
    candidates: Candidates  # makes arguments
    watch: Watch  # the callbacks of the search
    found: Exploration  # the exploration. The search counts its runs there.
    random: Random  # decides which arguments are varied
    before: Hashable  # the fingerprint before the search
    kinds: set[Hashable] = field(default_factory=set)  # the kinds of the judgements
    # arguments that have reached new lines or new judgements, and those of symbolic paths. Besides, the search keeps
    # the last arguments that meet the preconditions.
    corpus: list[BoundArguments] = field(default_factory=list)
    doubtful: bool = False  # whether a run was undecided or took too long
    simplifies: bool = True  # whether the found arguments are made simpler
    _reached: set[object] = field(default_factory=set)
    _inside: deque[BoundArguments] = field(default_factory=lambda: deque(maxlen=_INSIDE))
    _outside: bool = False
    _interrupted: list[BoundArguments] = field(default_factory=list)  # of the run that the last deadline interrupted
    _taken: list[object] = field(default_factory=list)
    _starts: int = 0

    def try_all(self, arguments: Iterable[BoundArguments], deadline: float, longest: float = LONGEST_RUN) -> End | None:
        """Judge these arguments until the deadline. Return how the exploration ends, or None if it goes on.

        A run that the deadline interrupts is repeated first in the next call.

        `longest` is the CPU time after which a run is interrupted.
        """
        for one in chain(self._interrupted[:], arguments):
            if time.perf_counter() > deadline:
                return None
            self._interrupted.clear()
            end = self._try_one(one, deadline, longest)
            if end:
                return end
            if self.watch.enough():
                break
        self._note_change()
        return End.ENOUGH if self.watch.enough() else None

    def _note_change(self) -> bool:
        """Note whether a run has changed what outlives it. From then on, each run is a first call."""
        return not self.found.varies and note_change(self.found, self.before, self.watch.state())

    def _run(self, run: ConcreteRun, arguments: BoundArguments) -> Judgement:
        if self.found.varies:
            self._starts += 1
            self.watch.restore(self._starts)
        return self.program(run, run.copy(arguments))

    def _try_one(self, arguments: BoundArguments, deadline: float, longest: float) -> End | None:
        lines: set[int] = set()
        try:
            judgement = self._judge(arguments, deadline, longest, lines)
            self.found.lines |= lines
        except (Undecided, Interrupted, RecursionError):
            self._note_change()
            return None
        if (judgement.stop or self.found.runs % _STATE_EVERY == 0) and self._note_change():
            return self._try_one(arguments, deadline, longest)
        if judgement.stop:
            return self.confirm(arguments, judgement)
        self.watch.on_judgement(arguments, judgement)
        if judgement.outside:
            self._outside = True
        else:
            self.kinds.add(judgement.kind)
            self._inside.append(arguments)
        self._keep(arguments, judgement, frozenset(lines))
        return None

    def _judge(
        self, arguments: BoundArguments, deadline: float, longest: float = LONGEST_RUN, lines: set[int] | None = None
    ) -> Judgement:
        """Return the judgement. If there is none, note why, and raise."""
        run = ConcreteRun(deadline, longest, lines)
        self.found.runs += 1
        self._move_addresses()
        with collect(self.found.causes):
            try:
                return self._run(run, arguments)
            except (Undecided, Interrupted, RecursionError) as error:
                if isinstance(error, Interrupted) and time.perf_counter() > deadline:  # `try_all` repeats the run
                    self._interrupted.append(arguments)
                    raise
                self.doubtful = True
                note_exception(error)
                if not self.found.causes.found:
                    self.found.causes.add(_NO_JUDGEMENT)
                raise

    def confirm(self, arguments: BoundArguments, judgement: Judgement) -> End | None:
        """Note arguments that stop the exploration, if other runs of them have the same judgement. Else it goes on."""
        until = time.perf_counter() + _REPLAY_SECONDS
        for number in range(_REPLAYS):
            if number and time.perf_counter() > until:
                break
            self._shuffle_addresses()
            run = ConcreteRun(time.perf_counter() + 100 * LONGEST_RUN, 10 * LONGEST_RUN)
            try:
                again = self._run(run, arguments)
            except (Undecided, Interrupted):
                self._go_on()
                return None
            if again.kind != judgement.kind:
                self._go_on()
                return None
            self._note_change()
        self.found.arguments, self.found.judgement = arguments, again
        if self.simplifies:
            self.found.arguments, self.found.judgement = self._simplify(arguments, again)
        return End.STOPPED

    def _go_on(self) -> None:
        """Go on without a finding that further runs do not repeat."""
        if not self.found.varies:
            self.found.causes.add(_DIFFERS)
        self.found.varies = True
        self.found.arguments = self.found.judgement = None

    def survey(self, arguments: Iterable[BoundArguments], deadline: float) -> Survey:
        """Judge these arguments, and keep an example of each kind of judgement that the search is for."""
        survey = Survey()
        for one in arguments:
            if time.perf_counter() > deadline:
                break
            try:
                judgement = self._judge(one, deadline)
            except (Undecided, Interrupted, RecursionError):
                continue
            survey.tried += not judgement.outside
            survey.stopping += judgement.stop
            kinds = [type(each.error if isinstance(each, Raised) else each.value) for each in judgement.outcomes]
            if judgement.stop:
                survey.examples.setdefault((judgement.kind, *kinds), (one, judgement))
        return survey

    def _move_addresses(self) -> None:
        """Take memory of each size, so that the objects of the next run have other addresses: a text can show them."""
        if len(self._taken) < _MOVES * _STEPS:
            for _ in range(self.found.runs % _STEPS + 1):
                self._taken.append([object(), 1j * len(self._taken), *map(bytes, _SIZES)])

    def _shuffle_addresses(self) -> None:
        """Let the objects of the next run have addresses in another order: that in which memory became free."""
        for size in _SIZES:
            taken = [bytes(size) for _ in range(_SHUFFLED)]
            self.random.shuffle(taken)
            self._taken.append(taken[: _SHUFFLED // 2])  # the others become free one after the other

    def _simplify(self, arguments: BoundArguments, judgement: Judgement) -> tuple[BoundArguments, Judgement]:
        """Return simpler arguments with the same kind of judgement; the given ones if a run changed the module."""
        judged = [(arguments, judgement)]

        def keeps(simpler: BoundArguments) -> bool:
            run = ConcreteRun(time.perf_counter() + LONGEST_RUN, LONGEST_RUN)
            try:
                again = self._run(run, simpler)
            except (Undecided, Interrupted, RecursionError):
                return False
            if again.kind != judgement.kind:
                return False
            judged.append((simpler, again))
            return True

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _SPARE_FRAMES)
        try:
            simplify(arguments, keeps)
        finally:
            sys.setrecursionlimit(limit)
        return judged[0] if self._note_change() else judged[-1]

    def compare(self, arguments: Iterable[BoundArguments], deadline: float) -> End:
        """Try to refute that all paths are known: then these arguments would have a judgement that none had before.

        The corpus stays the same.

        Returns:
            End.ALL_PATHS: not refuted. End.STOPPED: refuted. Otherwise why that is not known.
        """
        for one in arguments:
            try:
                judgement = self._judge(one, deadline)
            except (Undecided, Interrupted, RecursionError):
                return End.TIME if time.perf_counter() > deadline else End.UNDECIDED
            if judgement.stop or not (judgement.outside or judgement.kind in self.kinds):
                return End.STOPPED
        self._note_change()
        return End.ALL_PATHS

    def _keep(self, arguments: BoundArguments, judgement: Judgement, lines: frozenset[int]) -> None:
        reached = {lines, (judgement.kind, judgement.outside), *lines}
        if not reached <= self._reached and len(self.corpus) < _CORPUS:
            self._reached |= reached
            self.corpus.append(arguments)

    def draw(self, count: int, *, harmless: bool) -> Iterator[BoundArguments]:
        """Yield random arguments and variations of the corpus, if `harmless` without large numbers."""
        for _ in range(count):
            drawn = self._vary() if self.corpus and self.random.random() < _VARIED else self.candidates.draw()
            if drawn is not None and (not harmless or is_harmless(drawn)):
                yield drawn

    def _vary(self) -> BoundArguments | None:
        if self._outside and len(self._inside) > 1 and self.random.random() < _MIXED:
            one, other = self.random.choice(self._inside), self.random.choice(self._inside)
            mixed = self.candidates.mix(one, other)
            return mixed if self.random.random() < _VARIED else self.candidates.vary(mixed)
        return self.candidates.vary(self.random.choice(self.corpus))

    def vary_corpus(self, count: int) -> Iterator[BoundArguments]:
        """Yield variations of the last arguments of the corpus, among them those of symbolic paths."""
        for known in self.corpus[-_CORPUS // 5 :]:
            for _ in range(count):
                drawn = self.candidates.vary(known)
                if drawn is not None:
                    yield drawn
