"""Write a counterexample as a pytest: imports, the arguments, and one assertion that fails until a correction.

Clauses of contracts become plain Python. Outcomes of two versions, with classes in two modules, are compared by the
names of their classes and by content.
"""

import ast
import builtins
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import BoundArguments, Parameter
from types import ModuleType
from typing import Any, Literal

from quilt_mcp.analysis.engine.exploration import Raised, Returned
from quilt_mcp.analysis.engine.source_text import Unwritable, Writer, check_name, find_name
from quilt_mcp.analysis.engine.subjects import Subject
from quilt_mcp.analysis.messages import MODULE_NAME


@dataclass(frozen=True, slots=True)
class PlainClause:
    """A clause as an expression without the names that only contracts have.

    Attributes:
        text: the expression. `result` is the result, and `old_x` the argument `x` before the call.
        used: the parameters that it uses.
        old: the parameters that it uses with their values before the call.
        others: the other names that it uses.
    """

    text: str
    used: set[str]
    old: set[str]
    others: set[str]


def rewrite_clause(source: str, variables: Mapping[str, str]) -> PlainClause:
    """Return the clause as plain Python.

    Args:
        source: the expression of the clause.
        variables: for each parameter, the variable that has its value.

    Raises:
        SyntaxError: it is not an expression.
    """
    tree = ast.parse(source.strip(), mode="eval").body
    rewriter = _Rewriter(variables, _find_bound_names(tree))
    text = ast.unparse(rewriter.visit(tree))
    return PlainClause(text, rewriter.used, rewriter.old, rewriter.others)


