"""The MCP clients that `quilt-mcp install` knows, and the text of their configuration.

The entry for this server is added, changed or removed, and the rest is kept.

Comments and commas that JSON does not have are read as blanks. So Python's parser judges the text, and its positions
are those of the file.
"""

import json
import ntpath
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict, cast

import platformdirs

from quilt_mcp.app.home import ask_for_directory, find_home


class ConfigError(Exception):
    """A file cannot be read or changed as the configuration of an MCP client."""


ClientName = Literal["claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "gemini-cli"]


class Client(NamedTuple):
    """The configuration of a client.

    Args:
        find_file: returns the path of the file with the servers of the user.
        servers: the name of the object with the servers.
        extra: what an entry has besides the command, its arguments and its environment.
        has_comments: whether the client accepts comments.
        has_last_commas: whether the client accepts a comma after the last value.
    """

    find_file: Callable[[], Path]
    servers: str = "mcpServers"
    extra: Mapping[str, str] = {}
    has_comments: bool = False
    has_last_commas: bool = False


def _in_home(*names: str) -> Callable[[], Path]:
    return lambda: find_home().joinpath(*names)


def _in_config(app: str, *names: str) -> Callable[[], Path]:
    return lambda: ask_for_directory(
        lambda: platformdirs.user_config_path(app, appauthor=False, roaming=True)
    ).joinpath(*names)


def _find_zed() -> Path:
    """Return Zed's file. On macOS it is in ~/.config, and on Linux its directory has a name in lower case."""
    if sys.platform == "darwin":
        return find_home() / ".config" / "zed" / "settings.json"
    return _in_config("Zed" if os.name == "nt" else "zed", "settings.json")()


CLIENTS: dict[ClientName, Client] = {
    "claude-desktop": Client(_in_config("Claude", "claude_desktop_config.json")),
    "claude-code": Client(_in_home(".claude.json")),
    "cursor": Client(_in_home(".cursor", "mcp.json")),
    "vscode": Client(
        _in_config("Code", "User", "mcp.json"), "servers", {"type": "stdio"}, has_comments=True, has_last_commas=True
    ),
    "windsurf": Client(_in_home(".codeium", "windsurf", "mcp_config.json")),
    "zed": Client(_find_zed, "context_servers", has_comments=True, has_last_commas=True),
    "gemini-cli": Client(_in_home(".gemini", "settings.json"), has_comments=True),
}


COMMAND = "quilt-mcp"
SERVER_NAME = "quilt"
BYTE_ORDER_MARK = "\ufeff"
ADDRESSES = {"url", "serverUrl", "httpUrl"}
"""The names that the clients have for the address of a server that they do not start."""

BLANK = "{}\n"
BLANKS = " \t\r\n"
INDENT = "  "
_BLANKS = re.compile(rf"[{BLANKS}]*")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|(?<![\s{\[,])(\s*),(?=\s*[}\]])')


class Entry(TypedDict):
    """How a client starts a server."""

    command: str
    args: list[str]
    env: NotRequired[dict[str, str]]


class ConfigText:
    """The text of a client's configuration.

    Args:
        text: the text, with its byte order mark. A new or empty file has none.
        client: the client that reads the configuration.
        command: the command that entries of this server have.

    Attributes:
        entry: the entry for this server; None if there is none.
        environment: the variables of the entry.

    Raises:
        ConfigError: the text is not valid, or its entry cannot be changed.
    """

    def __init__(self, text: str, client: Client, command: str) -> None:
        body = text.removeprefix(BYTE_ORDER_MARK)
        self._mark = BYTE_ORDER_MARK if body.strip() and body != text else ""  # of an empty file, it is dropped
        self._client = client
        self._command = command
        self._place = (client.servers, SERVER_NAME)
        self._json = JSONText(body, client)
        self.entry = self._read_entry()
        self.environment = self._read_environment()

    def add(self, entry: Entry) -> str:
        """Return the text with an entry. An entry that is there keeps its variables and everything else it has.

        Raises:
            ConfigError: the new entry cannot be encoded.
        """
        wanted: dict[str, object] = {**self._client.extra, **entry}
        text = self._json
        if self.entry is None:
            text = text.put(wanted, *self._place)
        else:
            variables = cast("Mapping[str, str]", wanted.pop("env", {}))
            for name, value in wanted.items():
                if self.entry.get(name) != value:
                    text = text.put(value, *self._place, name)
            for name, variable in variables.items():
                if self.environment.get(name) != variable:
                    text = text.put(variable, *self._place, "env", name)
        try:
            text.text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError("the entry contains bytes that are not UTF-8") from error
        return self._mark + text.text

    def remove(self, copies: Iterable[str]) -> str | None:
        """Return the text without the entry.

        Args:
            copies: earlier texts. If one differs from this text only by the entry, it is the result.

        Returns:
            The text; None if this is the text of a new file with the entry.
        """
        for copy in copies:
            if self._is_made_from(copy):
                return copy
        if self._is_made_from(""):
            return None
        return self._mark + self._json.remove(*self._place).text

    def _is_made_from(self, text: str) -> bool:
        """Return whether this text is another one with the entry."""
        body = text.removeprefix(BYTE_ORDER_MARK)
        if body.strip() and (body != text) != bool(self._mark):  # one has a byte order mark
            return False
        try:
            other = JSONText(body, self._client)
            if other.find(*self._place):
                return False
            # The entry itself can have been changed: what is around it is compared.
            return other.put("", *self._place).text == self._json.put("", *self._place).text
        except ConfigError:  # an earlier text that was not valid
            return False

    def _read_entry(self) -> dict[str, object] | None:
        if self._json.find(*self._place) is None:
            return None
        entry = {member.name: member.value for member in self._json.list_members(*self._place)}
        command, arguments = entry.get("command"), entry.get("args")
        is_ours = isinstance(command, str) and (
            command == self._command or ntpath.basename(command).lower().removesuffix(".exe") == COMMAND
        )
        serves = isinstance(arguments, list) and arguments[:1] == ["serve"]
        if not (is_ours and serves and entry.get("type", "stdio") == "stdio" and entry.keys().isdisjoint(ADDRESSES)):
            place = ".".join(self._place)
            raise ConfigError(f"its {place} is another server: rename or remove it, then run this command again")
        return entry

    def _read_environment(self) -> dict[str, str]:
        place = (*self._place, "env")
        variables = {}
        for member in self._json.list_members(*place) if self._json.find(*place) else ():
            if not isinstance(member.value, str):
                where = ".".join((*place, member.name))
                raise ConfigError(f"its {where} is not a string: put the value in double quotes")
            variables[member.name] = member.value
        return variables


class Member(NamedTuple):
    """A member of an object, and the positions of its name, of its value, and after both and their comma."""

    name: str
    start: int
    value_start: int
    end: int
    comma_end: int | None
    value: object


class JSONText:
    """A JSON text of which one member is changed. Every other character stays: comments, order, indentation, line ends.

    Args:
        text: the text. One without any value is an empty object.
        client: says what the text may have besides JSON.

    Raises:
        ConfigError: the client cannot read the text.
    """

    def __init__(self, text: str, client: Client) -> None:
        self.text = text if text.strip() else BLANK
        self._client = client
        self._without_comments = self._plain = _blank_comments(self.text) if client.has_comments else self.text
        if client.has_last_commas:
            self._plain = _LAST_COMMA.sub(_blank_comma, self._plain)
        try:
            value = json.loads(self._plain, parse_constant=_refuse_constant)
        except RecursionError:
            raise ConfigError("it is not valid JSON (it has too many levels)") from None
        except ValueError as error:
            raise ConfigError(f"it is not valid JSON ({error})") from error
        start = self._skip(0)
        self._root = Member("", start, start, len(self._plain.rstrip(BLANKS)), None, value)
        starts = [one.start for one in self.list_members()]
        self._newline = "\r\n" if "\r\n" in self.text else "\n"
        self._indent = self._leading_blanks(starts[0]) if starts and self._is_first_in_line(starts[0]) else INDENT
        self._has_lines = "\n" in self.text.strip() or not starts  # what is added to an empty object gets lines

    def find(self, *names: str) -> Member | None:
        """Return what the names lead to; None if a name is missing.

        Raises:
            ConfigError: a value on the way is not an object, or has a name twice.
        """
        if not names:
            return self._root
        return next((one for one in self.list_members(*names[:-1]) if one.name == names[-1]), None)

    def list_members(self, *names: str) -> list[Member]:
        """Return the members of an object; none if a name on the way to it is missing.

        Raises:
            ConfigError: it is not an object, or has a name twice.
        """
        parent = self.find(*names)
        if parent is None:
            return []
        subject = f"its {'.'.join(names)}" if names else "it"
        if not isinstance(parent.value, dict):
            raise ConfigError(f"{subject} is not a JSON object")
        members: list[Member] = []
        decoder = json.JSONDecoder()
        at = self._skip(parent.value_start + 1)
        while self._plain[at] == '"':
            name, colon = decoder.raw_decode(self._plain, at)
            value_start = self._skip(self._skip(colon) + 1)
            value, end = decoder.raw_decode(self._plain, value_start)
            if name in {member.name for member in members}:
                word = json.dumps(name, ensure_ascii=False)
                raise ConfigError(f"{subject} has the name {word} twice: remove one of the two")
            at, start = self._skip(end), at
            comma_end = at + 1 if self._without_comments[at] == "," else None
            members.append(Member(name, start, value_start, end, comma_end, value))
            at = self._skip(comma_end or at)
        return members

    def put(self, value: object, *names: str) -> "JSONText":
        """Return a text in which the names lead to a value. Objects on the way are added.

        A new member is the last one, and follows the comments in its object.

        Raises:
            ConfigError: as for find.
        """
        if old := self.find(*names):
            written = self._render(value, self._leading_blanks(old.value_start))
            return self._splice((old.value_start, old.end, written))
        while self.find(*names[:-1]) is None:
            names, value = names[:-1], {names[-1]: value}
        parent, members = self.find(*names[:-1]) or self._root, self.list_members(*names[:-1])
        at = len(self.text[: parent.end - 1].rstrip(BLANKS))
        outer = self._leading_blanks(parent.value_start)
        inner, has_lines = outer + self._indent, self._has_lines
        if members:
            has_lines = "\n" in self.text[parent.value_start : members[0].start]
            if self._is_first_in_line(members[0].start):
                inner = self._leading_blanks(members[0].start)
        follows_comment = self.text[at - 1] != self._plain[at - 1] and self.text[at - 1] != ","
        before = self._newline + inner if has_lines or follows_comment else " " if members else ""
        after = ""
        if has_lines and not members and "\n" not in self.text[at : parent.end]:
            after = self._newline + outer
        written = self._render(value, inner, has_lines=has_lines)
        member = f"{before}{json.dumps(names[-1], ensure_ascii=False)}: {written}{after}"
        if members and members[-1].comma_end is None:
            return self._splice((members[-1].end, members[-1].end, ","), (at, at, member))
        return self._splice((at, at, member))

    def remove(self, *names: str) -> "JSONText":
        """Return a text without the member that the names lead to. It must be there.

        Raises:
            ConfigError: as for find.
        """
        members = self.list_members(*names[:-1])
        [place] = [place for place, member in enumerate(members) if member.name == names[-1]]
        member = members[place]
        start, end = member.start, member.comma_end or member.end
        line_end = self.text.find("\n", end) + 1
        if line_end and self._is_first_in_line(start) and not self.text[end:line_end].strip():
            start, end = start - len(self._leading_blanks(start)), line_end
        before = members[place - 1].comma_end if place else None
        if before and member.comma_end is None:  # the member before becomes the last one
            return self._splice((before - 1, before, ""), (start, end, ""))
        return self._splice((start, end, ""))

    def _render(self, value: object, indent: str, *, has_lines: bool = True) -> str:
        if not has_lines or not self._has_lines:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self._indent).replace("\n", self._newline + indent)

    def _splice(self, *changes: tuple[int, int, str]) -> "JSONText":
        """Replace parts of the text. The parts are in order and do not overlap."""
        text = self.text
        for start, end, new in reversed(changes):
            text = text[:start] + new + text[end:]
        return JSONText(text, self._client)

    def _skip(self, at: int) -> int:
        """Return the position of what follows the blanks and comments."""
        found = _BLANKS.match(self._without_comments, at)
        return found.end() if found else at

    def _leading_blanks(self, at: int) -> str:
        """Return the indentation of the line with this position."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _is_first_in_line(self, at: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def _blank_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or re.sub(r"[^\r\n]", " ", found[0]), text)


def _blank_comma(found: re.Match[str]) -> str:
    return found[1] or f"{found[2]} "


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
