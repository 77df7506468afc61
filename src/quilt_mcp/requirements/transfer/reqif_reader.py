"""Reads ReqIF files: those of an export exactly, and those of other tools as far as their structure allows."""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from quilt_mcp.requirements.model import ACCEPTANCE_CRITERIA, BY_NAME, PARENTS
from quilt_mcp.requirements.transfer.files import Numbered, Parse, Refused, parse_numbered
from quilt_mcp.requirements.transfer.records import Rejection, parse_record, shorten
from quilt_mcp.requirements.transfer.reqif_structure import ForeignObjects, Structure, find_ends
from quilt_mcp.requirements.transfer.reqif_xml import (
    PACKED,
    Element,
    Handlers,
    UnreadableXML,
    fold,
    read_elements,
    unpack,
)
from quilt_mcp.requirements.transfer.spool import normalize

_IDS = uuid.UUID("5d3c2b0e-6d1c-4a51-9a55-6f0d3e1f7b42")
"""The namespace of the IDs of objects that have no UUIDs as identifiers."""


class ReqifReader:
    """Reads the records of a file, once: iterate over it. A record that is not valid is `Refused`.

    The file is read twice: first its structure, then its objects. Iterating raises OSError if it cannot be read.

    Attributes:
        bytes_read: of the file, so far; half of them until the second reading starts.
        may_be_cut: no, because a file that is cut off is not valid.
    """

    may_be_cut = False

    def __init__(self, file: BinaryIO, skipped: Counter[str], *, parse: Parse = parse_record) -> None:
        self._file = file
        self._skipped = skipped
        self._parse = parse
        self._read = 0
        self.bytes_read = 0

    def __iter__(self) -> Iterator[Numbered | Refused]:
        """Read the file."""
        if not self._file.seekable():
            reason = "ReqIF is read twice, so it cannot be read from a pipe. Save it to a file."
            yield Refused([Rejection(0, None, reason)], None, ends_file=True)
            return
        structure = Structure()
        structure.skipped = self._skipped
        try:
            for size in read_elements(self._file, Handlers(structure.open, structure.close)):
                self._note(size)
            structure.finish()
            yield from structure.refused
            if structure.refused:
                return
            self._file.seek(0)
            yield from self._read_records(structure)
        except UnreadableXML as error:
            yield Refused([error.rejection], None, ends_file=True)

    def _note(self, size: int) -> None:
        self._read += size
        self.bytes_read = self._read // 2

    def _read_records(self, structure: Structure) -> Iterator[Numbered | Refused]:
        objects = _Objects(structure, self._skipped)
        wanted = {"SPEC-OBJECT": objects.add_object, "SPEC-RELATION": objects.add_relation}

        def close(_: tuple[str, ...], element: Element) -> None:
            if add := wanted.get(element.name):
                add(element)

        handlers = Handlers(lambda _, element: element.name in wanted, close)
        for size in read_elements(self._file, handlers):
            self._note(size)
            yield from self._take(objects)
        objects.finish()
        yield from self._take(objects)

    def _take(self, objects: "_Objects") -> Iterator[Numbered | Refused]:
        for line, fields in objects.found:
            yield parse_numbered(line, fields, self._parse) if isinstance(fields, dict) else fields
        objects.found.clear()


def make_id(repository: str, identifier: str, kind: str = "") -> str:
    """Return the ID of an object: the UUID in its identifier, or else one that only depends on the identifier."""
    text = identifier.removeprefix(f"{kind}-").removeprefix("_")
    found = normalize(text)
    # other forms of a UUID, such as without hyphens, may be numbers of something else
    return found if found and found == text.lower() else str(uuid.uuid5(_IDS, f"{repository}\n{identifier}"))


