"""The JSON text of a client's configuration, of which one member is changed. The rest stays byte for byte.

Comments and commas that JSON does not have are read as blanks. So Python's parser judges the text, and its positions
are those of the file.
"""

import json
import re
from typing import NamedTuple, Self

from quilt_mcp.commands.clients import Client, ConfigError

BLANK = "{}\n"
BLANKS = " \t\r\n"
INDENT = "  "
_BLANKS = re.compile(rf"[{BLANKS}]*")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|(?<![\s{\[,])(\s*),(?=\s*[}\]])')


class Member(NamedTuple):
    """A member of an object, and in JSON the positions of its name, of its value, and after both and their comma."""

    name: str
    value: object
    start: int = 0
    value_start: int = 0
    end: int = 0
    comma_end: int | None = None


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
        self._root = Member("", value, start, start, len(self._plain.rstrip(BLANKS)))
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
        if parent is None or (names and parent.value is None):  # null stands for nothing
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
            members.append(Member(name, value, start, value_start, end, comma_end))
            at = self._skip(comma_end or at)
        return members

    def put(self, value: object, *names: str) -> Self:
        """Return a text in which the names lead to a value. Objects on the way are added.

        A new member is the last one, and follows the comments in its object.

        Raises:
            ConfigError: as for find.
        """
        if old := self.find(*names):
            written = self._render(value, self._leading_blanks(old.value_start))
            return self._splice((old.value_start, old.end, written))
        while len(names) > 1 and ((above := self.find(*names[:-1])) is None or above.value is None):
            names, value = names[:-1], {names[-1]: value}
        if self.find(*names):
            return self.put(value, *names)
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

    def is_with(self, other: Self, *names: str) -> bool:
        """Return whether this text is another one with the member. The member itself can have been changed."""
        return not other.find(*names) and other.put("", *names).text == self.put("", *names).text

    def remove(self, *names: str) -> Self:
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

    def _splice(self, *changes: tuple[int, int, str]) -> Self:
        """Replace parts of the text. The parts are in order and do not overlap."""
        text = self.text
        for start, end, new in reversed(changes):
            text = text[:start] + new + text[end:]
        return type(self)(text, self._client)

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
