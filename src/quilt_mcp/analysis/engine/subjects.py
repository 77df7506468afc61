"""Find what a request names: a function with typed parameters and its contract, or an exception class."""

import ast
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from inspect import BoundArguments, Parameter, Signature
from types import CellType, FunctionType, ModuleType
from typing import Literal

from crosshair.condition_parser import Pep316Parser
from crosshair.fnutil import FunctionInfo, resolve_signature
from crosshair.util import AttributeHolder

from quilt_mcp.analysis.engine.exploration import Raised, Run, read_attributes
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.messages import MODULE_NAME


class AnalysisRefused(Exception):
    """The request cannot be analysed. The message says what is wrong and what to change."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message


SubjectKind = Literal["function", "method", "static", "class", "property"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A function or method of the submitted code."""

    function: Callable[..., object]  # the object. A method gets its object as the first argument.
    signature: Signature  # with resolved types. That of a method has its object as the first parameter.
    node: ast.FunctionDef  # the syntax tree
    defined: FunctionType  # what `node` defines. For a class method, `function` is a function that calls it.
    name: str  # as in the request, such as `f` or `Class.method`
    kind: SubjectKind = "function"  # what the name means
    owner: type | None = None  # the class of a method


def find_subject(loaded: Loaded, name: str) -> Subject:
    """Return the function with this name, or the method with a name such as `Class.method`.

    `AnalysisRefused`: there is not exactly one, or its kind is not supported.
    """
    node = find_function(loaded.tree, name)
    called, kind, owner = _find_object(loaded.module, name)
    function = _find_defined(called, node)
    if function is None or not callable(called):
        raise AnalysisRefused(
            "UnsupportedFunction",
            f"A decorator or an assignment replaces the function `{name}`, and does not call it. Remove it.",
        )
    if inspect.isgeneratorfunction(function):
        raise AnalysisRefused(
            "UnsupportedFunction",
            f"`{name}` is a generator function: a call does not run its body. Add a function that returns a list.",
        )
    signature = resolve_types(function)
    if signature is None:
        raise AnalysisRefused(
            "UnsupportedSignature", f"An annotation of `{name}` contains an unknown type. Define or import it."
        )
    if owner is not None and kind != "static":
        parameters = list(signature.parameters.values())
        if not parameters or parameters[0].kind not in {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}:
            raise AnalysisRefused("UnsupportedSignature", f"`{name}` has no parameter for its object. Add `self`.")
        signature = signature.replace(parameters=[parameters[0].replace(annotation=owner), *parameters[1:]])
    if owner is not None and kind == "class":
        # the class is not an argument that can vary
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        return Subject(partial(called, owner), signature, node, function, name, kind, owner)
    return Subject(called, signature, node, function, name, kind, owner)


def _find_defined(called: object, node: ast.FunctionDef) -> FunctionType | None:
    """Return the function that a statement defines, also if what a decorator made of it calls it; None if unknown."""
    waiting, seen = [called], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            if one.__code__.co_name == node.name and one.__module__ == MODULE_NAME:
                return one
            waiting += [cell.cell_contents for cell in one.__closure__ or () if _is_function(cell)]
        waiting += [getattr(one, "__wrapped__", None)] if callable(one) else []
    return None


def _is_function(cell: CellType) -> bool:
    try:
        return isinstance(cell.cell_contents, FunctionType)
    except ValueError:  # it is empty
        return False


def _find_object(module: ModuleType, name: str) -> tuple[object, SubjectKind, type | None]:
    """Return the function of a name, what the name means, and the class that has it."""
    *path, last = name.split(".")
    owner: object = None
    for part in path:
        owner = (vars(owner) if isinstance(owner, type) else vars(module)).get(part)
        if not isinstance(owner, type):
            return None, "method", None
    if not isinstance(owner, type):
        return vars(module).get(last), "function", None
    found = vars(owner).get(last)
    if isinstance(found, staticmethod):
        return found.__func__, "static", owner
    if isinstance(found, classmethod):
        return found.__func__, "class", owner
    if isinstance(found, property):
        return found.fget, "property", owner
    return found, "method", owner


def find_function(tree: ast.Module, name: str) -> ast.FunctionDef:
    """Return the definition of the function or method with this name. `AnalysisRefused`: there is not exactly one."""
    body, *_, last = tree.body, *name.split(".")
    for part in name.split(".")[:-1]:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == part]
        if len(classes) != 1:
            raise AnalysisRefused("FunctionNotFound", _describe_choice(tree, name))
        body = classes[0].body
    named = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == last]
    if len(named) > 1:
        raise AnalysisRefused(
            "AmbiguousFunction", f"The code defines `{name}` {len(named)} times. Leave one definition."
        )
    if not named:
        raise AnalysisRefused("FunctionNotFound", _describe_choice(tree, name))
    return named[0]


