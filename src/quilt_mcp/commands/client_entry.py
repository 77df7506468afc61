"""The entry for this server in the text of a client's configuration: find, add, change and remove it."""

import ntpath
from collections.abc import Iterable, Mapping
from typing import NotRequired, TypedDict, cast

from quilt_mcp.commands.client_file import ConfigError
from quilt_mcp.commands.clients import Client
from quilt_mcp.commands.json_edit import JSONText, read_members
from quilt_mcp.commands.json_text import JSONTextError, Value

COMMAND = "quilt-mcp"
SERVER_NAME = "quilt"
BYTE_ORDER_MARK = "\ufeff"
ADDRESSES = {"url", "serverUrl", "httpUrl"}
"""The names that the clients have for the address of a server that they do not start."""


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
        self._mark = BYTE_ORDER_MARK if body.strip() and body != text else ""
        self._client = client
        self._command = command
        self._place = (client.servers, SERVER_NAME)
        try:
            self._json = JSONText(body, client.syntax)
        except JSONTextError as error:
            raise ConfigError(f"it is not valid JSON ({error})") from error
        try:
            value = self._json.find(*self._place)
            self.entry = self._read_entry(value) if value else None
            self.environment = self._read_environment()
        except JSONTextError as error:
            raise ConfigError(str(error)) from error

    def add(self, entry: Entry) -> str:
        """Return the text with an entry. An entry that is there keeps its variables and everything else it has.

        Raises:
            ConfigError: the new entry cannot be encoded.
        """
        text = self._mark + self._put(entry).text
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError("the entry contains bytes that are not UTF-8") from error
        return text

    def remove(self, copies: Iterable[str]) -> str | None:
        """Return the text without the entry.

        Args:
            copies: earlier texts. If one differs from this text only by the entry, it is the result.

        Returns:
            The text; None if this is the text of a new file with the entry.
        """
        value = self._json.find(*self._place)
        entry = self._json.cut(value) if value else ""
        for copy in copies:
            if self._is_made_from(copy, entry):
                return copy
        if self._is_made_from("", entry):
            return None
        return self._mark + self._json.remove(*self._place).text

    def _put(self, entry: Entry) -> JSONText:
        wanted: dict[str, object] = {**self._client.extra, **entry}
        if self.entry is None:
            return self._json.put(wanted, *self._place)
        text = self._json
        variables = cast("Mapping[str, str]", wanted.pop("env", {}))
        for name, value in wanted.items():
            if self.entry.get(name) != value:
                text = text.put(value, *self._place, name)
        for name, variable in variables.items():
            if self.environment.get(name) != variable:
                text = text.put(variable, *self._place, "env", name)
        return text

    def _is_made_from(self, text: str, entry: str) -> bool:
        """Return whether this text is another one with the entry."""
        body = text.removeprefix(BYTE_ORDER_MARK)
        if body.strip() and (body != text) != bool(self._mark):  # one has a byte order mark
            return False
        try:
            other = JSONText(body, self._client.syntax)
            return other.find(*self._place) is None and other.put_text(entry, *self._place).text == self._json.text
        except JSONTextError:  # an earlier text that was not valid
            return False

    def _read_entry(self, value: Value) -> dict[str, object]:
        entry = {member.name: member.value.data for member in read_members(value, self._place)}
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
        value = self._json.find(*place)
        members = read_members(value, place) if value else ()
        environment = {}
        for member in members:
            if not isinstance(member.value.data, str):
                raise ConfigError(
                    f"its {'.'.join(place)}.{member.name} is not a string: put the value in double quotes"
                )
            environment[member.name] = member.value.data
        return environment
