"""Write values and counterexamples for an answer: as Python source text, as JSON, and as a pytest.

The text consists of literals, of names that are checked, and of calls, and has a limited length. It never contains the
repr of a class that the code defines, because that is text of the code's choice. A pytest has imports, the arguments,
and one assertion that fails until a correction; clauses of contracts become plain Python in it.
"""

import ast
import builtins
import dataclasses
import inspect
import math
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from functools import partial
from inspect import BoundArguments, Parameter
from itertools import permutations
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, Literal, TypeGuard

from crosshair.libimpl.builtinslib import SymbolicCallable

from quilt_mcp.analysis.engine.domains import MADE
from quilt_mcp.analysis.engine.exploration import read_attributes
from quilt_mcp.analysis.engine.subjects import Subject
from quilt_mcp.analysis.gate.paths import PurePath, PurePosixPath, PureWindowsPath
from quilt_mcp.analysis.messages import MODULE_NAME, Counterexample, Value
from quilt_mcp.analysis.policy import ALLOWED_MODULES

_MOST_OPEN = 2


def find_arguments(value: object, attributes: Mapping[str, object]) -> dict[str, object] | None:
    """Return arguments with which the class makes an equal object; None if they are not known.

    A parameter takes the attribute of its name, also with an underscore before it, else one that no parameter names.
    """
    cls = type(value)
    if cls.__init__ is object.__init__:
        return None if attributes else {}
    try:
        parameters = inspect.signature(cls).parameters
        stored = {name: next((key for key in (name, f"_{name}") if key in attributes), None) for name in parameters}
        found = {name: attributes[key] for name, key in stored.items() if key is not None}
        open_names = [one.name for one in parameters.values() if stored[one.name] is None and one.default is one.empty]
        others = [one for key, one in attributes.items() if key not in stored.values()]
        for chosen in permutations(others, len(open_names)) if len(open_names) <= _MOST_OPEN else ():
            arguments = {**found, **dict(zip(open_names, chosen, strict=True))}
            if read_attributes(cls(**arguments)) == attributes:
                return {name: arguments[name] for name in parameters if name in arguments}
    except Exception:  # noqa: BLE001 - the class is analysed code
        return None
    return None


INTEGER_BITS = 4_096
_REPEATED = 200
_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, float, int)
_ITERATORS = (type(iter(list[Any]())), type(iter(())), type(iter(set[Any]())), type(iter("")), type(iter(range(0))))


class Unwritable(Exception):
    """No source text makes this value."""


Refer = Callable[[object, str], str]
"""Returns the source text that names a class or function, given also the name that it has in its module."""


