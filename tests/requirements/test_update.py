"""`import --update`: changes what a file changes, creates what is new, and deletes only what an option names."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.transfer.files import protect
from tests.requirements import generated
from tests.requirements.conftest import opened
from tests.requirements.generated import Form, Size
from tests.requirements.reading import place_of
from tests.requirements.searching import find_references
from tests.requirements.test_transfer_exact import UNUSUAL
from tests.requirements.transferring import (
    ADA,
    CRITERION,
    EPIC,
    FAMILY,
    STORY,
    UUID,
    export,
    export_kind,
    import_family,
    import_rejected,
    related,
    requirement,
    write,
)
from tests.support import apps
from tests.support.settings import Settings

Cells = list[dict[str, str]]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30).filter(
    lambda text: bool(text.strip())
)


def read_cells(file: Path) -> Cells:
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def write_cells(file: Path, rows: Cells, *, separator: str = ",", mark: str = "") -> None:
    """Write rows as a spreadsheet does."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    file.write_bytes(f"{mark}{text.getvalue()}".encode())


def run(file: Path, *options: str) -> list[str]:
    return ["requirements", "import", str(file), "--update", *options]


def export_cells(file: Path) -> Cells:
    assert main(["requirements", "export", str(file)]) == 0
    return read_cells(file)


def find(settings: Settings, query: str) -> list[str]:
    with opened(settings) as database:
        return find_references(database, query)


def edit(numbers: random.Random, rows: Cells, text: str) -> set[int]:  # noqa: C901 - one condition for each kind of cell
    """Change random cells. Return the numbers of the rows that differ."""
    changed = set()
    users = [row["id"] for row in rows if row["kind"] == "user"]
    epics = [row["id"] for row in rows if row["kind"] == "epic"]
    for number, row in enumerate(rows):
        before = dict(row)
        if row["priority"] and numbers.random() < 0.3:
            row["priority"] = str(numbers.randrange(1, 5))
        if row["kind"] in {"epic", "user_story"} and numbers.random() < 0.3:
            row["status"] = numbers.choice(generated.STATUSES)
        if row["title"] and numbers.random() < 0.3:
            row["title"] = str(protect(text[:400]))
        if row["description"] and row["kind"] != "user" and numbers.random() < 0.3:
            row["description"] = str(protect(text)) if row["kind"] == "acceptance_criteria" else ""
        if row["assignee_id"] and numbers.random() < 0.3:
            row["assignee_id"] = numbers.choice(users)
        if row["kind"] == "user_story" and numbers.random() < 0.3:
            row["epic_id"] = numbers.choice(epics)
        if row["acceptance_criteria_id"] and numbers.random() < 0.3:
            row["acceptance_criteria_id"] = ""
        if row["kind"] == "user" and numbers.random() < 0.3:
            row["role"] = numbers.choice(("Administrator", "User", "Commenter"))
        if row != before:
            changed.add(number)
    return changed


def without_time(rows: Cells, changed: set[int]) -> Cells:
    return [{**row, "updated_at": ""} if number in changed else row for number, row in enumerate(rows)]