def _find_bound_names(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


class _Rewriter(ast.NodeTransformer):
    def __init__(self, variables: Mapping[str, str], bound: set[str]) -> None:
        self.used: set[str] = set()
        self.old: set[str] = set()
        self.others: set[str] = set()
        self._variables = variables
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._bound:
            return node
        if node.id in {"_", "__return__"}:
            return ast.Name("result", node.ctx)
        if node.id in self._variables:
            self.used.add(node.id)
            return ast.Name(self._variables[node.id], node.ctx)
        self.others.add(node.id)
        return node

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


_CONTAINERS = (list, tuple, set, frozenset)
_TEXT = """
def plain(value):
    cls = type(value)
    if cls.__module__ in MODULES:
        text = repr(value)
        state = {} if hasattr(cls, "__members__") else getattr(value, "__dict__", {})
        return [cls.__qualname__, "" if " at 0x" in text else text, plain(state)]
    if cls in (list, tuple):
        return [cls.__name__, *map(plain, value)]
    if cls is dict:
        return sorted(([plain(key), plain(one)] for key, one in value.items()), key=repr)
    if cls in (set, frozenset):
        return sorted(map(plain, value), key=repr)
    return value


def outcome(call):
    try:
        return plain(call())
    except Exception as error:
        return "raises " + type(error).__qualname__
"""


def write_plain(modules: tuple[str, str]) -> str:
    """Return the source text of `plain` and `outcome` for code in these modules."""
    return _TEXT.replace("MODULES", repr(modules))


_names: dict[str, Any] = {}
exec(write_plain((MODULE_NAME, MODULE_NAME)), _names)  # noqa: S102 - the text above, so that tests have the same function


def has_own_classes(outcome: Returned | Raised) -> bool:
    """Return whether the outcome contains objects of the code's own classes."""
    try:
        return _is_own(outcome.error if isinstance(outcome, Raised) else outcome.value)
    except RecursionError:  # the value contains itself
        return True


def _is_own(value: object) -> bool:
    if isinstance(value, dict):
        return any(_is_own(one) for pair in value.items() for one in pair)
    if type(value) in _CONTAINERS:
        return any(map(_is_own, value))  # type: ignore[call-overload] # it is one of them
    return type(value).__module__ == MODULE_NAME


def differ(first: Returned | Raised, second: Returned | Raised) -> bool:
    """Return whether the test shows the difference. It cannot show a difference of class definitions alone."""
    try:
        return bool(_describe(first) != _describe(second))
    except Exception:  # noqa: BLE001 - the repr is analysed code
        return False


def _describe(outcome: Returned | Raised) -> Any:
    def call() -> object:
        if isinstance(outcome, Raised):
            raise outcome.error
        return outcome.value

    return _names["outcome"](call)


TEST_LENGTH = 8_000
_MAKE = """
def make(cls, **attributes):
    value = cls.__new__(cls)
    for name, one in attributes.items():
        object.__setattr__(value, name, one)
    return value
"""
_OUTCOME = """
def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error)
"""
_ASSERTIONS = {
    "value": "assert {} == {}",
    "repr": "assert repr({}) == repr({})",
    "attributes": "assert vars({}) == vars({})",
    "state": "assert {}.getstate() == {}.getstate()",
    "exception": "assert outcome(lambda: {}) == outcome(lambda: {})",
    "plain": "assert outcome(lambda: {}) == outcome(lambda: {})",
}


@dataclass(frozen=True, slots=True)
class Code:
    """The code that a test imports.

    Attributes:
        names: the names of the code.
        module_name: the name of its module.
        files: the other modules of the project, by name.
    """

    names: Mapping[str, object]
    module_name: str
    files: Mapping[str, ModuleType] = field(default_factory=dict)


@dataclass(slots=True)
class _Text:
    """A test that is being written.

    Attributes:
        code: the code that it tests.
        imports: for each module, the names to import from it.
        plain_imports: modules to import as a whole.
        helpers: functions before the test.
        old_class: a class, and the module with its old version: the old version is written.
    """

    code: Code
    imports: dict[str, set[str]] = field(default_factory=dict)
    plain_imports: set[str] = field(default_factory=set)
    helpers: list[str] = field(default_factory=list)
    old_class: tuple[type, str] | None = None
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.writer = Writer(self.refer, make="make")

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
            if find_name(vars(sys.modules[module]) if module in sys.modules else {}, value, name) != name:
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
        first = name.partition(".")[0]
        self.imports.setdefault(module, set()).add(f"{first} as {alias}" if alias else first)
        return alias or name

    def finish(self, name: str, lines: Sequence[str]) -> str | None:
        """Return the whole test, or None if it is too long."""
        imports = [f"import {module}" for module in sorted(self.plain_imports)]
        imports += [
            f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self.imports.items())
        ]
        helpers = [*self.helpers, *([_MAKE] if self.writer.used_make else [])]
        body = "\n".join(f"    {line}" for line in lines)
        text = "\n".join([*imports, *(f"\n{one.rstrip()}" for one in helpers), "\n", f"def test_{name}():", body, ""])
        return text if len(text) <= TEST_LENGTH else None


def write_violation(subject: Subject, arguments: BoundArguments, code: Code, clause: str) -> str | None:
    """Return a test of a postcondition that does not hold; None if a value has no source text."""
    text = _Text(code)
    defaults = _find_defaults(arguments)
    try:
        variables = _name_variables(subject, arguments)
        known = {**dict.fromkeys(defaults), **variables}
        condition = rewrite_clause(clause, {name: one or name for name, one in known.items()})
        for name in sorted(condition.others & code.names.keys()):
            text.use(code.module_name, name)
        lines = [f"{variables[name]} = {text.writer.write(one)}" for name, one in arguments.arguments.items()]
        lines += [f"{name} = {text.writer.write(one)}" for name, one in defaults.items() if name in condition.used]
        lines += [f"old_{name} = copy.deepcopy({known[name] or name})" for name in sorted(condition.old & known.keys())]
        text.plain_imports |= {"copy"} if condition.old else set()
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