@dataclasses.dataclass(slots=True)
class Writer:
    """Writes values."""

    refer: Refer  # names classes and functions
    shows_state: bool = False  # whether the text shows all attributes of an object that does not show its arguments
    used_sequence: bool = False  # whether some text makes a function that returns values in their order

    def write(self, value: object) -> str:
        """Return source text for a value. `Unwritable`: there is none."""
        simple = _WRITERS.get(type(value))
        if simple:
            return simple(self, value)
        if value is Ellipsis or value is NotImplemented:
            return repr(value)
        if isinstance(value, Enum):
            return self._write_member(value)
        if isinstance(value, type | FunctionType) or inspect.isbuiltin(value):
            return self.refer(value, value.__qualname__)
        if isinstance(value, _ITERATORS):
            return f"iter({self.write(_list_rest(value))})"
        return self._write_object(value)

    def join(self, values: "list[object] | tuple[object, ...]") -> str:
        """Return the values as source text, separated by commas."""
        return ", ".join(map(self.write, values))

    def call(self, cls: object, *arguments: object, **named: object) -> str:
        """Return a call of a class."""
        parts = [*map(self.write, arguments), *(f"{check_name(name)}={self.write(one)}" for name, one in named.items())]
        name = cls if isinstance(cls, str) else self.refer(cls, getattr(cls, "__qualname__", ""))
        return f"{name}({', '.join(parts)})"

    def _write_callable(self, symbolic: SymbolicCallable) -> str:
        """Return a function that ignores its arguments, and returns the next values and then the last one again."""
        self.used_sequence = True
        *first, last = symbolic.values[symbolic.idx :] or symbolic.values[-1:]  # the last one is never used up
        if not first:
            return f"(lambda *_, **__: {self.write(last)})"
        return f"(lambda values: lambda *_, **__: next(values, {self.write(last)}))(iter({self.write(first)}))"

    def _write_member(self, value: Enum) -> str:
        cls = type(value)
        name = self.refer(cls, cls.__qualname__)
        if isinstance(value, Flag) and value not in list(cls):
            known = list(value) if sum(one.value for one in value) == value.value else []  # an IntFlag keeps other bits
            return " | ".join(f"{name}.{check_name(one.name)}" for one in known) or f"{name}({int(value.value)})"
        return f"{name}.{check_name(value.name)}"

    def _write_object(self, value: object) -> str:
        cls, attributes = type(value), read_attributes(value)
        if isinstance(value, SymbolicCallable):  # an argument for `Callable`
            return self._write_callable(value)
        if isinstance(value, BaseException):
            return self.call(cls, *value.args)
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return self.call(cls, *value)
        base = next((one for one in _BASES if isinstance(value, one)), None)
        if base and not attributes:
            return self.call(cls, base(value))
        if cls is not object and cls.__module__.partition(".")[0] in {"builtins", *sys.stdlib_module_names}:
            raise Unwritable  # the attributes do not show all of its state
        arguments = find_arguments(value, attributes)
        if arguments is None:
            arguments = attributes if self.shows_state else next((one for made, one in MADE if made() is value), None)
        if arguments is None:
            raise Unwritable
        return self.call(cls, **arguments)


def check_name(name: str | None) -> str:
    """Return a name that can be part of source text. `Unwritable`: it cannot."""
    if name is None or not (name.isidentifier() and name.isascii()):
        raise Unwritable
    return name


def write_name(namespace: Mapping[str, object], value: object, name: str) -> str:
    """Return how code with these names can refer to a class or function; else its full name.

    `Unwritable`: it has no name outside of the function that defines it, or belongs to the analyser.
    """
    if getattr(builtins, name, None) is value:
        return name
    if found := find_name(namespace, value, name):
        return found
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] == "crosshair":
        raise Unwritable
    modules = {key: one for key, one in namespace.items() if isinstance(one, ModuleType)}
    short = next((key for key, one in modules.items() if one.__name__ == module), module)
    if module == MODULE_NAME:  # of another file
        short = next((key for key, one in modules.items() if find_name(vars(one), value, name) == name), module)
    first = short.partition(".")[0]
    known = namespace.get(first, sys.modules.get(first))
    if short == module and not isinstance(known, ModuleType):  # the code has another meaning for the module's name
        short = f"__import__({module!r})"
        return ".".join([short, *map(check_name, name.split("."))])
    return ".".join(check_name(part) for part in f"{short}.{name}".split("."))


def find_name(namespace: Mapping[str, object], value: object, name: str) -> str | None:
    """Return the name under which the namespace has a value: the given name, an attribute of a class, or another."""
    found: object = namespace
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
    if found is value:
        return name
    return next((key for key, one in namespace.items() if one is value and key.isidentifier()), None)


def _list_rest(iterator: object) -> list[object]:
    """Return the values that an iterator still has, and leave them in it."""
    reduced = iterator.__reduce__()
    if not isinstance(reduced, tuple):
        raise Unwritable
    content = reduced[1][0] if reduced[1] else ()
    position = reduced[2] if len(reduced) > 2 and isinstance(reduced[2], int) else 0  # noqa: PLR2004 - the state is third
    return list(content)[position:]


