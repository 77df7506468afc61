"""The XML of ReqIF: its elements, one at a time so that the memory stays small; its texts; and our types.

Document types are refused where they start: no entity is ever defined, expanded or fetched.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from quilt_mcp.requirements.model import ENDS, FIELDS, PARENTS, RECORDS
from quilt_mcp.requirements.transfer.records import Rejection, shorten

_CHUNK = 65_536
MOST_TAG_BYTES = 1_000_000
"""Maximum length of a tag with its attributes, as of a line in the other formats."""
MOST_CHARACTERS = 1_000_000
"""Maximum number of characters of the texts and attributes of an element that is read as a whole."""
_ELEMENT = 40
"""The number of characters that an element in it counts at least, because empty elements take memory too."""
MOST_LEVELS = 200
_NOT_READ = "The rest of the file was not read."
_TRUNCATED = {
    expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
    expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION],
}


class UnreadableXML(Exception):
    """The rest of the file cannot be read."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.rejection = Rejection(line, None, f"{reason} {_NOT_READ}")


@dataclass(slots=True)
class Element:
    """An element without the namespaces of its name and attributes."""

    name: str
    attributes: dict[str, str]
    line: int
    content: list["Element | str"] = field(default_factory=list)

    @property
    def elements(self) -> Iterator["Element"]:
        return (one for one in self.content if isinstance(one, Element))

    def find(self, name: str) -> "Element | None":
        return next((one for one in self.elements if one.name == name), None)

    def inside(self, name: str) -> Iterator["Element"]:
        """Return the elements in the first element of this name."""
        found = self.find(name)
        return found.elements if found else iter(())

    def refer(self, name: str) -> str:
        """Return the text of the reference in the first element of this name; empty if there is none."""
        return next((one.text() for one in self.inside(name)), "")

    def text(self) -> str:
        return "".join(one for one in self.content if isinstance(one, str)).strip()


Opened = Callable[[tuple[str, ...], Element], bool]
Closed = Callable[[tuple[str, ...], Element], None]


def read_elements(file: BinaryIO, opened: Opened, closed: Closed) -> Iterator[int]:
    """Read a file. Yield the number of bytes of each part that was read.

    Args:
        file: in XML.
        opened: called with the names of the elements around an element and the element, when it starts. Returns whether
            the element is read as a whole.
        closed: called with the same names and the element, when it ends. Its content is empty unless it was read.
    """
    reading = _Reading(opened, closed)
    done = 0
    while chunk := file.read(_CHUNK):
        if not done and chunk.startswith(b"PK\x03\x04"):
            raise UnreadableXML(1, "The file is a ZIP archive, such as .reqifz. Unpack it and import its .reqif file.")
        done += len(chunk)
        reading.feed(chunk, done)
        yield len(chunk)
    reading.feed(b"", done, is_last=True)


