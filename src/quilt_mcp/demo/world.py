"""Entering a demo world: a company on a fake Quilt stack and a fake AWS account, and nothing of the user's touched."""

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import quilt3.session
import quilt3.util

from quilt_mcp import runtime_context
from quilt_mcp.demo.aws import Account, account
from quilt_mcp.demo.company import ACME, EMPTY
from quilt_mcp.demo.environment import isolated
from quilt_mcp.demo.mishaps import MISHAPS
from quilt_mcp.demo.people import ADMIN, MEMBER
from quilt_mcp.demo.records import Company, User, Workflow
from quilt_mcp.demo.requirements_sample import write_sample
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.services import workflow_service
from quilt_mcp.settings import Settings

WORLDS: tuple[str, ...] = ("admin", "member", "signed_out", "empty")

FAILING_WORLDS: tuple[str, ...] = tuple(MISHAPS)

# who is signed in, and to which company's stack; in a failing world it is the administrator
_INHABITANTS: dict[str, tuple[str | None, Company]] = {
    "admin": (ADMIN, ACME),
    "member": (MEMBER, ACME),
    "signed_out": (None, ACME),
    "empty": (ADMIN, EMPTY),
} | dict.fromkeys(FAILING_WORLDS, (ADMIN, ACME))
_occupied = threading.Lock()


@dataclass(frozen=True)
class World:
    """A world that has been entered.

    Attributes:
        name: one of WORLDS or FAILING_WORLDS.
        company: what its stack and account hold.
        user: who is signed in, or None.
        stack: the Quilt stack.
        account: the AWS account.
        directory: temporary; holds quilt3's files and this project's. Gone when the world is left.
    """

    name: str
    company: Company
    user: User | None
    stack: FakeStack
    account: Account
    directory: Path

    @property
    def url(self) -> str:
        """The address of the catalog, and of the registry. Its port differs from one entry to the next."""
        return self.stack.url


@contextmanager
def demo_world(name: str = "admin", *, port: int = 0) -> Iterator[World]:
    """Make this process live in a world until the context ends; then everything is as it was.

    While it lasts, the environment, quilt3's files and AWS are the world's. One world at a time per process.

    Args:
        name: one of WORLDS or FAILING_WORLDS.
        port: the stack's port on 127.0.0.1; 0 is any free one.

    Raises:
        ValueError: there is no such world.
        RuntimeError: this process is in a world already.
    """
    if name not in _INHABITANTS:
        raise ValueError(f"There is no world {name!r}; there are {', '.join(_INHABITANTS)}.")
    if not _occupied.acquire(blocking=False):
        raise RuntimeError("This process is in a demo world already; leave it before entering another.")
    try:
        with _entered(name, port) as world:
            yield world
    finally:
        _occupied.release()


@contextmanager
def _entered(name: str, port: int) -> Iterator[World]:
    user_name, company = _INHABITANTS[name]
    user = company.user(user_name) if user_name else None
    with ExitStack() as stack:
        # The first to be called back last: when the environment is the user's again.
        stack.callback(lambda: runtime_context.use_settings(Settings()))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quilt-mcp-demo-"))).resolve()
        stack.enter_context(isolated(directory))
        aws = stack.enter_context(account(company))
        registry = stack.enter_context(FakeStack(company, aws.credentials, port=port))
        quilt3.util.configure_from_url(registry.url)
        if user:
            quilt3.session.login_with_token(registry.sign_in(user))
        Settings().data_dir.mkdir(parents=True)  # so that what is told of it does not hang on what was read before
        if company is ACME:
            write_sample(Settings())
        if user and not user.is_admin:
            os.environ["QUILT_MCP_REQUIREMENTS_USER"] = user.name
        runtime_context.use_settings(Settings())
        _create_workflows(company.workflows)
        if mishap := MISHAPS.get(name):
            mishap(registry, aws, stack)
            runtime_context.use_settings(Settings())
        registry.calls.clear()
        yield World(name, company, user, registry, aws, directory)


def _create_workflows(workflows: Iterable[Workflow]) -> None:
    for workflow in workflows:
        workflow_service.workflow_create(workflow.id, workflow.name, workflow.description)
        for step in workflow.steps:
            workflow_service.workflow_add_step(
                workflow.id, step.id, step.description, dependencies=list(step.dependencies)
            )
        for step in workflow.steps:
            for status in step.statuses:
                message = step.message if status == step.statuses[-1] else None
                workflow_service.workflow_update_step(workflow.id, step.id, status, message)
