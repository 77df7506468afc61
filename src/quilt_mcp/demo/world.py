"""Enter a demo world: a company with a fake Quilt stack and a fake AWS account. The user's own data stay untouched."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import quilt3
import quilt3.api
import quilt3.packages
import quilt3.session
import quilt3.telemetry
import quilt3.util

from quilt_mcp.app import default_app
from quilt_mcp.app.domain import Domain, Scene
from quilt_mcp.demo.aws import Account, open_account
from quilt_mcp.demo.company import ACME, ADMIN, EMPTY, MEMBER
from quilt_mcp.demo.graphql import TODAY, Endpoint
from quilt_mcp.demo.http_server import ACME_HOSTS, Certificate, make_certificate
from quilt_mcp.demo.place import isolate_environment, open_place
from quilt_mcp.demo.records import Company, User
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.settings import combine_settings


@contextmanager
def isolate(directory: Path) -> Iterator[None]:
    """Let AWS, Quilt and this project use only a directory until the context ends. Then everything is restored."""
    with isolate_environment(directory), _move_quilt3(directory / "quilt"):
        yield


def route_to(port: int, certificate: Certificate, directory: Path) -> None:
    """Let this process and its children reach the hosts of the demo, and no others, at a port of 127.0.0.1.

    `isolate` restores the environment.
    """
    authority = directory / "certificate-authority.pem"
    authority.write_bytes(certificate.authority)
    proxy = f"http://127.0.0.1:{port}"
    os.environ |= dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), proxy)
    os.environ |= dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(authority))


@contextmanager
def _move_quilt3(directory: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, values in _list_constants(directory):
            for name, value in values.items():
                stack.enter_context(patch.object(owner, name, value))
        quilt3.session.clear_session()
        stack.callback(quilt3.session.clear_session)
        yield


def _list_constants(directory: Path) -> list[tuple[ModuleType | type, dict[str, object]]]:
    """Return the constants that quilt3 computes from the environment at import, computed for a directory instead."""
    config, cache = directory / "config.yml", directory / "cache"
    util_constants = {
        "BASE_DIR": str(directory),
        "BASE_PATH": directory,
        "CONFIG_PATH": config,
        "CONFIG_TEMPLATE": quilt3.util.CONFIG_TEMPLATE.replace(quilt3.util.BASE_PATH.as_uri(), directory.as_uri()),
        "CACHE_PATH": cache,
        "TEMPFILE_DIR_PATH": directory / "tempfiles",
    }
    session_constants = {
        "BASE_PATH": directory,
        "AUTH_PATH": directory / "auth.json",
        "CREDENTIALS_PATH": directory / "credentials.json",
        "_api_key": None,
    }
    return [
        (quilt3.util, util_constants),
        (quilt3.session, session_constants),
        (quilt3.api, {"CONFIG_PATH": config}),
        (quilt3.packages, {"CACHE_PATH": cache}),
        (quilt3.telemetry.ApiTelemetry, {"telemetry_disabled": True}),
    ]


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


@dataclass(frozen=True)
class World:
    """A world that has been entered.

    Attributes:
        name: that of its plan.
        company: the data of its stack and account.
        user: who is signed in, or None.
        stack: the Quilt stack.
        account: the AWS account.
        directory: a temporary directory with quilt3's files and this project's. It is removed with the world.
    """

    name: str
    company: Company = field(repr=False)  # with the content of all files
    user: User | None
    stack: FakeStack
    account: Account
    directory: Path

    @property
    def url(self) -> str:
        return self.stack.url

    @property
    def registry_url(self) -> str:
        return self.stack.registry_url


@contextmanager
def demo_world(
    name: str = "admin",
    *,
    domains: Sequence[Domain],
    now: datetime | None = None,
    plans: Mapping[str, Plan] = PEOPLE,
) -> Iterator[World]:
    """Put this process into a world until the context ends. Then everything is restored.

    In the world, the environment, quilt3's files and AWS are those of the world, and so is the default app. A process
    can be in one world at a time. A server that is created in the world has its own app, and keeps it.

    Args:
        name: one of the plans.
        domains: write their data into the world.
        now: the time of a demo for people: the last change of its requirements is an hour before, and its
            administrator is the user `me` of filters, if there is one. Without it, the times are those of the sample.
        plans: the worlds by name.

    Raises:
        ValueError: there is no such world.
        RuntimeError: this process is already in a world.
    """
    if name not in plans:
        raise ValueError(f"There is no world {name!r}. The worlds are {', '.join(plans)}.")
    with open_place() as directory, furnish(directory, name, domains=domains, now=now, plans=plans) as world:
        yield world


@contextmanager
def furnish(
    directory: Path,
    name: str,
    *,
    domains: Sequence[Domain],
    now: datetime | None = None,
    plans: Mapping[str, Plan] = PEOPLE,
) -> Iterator[World]:
    """Fill the place of a world, which the process has entered, until the context ends. The arguments are the same."""
    plan = plans[name]
    company = plan.company
    user = company.find_user(plan.user) if plan.user else None
    with ExitStack() as stack:
        stack.enter_context(_move_quilt3(directory / "quilt"))
        aws = stack.enter_context(open_account(company, plan.endpoint.age))
        certificate = make_certificate()
        options: dict[str, Any] = {"endpoint": plan.endpoint, "addresses": ACME_HOSTS, "certificate": certificate}
        registry = stack.enter_context(FakeStack(company, aws.credentials, **options))
        route_to(registry.port, certificate, directory)
        log_in(registry, user)
        (directory / "data").mkdir()  # otherwise answers about it would depend on earlier reads
        scene = Scene(
            combine_settings(tuple(domain.settings for domain in domains if domain.settings))(),
            user=user.name if user else None,
            has_role=bool(user and user.role),
            is_member=bool(user and not user.is_admin),
            is_empty=company is EMPTY,
            now=now,
        )
        for domain in domains:
            domain.fill_demo(scene)
        if plan.mishap:
            plan.mishap(registry, aws, stack)
        registry.calls.clear()
        default_app.register()  # the first use in the world reads the final environment
        yield World(name, company, user, registry, aws, directory)


def log_in(stack: FakeStack, user: User | None) -> None:
    """Configure quilt3 for the stack, and sign in as `quilt-mcp login` does.

    Args:
        stack: the stack, which runs.
        user: who signs in, if anyone does. Without a role, quilt3 stores the tokens and then fails to get credentials.
    """
    quilt3.util.configure_from_url(stack.url)
    if user:
        with suppress(*() if user.role else (quilt3.util.QuiltException,)):
            quilt3.session.login_with_token(stack.sign_in(user))
