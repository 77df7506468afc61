"""Run the tests of counterexamples beside the code, as a developer who pastes them does."""

import ast
import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def run_pasted(test: str, modules: Mapping[str, str]) -> BaseException | None:
    """Run a test in plain Python with these modules. Return the exception with which it fails, or None."""
    before = {name: sys.modules.get(name) for name in modules}
    try:
        for name, code in modules.items():
            module = sys.modules[name] = ModuleType(name)
            exec(compile(code, f"{name}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102 - a program of a table
        names: dict[str, Any] = {"__name__": "test_pasted"}
        exec(test, names)  # noqa: S102 - the test of a program of a table
        (function,) = [one for name, one in names.items() if name.startswith("test_")]
        try:
            function()
        except Exception as error:  # noqa: BLE001 - a test can fail with any exception
            return error
        return None
    finally:
        for name, module_before in before.items():
            sys.modules.pop(name)
            if module_before:
                sys.modules[name] = module_before
        importlib.invalidate_caches()


def check_form(test: str) -> None:
    """Check that a test has imports, at most two short helper functions, and one function with one assertion."""
    tree = ast.parse(test)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)] == []
    assert [node.name for node in functions if node.name.startswith("test_")] == [functions[-1].name]
    assert {node.name for node in functions[:-1]} <= {"make", "outcome"}
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(functions[-1])) == 1
    assert test.isascii()
