"""Whether objects and the module can be in a state that no call of the analysis begins with.

The arguments of an analysis are new objects, and the module is as after its import. A claim about all arguments needs
that other code of the file cannot leave them in another state.
"""

import ast
import dataclasses
import enum
import inspect
import typing
from collections.abc import Iterator
from inspect import Signature
from typing import Any

from quilt_mcp.analysis.engine.domains import Annotation, find_subclasses
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.gate.project import find_imports
from quilt_mcp.analysis.messages import MODULE_NAME

CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__", "__setattr__"})
"""The methods that decide about the attributes of new objects."""


def find_state(signature: Signature, loaded: Loaded) -> str | None:
    """Return the state that the analysis does not cover, as the reason why nothing is claimed, or None."""
    used = {node.id for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.Name)}
    bound = {name for one in loaded.modules for name in vars(one)}
    for name in sorted(loaded.changes.names & used & bound):
        return f"the code changes `{name}` of the module, so a call can begin with other values in it"
    if loaded.changes.context and "decimal" in find_imports(loaded.whole_tree):
        return "a function reads or changes the decimal context, so the result can depend on earlier calls"
    classes: dict[type, None] = {}
    for one in signature.parameters.values():
        collect_classes(one.annotation, classes)
    for cls in classes:
        if not _covers_states(cls, loaded):
            return (
                f"objects of `{cls.__name__}` can have a state that its constructor does not make from its parameters"
            )
    return None


def collect_classes(annotation: Annotation, found: dict[type, None]) -> None:
    """Add the classes of the code that values of this type, and their parts, can have."""
    for one in typing.get_args(annotation):
        collect_classes(one, found)
    if isinstance(annotation, typing.NewType):
        collect_classes(annotation.__supertype__, found)
    kind = typing.get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind.__module__ != MODULE_NAME or kind in found or issubclass(kind, enum.Enum):
        return
    found[kind] = None
    for part in (*_list_hints(kind), *_list_hints(kind.__init__), *find_subclasses(kind)):
        collect_classes(part, found)


def _list_hints(owner: Any) -> list[Any]:
    try:
        return list(typing.get_type_hints(owner).values())
    except (TypeError, NameError, AttributeError):
        return []


def _covers_states(cls: type, loaded: Loaded) -> bool:
    """Return whether the parameters of a constructor can give its object every state."""
    if issubclass(cls, tuple) or inspect.isabstract(cls):
        return True
    bases = [one for one in cls.__mro__ if one.__module__ == MODULE_NAME]
    methods = {node.name: node for base in reversed(bases) for node in _find_constructors(base, loaded)}
    if dataclasses.is_dataclass(cls) and "__init__" not in methods:
        if cls.__dataclass_params__.frozen:  # type: ignore[attr-defined] # not in the type information
            return True
        if methods or not all(one.init for one in dataclasses.fields(cls)):
            return False
        fields = {one.name for one in dataclasses.fields(cls)}
    elif methods:
        stored = _read_stored(methods["__init__"]) if methods.keys() == {"__init__"} else None
        if stored is None:
            return False
        fields = stored
    else:
        fields = set()
    related = {None, *(one.__name__ for one in (*bases, *find_subclasses(cls)))}
    known = _find_attributes(cls, loaded)
    return not any(
        name not in fields and (owner is not None or name in known)
        for owner, name in loaded.changes.attributes
        if owner in related
    )


def _find_attributes(cls: type, loaded: Loaded) -> set[str]:
    """Return the attributes that the code reads from objects."""
    return {*dir(cls), *(node.attr for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.Attribute))}


def _find_constructors(cls: type, loaded: Loaded) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(loaded.whole_tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            yield from (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name in CONSTRUCTORS)


def _read_stored(method: ast.FunctionDef) -> set[str] | None:
    """Return the attributes of a constructor that stores each parameter unchanged and does nothing else, or None."""
    first, *others = [one.arg for one in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)]
    if method.args.vararg or method.args.kwarg:
        return None
    stored: dict[str, str] = {}
    for node in method.body:
        if isinstance(node, ast.Pass):
            continue
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if len(targets) != 1 or not isinstance(node, ast.Assign | ast.AnnAssign):
            return None
        target, value = targets[0], node.value
        if not (
            isinstance(target, ast.Attribute) and ast.unparse(target.value) == first and isinstance(value, ast.Name)
        ):
            return None
        stored[target.attr] = value.id
    return {*stored} if sorted(stored.values()) == sorted(others) else None
