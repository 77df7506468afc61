"""The settings of a contract, the `mcp_…` lines of pytest's configuration, and the names of its goldens."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from mcp_parity.values import Place

START = ("name", "title", "instructions", "capabilities", "protocol")
UI = "ui://*"
PAUSE = 1.1  # a clock of one second moves meanwhile
COLUMNS = ("type", "uri", "name", "description", "mime_type", "is_template", "template_variables", "example_uri")

Row = dict[str, str]
Entry = dict[str, Any]


class ContractError(Exception):
    """The contract is broken, or cannot be checked. The message says what to do."""


class Volatile(NamedTuple):
    """A value that differs from read to read, and is not pinned."""

    pattern: str
    where: Place

    def __str__(self) -> str:
        part = f" /{self.where.part.pattern}/" if self.where.part else ""
        return f"{self.pattern} {self.where.path}{part}"


class Call(NamedTuple):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]

    @property
    def subject(self) -> str:
        """The name by which messages, goldens and `mcp_volatile` name it: `calls/search/q=x`."""
        words = "&".join(f"{name}={_write_argument(value)}" for name, value in self.arguments.items())
        return "/".join(filter(None, ["calls", self.tool, words]))

    @property
    def row(self) -> Row:
        """The case, in the form of a row of the inventory."""
        names = {"uri": self.subject, "example_uri": self.subject, "name": self.tool}
        return {"type": "call", "arguments": json.dumps(self.arguments)} | names

    @classmethod
    def parse(cls, line: str) -> "Call":
        """Parse a line of the form `tool {"argument": "value"}`."""
        tool, _, text = line.strip().partition(" ")
        try:
            arguments = json.loads(text) if text.strip() else {}
        except ValueError as error:
            raise ContractError(f"mcp_calls: {line!r}: the arguments are not JSON: {error}") from error
        if not tool or not isinstance(arguments, dict):
            raise ContractError(f'mcp_calls: {line!r} is not of the form `tool {{"argument": "value"}}`')
        return cls(tool, arguments)


def _write_argument(value: Any) -> str:
    """Return a text as it is, unless it is the JSON of another value."""
    with suppress(ValueError):
        return json.dumps(json.loads(value) and value) if isinstance(value, str) else json.dumps(value)
    return str(value)


@dataclass(frozen=True)
class Settings:
    """What the configuration says; README.md describes each line. `server` is empty if a fixture creates it."""

    root: Path
    server: str = ""
    golden: Path = Path("golden")
    inventory: Path = Path("golden/mcp-list.csv")
    columns: tuple[str, ...] = COLUMNS
    tool: str = ""
    examples: dict[str, str] = field(default_factory=dict)
    volatile: tuple[Volatile, ...] = ()
    exclude: tuple[str, ...] = (UI,)
    others: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    protocol: str = "auto"
    start: tuple[str, ...] = START
    timeout: float = 60.0
    pause: float = PAUSE

    @classmethod
    def read(cls, root: Path, get: Callable[[str], Any]) -> "Settings":
        """Read the `mcp_…` lines of pytest's configuration. A line that cannot be parsed is an error."""
        given = {name: get(f"mcp_{name}") for name in ("server", "tool", "protocol")}
        given |= {name: tuple(get(f"mcp_{name}")) for name in ("calls", "columns", "exclude", "start")}
        given |= {"examples": dict(map(parse_example, get("mcp_examples"))), "others": tuple(get("mcp_other_goldens"))}
        given["volatile"] = tuple(map(parse_volatile, get("mcp_volatile")))
        given |= {name: float(get(f"mcp_{name}")) for name in ("pause", "timeout")}
        [Call.parse(line) for line in given["calls"]]
        golden, inventory = root / get("mcp_golden"), get("mcp_inventory")
        return cls(root, golden=golden, inventory=root / inventory if inventory else golden / "mcp-list.csv", **given)

    def excludes(self, uri: str) -> bool:
        return any(fnmatchcase(uri, pattern) for pattern in self.exclude)

    def volatile_paths(self, uri: str) -> list[Place]:
        """Return where a resource has what is not pinned."""
        return [one.where for one in self.volatile if fnmatchcase(uri, one.pattern)]

    def show(self, path: Path) -> str:
        """Return a path as a person in the project's directory writes it."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def parse_example(line: str) -> tuple[str, str]:
    """Parse a line of the form `template = URI`."""
    template, equals, uri = (part.strip() for part in line.partition(" = "))
    if not equals or "{" not in template or not uri:
        raise ContractError(f"mcp_examples: {line!r} is not of the form `template = URI`")
    return template, uri


def parse_volatile(line: str) -> Volatile:
    """Parse a line of the form `URI path` or `URI path /pattern of a part/`. Blanks in a path are in double quotes."""
    found = re.fullmatch(r'(\S.*?)\s+((?:[^\s"]|"(?:[^"\\]|\\.)*")+?)(?:\s+/(.+)/)?', line.strip())
    if not found:
        raise ContractError(f"mcp_volatile: {line!r} is not of the form `URI path` or `URI path /pattern/`")
    try:
        return Volatile(found[1], Place(found[2], re.compile(found[3]) if found[3] else None))
    except re.error as error:
        raise ContractError(f"mcp_volatile: {line!r}: the pattern is invalid: {error}") from error


def parse_rows(text: str) -> tuple[list[Row], bool]:
    """Return the rows of an inventory, and whether it or one of them lacks a column that is needed."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = list(reader)
    header = dict.fromkeys(reader.fieldnames or (), "")  # checked too: an empty file is no empty inventory
    return rows, any(None in map(line.get, ("type", "uri", "example_uri")) for line in [header, *rows])


