"""Loading admitted code: what an import returns, and which builtins the code has."""

import inspect
import pkgutil
import sys
from importlib import import_module
from types import ModuleType

import pytest

from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.facades import SUBMODULES, make_facade
from quilt_mcp.analysis.gate.loading import load_module
from quilt_mcp.analysis.gate.rules import WITHHELD, Refused
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES, Policy


def test_facades_have_no_modules_no_withheld_names_and_no_metaclasses() -> None:
    for name in ALLOWED_MODULES:
        facade = vars(make_facade(name))
        shown = {key: value for key, value in facade.items() if not key.startswith("__")}
        assert shown, name
        assert not [key for key, value in shown.items() if isinstance(value, ModuleType)], name
        assert not shown.keys() & WITHHELD.get(name, frozenset()), name
        assert not [key for key, value in facade.items() if isinstance(value, type) and issubclass(value, type)], name


def test_functions_are_the_real_ones() -> None:
    assert make_facade("math").sqrt is sys.modules["math"].sqrt


@pytest.fixture
def _module_is_removed() -> object:
    yield
    sys.modules.pop(MODULE_NAME, None)


@pytest.mark.usefixtures("_module_is_removed")
def test_imports_of_loaded_code_return_facades() -> None:
    source = "import collections.abc\nimport typing as t\nfrom math import *\nfrom json import loads\nx = sqrt(4)\n"
    module = load_module(source, Policy())
    assert module.x == 2
    assert module.collections.abc.Sized is sys.modules["collections.abc"].Sized
    assert not {"sys", "get_origin"} & vars(module.t).keys()


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import operator\noperator.methodcaller", "operator.methodcaller"),
        ("from pathlib import Path", "pathlib.Path"),
        ("def f():\n    from pathlib import Path\nf()", "pathlib.Path"),
        ("try:\n    from string import Formatter\nexcept ImportError: pass", "string.Formatter"),
        ("import random\nrandom._inst", "random._inst"),
        ("import logging\nlogging.FileHandler", "logging.FileHandler"),
        ("from pathlib import *\ndef f(): return Path", "pathlib.Path"),
        ("from typing import *\nfrom logging import *\nStreamHandler", "logging.StreamHandler"),
        ("def f():\n    from json import tool\nf()", "json.tool"),
        ("import logging\nhasattr(logging, 'handlers')", "logging.handlers"),
    ],
)
def test_name_that_only_the_real_module_has_is_refused(code: str, name: str) -> None:
    with pytest.raises(Refused, match=f"^{name}: ") as caught:
        load_module(code, Policy())
    assert caught.value.rule == "withheld"


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize(
    "code",
    [
        "from functools import *\ndef wraps(f): return f\nx = wraps(2)",
        "from functools import *\nx = [wraps for wraps in (2,)][0]",
        "from functools import *\nx = (lambda wraps: wraps)(2)",
        "from functools import *\nfrom math import floor as wraps\nx = wraps(2)",
        "from operator import *\nx = add(1, 1)",
        "import collections\nx = 2 if issubclass(list, collections.abc.Sequence) else 3",
        "import collections as c\nx = 2 if issubclass(list, c.abc.Sequence) else 3",
    ],
)
def test_names_that_the_code_binds_or_may_use_cause_no_error(code: str) -> None:
    assert load_module(admit(code, Policy()).source, Policy()).x == 2


def test_modules_in_allowed_packages_are_known() -> None:
    found = {name: getattr(import_module(name), "__path__", None) for name in ALLOWED_MODULES}
    inner = {
        name: {one.name for one in pkgutil.iter_modules(path) if not one.name.startswith("_")}
        for name, path in found.items()
        if path
    }
    assert {name: names for name, names in inner.items() if names} == SUBMODULES


@pytest.mark.usefixtures("_module_is_removed")
def test_name_that_the_real_module_lacks_is_an_error_of_python() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'math'"):
        load_module("from math import nothing", Policy())
    with pytest.raises(AttributeError, match="module 'logging' has no attribute 'nothing'"):
        load_module("import logging\nlogging.nothing", Policy())


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize(
    "statement", ["import os", "from . import os", "import collections.abc.x", "import json.decoder"]
)
def test_other_imports_fail_at_run_time(statement: str) -> None:
    with pytest.raises(ImportError):
        load_module(statement, Policy())


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize("name", ["eval", "open", "getattr", "BaseException"])
def test_loaded_code_has_no_dangerous_builtin(name: str) -> None:
    with pytest.raises(NameError):
        load_module(name, Policy())


@pytest.mark.usefixtures("_module_is_removed")
def test_inspect_finds_the_source() -> None:
    module = load_module("def f():\n    return 1\n\nclass A:\n    pass\n", Policy())
    assert inspect.getsource(module.f) == "def f():\n    return 1\n"
    assert inspect.getsource(module.A) == "class A:\n    pass\n"


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("datetime(2024, 2, 29).strftime('%d.%m.%Y')", "29.02.2024"),
        ("datetime.strptime('29.02.2024', '%d.%m.%Y').day", 29),
    ],
)
def test_methods_in_c_can_import_what_they_need(expression: str, result: object) -> None:
    import_module("_strptime")  # the zygote has imported it
    module = load_module(f"from datetime import datetime\ndef f():\n    return {expression}\n", Policy())
    assert vars(module)["f"]() == result


def test_import_of_a_module_that_c_code_needs_returns_nothing_of_it() -> None:
    module = load_module("import time\n", Policy())
    assert [name for name in vars(vars(module)["time"]) if not name.startswith("__")] == []


@pytest.mark.usefixtures("_module_is_removed")
@pytest.mark.parametrize(
    "statement",
    [
        "class A: x = 1\nA.x = 2\nA().x = 3\ndel A.x",
        "class A:\n    def __init__(self): self.x: int = 1; self.x += 1\nA()",
        "def f(): pass\nf.calls = 1",
        "import decimal\ndecimal.getcontext().prec = 5",
        "e = ValueError()\ne.code = 5",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\na = A(1)\na.x = 2",
        "from json import JSONEncoder\nclass A(JSONEncoder): pass\nA().x = 1",
    ],
)
def test_code_can_change_what_it_defines(statement: str) -> None:
    load_module(admit(statement, Policy()).source, Policy())


@pytest.mark.usefixtures("_module_is_removed")
def test_own_method_format_can_be_called() -> None:
    code = "class A:\n    def format(self, x): return x + 1\ny = A().format(1)\nz = '{}'.format(2)"
    names = vars(load_module(admit(code, Policy()).source, Policy()))
    assert (names["y"], names["z"]) == (2, "2")
