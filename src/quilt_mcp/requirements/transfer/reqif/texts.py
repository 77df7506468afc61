"""The texts of ReqIF: XHTML, attributes of XML, and what neither of them can contain."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import quoteattr

from quilt_mcp.requirements.transfer.records import shorten
from quilt_mcp.requirements.transfer.reqif.elements import Element

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
_LISTS = {"ul", "ol"}
_COVERED = "columns that cells of other rows cover"
_MOST_COLUMNS = 100
_MOST_COVERED = 10_000
"""The maximum number of columns of a table that a cell has besides its own: two attributes can say a million."""
_STARTS = re.compile(r"\t| *(?:- |-?\d+\. )|  ")
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
    _collect(element, parts, skipped, is_literal=False, level=0)
    lines = "".join(parts).split("\n")
    return trim(re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)))


def trim(text: str) -> str:
    """Return a text without the spaces around it. Tabs before its first character stay: they follow empty cells."""
    stripped = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    return before[len(before.rstrip("\t")) :] + stripped if stripped else ""


def _collect(element: Element, parts: list[str], skipped: Counter[str], *, is_literal: bool, level: int) -> None:
    name, start = element.name.lower(), len(parts)
    if reason := _find_reason_to_skip(element):
        skipped[reason] += 1
        _separate(element, parts)
        return
    _note_object(element, skipped)
    _number_items(element)
    level += name in _LISTS
    if name in _BLOCKS and not (name in _PARAGRAPHS and parts and _STARTS.fullmatch(parts[-1])):
        _break_line(parts)
    _mark(element, parts, level)
    for one in element.content:
        if isinstance(one, Element):
            _collect(one, parts, skipped, is_literal=is_literal or name == "pre", level=level)
        elif text := one if is_literal or name == "pre" else _join(parts, one):
            parts.append(text)  # no part is empty, so that the last one is the end of the text
    if name == "a" and (address := element.attributes.get("href", "")) not in "".join(parts[start:]):
        parts.append(f" ({address})")
    if name in _CELLS:  # the next one is on the line of the last paragraph
        is_broken = parts[max(start, len(parts) - 1) :] == ["\n"]
        parts[len(parts) - is_broken :] = ["\t" * (1 + _read_covered(element)[1])]
    if name in _BLOCKS:
        _break_line(parts)


def _mark(element: Element, parts: list[str], level: int) -> None:
    """Write what precedes the content of an element: the mark of an item, or the columns before a cell."""
    name = element.name.lower()
    if before := _read_covered(element)[0]:
        parts.append("\t" * before)
    if name == "table":
        _place_cells(element)
    if mark := element.attributes.get(_NUMBER, _MARKS.get(name)):
        parts.append(f"{'  ' * (level - 1)}{mark}" if name == "li" else mark)


def _read_covered(cell: Element) -> tuple[int, int]:
    """Return the columns before a cell that other rows cover, and those that it covers itself besides one."""
    before, _, own = cell.attributes.get(_COVERED, "0 0").partition(" ")
    return int(before), int(own)


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


def _place_cells(table: Element) -> None:
    """Note for each cell how many columns before it other rows cover, and how many it covers itself."""
    left = _MOST_COVERED
    below: dict[int, int] = {}  # for each column, the rows that a cell above still covers
    for row in _find_rows(table):
        column = 0
        for cell in (one for one in row.elements if one.name.lower() in _CELLS):
            before = 0
            while below.get(column, 0) > 0:
                below[column] -= 1
                column, before = column + 1, before + 1
            more = min(_read_number(cell, "colspan", 1) - 1, _MOST_COLUMNS, left)
            width = max(more, 0) + 1
            rows = min(_read_number(cell, "rowspan", 1) - 1, left)
            if rows > 0:
                below.update(dict.fromkeys(range(column, column + width), rows))
            left -= before + width - 1
            cell.attributes[_COVERED] = f"{before if left > 0 else 0} {width - 1}"
            column += width
        for rest in [one for one, rows in below.items() if one >= column]:
            below[rest] -= 1


def _find_rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, without those of tables in it."""
    for one in table.elements:
        if one.name.lower() == "tr":
            yield one
        elif one.name.lower() in {"thead", "tbody", "tfoot"}:
            yield from _find_rows(one)


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
        skipped[f"embedded object {shorten(element.attributes.get(attribute, 'without a name'))}"] += 1


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
