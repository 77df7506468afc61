"""A domain: a group of resources with a data source of its own, and what else it adds to a server."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from typing import NamedTuple, get_args

from fastmcp import FastMCP
from mcp_types import Icon
from pydantic import BaseModel

from quilt_mcp.app import App
from quilt_mcp.app.checks import Body, Check
from quilt_mcp.app.pools import Pool
from quilt_mcp.app.settings import SettingsGroup
from quilt_mcp.core.errors import MakeFailure
from quilt_mcp.core.listing import ListSource
from quilt_mcp.core.registry import ResourceDefinition, build_registry
from quilt_mcp.core.uris import Guess, Translate

Ask = Callable[[str], Awaitable[Body]]
"""Returns the body that the tool get_resource returns for a URI."""


class InvalidDomain(ValueError):
    """The domains of a server do not fit together, or one cannot run here. The message says which and why."""


class Product(NamedTuple):
    """What a person sees of a server.

    Attributes:
        title: its name.
        website_url: where the product is described.
        icons: its pictures.
    """

    title: str
    website_url: str | None = None
    icons: Sequence[Icon] = ()


class Command(NamedTuple):
    """A command of `quilt-mcp`.

    Attributes:
        place: what it is, as `package.module:name`. It is imported when it is called.
        summary: one line for `--help`.
    """

    place: str
    summary: str


class Scene(NamedTuple):
    """A demo world that domains fill.

    Attributes:
        settings: those of the world, with its own directory.
        user: the name of who is signed in, if anyone is.
        has_role: whether that person has a role in the stack.
        is_member: whether that person is not an administrator.
        is_empty: whether the company has no data.
        now: the time of a demo for people; None in worlds with fixed times.
    """

    settings: BaseModel
    user: str | None = None
    has_role: bool = False
    is_member: bool = False
    is_empty: bool = False
    now: datetime | None = None


async def _check_nothing(_: object) -> Sequence[Check]:
    return []


@dataclass(frozen=True, kw_only=True)
class Domain:
    """What one domain provides.

    Attributes:
        name: names it in messages, in `QUILT_MCP_DOMAINS`, and as its entry point.
        place: those with smaller numbers come first, then those with smaller names.
        resources: the rows of its resources.
        summary: its lines in the instructions of a server. They say what a model can read and do with it.
        product: what a person sees of a server whose first domain with a product this is.
        add_tools: adds its tools and prompts to a server, such as `CheckedTool`, which makes the app the current one.
        listing: what it adds to `resources/list` from a data source, page by page.
        failures: for the full name of a foreign exception class, the function that makes our failure from it.
        checks: readiness checks by name; each raises a ResourceFailure if the system behind it does not work.
        pools: by scheme, where its service functions run; by default in the threads for local work. A row with a
            `pool` of its own runs there.
        settings: the class that declares its settings, without those that it shares with other domains.
        libraries: the top-level modules that its settings need.
        extra: the extra that installs those libraries.
        modules: those that its reads import on first use. A worker over HTTP imports them before it serves, because its
            first callers would wait.
        commands: its commands by name.
        translate: reads addresses that people copy elsewhere as URIs of its resources.
        guess: names the URI of its resources that an unknown one probably means, such as a plain name.
        diagnose: the checks of `quilt-mcp doctor`, given what returns the body of a resource.
        fill_demo: writes its data into a demo world.
    """

    name: str
    place: int = 100
    resources: Sequence[ResourceDefinition] = ()
    summary: str = ""
    product: Product | None = None
    add_tools: Callable[[FastMCP, App], None] = lambda _, __: None
    listing: ListSource | None = None
    failures: Mapping[str, MakeFailure] = field(default_factory=dict)
    checks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    settings: type[SettingsGroup] | None = None
    libraries: Sequence[str] = ()
    extra: str = ""
    modules: Sequence[str] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    translate: Translate = lambda _: None
    guess: Guess = lambda _: None
    diagnose: Callable[[Ask], Awaitable[Sequence[Check]]] = _check_nothing
    fill_demo: Callable[[Scene], None] = lambda _: None

    def check_libraries(self, settings: BaseModel) -> None:
        """Check that the libraries of this domain are installed if the user has set one of its settings.

        Raises:
            InvalidDomain: they are not.
        """
        own = self.settings.__annotations__ if self.settings else {}
        used = sorted(settings.model_fields_set & own.keys())
        missing = [name for name in self.libraries if find_spec(name) is None]
        if used and missing:
            raise InvalidDomain(
                f"The setting {used[0]} needs {', '.join(missing)}: install the extra `{self.extra}`, or unset it"
            )


def merge(domains: Iterable[Domain], kind: str) -> dict[str, object]:
    """Return one mapping of all domains, such as that of their `checks`.

    Raises:
        InvalidDomain: two domains have the same key.
    """
    owners: dict[str, str] = {}
    merged: dict[str, object] = {}
    for domain in domains:
        for key, value in getattr(domain, kind).items():
            if owners.setdefault(key, domain.name) != domain.name:
                raise InvalidDomain(f"The domains {owners[key]} and {domain.name} both have {key} in `{kind}`")
            merged[key] = value
    return merged


def collect_resources(domains: Iterable[Domain]) -> dict[str, ResourceDefinition]:
    """Return the registry of all domains.

    Raises:
        InvalidDomain: two domains claim the same scheme, or a row is not valid.
    """
    owners: dict[str, str] = {}
    rows = [(domain.name, row) for domain in domains for row in domain.resources]
    for name, row in rows:
        if owners.setdefault(row["category"], name) != name:
            raise InvalidDomain(f"The domains {owners[row['category']]} and {name} both claim {row['category']}://")
        if row.get("pool", "local") not in get_args(Pool):
            raise InvalidDomain(f"There is no pool {row['pool']}, which {row['uri']} names")
    try:
        return build_registry(row for _, row in rows)
    except ValueError as error:
        raise InvalidDomain(str(error)) from error
