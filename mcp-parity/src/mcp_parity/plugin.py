"""The pytest plugin: the configuration, the cases and the fixtures."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_parity.settings import COLUMNS, PAUSE, START, UI, ContractError, Entry, Names, Row, Settings

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from mcp_parity.answers import Answer
    from mcp_parity.checking import Check
    from mcp_parity.listing import Component

INVENTORY = "test_the_inventory_is_what_the_server_lists"
LEFTOVERS = "test_every_golden_has_a_case"
EVERY_WORLD = ("test_both_surfaces_give_the_answer_of_the_golden", "test_the_lists_are_those_of_the_goldens")
# Every pytest run in the environment loads this module, so functions import what only a contract needs.
# ruff: noqa: PLC0415
_UNDER_XDIST = "goldens of a contract cannot be updated in parallel: run pytest --snapshot-update -n 0"
_settings = pytest.StashKey[Settings]()
_worlds = pytest.StashKey[dict[str, list[str]]]()  # by module: a project can test several servers
_opened = pytest.StashKey[dict[tuple[str, str, str], Any]]()
_MOST_OPENED = 8
_rows = pytest.StashKey[list[Row]]()
_names = pytest.StashKey[Names]()  # of all rows; each of thousands of cases needs them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("mcp_server", "the server: module:attribute (or a function that creates it), a command or a URL")
    parser.addini("mcp_tool", "the tool that reads resources; by default get_resource if the server has it")
    parser.addini("mcp_examples", "a URI for each template: template = URI", type="linelist", default=[])
    parser.addini("mcp_calls", 'calls of tools: tool {"argument": "value"}, or `examples`', type="linelist", default=[])
    parser.addini("mcp_volatile", "values that differ: URI path, or URI path /part/", type="linelist", default=[])
    parser.addini("mcp_exclude", "patterns of URIs without a contract", type="linelist", default=[UI])
    parser.addini("mcp_golden", "the directory of the goldens", default="golden")
    parser.addini("mcp_inventory", "the inventory; by default mcp-list.csv in the directory of the goldens")
    parser.addini("mcp_start", "what a server says at its start that is pinned", type="args", default=list(START))
    parser.addini("mcp_columns", "the columns of the inventory", type="args", default=list(COLUMNS))
    parser.addini("mcp_other_goldens", "patterns of goldens of other tests", type="linelist", default=[])
    parser.addini("mcp_protocol", "the protocol era: auto, legacy or a version", default="auto")
    parser.addini("mcp_pause", "the seconds before the second read of an answer that has times", default=str(PAUSE))
    parser.addini("mcp_timeout", "the seconds that an answer may take", default="60")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    class Hooks:
        @staticmethod
        def pytest_mcp_components(components: "list[Component]") -> None:
            """Change the rows of the inventory in place: fill columns, remove or sort rows."""

    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    # goldens are named after their case, not after the test
    config.addinivalue_line("filterwarnings", r"ignore:\s*Can not relate snapshot:UserWarning")
    try:
        config.stash[_settings] = Settings.read(config.rootpath, config.getini)
    except (ContractError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    has_contract = config.stash[_settings].server or config.stash[_settings].inventory.exists()
    if has_contract and _updates(config) and config.getoption("numprocesses", default=None):
        raise pytest.UsageError(_UNDER_XDIST)


def _updates(config: pytest.Config) -> bool:
    return bool(config.getoption("update_snapshots", default=False))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a case of each row of the inventory, and learn the names of the worlds."""
    if "mcp_parity" not in metafunc.fixturenames:
        return
    # pytest has no public way to ask for the parameters of a fixture; a test pins that this one works
    [*_, definition] = metafunc.definition._fixtureinfo.name2fixturedefs["mcp_world"]  # noqa: SLF001 - pytest has no public name for it
    params = [getattr(one, "values", [one])[0] for one in definition.params or []]
    metafunc.config.stash.setdefault(_worlds, {})[metafunc.module.__name__] = [str(one) for one in params]
    if "mcp_parity_case" in metafunc.fixturenames:
        cases = _find_cases(metafunc.config)
        names = ["inventory" if isinstance(one, str) else one["example_uri"] or one["uri"] for one in cases]
        metafunc.parametrize("mcp_parity_case", cases, ids=names)


def _find_cases(config: pytest.Config) -> list[Row] | list[str]:
    """Return the rows, or one text that says why there are none."""
    from mcp_parity.calls import parse_calls
    from mcp_parity.checking import read_golden
    from mcp_parity.listing import read_rows, select_resources

    settings = config.stash[_settings]
    if _updates(config) and hasattr(config, "workerinput"):
        return [_UNDER_XDIST]
    try:
        if _updates(config) and settings.server:
            rows, tools = _list_live(config)
        else:
            rows, tools = select_resources(read_rows(settings)), read_golden(settings, "discovery/tools") or []
        calls = [one.row for one in parse_calls(settings, tools)]
    except ContractError as error:
        return [str(error)]
    config.stash[_rows], config.stash[_names] = rows, Names.of(rows)
    rows = rows + calls
    if rows or settings.inventory.exists() or (_updates(config) and settings.server):
        return rows  # without resources, pytest skips the test
    again = "again" if _updates(config) else "and read the goldens"
    return [f"there was no {settings.show(settings.inventory)}: run pytest --snapshot-update {again}"]


