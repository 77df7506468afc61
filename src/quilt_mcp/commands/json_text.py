"""Read JSON with the position of each value, so that a value can be replaced in the text.

The syntax is that of RFC 8259. Some clients also accept comments, or a comma after the last member or element.
"""

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

MAX_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*+")
_COMMENT = re.compile(r"//[^\r\n]*+|/\*[\s\S]*?\*/")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_WORDS = {"true": True, "false": False, "null": None}


class JSONTextError(Exception):
    """A text is not valid JSON, or does not have the form that a change needs."""


class Syntax(NamedTuple):
    """What a client accepts besides JSON."""

    comments: bool = False
    trailing_commas: bool = False


@dataclass(frozen=True)
class Value:
    """A value: where it is in the text, and what it is."""

    start: int
    end: int
    data: object
    members: "tuple[Member, ...]" = ()


@dataclass(frozen=True)
class Member:
    """A member of an object: where its name starts, and where the comma after it ends, if there is one."""

    name: str
    start: int
    value: Value
    comma_end: int | None

    @property
    def end(self) -> int:
        """The position after the member, and after its comma."""
        return self.comma_end or self.value.end


def read_json(text: str, syntax: Syntax) -> Value:
    """Read a text that contains one value.

    Raises:
        JSONTextError: the text is not valid in this syntax, or has more than 100 levels.
    """
    return _Reader(text, syntax).read()


def skip_comments(text: str, at: int) -> int:
    """Return the position after the last comment of those that follow; `at` if there is none."""
    while comment := _COMMENT.match(text, _skip_space(text, at)):
        at = comment.end()
    return at


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class _Reader:
    def __init__(self, text: str, syntax: Syntax) -> None:
        self._text = text
        self._syntax = syntax
        self._at = 0

    def read(self) -> Value:
        self._skip()
        value = self._read_value(1)
        self._skip()
        if self._at < len(self._text):
            raise self._expected("the end of the file")
        return value

    def _skip(self) -> None:
        self._at = _skip_space(self._text, self._at)
        if self._text.startswith(("//", "/*"), self._at):
            if not self._syntax.comments:
                raise self._expected("no comment, because this client accepts none")
            self._at = _skip_space(self._text, skip_comments(self._text, self._at))

    def _read_value(self, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise JSONTextError(f"it has more than {MAX_DEPTH} levels")
        start, following = self._at, self._text[self._at : self._at + 1]
        if following == "{":
            members = self._read_members(depth)
            return Value(start, self._at, {member.name: member.value.data for member in members}, members)
        if following == "[":
            elements = self._read_elements(depth)
            return Value(start, self._at, elements)
        if following == '"':
            data: object = self._read_string()
        else:
            data = self._read_word()
        return Value(start, self._at, data)

    def _read_members(self, depth: int) -> tuple[Member, ...]:
        members: list[Member] = []
        self._at += 1
        while not self._ends("}", after_comma=bool(members) and members[-1].comma_end is not None):
            if members and members[-1].comma_end is None:
                raise self._expected('"," or "}"')
            start = self._at
            if not self._text.startswith('"', start):
                raise self._expected("a name in double quotes")
            name = self._read_string()
            self._skip()
            if not self._take(":"):
                raise self._expected('":"')
            self._skip()
            value = self._read_value(depth + 1)
            self._skip()
            members.append(Member(name, start, value, self._at if self._take(",") else None))
        return tuple(members)

    def _read_elements(self, depth: int) -> list[object]:
        elements: list[object] = []
        self._at += 1
        has_comma = False
        while not self._ends("]", after_comma=has_comma):
            if elements and not has_comma:
                raise self._expected('"," or "]"')
            elements.append(self._read_value(depth + 1).data)
            self._skip()
            has_comma = self._take(",")
        return elements

    def _ends(self, bracket: str, *, after_comma: bool) -> bool:
        """Take the closing bracket, if it follows."""
        self._skip()
        if self._text.startswith(bracket, self._at) and after_comma and not self._syntax.trailing_commas:
            raise self._expected("no comma before it, because this client accepts none")
        return self._take(bracket)

    def _take(self, character: str) -> bool:
        is_there = self._text.startswith(character, self._at)
        self._at += is_there
        return is_there

    def _read_string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            raise self._expected("a string that is valid in JSON")
        self._at = found.end()
        text: str = json.loads(found.group())
        return text

    def _read_word(self) -> object:
        for word, data in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return data
        found = _NUMBER.match(self._text, self._at)
        if not found:
            raise self._expected("a value")
        self._at = found.end()
        text = found.group()
        return int(text) if _INTEGER.fullmatch(text) else float(text)

    def _expected(self, what: str) -> JSONTextError:
        before = self._text[: self._at]
        line, column = before.count("\n") + 1, self._at - before.rfind("\n")
        return JSONTextError(f"line {line}, column {column}: expected {what}")
