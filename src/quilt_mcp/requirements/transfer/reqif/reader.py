"""Reads ReqIF files: those of an export exactly, and those of other tools as far as their structure allows."""

import re
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import BinaryIO

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import (
    ACCEPTANCE_CRITERIA,
    BY_NAME,
    PARENTS,
    RELATIONSHIP_TYPES,
    REQUIREMENT,
    REQUIREMENT_TYPES,
    USER_STORY,
)
from quilt_mcp.requirements.transfer.files import Numbered, Parse, Refused, parse_numbered
from quilt_mcp.requirements.transfer.records import Rejection, parse_record, shorten
from quilt_mcp.requirements.transfer.reqif.archive import open_reqif
from quilt_mcp.requirements.transfer.reqif.elements import Element, UnreadableXML, read_elements
from quilt_mcp.requirements.transfer.reqif.mapping import Mapped, Mapper
from quilt_mcp.requirements.transfer.reqif.names import (
    DELETED,
    PACKED,
    REFERENCES,
    Names,
    choose,
    cut_name,
    fold,
    name_values,
)
from quilt_mcp.requirements.transfer.reqif.structure import Structure, find_ends
from quilt_mcp.requirements.transfer.reqif.texts import unpack
from quilt_mcp.requirements.transfer.sources import Chosen, Memory
from quilt_mcp.requirements.transfer.spool import normalize_id

_IDS = uuid.UUID("5d3c2b0e-6d1c-4a51-9a55-6f0d3e1f7b42")
"""The namespace of the IDs of objects that have no UUIDs as identifiers."""
_REQUIREMENT_REFERENCE = re.compile("REQ-(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,8})")
_CHILD_OF = "child_of"
_UNPLACED = "Objects without a specification"
_SEPARATOR = " / "
# the types that every database starts with; a record of one would replace its description
_KNOWN = {*REQUIREMENT_TYPES, *RELATIONSHIP_TYPES}
_TRUE = {"true", "1", "yes"}
_GIVEN_UP = {
    "obsolete", "deleted", "removed", "cancelled", "canceled", "rejected", "withdrawn", "retired", "deprecated",
    "superseded",
}  # fmt: skip
_PRIORITIES = {**model.PRIORITIES, **{str(number): number for number in model.PRIORITIES.values()}}


