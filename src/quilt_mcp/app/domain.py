"""A domain: a group of resources with a data source of its own, and what else it adds to a server."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from fastmcp import FastMCP
from pydantic import BaseModel
from pydantic_settings import BaseSettings

from quilt_mcp.app import App
from quilt_mcp.app.pools import Pool
from quilt_mcp.core.errors import MakeFailure
from quilt_mcp.core.listing import ListSource
from quilt_mcp.core.registry import ResourceDefinition, build_registry


class InvalidDomain(ValueError):
    """The domains of a server do not fit together, or one cannot run here. The message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """What one domain provides.

    Attributes:
        name: names it in messages.
        resources: the rows of its resources.
        add_tools: adds its tools and prompts to a server, such as `CheckedTool`, which makes the app the current one.
        listing: what it adds to `resources/list` from a data source, page by page.
        failures: for the full name of a foreign exception class, the function that makes our failure from it.
        checks: readiness checks by name; each raises a ResourceFailure if the system behind it does not work.
        pools: by scheme, where its service functions run; by default in the threads for local work.
        settings: the class that declares its settings, without those that it shares with other domains.
        libraries: the top-level modules that its settings need.
        extra: the extra that installs those libraries.
    """

    name: str
    resources: Sequence[ResourceDefinition]
    add_tools: Callable[[FastMCP, App], None] = lambda _, __: None
    listing: ListSource | None = None
    failures: Mapping[str, MakeFailure] = field(default_factory=dict)
    checks: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    settings: type[BaseSettings] | None = None
    libraries: Sequence[str] = ()
    extra: str = ""

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
    try:
        return build_registry(row for _, row in rows)
    except ValueError as error:
        raise InvalidDomain(str(error)) from error