class _Objects:
    """Makes records of objects and relations."""

    def __init__(self, structure: Structure, skipped: Counter[str]) -> None:
        self._structure = structure
        self._skipped = skipped
        self.found: list[tuple[int, dict[str, object] | Refused]] = []
        self._foreign = ForeignObjects(structure, skipped, self._make_id, self._add)

    def add_object(self, element: Element) -> None:
        type_id = self._structure.find_type(element)
        if kind := self._structure.find_own_kind(type_id):
            self._add_own(element, type_id, kind)
        else:
            self._foreign.add_object(element)

    def add_relation(self, element: Element) -> None:
        source, target = find_ends(element)
        type_id = self._structure.find_type(element)
        if not {source, target} <= self._structure.objects.keys():
            name = self._structure.kind_of(element).name or type_id
            self._skipped[f"relation {shorten(name)} to an object that the file does not have"] += 1
            return
        if self._structure.relates_criteria(type_id):
            return
        if self._kind_of(source) == self._kind_of(target) == "requirement":
            fields = self._read_own(element, type_id, "relationship")
            fields["source_requirement_id"] = self._refer(source, "requirement")
            fields["target_requirement_id"] = self._refer(target, "requirement")
            if type_id.startswith("relation-"):
                fields["relationship_type_id"] = type_id.removeprefix("relation-")
            else:
                fields["relationship_type_id"] = self._name_relation(type_id, element.line)
            if not element.attributes.get("IDENTIFIER"):
                fields["id"] = self._make_id(f"{source} {type_id} {target}")
            elif source in self._structure.keys:
                del fields["id"]  # which the other tool changed too
            self._add(element.line, fields)
        else:
            self._foreign.add_relation(element, type_id, source, target)

    def finish(self) -> None:
        self._foreign.finish()

    def _add(self, line: int, fields: dict[str, object]) -> None:
        self.found.append((line, fields))

    def _make_id(self, identifier: str, kind: str = "") -> str:
        return make_id(self._structure.repository, identifier, kind)

    def _refer(self, identifier: str, kind: str) -> str:
        """Return the reference ID or the name of an object of which another tool changed the identifier, or its ID."""
        return self._structure.keys.get(identifier) or self._make_id(identifier, kind)

    def _kind_of(self, identifier: str) -> str | None:
        return self._structure.kind_of_object(identifier)

    def _name_relation(self, type_id: str, line: int) -> str:
        """Return the name of a type of relations. If the file has no record of it, add one."""
        name = self._structure.kinds[type_id].name if type_id in self._structure.kinds else type_id
        return self._structure.relation_names.get(fold(name)) or self._foreign.name_relation(type_id, line)

    def _add_own(self, element: Element, type_id: str, kind: str) -> None:
        fields = self._read_own(element, type_id, kind)
        identifier = element.attributes["IDENTIFIER"]
        if kind in PARENTS and (parent := self._find_parent(identifier, kind)):
            fields[PARENTS[kind]] = parent
        if kind == "requirement" and self._structure.has_criteria:
            criterion = self._structure.criteria.get(identifier)
            fields["acceptance_criteria_id"] = self._refer(criterion, ACCEPTANCE_CRITERIA.name) if criterion else None
        self._add(element.line, fields)

    def _read_own(self, element: Element, type_id: str, kind: str) -> dict[str, object]:
        """Return the fields that are attributes. A field that the type has and the object does not is None."""
        names = self._structure.fields_of_type(type_id, kind)
        fields: dict[str, object] = dict.fromkeys(names.values())
        for reference, value in self._structure.read_values(element, self._skipped):
            if reference in names:
                fields[names[reference]] = value
            else:
                name = self._structure.kind_of(element).attributes.get(reference, reference)
                self._skipped[f"attribute {shorten(name)} of {kind}"] += 1
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
            self.found.append((line, Refused([Rejection(line, PACKED, reason)], None)))

    def _find_parent(self, identifier: str, kind: str) -> str | None:
        """Return the ID of the next object above of the parent's kind, or of the project of the specification."""
        wanted, seen = BY_NAME[kind].parent, set()
        place = self._structure.parents.get(identifier)
        while place is not None and place not in seen:
            seen.add(place)
            if wanted and self._kind_of(place) == wanted:
                return self._refer(place, wanted)
            if not wanted and (project := self._structure.find_project(place)):
                return project
            place = self._structure.parents.get(place)
        return None
