"""Whether a default value has the type of its parameter. CrossHair does not try other values."""

import types
import typing
from inspect import Parameter
from typing import Any, Literal, Union


def find_default_types(annotation: Any) -> set[object]:
    """Return the classes that an annotation names. A default value of another class is outside of its domain."""
    if typing.get_origin(annotation) in {Union, types.UnionType, typing.Annotated}:
        return set().union(*map(find_default_types, typing.get_args(annotation)))
    if typing.get_origin(annotation) is Literal:
        return {type(one) for one in typing.get_args(annotation)}
    return {type(None) if annotation is None else typing.get_origin(annotation) or annotation}


def accepts_default(parameter: Parameter) -> bool:
    """Return whether a parameter has no default value, or one of its type."""
    if parameter.default is Parameter.empty or parameter.annotation is Parameter.empty:
        return True
    return any(one is type(parameter.default) for one in find_default_types(parameter.annotation))