def _list_live(config: pytest.Config) -> tuple[list[Row], list[Entry]]:
    """Return the rows of the resources, and the tools."""
    from mcp_parity.checking import list_live
    from mcp_parity.listing import select_resources
    from mcp_parity.serving import load_server

    settings = config.stash[_settings]
    listed = list_live(load_server(settings), settings)
    tools = [one.listed for one in listed if one.row["type"] == "tool"]
    config.hook.pytest_mcp_components(components=listed)
    return select_resources([one.row for one in listed]), tools


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what only applies to the home world. An update begins with the inventory and this world.

    An update that is cut off should leave an inventory, and the other worlds refer to the goldens of the first.
    """
    away = [item for item in items if isinstance(item, pytest.Function) and _is_away(config, item)]
    contract = [item for item in away if item.function.__module__ == "mcp_parity.contract"]
    if needless := [item for item in contract if item.originalname not in EVERY_WORLD]:
        config.hook.pytest_deselected(items=needless)
        items[:] = [item for item in items if item not in needless]
    if _updates(config):
        names = {item: getattr(item, "originalname", "") for item in items}  # what has no case, the lists say
        items.sort(key=lambda item: (names[item] == LEFTOVERS, item in away, names[item] != INVENTORY))


def _is_away(config: pytest.Config, item: pytest.Function) -> bool:
    callspec = getattr(item, "callspec", None)
    world = callspec.params.get("mcp_world") if callspec else None
    return world is not None and world != config.stash[_worlds][item.module.__name__][0]


@pytest.fixture
def mcp_world() -> str:
    """The name of the world. Override it with your own `params`: the goldens of the first have no suffix."""
    return "home"


@pytest.fixture
def mcp_parity_server(request: pytest.FixtureRequest, mcp_world: str) -> Any:
    """The server under test in the world. Override it if `mcp_server` cannot name it."""
    from mcp_parity.contract import report
    from mcp_parity.serving import disconnect, load_server
    from mcp_parity.transports import Command, Remote

    # a process belongs to a module and a world, as long as it would be started with the same environment
    environment = sorted(one for one in os.environ.items() if one[0] != "PYTEST_CURRENT_TEST")
    key = (request.module.__name__, mcp_world, str(environment))
    opened = request.config.stash.setdefault(_opened, {})
    server = opened.pop(key, None) or report(lambda: load_server(request.config.stash[_settings]))
    if isinstance(server, Command | Remote):
        opened[key] = server
        disconnect([opened.pop(oldest) for oldest in [*opened][:-_MOST_OPENED]])
    return server


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the connections of a module after its last test."""
    opened = item.config.stash.get(_opened, {})
    if opened and getattr(nextitem, "module", None) is not getattr(item, "module", None):
        from mcp_parity.serving import disconnect

        disconnect(opened.values())
        opened.clear()


@pytest.fixture
def mcp_to_golden() -> "Callable[[Answer], Any] | None":
    """A function that returns what a golden holds of an answer. Override it to hide what differs by machine."""
    return None


@pytest.fixture
def mcp_golden(pytestconfig: pytest.Config, snapshot: "SnapshotAssertion") -> "SnapshotAssertion":
    """For the tests of `mcp_other_goldens`: `mcp_golden(name="errors/x")` is the file errors/x.json of the goldens."""
    from mcp_parity.checking import GoldenExtension

    root = {"root": pytestconfig.stash[_settings].golden}
    return snapshot.use_extension(type("GoldenExtension", (GoldenExtension,), root))


@pytest.fixture
def mcp_parity(
    request: pytest.FixtureRequest,
    mcp_world: str,
    mcp_parity_server: Any,
    mcp_to_golden: "Callable[[Answer], Any] | None",
    mcp_golden: "SnapshotAssertion",
) -> "Check":
    """The checks of the contract in the world."""
    from mcp_parity.checking import Check
    from mcp_parity.contract import report
    from mcp_parity.listing import read_rows, select_resources

    config = request.config
    settings = config.stash[_settings]
    rows = config.stash[_rows] if _rows in config.stash else report(lambda: select_resources(read_rows(settings)))
    home, *others = config.stash[_worlds][request.module.__name__] or [mcp_world]
    return Check(
        settings=settings,
        server=mcp_parity_server,
        world="" if mcp_world == home else mcp_world,
        worlds=["", *others],
        rows=rows,
        names=config.stash.get(_names, None) or Names.of(rows),
        snapshot=mcp_golden,
        update=_updates(config),
        to_golden=mcp_to_golden,
        change_rows=config.hook.pytest_mcp_components,
    )
