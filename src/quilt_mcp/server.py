"""The server: an app and its domains, put together. This is the only place that lists the domains."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.tools import Tool
from mcp_types import Icon

from quilt_mcp.analysis.resources import ANALYSIS
from quilt_mcp.app import App
from quilt_mcp.app.build import find_version
from quilt_mcp.app.domain import Domain, InvalidDomain, collect_resources
from quilt_mcp.app.pools import Pool, Pools
from quilt_mcp.app.request_guard import RequestGuard
from quilt_mcp.core.errors import MakeFailure
from quilt_mcp.core.introduction import Introduction
from quilt_mcp.core.listing import Listing, PagedFastMCP
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import add_surfaces
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.auth import MisconfiguredSignIn, create_auth
from quilt_mcp.requirements.resources import REQUIREMENTS
from quilt_mcp.services.resources import QUILT
from quilt_mcp.settings import Settings
from quilt_mcp.view import TOOL_NAME as SHOW_RESOURCE
from quilt_mcp.view import ViewProvider, make_page
from quilt_mcp.workflows.resources import WORKFLOWS

if TYPE_CHECKING:
    from quilt_mcp.http.shared_state import SharedSignIns

DOMAINS = (QUILT, WORKFLOWS, REQUIREMENTS, ANALYSIS)
STARTUP_ERRORS = (InvalidDomain, MisconfiguredSignIn)
"""What `create_server` raises if the user has to change something, beside the error of invalid settings."""

LISTS_TTL_SECONDS = 300
"""How long clients may keep the lists of tools, prompts and templates. They change only with the server's version."""

INSTRUCTIONS = """\
Reads a Quilt stack: login, buckets, packages (quilt://buckets/{bucket}/packages, quilt://search/{query}), permissions,
Athena, tabulator, users and roles, package metadata, workflows. To push packages, use quilt3 or Quilt's own tools.
Reads a requirements database: epics, user stories, requirements, acceptance criteria, with search.
Analyses Python code if the extra `analysis` is installed: contracts, exceptions, equivalence, branches.
Call get_resource() to list all resources, then get_resource(uri=...), or read the same URIs as resources.\
"""
TITLE = "Quilt"
WEBSITE = "https://quilt.bio"
ICON = (  # a patchwork of four squares. Blanks and quotes are escaped: clients check that it is a URI
    "data:image/svg+xml,%3Csvg%20xmlns=%27http://www.w3.org/2000/svg%27%20viewBox=%270%200%204%204%27%3E"
    "%3Cpath%20fill=%27%236a5acd%27%20d=%27M0%200h2v2H0zM2%202h2v2H2z%27/%3E"
    "%3Cpath%20fill=%27%23f28e2b%27%20d=%27M2%200h2v2H2zM0%202h2v2H0z%27/%3E%3C/svg%3E"
)
DIAGNOSIS = "Run `quilt-mcp doctor` in a terminal: it checks the configuration, the login and the network."


class QuiltServer(PagedFastMCP):
    """A server and its app.

    Args:
        app: what the server owns.
        options: as for PagedFastMCP.
    """

    def __init__(self, app: App, **options: Any) -> None:
        super().__init__("quilt-mcp", **options)
        self.app = app
        self.guard = RequestGuard(self.manager)
        self.add_middleware(self.guard)
        icon = Icon(src=ICON, mime_type="image/svg+xml", sizes=["any"])
        has_apps = app.settings_as(Settings).view != "off"
        self.add_middleware(Introduction(title=TITLE, website_url=WEBSITE, icons=[icon], has_apps=has_apps))

    def add_tool(self, tool: Tool | Callable[..., object]) -> Tool:
        added = super().add_tool(tool)
        self.guard.names.add(added.name)
        return added

    def add_prompt(self, prompt: Prompt | Callable[..., object]) -> Prompt:
        added = super().add_prompt(prompt)
        self.guard.names.add(added.name)
        return added


def create_manager(app: App, domains: Iterable[Domain] = DOMAINS) -> ResourceManager:
    """Create the dispatcher of an app.

    Raises:
        InvalidDomain: the domains do not fit together.
    """
    domains = tuple(domains)
    failures: dict[str, MakeFailure] = {}
    pools: dict[str, Pool] = {}
    for domain in domains:
        failures |= domain.failures
        pools |= domain.pools
    run = app.part(Pools).run
    settings = app.settings_as(Settings)
    registry = collect_resources(domains)
    return ResourceManager(
        registry,
        deadline=settings.deadline_seconds,
        failures=failures,
        around=app.active,
        admit=app.part(Admission).admit,
        run=lambda scheme, call: run(pools.get(scheme, "local"), call),
        diagnosis=DIAGNOSIS,
        documents=[] if settings.view == "off" else [make_page(registry.values())],
    )


def create_server(settings: Settings | None = None, *, domains: Sequence[Domain] = DOMAINS) -> QuiltServer:
    """Create a server with every resource and tool, with its own app.

    Args:
        settings: by default those of the environment.
        domains: what it serves.

    Raises:
        InvalidDomain: the domains do not fit together, or a setting needs a library that is not installed.
        MisconfiguredSignIn: a setting of the sign-in cannot be used.
    """
    settings = settings or Settings()
    for domain in domains:
        domain.check_libraries(settings)
    app = App(settings)
    # `get_resource()` of Python callers, while this app is active, uses the same manager.
    manager = app.once(partial(create_manager, domains=domains), key=create_manager)
    mcp = QuiltServer(
        app,
        manager=manager,
        listing=Listing(
            [domain.listing for domain in domains if domain.listing],
            page_size=settings.list_page_size,
            seconds=settings.list_provider_seconds,
            find_failure=manager.find_failure,
        ),
        ttl_seconds=settings.cache_ttl if settings.enable_caching else 0,
        cache_ttl=LISTS_TTL_SECONDS,
        version=find_version(),
        instructions=INSTRUCTIONS,
        mask_error_details=True,
        lifespan=_close_app(app),
        auth=create_auth(settings, shared_store=partial(_open_sign_ins, app, settings)),
    )
    add_surfaces(mcp, manager)
    for address in manager.documents:
        mcp.add_provider(ViewProvider(manager, address, settings.view))
        mcp.guard.names.add(SHOW_RESOURCE)
    for domain in domains:
        domain.add_tools(mcp, app)
    return mcp


def _open_sign_ins(app: App, settings: Settings, secret: str) -> "SharedSignIns | None":
    """Open the store of sign-ins that processes share, as a part of the app; None if there is none."""
    if settings.state_url is None:
        return None
    create = import_module("quilt_mcp.http.shared_state").SharedSignIns  # it imports redis
    create = partial(create, settings.state_url.get_secret_value(), secret)
    store: SharedSignIns = app.part(lambda _: create(lambda: app.part(Admission).note("shared_state_failure")))
    return store


def _close_app(app: App) -> Callable[[FastMCP], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastMCP) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await app.close()

    return lifespan
