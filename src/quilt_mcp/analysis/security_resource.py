"""config://security: the rules and limits for analysed code, from the object that the sandbox enforces."""

from typing_extensions import TypedDict

from quilt_mcp.analysis.gate.rules import CLOSED_ATTRIBUTES, DEFINABLE_METHODS, EXAMPLES, RULES, WITHHELD
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.app import current_app


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


class SecurityConfig(TypedDict):
    """The data of `config://security`. The lists are sorted."""

    allowed_modules: list[str]
    """The only modules that code can import."""
    blocked_modules: list[str]
    """The other modules of the standard library."""
    dangerous_builtins: list[str]
    """The builtins that code cannot name."""
    memory_limit_mb: int
    """The maximum address space of the process that runs the analysis, in MiB."""
    code_size_bytes: int
    """The maximum size of the code, in bytes of UTF-8."""
    coverage_threshold: int
    """The maximum number of paths that are explored for each condition."""
    syntax_nodes: int
    """The maximum number of nodes in the syntax tree of the code."""
    syntax_depth: int
    """The maximum depth of the tree."""
    integer_digits: int
    """The maximum number of decimal digits of an integer literal."""
    literal_length: int
    """The maximum number of characters of a string literal."""
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
    """The rules and limits for analysed code: allowed and blocked modules, blocked builtins, memory, size, paths.

    `rules` are all rules that can refuse code, with examples. `syntax_nodes` and `syntax_depth` limit the syntax tree
    of the code; `integer_digits` and `literal_length` limit one literal. `closed_attributes` are the attributes that
    code cannot name, `definable_methods` the methods of the form __name__ that it can define, and `withheld_names` the
    names that allowed modules do not have for it.

    `memory_limit_mb` is the address space of the process that runs the analysis, in MiB. `code_size_bytes` is the
    maximum size of the code. `coverage_threshold` is the maximum number of paths that are explored for each condition.
    `isolation` says which layers of the sandbox work on this machine and whether the server accepts code. It accepts
    none if the extra `analysis` is not installed, if the Python version is not supported, or if a layer is missing and
    the operator does not allow that. Then every module and builtin is refused and the limits are 0.
    """
    return describe_security(current_app().part(Sandbox))


def describe_security(sandbox: Sandbox) -> SecurityConfig:
    """Return the rules and limits of a sandbox."""
    accepts, layers = sandbox.accepts_code(), sandbox.probe_layers()
    policy = sandbox.policy if accepts else sandbox.policy.refuse_everything()
    return {
        "allowed_modules": sorted(policy.allowed_modules),
        "blocked_modules": sorted(policy.blocked_modules),
        "dangerous_builtins": sorted(policy.dangerous_builtins),
        "memory_limit_mb": policy.memory_limit_mb,
        "code_size_bytes": policy.code_size_bytes,
        "coverage_threshold": policy.coverage_threshold,
        "syntax_nodes": policy.syntax_nodes,
        "syntax_depth": policy.syntax_depth,
        "integer_digits": policy.integer_digits,
        "literal_length": policy.literal_length,
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
