"""CrossHair's models of Python: which are exact, and corrections of others.

CrossHair replaces functions and classes while it follows a path. What is not in the lists of exact models leaves its
path undecided if it gets a symbolic value. `crosshair.py` and this module alone use CrossHair's internals.
"""

import builtins
import datetime as dt
import functools
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from re import _parser
from time import perf_counter
from types import FunctionType

import z3  # type: ignore[import-untyped] # z3 ships no type information
from crosshair import core, simplestructs, smt, statespace, type_repo
from crosshair.abcstring import AbcString
from crosshair.core_and_libs import NoTracing, ResumedTracing  # importing it registers the models of the library types
from crosshair.libimpl import builtinslib, collectionslib, datetimelib, relib
from crosshair.util import ControlFlowException, NotDeterministic

from quilt_mcp.analysis.engine.exploration import note_operation, note_raised
from quilt_mcp.analysis.gate import paths
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES

# Registered models with the results of Python for all arguments. A name without a module is built in.
_EXACT_FUNCTIONS = frozenset(
    """
    abs all any bool callable compile dict divmod eval filter float frozenset getattr hasattr int isinstance issubclass
    list map max min ord pow print range repr set setattr sorted str sum type
    dict.__len__ dict.copy dict.get dict.items dict.keys dict.values frozenset.copy int.as_integer_ratio int.bit_count
    int.bit_length int.conjugate list.__len__ list.copy list.index range.__contains__ range.__getitem__ range.count
    range.index set.copy
    bytes.count bytes.endswith bytes.find bytes.index bytes.join bytes.partition bytes.removeprefix bytes.removesuffix
    bytes.rfind bytes.rindex bytes.rpartition bytes.startswith
    str.__contains__ str.__repr__ str.count str.endswith str.find str.index str.join str.partition str.removeprefix
    str.removesuffix str.rfind str.rindex str.rpartition str.startswith
    copy.copy copy.deepcopy decimal.Context.Etiny decimal.Context.Etop datetime.timedelta datetime.timezone
    decimal.Decimal _functools.reduce functools._lru_cache_wrapper.__call__ functools.partial
    _heapq.heapify _heapq.heappop _heapq.heappush _heapq.heappushpop _heapq.heapreplace
    itertools.accumulate itertools.dropwhile itertools.filterfalse itertools.groupby itertools.starmap
    itertools.takewhile math.ceil math.floor math.gcd math.isqrt math.lcm math.prod math.trunc
    re.Pattern.fullmatch re.Pattern.match re._compile
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
# These are exact unless they get a symbolic integer: Python's functions have C integers, which do not hold all of them
_EXACT_BUT_INTEGERS = frozenset(
    "len list.pop str.center str.ljust str.replace str.rjust bytes.center bytes.ljust bytes.replace bytes.rjust".split()  # noqa: SIM905 - as above
)
# The same for the methods of CrossHair's own classes, by their names
_EXACT_TEXT_METHODS = frozenset(
    """
    center count endswith find index join ljust partition removeprefix removesuffix replace rfind rindex rjust
    rpartition startswith
    """.split()  # noqa: SIM905 - as above
)
_EXACT_WITH_INTEGERS = frozenset(
    """
    add append appendleft copy count discard endswith extend extendleft find get index issubset issuperset isdisjoint
    remove rfind rindex setdefault startswith update union intersection difference symmetric_difference
    intersection_update difference_update symmetric_difference_update
    """.split()  # noqa: SIM905 - as above
)
_TEXT_CLASSES: tuple[type, ...] = (builtinslib.AnySymbolicStr, AbcString)
_SYMBOLIC_CLASSES: tuple[type, ...] = (
    *(builtinslib.BytesLike, builtinslib.SymbolicBytes, builtinslib.SymbolicByteArray, collectionslib.ListBasedDeque),
    *(simplestructs.ShellMutableSequence, simplestructs.ShellSequence, simplestructs.ShellMutableSet),
    datetimelib.timedelta,
)
_DATE_CLASSES: tuple[type, ...] = (datetimelib.date, datetimelib.time, datetimelib.datetime)
_DATES: frozenset[object] = frozenset({dt.date, dt.time, dt.datetime})
# Functions without a model of their own, whose code is not exact for symbolic values
_OTHERS: tuple[Callable[..., object], ...] = (
    *(statistics.mean, statistics.median, statistics.fmean, statistics.stdev, statistics.pstdev),
)
_PLAIN = (int, float, bool, str, bytes, type(None))
_INTEGERS: tuple[type, ...] = (builtinslib.SymbolicInt,)
_C_INTEGER, _C_SIZE = 2**31, 2**63


def correct_models() -> None:
    """Correct the models in this process. This cannot be undone.

    `AttributeError, KeyError`: CrossHair has no such model. The process must not analyse anything then.
    """
    for module in (core, statespace):
        vars(module)["process_time"] = perf_counter  # its limits are seconds, not seconds of CPU time
    relib.parse = _parse_pattern
    vars(core)["get_subclass_map"] = _list_subclasses
    for owner in (ControlFlowException, NotDeterministic, Refused):
        _note_instances(owner)
    _lift_limit_of_digits()
    registered = core._PATCH_REGISTRATIONS  # noqa: SLF001 - there is no public access
    _add_paths()
    for function, model in [*registered.items(), *((one, one) for one in _OTHERS)]:
        name = _find_name(function)
        if function in _DATES:
            registered[function] = _limit_integers(model)
        elif name in _EXACT_BUT_INTEGERS:
            registered[function] = _hold(model, function, (*_INTEGERS, builtinslib.SymbolicRange))
        elif name not in _EXACT_FUNCTIONS:
            registered[function] = _hold(model, function)
    for of_date in _DATE_CLASSES:
        _hold_methods(of_date, _EXACT_WITH_INTEGERS | {"replace"}, _INTEGERS)
        setattr(of_date, "replace", _limit_integers(vars(of_date)["replace"]))  # noqa: B010 - the type checker refuses it
    for of_text in _TEXT_CLASSES:
        _hold_methods(of_text, _EXACT_TEXT_METHODS, ())
    for cls in (*_TEXT_CLASSES, *_SYMBOLIC_CLASSES):
        _hold_methods(cls, _EXACT_WITH_INTEGERS, _INTEGERS)


def _find_name(function: object) -> str:
    module = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", "")
    name = str(getattr(function, "__qualname__", ""))
    return name if module == builtins.__name__ else f"{module}.{name}"


def _hold_methods(cls: type, exact: frozenset[str], kinds: tuple[type, ...]) -> None:
    """Hold the public methods of one of CrossHair's classes, and those that write it, apart from the exact ones."""
    for name, method in list(vars(cls).items()):
        is_public = not name.startswith("_") or (not kinds and name in {"__mod__", "__rmod__", "__format__"})
        if isinstance(method, FunctionType) and is_public and name not in exact:
            setattr(cls, name, _hold(method, method, kinds))


def _hold(
    model: Callable[..., object], model_of: Callable[..., object], kinds: tuple[type, ...] = ()
) -> Callable[..., object]:
    """Make a model leave its path undecided if an argument is of these kinds, by default if it can be symbolic."""
    own = getattr(model, "__code__", None)
    limited = _limit_integers(model, _C_SIZE) if kinds else model  # no claim follows, but a violation can

    def held(*args: object, **kwargs: object) -> object:
        with NoTracing():  # type: ignore[no-untyped-call] # CrossHair has no annotation
            if sys._getframe(1).f_code is own:  # noqa: SLF001 - a model that calls what it models means that of Python
                called = model_of
            else:
                called = limited
                space, given = statespace.optional_context_statespace(), (*args, *kwargs.values())
                is_held = any(isinstance(one, kinds) if kinds else type(one) not in _PLAIN for one in given)
                if space is not None and is_held:
                    note_operation(model_of)
                    space.cap_result_at_unknown()  # type: ignore[no-untyped-call] # the same
        return called(*args, **kwargs)

    return held


def _limit_integers(model: Callable[..., object], limit: int = _C_INTEGER) -> Callable[..., object]:
    """Make a model refuse integers that C does not hold, as Python does before it looks at their range."""

    def limited(*args: object, **kwargs: object) -> object:
        for one in (*args, *kwargs.values()):
            with NoTracing():  # type: ignore[no-untyped-call] # CrossHair has no annotation
                is_integer = isinstance(one, (int, *_INTEGERS))
            if is_integer and not -limit <= one < limit:  # type: ignore[operator] # it is an integer
                raise OverflowError("Python int too large to convert to C int")
        return model(*args, **kwargs)

    return limited


def _add_paths() -> None:
    core._PATCH_REGISTRATIONS[paths.read_text] = _realize_text  # noqa: SLF001 - there is no public access
    for cls in paths.CLASSES.values():
        core.register_type(cls, functools.partial(_create_path, cls))


def _realize_text(value: object) -> object:
    """Give a path a text of the solver's choice: only the library knows its parts."""
    return paths.read_text(core.deep_realize(value))


def _create_path(cls: type[paths.PurePath], create: Callable[[type], object]) -> object:
    text = create(str)
    with ResumedTracing():  # type: ignore[no-untyped-call] # CrossHair has no annotation
        return cls(text)


def _note_instances(owner: type[BaseException]) -> None:
    """Note each exception of the analyser when it is created: code could prevent that it arrives."""

    def create(cls: type[BaseException], *args: object, **_: object) -> BaseException:
        error = BaseException.__new__(cls, *args)
        note_raised(error)
        return error

    owner.__new__ = create  # type: ignore[assignment, method-assign] # the purpose


def _lift_limit_of_digits() -> None:
    """Let z3 convert integers that have more decimal digits than Python converts."""

    def lift(owner: object, name: str) -> None:
        plain = getattr(owner, name)

        def convert(value: object) -> object:
            limit = sys.get_int_max_str_digits()
            sys.set_int_max_str_digits(0)
            try:
                return plain(value)
            finally:
                sys.set_int_max_str_digits(limit)

        setattr(owner, name, convert)

    lift(smt, "int_val")
    lift(z3.z3, "_to_int_str")
    lift(z3.IntNumRef, "as_long")


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


_plain_parse = relib.parse
_LINE_FEED = 10


def _parse_pattern(pattern: object, flags: int) -> list[object]:
    """Parse a regular expression. Outside of multi-line mode, `$` also matches before a line feed at the end."""
    parsed = _plain_parse(pattern, flags)
    return list(_expand_ends(parsed)) if not flags & re.MULTILINE else parsed


def _expand_ends(items: Sequence[tuple[object, object]]) -> Iterator[tuple[object, object]]:
    for operation, argument in items:
        if operation is relib.AT and argument is relib.AT_END:
            end = [(relib.AT, relib.AT_END_STRING)]
            before = [(relib.ASSERT, (1, [(relib.LITERAL, _LINE_FEED), *end]))]
            yield relib.BRANCH, (None, [end, before])
        else:
            yield operation, _expand_argument(argument)


def _expand_argument(argument: object) -> object:
    if isinstance(argument, _parser.SubPattern):
        argument.data = list(_expand_ends(argument.data))
        return argument
    if isinstance(argument, list):
        return [_expand_argument(one) for one in argument]
    if isinstance(argument, tuple):
        return tuple(_expand_argument(one) for one in argument)
    return argument