class _Reading:
    """Builds elements from the events of expat."""

    def __init__(self, opened: Opened, closed: Closed) -> None:
        self._opened, self._closed = opened, closed
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse_document_type
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        self._open: list[Element] = []  # outside of elements that are read as a whole
        self._names: tuple[str, ...] = ()
        self._inner: list[Element] = []
        self._characters = 0

    def feed(self, chunk: bytes, done: int, *, is_last: bool = False) -> None:
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            raise UnreadableXML(error.lineno, _explain(error)) from None
        except (ValueError, LookupError):  # of an encoding that Python does not have, or has for text only
            raise UnreadableXML(1, "The encoding of the file is not supported. Save it in UTF-8.") from None
        if done - self._parser.CurrentByteIndex > MOST_TAG_BYTES:
            line = self._parser.CurrentLineNumber
            raise UnreadableXML(line, f"A tag or a comment has more than {MOST_TAG_BYTES:,} bytes. Shorten it.")

    def _refuse_document_type(self, *_: object) -> None:
        line = self._parser.CurrentLineNumber
        raise UnreadableXML(line, "Document types and entities are not allowed. Remove the line <!DOCTYPE …>.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        values = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        element = Element(local, values, self._parser.CurrentLineNumber)
        if len(self._open) + len(self._inner) >= MOST_LEVELS:
            raise UnreadableXML(element.line, f"Elements are nested more than {MOST_LEVELS} levels deep. Flatten them.")
        if self._inner:
            self._count(max(len(name), _ELEMENT) + sum(map(len, (*attributes, *attributes.values()))))
            self._inner[-1].content.append(element)
            self._inner.append(element)
        elif self._opened(self._names, element):
            self._characters = 0
            self._count(sum(map(len, attributes.values())))
            self._inner.append(element)
        else:
            self._open.append(element)
            self._names = (*self._names, local)

    def _end(self, _: str) -> None:
        if self._inner:
            element = self._inner.pop()
            if not self._inner:
                self._closed(self._names, element)
        else:
            element = self._open.pop()
            self._names = self._names[:-1]
            self._closed(self._names, element)

    def _add_text(self, text: str) -> None:
        if self._inner:
            self._count(len(text))
            self._inner[-1].content.append(text)

    def _count(self, characters: int) -> None:
        self._characters += characters
        if self._characters > MOST_CHARACTERS:
            line = self._parser.CurrentLineNumber
            raise UnreadableXML(line, f"An element has more than {MOST_CHARACTERS:,} characters. Shorten its texts.")


def _explain(error: expat.ExpatError) -> str:
    if error.code in _TRUNCATED:
        return "The file ends in the middle of an element: it seems to be truncated. Save it again."
    reason = shorten(expat.ErrorString(error.code))
    return f"The file is not valid XML at column {error.offset + 1}: {reason}. Correct it, or save the file again."


# XML 1.0 has no way to write these characters
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
# otherwise a parser changes them to spaces or line feeds; the last two are line ends in XML 1.1
_ENTITIES = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", "\x85": "&#133;", "\u2028": "&#8232;"}
_PARAGRAPHS = {"p", "div", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6"}
_ITEMS = {"li": "- ", "dd": "  "}
_NUMBER = "number of the item"  # no attribute of XHTML
_MARKS = {**_ITEMS, "br": "\n", "sup": "^", "sub": "_"}
_BLOCKS = {"ul", "ol", "dl", "table", "tr", "hr", *_ITEMS, *_PARAGRAPHS}
_CELLS = {"td", "th"}
_STARTS = re.compile(r"\t|- |  |-?\d+\. ")
"""After one of these, at the start of an item or between two cells, a paragraph begins on the same line."""
_EMBEDDED = {"object": "data", "img": "src"}
_DECORATED = re.compile(r"(?:^|;)\s*text-decoration(?:-line)?\s*:([^;]*)", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
STRUCK = "deleted or struck-through text"
_SPACES = re.compile(r"[ \t\r\n]+")


def quote(text: object) -> str:
    """Return a text as the value of an XML attribute, with its quotation marks. An XML parser returns the same text."""
    return quoteattr(replace(str(text)), _ENTITIES)


def replace(text: str) -> str:
    """Return a text without the characters that XML does not allow."""
    return _NOT_IN_XML.sub(_REPLACEMENT, text)


def pack(fields: Mapping[str, object]) -> str | None:
    """Return the texts that XML cannot contain, as JSON; None if there are none."""
    special = {name: text for name, text in fields.items() if isinstance(text, str) and _NOT_IN_XML.search(text)}
    return json.dumps(special) if special else None


def unpack(fields: dict[str, object], packed: str) -> None:
    """Restore the texts that XML cannot contain, unless somebody has changed them since."""
    special = json.loads(packed)
    if not isinstance(special, dict):
        raise TypeError("not an object")
    for name, text in special.items():
        if isinstance(text, str) and fields.get(name) == replace(text):
            fields[name] = text


def read_xhtml(element: Element, skipped: Counter[str]) -> str:
    """Return the text of XHTML. Blocks are separated by line breaks.

    Embedded objects are skipped, and what readers of the document do not take for its text: it is deleted, struck
    through or hidden.
    """
    parts: list[str] = []
    _collect(element, parts, skipped, is_literal=False)
    lines = "".join(parts).split("\n")
    return trim(re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)))


def trim(text: str) -> str:
    """Return a text without the spaces around it. Tabs before its first character stay: they follow empty cells."""
    stripped = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    return before[len(before.rstrip("\t")) :] + stripped if stripped else ""


def _collect(element: Element, parts: list[str], skipped: Counter[str], *, is_literal: bool) -> None:
    name, start = element.name.lower(), len(parts)
    if reason := _find_reason_to_skip(element):
        skipped[reason] += 1
        _separate(element, parts)
        return
    _note_object(element, skipped)
    _number_items(element)
    if name in _BLOCKS and not (name in _PARAGRAPHS and parts and _STARTS.fullmatch(parts[-1])):
        _break_line(parts)
    if mark := element.attributes.get(_NUMBER, _MARKS.get(name)):
        parts.append(mark)
    for one in element.content:
        if isinstance(one, Element):
            _collect(one, parts, skipped, is_literal=is_literal or name == "pre")
        elif text := one if is_literal or name == "pre" else _join(parts, one):
            parts.append(text)  # no part is empty, so that the last one is the end of the text
    if name == "a" and (address := element.attributes.get("href", "")) not in "".join(parts[start:]):
        parts.append(f" ({address})")
    if name in _CELLS:  # the next one is on the line of the last paragraph
        is_broken = parts[max(start, len(parts) - 1) :] == ["\n"]
        parts[len(parts) - is_broken :] = ["\t"]
    if name in _BLOCKS:
        _break_line(parts)


def _find_reason_to_skip(element: Element) -> str | None:
    """Return why readers of the document do not take a text for a part of it; None if they do."""
    name, style = element.name.lower(), element.attributes.get("style", "")
    decorations = _DECORATED.findall(style)
    is_struck = "line-through" in decorations[-1].lower() if decorations else name in {"s", "strike"}
    reason = "hidden text" if _HIDDEN.search(style) else STRUCK if is_struck or name == "del" else None
    return reason if reason and _has_text(element) else None


def _separate(element: Element, parts: list[str]) -> None:
    """Separate what is before an element from what is after it."""
    if element.name.lower() in _CELLS:  # the next cell stays in its column
        parts.append("\t")
    elif any(one.name.lower() in _BLOCKS for one in (element, *element.elements)):
        _break_line(parts)


def _has_text(element: Element) -> bool:
    return any(_has_text(one) if isinstance(one, Element) else one.strip() for one in element.content)


def _number_items(element: Element) -> None:
    """Write the mark of each item of a numbered list into the item. Other texts can refer to its number."""
    number = _read_number(element, "start", 1)
    for item in element.elements if element.name.lower() == "ol" else ():
        if item.name.lower() == "li":
            number = _read_number(item, "value", number)
            item.attributes[_NUMBER] = f"{number}. "
            number += 1


def _read_number(element: Element, attribute: str, default: int) -> int:
    written = element.attributes.get(attribute, "")
    return int(written) if re.fullmatch(r"-?[0-9]{1,9}", written) else default


def _note_object(element: Element, skipped: Counter[str]) -> None:
    attribute = _EMBEDDED.get(element.name.lower())
    if attribute:
        skipped[f"embedded object {element.attributes.get(attribute, 'without a name')}"] += 1


def _join(parts: list[str], text: str) -> str:
    """Return a text with single spaces, and without spaces at the start of a line."""
    text = _SPACES.sub(" ", text)
    return text.lstrip(" ") if not parts or parts[-1][-1] in "\n\t " else text


def _break_line(parts: list[str]) -> None:
    if parts and not parts[-1].endswith("\n"):
        parts.append("\n")


def undo_escapes(text: str) -> str:
    r"""Return a text that StrictDoc wrote: its line breaks are `\n` and its other characters `\xe9`.

    What it reads from a file, it takes for Latin-1 although it is UTF-8. So its `\xc3\xa9` is an é as well.
    """
    if "\\" not in text:
        return text
    try:
        plain = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:  # it is not one of these texts
        return text
    try:
        return plain.encode("latin-1").decode()
    except UnicodeError:
        return plain


OWN = "quilt-mcp."
"""The start of the identifiers of our types. The kind of record follows."""
ACCEPTANCE = f"{OWN}acceptance-criterion"
"""The type of the relations from requirements to their acceptance criteria."""
SPECIFICATION = "specification-project-"
"""The start of the identifiers of our specifications. The ID of the project follows."""
PACKED = "exact_texts"
"""The attribute with the texts that XML cannot contain."""
DATATYPES = {"STRING": ' MAX-LENGTH="1000000"', "INTEGER": ' MIN="1" MAX="4"', "DATE": ""}
_TYPES = {"priority": "INTEGER", "time": "DATE"}
"""The data types of the forms of fields. All others are STRING."""
# relations have these values
_NOT_ATTRIBUTES = {"id", "acceptance_criteria_id", *ENDS}

CHAPTERS = ("reqif.chaptername", "object heading", "heading")
TITLES = ("reqif.name", "title", "name", "summary", "object short text")
TEXTS = ("reqif.text", "object text", "statement", "text", "description", "reqif.description")
REFERENCES = ("reqif.foreignid", "uid", "id", "identifier")
STATUSES = ("status", "state")
PRIORITY = "priority"
DELETED = ("reqif.foreigndeleted", "foreigndeleted", "is deleted", "deleted")
"""The names of attributes of other tools, in lower case. The first one with a value counts."""


def fold(name: str) -> str:
    """Return a name as it is compared: some tools change the case, and spaces for underscores."""
    return "_".join(name.casefold().replace("_", " ").split())


def fields_by_name(kind: str) -> dict[str, str]:
    """Return the fields of a kind by the folded names of their attributes, also by those that other tools give them."""
    fields = fields_of(kind)
    titles = {fold(name): "title" for name in CHAPTERS if "title" in fields}
    return titles | {fold(name_field(field)): field for field in fields}


def name_values(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values that are not blank, by name in lower case."""
    named: dict[str, str] = {}
    for name, value in values:
        if value.strip():
            named.setdefault(name.casefold(), trim(value))
    return named


def choose(names: Iterable[str], named: Mapping[str, str]) -> str:
    return next((name for name in names if named.get(name)), "")


def fields_of(kind: str) -> dict[str, str]:
    """Return the fields of a kind that are attributes, with their data types."""
    left_out = _NOT_ATTRIBUTES | {PARENTS.get(kind, "")}
    fields = [one for name, one in FIELDS.items() if name in RECORDS[kind].fields and name not in left_out]
    return {one.name: _TYPES.get(one.form, "STRING") for one in fields} | {PACKED: "STRING"}


def name_field(field: str) -> str:
    return (FIELDS[field].reqif if field in FIELDS else "") or field
