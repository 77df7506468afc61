"""Methods in two versions of a class: the old version gets an object with the same attributes.

That needs that both versions make their objects in the same way, and that the attributes have no objects of classes
that differ between the versions.
"""

import ast
from inspect import BoundArguments

from quilt_mcp.analysis.engine.exploration import Undecided
from quilt_mcp.analysis.engine.made_objects import read_attributes
from quilt_mcp.analysis.engine.states import CONSTRUCTORS, collect_classes
from quilt_mcp.analysis.engine.subjects import Subject
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.messages import MODULE_NAME


def are_versions(old: Loaded | None, new: Loaded, first: Subject, second: Subject) -> bool:
    """Return whether these are methods of two versions of one class that make their objects in the same way."""
    mine, other = first.owner, second.owner
    kinds = {first.kind, second.kind}
    if old is None or mine is None or other is None or mine is other or not kinds <= {"method", "property"}:
        return False
    texts = [_describe_layout(one.tree, cls) for one, cls in ((old, mine), (new, other))]
    classes: dict[type, None] = {}
    collect_classes(other, classes)
    further = {*classes} | {one for one in other.__mro__ if one.__module__ == MODULE_NAME}
    shared = all(vars(old.module).get(one.__name__) is one for one in further - {other})
    return texts[0] is not None and texts[0] == texts[1] and shared and not _refers_to_itself(new.tree, other)


def _describe_layout(tree: ast.Module, cls: type) -> str | None:
    """Return what decides about the attributes of new objects; None if the class is not at the top level."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == cls.__qualname__:
            kept = [one for one in node.body if not _is_method(one)]
            return ast.dump(ast.ClassDef(node.name, node.bases, node.keywords, kept, node.decorator_list))
    return None


def _is_method(node: ast.stmt) -> bool:
    """Return whether the layout does not depend on a statement: a docstring, `pass`, or a method but constructors."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return (
        docstring or isinstance(node, ast.Pass) or (isinstance(node, ast.FunctionDef) and node.name not in CONSTRUCTORS)
    )


def _refers_to_itself(tree: ast.Module, cls: type) -> bool:
    """Return whether an object can have others of its class in its attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            own = [one for one in node.body if not _is_method(one)]
            return any(cls.__name__ in ast.unparse(one) for one in own)
    return False


def move_object(arguments: BoundArguments, first: Subject) -> BoundArguments:
    """Return the arguments with an object of the old class, which has the attributes of the new one.

    Raises:
        Undecided: it is an object of a subclass.
    """
    name, value = next(iter(arguments.arguments.items()))
    if first.owner is None or type(value).__qualname__ != first.owner.__qualname__:
        raise Undecided
    moved: object = object.__new__(first.owner)
    for attribute, one in read_attributes(value).items():
        object.__setattr__(moved, attribute, one)
    return BoundArguments(arguments.signature, {**arguments.arguments, name: moved})


def is_moved(left: object, right: object) -> bool:
    """Return whether these are objects of two versions of one class."""
    return type(left) is not type(right) and is_same_class(type(left), type(right))


def is_same_class(left: type, right: type) -> bool:
    """Return whether these are one class, or two versions of it."""
    return left is right or (
        left.__module__ == right.__module__ == MODULE_NAME and left.__qualname__ == right.__qualname__
    )
