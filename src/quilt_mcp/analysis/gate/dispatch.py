"""`functools.singledispatch` as analysed code sees it.

A dispatcher asks that of the library which function a class has. Its `register` is for classes and functions of the
code. Code does not get the other attributes of the library's functions, such as `registry`. `check_registering` decides
at run time which objects have a `register` that code can use: the name belongs to abstract classes too, and with that
of these a class deceives `isinstance`.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FunctionType, MethodType, UnionType
from typing import TypeGuard, TypeVar, Union, get_origin

from crosshair.core import python_type
from crosshair.tracers import NoTracing
from crosshair.util import CrosshairUnsupported

from quilt_mcp.analysis.gate.paths import Withheld
from quilt_mcp.analysis.gate.rules import REGISTER, Refused
from quilt_mcp.analysis.messages import MODULE_NAME

_Value = TypeVar("_Value")
# Which function is called must not become part of a path of an analysis
_no_tracing: Callable[[], AbstractContextManager[object]] = NoTracing
_COPIED = ("__name__", "__qualname__", "__doc__", "__module__")


def is_own_function(value: object) -> TypeGuard[FunctionType]:
    return type(value) is FunctionType and value.__globals__.get("__name__") == MODULE_NAME


class Dispatcher:
    """A function that calls another one for the class of its first argument."""

    dispatch = Withheld("functools.singledispatch: dispatch")
    registry = Withheld("functools.singledispatch: registry")
    _clear_cache = Withheld("functools.singledispatch: _clear_cache")

    def __init__(self, function: object) -> None:
        if not is_own_function(function) or vars(function).keys() - {"__wrapped__"}:  # it would have its attributes
            raise Refused("withheld", name="functools.singledispatch of this object")
        self.__chosen__ = functools.singledispatch(function)
        self.__wrapped__ = function
        for name in _COPIED:
            setattr(self, name, getattr(function, name))

    def __call__(self, *args: object, **kwargs: object) -> object:
        chosen = choose(self.__chosen__.dispatch, args[0]) if args else self.__chosen__  # which raises an error
        return chosen(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else MethodType(self, instance)

    @property
    def __registered__(self) -> dict[object, object]:
        """The functions of the code by the class that they are for."""
        return dict(self.__chosen__.registry)

    def register(self, cls: object, func: object = None) -> object:
        return _register(self.__chosen__.register, cls, func)


class MethodDispatcher:
    """A method that calls another one for the class of the first argument after its object."""

    dispatcher = Withheld("functools.singledispatchmethod: dispatcher")
    func = Withheld("functools.singledispatchmethod: func")

    def __init__(self, func: Callable[..., object]) -> None:
        if not is_own_function(getattr(func, "__func__", func)):
            raise Refused("withheld", name="functools.singledispatchmethod of this object")
        self.__chosen__ = functools.singledispatchmethod(func)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., object]:
        def method(*args: object, **kwargs: object) -> object:
            if not args:
                return self.__chosen__.__get__(instance, owner)()  # which raises an error
            bound: Callable[..., object] = choose(self.__chosen__.dispatcher.dispatch, args[0]).__get__(instance, owner)
            return bound(*args, **kwargs)

        return method

    @property
    def __registered__(self) -> dict[object, object]:
        """The methods of the code by the class that they are for."""
        return dict(self.__chosen__.dispatcher.registry)

    def register(self, cls: object, method: object = None) -> object:
        return _register(self.__chosen__.register, cls, method)


def choose(dispatch: Callable[[type], Callable[..., object]], value: object) -> Callable[..., object]:
    """Return the function for the class of a value."""
    with _no_tracing():
        kind: object = python_type(value)
        if not isinstance(kind, type) or kind.__module__.partition(".")[0] == "crosshair":
            raise CrosshairUnsupported  # the class is not known
        return dispatch(kind)


def _register(register: Callable[..., object], cls: object, function: object) -> object:
    is_class = isinstance(cls, type | UnionType) or get_origin(cls) is Union
    if not is_class and not (function is None and is_own_function(getattr(cls, "__func__", cls))):
        raise Refused("withheld", name="functools.singledispatch: register of this object")
    if not is_class:
        return register(cls)  # the library reads the class from its annotation
    if function is None:
        return lambda given: _register(register, cls, given)
    return register(cls, function)


def check_registering(value: _Value, line: int) -> _Value:
    """Return the value, whose `register` the code reads, if it is a dispatcher or a class of the code defines it."""
    with _no_tracing():
        kind = python_type(value)
        owners = getattr(value, "__mro__", ()) if issubclass(kind, type) else kind.__mro__
        defining = next((one for one in owners if REGISTER in vars(one)), None)
        is_attribute = kind.__module__ == MODULE_NAME and REGISTER in getattr(value, "__dict__", {})
        is_own = is_attribute if defining is None else defining.__module__ == MODULE_NAME
        if not is_own and defining not in {Dispatcher, MethodDispatcher}:
            raise Refused("attribute", line)
    return value
