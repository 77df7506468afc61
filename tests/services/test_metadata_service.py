"""The metadata texts: the templates and tools that they name exist, and the code that they show works."""

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
import quilt3
import time_machine

from quilt_mcp.services import metadata_service

NAMES = ["analytics", "genomics", "ml", "research", "standard"]
KNOWN_URIS = {
    "metadata://templates",
    "metadata://templates/{template}",
    "metadata://troubleshooting",
    "permissions://discover",
    *(f"metadata://templates/{name}" for name in NAMES),
}
KNOWN_TOOLS = {"workflow_create", "workflow_add_step", "workflow_update_step"}


def read_template(name: str) -> dict[str, Any]:
    return {**asyncio.run(metadata_service.get_metadata_template(name))}


def ask(name: str) -> Any:
    return asyncio.run(getattr(metadata_service, name)())


TEMPLATES, EXAMPLES, FIXES = ("list_metadata_templates", "show_metadata_examples", "fix_metadata_validation_issues")
ANSWERS = (TEMPLATES, EXAMPLES, FIXES)


def get_resource(uri: str) -> dict[str, Any]:
    """The tool that the snippets call, for the template resources."""
    return {"data": read_template(uri.removeprefix("metadata://templates/"))}


def find_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from find_texts(item)


def collect_texts() -> list[str]:
    return [text for answer in ANSWERS for text in find_texts(ask(answer))]


@pytest.fixture(autouse=True)
def _no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quilt3.telemetry.ApiTelemetry, "telemetry_disabled", True)


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The names that the snippets use. Pushing and fetching check their arguments and do nothing."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "counts.csv").write_text("gene,count\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quilt3.Package, "push", create_autospec(quilt3.Package.push))
    monkeypatch.setattr(quilt3.Package, "browse", create_autospec(quilt3.Package.browse))
    monkeypatch.setattr(quilt3.Bucket, "fetch", create_autospec(quilt3.Bucket.fetch))
    return {
        "quilt3": quilt3,
        "json": json,
        "jsonschema": quilt3.workflows.jsonschema,
        "date": date,
        "get_resource": get_resource,
        "package": quilt3.Package(),
        "template": read_template("genomics"),
        "metadata": {"organism": "Homo sapiens"},
        "schema": {"required": ["organism"]},
    }


def run(snippet: str, namespace: dict[str, Any]) -> None:
    exec(compile(snippet, "<snippet>", "exec"), namespace)  # noqa: S102 - the tested text is Python


def test_creation_date_is_the_current_day_in_utc() -> None:
    with time_machine.travel(datetime(2026, 5, 1, 23, 59, tzinfo=UTC), tick=False) as clock:
        assert read_template("ml")["creation_date"] == "2026-05-01"
        clock.shift(60)
        assert read_template("ml")["creation_date"] == "2026-05-02"


def test_changing_an_answer_does_not_change_the_next_one() -> None:
    read_template("analytics")["metrics_included"].append("mine")
    assert read_template("analytics")["metrics_included"] == []
    for answer in ANSWERS:
        before = json.dumps(ask(answer))
        for value in ask(answer).values():
            if isinstance(value, dict | list):
                value.clear()
        changed = ask(answer)
        next(inner for inner in changed.values() if isinstance(inner, dict)).popitem()
        assert json.dumps(ask(answer)) == before


def test_every_uri_and_tool_in_the_texts_exists() -> None:
    for text in collect_texts():
        uris = {uri for uri in re.findall(r"\w+://[\w/{}-]+", text) if uri != "s3://my-bucket"}
        assert uris <= KNOWN_URIS
        assert set(re.findall(r"\bworkflow_\w+", text)) <= KNOWN_TOOLS


