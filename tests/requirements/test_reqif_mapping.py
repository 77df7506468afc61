"""ReqIF files of other tools: which attributes have the fields, what is a heading, archives, tables and lists."""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.transfer.files import Refused
from quilt_mcp.requirements.transfer.reqif import archive
from quilt_mcp.requirements.transfer.reqif.elements import UnreadableXML
from quilt_mcp.requirements.transfer.reqif.reader import ReqifReader
from tests.distribution.building import create_environment, run_or_skip
from tests.requirements.test_reqif import document, place, read, read_records, spec_object
from tests.requirements.test_reqif import value as value_of
from tests.requirements.transferring import ADA, write
from tests.support.settings import Settings

STATEMENT = "<x:div>The pump shall stop within three seconds.</x:div>"


def rename(raw: bytes, *attributes: str) -> bytes:
    """Return a file with other names for the text, the chapter name, the number and the level."""
    for before, after in zip(
        ("ReqIF.Text", "ReqIF.ChapterName", "ReqIF.ForeignID", "Safety"), attributes, strict=False
    ):
        raw = raw.replace(f'LONG-NAME="{before}"'.encode(), f'LONG-NAME="{after}"'.encode())
    return raw


def kinds_and_titles(raw: bytes) -> dict[str, str]:
    found, _ = read_records(raw)
    entities = {"user_story", "requirement", "relationship"}
    return {name: one["kind"] for name, one in found.items() if one["kind"] in entities and name != "Brake control"}


NESTED = place("a", place("b"))
TEXT_AND_NAME = rename(document(spec_object("a", text=STATEMENT) + spec_object("b", text="b"), NESTED), "RichText")
SAID = document(
    spec_object("a", text="Scope", level="heading") + spec_object("b", text="b", level="ordinary"), NESTED
).replace(b'<ENUM-VALUE IDENTIFIER="low" LONG-NAME="Low"/>', b'<ENUM-VALUE IDENTIFIER="heading" LONG-NAME="Heading"/>')
NAMES_ONLY = rename(
    document(spec_object("a", foreign="shall brake") + spec_object("b", foreign="on ice"), NESTED), "", "", "ReqIF.Name"
)
SITUATIONS: list[tuple[str, bytes, dict[str, str]]] = [
    (
        "the text has an unknown name",
        TEXT_AND_NAME,
        {"The pump shall stop within three seconds.": "requirement", "b": "requirement", "child_of": "relationship"},
    ),
    (
        "an attribute says heading, and it has a text",
        rename(SAID, "RichText", "", "", "kind"),
        {"Scope": "user_story", "b": "requirement"},
    ),
    ("another attribute says heading", SAID, {"Scope": "requirement", "b": "requirement", "child_of": "relationship"}),
    ("only names", NAMES_ONLY, {"shall brake": "requirement", "on ice": "requirement", "child_of": "relationship"}),
    (
        "a heading inside, with texts elsewhere",
        document(spec_object("a") + spec_object("b", text="b"), NESTED),
        {"a": "user_story", "b": "requirement"},
    ),
    (
        "a known name in one object",
        rename(
            document(spec_object("a", text="short", chapter=STATEMENT[7:-8]) + spec_object("b"), NESTED), "", "Note"
        ),
        {"short": "requirement", "b": "requirement", "child_of": "relationship"},
    ),
]


@pytest.mark.parametrize(("raw", "expected"), [one[1:] for one in SITUATIONS], ids=[one[0] for one in SITUATIONS])
def test_statements_are_requirements_and_headings_are_what_the_file_says(raw: bytes, expected: dict[str, str]) -> None:
    assert kinds_and_titles(raw) == expected


