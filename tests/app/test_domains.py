"""Domains come from entry points: each brings what it needs, and one that does not fit ends the start with one line."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from pydantic import ValidationError

from quilt_mcp.app.checks import Body, Check, make_check
from quilt_mcp.app.domain import Ask, Command, Domain, InvalidDomain
from quilt_mcp.app.pools import Pools
from quilt_mcp.app.settings import Group, SettingsGroup
from quilt_mcp.commands import cli
from quilt_mcp.commands.doctor import run_checks
from quilt_mcp.commands.http_server import readiness_checks
from quilt_mcp.console.process import Misuse
from quilt_mcp.core.registry import define
from quilt_mcp.server import create_server, find_domains, list_commands, list_installed, read_settings
from tests.support.toys import toy
from tests.support.waiting import SECONDS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_domain"
STATIONS = {"oslo": [59.9, 10.7], "quito": [-0.2, -78.5]}
PROGRAM = """
import contextlib, io, json, sys
from quilt_mcp.commands.cli import main
outputs, ours = [], tuple(f"quilt_mcp.{name}" for name in ("services", "requirements", "analysis", "workflows"))
for words in (["get", "stations://stations/oslo", "--json"], ["stations"], ["--help"], ["doctor", "--json"]):
    if words[0] == "doctor":  # which looks at each installed domain
        imported = [name for name in sys.modules if name.startswith((*ours, "quilt3", "boto3", "sqlalchemy"))]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = main(words)
    outputs.append([status, output.getvalue()])
