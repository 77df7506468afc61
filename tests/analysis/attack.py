"""One input of the attack table, and functions that make several."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKER = Path("/tmp/quilt-mcp-attack-marker")  # noqa: S108 - the file that a successful attack writes


@dataclass(frozen=True)
class Attack:
    """One input.

    Attributes:
        number: in the list.
        name: what it tries.
        code: the code of the request.
        rules: one of these rules must refuse the code; none if the sandbox must survive it.
        request: the tool and its other arguments.
        contains: text that the answer must contain.
        claims: verdicts that would be wrong.
    """

    number: int
    name: str
    code: str
    rules: tuple[str, ...] = ()
    request: dict[str, Any] = field(default_factory=dict)
    contains: str = ""
    claims: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.number}-{self.name}"


def failing(number: int, error: str, **codes: str) -> list[Attack]:
    """Code that the gate admits and that then fails with this error."""
    return [Attack(number, name, code, contains=error) for name, code in codes.items()]


CALL = "def f(x: int) -> int:\n    'post: True'\n    {0}\n    return x\n"  # the code runs when the function is analysed


def refused(number: int, rule: str, **codes: str) -> list[Attack]:
    return [Attack(number, name, code, (rule,)) for name, code in codes.items()]


def survived(number: int, **codes: str) -> list[Attack]:
    return [Attack(number, name, code) for name, code in codes.items()]


def forging(number: int, claims: tuple[str, ...], **codes: str) -> list[Attack]:
    """Code that tries to get one of these verdicts, which would be wrong."""
    return [Attack(number, name, code, claims=claims) for name, code in codes.items()]
