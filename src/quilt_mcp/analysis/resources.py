"""config://security, config://server and info://capabilities, and what the domain adds to a server.

The rules and limits for analysed code come from the object that the sandbox enforces. The other two ask the running
server during the request. Nothing is listed by hand or cached, so each caller sees what that caller can use now.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Literal, TypeVar

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import dedupe_with_versions
from typing_extensions import TypedDict

from quilt_mcp.analysis.gate.rules import CLOSED_ATTRIBUTES, DEFINABLE_METHODS, EXAMPLES, RULES, WITHHELD
from quilt_mcp.analysis.policy import LIMIT_UNITS
from quilt_mcp.analysis.sandbox import Sandbox, is_installed
from quilt_mcp.analysis.settings import AnalysisSettings
from quilt_mcp.app import App, current_app
from quilt_mcp.app.domain import Domain
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.core.registry import define


class Isolation(TypedDict):
    """How this machine isolates the process that runs an analysis. The server has tried each layer."""

    accepts_code: bool
    """False if no analysis can run."""
    weaker_sandbox_allowed: bool
    """Whether analyses also run if a layer does not work."""
    landlock: bool
    """Whether Landlock limits the file system."""
    privileges: bool
    """Whether the process can give up its privileges."""
    rlimits: bool
    """Whether the limits of processes work."""
    seccomp: bool
    """Whether seccomp limits the system calls."""


class Rule(TypedDict):
    """A rule that can refuse code.

    Attributes:
        rule: its name, as in an answer with the error type `Refused`.
        message: the reason and what to change.
        examples: short programs that it refuses. None for a rule about one of the limits.
    """

    rule: str
    message: str
    examples: list[str]


class Limit(TypedDict):
    """A limit of an analysis."""

    value: int
    """The maximum."""
    unit: str
    """What it counts."""


class SecurityConfig(TypedDict):
    """The data of `config://security`. The lists are sorted."""

    allowed_modules: list[str]
    """The modules of the standard library that code can import, besides the other files of the request."""
    other_modules: Literal["refused"]
    """What happens to code that imports any other module."""
    dangerous_builtins: list[str]
    """The builtins that code cannot name."""
    limits: dict[str, Limit]
    """The limits by name. `code_size_bytes` is that of all texts of a request, `memory_limit_mb` that of the address
    space of the process, `coverage_threshold` that of the paths for each condition; `syntax_nodes` and `syntax_depth`
    limit the syntax tree, `integer_digits` and `literal_length` one literal. They are 0 if no code is accepted."""
    rules: list[Rule]
    """All rules that can refuse code."""
    closed_attributes: list[str]
    """The attributes that code cannot name."""
    definable_methods: list[str]
    """The methods of the form `__name__` that code can define."""
    withheld_names: list[str]
    """The names that allowed modules do not have for code."""
    isolation: Isolation
    """Which layers of the sandbox work."""


def security() -> SecurityConfig:
    """The rules and limits for analysed code: the modules that it can import, blocked builtins, memory, size, paths.

    Code that imports another module than `allowed_modules` and the files of its request is refused. `rules` are all
    rules that can refuse code, with examples. `closed_attributes` are the attributes that code cannot name,
    `definable_methods` the methods of the form __name__ that it can define, and `withheld_names` the names that allowed
    modules do not have for it.

    `isolation` says which layers of the sandbox work on this machine and whether the server accepts code. It accepts
    none if the extra `analysis` is not installed, if the Python version is not supported, or if a layer is missing and
    the operator does not allow that. Then every module and builtin is refused and the limits are 0.
    """
    return describe_security(current_app().part(Sandbox))


def describe_security(sandbox: Sandbox) -> SecurityConfig:
    accepts, layers = sandbox.accepts_code(), sandbox.probe_layers()
    policy = sandbox.policy if accepts else sandbox.policy.refuse_everything()
    return {
        "allowed_modules": sorted(policy.allowed_modules),
        "other_modules": "refused",
        "dangerous_builtins": sorted(policy.dangerous_builtins),
        "limits": {name: {"value": getattr(policy, name), "unit": unit} for name, unit in LIMIT_UNITS.items()},
        "rules": [
            {"rule": name, "message": message, "examples": list(EXAMPLES.get(name, ()))}
            for name, message in sorted(RULES.items())
        ],
        "closed_attributes": sorted(CLOSED_ATTRIBUTES),
        "definable_methods": sorted(DEFINABLE_METHODS),
        "withheld_names": sorted(f"{module}.{name}" for module, names in WITHHELD.items() for name in names),
        "isolation": {
            "accepts_code": accepts,
            "weaker_sandbox_allowed": policy.allow_weaker_sandbox,
            "landlock": layers["landlock"],
            "privileges": layers["privileges"],
            "rlimits": layers["rlimits"],
            "seccomp": layers["seccomp"],
        },
    }


_Component = TypeVar("_Component", bound=FastMCPComponent)


class ServerConfig(TypedDict):
    """The data of config://server.

    Attributes:
        version: the version of the server.
        default_timeout_seconds: the timeout of an analysis if the call does not set one.
        mask_error_details: whether clients do not see the text of unexpected errors.
        transport: `oauth` if clients must sign in, else `stdio`, also over HTTP.
    """

    version: str
    default_timeout_seconds: int
    mask_error_details: bool
    transport: Literal["oauth", "stdio"]


class Named(TypedDict):
    """A tool or prompt, with the first line of its description."""

    name: str
    """Its name."""
    description: str
    """The first line."""


class ResourceDescription(TypedDict):
    """A resource, with the first line of its description."""

    uri: str
    """Its URI."""
    description: str
    """The first line."""


class TemplateDescription(TypedDict):
    """A resource template, with the first line of its description."""

    uri_template: str
    """Its URI, with variables."""
    description: str
    """The first line."""


class Capabilities(TypedDict):
    """The data of info://capabilities. The lists are sorted and contain each name once."""

    tools: list[Named]
    """The tools that you can use."""
    resources: list[ResourceDescription]
    """The resources that you can read."""
    templates: list[TemplateDescription]
    """The resource templates that you can read."""
    prompts: list[Named]
    """The prompts that you can use."""


