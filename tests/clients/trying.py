"""Installs a client, and tries it against the demo."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from quilt_mcp.commands.install import executable
from tests.clients.table import Agent, Library, Packages, Program, Transport
from tests.support.server_process import ROOT, run_http

DRIVERS = Path(__file__).parent / "drivers"
REFUSED = (
    "auth://nothing",
    "nothing://here",
    "metadata://templates/nothing",
    "quilt://buckets/a%20b",
    "requirements://x",
)
"""URIs of which each client must show the error."""
FEW = ("auth://status", "metadata://templates/genomics", "permissions://discover")
"""The URIs for a command that starts a server for each call."""
SECONDS = 600
Words = list[str]


@dataclass
class Outcome:
    """What a client showed.

    Attributes:
        checks: how many were made: one for each URI and way, and one for each connection.
        problems: a line for each that did not pass.
        ways: the transports, or what else was tried.
    """

    checks: int = 0
    problems: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return self.checks - len(self.problems)

    def check(self, problem: str, *, passed: bool) -> None:
        self.checks += 1
        if not passed:
            self.problems.append(problem)


class Place(NamedTuple):
    """Where a client runs: its directory, and its environment with a home of its own."""

    folder: Path
    environment: Mapping[str, str]


def list_cases() -> list[str]:
    """Return the URIs that `quilt-mcp demo` reads with success."""
    command = [executable(), "demo", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, timeout=SECONDS).stdout
    return [case["uri"] for case in json.loads(output)["cases"] if case["resource"]]


async def try_client(client: Library | Program | Agent, cases: list[str], folder: Path) -> Outcome:
    """Install a client into a folder, if it is not there, and try it."""
    outcome = Outcome()
    if problem := _install(client.packages, folder):
        outcome.check(f"cannot be installed: {problem}", passed=False)
        return outcome
    with TemporaryDirectory() as home:
        place = Place(folder, _make_environment(folder, Path(home)))
        match client:
            case Library():
                for transport in client.transports:
                    outcome.ways.append("over HTTP" if client.proxy else transport)
                    await _try_library(client, transport, cases, place, outcome)
            case Program():
                outcome.ways.append("stdio")
                _try_program(client, place, outcome)
            case Agent():
                outcome.ways.append("finds its entry")
                _try_agent(client, place, outcome)
    return outcome


def _install(packages: Packages, folder: Path) -> str | None:
    """Install what is not installed. Return what went wrong."""
    mark = folder / "installed.json"
    if mark.exists() and json.loads(mark.read_text(encoding="utf-8")) == list(packages.names):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if packages.registry == "npm":
        (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
        command: Words = ["npm", "install", "--no-audit", "--no-fund", *packages.names]
    else:
        venv.create(folder / "venv", with_pip=True)
        command = [str(_python(folder)), "-m", "pip", "install", "--quiet", *packages.names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2]
    mark.write_text(json.dumps(packages.names), encoding="utf-8")
    return None


def _python(folder: Path) -> Path:
    return folder / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _make_environment(folder: Path, home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder / "node_modules" / ".bin"), os.environ["PATH"]])
    places = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / ".config")}
    return {**os.environ, **places, "PATH": path, "NO_PROXY": "127.0.0.1", "NO_COLOR": "1"}


async def _try_library(client: Library, transport: Transport, cases: list[str], place: Place, outcome: Outcome) -> None:
    given: dict[str, Any] = {"transport": transport, "uris": [*cases, *REFUSED]}
    if transport == "stdio" and not client.proxy:
        given |= {"command": [executable(), "serve", "--demo"], "url": ""}
        await _drive(client, given, place, outcome)
        return
    kind = "sse" if transport == "sse" else "http"
    async with run_http(
        [executable(), "serve", "--demo"], place.environment, Path(place.environment["HOME"]), kind
    ) as server:
        given |= {"url": server.url, "command": [word.format(url=server.url) for word in client.proxy] or ["none"]}
        await _drive(client, given, place, outcome)


async def _drive(client: Library, given: dict[str, Any], place: Place, outcome: Outcome) -> None:
    """Run the driver, and judge each of its lines."""
    program, driver = str(_python(place.folder)), DRIVERS / client.driver
    if driver.suffix == ".mjs":
        program = "node"
        for path in DRIVERS.glob("*.mjs"):  # beside the packages, because that is where they import from
            shutil.copy(path, place.folder)
        driver = place.folder / client.driver
    process = await asyncio.create_subprocess_exec(
        *(program, str(driver), json.dumps(given)),
        cwd=place.folder,
        env={**place.environment, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError:
        process.kill()
        output, errors = await process.communicate()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith(b'{"uri"')]
    is_complete = process.returncode == 0 and len(lines) == len(given["uris"])
    reason = errors.decode(errors="replace").strip().rpartition("\n")[2]
    outcome.check(f"{given['transport']}: {len(lines)} of {len(given['uris'])} URIs. {reason}", passed=is_complete)
    for line in lines:
        _judge(line, given["transport"], outcome)


def _judge(found: Mapping[str, Any], way: str, outcome: Outcome) -> None:
    """Check an answer: a resource has the data of the tool, and a URI that must fail has the error."""
    uri, tool, resource = found["uri"], found.get("tool"), found.get("resource")
    body: Any = None
    if tool is not None:
        body, is_error = _read_body(tool), bool(tool.get("is_error") or "error" in tool)
        fits = tool.get("structured") in (None, body)
        expected = uri in REFUSED
        right = fits and (is_error or not body.get("success") if expected else bool(body.get("success")))
        outcome.check(f"{way}: the tool, {uri}: {str(tool)[:200]}", passed=right)
    if resource is not None:
        if uri in REFUSED:
            outcome.check(f"{way}: {uri} can be read", passed=bool(resource.get("error")))
            return
        data = _parse(resource.get("text"))
        same = data is not None and (tool is None or body.get("data") == data)
        outcome.check(f"{way}: the resource, {uri}: {str(resource)[:200]}", passed=same)


def _read_body(tool: Mapping[str, Any]) -> dict[str, Any]:
    return _parse(tool.get("text")) or tool.get("structured") or {}


def _parse(text: object) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _try_program(client: Program, place: Place, outcome: Outcome) -> None:
    server = [executable(), "serve", "--demo"]
    for uri in (*FEW, REFUSED[0]):
        for words, way in ((client.read, "resource"), (client.call, "tool")):
            if words:
                output, code = _run(_fill(words, server, uri), place)
                is_refused = code != 0 or '"isError": true' in output or "InvalidURI" in output
                right = is_refused if uri in REFUSED else code == 0 and uri in output and not is_refused
                outcome.check(f"{way} {uri}: exit status {code}, {output[-200:]}", passed=right)


def _fill(words: tuple[str, ...], server: Words, uri: str) -> Words:
    filled: Words = []
    for word in words:
        filled += server if word == "{command}" else [word.format(uri=uri, line=shlex.join(server))]
    return filled


def _try_agent(client: Agent, place: Place, outcome: Outcome) -> None:
    command = [executable(), "install", client.name, "--write", "--demo"]
    output, code = _run(command, place)
    outcome.check(f"quilt-mcp install {client.name}: {output[-200:]}", passed=code == 0)
    trusting = place._replace(environment={**place.environment, **dict(client.variables)})
    output, code = _run(list(client.command), trusting)
    outcome.check(f"{shlex.join(client.command)}: {output[-300:]}", passed=code == 0 and client.expected in output)


def _run(command: Words, place: Place) -> tuple[str, int]:
    program = shutil.which(command[0], path=place.environment["PATH"]) or command[0]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=place.folder,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no end", -1
    return done.stdout + done.stderr, done.returncode
