"""Fixtures that all tests share: the clock, the worlds, a server and its client."""

import asyncio
import gc
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import botocore
import botocore.session
import pytest
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport

from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from tests.support import apps
from tests.support.postgres_server import NoPostgres, PostgresServer, postgres_server
from tests.support.worlds import enter_stopped

gc.disable()  # until the tests are collected: modules are no garbage

ON_POSTGRESQL = (
    "tests/requirements/test_resources.py::test_a",
    "tests/requirements/test_resources.py::test_the_",
    "tests/requirements/test_resources.py::test_users_",
    "tests/requirements/test_resources.py::test_relationships_",
    "tests/requirements/test_existing_databases.py",
    "tests/workflows/test_workflow_postgres.py::test_any_sequence",
)
"""What `make test` also runs on PostgreSQL. `make soak` runs all tests of PostgreSQL."""

POSTGRESQL = {"postgresql", "existing", "earlier"}
"""The parameters of tests that start it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most tests of PostgreSQL to `make soak`: a server and a database for each test take most of their time."""
    for item in items:
        if not item.nodeid.startswith(ON_POSTGRESQL) and _uses_postgresql(item):
            item.add_marker(pytest.mark.soak)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the modules and the collected tests out of garbage collections, which took a fifth of the time."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 1_000)
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _collected_garbage() -> Iterator[None]:
    """Collect the garbage of each module at its end: a resource that a test leaves open fails in its module."""
    yield
    gc.collect()
    gc.freeze()


def _uses_postgresql(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    params = [value for value in callspec.params.values() if isinstance(value, str)] if callspec else []
    fixtures = getattr(item, "fixturenames", ())
    return not {"postgres", "existing_settings"}.isdisjoint(fixtures) or not POSTGRESQL.isdisjoint(params)


@pytest.fixture(scope="session", autouse=True)
def _impatient_uvicorn() -> Iterator[None]:
    """Let uvicorn check every 0.01 s whether it must end. By default it checks every 0.1 s, and tests wait for that."""
    uvicorn = import_module("uvicorn.server")
    with patch.object(uvicorn, "asyncio", _ImpatientAsyncio()):
        yield


class _ImpatientAsyncio:
    """The module asyncio with a shorter sleep."""

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(min(delay, 0.01))

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)


@pytest.fixture(scope="session", autouse=True)
def _garbage_collection_of_tests() -> Iterator[None]:
    """Leave garbage collection as it is when a test starts an HTTP server in this process."""
    server = import_module("quilt_mcp.commands.http_server")
    with patch.object(server, "tune_garbage_collection", lambda: None):
        yield


@pytest.fixture(autouse=True)
def _restored_default_app() -> Iterator[None]:
    """Forget the app that a test gave to Python callers."""
    yield
    apps.use_environment()


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world that a test requests with `in_world(...)`. The clock stands still in it."""
    with enter_stopped(request.param) as entered:
        yield entered


@pytest.fixture
def fresh_world() -> Iterator[World]:
    """The admin's world for one test, which may change it."""
    with enter_stopped("admin") as entered:
        yield entered


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for this test's workflows and requirements. It does not exist yet."""
    monkeypatch.setenv("QUILT_MCP_DATA_DIR", str(tmp_path / "data"))
    apps.use_environment()
    return tmp_path / "data"


@pytest.fixture(scope="module")
def server(world: World) -> QuiltServer:
    """A server in the world, for all tests of a module. It is expensive to create."""
    del world  # entered before the server is created
    return create_server()


@pytest.fixture
async def client(server: QuiltServer) -> AsyncIterator[Client[FastMCPTransport]]:
    """An in-memory client of the server. At its end the server forgets its caller, its caches and its limits."""
    async with Client(server) as connected:
        yield connected


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process."""
    try:
        context = postgres_server()
        server = context.__enter__()
    except NoPostgres as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    try:
        yield server
    finally:
        context.__exit__(None, None, None)


@pytest.fixture
def aws_calls() -> Iterator[Counter[str]]:
    """Count the calls of each AWS operation, without retries."""
    counted: Counter[str] = Counter()

    def count(event_name: str, **_: object) -> None:
        service, operation = event_name.split(".")[1:]
        counted[f"{service}:{operation}"] += 1

    def register(session: botocore.session.Session) -> None:
        session.register("before-call", count)

    botocore.register_initializer(register)
    yield counted
    botocore.unregister_initializer(register)