def _write_integer(_: Writer, value: int) -> str:
    if value.bit_length() <= INTEGER_BITS:
        return repr(value)
    zeros = (value & -value).bit_length() - 1  # Python refuses to write the value in decimal
    return f"({value >> zeros:#x} << {zeros})" if zeros > _REPEATED else hex(value)


def _write_complex(writer: Writer, value: complex) -> str:
    is_plain = value - value == 0 and "-0" not in repr(value)
    return repr(value) if is_plain else writer.call("complex", value.real, value.imag)


def _write_text(_: Writer, value: "str | bytes") -> str:
    if len(value) > _REPEATED and value == value[:1] * len(value):
        return f"{value[:1]!a} * {len(value)}"
    return ascii(value)


def _write_set(writer: Writer, value: "set[object] | frozenset[object]") -> str:
    return f"{{{', '.join(sorted(map(writer.write, value)))}}}" if value else "set()"


def _write_deque(writer: Writer, value: "deque[object]") -> str:
    limit = {} if value.maxlen is None else {"maxlen": value.maxlen}
    return writer.call(deque, list(value), **limit)


def _write_moment(writer: Writer, value: "datetime | time") -> str:
    day = [value.year, value.month, value.day] if isinstance(value, datetime) else []
    zone = {} if value.tzinfo is None else {"tzinfo": value.tzinfo}
    clock = [value.hour, value.minute, value.second, value.microsecond]
    while clock and not clock[-1]:
        clock.pop()
    return writer.call(type(value), *day, *clock, **zone, **({"fold": 1} if value.fold else {}))


def _write_duration(writer: Writer, value: timedelta) -> str:
    parts = {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}
    return writer.call(timedelta, **{name: one for name, one in parts.items() if one})


def _write_zone(writer: Writer, value: timezone) -> str:
    if value is UTC:
        return f"{writer.refer(timezone, 'timezone')}.utc"
    return writer.call(timezone, *value.__getinitargs__())  # type: ignore[attr-defined] # typeshed does not have it


def _write_path(writer: Writer, value: PurePath) -> str:
    name = writer.refer(type(value), type(value).__name__)
    if "." in name and type(value) is PurePosixPath:  # the code has another name for it as a rule
        short = writer.refer(PurePath, PurePath.__name__)
        name = name if "." in short else short
    return writer.call(name, str(value))


_WRITERS: Mapping[type, Callable[..., str]] = {
    **dict.fromkeys((bool, type(None), range, slice), lambda _, value: repr(value)),
    **dict.fromkeys((str, bytes), _write_text),
    int: _write_integer,
    float: lambda _, value: repr(value) if math.isfinite(value) else f"float('{value}')",
    complex: _write_complex,
    bytearray: lambda writer, value: writer.call("bytearray", bytes(value)),
    list: lambda writer, value: f"[{writer.join(value)}]",
    tuple: lambda writer, value: f"({writer.join(value)}{',' if len(value) == 1 else ''})",
    dict: lambda writer, value: (
        f"{{{', '.join(f'{writer.write(key)}: {writer.write(one)}' for key, one in value.items())}}}"
    ),
    set: _write_set,
    frozenset: lambda writer, value: f"frozenset({_write_set(writer, value) if value else ''})",
    deque: _write_deque,
    defaultdict: lambda writer, value: writer.call(defaultdict, value.default_factory, dict(value)),
    OrderedDict: lambda writer, value: writer.call(OrderedDict, list(value.items())),
    Counter: lambda writer, value: writer.call(Counter, dict(value)),
    **dict.fromkeys((datetime, time), _write_moment),
    date: lambda writer, value: writer.call(date, value.year, value.month, value.day),
    timedelta: _write_duration,
    timezone: _write_zone,
    Decimal: lambda writer, value: writer.call(Decimal, str(value)),
    Fraction: lambda writer, value: writer.call(Fraction, value.numerator, value.denominator),
    **dict.fromkeys((PurePosixPath, PureWindowsPath), _write_path),
    re.Pattern: lambda writer, value: writer.call(re.compile, value.pattern, int(value.flags)),
}