class ReqifReader:
    """Reads the records of a file, once: iterate over it. A record that is not valid is `Refused`.

    The file is read twice: first its structure, then its objects. The structure is read again if types follow what has
    them, because ReqIF allows any order. Iterating raises OSError if the file cannot be read.

    Attributes:
        bytes_read: of the file, so far; half of them until the second reading starts.
        may_be_cut: no, because a file that is cut off is not valid.
        source: what tells the files of one repository or tool from others.
        mapping: the attributes that have the fields of records, where their names do not say so.
        encoding: none, because XML has its own.
    """

    encoding = None

    may_be_cut = False

    def __init__(
        self,
        file: BinaryIO,
        skipped: Counter[str],
        *,
        parse: Parse = parse_record,
        given: Mapping[str, str] | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._file = file
        self._skipped = skipped
        self._parse = parse
        self._given = given or {}
        self._memory = memory or Memory()
        self._mapper = Mapper()
        self._in_archive: Counter[str] = Counter()
        self._share = 1.0  # the size of an archive, as part of that of its file
        self._read = 0
        self.bytes_read = 0
        self.source = "reqif"

    def __iter__(self) -> Iterator[Numbered | Refused]:
        if not self._file.seekable():
            reason = "ReqIF is read twice, so it cannot be read from a pipe. Save it to a file."
            yield Refused([Rejection(0, None, reason)], None, ends_file=True)
            return
        try:
            with open_reqif(self._file, self._in_archive) as (self._file, self._share):
                structure = self._find_structure()
                structure.finish()
                self._skipped.update(self._in_archive)
                yield from structure.refused
                if structure.refused:
                    return
                self._file.seek(0)
                yield from self._read_records(structure)
        except UnreadableXML as error:
            yield Refused([error.rejection], None, ends_file=True)

    @property
    def mapping(self) -> Chosen:
        return self._mapper.chosen

    @property
    def mapped(self) -> list[Mapped]:
        """What was found in the objects of each type of other tools."""
        return [*self._mapper.used.values()]

    def _find_structure(self) -> Structure:
        structure = self._read_structure(Structure(self._skipped, mapper=Mapper(self._given)))
        if structure.types_follow:
            structure = self._read_again(structure, Mapper(self._given))
        self.source = f"reqif {structure.source}".strip()
        self._mapper = structure.mapper
        self._memory.recall(self.source)
        if self._mapper.choose(self._memory.mapping):
            structure = self._read_again(structure, self._mapper)
        for problem in self._mapper.find_unknown():
            structure.refuse(0, None, problem)
        return structure

    def _read_again(self, before: Structure, mapper: Mapper) -> Structure:
        self._skipped.clear()
        self._read = self._file.seek(0)
        known = Structure(self._skipped, has_escapes=before.has_escapes, mapper=mapper)
        known.types, known.options = before.types, before.options
        return self._read_structure(known)

    def _read_structure(self, structure: Structure) -> Structure:
        for size in read_elements(self._file, structure.open, structure.close):
            self._note(size)
        return structure

    def _note(self, size: int) -> None:
        self._read += size
        self.bytes_read = int(self._read * self._share) // 2

    def _read_records(self, structure: Structure) -> Iterator[Numbered | Refused]:
        objects = _Objects(structure, self._memory.users)
        wanted = {"SPEC-OBJECT": objects.add_object, "SPEC-RELATION": objects.add_relation}

        def close(_: tuple[str, ...], element: Element) -> None:
            if add := wanted.get(element.name):
                add(element)

        for size in read_elements(self._file, lambda _, element: element.name in wanted, close):
            self._note(size)
            yield from self._take(objects)
        objects.finish()
        yield from self._take(objects)

    def _take(self, objects: "_Objects") -> Iterator[Numbered | Refused]:
        for line, fields, place in objects.found:
            record = parse_numbered(line, fields, self._parse) if isinstance(fields, dict) else fields
            is_foreign = isinstance(fields, dict) and objects.foreign.pop(str(fields.get("id")), False)
            yield record._replace(is_foreign=is_foreign, place=place) if isinstance(record, Numbered) else record
        objects.found.clear()


class _Objects:
    """Makes records of objects and relations: exactly of our own types, and as far as possible of others."""

    def __init__(self, structure: Structure, users: Mapping[str, str]) -> None:
        self._structure = structure
        self._users = users
        self._skipped = structure.skipped
        self.found: list[tuple[int, dict[str, object] | Refused, int]] = []
        self.foreign: dict[str, bool] = {}  # the IDs of records with a number of another tool
        self._named: set[tuple[str, str]] = set()
        self._made: set[str] = set()  # the epics and user stories of objects that have none
        self._relations: set[tuple[str, str, str]] = set()

    def add_object(self, element: Element) -> None:
        type_id, identifier = element.refer("TYPE"), element.attributes["IDENTIFIER"]
        if kind := self._structure.find_own_kind(type_id):
            self._add_own(element, type_id, kind)
        elif identifier in self._structure.headings:
            self._add_story(element, identifier)
        else:
            self._add_requirement(element, identifier)

    def add_relation(self, element: Element) -> None:
        source, target = find_ends(element)
        type_id = element.refer("TYPE")
        if not {source, target} <= self._structure.objects.keys():
            name = self._structure.type_of(element).name or type_id
            self._skipped[f"relation {shorten(name)} to an object that the file does not have"] += 1
        elif _is_deleted(name_values(self._structure.read_named(element, Counter()))):
            self._skipped[f"deleted relation {shorten(self._structure.type_of(element).name or type_id)}"] += 1
        elif self._structure.relates_criteria(type_id):
            pass  # which the requirements say
        elif {self._structure.kind_of_object(end) for end in (source, target)} == {"requirement"}:
            self._add_relationship(element, type_id, source, target)
        else:
            self._add_foreign_relation(element, type_id, source, target)

    def finish(self) -> None:
        """Add specifications without objects. Refuse two that are one epic."""
        epics: dict[str, str] = {}
        lines = self._structure.lines
        for identifier, line in lines.items():
            if self._structure.is_ours(identifier):
                continue
            before = epics.setdefault(self._find_epic(identifier, line), identifier)
            if before != identifier:
                reason = f"Duplicate of line {lines[before]}: UUIDs that differ only in case are the same. Change one."
                self.found.append((line, Refused([Rejection(line, "IDENTIFIER", reason)], None), 0))

    def _add(self, line: int, fields: dict[str, object], identifier: str | None = None) -> None:
        """Add a record, of an object or a specification with this identifier, at whose place it is."""
        ranks = self._structure.ranks
        self.found.append((line, fields, ranks.get(identifier, len(ranks) + 1) if identifier is not None else 0))

    def _make_id(self, identifier: str, kind: str = "") -> str:
        """Return the ID of an object: the UUID in its identifier, or else one that only depends on the identifier."""
        # before a UUID, our own identifiers have the kind, and many of other tools a `_`
        text = identifier.removeprefix(f"{kind}-").removeprefix("_").lower()
        # other forms of a UUID, such as without hyphens, may be numbers of something else
        if normalize_id(text) == text:
            return text
        return str(uuid.uuid5(_IDS, f"{self._structure.repository}\n{identifier}"))

    def _refer(self, identifier: str, kind: str) -> str:
        """Return the reference ID or the name of an object of which another tool changed the identifier, or its ID."""
        return self._structure.keys.get(identifier) or self._make_id(identifier, kind)

    def _add_relationship(self, element: Element, type_id: str, source: str, target: str) -> None:
        fields = self._read_own(element, type_id, "relationship")
        fields["source_requirement_id"] = self._refer(source, "requirement")
        fields["target_requirement_id"] = self._refer(target, "requirement")
        if type_id.startswith("relation-"):
            fields["relationship_type_id"] = type_id.removeprefix("relation-")
        else:
            known = self._structure.relation_names.get(fold(self._structure.find_type(type_id).name or type_id))
            fields["relationship_type_id"] = known or self._name_relation(type_id, element.line)
        if not element.attributes.get("IDENTIFIER"):
            fields["id"] = self._make_id(f"{source} {type_id} {target}")
        elif source in self._structure.keys:
            del fields["id"]  # which the other tool changed too
        if not type_id.startswith("relation-") and "id" in fields:
            self.foreign[str(fields["id"])] = True
        self._add(element.line, fields)

    def _add_foreign_relation(self, element: Element, type_id: str, source: str, target: str) -> None:
        """Add a relationship between two requirements. Skip relations of others."""
        name = self._name_relation(type_id, element.line)
        for end in (source, target):
            if end in self._structure.headings or self._structure.kind_of_object(end):
                self._skipped[f"relation {name} of a heading or an object that is not a requirement"] += 1
                return
        for attribute, _ in self._structure.read_named(element, self._skipped):
            self._skipped[f"attribute {shorten(attribute)} of relations"] += 1
        identifier = element.attributes.get("IDENTIFIER") or f"{source} {name} {target}"
        self._relate(identifier, name, source, target, element.line)

    def _name_relation(self, type_id: str, line: int) -> str:
        """Return the name of a type of relations, for which a record is added once."""
        found = self._structure.find_type(type_id)
        name = cut_name(found.name or type_id) or "relation"
        self._add_name("relationship_type", name, found.description, line)
        return name

    def _add_own(self, element: Element, type_id: str, kind: str) -> None:
        """Add the record of an object of a type that our own export wrote."""
        fields = self._read_own(element, type_id, kind)
        identifier = element.attributes["IDENTIFIER"]
        if kind in PARENTS and (parent := self._find_parent(identifier, kind)):
            fields[PARENTS[kind]] = parent
        if kind == "requirement" and self._structure.has_criteria:  # without a relation, it has no criterion
            criterion = self._structure.criteria.get(identifier)
            fields["acceptance_criteria_id"] = self._refer(criterion, ACCEPTANCE_CRITERIA.name) if criterion else None
        self._add(element.line, fields, identifier if kind in PARENTS else None)

    def _read_own(self, element: Element, type_id: str, kind: str) -> dict[str, object]:
        """Return the fields that are attributes. A field that the type has and the object does not is None."""
        names = self._structure.fields_of_type(type_id, kind)
        fields: dict[str, object] = dict.fromkeys(names.values())
        is_deleted = False
        for reference, value in self._structure.read_values(element, self._skipped):
            name = self._structure.type_of(element).attributes.get(reference, reference)
            if reference in names:
                fields[names[reference]] = value
            elif "status" in fields and _is_deleted({name.casefold(): value}):  # another tool added this
                is_deleted = True
            else:
                self._skipped[f"attribute {shorten(name)} of {kind}"] += 1
        if is_deleted:
            fields["status"] = BY_NAME[kind].statuses[-1]
        packed = fields.pop(PACKED, None)
        if packed:
            self._unpack(element.line, fields, str(packed))
        fields["kind"] = kind
        if kind != "member" and element.attributes.get("IDENTIFIER") not in self._structure.keys:
            fields["id"] = self._make_id(element.attributes.get("IDENTIFIER", ""), kind)
        return fields

    def _unpack(self, line: int, fields: dict[str, object], packed: str) -> None:
        try:
            unpack(fields, packed)
        except (ValueError, TypeError, RecursionError):
            reason = "Is not valid. Remove this attribute; then characters that XML cannot contain are replaced."
            self.found.append((line, Refused([Rejection(line, PACKED, reason)], None), 0))

    def _find_parent(self, identifier: str, kind: str) -> str | None:
        """Return the ID of the next object above of the parent's kind; of an epic, the project of its specification."""
        parent_kind, place = BY_NAME[kind].parent, self._structure.parents.get(identifier)
        while place is not None:
            if parent_kind is None:
                if project := self._structure.find_project(place):
                    return project
            elif self._structure.kind_of_object(place) == parent_kind:
                return self._refer(place, parent_kind)
            place = self._structure.parents.get(place)
        return None

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
        values = self._structure.read_named(element, self._skipped)
        named = name_values(values)
        names = self._count(element, path[0], named)
        heading = choose(names.titles, named)
        if not heading and " ".join(named.get(choose(names.texts, named), "").split()) == path[0]:
            heading = choose(names.texts, named)
        plan, used = self._read_plan(USER_STORY, named, names)
        rest = _list_rest(element, values, {heading or "LONG-NAME", "DESC"} | used)
        fields |= plan
        fields["description"] = _join(_find_text(element, "DESC"), rest)
        fields["epic_id"] = self._find_epic(place, element.line)
        self._add(element.line, fields, identifier)

    def _add_requirement(self, element: Element, identifier: str) -> None:
        own_type, values = self._structure.type_of(element), self._structure.read_named(element, self._skipped)
        named = name_values(values)
        names = self._structure.names_for(element.refer("TYPE"))
        heading, body, reference = (choose(one, named) for one in (names.titles, names.texts, REFERENCES))
        plan, used = self._read_plan(REQUIREMENT, named, names)
        if not body and self._structure.has_only_struck_text(element):
            plan["status"] = REQUIREMENT.statuses[-1]
        used |= {heading or "LONG-NAME", body or "DESC"}
        text = named.get(body) or _find_text(element, "DESC")
        title, text = _split_title(named.get(heading) or _find_text(element, "LONG-NAME") or text or identifier, text)
        self._count(element, title, named)
        fields: dict[str, object] = {"kind": "requirement", "id": self._make_id(identifier), "title": title, **plan}
        if _REQUIREMENT_REFERENCE.fullmatch(named.get(reference, "").strip()):
            fields["reference_id"] = named[reference].strip()
            self.foreign[str(fields["id"])] = True
            used.add(reference)
        fields["description"] = _join(text, _list_rest(element, values, used))
        fields["type_id"] = cut_name(own_type.name) or "Functional"
        self._add_name("requirement_type", str(fields["type_id"]), own_type.description, element.line)
        fields["user_story_id"] = self._find_story(identifier, element.line)
        self._add(element.line, fields, identifier)

    def _count(self, element: Element, title: str, named: Mapping[str, str]) -> Names:
        type_id = element.refer("TYPE")
        self._structure.mapper.count(self._structure.find_type(type_id).name or type_id, title, named)
        return self._structure.names_for(type_id)

    def _read_plan(
        self, kind: model.Kind, named: Mapping[str, str], names: Names
    ) -> tuple[dict[str, object], set[str]]:
        """Return the planned fields of an object, and the names of the attributes that they repeat exactly.

        An assignee is a user that the database has.
        """
        fields, used = _read_plan(kind, named, names)
        for name in names.fields["assignee"]:
            if user := self._users.get(named.get(name, "").casefold()):
                return fields | {"assignee_id": user}, used | {name}
        return fields, used

    def _find_story(self, identifier: str, line: int) -> str:
        """Return the ID of the user story of a requirement. Relate the requirement to one that contains it."""
        place, is_first = self._structure.parents.get(identifier), True
        while place in self._structure.objects:
            if place in self._structure.headings:
                return self._make_id(place)
            if is_first and not self._structure.kind_of_object(place):
                self._relate(f"{identifier} {_CHILD_OF}", _CHILD_OF, identifier, place, line)
            is_first = False
            place = self._structure.parents.get(place)
        epic = self._find_epic(place, line)
        story = self._make_id(f"{place} story")
        if story not in self._made:
            self._made.add(story)
            title = self._structure.names.get(place or "", _UNPLACED)
            fields: dict[str, object] = {"kind": "user_story", "id": story, "epic_id": epic, "title": _cut(title)}
            self._add(line, fields, self._first_requirements.get(place, ""))
        return story

    @cached_property
    def _first_requirements(self) -> dict[str | None, str]:
        """The first requirements without a heading, by specification."""
        found: dict[str | None, str] = {}
        for identifier in self._structure.ranks:  # in their order
            place: str | None = identifier
            while place in self._structure.objects and place not in self._structure.headings:
                place = self._structure.parents.get(place)
            if identifier in self._structure.objects and place not in self._structure.objects:
                found.setdefault(place, identifier)
        return found

    def _find_epic(self, specification: str | None, line: int) -> str:
        epic = self._make_id(specification) if specification else self._make_id("no specification")
        if epic not in self._made:
            self._made.add(epic)
            title = self._structure.names.get(specification or "", _UNPLACED)
            where = self._structure.lines.get(specification or "", line)
            self._add(where, {"kind": "epic", "id": epic, "title": _cut(title)}, specification or "")
        return epic

    def _relate(self, identifier: str, name: str, source: str, target: str, line: int) -> None:
        if name == _CHILD_OF:
            self._add_name("relationship_type", name, "The source is inside the target in a specification.", line)
        if source == target or (source, target, name) in self._relations:
            self._skipped[f"relation {name} that is repeated or leads to its own source"] += 1
            return
        self._relations.add((source, target, name))
        self.foreign[self._make_id(identifier)] = True
        ends = {"source_requirement_id": self._make_id(source), "target_requirement_id": self._make_id(target)}
        self._add(line, {"kind": "relationship", "id": self._make_id(identifier), **ends, "relationship_type_id": name})

    def _add_name(self, kind: str, name: str, description: str, line: int) -> None:
        if (kind, name) not in self._named and name not in _KNOWN:
            self._named.add((kind, name))
            self._add(line, {"kind": kind, "name": name, "description": description or None})


def _is_deleted(named: Mapping[str, str]) -> bool:
    return any(named.get(name, "").casefold() in _TRUE for name in DELETED)


def _read_plan(kind: model.Kind, named: Mapping[str, str], names: Names) -> tuple[dict[str, object], set[str]]:
    """Return the status and the priority of an object, and the names of the attributes that they repeat exactly.

    What is deleted, or has a status that means it, gets the last status, so that it is not counted as planned work.
    """
    fields: dict[str, object] = {}
    used: set[str] = set()
    written = {name: named.get(name, "").casefold() for name in names.fields["status"]}
    is_given_up = _is_deleted(named) or any(one in _GIVEN_UP for one in written.values())
    allowed = {one.casefold(): one for one in kind.statuses}
    known = [allowed[one] for one in written.values() if one in allowed]
    if is_given_up or known:
        status = kind.statuses[-1] if is_given_up else known[0]
        fields["status"] = status
        used = {name for name, one in written.items() if one == status.casefold()}
    for name in names.fields["priority"]:
        if (priority := named.get(name, "").casefold()) in _PRIORITIES:
            fields["priority"] = _PRIORITIES[priority]
            used.add(name)
    return fields, used


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
    title = title.strip()
    line, is_text = title.split("\n", 1)[0], text.strip() == title
    if line == title and len(line) <= model.TITLE_LENGTH:
        return line, "" if is_text else text
    return _cut(line), text if is_text else "\n\n".join(one for one in (title, text) if one)
