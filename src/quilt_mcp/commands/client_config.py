"""The configuration of an MCP client: its entry for this server is added, changed or removed, and the rest is kept."""

import ntpath
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol, Self, cast

from quilt_mcp.commands.clients import Client, ConfigError, Entry, render_json
from quilt_mcp.commands.json_config import JSONText, Member
from quilt_mcp.commands.toml_config import TOMLText, render_toml
from quilt_mcp.commands.yaml_config import YAMLText, render_yaml

COMMAND = "quilt-mcp"
SERVER_NAME = "quilt"
BYTE_ORDER_MARK = "\ufeff"
ADDRESSES = {"url", "serverUrl", "httpUrl", "uri"}
"""The names that the clients have for the address of a server that they do not start."""
STARTED = ("stdio", "local")
"""The types of a server that the client starts."""


class Text(Protocol):
    """The text of a file, in one of the languages."""

    @property
    def text(self) -> str: ...

    def find(self, *names: str) -> Member | None: ...

    def list_members(self, *names: str) -> list[Member]: ...

    def put(self, value: object, *names: str) -> Self: ...

    def remove(self, *names: str) -> Self: ...

    def is_with(self, other: Self, *names: str) -> bool: ...


def parse_text(text: str, client: Client) -> Text:
    """Read a text in the client's language.

    Raises:
        ConfigError: the client cannot read the text.
    """
    match client.language:
        case "toml":
            return TOMLText(text)
        case "yaml":
            return YAMLText(text)
    return JSONText(text, client)


def render(client: Client, form: Mapping[str, object]) -> list[str]:
    """Return the lines of a client's file that has only this entry."""
    lines = {"json": render_json, "toml": render_toml, "yaml": render_yaml}[client.language]
    return lines({client.servers: {SERVER_NAME: dict(form)}})


class ConfigText:
    """The text of a client's configuration.

    Args:
        text: the text, with its byte order mark. A new or empty file has none.
        client: the client that reads the configuration.
        command: the command that entries of this server have.

    Attributes:
        entry: the entry for this server, in the client's form; None if there is none.
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
        self._parse = partial(parse_text, client=client)
        self._text = self._parse(body)
        self.entry = self._read_entry()
        self.environment = self._read_environment()

    def add(self, entry: Entry) -> str:
        """Return the text with an entry. An entry that is there keeps its variables and everything else it has.

        Raises:
            ConfigError: the new entry cannot be encoded.
        """
        wanted, text = self._client.describe(entry), self._text
        if self.entry is None:
            text = text.put({**self._client.extra, **wanted}, *self._place)
        else:
            variables = cast("Mapping[str, str]", wanted.pop(self._client.environment, {}))
            for name, value in ({**self._client.extra, **self.entry} | wanted).items():
                if name not in self.entry or self.entry[name] != value:
                    text = text.put(value, *self._place, name)
            for name, variable in variables.items():
                if self.environment.get(name) != variable:
                    text = text.put(variable, *self._place, self._client.environment, name)
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
        return self._mark + self._text.remove(*self._place).text

    def _is_made_from(self, text: str) -> bool:
        """Return whether this text is another one with the entry."""
        body = text.removeprefix(BYTE_ORDER_MARK)
        if body.strip() and (body != text) != bool(self._mark):  # one has a byte order mark
            return False
        try:
            return self._text.is_with(self._parse(body), *self._place)
        except ConfigError:  # an earlier text that was not valid
            return False

    def _read_entry(self) -> dict[str, object] | None:
        if self._text.find(*self._place) is None:
            return None
        entry = {member.name: member.value for member in self._text.list_members(*self._place)}
        words = self._client.read_words(entry) or [""]
        name = ntpath.basename(words[0]).lower().removesuffix(".exe")
        is_ours = (words[0] == self._command or name == COMMAND) and words[1:2] == ["serve"]
        if not (is_ours and entry.get("type", STARTED[0]) in STARTED and entry.keys().isdisjoint(ADDRESSES)):
            place = ".".join(self._place)
            raise ConfigError(f"its {place} is another server: rename or remove it, then run this command again")
        return entry

    def _read_environment(self) -> dict[str, str]:
        place = (*self._place, self._client.environment)
        variables = {}
        for member in self._text.list_members(*place) if self._text.find(*place) else ():
            if not isinstance(member.value, str):
                where = ".".join((*place, member.name))
                raise ConfigError(f"its {where} is not a string: put the value in double quotes")
            variables[member.name] = member.value
        return variables
