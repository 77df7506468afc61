"""tabulator://: tables of a bucket, with good and bad configurations, and stacks that are too old for them."""

from http import HTTPStatus

import pytest

from quilt_mcp.app import App
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_manager
from tests.support import apps
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import NOT_UNDERSTOOD, answer_queries
from tests.support.settings import Settings

TABLES = "bucketTabulatorTablesList"
GOOD = r"""
schema:
  - {name: "yes", type: BOOLEAN}
  - {name: "on", type: DATE, nullable: false}
source:
  type: quilt-packages
  package_name: '^study/(?<study_id>[^/]+)_(?P<day>\d+)$'
  logical_key: '^(?<sample>[^/]+)/(?<!x)(?=y)quant\.csv$'
parser: {format: csv, delimiter: "\t", header: true}
continue_on_error: true
"""


def make_payload(**configs: str) -> dict[str, object]:
    tables = [{"name": name, "config": config} for name, config in configs.items()]
    return {"data": {"bucketConfig": {"tables": tables}}}


async def read_table(monkeypatch: pytest.MonkeyPatch, config: str) -> JSONObject:
    answer_queries(monkeypatch, {TABLES: make_payload(it=config)})
    [table] = (await read("tabulator://buckets/acme-raw-sequencing/tables"))["tables"]
    assert isinstance(table, dict)
    return table


async def test_words_of_yaml_stay_text_and_groups_become_columns(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await read_table(monkeypatch, GOOD.replace('"yes"', "yes").replace('"on"', "2024-01-01"))
    assert table["columns"] == [{"name": "yes", "type": "BOOLEAN"}, {"name": "2024-01-01", "type": "DATE"}]
    assert table["captured_columns"] == ["study_id", "day", "sample"]


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
BROKEN = {
    "empty": ("", "documented form"),
    "text": ("hello", "documented form"),
    "not YAML": ("schema: [\n", "not valid YAML at line 2"),
    "tab": ("schema:\n\t- x", "not valid YAML at line 2"),
    "control": ("schema: \x00", "not valid YAML"),
    "no source": ("schema: []\nparser: {format: csv}", "source is missing"),
    "column without type": (GOOD.replace(", type: BOOLEAN", ""), "schema.0.type is missing"),
    "column is a list": (GOOD.replace('"yes"', "[a, b]"), "schema.0.name is not a text"),
    "alias": (LAUGHS, "YAML alias"),
    "merge": ("a: &a {b: c}\n<<: *a", "YAML alias"),
    "deep": ("[" * 1000, "nested more than 20 levels"),
    "code point": ('schema: "\\U00110000"', "out of range"),
    "version": ("%YAML 1." + "9" * 5000 + "\n---\na: 1", "out of range"),
    "python": ("!!python/object/apply:os.system ['true']", "documented form"),
}


async def test_a_broken_configuration_is_shown_with_the_error(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_queries(monkeypatch, {TABLES: make_payload(**{name: config for name, (config, _) in BROKEN.items()})})
    tables = (await read("tabulator://buckets/acme-raw-sequencing/tables"))["tables"]
    assert sorted(table["name"] for table in tables) == sorted(BROKEN)
    for table in tables:
        config, error = BROKEN[table["name"]]
        assert error in table["config_error"]
        assert table["config"] == config
        assert {table[key] for key in ("columns", "captured_columns", "source", "format")} == {None}


@pytest.mark.parametrize(
    ("length", "is_whole", "is_parsed"),
    [(10_000, True, True), (10_001, False, True), (20_000, False, True), (20_001, False, False)],
)
async def test_a_configuration_is_cut_at_10000_characters_and_parsed_up_to_20000(
    *, length: int, is_whole: bool, is_parsed: bool, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await read_table(monkeypatch, GOOD.ljust(length, "#"))
    assert (len(table["config"]), table.get("config_truncated")) == (10_000, None if is_whole else True)
    assert is_parsed is (table["config_error"] is None) is (table["columns"] is not None)
    assert is_parsed or "more than 20,000 characters" in table["config_error"]


@pytest.mark.parametrize(("depth", "is_parsed"), [(20, True), (21, False)])
async def test_a_configuration_may_be_nested_20_levels_deep(
    *, depth: int, is_parsed: bool, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = "[" * (depth - 1) + "]" * (depth - 1)
    table = await read_table(monkeypatch, f"{GOOD}more: {lists}\n")
    assert (table["config_error"] is None) is is_parsed


async def test_an_unknown_bucket_is_not_found(fresh_world: World) -> None:
    error = await read_error("tabulator://buckets/elsewhere/tables")
    assert (error.error, error.message) == ("NotFound", "The bucket 'elsewhere' was not found in the Quilt stack.")


async def test_a_failed_fallback_does_not_hide_that_the_stack_is_too_old(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_queries(monkeypatch, {"tabulatorBuckets": NOT_UNDERSTOOD})
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, {})  # it names no data catalog
    error = await read_error("tabulator://buckets")
    assert (error.message, error.details) == ("The Quilt stack rejected the query.", "GraphQL error at query")
    apps.use_environment()
    fresh_world.stack.forced.clear()
    fresh_world.account.refuse("DataPlatform", "athena:ListDatabases")
    error = await read_error("tabulator://buckets")
    assert error.message == "The Quilt stack rejected the query."
    assert error.details == (
        "GraphQL error at query; then Athena: refused by AWS: athena:ListDatabases (AccessDeniedException)"
    )


async def test_buckets_with_tables_are_completed(fresh_world: World) -> None:
    manager = create_manager(App(Settings()))
    template = "tabulator://buckets/{bucket}/tables{?cursor,limit}"
    assert await manager.complete(template, "bucket", "acme-r") == ["acme-raw-sequencing"]


async def test_an_unknown_setting_of_open_query_is_not_false(fresh_world: World) -> None:
    fresh_world.stack.forced["/graphql"] = Answer(HTTPStatus.OK, {"data": {"admin": {"tabulatorOpenQuery": None}}})
    error = await read_error("admin://config/tabulator")
    assert error.message == "The Quilt stack sent a response in an unexpected format."