TEXT_LENGTH = 2_000
_DEPTH = 5
_EXACT = 2**53  # clients that read all numbers as floats change larger integers, or refuse the answer
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

NO_TEST = (
    "`test` is null: an argument or class has no source text, the test would be too long, or no assertion can show the"
    " result. Reproduce it with `call`."
)

Names = Mapping[str, object]


def make_counterexample(
    subject: "Subject",
    arguments: BoundArguments,
    names: Names,
    violation: str,
    actual_result: str,
    *,
    test: str | None = None,
    path_condition: str = "True",
) -> Counterexample:
    """Return the counterexample for a call of a function; `names` are those of the code."""
    kinds = {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD}
    by_keyword = {key for key, one in arguments.signature.parameters.items() if one.kind in kinds}
    values = {key: to_json_value(value, names) for key, value in arguments.arguments.items()}
    return {
        "args": {key: value for key, value in values.items() if key not in by_keyword},
        "kwargs": {key: value for key, value in values.items() if key in by_keyword},
        "call": write_call(subject, arguments, names),
        "violation": cut_text(violation),
        "actual_result": cut_text(actual_result),
        "path_condition": cut_text(path_condition),
        "test": test,
    }


def to_json_value(value: object, names: Names = MappingProxyType({})) -> Value:
    """Return the value itself if it fits into JSON, else its source text."""
    text = write_source(value, names)
    return value if _is_json(value) and (len(text) < TEXT_LENGTH or not isinstance(value, list | dict)) else text


def _is_json(value: object, depth: int = _DEPTH) -> TypeGuard[Value]:
    """Return whether JSON has exactly this value."""
    if type(value) is list:
        return depth > 0 and all(_is_json(one, depth - 1) for one in value)
    if type(value) is dict:
        items = value.items()
        return depth > 0 and all(type(key) is str and _is_json(key) and _is_json(one, depth - 1) for key, one in items)
    if type(value) is str:
        return len(value) <= TEXT_LENGTH and not re.search("[\ud800-\udfff]", value)
    if type(value) is int:
        return abs(value) < _EXACT
    return math.isfinite(value) if type(value) is float else value is None or isinstance(value, bool)


def write_call(subject: "Subject", arguments: BoundArguments, names: Names) -> str:
    """Return the call as Python source text, such as `f(3, k='a')` or `Class(1).method(2)`."""
    positional = [write_source(value, names) for value in arguments.args]
    keyword = [f"{key}={write_source(value, names)}" for key, value in arguments.kwargs.items()]
    called = subject.name
    if subject.kind in {"method", "property"}:
        called = f"{positional.pop(0)}.{subject.name.rpartition('.')[2]}"
    return cut_text(called if subject.kind == "property" else f"{called}({', '.join(positional + keyword)})")


def write_source(value: object, names: Names = MappingProxyType({})) -> str:
    """Return the value as shortened Python source text in ASCII, for code with these names.

    If there is no source text, return its repr without addresses, or its type.
    """
    try:
        text = Writer(partial(write_name, names)).write(value)
    except Exception:  # noqa: BLE001 - the class of the value is analysed code
        try:
            text = _ADDRESS.sub("", ascii(value))
        except Exception:  # noqa: BLE001 - the repr is analysed code, or refuses a long integer
            text = f"<{type(value).__name__} without a repr>"
    return cut_text(text)


def write_exactly(value: object, names: Names) -> str | None:
    """Return source text that `evaluate` makes an equal value from, or None if there is none."""
    refer = partial(write_name, names)
    state = Writer(refer, shows_state=True)
    try:
        text = Writer(refer).write(value)
        return text if state.write(evaluate(text, names)) == state.write(value) else None
    except Exception:  # noqa: BLE001 - the class of the value is analysed code
        return None