print(json.dumps([outputs, imported]))
"""


def install(directory: Path, name: str, entries: str) -> None:
    """Write the metadata of a distribution, as an installer does."""
    metadata = directory / f"{name.replace('-', '_')}-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[quilt_mcp.domains]\n{entries}", encoding="utf-8")


def run(program: str, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(path), "HOME": str(path), "XDG_DATA_HOME": str(path)} | variables
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS, check=False)


def test_an_installed_module_adds_a_resource_a_setting_a_check_a_command_and_a_failure(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "stations_domain.py", tmp_path)
    install(tmp_path, "stations-domain", "stations = stations_domain:STATIONS\n")
    file = tmp_path / "stations.json"
    file.write_text(json.dumps(STATIONS), encoding="utf-8")
    done = run(PROGRAM, tmp_path, QUILT_MCP_DOMAINS="stations", QUILT_MCP_STATIONS_FILE=str(file))
    assert done.returncode == 0, done.stderr
    outputs, imported = json.loads(done.stdout)
    assert imported == []  # a server of this domain alone needs nothing of the others
    read, command, shown, diagnosed = outputs
    assert json.loads(read[1])["data"] == {"name": "oslo", "latitude": 59.9, "longitude": 10.7}
    assert command == [0, "Stations come from QUILT_MCP_STATIONS_FILE.\n"]
    assert "Say where the weather stations come from." in shown[1]
    found = json.loads(diagnosed[1])
    lines = {check["name"]: (check["state"], check["detail"]) for check in found["checks"]}
    assert lines["domain stations"] == ("info", "stations-domain 0.1.0")
    assert lines["domain quilt"] == ("info", "quilt-mcp 0.1.0, not served")
    assert lines["stations"] == ("ok", "2 stations")
    assert "QUILT_MCP_STATIONS_FILE" in {one["variable"] for one in found["settings"]}
    assert "catalog" not in lines


def test_a_domain_that_is_deleted_leaves_a_server_of_the_others(tmp_path: Path) -> None:
    copied = tmp_path / "quilt_mcp"
    shutil.copytree(ROOT / "src" / "quilt_mcp", copied, ignore=shutil.ignore_patterns("__pycache__", "workflows"))
    (copied / "services" / "workflow_service.py").unlink()  # its promised name
    kept = [one for one in list_installed() if one.name != "workflows"]
    install(tmp_path, "quilt-mcp", "".join(f"{one.name} = {one.value}\n" for one in kept))
    program = (
        "import asyncio, json, quilt_mcp.server as s; from fastmcp import Client\n"
        "async def ask():\n"
        "    async with Client(s.create_server()) as client:\n"
        "        return list((await client.call_tool('get_resource', {})).structured_content['data'])\n"
        "print(json.dumps([s.__file__, [one.name for one in s.find_domains()], asyncio.run(ask())]))"
    )
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    place, names, categories = json.loads(done.stdout)
    assert Path(place).parent == copied
    assert names == ["quilt", "requirements", "analysis"]
    assert "workflow" not in categories


class OwnSettings(SettingsGroup):
    group = Group("Own", "")

    depth: int = 3


class Taking(SettingsGroup):
    group = Group("Own", "")

    log_level: str = "INFO"


def answer() -> dict[str, str]:
    return {}


def own(**given: Any) -> Domain:
    return Domain(name="own", **{"resources": [toy("own://hello", answer)]} | given)


async def fail() -> None:
    raise NotImplementedError


async def test_a_server_of_one_domain_speaks_of_no_other() -> None:
    domain = own(summary="Reads what is our own.", checks={"own": fail}, settings=OwnSettings)
    settings = read_settings([domain], depth=4)
    server = create_server(settings, domains=[domain])
    assert server.instructions is not None
    assert server.instructions.startswith("Reads what is our own.\nCall get_resource()")
    assert readiness_checks(server.app, server.domains).keys() == {"own"}
    async with Client(server) as client:
        found = client.server_info
        tools = await client.list_tools()
    assert found is not None
    assert (found.title, found.website_url, found.icons) == ("quilt-mcp", None, None)
    [description] = [str(tool.description) for tool in tools if tool.name == "get_resource"]
    assert "own:// hello" in description
    assert "quilt" not in description
    assert vars(settings)["depth"] == 4
    assert not hasattr(settings, "data_dir")


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ([own(settings=Taking)], "The domains do not fit together: Taking declares log_level, as LogSettings does"),
        ([own(), Domain(name="other", resources=[toy("own://b", answer)])], "The domains own and other both claim own"),
        (
            [own(pools={"own": "aws"}), Domain(name="other", pools={"own": "stack"})],
            "The domains own and other both have own in `pools`",
        ),
        (
            [own(checks={"x": fail}), Domain(name="other", checks={"x": fail})],
            "The domains own and other both have x in `checks`",
        ),
        (
            [own(resources=[define("own://a", answer, name="A", description="A.", pool="pond")])],
            "There is no pool pond, which own://a names",
        ),
    ],
)
def test_domains_that_do_not_fit_together_are_refused(domains: Sequence[Domain], message: str) -> None:
    with pytest.raises(InvalidDomain) as refused:
        create_server(domains=domains)
    assert str(refused.value).startswith(message)


def test_commands_and_checks_have_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = own(commands={"x": Command("a:b", "A")}), Domain(name="other", commands={"x": Command("a:c", "B")})
    with pytest.raises(InvalidDomain, match="both have x in `commands`"):
        list_commands([one, other])
    with pytest.raises(InvalidDomain, match="both have x in `checks`"):
        readiness_checks(
            create_server(domains=[own()]).app, [own(checks={"x": fail}), Domain(name="b", checks={"x": fail})]
        )
    serve = Domain(name="other", commands={"serve": Command("a:b", "A")})
    monkeypatch.setattr("quilt_mcp.server.find_domains", lambda: (serve,))
    with pytest.raises(Misuse, match="A domain has the command serve"):
        cli.list_commands()


FOREIGN = "tests.app.test_domains"
OWN, NOT_ONE = own(), "no domain"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"own": "tests.app.no_such_module:OWN"},
            "The domain own of tests.app.no_such_module:OWN cannot be loaded: Mod",
        ),
        (
            {"own": f"{FOREIGN}:NOTHING"},
            "The domain own of tests.app.test_domains:NOTHING cannot be loaded: AttributeErr",
        ),
        ({"own": f"{FOREIGN}:NOT_ONE"}, "The entry point own of tests.app.test_domains:NOT_ONE is not a domain"),
        ({"other": f"{FOREIGN}:OWN"}, "The entry point other of tests.app.test_domains:OWN is the domain own"),
        ({}, "quilt-mcp is not installed with its domains: install it again"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(
    entries: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tuple(EntryPoint(name, value, "quilt_mcp.domains") for name, value in entries.items())
    monkeypatch.setattr("quilt_mcp.server.list_installed", lambda: installed)
    with pytest.raises(InvalidDomain) as refused:
        find_domains()
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_two_distributions_with_one_domain_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = (EntryPoint("own", "a:A", "g"), EntryPoint("own", f"{FOREIGN}:OWN", "g"))
    monkeypatch.setattr("quilt_mcp.server.list_installed", lambda: twice)
    with pytest.raises(InvalidDomain, match="Two distributions have a domain own: a:A and "):
        find_domains()


def test_domains_are_chosen_by_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_DOMAINS", "requirements, workflows")
    assert [domain.name for domain in find_domains()] == ["workflows", "requirements"]
    assert not hasattr(read_settings(), "catalog_url")
    monkeypatch.setenv("QUILT_MCP_DOMAINS", "requirement")
    with pytest.raises(InvalidDomain) as refused:
        find_domains()
    assert str(refused.value).startswith(
        "QUILT_MCP_DOMAINS names requirement, which is not installed. There are analysis, "
    )


@pytest.mark.parametrize(
    "words", ["serve", "serve --transport http --port 0", "get --demo", "list", "search x", "doctor", "demo", "--help"]
)
def test_each_command_names_an_unknown_domain_in_one_line(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILT_MCP_DOMAINS", "nope")
    assert cli.main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("quilt-mcp: QUILT_MCP_DOMAINS names nope, which is not installed. There are ")
    assert printed.err.count("\n") == 1


def test_a_setting_of_a_domain_is_read_from_the_environment_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_DEPTH", "5")
    assert vars(read_settings([own(settings=OwnSettings)]))["depth"] == 5
    monkeypatch.setenv("QUILT_MCP_DEPTH", "five")
    with pytest.raises(ValidationError):
        read_settings([own(settings=OwnSettings)])


async def test_a_row_runs_in_its_own_pool_and_others_in_that_of_their_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []

    async def run(_: Pools, pool: str, call: Any) -> object:
        used.append(pool)
        return call()

    monkeypatch.setattr(Pools, "run", run)
    rows = [
        define(f"own://{name}", answer, name=name, description="A.", pool=pool)
        for name, pool in (("a", "aws"), ("b", ""), ("c", "local"))
    ]
    async with Client(create_server(domains=[own(resources=rows, pools={"own": "database"})])) as client:
        for name in "abc":
            await client.read_resource(f"own://{name}")
    assert used == ["aws", "database", "local"]


async def test_a_domain_without_resources_is_served() -> None:
    async with Client(create_server(domains=[Domain(name="empty")])) as client:
        answer = await client.call_tool("get_resource", {})
        assert (answer.structured_content or {})["data"] == {}


async def test_a_check_of_doctor_that_hangs_fails_alone() -> None:
    async def hang(_: Ask) -> list[Check]:
        await asyncio.Event().wait()
        return []

    async def pass_(ask: Ask) -> list[Check]:
        return [make_check("good", "ok", str(await ask("own://hello")))]

    async def answer_all(uri: str) -> Body:
        return {"uri": uri}

    found = await run_checks(answer_all, [own(diagnose=hang), Domain(name="b", diagnose=pass_)], seconds=0)
    assert [(check["name"], check["state"]) for check in found] == [("own", "failed"), ("good", "ok")]
