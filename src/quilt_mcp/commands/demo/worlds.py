"""The demo worlds: who is signed in, to which company's stack, and what goes wrong."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from quilt_mcp.commands.demo.aws import Account
from quilt_mcp.commands.demo.company import ACME, EMPTY
from quilt_mcp.commands.demo.graphql import TODAY, Endpoint
from quilt_mcp.commands.demo.people import ADMIN, MEMBER
from quilt_mcp.commands.demo.records import Company
from quilt_mcp.commands.demo.stack import FakeStack

Mishap = Callable[[FakeStack, Account, ExitStack], None]
"""Causes a failure in the stack or the account, and registers on the exit stack what must be undone.

The world restores environment variables.
"""


class Plan(NamedTuple):
    """How a world is made.

    Attributes:
        user: who is signed in, or None.
        company: the data of the stack and of the AWS account.
        endpoint: the version of the stack, and the HTTP status of its response to a query that it cannot validate.
        mishap: what then goes wrong.
    """

    user: str | None = ADMIN
    company: Company = ACME
    endpoint: Endpoint = TODAY
    mishap: Mishap | None = None


PEOPLE: Mapping[str, Plan] = {
    "admin": Plan(),
    "member": Plan(user=MEMBER),
    "signed_out": Plan(user=None),
    "empty": Plan(company=EMPTY),
}
"""The worlds that `quilt-mcp demo` offers."""
