"""How IAM decides whether policies allow a request.

| element of a policy      | moto                                | AWS, and here                                 |
|--------------------------|-------------------------------------|-----------------------------------------------|
| Condition                | an unmet one refuses every resource | the statement does not apply                  |
| condition on `s3:prefix` | never met                           | compared with the prefix of the request       |
| permissions boundary     | ignored                             | the policies and the boundary must both allow |
| NotResource              | ignored                             | all resources but these                       |
| `?`, `.` in a pattern    | parts of a regular expression       | one character, a dot                          |
| Action                   | case-sensitive                      | not case-sensitive                            |

Not here: bucket policies, session policies, organizations, and operators that are not in OPERATORS.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Statement = Mapping[str, Any]

Decision = Literal["allowed", "denied", "not allowed", "outside the boundary"]
"""`denied` is an explicit Deny. `not allowed` means that no policy allows the request."""


class Access(NamedTuple):
    """What a sender asks for. `context` has the condition keys of the request."""

    action: str
    resource: str
    context: Mapping[str, str]


def decide(policies: Iterable[str], boundary: str | None, access: Access) -> Decision:
    """Return the decision of a sender's policies, which are JSON documents, and of its permissions boundary."""
    statements = [statement for policy in policies for statement in parse_policy(policy)]
    limits = parse_policy(boundary) if boundary is not None else ()
    applying = [one["Effect"] for one in statements if _applies(one, access)]
    limiting = [one["Effect"] for one in limits if _applies(one, access)]
    if "Deny" in {*applying, *limiting}:
        return "denied"
    if "Allow" not in applying:
        return "not allowed"
    return "allowed" if boundary is None or "Allow" in limiting else "outside the boundary"


def ignore_conditions(policy: str) -> str:
    """Return the policy without its conditions."""
    statements = [{key: one[key] for key in one if key != "Condition"} for one in parse_policy(policy)]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@lru_cache(maxsize=512)
def parse_policy(document: str) -> tuple[Statement, ...]:
    """Return the statements of a policy."""
    statements = json.loads(document)["Statement"]
    return tuple(statements) if isinstance(statements, list) else (statements,)


def _applies(statement: Statement, access: Access) -> bool:
    return (
        _selects(statement, "Action", access.action.lower(), str.lower)
        and _selects(statement, "Resource", access.resource, str)
        and _meets(statement.get("Condition", {}), access.context)
    )


def _selects(statement: Statement, element: str, value: str, fold: Callable[[str], str]) -> bool:
    """Return whether an element, or its opposite such as NotAction, selects a value."""
    if element in statement:
        return any(_matches(fold(pattern), value) for pattern in _list(statement[element]))
    return not any(_matches(fold(pattern), value) for pattern in _list(statement[f"Not{element}"]))


def _meets(condition: Mapping[str, Mapping[str, object]], context: Mapping[str, str]) -> bool:
    """Return whether all conditions are met. A key that the request does not have meets none of them."""
    return all(
        key in context and any(OPERATORS[operator](expected, context[key]) for expected in _list(values))
        for operator, keys in condition.items()
        for key, values in keys.items()
    )


def _list(value: object) -> list[str]:
    return value if isinstance(value, list) else [str(value)]


def _matches(pattern: str, value: str) -> bool:
    return _compile(pattern).fullmatch(value) is not None


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


OPERATORS: Mapping[str, Callable[[str, str], bool]] = {"StringEquals": str.__eq__, "StringLike": _matches}
"""For each operator, whether the value in the policy matches that of the request. Others raise KeyError."""