def _describe_choice(tree: ast.Module, name: str) -> str:
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for cls in tree.body:
        if isinstance(cls, ast.ClassDef):
            found |= {f"{cls.name}.{node.name}" for node in cls.body if isinstance(node, ast.FunctionDef)}
    others = sorted(found)
    choice = f"Choose one of: {', '.join(others[:10])}." if others else "Define it at the top level of the code."
    return f"The code has no function `{name}`. {choice}"


def find_exception_class(module: ModuleType, name: str, builtins: dict[str, object]) -> type[Exception]:
    """Return the exception class with this name.

    It can be built in, in the submitted code or a class of it (`Outer.Class`), or in an imported module.

    Raises:
        AnalysisRefused: there is none, or it is not a subclass of Exception.
    """
    first, *rest = name.split(".")
    found = module.__dict__.get(first, builtins.get(first))
    for part in rest:
        found = found.__dict__.get(part) if isinstance(found, ModuleType | type) else None
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    raise AnalysisRefused(
        "UnknownExceptionType",
        f"`{name}` is not an exception class. Use a built-in one such as ValueError, or one that the code defines.",
    )


@dataclass(frozen=True, slots=True)
class Clause:
    """One line of a contract: its expression, and a function from the names that it can use to its value."""

    source: str
    evaluate: Callable[[dict[str, object]], object]


def holds(run: Run, clause: Clause, names: dict[str, object]) -> bool:
    """Return whether a clause is true. One that raises is not."""
    outcome = run.call(lambda: bool(clause.evaluate(names)))
    return not isinstance(outcome, Raised) and bool(outcome.value)


def name_arguments(arguments: BoundArguments, old: BoundArguments) -> dict[str, object]:
    """Return what clauses see: arguments, the default values of those that are left out, and the `old` arguments."""
    defaults = {one.name: one.default for one in arguments.signature.parameters.values()}
    known = {name: one for name, one in defaults.items() if one is not Parameter.empty}
    return {**known, **arguments.arguments, "__old__": AttributeHolder(old.arguments)}


@dataclass(frozen=True, slots=True)
class Contract:
    """The `pre:`, `post:` and `raises:` lines of a function's docstring (PEP 316), and the errors in them."""

    pre: list[Clause]
    post: list[Clause]
    raises: tuple[type[BaseException], ...]
    problems: list[str]


def resolve_types(function: Callable[..., object]) -> Signature | None:
    """Return the signature with its annotations resolved to types, or None if that is not possible."""
    try:
        resolved = resolve_signature(function)
    except SyntaxError:  # an annotation is a string that is not an expression
        return None
    return resolved if isinstance(resolved, Signature) else None


def parse_contract(function: Callable[..., object]) -> Contract:
    """Return the contract in the docstring of a function. A `pre:` alone means that the function raises nothing."""
    parsed = Pep316Parser().get_fn_conditions(FunctionInfo(None, "", function))
    if parsed is None:
        return Contract([], [], (), [])
    problems = [problem.message for problem in parsed.syntax_messages()]
    pre = [Clause(one.expr_source, one.evaluate) for one in parsed.pre if one.evaluate]
    # CrossHair adds a postcondition without a source, which always holds, to preconditions alone
    post = [Clause(one.expr_source, one.evaluate) for one in parsed.post if one.evaluate and one.expr_source]
    return Contract(pre, post, tuple(sorted(parsed.raises, key=lambda error: error.__name__)), problems)


def meets(run: Run, pre: list[Clause], arguments: BoundArguments) -> bool:
    """Return whether arguments meet preconditions. These get copies, because they can change them."""
    names = name_arguments(run.copy(arguments), run.copy(arguments)) if pre else {}
    return all(holds(run, clause, names) for clause in pre)


def list_invariants(cls: type) -> list[Clause]:
    """Return the invariants in the docstrings of a class and its bases."""
    return [clause for one in cls.__mro__ for clause in _read_invariants(one)]


@cache
def _read_invariants(cls: type) -> list[Clause]:
    found = Pep316Parser().get_class_conditions(cls).inv if "inv:" in (cls.__doc__ or "") else ()
    return [Clause(one.expr_source, one.evaluate) for one in found if one.evaluate]


def satisfy_invariants(run: Run, arguments: BoundArguments) -> bool:
    parts = walk_parts(run.copy(arguments).arguments.values())
    found = ((one, clause) for one in parts for clause in list_invariants(type(one)))
    return all(holds(run, clause, {"self": one}) for one, clause in found)


def walk_parts(values: Iterable[object]) -> Iterator[object]:
    """Yield values, and what is in containers and in the attributes of the code's objects."""
    seen: set[int] = set()
    waiting = [*values]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            waiting += one
        elif type(one).__module__ == MODULE_NAME:
            waiting += read_attributes(one).values()
