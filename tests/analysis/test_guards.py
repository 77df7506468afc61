"""The guards on text that becomes code at run time. They cannot be undone, so each test starts a process."""

import subprocess
import sys

import pytest

PLACES = {
    "an annotation": "import typing; typing.List['__import__(1)']",
    "an annotation by a subclass of str": "import typing\nclass S(str): pass\ntyping.List[S('int')]",
    "an annotation with a star": "import typing; typing.List['*int']",
    "an annotation by inspect": "import inspect\ndef f(x: 'int'): pass\ninspect.signature(f, eval_str=True)",
    "an annotation by the class Signature": "import inspect\ndef f(x: 'int'): pass\n"
    "inspect.Signature.from_callable(f, eval_str=True)",
    "a field name": "import dataclasses\nclass A: __annotations__ = {'a=1, b': int}\ndataclasses.dataclass(A)",
    "a dunder field": "import dataclasses\nclass A: __annotations__ = {'__class__': int}\ndataclasses.dataclass(A)",
    "a contract": "from crosshair import condition_parser as p; p.compile_expr('open(1)')",
    "a contract that is not an expression": "from crosshair import condition_parser as p; p.compile_expr('x = 1')",
}


def _run(code: str) -> subprocess.CompletedProcess[str]:
    head = "from quilt_mcp.analysis.jail.guards import install_guards\n"
    head += "from quilt_mcp.analysis.policy import Policy\ninstall_guards(Policy())\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("place", PLACES)
def test_text_that_breaks_a_rule_of_the_gate_is_refused(place: str) -> None:
    assert "Refused" in _run(PLACES[place]).stderr.splitlines()[-1]


def test_text_that_breaks_no_rule_is_evaluated() -> None:
    code = """
import dataclasses, typing
from crosshair import condition_parser
class A:
    x: "list[int]" = dataclasses.field(default_factory=list)
dataclasses.dataclass(A)
print(typing.get_type_hints(A)["x"], eval(condition_parser.compile_expr("__return__ > 1"), {"__return__": 2}))
"""
    assert _run(code).stdout == "list[int] True\n"


@pytest.mark.parametrize(
    ("docstring", "declared"),
    [("raises: ValueError, KeyError", 2), ("raises: print(1)", 0), ("raises\\n: print(1)", 0), (":raises a.b.c: x", 0)],
)
def test_only_plain_names_declare_exceptions(docstring: str, declared: int) -> None:
    code = f"""
from crosshair import condition_parser
def f(): pass
f.__doc__ = "{docstring}"
print(len(condition_parser.parse_sphinx_raises(f)))
"""
    assert _run(code).stdout == f"{declared}\n"
