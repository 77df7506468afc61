"""Texts in ReqIF files: characters that XML does not allow, and XHTML as plain text."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from xml.sax.saxutils import quoteattr

from quilt_mcp.requirements.transfer.xml_elements import Element

# XML 1.0 has no way to write these characters
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
# otherwise a parser changes them to spaces or line feeds; the last two are line ends in XML 1.1
_ENTITIES = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", "\x85": "&#133;", "\u2028": "&#8232;"}
_BLOCKS = {"p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "hr"}
_ITEMS = {"li": "- ", "dd": "  "}
_EMBEDDED = {"object": "data", "img": "src"}
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
    """Restore the texts that XML cannot contain, unless somebody has changed them since.

    Raises:
        ValueError: the packed texts are not valid.
    """
    special = json.loads(packed)
    if not isinstance(special, dict):
        raise TypeError("not an object")
    for name, text in special.items():
        if isinstance(text, str) and fields.get(name) == replace(text):
            fields[name] = text


def read_xhtml(element: Element, skipped: Counter[str]) -> str:
    """Return the text of XHTML. Blocks are separated by line breaks, and embedded objects are skipped."""
    parts: list[str] = []
    _collect(element, parts, skipped, is_literal=False)
    lines = "".join(parts).split("\n")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip()


def _collect(element: Element, parts: list[str], skipped: Counter[str], *, is_literal: bool) -> None:
    name = element.name.lower()
    if name in _EMBEDDED:
        skipped[f"embedded object {element.attributes.get(_EMBEDDED[name], 'without a name')}"] += 1
    if name == "br":
        parts.append("\n")
    if name in _BLOCKS or name in _ITEMS:
        _break_line(parts)
    if name in _ITEMS:
        parts.append(_ITEMS[name])
    for one in element.content:
        if isinstance(one, Element):
            _collect(one, parts, skipped, is_literal=is_literal or name == "pre")
        elif text := one if is_literal or name == "pre" else _join(parts, one):
            parts.append(text)  # no part is empty, so that the last one is the end of the text
    if name in {"td", "th"}:
        parts.append("\t")
    if name in _BLOCKS or name in _ITEMS:
        _break_line(parts)


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
