"""The facade: what an import yields, and what the code is loaded with."""

import inspect
import sys
from types import ModuleType

import pytest

from quilt_mcp.analysis.facade import WITHHELD, facade, load_module, type_of
from quilt_mcp.analysis.loaded import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES, Policy


@pytest.mark.parametrize("name", ALLOWED_MODULES)
def test_a_facade_shows_no_module_and_nothing_withheld(name: str) -> None:
    shown = {key: value for key, value in vars(facade(name)).items() if not key.startswith("__")}
    assert shown
    assert not [key for key, value in shown.items() if isinstance(value, ModuleType)]
    assert not shown.keys() & WITHHELD.get(name, frozenset())


@pytest.mark.parametrize("name", ALLOWED_MODULES)
def test_no_facade_shows_a_metaclass_or_what_leads_to_one(name: str) -> None:
    assert not [key for key, value in vars(facade(name)).items() if isinstance(value, type) and issubclass(value, type)]


def test_functions_are_the_real_ones() -> None:
    import_math = facade("math")
    assert import_math.sqrt is sys.modules["math"].sqrt


@pytest.fixture
def _module_is_removed() -> object:
    yield
    sys.modules.pop(MODULE_NAME, None)


@pytest.mark.usefixtures("_module_is_removed")
def test_imports_of_loaded_code_yield_facades() -> None:
    source = "import collections.abc\nimport typing as t\nfrom math import *\nfrom json import loads\nx = sqrt(4)\n"
    module = load_module(source, Policy())
    assert module.x == 2
    assert module.collections.abc.Sized is sys.modules["collections.abc"].Sized
    assert not hasattr(module.t, "sys")
    assert not hasattr(module.t, "get_origin")


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize(
    "statement", ["import os", "from . import os", "import collections.abc.x", "import json.decoder"]
)
def test_other_imports_fail_when_they_are_run(statement: str) -> None:
    with pytest.raises(ImportError):
        load_module(statement, Policy())


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize("name", ["eval", "open", "getattr", "BaseException"])
def test_loaded_code_has_no_dangerous_builtin(name: str) -> None:
    with pytest.raises(NameError):
        load_module(name, Policy())


@pytest.mark.usefixtures("_module_is_removed")
def test_the_source_is_there_for_inspect() -> None:
    module = load_module("def f():\n    return 1\n\nclass A:\n    pass\n", Policy())
    assert inspect.getsource(module.f) == "def f():\n    return 1\n"
    assert inspect.getsource(module.A) == "class A:\n    pass\n"


def test_the_type_of_a_class_is_not_told() -> None:
    assert type_of(1) is int
    with pytest.raises(TypeError):
        type_of(int)
