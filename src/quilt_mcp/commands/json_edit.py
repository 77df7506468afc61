"""Change one member of a JSON text and keep every other character: comments, order, indentation, line ends."""

import json
from collections import Counter

from quilt_mcp.commands.json_text import JSONTextError, Member, Syntax, Value, read_json, skip_comments

BLANK = "{}\n"
INDENT = "  "


class JSONText:
    """A JSON text and what it contains.

    Args:
        text: the text. One without any value is an empty object.
        syntax: what it may contain besides JSON.

    Raises:
        JSONTextError: the text is not valid in this syntax.
    """

    def __init__(self, text: str, syntax: Syntax) -> None:
        self.text = text if text.strip() else BLANK
        self._syntax = syntax
        self._root = read_json(self.text, syntax)
        first = self._root.members[0].start if self._root.members else 0
        self._newline = "\r\n" if "\r\n" in self.text else "\n"
        self._indent = self._leading_blanks(first) if first and self._is_first_in_line(first) else INDENT
        self._has_lines = "\n" in self.text.strip() or not self._root.members

    def find(self, *names: str) -> Value | None:
        """Return the value that the names lead to; None if a name is missing.

        Raises:
            JSONTextError: a value on the way is not an object, or has a name twice.
        """
        member: Member | None = None
        value = self._root
        for place, name in enumerate(names):
            member = next((one for one in read_members(value, names[:place]) if one.name == name), None)
            if member is None:
                return None
            value = member.value
        return value

    def cut(self, value: Value) -> str:
        """Return the text of a value."""
        return self.text[value.start : value.end]

    def put(self, value: object, *names: str) -> "JSONText":
        """Return a text in which the names lead to a value. Objects on the way are added.

        Raises:
            JSONTextError: as for find.
        """
        old = self.find(*names)
        if old:
            return self._splice((old.start, old.end, self._render(value, self._leading_blanks(old.start))))
        return self._with_parents(*names).insert_member(names, value)

    def put_text(self, text: str, *names: str) -> "JSONText":
        """Return a text in which the names lead to a value that is already written as JSON. It must not be there yet.

        Raises:
            JSONTextError: as for find.
        """
        return self._with_parents(*names).insert_member(names, None, text)

    def remove(self, *names: str) -> "JSONText":
        """Return a text without the member that the names lead to. It must be there.

        Raises:
            JSONTextError: as for find.
        """
        parent = self.find(*names[:-1])
        members = parent.members if parent else ()
        [place] = [place for place, member in enumerate(members) if member.name == names[-1]]
        member = members[place]
        start, end = member.start, member.end
        line_end = self.text.find("\n", end) + 1
        if line_end and self._is_first_in_line(start) and not self.text[end:line_end].strip():
            start, end = start - len(self._leading_blanks(start)), line_end
        before = members[place - 1].comma_end if place else None
        if before and member.comma_end is None:  # the member before becomes the last one
            return self._splice((before - 1, before, ""), (start, end, ""))
        return self._splice((start, end, ""))

    def _with_parents(self, *names: str) -> "JSONText":
        text = self
        for place in range(1, len(names)):
            if text.find(*names[:place]) is None:
                text = text.insert_member(names[:place], {})
        return text

    def insert_member(self, names: tuple[str, ...], value: object, written: str | None = None) -> "JSONText":
        """Return a text with a new last member, which follows the comments in its object. The object must be there.

        Args:
            names: what leads to the member.
            value: its value.
            written: its value, if that is already written as JSON.

        Raises:
            JSONTextError: as for find.
        """
        parent = self.find(*names[:-1]) or self._root
        members = read_members(parent, names[:-1])
        last = members[-1] if members else None
        start = last.end if last else parent.start + 1
        at = skip_comments(self.text, start)
        follows_comment = "//" in self.text[start:at].rpartition("\n")[2]
        outer = self._leading_blanks(parent.start)
        has_lines = self._has_lines if last is None else "\n" in self.text[parent.start : members[0].start]
        inner = outer + self._indent
        if last and self._is_first_in_line(members[0].start):
            inner = self._leading_blanks(members[0].start)
        before, after = (" " if last else ""), ""
        if has_lines or follows_comment:
            before = self._newline + inner
        if has_lines and last is None and "\n" not in self.text[at : parent.end]:
            after = self._newline + outer
        written = self._render(value, inner, has_lines=has_lines) if written is None else written
        member = f"{before}{json.dumps(names[-1], ensure_ascii=False)}: {written}{after}"
        if last and last.comma_end is None:
            return self._splice((last.value.end, last.value.end, ","), (at, at, member))
        return self._splice((at, at, member))

    def _render(self, value: object, indent: str, *, has_lines: bool = True) -> str:
        if not has_lines or not self._has_lines:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self._indent).replace("\n", self._newline + indent)

    def _splice(self, *changes: tuple[int, int, str]) -> "JSONText":
        """Replace parts of the text. The parts are in order and do not overlap."""
        parts, at = [], 0
        for start, end, text in changes:
            parts += [self.text[at:start], text]
            at = end
        return JSONText("".join(parts) + self.text[at:], self._syntax)

    def _leading_blanks(self, at: int) -> str:
        """Return the indentation of the line with this position."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _is_first_in_line(self, at: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def read_members(value: Value, names: tuple[str, ...] = ()) -> tuple[Member, ...]:
    """Return the members of an object.

    Args:
        value: the object.
        names: what leads to it, for the error.

    Raises:
        JSONTextError: the value is not an object, or has a name twice.
    """
    subject = f"its {'.'.join(names)}" if names else "it"
    if not isinstance(value.data, dict):
        raise JSONTextError(f"{subject} is not a JSON object")
    [(twice, times)] = Counter(member.name for member in value.members).most_common(1) or [("", 0)]
    if times > 1:
        raise JSONTextError(
            f"{subject} has the name {json.dumps(twice, ensure_ascii=False)} twice: remove one of the two"
        )
    return value.members
