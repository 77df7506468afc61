"""`make bench`, or `python -m tests.bench [NAME …]`: measure, print tables, and keep the results in bench-results/.

Benchmarks never fail because of a time. Ratios are measured within one run that alternates between the arms, so they
are comparable. Times only show the order of magnitude on this machine.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from tests.bench import rendering
from tests.bench.machine import describe
from tests.bench.outcome import Outcome, Run
from tests.bench.processes import ROOT

BENCHMARKS = {
    "peers": "processor time beside other servers with the same data, over HTTP",
    "start": "the first answer of a server that has just been started",
}
FOLDER = ROOT / "bench-results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, else all."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - BENCHMARKS.keys():
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    names = given.names or list(BENCHMARKS)
    (given.output / "data").mkdir(parents=True, exist_ok=True)
    run = Run(quick=given.quick, scale=given.scale, folder=given.output / "data", alone=given.alone)
    machine = describe()
    outcomes = {name: _run(name, run) for name in names}
    _say("# Targets\n")
    _say(rendering.targets(target for outcome in outcomes.values() for target in outcome.targets))
    _keep(given.output, machine, outcomes)
    return 0


def _parser() -> argparse.ArgumentParser:
    shown = "\n".join(f"  {name:12} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        "python -m tests.bench", description=shown, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; without any, all")
    parser.add_argument("--quick", action="store_true", help="show that they work; the figures mean nothing")
    parser.add_argument("--alone", action="store_true", help="without the peers, for a comparison of revisions")
    parser.add_argument("--scale", type=float, default=1.0, help="measure so many times as long")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where the results go: %(default)s")
    return parser


def _run(name: str, run: Run) -> Outcome:
    started = time.perf_counter()
    outcome: Outcome = asyncio.run(import_module(f"tests.bench.{name}").run(run))
    _say(f"# {name}: {BENCHMARKS[name]} ({time.perf_counter() - started:.0f} s)\n")
    for table in outcome.tables:
        _say(rendering.render_table(table))
    return outcome


def _keep(folder: Path, machine: dict[str, str], outcomes: dict[str, Outcome]) -> None:
    """Write summary.md and results.json."""
    results = {"machine": machine, "benchmarks": {name: asdict(outcome) for name, outcome in outcomes.items()}}
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / "summary.md").write_text(rendering.summary(machine, outcomes), encoding="utf-8")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