def test_the_usage_examples_run_as_one_program(namespace: dict[str, Any]) -> None:
    del namespace["package"], namespace["template"]
    run("\n".join(ask(TEMPLATES)["usage_examples"]), namespace)
    assert namespace["package"].meta["organism"] == "Homo sapiens"
    assert set(namespace["package"].keys()) == {"counts.csv"}
    quilt3.Package.push.assert_called_once()


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_each_template_sets_existing_fields(name: str, namespace: dict[str, Any]) -> None:
    namespace["template"] = read_template(name)
    run(ask(TEMPLATES)["available_templates"][name]["example_usage"], namespace)
    assert namespace["package"].meta.keys() == namespace["template"].keys()
    assert namespace["package"].meta != namespace["template"]


def test_the_working_examples_set_the_metadata_of_a_package(namespace: dict[str, Any]) -> None:
    guide = ask(EXAMPLES)["metadata_usage_guide"]
    for example in [*guide["working_examples"].values(), *guide["common_patterns"].values()]:
        template = read_template(str(example["template"])) if "template" in example else {}
        own: Any = example.get("example", example.get("custom_fields"))
        namespace.update(package=quilt3.Package(), template=template, example=own, custom_fields=own)
        run(str(example["usage"]), namespace)
        own_fields = json.loads(own) if isinstance(own, str) else own
        assert namespace["package"].meta == {**template, **own_fields}
    assert quilt3.Package.push.call_count == len(guide["common_patterns"])


def test_the_common_patterns_replace_fields_of_their_template() -> None:
    for pattern in ask(EXAMPLES)["metadata_usage_guide"]["common_patterns"].values():
        assert pattern["custom_fields"].keys() & read_template(pattern["template"]).keys()


def test_the_solutions_run(namespace: dict[str, Any]) -> None:
    snippets = [
        snippet for issue in ask(FIXES)["common_issues_and_fixes"].values() for snippet in issue["working_examples"]
    ]
    for snippet in snippets:
        run(snippet, namespace)
        json.dumps(namespace["package"].meta, allow_nan=False)
    assert len(snippets) == 8


def test_code_in_sentences_runs(namespace: dict[str, Any]) -> None:
    quoted = [code for text in collect_texts() for code in re.findall(r"`([^`]+)`", text)]
    snippets = [code for code in quoted if isinstance(ast.parse(code, mode="eval").body, ast.Call | ast.Attribute)]
    for snippet in snippets:
        run(snippet, namespace)
    assert len(snippets) == 6
    assert list(Path("registry").glob("**/named_packages/test/metadata/latest"))


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # quilt3 calls them
def test_the_error_messages_are_those_of_json_and_quilt3(tmp_path: Path) -> None:
    issues = ask(FIXES)["common_issues_and_fixes"]
    registry = tmp_path / "registry"

    def message(metadata: Any) -> str:
        with pytest.raises((TypeError, ValueError, quilt3.util.QuiltException)) as error:
            quilt3.Package().set_meta(metadata).build("a/b", registry=str(registry))
        return str(error.value)

    assert message({"day": date(2026, 5, 1)}) == issues["type_validation_error"]["error"]
    of_nan = message({"ratio": float("nan")}).removesuffix(": nan")  # since Python 3.13
    assert of_nan in issues["type_validation_error"]["root_cause"]
    _require_organism(registry)
    assert message({}) == issues["schema_validation_error"]["error"]
    json_issue = issues["json_format_error"]
    with pytest.raises(json.JSONDecodeError) as error:
        json.loads(json_issue["avoid"][0])
    assert str(error.value) == json_issue["error"]
    for text in json_issue["avoid"]:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


def _require_organism(registry: Path) -> None:
    workflows = registry / ".quilt" / "workflows"
    workflows.mkdir(parents=True)
    schema = workflows / "schema.json"
    schema.write_text('{"type": "object", "required": ["organism"]}', encoding="utf-8")
    (workflows / "config.yml").write_text(
        "version: '1'\ndefault_workflow: genomics\n"
        "workflows: {genomics: {name: Genomics, metadata_schema: genomics}}\n"
        f"schemas: {{genomics: {{url: '{schema.as_uri()}'}}}}\n",
        encoding="utf-8",
    )
