"""The structure of a ReqIF file: its types, which objects it has, and where they are in the hierarchy."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from quilt_mcp.requirements.transfer.record_reader import Refused
from quilt_mcp.requirements.transfer.rejections import Rejection
from quilt_mcp.requirements.transfer.reqif_schema import ACCEPTANCE, CHAPTERS, OWN, TEXTS, TITLES, choose, name_values
from quilt_mcp.requirements.transfer.reqif_text import read_xhtml
from quilt_mcp.requirements.transfer.wording import shorten
from quilt_mcp.requirements.transfer.xml_elements import Element

_CONTENT = ("REQ-IF", "CORE-CONTENT", "REQ-IF-CONTENT")
_CONTAINERS = {"DATATYPES", "SPEC-TYPES", "SPEC-OBJECTS", "SPEC-RELATIONS", "SPECIFICATIONS"}
_HEADER = ("REQ-IF", "THE-HEADER")
_TYPES = {"SPEC-OBJECT-TYPE", "SPEC-RELATION-TYPE", "SPECIFICATION-TYPE", "RELATION-GROUP-TYPE"}
_IN_PLACES = {"CHILDREN", "SPEC-HIERARCHY"}


class Found(NamedTuple):
    """An object."""

    type_id: str
    line: int


class Kind(NamedTuple):
    """A type of objects or relations."""

    name: str
    description: str
    attributes: dict[str, str]
    """The names of its attributes, by identifier."""


_UNKNOWN = Kind("", "", {})


@dataclass
class Structure:
    """What the first reading of a file finds. Its methods are handlers for `read_elements`.

    Attributes:
        repository: the identifier of the repository in the header; empty if there is none.
        kinds: the types of objects and relations by identifier.
        options: the names of the values of enumerations by identifier.
        objects: the objects by identifier.
        names: the names of the specifications by identifier.
        lines: their lines.
        parents: for each object with a place, the object or specification that contains it.
        containing: the identifiers of objects that contain others.
        headings: the titles of objects of other tools that are headings: they have no text, and a chapter name or
            objects inside.
        criteria: the acceptance criteria of requirements, from relations of our own type.
        refused: what is wrong.
        skipped: how often each part that is not imported occurs, by name.
    """

    repository: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    objects: dict[str, Found] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    containing: set[str] = field(default_factory=set)
    headings: dict[str, str] = field(default_factory=dict)
    criteria: dict[str, str] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    _root: str | None = None
    _chapters: set[str] = field(default_factory=set)
    _places: list["_Place"] = field(default_factory=list)

    def open(self, around: tuple[str, ...], element: Element) -> bool:
        """Return whether an element is read as a whole. Note where the hierarchy goes down."""
        if not around:
            self._root = element.name
        if around[:3] != _CONTENT:
            return around == _HEADER or element.name == "TOOL-EXTENSIONS" or around == (*_HEADER, "REQ-IF-HEADER")
        if len(around) == len(_CONTENT):
            return element.name not in _CONTAINERS
        if around[3] != "SPECIFICATIONS":
            return True
        if around == (*_CONTENT, "SPECIFICATIONS") and element.name == "SPECIFICATION":
            name = _find_name(element) or "Specification"
            self._places.append(_Place(self._identify(element)))
            self.names[self._places[-1].own], self.lines[self._places[-1].own] = name, element.line
            return False
        if element.name == "SPEC-HIERARCHY":
            self._places.append(_Place(""))
        return element.name not in _IN_PLACES

    def close(self, around: tuple[str, ...], element: Element) -> None:
        """Note what an element contains."""
        match element.name:
            case "REQ-IF-HEADER":
                repository = element.find("REPOSITORY-ID")
                self.repository = repository.text() if repository else ""
            case "SPEC-OBJECT":
                self._add_object(element)
            case "SPEC-RELATION":
                self._add_criterion(element)
            case name if name in _TYPES:
                self._add_type(element)
            case "DATATYPE-DEFINITION-ENUMERATION":
                self._add_options(element)
            case "OBJECT" if self._places:
                self._places[-1].own = next((one.text() for one in element.elements), "")
            case "SPEC-HIERARCHY" | "SPECIFICATION" if around[3:4] == ("SPECIFICATIONS",):
                self._leave_place()
            case "TOOL-EXTENSIONS" | "ALTERNATIVE-ID" | "SPEC-RELATION-GROUPS":
                self.skipped[element.name] += 1
            case "VALUES" if self._places:
                self._skip_values(element)

    def finish(self) -> None:
        """Choose the headings. Check that no object contains itself."""
        if self._root != "REQ-IF":
            self.refuse(1, None, f"The file is not ReqIF: its root element is {shorten(self._root or '')}, not REQ-IF.")
        is_heading = self._chapters | self.containing
        self.headings = {key: title for key, title in self.headings.items() if key in is_heading}
        checked: set[str] = set()
        for identifier, found in self.objects.items():
            path: dict[str, None] = {}
            place: str | None = identifier
            while place is not None and place not in checked and place not in path:
                path[place] = None
                place = self.parents.get(place)
            if place in path:
                self.refuse(found.line, None, "The object contains itself in the hierarchy. Remove one of its places.")
                return
            checked.update(path)

    @property
    def has_own_kinds(self) -> bool:
        """Whether the file has our own types."""
        return ACCEPTANCE in self.kinds

    def kind_of(self, element: Element) -> Kind:
        """Return the type of an object or relation. A type that the file does not have has no name."""
        return self.kinds.get(self.find_type(element), _UNKNOWN)

    def is_own(self, identifier: str) -> bool:
        """Return whether an object has one of our own types."""
        found = self.objects.get(identifier)
        return found is not None and found.type_id.startswith(OWN)

    def refuse(self, line: int, where: str | None, reason: str) -> None:
        """Add what is wrong with an element."""
        self.refused.append(Refused([Rejection(line, where, reason)], None))

    def read_values(self, element: Element, skipped: Counter[str]) -> Iterator[tuple[str, str]]:
        """Yield the identifiers of the attributes of an object or relation, with their values as text."""
        values = element.find("VALUES")
        for one in values.elements if values else ():
            definition = one.find("DEFINITION")
            reference = next((ref.text() for ref in definition.elements), "") if definition else ""
            yield reference, self._read_value(one, skipped)

    def find_type(self, element: Element) -> str:
        """Return the identifier of the type of an object or relation; empty if it has none."""
        reference = element.find("TYPE")
        return next((ref.text() for ref in reference.elements), "") if reference else ""

    def _read_value(self, value: Element, skipped: Counter[str]) -> str:
        if value.name == "ATTRIBUTE-VALUE-XHTML":
            text = value.find("THE-VALUE")
            return read_xhtml(text, skipped) if text else ""
        if value.name == "ATTRIBUTE-VALUE-ENUMERATION":
            chosen = value.find("VALUES")
            references = [one.text() for one in chosen.elements] if chosen else []
            return ", ".join(self.options.get(one, one) for one in references)
        return value.attributes.get("THE-VALUE", "")

    def _identify(self, element: Element) -> str:
        identifier = element.attributes.get("IDENTIFIER", "")
        if not identifier:
            self.refuse(element.line, "IDENTIFIER", f"The {element.name} has no IDENTIFIER. Add one.")
        return identifier

    def _add_object(self, element: Element) -> None:
        identifier, type_id = self._identify(element), self.find_type(element)
        if before := self.objects.get(identifier):
            self.refuse(element.line, "IDENTIFIER", f"Duplicate of line {before.line}. Change or remove one.")
        if type_id not in self.kinds:
            self.skipped[f"type {shorten(type_id)} that the file does not have"] += 1
        if element.find("ALTERNATIVE-ID"):
            self.skipped["ALTERNATIVE-ID"] += 1
        self.objects[identifier] = Found(sys.intern(type_id), element.line)
        if not type_id.startswith(OWN):
            self._note_heading(identifier, element, self.kinds.get(type_id))

    def _note_heading(self, identifier: str, element: Element, kind: Kind | None) -> None:
        names = kind.attributes if kind else {}
        values = [(names.get(key, key), value) for key, value in self.read_values(element, Counter())]
        named = name_values(values)
        if not choose(TEXTS, named):
            title = named.get(choose((*CHAPTERS, *TITLES), named)) or _find_name(element) or identifier
            self.headings[identifier] = " ".join(title.split())
            if choose(CHAPTERS, named):
                self._chapters.add(identifier)

    def _add_criterion(self, element: Element) -> None:
        source, target = find_ends(element)
        if self.find_type(element) == ACCEPTANCE:
            self.criteria[source] = target

    def _add_type(self, element: Element) -> None:
        definitions = element.find("SPEC-ATTRIBUTES")
        attributes = {}
        for one in definitions.elements if definitions else ():
            identifier = one.attributes.get("IDENTIFIER", "")
            attributes[identifier] = _find_name(one) or identifier
            if one.find("DEFAULT-VALUE"):
                self.skipped[f"default value of the attribute {shorten(attributes[identifier])}"] += 1
        name = _find_name(element) or element.attributes.get("IDENTIFIER", "")
        self.kinds[self._identify(element)] = Kind(name, element.attributes.get("DESC", ""), attributes)

    def _add_options(self, element: Element) -> None:
        values = element.find("SPECIFIED-VALUES")
        for one in values.elements if values else ():
            identifier = one.attributes.get("IDENTIFIER", "")
            self.options[identifier] = _find_name(one) or identifier

    def _leave_place(self) -> None:
        place = self._places.pop()
        if place.children:
            self.containing.add(place.own)
        for child in place.children:
            if child in self.parents:
                self.skipped["second place of an object in the hierarchy"] += 1
            else:
                self.parents[child] = place.own
        if self._places:
            if place.own not in self.objects:
                self.skipped[f"place of the object {shorten(place.own)} that the file does not have"] += 1
            self._places[-1].children.append(place.own)

    def _skip_values(self, element: Element) -> None:
        wrapped = Element("", {}, element.line, content=[element])
        names = {key: name for kind in self.kinds.values() for key, name in kind.attributes.items()}
        for reference, _ in self.read_values(wrapped, Counter()):
            self.skipped[f"attribute {shorten(names.get(reference, reference))} of a specification"] += 1


@dataclass
class _Place:
    own: str
    children: list[str] = field(default_factory=list)


def _find_name(element: Element) -> str:
    """Return the LONG-NAME of an element; empty if it has none or a blank one."""
    return element.attributes.get("LONG-NAME", "").strip()


def find_ends(element: Element) -> tuple[str, str]:
    """Return the source and the target of a relation; empty if it has none."""
    found = []
    for name in ("SOURCE", "TARGET"):
        end = element.find(name)
        found.append(next((ref.text() for ref in end.elements), "") if end else "")
    return found[0], found[1]
