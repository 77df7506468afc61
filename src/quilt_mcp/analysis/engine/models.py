"""Corrections of CrossHair's models of Python, and the operations that have no exact model.

A path that uses such an operation with a symbolic value stays undecided. CrossHair makes the same errors on its own
command line.
"""

import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from re import _parser
from time import perf_counter
from typing import Any

from crosshair import core, statespace, type_repo
from crosshair.core_and_libs import NoTracing
from crosshair.libimpl import builtinslib, relib

from quilt_mcp.analysis.engine.causes import note_operation
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES

_PLAIN = (int, float, bool, str, bytes, type(None))
# The model of these functions and methods differs from Python for some values
_HELD_FUNCTIONS: tuple[Callable[..., object], ...] = (
    *(re.Pattern.search, re.Pattern.split, re.Pattern.sub, re.Pattern.subn),
    *(re.Pattern.findall, re.Pattern.finditer),
    *(format, ascii, hash, str.format, str.format_map, str.__mod__),
    *(json.dumps, json.loads, json.JSONEncoder.encode, json.JSONDecoder.decode),
    *(statistics.mean, statistics.median, statistics.fmean, statistics.stdev, statistics.pstdev),
)
_C_INTEGER = 1 << 31
_HELD_TEXT_METHODS = (
    *("capitalize", "casefold", "expandtabs", "format", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit"),
    *("isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower", "splitlines"),
    *("swapcase", "title", "translate", "upper", "zfill", "__mod__", "__format__", "encode"),
    *("split", "rsplit", "strip", "lstrip", "rstrip"),  # white space of Unicode
)


def correct_models() -> None:
    """Correct the models in this process. This cannot be undone.

    Raises:
        AttributeError, KeyError: CrossHair has no such model. The process must not analyse anything then.
    """
    for module in (core, statespace):
        vars(module)["process_time"] = perf_counter  # its limits are seconds, not seconds of CPU time
    relib.parse = _parse_pattern
    vars(core)["get_subclass_map"] = _list_subclasses
    for function in _HELD_FUNCTIONS:
        registered = core._PATCH_REGISTRATIONS  # noqa: SLF001 - there is no public access
        registered[function] = _hold(registered.get(function, function), function)
    registered = core._PATCH_REGISTRATIONS  # noqa: SLF001 - the same
    registered[chr], registered[len] = _limit_chr(registered[chr]), _limit_len(registered[len])
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


def _hold(model: Callable[..., object], model_of: Callable[..., object]) -> Callable[..., object]:
    """Make a model leave its path undecided if an argument can be symbolic."""

    def held(*args: object, **kwargs: object) -> object:
        with NoTracing():  # type: ignore[no-untyped-call] # CrossHair has no annotation
            space = statespace.optional_context_statespace()
            if space is not None and any(type(one) not in _PLAIN for one in (*args, *kwargs.values())):
                note_operation(model_of, "The analyser's model of this operation is not exact.")
                space.cap_result_at_unknown()  # type: ignore[no-untyped-call] # the same
        return model(*args, **kwargs)

    return held


def _limit_chr(model: Callable[..., object]) -> Callable[..., object]:
    """Make `chr` raise for a number that no C integer holds: OverflowError before Python 3.13, ValueError since."""
    raised = OverflowError if sys.version_info < (3, 13) else ValueError

    def limited(number: Any) -> object:
        if isinstance(number, int) and not -_C_INTEGER <= number < _C_INTEGER:
            raise raised
        return model(number)

    return limited


def _limit_len(model: Callable[..., Any]) -> Callable[..., Any]:
    """Make `len` raise OverflowError for a range that is too long."""

    def limited(value: object) -> Any:
        length = model(value)
        with NoTracing():  # type: ignore[no-untyped-call] # CrossHair has no annotation
            is_range = isinstance(value, builtinslib.SymbolicRange)
        if is_range and length > sys.maxsize:
            raise OverflowError
        return length

    return limited


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
