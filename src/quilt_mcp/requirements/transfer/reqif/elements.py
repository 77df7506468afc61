"""The elements of a ReqIF file, one at a time so that the memory stays small.

Document types are refused where they start: no entity is ever defined, expanded or fetched.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

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
