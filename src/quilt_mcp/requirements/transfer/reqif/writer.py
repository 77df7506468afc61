"""Writes ReqIF files (OMG ReqIF 1.2). `import` reads them again exactly.

Each record is a SPEC-OBJECT with its kind as its type. The parents of entities are in the hierarchy: a SPECIFICATION
for each project contains its epics, user stories, acceptance criteria and requirements. Relationships, and the
acceptance criteria of requirements, are SPEC-RELATIONs.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import TextIO

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import LINKS, PARENTS, TABLES
from quilt_mcp.requirements.tables import Values
from quilt_mcp.requirements.transfer.records import show_time
from quilt_mcp.requirements.transfer.reqif.names import (
    ACCEPTANCE,
    DATATYPES,
    OWN,
    PACKED,
    SPECIFICATION,
    fields_of,
    name_field,
)
from quilt_mcp.requirements.transfer.reqif.texts import pack, quote
from quilt_mcp.requirements.transfer.spool import normalize_id
from quilt_mcp.requirements.writing import new_id

_HEADER = """\
<?xml version="1.0" encoding="UTF-8"?>
<REQ-IF xmlns="http://www.omg.org/spec/ReqIF/20110401/reqif.xsd" xmlns:xhtml="http://www.w3.org/1999/xhtml">
<THE-HEADER><REQ-IF-HEADER IDENTIFIER="_{id}"><CREATION-TIME>{now}</CREATION-TIME>\
<REQ-IF-TOOL-ID>quilt-mcp</REQ-IF-TOOL-ID><REQ-IF-VERSION>1.0</REQ-IF-VERSION>\
<SOURCE-TOOL-ID>quilt-mcp</SOURCE-TOOL-ID><TITLE>Requirements</TITLE></REQ-IF-HEADER></THE-HEADER>
<CORE-CONTENT><REQ-IF-CONTENT>
"""
_FOOTER = "</REQ-IF-CONTENT></CORE-CONTENT></REQ-IF>\n"
_FIRST_KINDS = ("user", "project", "member", "requirement_type", "relationship_type")
_DEFAULT = "specification-default"
"""The place of epics without a project: those of the earlier requirements system."""
_LISTS = "specification-lists"
"""The place of users, projects and types. Some tools drop objects that no specification contains."""


class ReqifWriter:
    """Writes records to a text file, in the order of an export. Call `finish` at the end."""

    def __init__(self, file: TextIO) -> None:
        self._put = file.write
        self._first: list[Values] = []
        self._has_objects = False
        self._has_relations = False
        self._names: dict[tuple[str, str], str] = {}  # what stands for the IDs of users, projects and types
        self._now = str(show_time(datetime.now(UTC)))
        # the hierarchy follows the objects, so it waits on the disk
        self._places = sqlite3.connect("", isolation_level=None)
        self._places.executescript(
            "PRAGMA journal_mode = OFF; CREATE TABLE places (number INTEGER PRIMARY KEY, parent TEXT, object TEXT);"
            "CREATE TABLE criteria (requirement TEXT, criterion TEXT, time TEXT); BEGIN;"
        )

    def write(self, values: Mapping[str, object]) -> None:
        record = {name: show_time(value) for name, value in values.items() if value is not None}
        if record["kind"] in _FIRST_KINDS:
            self._first.append(record)
            self._note_name(record)
        elif record["kind"] == "relationship":
            self._write_relationship(record)
        else:
            self._start_objects()
            self._write_object(record)

    def finish(self) -> None:
        with closing(self._places):
            self._start_relations()
            self._put("</SPEC-RELATIONS>\n<SPECIFICATIONS>\n")
            self._places.execute("CREATE INDEX places_of_parent ON places (parent, number)")
            self._write_specification(_LISTS, "Users, projects and types")
            for project in (one for one in self._first if one["kind"] == "project"):
                self._write_specification(f"{SPECIFICATION}{project['id']}", project["name"])
            if next(self._list_objects(_DEFAULT), None):
                self._write_specification(_DEFAULT, "Default")
            self._put(f"</SPECIFICATIONS>\n{_FOOTER}")

    def _note_name(self, record: Values) -> None:
        """Remember names that can stand for an ID, because they do not look like one."""
        name = record.get("username", record.get("name", ""))
        if record["kind"] in {"user", "requirement_type", "project"} and name and not normalize_id(name):
            self._names[TABLES[record["kind"]], record["id"]] = name

    def _start_objects(self) -> None:
        if self._has_objects:
            return
        self._has_objects = True
        self._put(_HEADER.format(id=new_id(), now=self._now))
        self._put(f"<DATATYPES>{''.join(_describe_datatypes(self._now))}</DATATYPES>\n<SPEC-TYPES>\n")
        for kind in TABLES:
            if kind != "relationship":
                self._write_type("SPEC-OBJECT-TYPE", f"{OWN}{kind}", kind, fields_of(kind))
        for record in self._first:
            if record["kind"] == "relationship_type":
                type_id = f"relation-{record['id']}"
                self._write_type("SPEC-RELATION-TYPE", type_id, record["name"], fields_of("relationship"))
        self._write_type("SPEC-RELATION-TYPE", ACCEPTANCE, "acceptance criterion", {})
        self._write_type("SPECIFICATION-TYPE", f"{OWN}specification", "Requirements", {})
        self._put("</SPEC-TYPES>\n<SPEC-OBJECTS>\n")
        for record in self._first:
            self._write_object(record)

    def _write_type(self, tag: str, type_id: str, name: str, datatypes: Mapping[str, str]) -> None:
        """Write a type of objects, relations or specifications, with the data type of each of its fields."""
        attributes = "".join(self._describe_attribute(type_id, *one) for one in datatypes.items())
        content = f"><SPEC-ATTRIBUTES>{attributes}</SPEC-ATTRIBUTES></{tag}>" if attributes else "/>"
        self._put(f"<{tag} {self._identify(type_id, self._now)} LONG-NAME={quote(name)}{content}\n")

    def _describe_attribute(self, type_id: str, field: str, datatype: str) -> str:
        # the identifiers of a file are unique, and each type of relation has its own definitions
        start = f"{self._identify(f'{type_id}.{field}', self._now)} LONG-NAME={quote(name_field(field))}"
        reference = f"<DATATYPE-DEFINITION-{datatype}-REF>{OWN}{datatype}</DATATYPE-DEFINITION-{datatype}-REF>"
        tag = f"ATTRIBUTE-DEFINITION-{datatype}"
        return f"<{tag} {start}><TYPE>{reference}</TYPE></{tag}>"

    @staticmethod
    def _identify(identifier: str, time: object) -> str:
        return f"IDENTIFIER={quote(identifier)} LAST-CHANGE={quote(time)}"

    def _write_object(self, record: Values) -> None:
        kind = record["kind"]
        key = f"{record['user_id']}-{record['project_id']}" if kind == "member" else record["id"]
        identifier = f"{kind}-{key}"
        type_id = f"{OWN}{kind}"
        values = self._describe_values(record, type_id)
        self._put(
            f"<SPEC-OBJECT {self._identify(identifier, record.get('updated_at', self._now))}><TYPE>"
            f"<SPEC-OBJECT-TYPE-REF>{type_id}</SPEC-OBJECT-TYPE-REF></TYPE>{values}</SPEC-OBJECT>\n"
        )
        self._places.execute("INSERT INTO places (parent, object) VALUES (?, ?)", (_find_place(record), identifier))
        if criterion := record.get("acceptance_criteria_id"):
            row = (record["id"], criterion, record.get("updated_at", self._now))
            self._places.execute("INSERT INTO criteria VALUES (?, ?, ?)", row)

    def _describe_values(self, record: Values, type_id: str) -> str:
        """Return the attributes of a record. Its kind is in the type, and the parent of an entity in the hierarchy."""
        datatypes = fields_of(record["kind"])
        fields = {
            name: self._names.get((LINKS[name], value), value) if name in LINKS else value
            for name, value in record.items()
            if name in datatypes
        }
        if packed := pack(fields):  # of texts that XML cannot contain
            fields[PACKED] = packed
        values = (_describe_value(type_id, name, datatypes[name], value) for name, value in fields.items())
        return f"<VALUES>{''.join(values)}</VALUES>"

    def _start_relations(self) -> None:
        self._start_objects()
        if self._has_relations:
            return
        self._has_relations = True
        self._put("</SPEC-OBJECTS>\n<SPEC-RELATIONS>\n")
        for requirement, criterion, time in self._places.execute("SELECT * FROM criteria ORDER BY rowid"):
            ends = f"requirement-{requirement}", f"{model.ACCEPTANCE_CRITERIA.name}-{criterion}"
            self._write_relation(f"criterion-{requirement}", time, ACCEPTANCE, ends, "")

    def _write_relationship(self, record: Values) -> None:
        self._start_relations()
        type_id = f"relation-{record['relationship_type_id']}"
        ends = (f"requirement-{record['source_requirement_id']}", f"requirement-{record['target_requirement_id']}")
        values = self._describe_values(record, type_id)
        time = record.get("created_at", self._now)  # the earlier requirements system can have rows without times
        self._write_relation(f"relationship-{record['id']}", time, type_id, ends, values)

    def _write_relation(self, identifier: str, time: object, type_id: str, ends: tuple[str, str], values: str) -> None:
        source, target = ends
        self._put(
            f"<SPEC-RELATION {self._identify(identifier, time)}><TYPE><SPEC-RELATION-TYPE-REF>{type_id}"
            f"</SPEC-RELATION-TYPE-REF></TYPE><SOURCE><SPEC-OBJECT-REF>{source}</SPEC-OBJECT-REF></SOURCE>"
            f"<TARGET><SPEC-OBJECT-REF>{target}</SPEC-OBJECT-REF></TARGET>{values}</SPEC-RELATION>\n"
        )

    def _write_specification(self, place: str, name: str) -> None:
        self._put(
            f"<SPECIFICATION {self._identify(place, self._now)} LONG-NAME={quote(name)}>"
            f"<TYPE><SPECIFICATION-TYPE-REF>{OWN}specification</SPECIFICATION-TYPE-REF></TYPE><CHILDREN>\n"
        )
        pending: list[Iterator[tuple[str]]] = [self._list_objects(place)]
        while pending:
            row = next(pending[-1], None)
            if row is None:
                pending.pop()
                self._put("</CHILDREN>" if not pending else "</CHILDREN></SPEC-HIERARCHY>\n")
                continue
            self._put(
                f"<SPEC-HIERARCHY {self._identify(f'place-{row[0]}', self._now)}>"
                f"<OBJECT><SPEC-OBJECT-REF>{row[0]}</SPEC-OBJECT-REF></OBJECT><CHILDREN>"
            )
            pending.append(self._list_objects(row[0]))
        self._put("</SPECIFICATION>\n")

    def _list_objects(self, place: str) -> Iterator[tuple[str]]:
        return self._places.execute("SELECT object FROM places WHERE parent = ? ORDER BY number", (place,))


def _find_place(record: Values) -> str:
    kind = record["kind"]
    if kind not in model.BY_NAME:
        return _LISTS
    parent = record.get(PARENTS[kind])
    above = model.BY_NAME[kind].parent
    return (f"{above}-{parent}" if above else f"{SPECIFICATION}{parent}") if parent else _DEFAULT


def _describe_value(type_id: str, field: str, datatype: str, value: object) -> str:
    reference = f"ATTRIBUTE-DEFINITION-{datatype}-REF"
    return (
        f"<ATTRIBUTE-VALUE-{datatype} THE-VALUE={quote(value)}><DEFINITION><{reference}>{type_id}.{field}</{reference}>"
        f"</DEFINITION></ATTRIBUTE-VALUE-{datatype}>"
    )


def _describe_datatypes(now: str) -> Iterator[str]:
    for datatype, limits in DATATYPES.items():
        identifier = f'IDENTIFIER="{OWN}{datatype}" LAST-CHANGE="{now}"'
        yield f'<DATATYPE-DEFINITION-{datatype} {identifier} LONG-NAME="{datatype.title()}"{limits}/>'
