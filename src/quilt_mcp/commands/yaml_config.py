"""The YAML text of a client's configuration, of which one entry is changed. The rest stays byte for byte.

PyYAML says where the entry is, and judges the result: it must have the values of before, and the entry.
"""

import copy
import re
from itertools import takewhile
from typing import Self

import yaml

from quilt_mcp.commands.clients import ConfigError, Values
from quilt_mcp.commands.json_config import Member

BY_HAND = "it has a form that this command does not change: add the lines that it prints without --write by hand"
INDENT = 2


class YAMLText:
    """A text. Names lead to a mapping (`extensions`), an entry in it, and what the entry has.

    Args:
        text: the text.

    Attributes:
        values: what it contains.

    Raises:
        ConfigError: the text is not one mapping in YAML.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.values = yaml.safe_load(text)
            self._root = yaml.compose(text, yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            where = getattr(error, "problem_mark", None)
            line = f" (line {where.line + 1})" if where else ""
            raise ConfigError(f"it is not valid YAML{line}") from error
        self.values = {} if self.values is None else self.values
        if not isinstance(self.values, dict):
            raise ConfigError("it is not a mapping")

    def find(self, *names: str) -> Member | None:
        """Return what the names lead to; None if a name is missing.

        Raises:
            ConfigError: a value on the way is not a mapping.
        """
        value: object = self.values
        for place, name in enumerate(names):
            if value is None:
                return None
            if not isinstance(value, dict):
                raise ConfigError(f"its {'.'.join(names[:place])} is not a mapping")
            if name not in value:
                return None
            value = value[name]
        return Member(names[-1] if names else "", value)

    def list_members(self, *names: str) -> list[Member]:
        """Return the members of a mapping; none if it is missing or null.

        Raises:
            ConfigError: it is not a mapping.
        """
        found = self.find(*names)
        if found is None or found.value is None:
            return []
        if not isinstance(found.value, dict):
            raise ConfigError(f"its {'.'.join(names)} is not a mapping")
        return [Member(name, value) for name, value in found.value.items()]

    def put(self, value: object, *names: str) -> Self:
        """Return a text in which the names lead to a value. The whole entry is written, without comments in it.

        Raises:
            ConfigError: as for find, or the text has a form that is not changed.
        """
        expected = copy.deepcopy(self.values)
        inner = expected
        for name in names[:-1]:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[names[-1]] = value
        parent, name = names[:2]
        lines = self.text.splitlines(keepends=True)
        mapping = self._locate(parent)
        block = self._locate(parent, name)
        if block:
            column, start, end = block
            lines[start:end] = self._render(expected[parent][name], name, column)
        elif mapping and self.values[parent]:
            column, start, _ = self._locate(parent, next(iter(self.values[parent]))) or mapping
            lines[start:start] = self._render(expected[parent][name], name, column)
        else:
            if mapping:  # null or an empty flow mapping
                lines[mapping[1] : mapping[2]] = []
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += self._newline
            at = mapping[1] if mapping else len(lines)
            lines[at:at] = [f"{parent}:{self._newline}", *self._render(expected[parent][name], name, INDENT)]
        return self._check("".join(lines), expected)

    def is_with(self, other: Self, *names: str) -> bool:
        """Return whether this text is another one with what the names lead to."""
        found = self.find(*names)
        return found is not None and not other.find(*names) and other.put(found.value, *names).text == self.text

    def remove(self, *names: str) -> Self:
        """Return a text without the entry that the names lead to. It must be there.

        Raises:
            ConfigError: the text has a form that is not changed.
        """
        parent, name = names
        expected = copy.deepcopy(self.values)
        del expected[parent][name]
        place = self._locate(parent, name)
        if place is None:
            raise ConfigError(BY_HAND)
        lines = self.text.splitlines(keepends=True)
        del lines[place[1] : place[2]]
        if not expected[parent]:
            expected[parent] = None
        return self._check("".join(lines), expected)

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _locate(self, *names: str) -> tuple[int, int, int] | None:
        """Return the column of a key, its first line, and the line after its value; None if a name is missing.

        Raises:
            ConfigError: a mapping on the way is in flow style, or has a name twice.
        """
        node, key = self._root, None
        for name in names:
            if not isinstance(node, yaml.MappingNode):
                return None
            if node.flow_style and node.value and key is not None:
                raise ConfigError(BY_HAND)
            found = [pair for pair in node.value if pair[0].value == name]
            if len(found) > 1:
                raise ConfigError(f"it has the name {name} twice: remove one of the two")
            if not found:
                return None
            [(key, node)] = found
        if key is None:
            return None
        start = key.start_mark.line
        content = self.text[: max(node.end_mark.index, key.end_mark.index + 1)].rstrip()  # what follows is indentation
        end = content.count("\n") + 1
        lines = content.splitlines()[start:]
        rest = lambda line: not line.strip() or line.lstrip().startswith("#")  # noqa: E731 - one use, and short
        return key.start_mark.column, start, end - len(list(takewhile(rest, reversed(lines[1:]))))

    def _render(self, entry: object, name: str, column: int) -> list[str]:
        text = yaml.safe_dump({name: entry}, sort_keys=False, allow_unicode=True, width=1 << 20)
        return [" " * column + line + self._newline for line in text.splitlines()]

    def _check(self, text: str, expected: Values) -> Self:
        changed = type(self)(text)
        if changed.values != expected:
            raise ConfigError(BY_HAND)
        return changed


def render_yaml(value: object) -> list[str]:
    """Return the lines of a value, as a client's file has them."""
    return re.split(r"\n", yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip("\n"))
