"""ReqIF: what other programs say about our files, and what an import takes from theirs."""

import io
import json
import re
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reqif
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from reqif.parser import ReqIFParser

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.model import TABLES
from quilt_mcp.requirements.transfer.files import Numbered, Refused
from quilt_mcp.requirements.transfer.reqif.reader import ReqifReader
from quilt_mcp.requirements.transfer.reqif.texts import pack, quote, replace, undo_escapes, unpack
from tests.distribution.building import create_environment, run_or_skip
from tests.requirements import generated
from tests.requirements.generated import Size
from tests.requirements.reading import name_of, place_of
from tests.requirements.test_transfer_exact import UNUSUAL, export_to
from tests.requirements.transferring import ADA, FAMILY, UUID, export, export_kind, related, requirement, write
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

SCHEMA = Path(reqif.__file__).parent / "reqif_schema" / "reqif.xsd"
UUIDS = [f"0b9c4d5e-1f2a-4b3c-8d4e-00000000000{number}" for number in range(10)]


@pytest.fixture
def exported(make_settings: Callable[..., Settings], tmp_path: Path) -> Path:
    """The export of a database with unusual texts."""
    settings = make_settings("sqlite", "tables")
    rows = generated.generate(3, Size(users=3, members=90, entities=12), UNUSUAL)
    generated.write("sqlite", place_of(settings), rows)
    export_to(tmp_path / "all.reqif", settings)
    return tmp_path / "all.reqif"


@pytest.mark.soak
def test_an_export_follows_the_schema_of_reqif(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCHEMA.parent)  # the schema refers to others by relative paths
    schema = xmlschema.XMLSchema(str(SCHEMA), base_url=str(SCHEMA.parent))
    assert [str(error)[:300] for error in schema.iter_errors(str(exported))] == []


def test_another_program_reads_an_export(exported: Path) -> None:
    found = ReqIFParser.parse(str(exported)).core_content.req_if_content
    kinds = Counter(one.spec_object_type for one in found.spec_objects)
    assert {kinds[f"quilt-mcp.{kind}"] for kind in ("epic", "user_story", "acceptance_criteria", "requirement")} == {12}
    epics = [one for one in found.spec_objects if one.spec_object_type == "quilt-mcp.epic"]
    titles = {one.attribute_map["quilt-mcp.epic.title"].value for one in epics}
    assert titles <= {replace(text[:500]) for text in (*UNUSUAL, "x")}
    assert found.specifications[0].long_name == "Users, projects and types"
    assert len(found.specifications) == 4
    objects = {one.identifier for one in found.spec_objects}
    assert {end for one in found.spec_relations for end in (one.source, one.target)} <= objects


@given(st.text())
def test_texts_are_quoted_exactly(text: str) -> None:
    fields: dict[str, object] = {"title": text}
    packed = pack(fields)
    found = {"title": etree.fromstring(f"<a b={quote(text)}/>".encode()).get("b")}
    if packed:
        unpack(found, packed)
    assert found == fields


def test_a_packed_text_that_was_changed_since_is_not_restored() -> None:
    packed = pack({"title": "a\x01", "description": "b\x02"})
    assert packed
    fields: dict[str, object] = {"title": "a\ufffd", "description": "edited"}
    unpack(fields, packed)
    assert fields == {"title": "a\x01", "description": "edited"}


HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<REQ-IF xmlns="http://www.omg.org/spec/ReqIF/20110401/reqif.xsd" xmlns:x="http://www.w3.org/1999/xhtml">
<THE-HEADER><REQ-IF-HEADER IDENTIFIER="h"><REPOSITORY-ID>repo</REPOSITORY-ID></REQ-IF-HEADER></THE-HEADER>
<CORE-CONTENT><REQ-IF-CONTENT>
<DATATYPES><DATATYPE-DEFINITION-ENUMERATION IDENTIFIER="levels"><SPECIFIED-VALUES>
<ENUM-VALUE IDENTIFIER="low" LONG-NAME="Low"/><ENUM-VALUE IDENTIFIER="high" LONG-NAME="High"/>
</SPECIFIED-VALUES></DATATYPE-DEFINITION-ENUMERATION></DATATYPES>
<SPEC-TYPES><SPEC-OBJECT-TYPE IDENTIFIER="t" LONG-NAME="System Requirement" DESC="Of the system."><SPEC-ATTRIBUTES>
<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="chapter" LONG-NAME="ReqIF.ChapterName"/>
<ATTRIBUTE-DEFINITION-XHTML IDENTIFIER="text" LONG-NAME="ReqIF.Text"/>
<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="foreign" LONG-NAME="ReqIF.ForeignID"/>
<ATTRIBUTE-DEFINITION-ENUMERATION IDENTIFIER="level" LONG-NAME="Safety">
<DEFAULT-VALUE><ATTRIBUTE-VALUE-ENUMERATION/></DEFAULT-VALUE></ATTRIBUTE-DEFINITION-ENUMERATION>
</SPEC-ATTRIBUTES></SPEC-OBJECT-TYPE>
<SPEC-RELATION-TYPE IDENTIFIER="satisfies" LONG-NAME="satisfies"><SPEC-ATTRIBUTES>
<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="why" LONG-NAME="Rationale"/></SPEC-ATTRIBUTES></SPEC-RELATION-TYPE>
</SPEC-TYPES>
"""
FOOTER = "</REQ-IF-CONTENT></CORE-CONTENT></REQ-IF>"


def value(name: str, text: str) -> str:
    reference = f"<DEFINITION><ATTRIBUTE-DEFINITION-STRING-REF>{name}</ATTRIBUTE-DEFINITION-STRING-REF></DEFINITION>"
    if name == "text":
        return f"<ATTRIBUTE-VALUE-XHTML>{reference}<THE-VALUE>{text}</THE-VALUE></ATTRIBUTE-VALUE-XHTML>"
    if name == "level":
        chosen = "".join(f"<ENUM-VALUE-REF>{one}</ENUM-VALUE-REF>" for one in text.split())
        return f"<ATTRIBUTE-VALUE-ENUMERATION><VALUES>{chosen}</VALUES>{reference}</ATTRIBUTE-VALUE-ENUMERATION>"
    return f'<ATTRIBUTE-VALUE-STRING THE-VALUE="{text}">{reference}</ATTRIBUTE-VALUE-STRING>'


def spec_object(identifier: str, **values: str) -> str:
    inside = "".join(value(name, text) for name, text in values.items())
    return (
        f'<SPEC-OBJECT IDENTIFIER="{identifier}"><VALUES>{inside}</VALUES>'
        "<TYPE><SPEC-OBJECT-TYPE-REF>t</SPEC-OBJECT-TYPE-REF></TYPE></SPEC-OBJECT>\n"
    )


def relation(source: str, target: str, more: str = "") -> str:
    return (
        f'<SPEC-RELATION IDENTIFIER="r-{source}-{target}"><TARGET><SPEC-OBJECT-REF>{target}</SPEC-OBJECT-REF></TARGET>'
        f"<SOURCE><SPEC-OBJECT-REF>{source}</SPEC-OBJECT-REF></SOURCE>{more}"
        "<TYPE><SPEC-RELATION-TYPE-REF>satisfies</SPEC-RELATION-TYPE-REF></TYPE></SPEC-RELATION>\n"
    )


def place(identifier: str, *inside: str) -> str:
    # some tools write the children first
    return (
        f'<SPEC-HIERARCHY IDENTIFIER="p-{identifier}-{len(inside)}"><CHILDREN>{"".join(inside)}</CHILDREN>'
        f"<OBJECT><SPEC-OBJECT-REF>{identifier}</SPEC-OBJECT-REF></OBJECT></SPEC-HIERARCHY>"
    )


def document(objects: str, places: str = "", relations: str = "", more: str = "") -> bytes:
    return (
        f"{HEADER}<SPEC-OBJECTS>\n{objects}</SPEC-OBJECTS><SPEC-RELATIONS>{relations}</SPEC-RELATIONS>"
        '<SPECIFICATIONS><SPECIFICATION IDENTIFIER="spec" LONG-NAME="Brake control">'
        f"<VALUES>{value('foreign', '7')}</VALUES>"
        f"<CHILDREN>{places}</CHILDREN></SPECIFICATION></SPECIFICATIONS>{more}{FOOTER}"
    ).encode()


def read(raw: bytes) -> tuple[list[Numbered | Refused], Counter[str]]:
    skipped: Counter[str] = Counter()
    reader = ReqifReader(io.BytesIO(raw), skipped)
    found = list(reader)
    assert reader.bytes_read <= len(raw)
    assert reader.bytes_read == len(raw) or any(isinstance(one, Refused) for one in found)
    return found, skipped


def read_records(raw: bytes) -> tuple[dict[str, dict[str, Any]], Counter[str]]:
    """Return the records by title or name."""
    found, skipped = read(raw)
    records = [one.values for one in found if isinstance(one, Numbered)]
    assert len(records) == len(found), found
    return {str(one.get("title", one.get("name", one.get("relationship_type_id")))): one for one in records}, skipped


SHALL = "<x:div>The system <x:b>shall</x:b>\n brake.</x:div>"


def test_objects_of_other_tools_become_records() -> None:
    objects = (
        spec_object("_" + UUIDS[0], chapter="Functions")
        + spec_object("braking", chapter="Braking")
        + spec_object(UUIDS[1], text=SHALL, foreign="SYS-1", level="low high")
        + spec_object("sub", text="<x:p>First line.</x:p><x:p>Second</x:p>", foreign="REQ-042")
        + spec_object("loose", text="Without a place")
    )
    places = place("_" + UUIDS[0], place("braking", place(UUIDS[1], place("sub"))))
    found, skipped = read_records(document(objects, places, relation("sub", UUIDS[1])))
    epic, functions, braking = found["Brake control"], found["Functions"], found["Functions / Braking"]
    assert functions["id"] == UUIDS[0]
    assert functions["epic_id"] == braking["epic_id"] == epic["id"]
    brake, sub = found["The system shall brake."], found["First line."]
    assert brake["id"] == UUIDS[1]
    assert brake["description"] == "ReqIF.ForeignID: SYS-1\nSafety: Low, High"
    assert brake["user_story_id"] == sub["user_story_id"] == braking["id"]
    assert brake["type_id"] == "System Requirement"
    assert found["System Requirement"]["description"] == "Of the system."
    assert (sub["description"], sub["reference_id"]) == ("First line.\nSecond", "REQ-042")
    assert found["child_of"]["kind"] == "relationship_type" or found["child_of"]["source_requirement_id"] == sub["id"]
    loose = found["Without a place"]
    story = found["Objects without a specification"]
    assert story["kind"] == "user_story"
    assert loose["user_story_id"] == story["id"]
    assert dict(skipped) == {
        "default value of the attribute Safety": 4,
        "attribute ReqIF.ForeignID of a specification": 1,
    }
    again, _ = read_records(document(objects, places))
    assert again["First line."]["id"] == sub["id"]


NAMED = (
    '<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="name" LONG-NAME="ReqIF.Name"/>'
    '<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="note" LONG-NAME="Note"/>'
    '<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="other" LONG-NAME="Note"/></SPEC-ATTRIBUTES></SPEC-OBJECT-TYPE>'
)


def named(raw: bytes, **attributes: str) -> bytes:
    """Return a document in which objects can have names and notes, and the object `a` has further XML attributes."""
    more = "".join(f' {name.replace("_", "-")}="{text}"' for name, text in attributes.items())
    text = raw.decode().replace("</SPEC-ATTRIBUTES></SPEC-OBJECT-TYPE>", NAMED)
    return text.replace('<SPEC-OBJECT IDENTIFIER="a"', f'<SPEC-OBJECT IDENTIFIER="a"{more}').encode()


ALL = {"chapter": "Chapter", "name": "Name", "text": "Text", "note": " Note 1 ", "other": "Note 2"}
ABOVE = spec_object("up", chapter="Above")
NAMESPACE = uuid.UUID("5d3c2b0e-6d1c-4a51-9a55-6f0d3e1f7b42")  # another one would give all objects other IDs
LONG_TEXT, LONGEST = "x" * 501, "y" * 500
IN_RECORDS: dict[str, tuple[bytes, dict[str, dict[str, object]]]] = {
    "every value of a requirement": (
        named(document(spec_object("a", **ALL), place("a")), LONG_NAME="Long name", DESC="Of the object."),
        {
            "Chapter": {
                "description": "Text\n\nReqIF.Name: Name\nNote: Note 1\nNote: Note 2\nLONG-NAME: Long name\n"
                "DESC: Of the object."
            }
        },
    ),
    "repeated values": (
        named(document(spec_object("a", name="Name"), place("a")), LONG_NAME="Name", DESC="Of the object."),
        {"Name": {"description": "Of the object."}},
    ),
    "an identifier of another form": (
        named(document(spec_object("a", foreign="REQ-7"), place("a")), LONG_NAME="REQ-7"),
        {"REQ-7": {"description": "ReqIF.ForeignID: REQ-7", "reference_id": None}},
    ),
    "every value of a heading": (
        named(
            document(
                spec_object("a", chapter="Chapter", name="Name", level="high", foreign="1.2")
                + spec_object("b", text="b"),
                place("a", place("b")),
            ),
            LONG_NAME="a",
            DESC="Of the chapter.",
        ),
        {
            "Chapter": {
                "kind": "user_story",
                "description": "Of the chapter.\n\nReqIF.Name: Name\nSafety: High\nReqIF.ForeignID: 1.2",
            }
        },
    ),
    "blank names above": (
        named(document(spec_object("a", text="b") + spec_object("c"), place("c", place("a"))), LONG_NAME=" ", DESC=" "),
        {"b": {"kind": "requirement", "description": None}},
    ),
    "blank names of a heading": (
        named(
            document(spec_object("a") + spec_object("c", text="c"), place("a", place("c")) + place("d")),
            LONG_NAME=" ",
            DESC=" ",
        ),
        {"a": {"kind": "user_story"}},
    ),
    "blank names of a requirement": (
        named(document(spec_object("a"), place("a")), LONG_NAME=" ", DESC=" "),
        {"a": {"kind": "requirement"}},
    ),
    "a long text": (
        document(spec_object("a", text=LONG_TEXT), place("a")),
        {"x" * 499 + "…": {"description": LONG_TEXT}},
    ),
    "the longest title": (document(spec_object("a", text=LONGEST), place("a")), {LONGEST: {"description": None}}),
    "a long title and a text": (
        document(spec_object("a", chapter=LONG_TEXT, text="b"), place("a")),
        {"x" * 499 + "…": {"description": f"{LONG_TEXT}\n\nb"}},
    ),
    "long headings": (
        document(spec_object("a", chapter=LONGEST) + ABOVE, place("up", place("a"))),
        {"…" + "y" * 499: {"kind": "user_story"}},
    ),
    "a long name of a specification": (
        document(spec_object("a", text="b"), place("a")).replace(b"Brake control", LONG_TEXT.encode()),
        {"x" * 499 + "…": {}, "b": {}},
    ),
    "a number that could be an ID": (
        document(spec_object("0" * 32, text="b")),
        {"b": {"id": str(uuid.uuid5(NAMESPACE, "repo\n" + "0" * 32))}},
    ),
    "a specification without objects": (
        document(spec_object("a", text="b")),
        {"Brake control": {"kind": "epic"}, "b": {}},
    ),
}


@pytest.mark.parametrize(("raw", "expected"), IN_RECORDS.values(), ids=IN_RECORDS)
def test_what_a_file_says_is_in_its_records(raw: bytes, expected: dict[str, dict[str, object]]) -> None:
    found, _ = read_records(raw)
    assert {title: {name: found[title].get(name) for name in fields} for title, fields in expected.items()} == expected


def rated(raw: bytes, **names: str) -> bytes:
    """Return a document whose attributes `note` and `other` have other names."""
    for attribute, name in names.items():
        old = f'IDENTIFIER="{attribute}" LONG-NAME="Note"'
        raw = raw.replace(old.encode(), f'IDENTIFIER="{attribute}" LONG-NAME="{name}"'.encode())
    return raw


# names of two attributes, their values, and what a requirement is then
PLANS: dict[str, tuple[dict[str, str], dict[str, str], dict[str, object]]] = {
    "a status of ours": ({"note": "Status"}, {"note": "Obsolete"}, {"status": "Obsolete"}),
    "in another case": ({"note": "STATUS"}, {"note": "active"}, {"status": "Active"}),
    "a state": ({"note": "State"}, {"note": "Active"}, {"status": "Active"}),
    "another status": ({"note": "Status"}, {"note": "Checked"}, {"status": "Draft", "description": "Status: Checked"}),
    "a status that means it": (
        {"note": "Status"},
        {"note": "Rejected"},
        {"status": "Obsolete", "description": "Status: Rejected"},
    ),
    "a status and a state": (
        {"note": "Status", "other": "State"},
        {"note": "Active", "other": "Deleted"},
        {"status": "Obsolete", "description": "Status: Active\nState: Deleted"},
    ),
    "deleted": (
        {"note": "ReqIF.ForeignDeleted", "other": "Status"},
        {"note": "true", "other": "Active"},
        {"status": "Obsolete", "description": "ReqIF.ForeignDeleted: true\nStatus: Active"},
    ),
    "not deleted": (
        {"note": "ReqIF.ForeignDeleted", "other": "Status"},
        {"note": "false", "other": "Active"},
        {"status": "Active", "description": "ReqIF.ForeignDeleted: false"},
    ),
    "a number as the priority": ({"note": "Priority"}, {"note": "1"}, {"priority": 1}),
    "a name of the priority": ({"note": "priority"}, {"note": "High"}, {"priority": 2}),
    "another priority": (
        {"note": "Priority"},
        {"note": "5"},
        {"priority": 3, "description": "Priority: 5"},
    ),
}


def test_an_object_keeps_its_status_and_its_priority() -> None:
    found, expected = {}, {}
    for name, (names, values, fields) in PLANS.items():
        raw = named(document(spec_object("a", text="a", **values), place("a")))
        [record] = [one for one in read_records(rated(raw, **names))[0].values() if one["kind"] == "requirement"]
        expected[name] = {"status": "Draft", "priority": 3, "description": None} | fields
        found[name] = {field: record.get(field) for field in expected[name]}
    assert found == expected


def test_a_deleted_heading_becomes_a_cancelled_user_story() -> None:
    objects = spec_object("head", chapter="Head", note="true", other="high") + spec_object("a", text="a", other="Done")
    raw = rated(named(document(objects, place("head", place("a")))), note="ReqIF.ForeignDeleted", other="Priority")
    found, _ = read_records(raw)
    assert found["Head"] == found["Head"] | {"status": "Cancelled", "priority": 2}
    assert found["a"]["description"] == "Priority: Done"
    found, _ = read_records(rated(named(document(objects, place("head", place("a")))), other="Status"))
    assert found["Head"]["description"] == "Note: true\nStatus: high"


def test_a_requirement_of_which_all_text_is_struck_through_is_obsolete() -> None:
    struck, blank = "<x:s>The pump shall stop.</x:s>", "<x:s> </x:s>"
    objects = spec_object("a", text=struck) + spec_object("b", text="b <x:s>not</x:s>") + spec_object("c", text=blank)
    found, _ = read_records(document(objects, place("a", place("b")) + place("c")))
    assert (found["a"]["kind"], found["a"]["status"]) == ("requirement", "Obsolete")
    assert [found[name]["status"] for name in "bc"] == ["Draft", "Draft"]
    # struck text elsewhere is not that of the requirement
    note = named(document(spec_object("a", name="Name", text="", note="x"), place("a"))).decode()
    string = '<ATTRIBUTE-VALUE-STRING THE-VALUE="x">(.*?)</ATTRIBUTE-VALUE-STRING>'
    xhtml = r"<ATTRIBUTE-VALUE-XHTML>\1<THE-VALUE><x:s>x</x:s></THE-VALUE></ATTRIBUTE-VALUE-XHTML>"
    found, skipped = read_records(re.sub(string, xhtml, note).encode())
    assert (found["Name"]["status"], skipped["deleted or struck-through text"]) == ("Draft", 1)


def test_a_deleted_relation_is_left_out_and_counted() -> None:
    objects = "".join(spec_object(one, text=one) for one in "ab")
    why = f"<VALUES>{value('why', 'true')}</VALUES>"
    raw = document(objects, place("a") + place("b"), relation("a", "b", why))
    found, skipped = read_records(raw.replace(b'"Rationale"', b'"ReqIF.ForeignDeleted"'))
    assert "relationship" not in {one["kind"] for one in found.values()}
    assert skipped["deleted relation satisfies"] == 1


def test_an_object_of_ours_that_another_tool_deleted_is_obsolete(exported: Path) -> None:
    raw = exported.read_text(encoding="utf-8")
    definition = '<ATTRIBUTE-DEFINITION-STRING IDENTIFIER="gone" LONG-NAME="ReqIF.ForeignDeleted"/></SPEC-ATTRIBUTES>'
    head, type_, rest = raw.partition('IDENTIFIER="quilt-mcp.requirement"')
    raw = head + type_ + rest.replace("</SPEC-ATTRIBUTES>", definition, 1)
    records = [one.values for one in read(raw.encode())[0] if isinstance(one, Numbered)]
    first = next(one["id"] for one in records if (one["kind"], one.get("status")) == ("requirement", "Draft"))
    head, start, rest = raw.partition(f'<SPEC-OBJECT IDENTIFIER="requirement-{first}"')
    assert start
    found, skipped = read(raw.encode())
    again, more = read((head + start + rest.replace("</VALUES>", f"{value('gone', 'true')}</VALUES>", 1)).encode())
    assert more == skipped
    before, after = ([one.values for one in some if isinstance(one, Numbered)] for some in (found, again))
    [changed] = [other for one, other in zip(before, after, strict=True) if one != other]
    assert changed["status"] == "Obsolete"


def test_default_values_are_counted_for_each_object_that_lacks_a_value() -> None:
    objects = spec_object("a", text="a", level="low") + spec_object("b", text="b") + spec_object("c", text="c")
    places = place("a") + place("b") + place("c")
    assert read(document(objects, places))[1]["default value of the attribute Safety"] == 2
    _, skipped = read(document(spec_object("a", text="a", level="low"), place("a")))
    assert "default value of the attribute Safety" not in skipped


def test_blank_names_count_as_missing() -> None:
    blank = document(spec_object("a", text="b", level="low"), place("a"), relation("a", "a"))
    for name in ("Brake control", "System Requirement", "Safety", "satisfies", "Low"):
        blank = blank.replace(f'LONG-NAME="{name}"'.encode(), b'LONG-NAME=" "')
    found, _ = read_records(blank)
    assert "Specification" in found
    assert (found["b"]["type_id"], found["b"]["description"]) == ("t", "level: low")
    assert "satisfies" in found


@pytest.mark.parametrize("identifier", ["", ' IDENTIFIER=""'])
def test_relations_without_an_identifier_are_distinguished_by_their_ends(identifier: str) -> None:
    objects = "".join(spec_object(one, text=SHALL.replace("brake", one)) for one in "abc")
    relations = "".join(
        relation(one, other).replace(f' IDENTIFIER="r-{one}-{other}"', identifier) for one, other in ("ab", "bc")
    )
    found, _ = read(document(objects, place("a") + place("b") + place("c"), relations))
    again, _ = read(document(objects, place("a") + place("b") + place("c"), relations))
    links = [one.values for one in found if isinstance(one, Numbered) and one.values["kind"] == "relationship"]
    assert len({one["id"] for one in links}) == 2
    assert found == again


def test_a_requirement_below_others_is_related_to_the_nearest_alone() -> None:
    objects = "".join(spec_object(one, text=one) for one in "abc")
    found, _ = read(document(objects, place("a", place("b", place("c")))))
    records = [one.values for one in found if isinstance(one, Numbered)]
    titles = {one["id"]: one["title"] for one in records if one["kind"] == "requirement"}
    links = [one for one in records if one["kind"] == "relationship"]
    ends = [(titles[one["source_requirement_id"]], titles[one["target_requirement_id"]]) for one in links]
    assert sorted(ends) == [("b", "a"), ("c", "b")]


def test_the_parts_of_a_file_can_have_any_order(exported: Path) -> None:
    objects = spec_object("up", chapter="Above") + spec_object("a", text="A", level="low high") + spec_object("b")
    foreign = document(objects, place("up", place("a")), relation("a", "b"))
    for raw in (foreign, exported.read_bytes(), exported.read_bytes().replace(b"quilt-mcp.", b"_")):
        found, skipped = read_records(raw)
        root = etree.fromstring(raw)
        [parts] = root.iter("{*}REQ-IF-CONTENT")
        parts[:] = reversed(parts)
        again = read_records(etree.tostring(root))
        assert again == (found, skipped)


def test_uuids_that_differ_only_in_case_are_the_same() -> None:
    first = document("").replace(b'"spec"', f'"_{UUID}"'.encode())
    other = f'<SPECIFICATION IDENTIFIER="{UUID.upper()}" LONG-NAME="Other"/></SPECIFICATIONS>'.encode()
    found, _ = read(first.replace(b"</SPECIFICATIONS>", other))
    [refused] = [one.rejections for one in found if isinstance(one, Refused)]
    assert [(one.field, one.reason.partition(":")[0]) for one in refused] == [("IDENTIFIER", "Duplicate of line 19")]


def test_everything_that_is_skipped_is_named() -> None:
    objects = (
        spec_object("head", chapter="Chapter")
        + spec_object(
            "a", text='a<x:object data="brake.png" type="image/png">picture</x:object><x:del>never</x:del>'
        ).replace("<VALUES>", "<ALTERNATIVE-ID><ALTERNATIVE-ID/></ALTERNATIVE-ID><VALUES>", 1)
        + spec_object("b", text="b")
    )
    why = f"<VALUES>{value('why', 'so')}</VALUES>"
    relations = relation("a", "b", why) + relation("a", "head") + relation("a", "gone") + relation("b", "b")
    places = place("head", place("a"), place("gone", place("b"))) + place("a")
    more = "<SPEC-RELATION-GROUPS/>"
    raw = document(objects, places, relations, more).replace(
        b"</CORE-CONTENT>", b"</CORE-CONTENT><TOOL-EXTENSIONS><x/></TOOL-EXTENSIONS>"
    )
    found, skipped = read(raw)
    assert "never" not in str(found)
    [epic] = [one.values["title"] for one in found if isinstance(one, Numbered) and one.values["kind"] == "epic"]
    assert epic == "Brake control"
    assert dict(skipped) == {
        "default value of the attribute Safety": 3,
        "ALTERNATIVE-ID": 1,
        "place of the object gone that the file does not have": 1,
        "second place of an object in the hierarchy": 1,
        "attribute ReqIF.ForeignID of a specification": 1,
        "SPEC-RELATION-GROUPS": 1,
        "TOOL-EXTENSIONS": 1,
        "embedded object brake.png": 1,
        "deleted or struck-through text": 1,
        "attribute Rationale of relations": 1,
        "relation satisfies of a heading or an object that is not a requirement": 1,
        "relation satisfies to an object that the file does not have": 1,
        "relation satisfies that is repeated or leads to its own source": 1,
    }


@pytest.mark.parametrize(
    ("xhtml", "text"),
    [
        ("plain", "plain"),
        ("<x:p> a\n b </x:p><x:p>c</x:p>", "a b\nc"),
        ("<x:ul><x:li>one</x:li><x:li>two <x:i>and</x:i> three</x:li></x:ul>", "- one\n- two and three"),
        ("<x:ol><x:li>a</x:li><x:li value='5'><x:p>b</x:p></x:li><x:li>c</x:li></x:ol>", "1. a\n5. b\n6. c"),
        ("<x:ol start='3'><x:li>a<x:ul><x:li>b</x:li></x:ul></x:li><x:li>c</x:li></x:ol>", "3. a\n  - b\n4. c"),
        ("a<x:br/>b<x:br/><x:br/>c", "a\nb\n\nc"),
        ("<x:table><x:tr><x:td>1</x:td><x:td>2</x:td></x:tr><x:tr><x:td>3</x:td></x:tr></x:table>", "1\t2\n3"),
        (
            "<x:ul><x:li><x:p>one</x:p><x:p>more</x:p></x:li><x:li><x:div>two</x:div></x:li></x:ul>",
            "- one\nmore\n- two",
        ),
        ("<x:table><x:tr><x:td><x:p>1</x:p></x:td><x:td><x:p>2</x:p></x:td></x:tr></x:table>after", "1\t2\nafter"),
        (
            "<x:table><x:tr><x:td/><x:td>2</x:td></x:tr><x:tr><x:td/><x:td>4</x:td></x:tr></x:table>",
            "\t2\n\t4",
        ),
        ("<x:pre>a\n  b</x:pre>", "a\n  b"),
        ("10<x:sup>-6</x:sup> m, H<x:sub>2</x:sub>O", "10^-6 m, H_2O"),
        (
            '<x:a href="http://e.x">See</x:a> and <x:a href="http://e.x">http://e.x</x:a> <x:a>x</x:a>',
            "See (http://e.x) and http://e.x x",
        ),
        ("a<x:p>b</x:p>c", "a\nb\nc"),
        ("&lt;b&gt; &amp; &#228;", "<b> & ä"),
    ],
)
def test_xhtml_becomes_text(xhtml: str, text: str) -> None:
    found, _ = read(document(spec_object("a", chapter="Title", text=xhtml)))
    [record] = [one.values for one in found if isinstance(one, Numbered) and one.values["kind"] == "requirement"]
    assert record["description"] == text


STRUCK: dict[str, tuple[str, str]] = {
    "del": ("The pump shall <x:del>not </x:del>stop.", "The pump shall stop."),
    "s": ("The pump shall <x:s>not </x:s>stop.", "The pump shall stop."),
    "strike": ("The pump shall <x:STRIKE>not </x:STRIKE>stop.", "The pump shall stop."),
    "a style": (
        'The pump shall <x:span style="text-decoration:line-through">not </x:span>stop.',
        "The pump shall stop.",
    ),
    "a style of another element": ('<x:cite style="TEXT-DECORATION: Line-Through">never</x:cite>ok', "ok"),
    "several decorations": (
        'a<x:span style="color: red; text-decoration: underline line-through;"> no</x:span>',
        "a",
    ),
    "the line of the decoration": ('a<x:b style="text-decoration-line:line-through"> no</x:b>', "a"),
    "everything inside": ('a<x:s>b<x:i style="text-decoration:none">c</x:i></x:s>', "a"),
    "a paragraph": ('a<x:p style="text-decoration:line-through">no</x:p>b', "a\nb"),
    "a paragraph inside": ("a<x:del><x:p>no</x:p></x:del>b", "a\nb"),
    "an item": (
        '<x:ol><x:li>a</x:li><x:li style="text-decoration:line-through">no</x:li><x:li>c</x:li></x:ol>',
        "1. a\n3. c",
    ),
    "a cell": (
        '<x:table><x:tr><x:td style="text-decoration:line-through">1</x:td><x:td>2</x:td></x:tr></x:table>',
        "\t2",
    ),
    "hidden": ('a<x:span style="display: none">no</x:span>b<x:i style="a:b;visibility:hidden">no</x:i>', "ab"),
}
NOT_STRUCK = {
    "another decoration": 'a<x:span style="text-decoration:underline"> b</x:span>',
    "the color of the decoration": 'a<x:span style="text-decoration-color:red"> b</x:span>',
    "a style that undoes it": 'a<x:s style="text-decoration: none"> b</x:s>',
    "a later style": 'a<x:span style="text-decoration:line-through;text-decoration:underline"> b</x:span>',
    "only a space": "a<x:s> </x:s>b",
}


def test_text_that_is_struck_through_is_not_imported_and_counted() -> None:
    found = {}
    for name, (xhtml, _) in STRUCK.items():
        records, skipped = read_records(document(spec_object("a", chapter="Title", text=xhtml)))
        found[name] = records["Title"]["description"]
        del skipped["default value of the attribute Safety"], skipped["attribute ReqIF.ForeignID of a specification"]
        assert dict(skipped) == ({"hidden text": 2} if name == "hidden" else {"deleted or struck-through text": 1}), (
            name
        )
    assert found == {name: text for name, (_, text) in STRUCK.items()}


def test_text_that_is_not_struck_through_is_imported() -> None:
    for name, xhtml in NOT_STRUCK.items():
        records, skipped = read_records(document(spec_object("a", chapter="Title", text=xhtml)))
        assert records["Title"]["description"] == "a b", name
        assert "deleted or struck-through text" not in skipped, name


def test_a_text_that_another_tool_simplified_is_named() -> None:
    raw = document(spec_object("a", text="a b"))
    original = b"</THE-VALUE><THE-ORIGINAL-VALUE>a <x:s>not</x:s> b</THE-ORIGINAL-VALUE>"
    found, skipped = read_records(raw.replace(b"</THE-VALUE>", original))
    assert found["a b"]["kind"] == "requirement"
    assert skipped["original of a simplified text"] == 1


def count_steps(raw: bytes) -> int:
    """Return the number of lines of code that run, also again and again in one expression, while a file is read."""
    steps = 0

    def step(*_: object) -> Any:
        nonlocal steps
        steps += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        for _ in ReqifReader(io.BytesIO(raw), Counter()):
            pass
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize(
    "xhtml", ["<x:p/>", "<x:b/>", "<x:td> </x:td>", "<x:li/> ", "<x:s><x:s/></x:s>", "<x:s>a</x:s>"]
)
def test_the_work_for_a_text_grows_with_its_length(xhtml: str) -> None:
    few, more = (count_steps(document(spec_object("a", text=xhtml * number))) for number in (500, 1_000))
    assert more < 2.1 * few


@pytest.mark.usefixtures("tables")
def test_a_new_version_of_a_file_updates_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    file = tmp_path / "tool.reqif"
    file.write_bytes(document(spec_object("a", text="First") + spec_object("b", text="B"), place("a") + place("b")))
    assert main(["requirements", "import", str(file), "--creator", "ada"]) == 0
    assert "Skipped: default value of the attribute Safety (2)" in capsys.readouterr().err
    file.write_bytes(document(spec_object("a", text="Second") + spec_object("c", text="C"), place("a") + place("c")))
    command = ["requirements", "import", str(file), "--creator", "ada", "--update", "--delete-missing"]
    assert main(command) == 0
    assert {one["title"] for one in export_kind(capsys, "requirement")} == {"Second", "C"}
    before = export(capsys)
    assert main(command) == 0
    assert export(capsys) == before


def import_numbers(file: Path, *options: str, repository: str = "spec", **numbers: str) -> int:
    """Import objects with numbers of another tool, by their identifiers."""
    objects = "".join(spec_object(one, text=one.upper(), foreign=number) for one, number in numbers.items())
    raw = document(objects, "".join(map(place, numbers)))
    file.write_bytes(raw.replace(b'IDENTIFIER="spec"', f'IDENTIFIER="{repository}"'.encode()))
    return main(["requirements", "import", str(file), "--creator", "ada", *options])


def list_numbers(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str | None]]:
    capsys.readouterr()
    return {one["title"]: (one["reference_id"], one.get("description")) for one in export_kind(capsys, "requirement")}


TAKEN = "Skipped: number of another tool that something else has"


@pytest.mark.usefixtures("tables")
def test_a_number_of_another_tool_that_is_taken_becomes_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two suppliers number from REQ-001, and so does this database."""
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    assert import_numbers(tmp_path / "one.reqif", a="REQ-001", b="") == 0
    assert import_numbers(tmp_path / "two.reqif", repository="other", c="REQ-001", d="REQ-009", e="REQ-009") == 0
    assert f"{TAKEN}; it is a line of the description (2)" in " ".join(capsys.readouterr().err.split())
    found = list_numbers(capsys)
    assert found["A"] == ("REQ-001", None)
    assert found["D"] == ("REQ-009", None)
    for title, number in (("C", "REQ-001"), ("E", "REQ-009")):
        assert found[title][0] not in {"REQ-001", "REQ-009"}
        assert found[title][1] == f"Number in the file: {number}"
    again = ["--update"]
    assert (
        import_numbers(tmp_path / "two.reqif", *again, repository="other", c="REQ-001", d="REQ-009", e="REQ-009") == 0
    )
    assert list_numbers(capsys) == found