SDOC = """\
[DOCUMENT]
TITLE: Pumps

[[SECTION]]
TITLE: Stopping

[REQUIREMENT]
UID: PUMP-2
TITLE: Stop at once
STATEMENT: >>>
The pump shall stop within three seconds.
<<<

[REQUIREMENT]
UID: PUMP-1
TITLE: Stop without power
STATEMENT: The valve shall close without power.
RELATIONS:
- TYPE: Parent
  VALUE: PUMP-2

[[/SECTION]]

[[SECTION]]
TITLE: Starting

[REQUIREMENT]
UID: PUMP-3
STATEMENT: The pump shall start slowly.

[[/SECTION]]
"""


@pytest.mark.soak
@pytest.mark.usefixtures("tables")
def test_a_document_of_strictdoc_is_imported_by_the_commands_of_the_documentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "specification").mkdir()
    (tmp_path / "specification" / "pumps.sdoc").write_text(SDOC)
    strictdoc = create_environment(tmp_path / "venv", "strictdoc>=0.30.4") / "strictdoc"
    command = ("export", "--formats=reqif-sdoc", "--output-dir=output", "specification")
    run_or_skip(strictdoc, *command, cwd=tmp_path)
    run(*write(tmp_path / "users.jsonl", ADA)[1:])
    run("import", str(tmp_path / "output" / "reqif" / "output.reqif"), "--creator", "ada")
    titles = [one["title"] for one in list_requirements(capsys)]
    assert titles == ["Stop at once", "Stop without power", "The pump shall start slowly."]
    capsys.readouterr()
    run("export")
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["title"] for one in found if one["kind"] == "user_story"] == ["Stopping", "Starting"]
    assert [one["kind"] for one in found if one["kind"] == "relationship"] == ["relationship"]


def run(*words: str) -> None:
    assert main(["requirements", *words]) == 0


