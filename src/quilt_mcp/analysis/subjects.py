"""What an analysis is about: a function of the submitted code, found by its name, with types for its arguments."""

import ast
import inspect
from dataclasses import dataclass
from inspect import Signature
from types import FunctionType, ModuleType

from quilt_mcp.analysis import engine
from quilt_mcp.analysis.loaded import Loaded


class AnalysisRefused(Exception):
    """The request cannot be analysed as it stands.

    Attributes:
        error_type: the kind of problem, one word.
        message: what is wrong, and what to change.
    """

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message


@dataclass(frozen=True, slots=True)
class Subject:
    """A function of the submitted code: the object, its signature with resolved types, its syntax tree."""

    function: FunctionType
    signature: Signature
    node: ast.FunctionDef


def subject_of(loaded: Loaded, name: str) -> Subject:
    """The function with this name.

    Raises:
        AnalysisRefused: there is none, or more than one, or it is of a kind that is not supported.
    """
    node = function_node(loaded.tree, name)
    function = loaded.module.__dict__.get(name)
    if not isinstance(function, FunctionType) or function.__code__.co_name != name:
        raise AnalysisRefused(
            "UnsupportedFunction", f"`{name}` is not a plain function after its decorators ran. Remove the decorators."
        )
    if inspect.isgeneratorfunction(function):
        raise AnalysisRefused(
            "UnsupportedFunction",
            f"`{name}` is a generator: calling it runs nothing. Add a function that returns a list.",
        )
    signature = engine.signature_of(function)
    if signature is None:
        raise AnalysisRefused(
            "UnsupportedSignature", f"An annotation of `{name}` names a type that does not exist. Define or import it."
        )
    return Subject(function, signature, node)


def function_node(tree: ast.Module, name: str) -> ast.FunctionDef:
    """The definition of the function with this name, at the top level of the code.

    Raises:
        AnalysisRefused: there is none, or more than one.
    """
    named = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(named) > 1:
        raise AnalysisRefused("AmbiguousFunction", f"`{name}` is defined {len(named)} times. Leave one definition.")
    if not named:
        others = sorted({node.name for node in tree.body if isinstance(node, ast.FunctionDef)})
        choice = f"Choose one of: {', '.join(others[:10])}." if others else "Define it at the top level of the code."
        raise AnalysisRefused("FunctionNotFound", f"The code has no top-level function `{name}`. {choice}")
    return named[0]


def exception_class(module: ModuleType, name: str, builtins: dict[str, object]) -> type[Exception]:
    """The exception class with this name, of the submitted code or built in; `module.Class` for an imported module's.

    Raises:
        AnalysisRefused: there is none, or it is no subclass of Exception.
    """
    first, *rest = name.split(".")
    found = module.__dict__.get(first, builtins.get(first))
    for part in rest:
        found = found.__dict__.get(part) if isinstance(found, ModuleType) else None
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    raise AnalysisRefused(
        "UnknownExceptionType",
        f"`{name}` is no exception class. Name a built-in one such as ValueError, or one that the code defines.",
    )