DifferenceKind = Literal["value", "repr", "attributes", "state", "exception", "plain", "arguments"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How two functions differ for some arguments.

    Attributes:
        kind: `value` if `==` shows it, `repr` if only the repr shows it, `attributes` if only the attributes of the
            results show it, `state` if the results are random generators, `exception` if one of them raises, `plain` if
            the outcomes are of classes of two modules,
            `arguments` if only the arguments after the calls show it.
        old_module: the module of the first function, if it is another one.
    """

    kind: DifferenceKind
    old_module: str | None = None


def write_difference(
    subjects: tuple[Subject, Subject],
    arguments: BoundArguments,
    code: Code,
    difference: Difference,
) -> str | None:
    """Return a test that two functions agree; None if a value has no source text."""
    text = _Text(code)
    left, right = subjects
    try:
        if difference.kind == "arguments":
            lines = _compare_arguments(text, subjects, arguments, difference)
        else:
            one = _write_side(text, left, arguments, difference.old_module)
            lines = [_ASSERTIONS[difference.kind].format(one, _write_call(text, right, arguments))]
        text.helpers += [_OUTCOME] if difference.kind == "exception" else []
        if difference.kind == "plain":
            text.helpers.append(write_plain((code.module_name, difference.old_module or code.module_name)))
        name = "is_unchanged" if difference.old_module else f"and_{_plain(right.name)}_agree"
        return text.finish(f"{_plain(left.name)}_{name}", lines)
    except (Unwritable, ValueError, RecursionError):
        return None


def _compare_arguments(
    text: _Text, subjects: tuple[Subject, Subject], arguments: BoundArguments, difference: Difference
) -> list[str]:
    lines, sides = [], []
    for subject, prefix, old_module in zip(subjects, ("left", "right"), (difference.old_module, None), strict=True):
        variables = {name: f"{prefix}_{name}" for name in arguments.arguments}
        lines += [f"{variables[name]} = {text.writer.write(one)}" for name, one in arguments.arguments.items()]
        lines.append(_write_side(text, subject, arguments, old_module, variables))
        sides.append(f"({', '.join(variables.values())},)")
    if text.writer.used_sequence:
        raise Unwritable  # such functions are never equal
    return [*lines, f"assert {sides[0]} == {sides[1]}"]


def _write_side(
    text: _Text,
    subject: Subject,
    arguments: BoundArguments,
    old_module: str | None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Return a call of the first function, which can be in the module of the old version."""
    if old_module is None or subject.kind in {"method", "property"}:
        text.old_class = (type(arguments.args[0]), old_module) if old_module else None
        written = _write_call(text, subject, arguments, variables)
        text.old_class = None
        return written
    first, dot, rest = subject.name.partition(".")
    called = text.use(old_module, first, f"old_{first}") + dot + rest
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


def _write_arguments(
    text: _Text, arguments: BoundArguments, variables: Mapping[str, str] | None = None, *, skip: int = 0
) -> str:
    if variables is None:
        positional = [text.writer.write(one) for one in arguments.args[skip:]]
        return ", ".join(
            [*positional, *(f"{check_name(key)}={text.writer.write(one)}" for key, one in arguments.kwargs.items())]
        )
    forms: Mapping[object, str] = {
        Parameter.VAR_POSITIONAL: "*{1}",
        Parameter.VAR_KEYWORD: "**{1}",
        Parameter.KEYWORD_ONLY: "{0}={1}",
    }
    parameters = arguments.signature.parameters
    after_gap, parts = False, []
    given = arguments.arguments
    for name, one in list(parameters.items())[skip:]:
        if name not in given:
            after_gap = after_gap or one.kind is Parameter.POSITIONAL_OR_KEYWORD
        elif after_gap and one.kind is Parameter.POSITIONAL_OR_KEYWORD:
            parts.append(f"{name}={variables[name]}")
        else:
            parts.append(forms.get(one.kind, "{1}").format(name, variables[name]))
    return ", ".join(parts)


def _name_variables(subject: Subject, arguments: BoundArguments) -> dict[str, str]:
    """Return the names of the variables that have the arguments. The test uses the other names itself."""
    taken = {"result", "copy", subject.name.partition(".")[0]}
    return {name: f"{name}_" if name in taken else name for name in map(check_name, arguments.arguments)}


def _find_defaults(arguments: BoundArguments) -> dict[str, object]:
    parameters = arguments.signature.parameters.values()
    return {
        one.name: one.default
        for one in parameters
        if one.name not in arguments.arguments and one.default is not Parameter.empty
    }


def _plain(name: str) -> str:
    return check_name(name.replace(".", "_"))
