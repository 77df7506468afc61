"""The server: an app and its domains, put together. A domain is an entry point of the group `quilt_mcp.domains`."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, cast

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.tools import Tool

from quilt_mcp.app import App
from quilt_mcp.app.build import find_version
from quilt_mcp.app.domain import Command, Domain, InvalidDomain, Product, collect_resources, merge
from quilt_mcp.app.pools import Pool, Pools
from quilt_mcp.app.request_guard import RequestGuard
from quilt_mcp.core.errors import MakeFailure
from quilt_mcp.core.introduction import Introduction
from quilt_mcp.core.listing import Listing, PagedFastMCP
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import add_surfaces
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.auth import MisconfiguredSignIn, create_auth
from quilt_mcp.settings import DomainChoice, InvalidSettings, ServerSettings, combine_settings
from quilt_mcp.view import TOOL_NAME as SHOW_RESOURCE
from quilt_mcp.view import ViewProvider, make_page

if TYPE_CHECKING:
    from quilt_mcp.http.shared_state import SharedSignIns

GROUP = "quilt_mcp.domains"
NAME = "quilt-mcp"
STARTUP_ERRORS = (InvalidDomain, MisconfiguredSignIn)
"""What `create_server` raises if the user has to change something, beside the error of invalid settings."""

LISTS_TTL_SECONDS = 300
"""How long clients may keep the lists of tools, prompts and templates. They change only with the server's version."""

HOW_TO_READ = (
    "Call get_resource() to list all resources, then get_resource(uri=...), or read the same URIs as resources."
)
DIAGNOSIS = "Run `quilt-mcp doctor` in a terminal: it checks the configuration, the login and the network."