@pytest.mark.soak
@given(
    seed=st.integers(0, 2**32),
    text=texts,
    separator=st.sampled_from([",", ";", "\t"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_an_edited_export_is_imported_again(  # noqa: PLR0917 - what hypothesis chooses
    make_settings: Callable[..., Settings],
    dialect: Form,
    tmp_path: Path,
    seed: int,
    text: str,
    separator: str,
    mark: str,
) -> None:
    target = make_settings(dialect, "tables")
    rows = generated.generate(seed, Size(users=3, members=90, entities=6), [text, *UNUSUAL])
    generated.write(dialect, place_of(target), rows)
    apps.use_settings(target)
    cells = export_cells(tmp_path / "before.csv")
    changed = edit(random.Random(seed), cells, text)  # noqa: S311 - not a secret
    write_cells(tmp_path / "edited.csv", cells, separator=separator, mark=mark)
    assert main(run(tmp_path / "edited.csv", "--dry-run")) == 0
    assert main(run(tmp_path / "edited.csv", "--delete-missing")) == 0
    found = export_cells(tmp_path / "after.csv")
    assert without_time(found, changed) == without_time(cells, changed)
    assert all(found[number]["updated_at"] >= cells[number]["updated_at"] for number in changed)
    assert main(run(tmp_path / "after.csv")) == 0
    export_cells(tmp_path / "again.csv")
    assert (tmp_path / "after.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "reqif"])
@pytest.mark.parametrize("contents", ["tables", pytest.param("sample", marks=pytest.mark.soak)])
def test_an_unchanged_export_changes_nothing(  # noqa: PLR0917 - the fixtures, and two columns
    make_settings: Callable[..., Settings],
    set_settings: Callable[[Settings], None],
    dialect: Form,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    suffix: str,
    contents: str,
) -> None:
    set_settings(make_settings(dialect, contents))
    if contents == "tables":
        import_family(tmp_path / "family.jsonl", {"kind": "member", "user_id": "ada", "project_id": "Default"})
    before = export(capsys)
    assert main(["requirements", "export", str(tmp_path / f"all.{suffix}"), "--with-users"]) == 0
    capsys.readouterr()
    assert main(run(tmp_path / f"all.{suffix}", "--delete-missing", "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["change_count"], report["changes"], report["created"], report["deleted"]) == (0, [], {}, {})
    assert sum(report["unchanged"].values()) == len(before)
    assert report["skipped"] == {}
    assert export(capsys) == before


@pytest.mark.usefixtures("tables")
def test_a_trial_shows_the_changes_and_writes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, ADA, {**ADA, "username": "eve", "email": "e@x"}, *FAMILY[1:])) == 0
    before = export(capsys)
    change = {"kind": "requirement", "reference_id": "REQ-001", "title": "New", "assignee_id": "eve"}
    command = write(file, change, requirement(9), {"kind": "epic", "reference_id": "EP-001", "priority": 3})
    assert main([*command, "--update", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{file}:1: updated requirement REQ-001: assignee_id: 'ada' → 'eve'; title: 'R1' → 'New'",
        f"{file}:2: created requirement REQ-009",
        "Dry run, nothing was written: created 1 requirement, updated 1 requirement, unchanged 1 epic.",
    ]
    assert not err
    assert export(capsys) == before
    assert main([*command, "--update"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Done: created 1 requirement")
    found = {record["reference_id"]: record for record in export_kind(capsys, "requirement")}
    assert found["REQ-001"]["title"] == "New"
    assert "REQ-009" in found


@pytest.mark.usefixtures("tables")
def test_fields_that_a_record_lacks_keep_their_values(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = requirement(1, description="text", priority=1, status="Active", acceptance_criteria_id="AC-001")
    assert main(write(file, *FAMILY[:4], full)) == 0
    [before] = export_kind(capsys, "requirement")
    assert main([*write(file, {"kind": "requirement", "reference_id": "REQ-001", "title": "New"}), "--update"]) == 0
    [after] = export_kind(capsys, "requirement")
    assert after == {**before, "title": "New", "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    nulls = dict.fromkeys(("description", "acceptance_criteria_id", "priority", "status", "title", "creator_id"))
    assert main([*write(file, {"kind": "requirement", "id": before["id"], **nulls}), "--update"]) == 0
    [emptied] = export_kind(capsys, "requirement")
    left = {name: value for name, value in after.items() if name not in {"description", "acceptance_criteria_id"}}
    assert emptied == {**left, "updated_at": emptied["updated_at"]}


@pytest.mark.usefixtures("tables")
def test_a_user_named_like_the_id_of_another_takes_nothing_from_them(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mallory = {"kind": "user", "username": UUID, "email": "m@example.com"}
    assert main(write(file, {**ADA, "id": UUID}, mallory, *FAMILY[1:])) == 0
    [other] = [one["id"] for one in export_kind(capsys, "user") if one["username"] == UUID]
    epic = {"kind": "epic", "reference_id": "EP-001", "assignee_id": other}
    story = {"kind": "user_story", "reference_id": "US-001", "title": "New"}
    assert main([*write(file, epic, story), "--update"]) == 0
    [after] = export_kind(capsys, "user_story")
    assert (after["title"], after["creator_id"]) == ("New", UUID)


@pytest.mark.usefixtures("tables")
def test_columns_that_a_table_lacks_keep_their_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(tmp_path / "a.jsonl", *FAMILY, {**EPIC, "reference_id": "EP-002"})) == 0
    before = {one["reference_id"]: one for one in export(capsys) if "reference_id" in one}
    (tmp_path / "b.csv").write_text(
        "kind;reference_id;title;parent;priority\r\nepic;EP-001;'=1+1;;\r\nuser_story;US-001;;EP-002;1\r\n"
    )
    assert main(run(tmp_path / "b.csv")) == 0
    after = {one["reference_id"]: one for one in export(capsys) if "reference_id" in one}
    assert after["EP-001"]["title"] == "=1+1"
    assert after["US-001"]["title"] == "Story"
    assert after["US-001"]["epic_id"] == after["EP-002"]["id"]
    assert after["REQ-001"] == before["REQ-001"]
    assert (after["EP-001"]["priority"], after["US-001"]["priority"]) == (3, 1)


@pytest.mark.usefixtures("tables")
def test_entities_move_to_other_projects(
    settings_with_tables: Settings, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moon = {"kind": "project", "name": "Moon"}
    assert main(write(file, *FAMILY, moon, {**EPIC, "reference_id": "EP-002", "parent": "Moon"})) == 0
    assert main([*write(file, {"kind": "user_story", "reference_id": "US-001", "parent": "EP-002"}), "--update"]) == 0
    epics = {one["reference_id"]: one["id"] for one in export_kind(capsys, "epic")}
    assert export_kind(capsys, "user_story")[0]["epic_id"] == epics["EP-002"]
    assert main([*write(file, {"kind": "epic", "reference_id": "EP-002", "parent": "Default"}), "--update"]) == 0
    assert find(settings_with_tables, "R1") == ["REQ-001"]


@pytest.mark.usefixtures("tables")
def test_the_search_finds_changed_texts(
    settings_with_tables: Settings, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_family(file)
    change = {"kind": "requirement", "reference_id": "REQ-001", "description": "zebra"}
    renamed = {"kind": "epic", "id": export_kind(capsys, "epic")[0]["id"], "reference_id": "EP-077"}
    assert main([*write(file, change, renamed), "--update"]) == 0
    assert find(settings_with_tables, "zebra") == ["REQ-001"]
    assert find(settings_with_tables, "EP-077") == ["EP-077"]
    assert main([*write(file, {"kind": "epic", "title": "Next"}), "--update", "--creator", "ada"]) == 0
    assert {one["reference_id"] for one in export_kind(capsys, "epic")} == {"EP-077", "EP-078"}


@pytest.mark.usefixtures("tables")
def test_relationships_are_matched_by_their_ends(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(file)
    [before] = export_kind(capsys, "relationship")
    again = {name: value for name, value in related(2, 1).items() if name != "created_by"}
    assert main([*write(file, again, {**related(1, 2, "relates_to")}), "--update"]) == 0
    found = export_kind(capsys, "relationship")
    assert len(found) == 2
    assert before in found
    # the stored relationship changes its direction, so the old one closes no cycle
    turned = {"kind": "relationship", "id": before["id"], **related(1, 2)}
    assert main([*write(file, turned), "--update"]) == 0
    reasons = import_rejected_update(capsys, write(file, {**related(1, 2), "id": UUID}))
    assert reasons[1].startswith(f"id: The relationship is already in the database with the ID {before['id']}.")
    reasons = import_rejected_update(capsys, write(file, related(2, 1)))
    assert reasons == {
        1: "target_requirement_id: The relationship depends_on forms a cycle with others. Remove one of them."
    }


@pytest.mark.usefixtures("tables")
def test_two_records_cannot_be_the_same_relationship(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(file, requirement(3))
    [before] = export_kind(capsys, "relationship")
    moved = {**related(2, 3), "id": before["id"]}
    for records in ([moved, related(2, 1)], [related(2, 1), moved]):
        reasons = import_rejected_update(capsys, write(file, *records))
        assert reasons == {
            records.index(related(2, 1)) + 1: f"target_requirement_id: Another record of the file has the ID of this "
            f"relationship, {before['id']}. Leave that ID out, or remove one of the two records."
        }
    # without the ID, the file has both relationships
    assert main([*write(file, related(2, 3), related(2, 1)), "--update"]) == 0
    found = export_kind(capsys, "relationship")
    assert len(found) == 2
    assert before in found


def import_rejected_update(capsys: pytest.CaptureFixture[str], command: list[str], *more: str) -> dict[int, str]:
    return import_rejected(capsys, [*command, "--update", *more])


PRIORITY = "Must be a whole number from 1 to 4, or critical, high, medium or low."
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"kind": "epic", "reference_id": "EP-001", "priority": 9}, f"priority: {PRIORITY}"),
    ({"kind": "epic", "reference_id": "EP-404"}, "title: Missing. Add it."),
    ({"kind": "user_story", "title": "x"}, "epic_id: Missing. Add it, or the field parent."),
    ({"kind": "user", "username": "bob", "email": "ada@example.com"}, "email: The user 'ada' in the database has the"),
    ({"kind": "member", "user_id": "ada"}, "project_id: Missing. Add it."),
    (
        {name: value for name, value in related(1, 2).items() if name != "target_requirement_id"},
        "target_requirement_id: Missing. Add it.",
    ),
    ({"kind": "relationship"}, "source_requirement_id: Missing. Add it. target_requirement_id: Missing. Add it."),
    ({"kind": "acceptance_criteria", "description": "x"}, "user_story_id: Missing. Add it, or the field parent."),
    (
        {"kind": "requirement", "title": "x", "acceptance_criteria_id": "AC-001"},
        "user_story_id: Missing. Add it, or the field parent.",
    ),
]
WRONG_ALONE: list[tuple[dict[str, Any], str]] = [
    ({"kind": "epic", "reference_id": "EP-001", "id": UUID}, "reference_id: 'EP-001' has another ID in the database,"),
    ({"kind": "user_story", "reference_id": "US-001", "parent": "EP-404"}, "parent: 'EP-404' not found in epics,"),
    (
        {"kind": "acceptance_criteria", "reference_id": "AC-001", "parent": "US-002"},
        "user_story_id: REQ-001 belongs to another user story and refers to this criterion. Move it too.",
    ),
    (
        {"kind": "requirement", "reference_id": "REQ-001", "parent": "US-002"},
        "acceptance_criteria_id: The acceptance criterion belongs to another user story.",
    ),
    (
        {"kind": "epic", "reference_id": "EP-001", "title": "Old", "updated_at": "2020-01-01T00:00:00Z"},
        "updated_at: The record was changed in the database at 2",
    ),
]


@pytest.mark.usefixtures("tables")
def test_wrong_updates_are_rejected(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(file, {**STORY, "reference_id": "US-002"})
    for cases in (WRONG, *([case] for case in WRONG_ALONE)):
        found = import_rejected_update(capsys, write(file, *(record for record, _ in cases)))
        reasons = {line: reason for line, (_, reason) in enumerate(cases, start=1)}
        assert {line: one[: len(reasons[line])] for line, one in found.items()} == reasons


@pytest.mark.usefixtures("tables")
def test_members_and_relationships_are_shown_by_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, *FAMILY[:-1])) == 0
    member = {"kind": "member", "user_id": "ada", "project_id": "Sequencing"}
    new = [{"kind": "project", "name": "Sequencing"}, member, related(2, 1)]
    created = "created 1 project, 1 member, 1 relationship"
    for records, shown in (
        (new, [":2: created member ada in Sequencing", ":3: created relationship REQ-002 depends_on REQ-001", created]),
        ([{**member, "role": "Viewer"}], [":1: updated member ada in Sequencing: role: 'Editor' → 'Viewer'"]),
        ([member], ["unchanged 1 member"]),
    ):
        capsys.readouterr()
        assert main([*write(file, *records), "--update"]) == 0
        out = capsys.readouterr().out
        assert [one for one in shown if one not in out] == []
    assert sorted(one["role"] for one in export_kind(capsys, "member")) == ["Editor", "Viewer"]


@pytest.mark.parametrize("options", [[], ["--update"]], ids=["import", "update"])
@pytest.mark.usefixtures("tables")
def test_a_member_is_in_the_file_once(file: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    import_family(file, {"kind": "project", "name": "Sequencing"})
    [ada] = export_kind(capsys, "user")
    viewer = {"kind": "member", "user_id": "ada", "project_id": "Default", "role": "Viewer"}
    other = {**viewer, "project_id": "Sequencing"}
    command = write(file, viewer, other, {**viewer, "user_id": ada["id"], "role": "Editor"})
    reasons = import_rejected(capsys, [*command, *options])
    assert reasons == {3: "user_id: Duplicate of the member in line 1. Remove one of the two."}
    assert main([*write(file, viewer, other), *options]) == 0


@pytest.mark.usefixtures("tables")
def test_only_what_a_file_lacks_of_its_own_kinds_is_deleted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(write(file, *FAMILY, requirement(3), {**EPIC, "reference_id": "EP-002"})) == 0
    kept = [requirement(1), requirement(2)]
    assert main([*write(file, *kept), "--update"]) == 0
    assert len(export_kind(capsys, "requirement")) == 3
    assert main([*write(file, *kept), "--update", "--delete-missing"]) == 0
    assert "deleted requirement REQ-003" in capsys.readouterr().out
    assert {one["reference_id"] for one in export_kind(capsys, "requirement")} == {"REQ-001", "REQ-002"}
    assert len(export_kind(capsys, "epic")) == 2
    assert len(export_kind(capsys, "relationship")) == 1
    assert len(export_kind(capsys, "user")) == 1


REFERRED = [
    ({**EPIC, "reference_id": "EP-002"}, "The file does not have the epic EP-001, but user stories in the database"),
    ({**STORY, "reference_id": "US-002"}, "The file does not have the user story US-001, but acceptance criteria in"),
    (
        {**CRITERION, "reference_id": "AC-002"},
        "The file does not have the acceptance criteria AC-001, but requirements",
    ),
    (
        requirement(3),
        "refer to it. Add it, or remove these requirement relationships too. A file without requirement relationships",
    ),
]


@pytest.mark.usefixtures("tables")
def test_what_others_refer_to_is_not_deleted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_family(file)
    for record, reason in REFERRED:
        found = import_rejected_update(capsys, write(file, record), "--delete-missing")
        assert reason in found[0]


@pytest.mark.usefixtures("tables")
def test_members_and_relationships_are_deleted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    eve = {"kind": "user", "username": "eve", "email": "e@x"}
    assert main(write(file, *FAMILY, eve, related(2, 1, "relates_to"))) == 0
    member = {"kind": "member", "user_id": "ada", "project_id": "Default"}
    # with the deleted relationship, this one would close a cycle
    assert main([*write(file, member, related(1, 2)), "--update", "--delete-missing"]) == 0
    out = capsys.readouterr().out
    assert "deleted member eve in Default" in out
    assert "deleted 2 relationship, 1 member" in out or "deleted 1 member, 2 relationship" in out
    assert len(export_kind(capsys, "relationship")) == 1
    assert len(export_kind(capsys, "user")) == 2


@pytest.mark.usefixtures("tables")
def test_relationships_that_lead_out_of_the_projects_of_a_file_can_close_a_cycle(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epic = {**EPIC, "reference_id": "EP-002", "project_id": "Pumps"}
    pump = [epic, {**STORY, "reference_id": "US-002", "epic_id": "EP-002"}, requirement(3, user_story_id="US-002")]
    new = [{"kind": "project", "name": "Pumps"}, *pump, related(1, 3), related(3, 2)]
    assert main(write(file, *(one for one in FAMILY if one["kind"] != "relationship"), *new)) == 0
    command = write(file, {"kind": "project", "name": "Default"}, related(2, 1))
    [reason] = import_rejected_update(capsys, command, "--delete-missing").values()
    assert reason == "target_requirement_id: The relationship depends_on forms a cycle with others. Remove one of them."


@pytest.mark.usefixtures("tables")
def test_an_update_creates_rows_of_all_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    eve = {"kind": "user", "username": "eve", "email": "eve@example.com"}
    named = [
        {"kind": "project", "name": "Moon"},
        {"kind": "requirement_type", "name": "Safety"},
        {"kind": "relationship_type", "name": "proves"},
    ]
    records = [
        *[ADA, eve, *named, {**EPIC, "parent": "Moon", "assignee_id": "eve"}, *FAMILY[2:]],
        *[requirement(3, type_id="Safety"), related(3, 1, "proves")],
    ]
    command = [*write(tmp_path / "all.jsonl", *records), "--update"]
    assert main([*command, "--dry-run"]) == 0
    assert export_kind(capsys, "epic") == []
    assert main(command) == 0
    before = export(capsys)
    assert {"eve", "Moon", "Safety", "proves"} <= {one.get("username", one.get("name")) for one in before}
    assert len([one for one in before if one["kind"] == "relationship"]) == 2
    assert main(command) == 0
    assert "created" not in capsys.readouterr().out
    assert export(capsys) == before


@pytest.mark.usefixtures("tables")
def test_a_record_cannot_be_in_the_file_by_its_id_and_by_its_name(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_family(file)
    [first, *_] = export_kind(capsys, "requirement")
    twice = [{"kind": "requirement", "id": first["id"], "title": "A"}, {**requirement(1), "title": "B"}]
    twice[1]["reference_id"] = first["reference_id"]
    for records in (twice, twice[::-1]):
        [reason] = import_rejected_update(capsys, write(file, *records)).values()
        assert f"Another record of the file has the ID of '{first['reference_id']}'" in reason


def test_options_that_contradict_each_other_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requirements", "import", str(file), "--delete-missing"]) == 2
    assert capsys.readouterr().err == "quilt-mcp: --delete-missing needs --update.\n"


@pytest.mark.soak
@pytest.mark.usefixtures("tables")
def test_many_changes_are_counted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    epics = [{**EPIC, "reference_id": f"EP-{number:03d}"} for number in range(1, 1102)]
    assert main(write(file, ADA, *epics)) == 0
    capsys.readouterr()
    changed = [{"kind": "epic", "reference_id": one["reference_id"], "title": "New\x1b[31m"} for one in epics]
    command = [*write(file, *changed), "--update", "--dry-run"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 52
    assert "\x1b" not in lines[0]
    assert lines[-2] == "1051 more changes are not shown; --json shows up to 1000."
    assert lines[-1] == "Dry run, nothing was written: updated 1101 epics."
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (len(report["changes"]), report["change_count"], report["updated"]) == (1000, 1101, {"epic": 1101})
    assert report["changes"][0] == {
        "action": "updated",
        "line": 1,
        "kind": "epic",
        "name": "EP-001",
        "fields": {"title": {"before": "Epic", "after": "New\x1b[31m"}},
    }
