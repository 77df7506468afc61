"""The structure of a ReqIF file, ours or another tool's: its types, its objects, and their places in the hierarchy."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import RECORDS
from quilt_mcp.requirements.transfer.files import Refused
from quilt_mcp.requirements.transfer.records import Rejection, shorten
from quilt_mcp.requirements.transfer.reqif_xml import (
    ACCEPTANCE,
    CHAPTERS,
    OWN,
    PACKED,
    REFERENCES,
    SPECIFICATION,
    TEXTS,
    TITLES,
    Element,
    choose,
    fields_by_name,
    fold,
    name_values,
    read_xhtml,
    undo_escapes,
)

_CONTENT = ("REQ-IF", "CORE-CONTENT", "REQ-IF-CONTENT")
_CONTAINERS = {"DATATYPES", "SPEC-TYPES", "SPEC-OBJECTS", "SPEC-RELATIONS", "SPECIFICATIONS"}
_HEADER = ("REQ-IF", "THE-HEADER")
_TYPES = {"SPEC-OBJECT-TYPE", "SPEC-RELATION-TYPE", "SPECIFICATION-TYPE", "RELATION-GROUP-TYPE"}
_IN_PLACES = {"CHILDREN", "SPEC-HIERARCHY"}
_REQUIREMENTS = {"requirement", "requirements"}
_ENTITIES = {kind.name for kind in model.KINDS}
_NAMES_OF_RECORDS = ("reference_id", "username", "name")
_CRITERION = "acceptance_criterion"
_STRICTDOC = "strictdoc"


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
        keys: the reference IDs and names of objects of our own kinds of which another tool changed the identifiers.
        relation_names: the names of these objects that are types of relationships, by folded name.
        has_criteria: whether the file says which requirements have acceptance criteria.
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
    keys: dict[str, str] = field(default_factory=dict)
    relation_names: dict[str, str] = field(default_factory=dict)
    has_criteria: bool = False
    refused: list[Refused] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    _root: str | None = None
    _chapters: set[str] = field(default_factory=set)
    _places: list["_Place"] = field(default_factory=list)
    _specifications: dict[str, str] = field(default_factory=dict)
    _own_kinds: dict[str, str | None] = field(default_factory=dict)
    _own_places: set[str] = field(default_factory=set)
    _project_names: set[str] = field(default_factory=set)
    _has_escapes: bool = False

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
        match element.name:
            case "REQ-IF-HEADER":
                repository = element.find("REPOSITORY-ID")
                self.repository = repository.text() if repository else ""
                source = element.find("SOURCE-TOOL-ID")
                self._has_escapes = source is not None and source.text().casefold() == _STRICTDOC
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
        """Choose the headings. Find what has our own kinds. Check that no object contains itself."""
        if self._root != "REQ-IF":
            self.refuse(1, None, f"The file is not ReqIF: its root element is {shorten(self._root or '')}, not REQ-IF.")
        is_heading = self.containing | {key for key in self._chapters if not self._is_called_requirement(key)}
        self.headings = {key: title for key, title in self.headings.items() if key in is_heading}
        self._own_places = {place for key, place in self._specifications.items() if self.is_own(key)}
        named = [(self.kind_of_object(key), name) for key, name in self.keys.items()]
        self._project_names = {name for kind, name in named if kind == "project"}
        self.relation_names = {fold(name): name for kind, name in named if kind == "relationship_type"}
        self.has_criteria = any(map(self.relates_criteria, self.kinds))
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
        if type_id == ACCEPTANCE:
            return True
        has_name = type_id in self.kinds and fold(self.kinds[type_id].name) == _CRITERION
        return has_name and any(map(self.find_own_kind, self.kinds))

    def is_ours(self, specification: str) -> bool:
        """Return whether a specification is the place of our own records, so that it does not become an epic."""
        is_named = specification.startswith("specification-") and ACCEPTANCE in self.kinds
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
        attributes = self.kinds[type_id].attributes if type_id in self.kinds else {}
        start = f"{type_id}."
        if type_id.startswith((OWN, "relation-")):
            return {key: key.removeprefix(start) for key in attributes if key.startswith(start)}
        names = fields_by_name(kind)
        return {key: names[fold(name)] for key, name in attributes.items() if fold(name) in names}

    def kind_of(self, element: Element) -> Kind:
        """Return the type of an object or relation. A type that the file does not have has no name."""
        return self.kinds.get(self.find_type(element), _UNKNOWN)

    def is_own(self, identifier: str) -> bool:
        return self.kind_of_object(identifier) is not None

    def refuse(self, line: int, where: str | None, reason: str) -> None:
        self.refused.append(Refused([Rejection(line, where, reason)], None))

    def read_values(self, element: Element, skipped: Counter[str]) -> Iterator[tuple[str, str]]:
        """Yield the identifiers of the attributes of an object or relation, with their values as text."""
        values = element.find("VALUES")
        for one in values.elements if values else ():
            definition = one.find("DEFINITION")
            reference = next((ref.text() for ref in definition.elements), "") if definition else ""
            yield reference, self._read_value(one, skipped)

    def find_type(self, element: Element) -> str:
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
        given = value.attributes.get("THE-VALUE", "")
        return undo_escapes(given) if self._has_escapes and value.name == "ATTRIBUTE-VALUE-STRING" else given

    def _recognize(self, type_id: str) -> str | None:
        if type_id.startswith(OWN):
            return type_id.removeprefix(OWN) if type_id.removeprefix(OWN) in RECORDS else None
        kind = self.kinds.get(type_id)
        name = fold(kind.name) if kind else ""
        if kind is None or name not in RECORDS or name == "relationship":
            return None
        folded = {fold(attribute) for attribute in kind.attributes.values()}
        is_ours = PACKED in folded or {fold(one.name) for one in self.kinds.values()} >= _ENTITIES
        return name if is_ours else None

    def _is_called_requirement(self, identifier: str) -> bool:
        kind = self.kinds.get(self.objects[identifier].type_id)
        return kind is not None and fold(kind.name) in _REQUIREMENTS

    def _identify(self, element: Element) -> str:
        identifier = element.attributes.get("IDENTIFIER", "")
        if not identifier:
            self.refuse(element.line, "IDENTIFIER", f"The {element.name} has no IDENTIFIER. Add one.")
        return identifier

    def _add_object(self, element: Element) -> None:
        identifier, type_id = self._identify(element), self.find_type(element)
        if before := self.objects.get(identifier):
            self.refuse(element.line, "IDENTIFIER", f"Duplicate of line {before.line}. Change or remove one.")
        if not type_id:
            self.skipped["missing type of an object"] += 1
        elif type_id not in self.kinds:
            self.skipped[f"type {shorten(type_id)} that the file does not have"] += 1
        if element.find("ALTERNATIVE-ID"):
            self.skipped["ALTERNATIVE-ID"] += 1
        self.objects[identifier] = Found(sys.intern(type_id), element.line)
        if own := self.find_own_kind(type_id):
            if not identifier.startswith(f"{own}-"):
                self._note_key(identifier, element, type_id, own)
            return
        self._note_heading(identifier, element, self.kinds.get(type_id))
        name = self.kinds[type_id].name if type_id in self.kinds else ""
        if fold(name) in RECORDS.keys() - _REQUIREMENTS:
            self.skipped[f"kind {shorten(name)}: it has the name of one of ours, but not its attributes"] += 1

    def _note_key(self, identifier: str, element: Element, type_id: str, kind: str) -> None:
        fields = self.fields_of_type(type_id, kind)
        values = {fields.get(reference): value for reference, value in self.read_values(element, Counter())}
        if key := next((values[name] for name in _NAMES_OF_RECORDS if values.get(name)), None):
            self.keys[identifier] = key

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
        if self.relates_criteria(self.find_type(element)):
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
        self._own_kinds.clear()
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
        specification = self._places[0].own if self._places else place.own
        for child in place.children:
            if child in self.parents:
                self.skipped["second place of an object in the hierarchy"] += 1
            # not the first in the file, because other tools change the order of the specifications
            if specification < self._specifications.get(child, "\U0010ffff"):
                self.parents[child], self._specifications[child] = place.own, specification
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


_REQUIREMENT_REFERENCE = re.compile("REQ-(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,8})")
_CHILD_OF = "child_of"
_UNPLACED = "Objects without a specification"
_SEPARATOR = " / "
# the types that every database starts with; a record of one would replace its description
_KNOWN_RELATIONS = {*model.ORDERING_RELATIONSHIPS, "relates_to", "conflicts_with"}
_KNOWN_TYPES = {"Functional", "Non-Functional", "Business Rule", "Interface", "Data"}


class MakeId(Protocol):
    """Makes the ID of an object from its identifier."""

    def __call__(self, identifier: str, kind: str = "") -> str:
        """Return the ID."""


class ForeignObjects:
    """Makes records."""

    def __init__(
        self,
        structure: Structure,
        skipped: Counter[str],
        make_id: MakeId,
        add: Callable[[int, dict[str, object]], None],
    ) -> None:
        self._structure = structure
        self._skipped = skipped
        self._make_id = make_id
        self._add = add
        self._named: set[tuple[str, str]] = set()
        self._epics: set[str] = set()
        self._stories: set[str] = set()
        self._relations: set[tuple[str, str, str]] = set()

    def add_object(self, element: Element) -> None:
        """Add a user story for a heading, or a requirement."""
        identifier = element.attributes["IDENTIFIER"]
        if identifier in self._structure.headings:
            self._add_story(element, identifier)
        else:
            self._add_requirement(element, identifier)

    def add_relation(self, element: Element, type_id: str, source: str, target: str) -> None:
        """Add a relationship between two requirements. Skip relations of others."""
        name = self.name_relation(type_id, element.line)
        for end in (source, target):
            if end in self._structure.headings or self._structure.is_own(end):
                self._skipped[f"relation {name} of a heading or an object that is not a requirement"] += 1
                return
        for reference, _ in self._structure.read_values(element, self._skipped):
            self._skipped[f"attribute {shorten(self._name_attribute(type_id, reference))} of relations"] += 1
        identifier = element.attributes.get("IDENTIFIER") or f"{source} {name} {target}"
        self._relate(identifier, name, source, target, element.line)

    def name_relation(self, type_id: str, line: int) -> str:
        """Return the name of a type of relations, for which a record is added once."""
        kind = self._structure.kinds.get(type_id)
        name = (kind.name if kind else type_id).strip()[:100] or "relation"
        self._add_name("relationship_type", name, kind.description if kind else "", line)
        return name

    def finish(self) -> None:
        """Add specifications without objects."""
        for identifier, line in self._structure.lines.items():
            if not self._structure.is_ours(identifier):
                self._find_epic(identifier, line)

    def _add_story(self, element: Element, identifier: str) -> None:
        path, place = [self._structure.headings[identifier]], self._structure.parents.get(identifier)
        while place in self._structure.objects:
            if place in self._structure.headings:
                path.append(self._structure.headings[place])
            place = self._structure.parents.get(place)
        title = _SEPARATOR.join(reversed(path))
        if len(title) > model.TITLE_LENGTH:
            title = f"…{title[1 - model.TITLE_LENGTH :]}"
        fields: dict[str, object] = {"kind": "user_story", "id": self._make_id(identifier), "title": title}
        values = self._read_values(element)
        heading = choose((*CHAPTERS, *TITLES), name_values(values))
        rest = _list_rest(element, values, {heading or "LONG-NAME", "DESC"})
        fields["description"] = _join(_find_text(element, "DESC"), rest)
        fields["epic_id"] = self._find_epic(place, element.line)
        self._add(element.line, fields)

    def _add_requirement(self, element: Element, identifier: str) -> None:
        kind, values = self._structure.kind_of(element), self._read_values(element)
        named = name_values(values)
        heading, body, reference = (choose(names, named) for names in ((*CHAPTERS, *TITLES), TEXTS, REFERENCES))
        used = {heading or "LONG-NAME", body or "DESC"}
        text = named.get(body) or _find_text(element, "DESC")
        title, text = _split_title(named.get(heading) or _find_text(element, "LONG-NAME") or text or identifier, text)
        fields: dict[str, object] = {"kind": "requirement", "id": self._make_id(identifier), "title": title}
        if _REQUIREMENT_REFERENCE.fullmatch(named.get(reference, "")):
            fields["reference_id"] = named[reference]
            used.add(reference)
        fields["description"] = _join(text, _list_rest(element, values, used))
        fields["type_id"] = kind.name.strip()[:100] or "Functional"
        self._add_name("requirement_type", str(fields["type_id"]), kind.description, element.line)
        fields["user_story_id"] = self._find_story(identifier, element.line)
        self._add(element.line, fields)

    def _read_values(self, element: Element) -> list[tuple[str, str]]:
        """Return the names of the attributes of an object, with their values."""
        names = self._structure.kind_of(element).attributes
        values = self._structure.read_values(element, self._skipped)
        return [(names.get(reference, reference), value.strip()) for reference, value in values]

    def _find_story(self, identifier: str, line: int) -> str:
        """Return the ID of the user story of a requirement. Relate the requirement to one that contains it."""
        place, is_first = self._structure.parents.get(identifier), True
        while place in self._structure.objects:
            if place in self._structure.headings:
                return self._make_id(place)
            if is_first and not self._structure.is_own(place):
                self._relate(f"{identifier} {_CHILD_OF}", _CHILD_OF, identifier, place, line)
            is_first = False
            place = self._structure.parents.get(place)
        epic = self._find_epic(place, line)
        story = self._make_id(f"{place} story")
        if story not in self._stories:
            self._stories.add(story)
            title = self._structure.names.get(place or "", _UNPLACED)
            self._add(line, {"kind": "user_story", "id": story, "epic_id": epic, "title": _cut(title)})
        return story

    def _find_epic(self, specification: str | None, line: int) -> str:
        epic = self._make_id(specification) if specification else self._make_id("no specification")
        if epic not in self._epics:
            self._epics.add(epic)
            title = self._structure.names.get(specification or "", _UNPLACED)
            where = self._structure.lines.get(specification or "", line)
            self._add(where, {"kind": "epic", "id": epic, "title": _cut(title)})
        return epic

    def _relate(self, identifier: str, name: str, source: str, target: str, line: int) -> None:
        if name == _CHILD_OF:
            self._add_name("relationship_type", name, "The source is inside the target in a specification.", line)
        if source == target or (source, target, name) in self._relations:
            self._skipped[f"relation {name} that is repeated or leads to its own source"] += 1
            return
        self._relations.add((source, target, name))
        fields: dict[str, object] = {"kind": "relationship", "id": self._make_id(identifier)}
        fields["source_requirement_id"] = self._make_id(source)
        fields["target_requirement_id"] = self._make_id(target)
        fields["relationship_type_id"] = name
        self._add(line, fields)

    def _add_name(self, kind: str, name: str, description: str, line: int) -> None:
        if (kind, name) not in self._named and name not in _KNOWN_RELATIONS | _KNOWN_TYPES:
            self._named.add((kind, name))
            self._add(line, {"kind": kind, "name": name, "description": description or None})

    def _name_attribute(self, type_id: str, reference: str) -> str:
        kind = self._structure.kinds.get(type_id)
        return kind.attributes.get(reference, reference) if kind else reference


def _find_text(element: Element, name: str) -> str:
    return element.attributes.get(name, "").strip()


def _list_rest(element: Element, values: list[tuple[str, str]], used: set[str]) -> str:
    """Return a line for each value that is not used. Names of attributes in `used` are in lower case."""
    named = name_values(values)
    rest = [(name, text) for name, text in values if name.casefold() not in used or text != named[name.casefold()]]
    known = {element.attributes["IDENTIFIER"], *(text for _, text in values)}  # many tools repeat one as the LONG-NAME
    own = [(name, _find_text(element, name)) for name in ("LONG-NAME", "DESC") if name not in used]
    rest += [(name, text) for name, text in own if text not in known]
    return "\n".join(f"{name}: {text}" for name, text in rest if text)


def _join(text: str, rest: str) -> str | None:
    return "\n\n".join(one for one in (text, rest) if one) or None


def _cut(title: str) -> str:
    return title if len(title) <= model.TITLE_LENGTH else f"{title[: model.TITLE_LENGTH - 1]}…"


def _split_title(title: str, text: str) -> tuple[str, str]:
    """Return a title of one line, and the text without what the title already says."""
    line = title.strip().split("\n", 1)[0]
    whole = title.strip() if title.strip() != text else ""
    if len(line) > model.TITLE_LENGTH or (line != whole and whole):
        text = "\n\n".join(one for one in (whole, text) if one)
    return _cut(line), "" if text == line and len(line) <= model.TITLE_LENGTH else text
