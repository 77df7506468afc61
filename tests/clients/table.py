"""The clients that are tried, with their packages and how each is driven."""

from typing import Literal, NamedTuple

Transport = Literal["stdio", "http", "sse"]


class Packages(NamedTuple):
    """What is installed for a client, in a directory of its own.

    Attributes:
        registry: where the packages are.
        names: the packages with their versions. The first one is the client.
    """

    registry: Literal["npm", "PyPI"]
    names: tuple[str, ...]

    @property
    def version(self) -> str:
        return self.names[0].rpartition("@" if self.registry == "npm" else "==")[2]


class Library(NamedTuple):
    """A library. Its driver connects over each transport, and reads each URI in the ways that the library has.

    Attributes:
        packages: what is installed.
        driver: a file of `drivers`.
        transports: those that the library has.
        proxy: a program between the driver and the server, over stdio. It gets the URL of the server as an argument.
    """

    packages: Packages
    driver: str
    transports: tuple[Transport, ...] = ("stdio", "http", "sse")
    proxy: tuple[str, ...] = ()


class Program(NamedTuple):
    """A command that makes one call for each start, given `{uri}`, and `{command}` for the words of the server's.

    Attributes:
        packages: what is installed.
        read: the words that read a resource.
        call: the words that call the tool.
    """

    packages: Packages
    read: tuple[str, ...]
    call: tuple[str, ...]


class Agent(NamedTuple):
    """A client with an entry that `quilt-mcp install` writes. Without an account, it can only find its entry.

    Attributes:
        packages: what is installed.
        name: of the client, for `quilt-mcp install`.
        command: the words that list the servers, or remove this one.
        expected: what they must print.
        variables: what its environment has too.
    """

    packages: Packages
    name: str
    command: tuple[str, ...]
    expected: str
    variables: tuple[tuple[str, str], ...] = ()


def npm(*names: str) -> Packages:
    return Packages("npm", names)


def pypi(*names: str) -> Packages:
    return Packages("PyPI", names)


SDK = "@modelcontextprotocol/sdk"
INSPECTOR = "@modelcontextprotocol/inspector"
_INSPECT = ("mcp-inspector", "--cli", "{command}", "--method")
_READ = (*_INSPECT, "resources/read", "--uri", "{uri}")
_CALL = (*_INSPECT, "tools/call", "--tool-name", "get_resource", "--tool-arg", "uri={uri}")
CLIENTS: dict[str, Library | Program | Agent] = {
    "TypeScript SDK 1.12": Library(npm(f"{SDK}@1.12.3"), "sdk_1.mjs"),
    "TypeScript SDK 1.20": Library(npm(f"{SDK}@1.20.2"), "sdk_1.mjs"),
    "TypeScript SDK 1.32": Library(npm(f"{SDK}@1.32.2"), "sdk_1.mjs"),
    "TypeScript client 2": Library(npm("@modelcontextprotocol/client@2.4.0"), "sdk_2.mjs"),
    "Python SDK 1": Library(pypi("mcp==1.30.0"), "python_sdk.py"),
    "Python SDK 2": Library(pypi("mcp==2.3.0"), "python_sdk.py"),
    "ai-sdk": Library(npm("@ai-sdk/mcp@2.0.99"), "ai_sdk.mjs"),
    "pydantic-ai": Library(pypi("pydantic-ai-slim[mcp]==2.68.0"), "pydantic_ai_client.py"),
    "LangChain adapters": Library(pypi("langchain-mcp-adapters==0.3.2"), "langchain_client.py"),
    "openai-agents": Library(pypi("openai-agents==0.24.0"), "openai_agents_client.py"),
    "mcp-remote": Library(
        npm("mcp-remote@0.15.1", f"{SDK}@1.32.2"),
        "sdk_1.mjs",
        ("stdio",),
        ("node", "node_modules/mcp-remote/dist/proxy.js", "{url}", "--allow-http", "--transport", "http-only"),
    ),
    "MCP Inspector 1": Program(npm(f"{INSPECTOR}@1.0.3"), _READ, _CALL),
    "MCP Inspector 2": Program(npm(f"{INSPECTOR}@2.12.0"), _READ, _CALL),
    "mcporter": Program(
        npm("mcporter@0.12.3"),
        (),
        ("mcporter", "call", "--stdio", "{line}", "get_resource", "uri={uri}", "--output", "raw"),
    ),
    "Claude Code": Agent(
        npm("@anthropic-ai/claude-code@2.1.332"), "claude-code", ("claude", "mcp", "list"), "Connected"
    ),
    "Gemini CLI": Agent(
        npm("@google/gemini-cli@0.61.0"),
        "gemini-cli",
        ("gemini", "mcp", "list"),
        "Connected",
        (("GEMINI_CLI_TRUST_WORKSPACE", "true"),),
    ),
    "Codex CLI": Agent(npm("@openai/codex@0.171.0"), "codex", ("codex", "mcp", "list"), "quilt"),
    "GitHub Copilot CLI": Agent(npm("@github/copilot@1.0.102"), "copilot-cli", ("copilot", "mcp", "list"), "quilt"),
    "Cline": Agent(npm("cline@3.0.65"), "cline", ("cline", "mcp", "uninstall", "quilt"), "quilt"),
    "opencode": Agent(npm("opencode-ai@1.18.33"), "opencode", ("opencode", "mcp", "list"), "connected"),
}
