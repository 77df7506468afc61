"""The guards on text that becomes code at run time. They cannot be undone, so they are tested in another process."""

import json
import subprocess
import sys
from collections.abc import Mapping

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


KEEPS_THE_RULES = """
import dataclasses, typing
from crosshair import condition_parser
class A:
    x: "list[int]" = dataclasses.field(default_factory=list)
dataclasses.dataclass(A)
print(typing.get_type_hints(A)["x"], eval(condition_parser.compile_expr("__return__ > 1"), {"__return__": 2}))
"""
DECLARED = {"raises: ValueError, KeyError": 2, "raises: print(1)": 0, "raises\\n: print(1)": 0, ":raises a.b.c: x": 0}
DECLARE = """
from crosshair import condition_parser
def f(): pass
f.__doc__ = "{docstring}"
print(len(condition_parser.parse_sphinx_raises(f)))
"""
RUN = """
import json, sys
from contextlib import redirect_stdout
from io import StringIO
from quilt_mcp.analysis.jail.guards import install_guards
from quilt_mcp.analysis.policy import Policy
install_guards(Policy())
outcomes = {}
for name, code in json.load(sys.stdin).items():
    with redirect_stdout(StringIO()) as printed:
        try:
            exec(code, {"__name__": "__main__"})
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
    outcomes[name] = printed.getvalue()
print(json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, str]:
    """What each program prints after the guards are installed, or its exception. One process runs all."""
    programs = {**PLACES, "no rule": KEEPS_THE_RULES, **{text: DECLARE.format(docstring=text) for text in DECLARED}}
    command = [sys.executable, "-c", RUN]
    run = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_text_that_breaks_a_rule_of_the_gate_is_refused(place: str, outcomes: Mapping[str, str]) -> None:
    assert outcomes[place].startswith("Refused: ")


def test_text_that_breaks_no_rule_is_evaluated(outcomes: Mapping[str, str]) -> None:
    assert outcomes["no rule"] == "list[int] True\n"


@pytest.mark.parametrize("docstring", DECLARED)
def test_only_plain_names_declare_exceptions(docstring: str, outcomes: Mapping[str, str]) -> None:
    assert outcomes[docstring] == f"{DECLARED[docstring]}\n"