async def server_config() -> ServerConfig:
    """The server's version, default timeout and error masking; transport: oauth if clients must sign in, else stdio.

    Raises:
        ResourceExecutionError: there is no current request to a server.
    """
    server = _find_server()
    return {
        "version": str(server.version),
        "default_timeout_seconds": current_app().settings_as(AnalysisSettings).analysis_default_timeout_seconds,
        "mask_error_details": server._mask_error_details,  # noqa: SLF001 - FastMCP has no public name for it
        "transport": "stdio" if server.auth is None else "oauth",
    }


async def capabilities() -> Capabilities:
    """The tools, resources, resource templates and prompts that you can use, each with one line of description.

    It contains the templates of database rows, but not the rows themselves, which resources/list contains.

    Raises:
        ResourceExecutionError: there is no current request to a server.
    """
    server = _find_server()
    tools = _first_lines(await server.list_tools(), lambda one: one.name)
    resources = _first_lines(await server.list_resources(), lambda one: str(one.uri))
    templates = _first_lines(await server.list_resource_templates(), lambda one: one.uri_template)
    prompts = _first_lines(await server.list_prompts(), lambda one: one.name)
    return {
        "tools": [{"name": name, "description": line} for name, line in tools],
        "resources": [{"uri": uri, "description": line} for uri, line in resources],
        "templates": [{"uri_template": uri, "description": line} for uri, line in templates],
        "prompts": [{"name": name, "description": line} for name, line in prompts],
    }


def _find_server() -> FastMCP:
    try:
        return get_context().fastmcp
    except RuntimeError as error:
        raise ResourceExecutionError(
            "Only a running server can answer this resource.",
            suggested_actions=["Read it with an MCP client or with `quilt-mcp get`."],
        ) from error


def _first_lines(components: Sequence[_Component], name: Callable[[_Component], str]) -> list[tuple[str, str]]:
    """Return the name and the first line of each component, sorted. Of several versions, only the highest counts."""
    highest = dedupe_with_versions(components, name)
    return sorted((name(one), (one.description or "").strip().partition("\n")[0].strip()) for one in highest)


RESOURCES = [
    define(
        "config://security",
        security,
        name="Security Configuration",
        ttl_seconds=300,  # it changes only with a restart
        shared=True,
    ),
    define("config://server", server_config, name="Server Configuration"),
    define("info://capabilities", capabilities, name="Server Capabilities"),
]


def add_tools(mcp: FastMCP, app: App) -> None:
    """Add the tools and the prompts, if the extra is installed. Without it, the server starts without their modules."""
    if is_installed():
        tools = import_module("quilt_mcp.analysis.tools")
        tools.register_analysis_tools(mcp, app)
        tools.register_analysis_prompts(mcp)


ANALYSIS = Domain(
    name="analysis",
    place=40,
    summary="Analyses Python code if the extra `analysis` is installed: contracts, exceptions, equivalence, branches.",
    resources=RESOURCES,
    add_tools=add_tools,
    settings=AnalysisSettings,
    libraries=("crosshair", "z3"),
    extra="analysis",
)
