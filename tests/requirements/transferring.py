"""Imports and exports records with the command line, in tests."""

import json
import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic_core import to_jsonable_python
from sqlalchemy import NullPool, create_engine, select

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.model import CHANGED, TABLES
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.tables import metadata
from tests.support import apps

ADA = {"kind": "user", "username": "ada", "email": "ada@example.com"}
BY_ADA = {"creator_id": "ada"}
EPIC = {"kind": "epic", "reference_id": "EP-001", "title": "Epic", **BY_ADA}
STORY = {"kind": "user_story", "reference_id": "US-001", "title": "Story", "epic_id": "EP-001", **BY_ADA}
CRITERION = {
    "kind": "acceptance_criteria",
    "reference_id": "AC-001",
    "description": "WHEN it rains THEN it SHALL pour.",
    "user_story_id": "US-001",
    "author_id": "ada",
}
INSTRUCTION = re.compile(
    r"(^|: |\. |, or )(must|add|change|correct|export|give"
    r"|import|leave|move|name|put|remove|rename|save|shorten|use|write) ",
    re.IGNORECASE,
)
"""What to change, which every reason says."""
UUID = "0b9c4d5e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"


def requirement(number: int, **more: Any) -> dict[str, Any]:
    of = {"user_story_id": "US-001", "type_id": "Functional"}
    return {"kind": "requirement", "reference_id": f"REQ-{number:03d}", "title": f"R{number}", **of, **BY_ADA, **more}


def related(source: int, target: int, name: str = "depends_on") -> dict[str, Any]:
    ends = {"source_requirement_id": f"REQ-{source:03d}", "target_requirement_id": f"REQ-{target:03d}"}
    return {"kind": "relationship", "relationship_type_id": name, "created_by": "ada", **ends}


FAMILY = [ADA, EPIC, STORY, CRITERION, requirement(1, acceptance_criteria_id="AC-001"), requirement(2), related(2, 1)]


def write(file: Path, *records: Any) -> list[str]:
    """Write records to a file. Return the command that imports it."""
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return ["requirements", "import", str(file)]


def import_family(file: Path, *more: Any) -> None:
    """Import the family, and more records. An SQLite file without entities gets the rows of the first such import."""
    records = [*FAMILY, *more]
    settings = apps.current_settings()
    database = settings.data_dir / FILE_NAME
    if settings.database_url or not database.exists():
        assert main(write(file, *records)) == 0
        return
    database.write_bytes(_add_records(database.read_bytes(), json.dumps(records)))


@cache
def _add_records(contents: bytes, records: str) -> bytes:
    """Return the contents of an SQLite file after an import of records."""
    before = apps.current_settings()
    with TemporaryDirectory() as directory:
        database = Path(directory) / FILE_NAME
        database.write_bytes(contents)
        apps.use_settings(before.model_copy(update={"data_dir": Path(directory)}))
        try:
            assert main(write(Path(directory) / "records.jsonl", *json.loads(records))) == 0
        finally:
            apps.use_settings(before)
        return database.read_bytes()


def export(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["requirements", "export"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def export_kind(capsys: pytest.CaptureFixture[str], kind: str) -> list[dict[str, Any]]:
    """Return the records of a kind. Those of an SQLite file are its rows, because an export takes much longer."""
    settings = apps.current_settings()
    if settings.database_url:
        return [record for record in export(capsys) if record["kind"] == kind]
    capsys.readouterr()
    table = metadata.tables[TABLES[kind]]
    engine = create_engine(f"sqlite:///{settings.data_dir / FILE_NAME}", poolclass=NullPool)
    with engine.connect() as connection:
        rows = connection.execute(select(table).order_by(*table.primary_key)).mappings().all()
    known = [{name: value for name, value in row.items() if value is not None and name != CHANGED} for row in rows]
    return [{"kind": kind, **row} for row in to_jsonable_python(known)]


def read_contents(capsys: pytest.CaptureFixture[str]) -> object:
    """Return all rows of the database: of an SQLite file its bytes, because an export takes much longer."""
    settings = apps.current_settings()
    file = settings.data_dir / FILE_NAME
    if settings.database_url or not file.exists():
        records = export(capsys)
        if settings.database_url:
            return records
    capsys.readouterr()
    with closing(sqlite3.connect(file)) as connection:
        return connection.serialize()


def import_rejected(capsys: pytest.CaptureFixture[str], command: list[str]) -> dict[int, str]:
    """Run an import that must fail. Return the fields and reasons by line. Check that nothing was written."""
    before = read_contents(capsys)
    assert main([*command, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["imported"] == {}
    assert read_contents(capsys) == before
    assert report["rejected_count"] == len(report["rejected"])
    assert {one["file"] for one in report["rejected"]} == {command[2]}
    lines = [one["line"] for one in report["rejected"]]
    assert lines == sorted(lines)
    reasons: dict[int, str] = {}
    for one in report["rejected"]:
        assert one["reason"].endswith(".")
        assert INSTRUCTION.search(one["reason"]), one["reason"]
        reason = f"{one['field']}: {one['reason']}" if one["field"] else one["reason"]
        reasons[one["line"]] = f"{reasons[one['line']]} {reason}" if one["line"] in reasons else reason
    return reasons
