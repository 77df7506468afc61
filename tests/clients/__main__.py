"""The command: `python -m tests.clients [NAMES]`."""

import asyncio
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.clients.table import CLIENTS
from tests.clients.trying import Outcome, list_cases, try_client
from tests.support.server_process import ROOT

FOLDER = ROOT / "build" / "clients"


async def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        sys.stderr.write(f"Unknown clients: {', '.join(unknown)}. Known: {', '.join(CLIENTS)}.\n")
        return 2
    cases, outcomes = list_cases(), dict[str, Outcome]()
    for name in names or CLIENTS:
        sys.stderr.write(f"{name} …\n")
        outcomes[name] = await try_client(CLIENTS[name], cases, FOLDER / _make_slug(name))
    table = Table("client", "version", "tried", "checks", "passed", box=None, pad_edge=False)
    for name, one in outcomes.items():
        table.add_row(name, CLIENTS[name].packages.version, ", ".join(one.ways), str(one.checks), str(one.passed))
    console = Console(highlight=False)
    console.print(table)
    for name, one in outcomes.items():
        for problem in one.problems:
            console.print(f"{name}: {problem}", markup=False, soft_wrap=True)
    return 0 if all(one.checks and one.checks == one.passed for one in outcomes.values()) else 1


def _make_slug(name: str) -> Path:
    return Path(name.lower().replace(" ", "-").replace(".", "-"))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