DIRECTORIES = ("data", "errors", "discovery", "prompts", "calls")
LISTINGS = ("resources", "resource-templates", "tools", "prompts", "server", "get-resource")
_LONGEST_PART = 100
_PLAIN = re.compile(r"[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*")


class Names:
    """The names of the goldens of all rows. Each is different, also on a disk that ignores case."""

    def __init__(self, uris: Iterable[str]) -> None:
        self._paths: dict[str, str] = {}
        taken: dict[str, list[str]] = {}
        for uri in uris:
            taken.setdefault(_path(uri).casefold(), []).append(uri)
        for group in taken.values():
            for uri in group:
                suffix = f"~{_hash(uri)}" if len(set(group)) > 1 else ""
                self._paths[uri] = _path(uri) + suffix

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Names":
        """Return the names for the rows that have an example."""
        return cls(row["example_uri"] for row in rows if row["example_uri"])

    def data(self, uri: str, world: str) -> str:
        return f"data/{self._paths[uri]}{_suffix(world)}"

    def error(self, uri: str, world: str) -> str:
        return f"errors/{self._paths[uri]}{_suffix(world)}"

    def listing(self, name: str, world: str) -> str:
        return f"discovery/{name}{_suffix(world)}"

    def asked(self, name: str, world: str) -> str:
        """Return the name of the golden of what is no resource, such as `prompts/greet`. Disks can ignore case."""
        folder, *rest = name.split("/", 2)
        hashed = "" if name == name.casefold() else f"~{_hash(name)}"
        return f"{folder}/{'/'.join(map(_part, rest))}{hashed}{_suffix(world)}"

    def all(self, worlds: Iterable[str]) -> set[str]:
        """Return every name that a golden of a resource or a listing can have."""
        lists = {self.asked("errors/unknown", world) for world in worlds}
        lists |= {self.listing(name, world) for name in LISTINGS for world in worlds}
        return lists | {kind(uri, world) for kind in (self.data, self.error) for uri in self._paths for world in worlds}


def _suffix(world: str) -> str:
    return f"--{world}" if world else ""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _path(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    *folders, name = map(_part, [scheme, *rest.split("/")] if separator else uri.lstrip("/").split("/"))
    folders = [re.sub(r"(?i)\.(json)$", r"%2E\1", one) for one in folders]  # else one could be the golden of another
    return "/".join([*([] if separator else "-"), *folders, name])


def _part(part: str) -> str:
    if _PLAIN.fullmatch(part) and "--" not in part and len(part) <= _LONGEST_PART:
        return part
    # a name that is `.`, `..`, empty or looks like that of a world is written with escapes
    safe = quote(part, safe="").replace("--", "-%2D").replace("~", "%7E")
    safe = re.sub(r"^\.|\.$|^-$", lambda found: f"%{ord(found[0]):X}", safe) or "%"
    return safe if len(safe) <= _LONGEST_PART else f"{safe[:_LONGEST_PART]}~{_hash(part)}"
