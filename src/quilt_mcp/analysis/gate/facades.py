"""The modules that analysed code imports.

An import returns a facade: a new module with the public names of the real one, except for modules and withheld names.
These are refused when the code uses them. An AttributeError would be an outcome that the code does not have elsewhere.
Functions and classes are the real ones, because CrossHair recognises them by identity. Data is copied.
"""

import ast
import dataclasses
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import ModuleType

from quilt_mcp.analysis.gate.inert_logging import make_logging
from quilt_mcp.analysis.gate.rules import WITHHELD, Refused
from quilt_mcp.analysis.policy import ALLOWED_MODULES


def copy_fields(of: object) -> tuple[dataclasses.Field[object], ...]:
    """Return copies of the fields of a dataclass. `dataclasses` writes code from the names in the real ones."""
    return tuple(map(_copy_field, dataclasses.fields(of)))  # type: ignore[arg-type] # it raises TypeError


def _copy_field(field: "dataclasses.Field[object]") -> "dataclasses.Field[object]":
    copied: dataclasses.Field[object] = object.__new__(dataclasses.Field)
    for name in dataclasses.Field.__slots__:
        setattr(copied, name, getattr(field, name))
    return copied


# Functions that facades have instead of the real ones, by module and name
REPLACED: Mapping[tuple[str, str], Callable[..., object]] = {
    ("dataclasses", "fields"): copy_fields,
}

# The modules in allowed packages, apart from private ones. A package has them as attributes only after an import.
SUBMODULES: Mapping[str, frozenset[str]] = {
    "collections": frozenset({"abc"}),
    "json": frozenset({"decoder", "encoder", "scanner", "tool"}),
    "logging": frozenset({"config", "handlers"}),
}


def make_facade(name: str) -> ModuleType:
    """Return the module of this name as analysed code sees it."""
    real = import_module(name)
    if name == "logging":
        return refuse_others(make_logging(), real)
    public = getattr(real, "__all__", None) or [one for one in vars(real) if not one.startswith("_")]
    shown = {one: getattr(real, one) for one in public if one not in WITHHELD.get(name, ())}
    module = ModuleType(name)
    vars(module).update({one: _copy(value) for one, value in shown.items() if not isinstance(value, ModuleType)})
    vars(module).update({one: REPLACED[name, one] for one in shown if (name, one) in REPLACED})
    module.__all__ = sorted(vars(module).keys() & shown.keys())  # type: ignore[attr-defined] # for `import *`
    return refuse_others(module, real)


def refuse_others(module: ModuleType, real: ModuleType) -> ModuleType:
    """Let a facade refuse the names that only the real module has. Names of the form __name__ are as if absent."""
    module_name = module.__name__
    known = {one for one in dir(real) if not one.startswith("__")} | SUBMODULES.get(module_name, frozenset())
    others = known - vars(module).keys()

    def refuse(name: str) -> object:
        if name in others:
            raise Refused("withheld", name=f"{module_name}.{name}")
        raise AttributeError(f"module '{module_name}' has no attribute '{name}'")

    vars(module)["__getattr__"] = refuse
    return module


def check_star_imports(tree: ast.Module, known: Collection[str] = ()) -> None:
    """Check that the code uses no name that only the real module gives it by `from module import *`.

    Args:
        tree: the code.
        known: other names that the code has.

    Raises:
        Refused: it uses a withheld name.
    """
    hidden = {
        name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        for name in _find_hidden(node.module or "")
    }
    if hidden:
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in hidden]
        bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | _find_defined(tree) | {*known}
        for node in names:
            if node.id not in bound:
                raise Refused("withheld", node.lineno, f"{hidden[node.id].module}.{node.id}")


def _find_hidden(name: str) -> Collection[str]:
    """Return the names that `from name import *` binds elsewhere, but not here."""
    if name not in ALLOWED_MODULES:
        return ()  # another file of the project
    real = import_module(name)
    public = getattr(real, "__all__", None) or [one for one in vars(real) if not one.startswith("_")]
    return {*public} - {*make_facade(name).__all__}


def _find_defined(tree: ast.Module) -> set[str]:
    """Return the names that definitions, imports and parameters bind."""
    nodes = list(ast.walk(tree))
    found = {one.name for one in nodes if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    found |= {one.asname or one.name.partition(".")[0] for one in nodes if isinstance(one, ast.alias)}
    return found | {one.arg for one in nodes if isinstance(one, ast.arg)}


def _copy(value: object) -> object:
    return value.copy() if isinstance(value, list | dict | set) else value
