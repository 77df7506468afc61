"""The structure of a ReqIF file, ours or another tool's: its types, its objects, and their places in the hierarchy."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import RECORDS
from quilt_mcp.requirements.transfer.files import Refused
from quilt_mcp.requirements.transfer.records import Rejection, shorten
from quilt_mcp.requirements.transfer.reqif.elements import Element
from quilt_mcp.requirements.transfer.reqif.mapping import Mapper
from quilt_mcp.requirements.transfer.reqif.names import (
    ACCEPTANCE,
    CHAPTERS,
    OWN,
    PACKED,
    SPECIFICATION,
    Names,
    choose,
    fields_by_name,
    fold,
    name_values,
    says_heading,
)
from quilt_mcp.requirements.transfer.reqif.texts import STRUCK, read_xhtml, trim, undo_escapes

_CONTENT = ("REQ-IF", "CORE-CONTENT", "REQ-IF-CONTENT")
_TYPE_CONTAINERS = {"DATATYPES", "SPEC-TYPES"}
_CONTAINERS = {*_TYPE_CONTAINERS, "SPEC-OBJECTS", "SPEC-RELATIONS", "SPECIFICATIONS"}
_HEADER = ("REQ-IF", "THE-HEADER")
_TYPES = {"SPEC-OBJECT-TYPE", "SPEC-RELATION-TYPE", "SPECIFICATION-TYPE", "RELATION-GROUP-TYPE"}
_IN_PLACES = {"CHILDREN", "SPEC-HIERARCHY"}
_REQUIREMENTS = {"requirement", "requirements"}
_ENTITIES = {kind.name for kind in model.KINDS}
_NAMES_OF_RECORDS = ("reference_id", "username", "name")
_TEXT_VALUES = {"ATTRIBUTE-VALUE-XHTML", "ATTRIBUTE-VALUE-STRING"}
_CRITERION = "acceptance_criterion"
_STRICTDOC = "strictdoc"


class ReqifObject(NamedTuple):
    """An object."""

    type_id: str
    line: int


class ReqifType(NamedTuple):
    """A type of objects or relations."""

    name: str
    description: str
    attributes: dict[str, str]
    """The names of its attributes, by identifier."""
    defaults: frozenset[str]
    """The identifiers of the attributes that have a default value."""


_UNKNOWN = ReqifType("", "", {}, frozenset())


@dataclass
class Structure:
    """What the first reading of a file finds. Its methods are handlers for `read_elements`.

    Attributes:
        skipped: how often each part that is not imported occurs, by name.
        repository: the identifier of the repository in the header; empty if there is none.
        source: the repository, or the tool that wrote the file.
        mapper: which attributes have the fields of records.
        types: the types of objects and relations by identifier.
        options: the names of the values of enumerations by identifier.
        objects: the objects by identifier.
        names: the names of the specifications by identifier.
        lines: their lines.
        parents: for each object with a place, the object or specification that contains it.
        ranks: the places of objects and specifications in the order of the hierarchy, from 1; then what is not in it.
        containing: the identifiers of objects that contain others.
        headings: the titles of objects of other tools that are headings: they have no text, and a chapter name or
            objects inside.
        criteria: the acceptance criteria of requirements, from relations of our own type.
        keys: the reference IDs and names of objects of our own kinds of which another tool changed the identifiers.
        relation_names: the names of these objects that are types of relationships, by folded name.
        has_criteria: whether the file says which requirements have acceptance criteria.
        has_escapes: whether StrictDoc wrote the file.
        types_follow: whether types, or values of enumerations, follow what can have them.
        refused: what is wrong.
    """

    skipped: Counter[str]
    repository: str = ""
    source: str = ""
    mapper: Mapper = field(default_factory=Mapper)
    types: dict[str, ReqifType] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    objects: dict[str, ReqifObject] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    containing: set[str] = field(default_factory=set)
    headings: dict[str, str] = field(default_factory=dict)
    criteria: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    relation_names: dict[str, str] = field(default_factory=dict)
    has_criteria: bool = False
    has_escapes: bool = False
    types_follow: bool = False
    refused: list[Refused] = field(default_factory=list)
    _root: str | None = None
    _chapters: set[str] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)
    _has_texts: bool = False
    _places: list["_Place"] = field(default_factory=list)
    _specifications: dict[str, str] = field(default_factory=dict)
    _own_kinds: dict[str, str | None] = field(default_factory=dict)
    _own_places: set[str] = field(default_factory=set)
    _project_names: set[str] = field(default_factory=set)
    _uses_types: bool = False

    def open(self, around: tuple[str, ...], element: Element) -> bool:
        """Return whether an element is read as a whole, not part by part. Note where the hierarchy goes down."""
        if not around:
            self._root = element.name
        if around[:3] != _CONTENT:
            return around == _HEADER or element.name == "TOOL-EXTENSIONS"
        match around[3:]:
            case ():  # the element is directly in the content
                self.types_follow |= self._uses_types and element.name in _TYPE_CONTAINERS
                self._uses_types |= element.name in _CONTAINERS - _TYPE_CONTAINERS
                return element.name not in _CONTAINERS
            case ("SPECIFICATIONS",) if element.name == "SPECIFICATION":
                self._open_specification(element)
                return False
            case ("SPECIFICATIONS", *_):
                if element.name == "SPEC-HIERARCHY":
                    self._places.append(_Place(""))  # its object follows
                return element.name not in _IN_PLACES
        return True

    def _open_specification(self, element: Element) -> None:
        identifier = self._identify(element)
        self._places.append(_Place(identifier))
        if before := self.lines.get(identifier):
            self._refuse_duplicate(element.line, before)
        self.names[identifier], self.lines[identifier] = _find_name(element) or "Specification", element.line

    def close(self, around: tuple[str, ...], element: Element) -> None:
        match element.name:
            case "REQ-IF-HEADER":
                repository = element.find("REPOSITORY-ID")
                self.repository = repository.text() if repository else ""
                source = element.find("SOURCE-TOOL-ID")
                self.has_escapes = source is not None and source.text().casefold() == _STRICTDOC
                self.source = self.repository or (source.text() if source else "")
            case "SPEC-OBJECT":
                self._add_object(element)
            case "SPEC-RELATION":
                self._note_defaults(element)
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
        """Choose the headings. Find what has our own kinds. Check that no object contains itself."""
        if self._root != "REQ-IF":
            self.refuse(1, None, f"The file is not ReqIF: its root element is {shorten(self._root or '')}, not REQ-IF.")
        called = {key: fold(self.find_type(self.objects[key].type_id).name) for key in self._chapters}
        # a requirement with a chapter name, and nothing inside, stays a requirement
        is_heading = self._said | {key for key, name in called.items() if name not in _REQUIREMENTS}
        if self._has_texts:  # otherwise the titles are the texts of requirements inside each other
            is_heading |= self.containing
        self.headings = {key: title for key, title in self.headings.items() if key in is_heading}
        self._own_places = {place for key, place in self._specifications.items() if self.kind_of_object(key)}
        named = [(self.kind_of_object(key), name) for key, name in self.keys.items()]
        self._project_names = {name for kind, name in named if kind == "project"}
        self.relation_names = {fold(name): name for kind, name in named if kind == "relationship_type"}
        self.has_criteria = any(map(self.relates_criteria, self.types))
        self._refuse_cycle()
        if not self.refused:  # in a cycle it would not end
            self._rank()
            self._leave_out_places()

    def _rank(self) -> None:
        inside: dict[str, list[str]] = defaultdict(list)
        for identifier, place in self.parents.items():
            inside[place].append(identifier)
        pending = [*reversed(self.names)]
        while pending:
            identifier = pending.pop()
            self.ranks.setdefault(identifier, len(self.ranks) + 1)
            pending += reversed(inside.pop(identifier, ()))
        for identifier in self.objects:
            self.ranks.setdefault(identifier, len(self.ranks) + 1)

    def _leave_out_places(self) -> None:
        """Let what is inside of an object that the file does not have be where that object is."""
        missing = dict.fromkeys(one for one in self.parents if one not in self.objects)
        for identifier in missing:
            self.skipped[f"place of the object {shorten(identifier)} that the file does not have"] += 1
        for identifier in self.parents.keys() - missing.keys() if missing else ():
            while self.parents[identifier] in missing:
                self.parents[identifier] = self.parents[self.parents[identifier]]

    def _refuse_cycle(self) -> None:
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

    def relates_criteria(self, type_id: str) -> bool:
        """Return whether relations of a type lead from requirements to their acceptance criteria."""
        if ACCEPTANCE in self.types:  # then a type with its name is one of relationships
            return type_id == ACCEPTANCE
        return fold(self.find_type(type_id).name) == _CRITERION and any(map(self.find_own_kind, self.types))

    def is_ours(self, specification: str) -> bool:
        """Return whether a specification is the place of our own records, so that it does not become an epic."""
        is_named = specification.startswith("specification-") and ACCEPTANCE in self.types
        return is_named or specification in self._own_places or self.find_project(specification) is not None

    def find_project(self, specification: str) -> str | None:
        """Return the ID of the project of a specification, or its name if another tool changed its identifier."""
        if specification.startswith(SPECIFICATION):
            return specification.removeprefix(SPECIFICATION)
        name = self.names.get(specification, "")
        return name if name in self._project_names else None

    def find_own_kind(self, type_id: str) -> str | None:
        """Return the kind of the records with a type; None if it is a type of another tool.

        Some tools give types new identifiers and keep their names. So a type with the name of a kind is ours if it has
        the attribute that all our types have, or if the file has a type for each kind of entity.
        """
        if type_id not in self._own_kinds:
            self._own_kinds[type_id] = self._recognize(type_id)
        return self._own_kinds[type_id]

    def kind_of_object(self, identifier: str) -> str | None:
        """Return the kind of the record of an object; None if its type is not ours."""
        found = self.objects.get(identifier)
        return self.find_own_kind(found.type_id) if found else None

    def fields_of_type(self, type_id: str, kind: str) -> dict[str, str]:
        """Return the fields of our own type by the identifiers of its attributes."""
        attributes, names = self.find_type(type_id).attributes, fields_by_name(kind)
        start = f"{type_id}."
        if type_id.startswith((OWN, "relation-")):  # a tool can have other names for them
            return {key: key.removeprefix(start) for key in attributes if key.startswith(start)}
        return {key: names[fold(name)] for key, name in attributes.items() if fold(name) in names}

    def type_of(self, element: Element) -> ReqifType:
        return self.find_type(element.refer("TYPE"))

    def find_type(self, type_id: str) -> ReqifType:
        """Return a type. One that the file does not have has no name and no attributes."""
        return self.types.get(type_id, _UNKNOWN)

    def refuse(self, line: int, where: str | None, reason: str) -> None:
        self.refused.append(Refused([Rejection(line, where, reason)], None))

    def _refuse_duplicate(self, line: int, before: int) -> None:
        self.refuse(line, "IDENTIFIER", f"Duplicate of line {before}. Change or remove one.")

    def read_values(self, element: Element, skipped: Counter[str]) -> Iterator[tuple[str, str]]:
        """Yield the identifiers of the attributes of an object or relation, with their values as text."""
        for one in element.inside("VALUES"):
            yield one.refer("DEFINITION"), self._read_value(one, skipped)

    def read_named(self, element: Element, skipped: Counter[str]) -> list[tuple[str, str]]:
        """Return the names of the attributes of an object or relation, with their values."""
        names = self.type_of(element).attributes
        return [(names.get(key, key), trim(value)) for key, value in self.read_values(element, skipped)]

    def has_only_struck_text(self, element: Element) -> bool:
        """Return whether an object without a text has one in the file, of which all is struck through."""
        names = self.type_of(element).attributes
        skipped: Counter[str] = Counter()
        for one in element.inside("VALUES"):
            reference = one.refer("DEFINITION")
            if names.get(reference, reference).casefold() in self.names_for(element.refer("TYPE")).texts:
                self._read_value(one, skipped)
        return skipped[STRUCK] > 0

    def _read_value(self, value: Element, skipped: Counter[str]) -> str:
        if value.name == "ATTRIBUTE-VALUE-XHTML":
            if value.find("THE-ORIGINAL-VALUE"):  # another tool dropped formatting, such as struck-through text
                skipped["original of a simplified text"] += 1
            text = value.find("THE-VALUE")
            return read_xhtml(text, skipped) if text else ""
        if value.name == "ATTRIBUTE-VALUE-ENUMERATION":
            references = [one.text() for one in value.inside("VALUES")]
            return ", ".join(self.options.get(one, one) for one in references)
        given = value.attributes.get("THE-VALUE", "")
        return undo_escapes(given) if self.has_escapes and value.name == "ATTRIBUTE-VALUE-STRING" else given

    def _recognize(self, type_id: str) -> str | None:
        if type_id.startswith(OWN):
            return type_id.removeprefix(OWN) if type_id.removeprefix(OWN) in RECORDS else None
        found = self.find_type(type_id)
        name = fold(found.name)
        if name not in RECORDS or name == "relationship":
            return None
        folded = {fold(attribute) for attribute in found.attributes.values()}
        is_ours = PACKED in folded or {fold(one.name) for one in self.types.values()} >= _ENTITIES
        return name if is_ours else None

    def _identify(self, element: Element) -> str:
        identifier = element.attributes.get("IDENTIFIER", "")
        if not identifier:
            self.refuse(element.line, "IDENTIFIER", f"The {element.name} has no IDENTIFIER. Add one.")
        return identifier

    def _add_object(self, element: Element) -> None:
        identifier, type_id = self._identify(element), element.refer("TYPE")
        if before := self.objects.get(identifier):
            self._refuse_duplicate(element.line, before.line)
        if not type_id:
            self.skipped["missing type of an object"] += 1
        elif type_id not in self.types:
            self.skipped[f"type {shorten(type_id)} that the file does not have"] += 1
        if element.find("ALTERNATIVE-ID"):
            self.skipped["ALTERNATIVE-ID"] += 1
        self.objects[identifier] = ReqifObject(sys.intern(type_id), element.line)
        self._note_defaults(element)
        if own := self.find_own_kind(type_id):
            if not identifier.startswith(f"{own}-"):
                self._note_key(identifier, element, type_id, own)
            return
        self._note_heading(identifier, element)
        name = self.find_type(type_id).name
        if fold(name) in _ENTITIES - _REQUIREMENTS:  # other names, such as Requirement Type, are common in other tools
            self.skipped[f"kind {shorten(name)}: it has the name of one of ours, but not its attributes"] = 1

    def _note_defaults(self, element: Element) -> None:
        """Count the objects or relations that have no value where their type has a default value."""
        own_type = self.type_of(element)
        for lacking in sorted(own_type.defaults - {one.refer("DEFINITION") for one in element.inside("VALUES")}):
            self.skipped[f"default value of the attribute {shorten(own_type.attributes[lacking])}"] += 1

    def _note_key(self, identifier: str, element: Element, type_id: str, kind: str) -> None:
        fields = self.fields_of_type(type_id, kind)
        values = {fields.get(reference): value for reference, value in self.read_values(element, Counter())}
        if key := next((values[name] for name in _NAMES_OF_RECORDS if values.get(name)), None):
            self.keys[identifier] = key

    def _note_heading(self, identifier: str, element: Element) -> None:
        values, type_id = self.read_named(element, Counter()), element.refer("TYPE")
        named, names = name_values(values), self.names_for(type_id)
        self.mapper.note(self.find_type(type_id).name or type_id, values, self._list_texts(element))
        has_text, is_said = bool(choose(names.texts, named)), says_heading(named)
        self._has_texts |= has_text
        if is_said or (not has_text and (choose(CHAPTERS, named) or not self.has_only_struck_text(element))):
            found = choose(names.titles, named) or (choose(names.texts, named) if is_said else "")
            title = named.get(found) or _find_name(element) or identifier
            self.headings[identifier] = " ".join(title.split())
            if is_said:
                self._said.add(identifier)
            elif choose(CHAPTERS, named):
                self._chapters.add(identifier)

    def _list_texts(self, element: Element) -> set[str]:
        """Return the names of the attributes of an object that can have its text, in lower case."""
        names = self.type_of(element).attributes
        of_texts = (one for one in element.inside("VALUES") if one.name in _TEXT_VALUES)
        return {names.get(key, key).casefold() for key in (one.refer("DEFINITION") for one in of_texts)}

    def names_for(self, type_id: str) -> Names:
        return self.mapper.names_for(self.find_type(type_id).name or type_id)

    def _add_criterion(self, element: Element) -> None:
        source, target = find_ends(element)
        if self.relates_criteria(element.refer("TYPE")):
            self.criteria[source] = target

    def _add_type(self, element: Element) -> None:
        attributes, defaults = {}, set()
        for one in element.inside("SPEC-ATTRIBUTES"):
            identifier = one.attributes.get("IDENTIFIER", "")
            attributes[identifier] = _find_name(one) or identifier
            if one.find("DEFAULT-VALUE"):
                defaults.add(identifier)
        name = _find_name(element) or element.attributes.get("IDENTIFIER", "")
        description = element.attributes.get("DESC", "")
        self.types[self._identify(element)] = ReqifType(name, description, attributes, frozenset(defaults))

    def _add_options(self, element: Element) -> None:
        for one in element.inside("SPECIFIED-VALUES"):
            identifier = one.attributes.get("IDENTIFIER", "")
            self.options[identifier] = _find_name(one) or identifier

    def _leave_place(self) -> None:
        place = self._places.pop()
        if place.children:
            self.containing.add(place.own)
        specification = self._places[0].own if self._places else place.own
        for child in place.children:
            if child in self.parents:
                self.skipped["second place of an object in the hierarchy"] += 1
            # the first by identifier, not the first in the file, because other tools change their order
            if specification < self._specifications.get(child, "\U0010ffff"):
                self.parents.pop(child, None)  # so that the children of a place are in its order
                self.parents[child], self._specifications[child] = place.own, specification
        if self._places:
            self._places[-1].children.append(place.own)

    def _skip_values(self, element: Element) -> None:
        wrapped = Element("", {}, element.line, content=[element])
        names = {key: name for one in self.types.values() for key, name in one.attributes.items()}
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
    return element.refer("SOURCE"), element.refer("TARGET")
