"""The TOML text of a client's configuration, of which one table is changed. The library keeps comments and order."""

import re
import tomllib
from collections.abc import MutableMapping
from typing import Self, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from quilt_mcp.commands.clients import ConfigError, Values
from quilt_mcp.commands.json_config import Member

BY_HAND = "it has a form that this command does not change: add the lines that it prints without --write by hand"

Table = MutableMapping[str, object]


class TOMLText:
    """A text.

    Args:
        text: the text.

    Attributes:
        values: what it contains.

    Raises:
        ConfigError: the text is not TOML.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.values = tomllib.loads(text.replace("\r\n", "\n"))
            self._document = tomlkit.parse(text)
        except RecursionError:
            raise ConfigError("it is not valid TOML (it has too many levels)") from None
        except (tomllib.TOMLDecodeError, TOMLKitError) as error:
            raise ConfigError(f"it is not valid TOML ({error})") from error

    def find(self, *names: str) -> Member | None:
        """Return what the names lead to; None if a name is missing.

        Raises:
            ConfigError: a value on the way is not a table.
        """
        value: object = self.values
        for place, name in enumerate(names):
            if not isinstance(value, dict):
                raise ConfigError(f"its {'.'.join(names[:place])} is not a table")
            if name not in value:
                return None
            value = value[name]
        return Member(names[-1] if names else "", value)

    def list_members(self, *names: str) -> list[Member]:
        """Return the members of a table; none if it is missing.

        Raises:
            ConfigError: it is not a table.
        """
        found = self.find(*names)
        if found is None:
            return []
        if not isinstance(found.value, dict):
            raise ConfigError(f"its {'.'.join(names)} is not a table")
        return [Member(name, value) for name, value in found.value.items()]

    def put(self, value: object, *names: str) -> Self:
        """Return a text in which the names lead to a value. Tables on the way are added.

        Raises:
            ConfigError: as for find, or the library does not change the text as intended.
        """
        document = tomlkit.parse(self.text)
        table: Table = document
        for place, name in enumerate(names[:-1]):
            if name not in table:
                table[name] = tomlkit.table(is_super_table=place == 0)
            below = table[name]
            if not isinstance(below, MutableMapping):
                raise ConfigError(f"its {'.'.join(names[: place + 1])} is not a table")
            table = below
        table[names[-1]] = value
        expected = tomllib.loads(self.text.replace("\r\n", "\n"))
        inner = expected
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
        inner[names[-1]] = value
        return self._check(tomlkit.dumps(document), expected)

    def is_with(self, other: Self, *names: str) -> bool:
        """Return whether this text is another one with what the names lead to."""
        found = self.find(*names)
        return found is not None and not other.find(*names) and other.put(found.value, *names).text == self.text

    def remove(self, *names: str) -> Self:
        """Return a text without what the names lead to. It must be there.

        Raises:
            ConfigError: the library does not change the text as intended.
        """
        document = tomlkit.parse(self.text)
        tables: list[Table] = [document]
        for name in names[:-1]:
            tables.append(cast("Table", tables[-1][name]))
        del tables[-1][names[-1]]
        expected = tomllib.loads(self.text.replace("\r\n", "\n"))
        inner = [expected]
        for name in names[:-1]:
            inner.append(inner[-1][name])
        del inner[-1][names[-1]]
        if not inner[-1]:  # an empty table has no line of its own
            del tables[-2][names[-2]]
            del inner[-2][names[-2]]
        return self._check(tomlkit.dumps(document), expected)

    def _check(self, text: str, expected: Values) -> Self:
        if "\r\n" in self.text:
            text = re.sub(r"(?<!\r)\n", "\r\n", text)
        changed = type(self)(text)
        if changed.values != expected:
            raise ConfigError(BY_HAND)
        return changed


def render_toml(value: dict[str, dict[str, object]]) -> list[str]:
    """Return the lines of a value, as a client's file has them."""
    text = TOMLText("")
    for name, members in value.items():
        for key, member in members.items():
            text = text.put(member, name, key)
    return text.text.splitlines()