def list_requirements(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    run("export")
    found = map(json.loads, capsys.readouterr().out.splitlines())
    return [one for one in found if one["kind"] == "requirement"]


TWO_TEXTS = rename(
    document(
        spec_object("a", text="The longer text of the two", chapter="Shorter", level="low", foreign="Active"),
        place("a"),
    ),
    "Rationale",
    "Wording",
    "State of work",
    "Owned by",
).replace(b'LONG-NAME="Low"', b'LONG-NAME="ADA"')


def test_a_mapping_is_shown_changed_and_kept(
    settings_with_tables: Settings,
    set_settings: Callable[[Settings], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_settings(settings_with_tables)
    run(*write(tmp_path / "users.jsonl", ADA)[1:])
    file = tmp_path / "a.reqif"
    file.write_bytes(TWO_TEXTS)
    trial = ["import", str(file), "--dry-run", "--creator", "ada"]
    run(*trial)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Type System Requirement (1): text = Rationale. For example: The longer text of the two" in shown
    mapped = "--map", "text=wording,status=State of work,assignee=Owned by"
    run(*trial, *mapped, "--json")
    [one] = json.loads(capsys.readouterr().out)["mapping"]
    fields = {"text": "Wording", "status": "State of work", "assignee": "Owned by"}
    assert (one["fields"], one["examples"]) == (fields, ["Shorter"])
    assert list_requirements(capsys) == []
    run(*trial)
    assert "text = Rationale" in capsys.readouterr().out  # a trial keeps nothing
    run("import", str(file), "--creator", "ada", *mapped)
    [found] = list_requirements(capsys)
    assert (found["title"], found["status"]) == ("Shorter", "Active")
    assert found["description"] == "Rationale: The longer text of the two"
    file.write_bytes(TWO_TEXTS.replace(b"Shorter", b"Shortest"))
    run("import", str(file), "--update")
    [found] = list_requirements(capsys)
    assert (found["title"], found["status"]) == ("Shortest", "Active")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--map", "text=wordign"], "No object has the attribute 'wordign' of --map text. Did you mean Wording?"),
        (
            ["--map", "color=Wording"],
            "--map has no field 'color'. Use one of: title, text, status, priority, assignee.",
        ),
        (["--map", "text"], "--map needs pairs such as text=RichText"),
        (["--map", "=x"], "--map needs pairs such as text=RichText"),
        (["--map", f"text={'x' * 10_000}"], "No object has the attribute 'xxx"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(
    options: list[str], reason: str, tables: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.reqif"
    file.write_bytes(TWO_TEXTS)
    assert main(["requirements", "import", str(file), *options]) in {1, 2}
    out, err = capsys.readouterr()
    shown = " ".join((out + err).split())
    assert reason in shown
    assert len(shown) < 1000


def test_types_whose_names_begin_alike_stay_two_types() -> None:
    raw = document(
        spec_object("a", text="a") + spec_object("b", text="b").replace(">t<", ">u<"), place("a") + place("b")
    )
    [first, rest] = raw.split(b"<SPEC-RELATION-TYPE", 1)
    start = first.index(b"<SPEC-OBJECT-TYPE")
    both = first + first[start:].replace(b'IDENTIFIER="t"', b'IDENTIFIER="u"').replace(b"Requirement", b"Requirement2")
    both = both.replace(b"System Requirement", b"n" * 120)
    found, _ = read_records(both + b"<SPEC-RELATION-TYPE" + rest)
    names = [one["name"] for one in found.values() if one["kind"] == "requirement_type"]
    assert len({found["a"]["type_id"], found["b"]["type_id"]}) == 2
    assert sorted(names) == sorted((found["a"]["type_id"], found["b"]["type_id"]))
    assert all(len(name) <= 100 for name in names)


def test_an_object_with_many_attributes_and_long_identifiers_is_read() -> None:
    name = "i" * 10_000
    values = "".join(value_of(f"attribute{number}", f"v{number}") for number in range(300))
    objects = spec_object(name) + spec_object("b", text="b").replace("</VALUES>", f"{values}</VALUES>")
    found, _ = read_records(document(objects, place(name, place("b"))))
    assert found["b"]["description"].count("\n") == 299
    assert [len(title) for title, one in found.items() if one["kind"] == "user_story"] == [500]


def pack(*files: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as made:
        for name, contents in files:
            made.writestr(name, contents)
    return packed.getvalue()


WHOLE = document(spec_object("a", text="a"), place("a"))
DTD = b'<!DOCTYPE x [<!ENTITY e "e">]>'
ENCRYPTED = bytearray(pack(("a.reqif", WHOLE)))
ENCRYPTED[6] |= 1
ENCRYPTED[ENCRYPTED.index(b"PK\x01\x02") + 8] |= 1
ARCHIVES: list[tuple[str, bytes, str]] = [
    ("two", pack(("a.reqif", WHOLE), ("b.reqif", WHOLE)), "The archive has 2 ReqIF files: a.reqif, b.reqif. Unpack it"),
    ("none", pack(("a.txt", WHOLE)), "The ZIP archive has no file that ends in .reqif."),
    ("a folder", pack(("a.reqif/", b"")), "The ZIP archive has no file that ends in .reqif."),
    ("empty", pack(("a.reqif", b"")), "The file ends in the middle of an element"),
    ("bomb", pack(("a.reqif", b" " * 50_000_000)), "a.reqif would have 50,000,000 bytes, which is too large."),
    ("encrypted", bytes(ENCRYPTED), "The ZIP archive is encrypted or has another compression."),
    ("cut", pack(("a.reqif", WHOLE))[:-30], "The ZIP archive is damaged."),
    ("damaged", pack(("a.reqif", WHOLE)).replace(b"a.reqif", b"b.reqif", 1), "The ZIP archive is damaged."),
    ("nested", pack(("a.reqif", pack(("a.reqif", WHOLE)))), "The file is not valid XML"),
    (
        "a document type",
        pack(("a.reqif", WHOLE.replace(b"<REQ-IF ", DTD + b"<REQ-IF "))),
        "Document types and entities",
    ),
]


@pytest.mark.parametrize(("raw", "reason"), [one[1:] for one in ARCHIVES], ids=[one[0] for one in ARCHIVES])
def test_a_bad_archive_is_refused(raw: bytes, reason: str) -> None:
    [refused] = ReqifReader(io.BytesIO(raw), Counter())
    assert isinstance(refused, Refused)
    assert refused.rejections[0].reason.startswith(reason)


def test_an_archive_is_limited_by_what_is_in_it() -> None:
    raw = bytearray(pack(("a.reqif", b"<REQ-IF>" + b"x" * 3_000_000)))
    at = raw.index(b"PK\x01\x02") + 24
    raw[at : at + 4] = (1000).to_bytes(4, "little")  # it lies about its size
    [refused] = ReqifReader(io.BytesIO(bytes(raw)), Counter())
    assert isinstance(refused, Refused)
    assert refused.rejections[0].reason.startswith("The ZIP archive is damaged.")
    honest = io.BytesIO(pack(("a.reqif", b"<REQ-IF>" + bytes(range(256)) * 12_000)))
    with (
        pytest.raises(UnreadableXML, match="more than 2,000,000 bytes"),
        archive.open_reqif(honest, Counter(), 2_000_000),
    ):
        pass


@pytest.mark.parametrize("name", ["a.reqif", "../../a.reqif", "/etc/a.REQIF", "a\\..\\b.reqif", "ü.reqif"])
def test_an_archive_is_read_and_writes_no_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "1" / "2"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    raw = pack((name, WHOLE), ("media/b.png", b"png"), ("media/", b""))
    skipped: Counter[str] = Counter()
    reader = ReqifReader(io.BytesIO(raw), skipped)
    assert [*reader] == read(WHOLE)[0]
    assert skipped["file in the archive that is not ReqIF"] == 1
    assert reader.bytes_read <= len(raw)
    assert [*tmp_path.rglob("*")] == [tmp_path / "1", inside]


def table(*rows: str) -> str:
    return f"<x:table>{''.join(f'<x:tr>{row}</x:tr>' for row in rows)}</x:table>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (table("<x:td rowspan='2'>1</x:td><x:td>2</x:td>", "<x:td>4</x:td>", "<x:td>5</x:td>"), "1\t2\n\t4\n5"),
        (table("<x:td colspan='2'>1</x:td><x:td>2</x:td>", "<x:td>3</x:td>"), "1\t\t2\n3"),
        (
            table("<x:td>1</x:td><x:td rowspan='3' colspan='2'>2</x:td><x:td>3</x:td>", "<x:td>4</x:td><x:td>5</x:td>"),
            "1\t2\t\t3\n4\t\t\t5",
        ),
        (table("<x:td rowspan='2'>1</x:td>", "<x:td rowspan='2'>2</x:td>", "<x:td>3</x:td>"), "1\n\t2\n3"),
        (table("<x:td rowspan='x' colspan='-4'>1</x:td><x:td colspan='0'>2</x:td>"), "1\t2"),
        ("<x:ol><x:li>one<x:ol><x:li>in</x:li></x:ol></x:li><x:li>two</x:li></x:ol>", "1. one\n  1. in\n2. two"),
        (
            "<x:ul><x:li>a<x:ul><x:li><x:p>b</x:p><x:ol><x:li>c</x:li></x:ol></x:li></x:ul></x:li></x:ul>",
            "- a\n  - b\n    1. c",
        ),
        (f"<x:ul><x:li>{table('<x:td>1</x:td><x:td>2</x:td>')}</x:li></x:ul>", "-\n1\t2"),
    ],
)
def test_tables_keep_their_columns_and_lists_their_levels(text: str, expected: str) -> None:
    found, _ = read_records(document(spec_object("a", text=f"<x:div>T</x:div>{text}"), place("a")))
    assert found["T"]["description"] == f"T\n{expected}"


def test_spans_do_not_make_a_text_large() -> None:
    cell = "<x:td rowspan='65000' colspan='999999999'>1</x:td>"
    found, _ = read_records(document(spec_object("a", text=f"<x:div>T</x:div>{table(*[cell * 10] * 200)}"), place("a")))
    assert len(found["T"]["description"]) < 50_000