@pytest.mark.usefixtures("tables")
def test_a_cycle_of_relations_of_another_tool_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A type with the name of one of ours can mean something else there."""
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    objects = "".join(spec_object(one, text=one.upper()) for one in "abc")
    relations = relation("a", "b") + relation("b", "c") + relation("c", "a")
    raw = document(objects, "".join(map(place, "abc")), relations)
    file = tmp_path / "a.reqif"
    file.write_bytes(
        re.sub(rb'(<SPEC-RELATION-TYPE IDENTIFIER="satisfies") LONG-NAME="[^"]*"', rb'\1 LONG-NAME="blocks"', raw)
    )
    for options in ([], ["--update"]):
        assert main(["requirements", "import", str(file), "--creator", "ada", *options]) == 0
        assert "relation blocks that closes a cycle (1)" in " ".join(capsys.readouterr().err.split())
        assert len(export_kind(capsys, "relationship")) == 2


@pytest.mark.usefixtures("tables")
def test_numbers_that_two_objects_exchange_stay_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "users.jsonl", ADA)) == 0
    assert import_numbers(tmp_path / "a.reqif", a="REQ-001", b="REQ-002") == 0
    assert import_numbers(tmp_path / "a.reqif", "--update", a="REQ-002", b="REQ-001") == 0
    found = list_numbers(capsys)
    assert found["A"] == ("REQ-001", "Number in the file: REQ-002")
    assert found["B"] == ("REQ-002", "Number in the file: REQ-001")


@pytest.mark.usefixtures("tables")
def test_an_object_that_moved_in_another_tool_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = [{**FAMILY[2], "reference_id": "US-002"}, {**FAMILY[4], "reference_id": "REQ-007"}]
    del more[1]["acceptance_criteria_id"]
    assert main(write(tmp_path / "a.jsonl", *FAMILY, *more)) == 0
    file = tmp_path / "a.reqif"
    assert main(["requirements", "export", str(file)]) == 0
    capsys.readouterr()
    moving = next(one for one in export_kind(capsys, "requirement") if one["reference_id"] == "REQ-007")
    other = next(one for one in export_kind(capsys, "user_story") if one["reference_id"] == "US-002")
    text = file.read_text()
    identifier = f"requirement-{moving['id']}"
    own = (
        text[text.index('<SPEC-HIERARCHY IDENTIFIER="place-' + identifier) :].partition("</SPEC-HIERARCHY>\n")[0]
        + "</SPEC-HIERARCHY>\n"
    )
    story = f"<SPEC-OBJECT-REF>user_story-{other['id']}</SPEC-OBJECT-REF></OBJECT><CHILDREN>"
    assert story in text
    file.write_text(text.replace(own, "").replace(story, story + own))
    assert main(["requirements", "import", str(file), "--update", "--dry-run"]) == 0
    assert "updated requirement REQ-007: user_story_id: 'US-001' → 'US-002'" in capsys.readouterr().out


def test_rows_of_the_earlier_system_without_a_time_are_exported(
    existing_settings: Settings, postgres: PostgresServer, set_settings: Callable[[Settings], None], tmp_path: Path
) -> None:
    postgres.sql(
        """
        INSERT INTO requirements
            (reference_id, creator_id, assignee_id, priority, status, title, user_story_id, type_id)
        SELECT 'REQ-002', creator_id, assignee_id, priority, status, title, user_story_id, type_id FROM requirements;
        UPDATE requirements
        SET acceptance_criteria_id = (SELECT id FROM acceptance_criteria LIMIT 1), updated_at = NULL;
        INSERT INTO requirement_relationships
            (source_requirement_id, target_requirement_id, relationship_type_id, created_by, created_at)
        SELECT source.id, target.id, (SELECT id FROM relationship_types LIMIT 1), source.creator_id, NULL
        FROM requirements source, requirements target
        WHERE source.reference_id = 'REQ-001' AND target.reference_id = 'REQ-002';
        """,
        database=name_of(existing_settings),
    )
    set_settings(existing_settings)
    assert main(["requirements", "export", str(tmp_path / "all.reqif")]) == 0
    read_all, _ = read((tmp_path / "all.reqif").read_bytes())
    found = [one.values for one in read_all if isinstance(one, Numbered)]
    requirements = [one for one in found if one["kind"] == "requirement"]
    assert [("acceptance_criteria_id" in one, "updated_at" in one) for one in requirements] == [(True, False)] * 2
    assert ["created_at" in one for one in found if one["kind"] == "relationship"] == [False]


WHOLE = document(spec_object("a", text="a"), place("a"))
EMPTY = " ".join(f'a{number}=""' for number in range(20_000))
BOMB = b'<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
EXTERNAL = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
PARAMETER = b'<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">'
START, REST = WHOLE.split(b"\n", 1)
BAD: list[tuple[bytes, str]] = [
    (b"", "The file ends in the middle of an element: it seems to be truncated."),
    (WHOLE[: len(WHOLE) // 2], "The file ends in the middle of an element: it seems to be truncated."),
    (WHOLE[:-3], "The file ends in the middle of an element"),
    (START + b"\n" + BOMB + REST, "Document types and entities are not allowed. Remove the line <!DOCTYPE …>."),
    (START + b"\n" + EXTERNAL + REST, "Document types and entities are not allowed."),
    (START + b"\n" + PARAMETER + REST, "Document types and entities are not allowed."),
    (WHOLE.replace(b">a<", b">&a;<"), "The file is not valid XML at column"),
    (WHOLE.replace(b">a<", b">\xff<"), "The file is not valid XML at column"),
    (WHOLE.replace(b">a<", b">\0<"), "The file is not valid XML at column"),
    (WHOLE.replace(b">a<", b">&#0;<"), "The file is not valid XML at column"),
    (WHOLE.replace(b'"UTF-8"', b'"klingon"'), "The encoding of the file is not supported. Save it in UTF-8."),
    (b'{"kind": "epic"}', "The file is not valid XML at column 1"),
    (b"<html/>", "The file is not ReqIF: its root element is html, not REQ-IF."),
    (b"PK\x03\x04....", "The ZIP archive is damaged. Export or copy it again."),
    (WHOLE.replace(b'IDENTIFIER="a"', b""), "The SPEC-OBJECT has no IDENTIFIER. Add one."),
    (document(spec_object("a") * 2), "Duplicate of line 19. Change or remove one."),
    (
        WHOLE.replace(b"</SPECIFICATIONS>", b'<SPECIFICATION IDENTIFIER="spec"/></SPECIFICATIONS>'),
        "Duplicate of line 20. Change or remove one.",
    ),
    (document(spec_object("a", text="x" * 1_000_100)), "An element has more than 1,000,000 characters."),
    (document(spec_object("a", text="<x:p/>" * 26_000)), "An element has more than 1,000,000 characters."),
    (
        document(spec_object("a", text="<b/>" * 26_000).replace("<VALUES>", '<VALUES xmlns="">', 1)),
        "An element has more than 1,000,000 characters.",
    ),
    (document(spec_object("a", text=f"<x:p {EMPTY}/>" * 10)), "An element has more than 1,000,000 characters."),
    (document(spec_object("a", chapter="x" * 1_200_000)), "A tag or a comment has more than 1,000,000 bytes."),
    (
        WHOLE.replace(b"<SPEC-OBJECTS>", b"<SPEC-OBJECTS " + b"".join(b'a%d="" ' % n for n in range(200_000)) + b">"),
        "A tag or a comment has more than 1,000,000 bytes.",
    ),
    (document(spec_object("a", text="<x:b>" * 300 + "</x:b>" * 300)), "Elements are nested more than 200 levels deep."),
    (
        document(spec_object("a") + spec_object("b"), place("a", place("b")) + place("b", place("a"))),
        "The object contains itself in the hierarchy. Remove one of its places.",
    ),
]


@pytest.mark.usefixtures("data_dir")
def test_an_archive_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requirements", "export", str(tmp_path / "new.reqifz")]) == 2
    assert "Export to a .reqif file" in capsys.readouterr().err
    assert not (tmp_path / "new.reqifz").exists()


@pytest.mark.parametrize(("raw", "reason"), BAD, ids=[reason[:40] for _, reason in BAD])
def test_a_bad_file_is_refused(raw: bytes, reason: str) -> None:
    found, _ = read(raw)
    [last] = found
    assert isinstance(last, Refused)
    [(line, _, text)] = last.rejections
    assert text.startswith(reason)
    assert 1 <= line <= 40
    assert len(text) < 300


def test_other_encodings_and_marks_are_read() -> None:
    text = WHOLE.decode()
    for raw in (b"\xef\xbb\xbf" + WHOLE, text.replace("UTF-8", "UTF-16").encode("utf-16"), text.encode("latin-1")):
        found, _ = read(raw)
        assert all(isinstance(one, Numbered) for one in found)


class Endless(io.RawIOBase):
    """A file that starts like ReqIF and does not end."""

    def __init__(self, start: bytes, again: bytes, most: int) -> None:
        self._start, self._again, self.left = start, again, most
        self._first = start

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        assert (offset, whence) == (0, io.SEEK_SET)
        self._start = self._first
        return 0

    def read(self, size: int = -1, /) -> bytes:
        part, self._start = self._start or self._again * (size // len(self._again)), b""
        self.left -= len(part)
        assert self.left > 0, "the reader reads far more than its limit"
        return part


@pytest.mark.parametrize("start", [b'<REQ-IF a="', b"<REQ-IF><!--", b"<x", b"<REQ-IF><CORE-CONTENT><TOOL-EXTENSIONS>"])
def test_reading_stops_at_an_endless_part(start: bytes) -> None:
    # it has all that the reader uses of a file
    [refused] = ReqifReader(Endless(start, b"abcdefgh", 3_000_000), Counter())  # type: ignore[arg-type]  # it has only the methods that the reader calls
    assert isinstance(refused, Refused)
    assert refused.ends_file


def test_a_pipe_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    [refused] = ReqifReader(Pipe(WHOLE), Counter())
    assert isinstance(refused, Refused)
    assert refused.rejections[0].reason == "ReqIF is read twice, so it cannot be read from a pipe. Save it to a file."


def test_a_damaged_packed_text_is_reported(exported: Path) -> None:
    text = exported.read_text()
    assert "exact_texts" in text
    start = text.index("<ATTRIBUTE-VALUE-STRING THE-VALUE='{")
    found, _ = read((text[:start] + text[start:].replace("='{", "='[", 1)).encode())
    [refused] = [one for one in found if isinstance(one, Refused)]
    assert refused.rejections[0].field == "exact_texts"


def rename(text: str) -> str:
    """Return a file as a tool writes it that gives types, objects and specifications identifiers of its own."""
    made: dict[str, str] = {}

    def replace_one(found: re.Match[str]) -> str:
        return made.setdefault(found[0], f"{found[1].upper()}-{uuid.uuid4()}")

    text = re.sub(r'(<SPEC-OBJECT-TYPE [^>]*LONG-NAME=")(\w+)', lambda found: found[1] + found[2].upper(), text)
    text = re.sub(r'<ATTRIBUTE-VALUE-DATE [^>]*"><DEFINITION>.*?</ATTRIBUTE-VALUE-DATE>', "", text)
    text = re.sub(r"quilt-mcp\.([A-Za-z_-]+)(?=[.<\"])", lambda found: f"{found[1].upper()}_1", text)
    text = re.sub(r"relation-([0-9a-f-]{36})", replace_one, text)
    text = re.sub(r"specification-(?:project-)?([a-z0-9-]+)", replace_one, text)
    return re.sub(rf"(?<!place-)({'|'.join(TABLES)})-[0-9a-f-]{{36}}(-[0-9a-f-]{{36}})?", replace_one, text)


def import_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a file changes nothing in the database, from which it came."""
    capsys.readouterr()
    assert main(["requirements", "import", str(file), "--update", "--dry-run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["changes"] == []
    assert report["skipped"] == {}
    assert sum(report["unchanged"].values()) > len(FAMILY)


OTHER_PROJECT = [{"kind": "project", "name": "Pumps"}, {"kind": "member", "user_id": "ada", "project_id": "Pumps"}]
OTHER_EPIC = {**FAMILY[1], "reference_id": "EP-002", "title": "No text", "project_id": "Pumps"}
LONG = requirement(3, description="One.\n\nSecond \\n paragraph: café, 数 & <b>", priority=1)


@pytest.mark.usefixtures("tables")
def test_a_file_in_which_a_tool_renamed_everything_is_what_it_was(
    make_settings: Callable[..., Settings],
    set_settings: Callable[[Settings], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_type = [{"kind": "relationship_type", "name": "Proves it"}, related(3, 1, "Proves it")]
    assert main(write(tmp_path / "a.jsonl", *OTHER_PROJECT, *FAMILY, OTHER_EPIC, LONG, *own_type)) == 0
    file = tmp_path / "a.reqif"
    assert main(["requirements", "export", str(file), "--with-users"]) == 0
    exported = file.read_text()
    # the attributes have other names for people, and the same identifiers
    file.write_text(re.sub(r'(<ATTRIBUTE-DEFINITION-[^>]* LONG-NAME=")[^"]*', r"\1Feld", exported))
    import_again(file, capsys)
    text = rename(exported)
    assert "quilt-mcp." not in text
    file.write_text(text)
    import_again(file, capsys)
    # the attribute that all our types have is gone, but the file has a type for each kind of entity
    file.write_text(text.replace('LONG-NAME="exact_texts"', 'LONG-NAME="more"'))
    import_again(file, capsys)
    # nothing of it is in another database
    set_settings(make_settings("sqlite", "tables"))
    assert main(["requirements", "import", str(file)]) == 0
    names = {one["id"]: one["name"] for one in export_kind(capsys, "project")}
    projects = {one["title"]: names[one["project_id"]] for one in export_kind(capsys, "epic")}
    assert projects == {"Epic": "Default", "No text": "Pumps"}


@pytest.mark.soak
@pytest.mark.usefixtures("tables")
def test_a_file_that_went_through_strictdoc_is_what_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = {**LONG, "description": "One.\n\nSecond paragraph: café, 数 & <b>"}  # it takes \\n for a line break
    assert main(write(tmp_path / "a.jsonl", *OTHER_PROJECT, *FAMILY, OTHER_EPIC, plain)) == 0
    file = tmp_path / "a.reqif"
    assert main(["requirements", "export", str(file)]) == 0
    strictdoc = create_environment(tmp_path / "venv", "strictdoc>=0.30.4") / "strictdoc"
    run_or_skip(strictdoc, "convert", file, tmp_path / "sdoc")
    run_or_skip(
        strictdoc, "export", "--formats=reqif-sdoc", f"--output-dir={tmp_path / 'out'}", tmp_path / "sdoc", cwd=tmp_path
    )
    import_again(tmp_path / "out" / "reqif" / "output.reqif", capsys)


def test_a_type_of_another_tool_with_the_name_of_an_entity_is_named_once() -> None:
    objects = spec_object("a", text="A") + spec_object("b", text="B")
    for name, warned in (("User Story", True), ("Requirement Type", False)):
        raw = document(objects, place("a") + place("b")).replace(b'"System Requirement"', f'"{name}"'.encode())
        found, skipped = read_records(raw)
        assert [found[title]["kind"] for title in ("A", "B")] == ["requirement"] * 2
        reason = f"kind {name}: it has the name of one of ours, but not its attributes"
        assert skipped[reason] == warned


def test_an_embedded_object_with_its_data_as_its_name_is_shortened() -> None:
    picture = f'<x:p>A <x:object data="data:image/png;base64,{"x" * 50_000}"/></x:p>'
    _, skipped = read_records(document(spec_object("a", chapter="Title", text=picture), place("a")))
    [name] = [one for one in skipped if one.startswith("embedded object")]
    assert len(name) < 200


def test_an_object_without_a_type_is_named() -> None:
    raw = document(spec_object("a", text="A"), place("a"))
    _, skipped = read_records(
        raw.replace(b"<TYPE><SPEC-OBJECT-TYPE-REF>t</SPEC-OBJECT-TYPE-REF></TYPE></SPEC-OBJECT>", b"</SPEC-OBJECT>")
    )
    assert skipped["missing type of an object"] == 1


@pytest.mark.parametrize(("name", "kind"), [("Requirement", "requirement"), ("Heading", "user_story")])
def test_a_requirement_can_have_only_a_chapter_name(name: str, kind: str) -> None:
    raw = document(spec_object("a", chapter="The pump shall stop in 3 s") + spec_object("b", chapter="B"), place("a"))
    found, _ = read_records(raw.replace(b'"System Requirement"', f'"{name}"'.encode()))
    assert found["The pump shall stop in 3 s"]["kind"] == kind
    inside = document(spec_object("a", chapter="Pumps") + spec_object("b", text="B"), place("a", place("b")))
    found, _ = read_records(inside.replace(b'"System Requirement"', f'"{name}"'.encode()))
    assert (found["Pumps"]["kind"], found["B"]["kind"]) == ("user_story", "requirement")


def test_the_order_of_the_specifications_does_not_decide_the_place_of_an_object() -> None:
    objects = spec_object("a", text="A") + spec_object("h", chapter="H") + spec_object("i", chapter="I")
    raw = document(objects, place("h", place("a")))
    start, end = raw.index(b"<SPECIFICATION "), raw.index(b"</SPECIFICATIONS>")
    first = raw[start:end]
    second = first.replace(b'"spec"', b'"spec2"').replace(b">h<", b">i<").replace(b"Brake", b"Pump")
    results = [read_records(raw[:start] + one + other + raw[end:]) for one, other in ((first, second), (second, first))]
    assert results[0] == results[1]
    assert results[0][0]["A"]["user_story_id"] == results[0][0]["H"]["id"]


@pytest.mark.parametrize("text", ["", "a\nb", "C:\\x", "café", "数\t", "\U0001f600"])
def test_the_escape_sequences_of_strictdoc_are_undone(text: str) -> None:
    escaped = text.encode("unicode_escape").decode()
    taken_for_latin = text.encode().decode("latin-1").encode("unicode_escape").decode()
    assert {undo_escapes(escaped), undo_escapes(taken_for_latin)} == {text}
    assert undo_escapes("C:\\users") == "C:\\users"
