"""Arguments that share an object: which ones exist, and for which parameters there are none."""

from inspect import Signature, signature

import pytest

from quilt_mcp.analysis.engine.candidates import Candidates, has_only_plain_values, share
from quilt_mcp.analysis.engine.scalars import Literals
from quilt_mcp.analysis.engine.subjects import resolve_types
from tests.analysis.engine_runs import load

CLASSES = "from dataclasses import dataclass\n@dataclass\nclass Box:\n    n: int\nclass Age(int): pass\n"


def resolve(parameters: str) -> Signature:
    """Return the signature of a function with these parameters."""
    found = resolve_types(vars(load(f"{CLASSES}def f({parameters}): return 1\n").module)["f"])
    assert found is not None
    return found


@pytest.mark.parametrize(
    "parameters", ["x: int, y: int", "a: float, *, b: bool = True", "s: str, t: bytes, n: None", ""]
)
def test_plain_arguments_share_nothing(parameters: str) -> None:
    found = resolve(parameters)
    assert has_only_plain_values(found)
    made = list(Candidates(found, Literals(), 0).make_boundaries())
    assert made
    assert [other for one in made for other in share(one)] == []


@pytest.mark.parametrize("parameters", ["x: list[int], y: list[int]", "x: Box, y: Box", "x: list[Box]", "*x: Box"])
def test_arguments_with_identity_are_shared(parameters: str) -> None:
    found = resolve(parameters)
    assert not has_only_plain_values(found)
    made = list(Candidates(found, Literals(), 0).make_boundaries())
    assert any(True for one in made for _ in share(one))


@pytest.mark.parametrize("parameters", ["x: int | list[int]", "x: object", "x", "x: Age", "*x: int", "**x: int"])
def test_parameters_that_can_have_other_values_are_not_plain(parameters: str) -> None:
    assert not has_only_plain_values(resolve(parameters))


def test_signature_without_annotations_is_not_plain() -> None:
    assert not has_only_plain_values(signature(lambda x: x))
