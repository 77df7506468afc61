"""A domain of your own, weather stations in a file: resources, a setting, checks, a command and a failure."""

import json
from pathlib import Path
from typing import TypedDict

from pydantic import Field

from quilt_mcp.app import current_app
from quilt_mcp.app.checks import Check, fail, make_check
from quilt_mcp.app.domain import Ask, Command, Domain
from quilt_mcp.app.settings import Group, SettingsGroup
from quilt_mcp.core.errors import NotFound, ResourceExecutionError
from quilt_mcp.core.registry import define


class StationsSettings(SettingsGroup):
    """Where the stations are. The environment variable is QUILT_MCP_STATIONS_FILE."""

    group = Group("Stations", "Weather stations.")

    stations_file: Path | None = Field(None, description="JSON file with the position of each station by name.")


class Station(TypedDict):
    """The answer of stations://stations/{name}."""

    name: str
    """The name of the station."""
    latitude: float
    """In degrees, positive in the north."""
    longitude: float
    """In degrees, positive in the east."""


def read_stations() -> dict[str, list[float]]:
    """Return the position of each station."""
    file = current_app().settings_as(StationsSettings).stations_file
    found: dict[str, list[float]] = json.loads(file.read_text("utf-8")) if file else {}
    return found


def get_station(name: str) -> Station:
    """The position of one weather station."""
    stations = read_stations()
    if name not in stations:
        raise NotFound(f"There is no station {name}.", suggested_actions=[f"Choose one of {', '.join(stations)}."])
    latitude, longitude = stations[name]
    return {"name": name, "latitude": latitude, "longitude": longitude}


def explain_missing_file(error: Exception) -> ResourceExecutionError:
    """Return the failure that callers read if the file is gone."""
    return ResourceExecutionError(
        "The file of the stations cannot be read.",
        details=type(error).__name__,
        suggested_actions=["Ask the operator of this server to set QUILT_MCP_STATIONS_FILE."],
    )


async def check_file() -> None:
    """Check that the file can be read: /ready answers 503 if not."""
    read_stations()


async def diagnose(ask: Ask) -> list[Check]:
    """Return the lines of `quilt-mcp doctor`."""
    found = await ask("stations://stations")
    if not found["success"]:
        return [fail("stations", found)]
    return [make_check("stations", "ok", f"{found['data']['count']} stations")]


class Stations(TypedDict):
    """The answer of stations://stations."""

    stations: list[str]
    """The names of all stations."""
    count: int
    """How many there are."""


def list_stations() -> Stations:
    """The names of all weather stations."""
    names = sorted(read_stations())
    return {"stations": names, "count": len(names)}


def hello() -> int:
    """Print where the stations come from."""
    print("Stations come from QUILT_MCP_STATIONS_FILE.")
    return 0


STATIONS = Domain(
    name="stations",
    summary="Reads weather stations: stations://stations.",
    resources=[
        define("stations://stations", list_stations, name="Stations"),
        define(
            "stations://stations/{name}",
            get_station,
            name="Station",
            values={"name": lambda prefix: [name for name in read_stations() if name.startswith(prefix)]},
        ),
    ],
    settings=StationsSettings,
    failures={"builtins.FileNotFoundError": explain_missing_file},
    checks={"stations": check_file},
    diagnose=diagnose,
    commands={"stations": Command("stations_domain:hello", "Say where the weather stations come from.")},
)
