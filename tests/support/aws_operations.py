"""The AWS operations that this project calls, read from its source."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import botocore.session
from botocore import xform_name
from botocore.model import OperationModel

from quilt_mcp import services

SERVICES = ("athena", "cloudwatch", "glue", "s3", "sts")
CALLS = frozenset({"call", "list_items", "_send"})
"""The functions of AWSClients that call AWS."""


class UnknownOperationError(Exception):
    """A call whose service or operation is not literal, or does not exist, so that no test can know it."""


def find_operations(folder: Path = Path(str(services.__file__)).parent) -> list[tuple[str, OperationModel]]:
    """Return the service and the operation of each call in a folder, each once, sorted.

    Raises:
        UnknownOperationError: a call does not name both as text.
    """
    found = {one for path in folder.rglob("*.py") for one in _find_in(path)}
    return [(service, _load(service)[operation]) for service, operation in sorted(found)]


def _find_in(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        texts = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
        pairs = [(str(one), str(other)) for one, other in pairwise(texts) if one in SERVICES and other]
        for service, operation in pairs:
            if operation not in _load(service):
                raise UnknownOperationError(f"{path.name}:{node.lineno}: {service} has no operation {operation}")
        if not pairs and _calls_aws(node.func):
            raise UnknownOperationError(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
        yield from pairs


def _calls_aws(function: ast.expr) -> bool:
    """Return whether a function is one of AWSClients. Their own calls pass on what they get."""
    if not isinstance(function, ast.Attribute):
        return False
    return function.attr in CALLS and ast.unparse(function.value).rpartition(".")[2] == "aws"


@cache
def _load(service: str) -> dict[str, OperationModel]:
    model = botocore.session.get_session().get_service_model(service)
    return {xform_name(name): model.operation_model(name) for name in model.operation_names}