@cache
def list_installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of the installed domains, sorted by name."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def describe_origin(entry: EntryPoint) -> str:
    """Return the distribution of a domain, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def find_domains(chosen: Iterable[str] | None = None) -> tuple[Domain, ...]:
    """Return the installed domains in their order.

    Args:
        chosen: the names of those to load; by default those that `QUILT_MCP_DOMAINS` names, or all.

    Raises:
        InvalidDomain: one does not exist, cannot be loaded, or is not what its entry point says.
    """
    installed = {entry.name: entry for entry in list_installed()}
    if not installed:
        raise InvalidDomain(f"{NAME} is not installed with its domains: install it again")
    names = [*dict.fromkeys(DomainChoice().domains if chosen is None else chosen)] or [*installed]
    unknown = [name for name in names if name not in installed]
    if unknown:
        known = ", ".join(installed)
        raise InvalidDomain(f"QUILT_MCP_DOMAINS names {unknown[0]}, which is not installed. There are {known}")
    if len(installed) < len(list_installed()):
        twice = next(one for one in list_installed() if one is not installed[one.name])
        origins = " and ".join(map(describe_origin, (twice, installed[twice.name])))
        raise InvalidDomain(f"Two distributions have a domain {twice.name}: {origins}. Uninstall one")
    return tuple(sorted((_load(installed[name]) for name in names), key=lambda one: (one.place, one.name)))


def _load(entry: EntryPoint) -> Domain:
    try:
        domain = entry.load()
    except Exception as error:
        if entry.dist and entry.dist.name == NAME:  # a bug of ours, with its traceback
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidDomain(
            f"The domain {entry.name} of {describe_origin(entry)} cannot be loaded: {reason}"
        ) from error
    if not isinstance(domain, Domain) or domain.name != entry.name:
        found = f"the domain {domain.name}" if isinstance(domain, Domain) else "not a domain"
        raise InvalidDomain(f"The entry point {entry.name} of {describe_origin(entry)} is {found}")
    return domain


def read_settings(domains: Sequence[Domain] | None = None, **given: Any) -> ServerSettings:
    """Return the settings of a server with these domains, by default all that are installed.

    Args:
        domains: the domains.
        given: settings that replace those of the environment, by name.

    Raises:
        InvalidDomain: two domains declare the same setting.
        ValidationError: a setting has an invalid value.
    """
    return settings_class(find_domains() if domains is None else domains)(**given)


def settings_class(domains: Iterable[Domain]) -> type[ServerSettings]:
    """Return the class of the settings of a server with these domains.

    Raises:
        InvalidDomain: two domains declare the same setting.
    """
    try:
        return combine_settings(tuple(domain.settings for domain in domains if domain.settings))
    except InvalidSettings as error:
        raise InvalidDomain(f"The domains do not fit together: {error}") from error


def list_commands(domains: Iterable[Domain]) -> dict[str, Command]:
    """Return the commands of domains, by name.

    Raises:
        InvalidDomain: two domains have the same command.
    """
    return cast("dict[str, Command]", merge(domains, "commands"))


class QuiltServer(PagedFastMCP):
    """A server, its app and its domains.

    Args:
        app: what the server owns.
        domains: what it serves.
        options: as for PagedFastMCP.
    """

    def __init__(self, app: App, domains: Sequence[Domain], **options: Any) -> None:
        super().__init__(NAME, **options)
        self.app, self.domains = app, domains
        self.guard = RequestGuard(self.manager)
        self.add_middleware(self.guard)
        product = next((domain.product for domain in domains if domain.product), Product(NAME))
        has_apps = app.settings_as(ServerSettings).view != "off"
        self.add_middleware(Introduction(*product, has_apps=has_apps))

    def add_tool(self, tool: Tool | Callable[..., object]) -> Tool:
        added = super().add_tool(tool)
        self.guard.names.add(added.name)
        return added

    def add_prompt(self, prompt: Prompt | Callable[..., object]) -> Prompt:
        added = super().add_prompt(prompt)
        self.guard.names.add(added.name)
        return added


def create_manager(app: App, domains: Iterable[Domain] | None = None) -> ResourceManager:
    """Create the dispatcher of an app, by default for the installed domains.

    Raises:
        InvalidDomain: the domains do not fit together.
    """
    domains = find_domains() if domains is None else tuple(domains)
    failures: dict[str, MakeFailure] = {}
    for domain in domains:
        failures |= domain.failures
    pools = cast("dict[str, Pool]", merge(domains, "pools"))
    run = app.part(Pools).run
    settings = app.settings_as(ServerSettings)
    registry = collect_resources(domains)
    return ResourceManager(
        registry,
        deadline=settings.deadline_seconds,
        failures=failures,
        around=app.active,
        admit=app.part(Admission).admit,
        run=lambda row, call: run(cast("Pool", row.get("pool") or pools.get(row["category"], "local")), call),
        diagnosis=DIAGNOSIS,
        documents=[] if settings.view == "off" else [make_page(registry.values())],
        translations=[domain.translate for domain in domains],
        guesses=[domain.guess for domain in domains],
    )


def create_server(settings: ServerSettings | None = None, *, domains: Sequence[Domain] | None = None) -> QuiltServer:
    """Create a server with every resource and tool, with its own app.

    Args:
        settings: those of `read_settings`; by default those of the environment.
        domains: what it serves; by default the installed domains that `QUILT_MCP_DOMAINS` names, or all.

    Raises:
        InvalidDomain: the domains do not fit together, or a setting needs a library that is not installed.
        MisconfiguredSignIn: a setting of the sign-in cannot be used.
    """
    domains = find_domains() if domains is None else domains
    settings = settings or read_settings(domains)
    for kind in ("checks", "commands"):
        merge(domains, kind)  # the server does not start if two domains have the same
    for domain in domains:
        domain.check_libraries(settings)
    app = App(settings)
    # `get_resource()` of Python callers, while this app is active, uses the same manager.
    manager = app.once(partial(create_manager, domains=domains), key=create_manager)
    mcp = QuiltServer(
        app,
        domains,
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
        instructions="\n".join([*(domain.summary for domain in domains if domain.summary), HOW_TO_READ]),
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


def _open_sign_ins(app: App, settings: ServerSettings, secret: str) -> "SharedSignIns | None":
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