def evaluate(text: str, names: Names) -> object:
    """Return the value of source text that `write_exactly` wrote for code with these names."""
    known = dict(names)
    load = names["__builtins__"]["__import__"]  # type: ignore[index] # the code has no other modules
    files = [name for name in names if "." in name]  # in packages
    for module in (*files, *ALLOWED_MODULES):
        if f"{module}." in text:
            known.setdefault(module.partition(".")[0], load(module))
    value: object = eval(text, known)  # noqa: S307 - the writer above wrote it
    return value


def cut_text(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"


class _PlainClause(ast.NodeTransformer):
    """A clause as an expression without the names that only contracts have.

    In its `text`, `result` is the result, and `old_x` the argument `x` before the call.
    """

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        self.used: set[str] = set()  # the parameters that it uses
        self.old: set[str] = set()  # those with their values before the call
        self.others: set[str] = set()
        self._variables = variables
        tree = ast.parse(source.strip(), mode="eval").body
        nodes = list(ast.walk(tree))
        self._bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        self.text = ast.unparse(self.visit(tree)).encode("ascii", "backslashreplace").decode()
        ast.parse(self.text, mode="eval")  # a text in an f-string can have no backslash in Python 3.11

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._bound:
            return node
        if node.id in {"_", "__return__"}:
            return ast.Name("result", node.ctx)
        (self.used if node.id in self._variables else self.others).add(node.id)
        return ast.Name(self._variables.get(node.id, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "__old__":
            self.old.add(node.attr)
            return ast.Name(f"old_{node.attr}", node.ctx)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "implies" and len(node.args) == 2:  # noqa: PLR2004 - if and then
            return ast.BoolOp(ast.Or(), [ast.UnaryOp(ast.Not(), node.args[0]), node.args[1]])
        return node


TEST_LENGTH = 8_000
_OUTCOME = """
def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error)
"""
_TEXT_OF_OUTCOME = _OUTCOME.replace("call()\n", "repr(call())\n").replace("type(error)", "type(error).__qualname__")
_ASSERTIONS = {
    "value": "assert {} == {}",
    "repr": "assert repr({}) == repr({})",
    "attributes": "assert vars({}) == vars({})",
    "state": "assert {}.getstate() == {}.getstate()",
    **dict.fromkeys(("exception", "text"), "assert outcome(lambda: {}) == outcome(lambda: {})"),
}


@dataclass(frozen=True, slots=True)
class Code:
    """The code that a test imports."""

    names: Mapping[str, object]  # the names of the code
    module_name: str  # the name of its module
    files: Mapping[str, ModuleType] = field(default_factory=dict)  # the other modules of the project, by name


@dataclass(slots=True)
class _Text:
    """A test that is being written."""

    code: Code  # the code that it tests
    imports: dict[str, set[str]] = field(default_factory=dict)  # for each module, the names to import from it
    helpers: list[str] = field(default_factory=list)  # functions before the test
    # a class, and the module with its old version: the old version is written
    old_class: tuple[type, str] | None = None
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.writer = Writer(self.refer)

    def refer(self, value: object, name: str) -> str:
        """Return the name of a class or function, and import it."""
        if self.old_class and value is self.old_class[0]:
            return self.use(self.old_class[1], name, f"old_{name}")
        if getattr(builtins, name, None) is value:
            return name
        module = str(getattr(value, "__module__", ""))
        if module != MODULE_NAME:
            if module.partition(".")[0] not in sys.stdlib_module_names:
                raise Unwritable  # the project need not have it
            known = getattr(value, "__library__", value)  # what stands for a class of pathlib
            if find_name(vars(sys.modules[module]) if module in sys.modules else {}, known, name) != name:
                raise Unwritable
            return self.use(module, name)
        for file_name, file in self.code.files.items():
            if found := find_name(vars(file), value, name):
                return self.use(file_name, found)
        if own := find_name(self.code.names, value, name):
            return self.use(self.code.module_name, own)
        raise Unwritable

    def use(self, module: str, name: str, alias: str = "") -> str:
        """Import a name, and return it."""
        for part in (*module.split("."), *name.split(".")):
            check_name(part)
        first = name.partition(".")[0]  # of a nested class, the outer one
        self.imports.setdefault(module, set()).add(f"{first} as {alias}" if alias else first)
        return alias or name

    def finish(self, name: str, lines: Sequence[str]) -> str | None:
        """Return the whole test, or None if it is too long."""
        imports = [f"from {module} import {', '.join(sorted(one))}" for module, one in sorted(self.imports.items())]
        body = "\n".join(f"    {line}" for line in lines)
        text = "\n".join(
            [*imports, *(f"\n{one.rstrip()}" for one in self.helpers), "\n", f"def test_{name}():", body, ""]
        )
        return text if len(text) <= TEST_LENGTH else None


def write_violation(subject: Subject, arguments: BoundArguments, code: Code, clause: str) -> str | None:
    """Return a test of a postcondition that does not hold; None if a value has no source text."""
    text = _Text(code)
    left_out = [one for name, one in arguments.signature.parameters.items() if name not in arguments.arguments]
    defaults = {one.name: one.default for one in left_out if one.default is not Parameter.empty}
    try:
        variables = _name_variables(subject, arguments)
        known = {name: name for name in defaults} | variables
        condition = _PlainClause(clause, known)
        for name in sorted(condition.others & code.names.keys()):
            text.use(code.module_name, name)
        lines = [f"{variables[name]} = {text.writer.write(one)}" for name, one in arguments.arguments.items()]
        lines += [f"{name} = {text.writer.write(one)}" for name, one in defaults.items() if name in condition.used]
        for name in sorted(condition.old & known.keys()):
            lines.append(f"old_{name} = {text.use('copy', 'deepcopy')}({known[name]})")
        lines += [f"result = {_write_call(text, subject, arguments, variables)}", f"assert {condition.text}"]
        return text.finish(f"{_plain(subject.name)}_keeps_its_contract", lines)
    except (Unwritable, SyntaxError, ValueError, RecursionError):
        return None


def write_exception(subject: Subject, arguments: BoundArguments, code: Code, error: BaseException) -> str | None:
    """Return a test that a call raises no exception of this class; None if a value has no source text."""
    text = _Text(code)
    try:
        cls = type(error)
        raised = text.refer(cls, cls.__qualname__)
        lines = [
            "error = None",
            "try:",
            f"    {_write_call(text, subject, arguments)}",
            f"except {raised} as raised:",
            "    error = raised",
            "assert error is None",
        ]
        return text.finish(f"{_plain(subject.name)}_raises_no_{_plain(cls.__name__)}", lines)
    except (Unwritable, ValueError, RecursionError):
        return None


DifferenceKind = Literal["value", "repr", "attributes", "state", "exception", "text", "arguments"]
"""What shows how two functions differ: `==`, the repr or the attributes of the results, or the state of those that are
random generators; an exception; the text of the outcomes if their classes are of two modules; or the arguments after
the calls."""


def write_difference(
    subjects: tuple[Subject, Subject],
    arguments: BoundArguments,
    code: Code,
    kind: DifferenceKind,
    old_module: str | None,
) -> str | None:
    """Return a test that two functions agree; None if a value has no source text.

    `old_module` is the module of the first function, if it is another one.
    """
    text = _Text(code)
    left, right = subjects
    try:
        if kind == "arguments":
            lines = _compare_arguments(text, subjects, arguments, old_module)
        else:
            one = _write_call_of_version(text, left, arguments, old_module)
            lines = [_ASSERTIONS[kind].format(one, _write_call(text, right, arguments))]
        text.helpers += {"exception": [_OUTCOME], "text": [_TEXT_OF_OUTCOME]}.get(kind, [])
        name = "is_unchanged" if old_module else f"and_{_plain(right.name)}_agree"
        return text.finish(f"{_plain(left.name)}_{name}", lines)
    except (Unwritable, ValueError, RecursionError):
        return None


def _compare_arguments(
    text: _Text, subjects: tuple[Subject, Subject], arguments: BoundArguments, old_module: str | None
) -> list[str]:
    """Return the lines of a test that both calls leave their arguments equal. Each call gets its own ones."""
    lines, sides = [], []
    for subject, prefix, module in zip(subjects, ("left", "right"), (old_module, None), strict=True):
        variables = {name: f"{prefix}_{name}" for name in arguments.arguments}
        lines += [f"{variables[name]} = {text.writer.write(one)}" for name, one in arguments.arguments.items()]
        lines.append(_write_call_of_version(text, subject, arguments, module, variables))
        sides.append(f"({', '.join(variables.values())},)")
    if text.writer.used_sequence:
        raise Unwritable  # the test would make two functions, which are never equal
    return [*lines, f"assert {sides[0]} == {sides[1]}"]


def _write_call_of_version(
    text: _Text,
    subject: Subject,
    arguments: BoundArguments,
    old_module: str | None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Return a call of a function. With `old_module`, of its old version, which is in that module."""
    if old_module is None:
        return _write_call(text, subject, arguments, variables)
    if subject.kind in {"method", "property"}:  # the object makes the call one of the old version
        text.old_class = (type(arguments.args[0]), old_module)
        written = _write_call(text, subject, arguments, variables)
        text.old_class = None
        return written
    outer, dot, rest = subject.name.partition(".")  # of a static method or class method, the class
    called = text.use(old_module, outer, f"old_{outer}") + dot + rest
    return f"{called}({_write_arguments(text, arguments, variables)})"


def _write_call(
    text: _Text, subject: Subject, arguments: BoundArguments, variables: Mapping[str, str] | None = None
) -> str:
    """Return the call of the function or method with the arguments, or with variables that have their values."""
    owner, _, last = subject.name.rpartition(".")
    if not owner or subject.kind in {"static", "class"}:
        return f"{text.use(text.code.module_name, subject.name)}({_write_arguments(text, arguments, variables)})"
    (first, receiver), *_ = arguments.arguments.items()
    written = variables[first] if variables else text.writer.write(receiver)
    if subject.kind == "property":
        return f"{written}.{last}"
    return f"{written}.{last}({_write_arguments(text, arguments, variables, skip=1)})"


class _Variable(str):
    """The name of a variable of the test, instead of a value."""

    __slots__ = ()


def _write_arguments(
    text: _Text, arguments: BoundArguments, variables: Mapping[str, str] | None = None, *, skip: int = 0
) -> str:
    values: dict[str, object] = dict(arguments.arguments)
    for name, variable in (variables or {}).items():
        kind = arguments.signature.parameters[name].kind
        if kind is Parameter.VAR_POSITIONAL:
            values[name] = (_Variable(f"*{variable}"),)
        else:
            values[name] = {"": _Variable(f"**{variable}")} if kind is Parameter.VAR_KEYWORD else _Variable(variable)
    given = BoundArguments(arguments.signature, values)
    keyword = {f"{check_name(key)}=" if key else "": one for key, one in given.kwargs.items()}
    parts = [*(("", one) for one in given.args[skip:]), *keyword.items()]
    return ", ".join(key + (one if isinstance(one, _Variable) else text.writer.write(one)) for key, one in parts)


def _name_variables(subject: Subject, arguments: BoundArguments) -> dict[str, str]:
    """Return the names of the variables that have the arguments. The test uses the other names itself."""
    taken = {"result", "deepcopy", subject.name.partition(".")[0]}
    return {name: f"{name}_" if name in taken else name for name in map(check_name, arguments.arguments)}


def _plain(name: str) -> str:
    return check_name(name.replace(".", "_"))
