"""`make bench-compare BASE=revision`, or `python -m tests.bench.compare BASE [NAME …]`: this tree against a revision.

The benchmarks of this tree measure both alternately, in several rounds. Each ratio is that of one round.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench import rendering
from tests.bench.__main__ import BENCHMARKS, FOLDER
from tests.bench.estimates import estimate
from tests.bench.machine import describe
from tests.bench.outcome import ratio
from tests.bench.processes import ROOT

BASE, HERE = "base", "here"
_COLUMNS = ("figure", "base", "here", "here over base")

Rounds = dict[str, dict[str, list[float]]]
"""By figure and by side, its value in each round."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the figures. Fail only if a benchmark does not run."""
    given = _parser().parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    rounds: Rounds = defaultdict(lambda: {BASE: [], HERE: []})
    names = list(given.names)
    with _worktree(given.base) as base:
        for number in range(given.rounds):
            for name in [*names]:
                sys.stderr.write(f"round {number + 1} of {given.rounds}: {name}\n")
                if not _compare(name, {BASE: base, HERE: ROOT}, given, rounds):
                    sys.stderr.write(f"{name} does not run on {given.base}: it is skipped\n")
                    names.remove(name)
    page = _page(given.base, given.rounds, rounds)
    (given.output / "comparison.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.compare")
    parser.add_argument("base", help="a revision of git")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", default=tuple(BENCHMARKS), help=f"of {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds")
    parser.add_argument("--scale", type=float, default=0.3, help="factor for the duration of each round")
    parser.add_argument("--quick", action="store_true", help="only check that it works; the figures mean nothing")
    parser.add_argument("--output", type=Path, default=FOLDER, help="directory for the comparison: %(default)s")
    return parser


@contextmanager
def _worktree(revision: str) -> Iterator[Path]:
    """Check out the revision in a temporary worktree."""
    with tempfile.TemporaryDirectory(prefix="bench-compare-") as made:
        tree = Path(made) / "base"
        _git("worktree", "add", "--detach", "--quiet", str(tree), revision)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> None:
    subprocess.run(("git", *arguments), cwd=ROOT, check=True)  # noqa: S607 - from the user's PATH


def _compare(name: str, trees: Mapping[str, Path], given: argparse.Namespace, rounds: Rounds) -> bool:
    """Add the figures to the rounds. Return false if the benchmark does not run on the base.

    Raises:
        CalledProcessError: it does not run on this tree.
    """
    found = {}
    for side, tree in random.sample(sorted(trees.items()), len(trees)):
        try:
            found[side] = _measure(name, tree, given)
        except subprocess.CalledProcessError:
            if side == HERE:
                raise
            return False
    for side, figures in found.items():
        for figure, value in figures.items():
            rounds[f"{name}: {figure}"][side].append(value)
    return True


def _measure(name: str, tree: Path, given: argparse.Namespace) -> dict[str, float]:
    """Return the figures of a tree. Its package replaces the installed one. The benchmarks are those of this tree."""
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "data").symlink_to(_data(given.output), target_is_directory=True)
        command = [sys.executable, "-m", "tests.bench", name, "--alone", f"--scale={given.scale}", f"--output={made}"]
        subprocess.run(
            command + ["--quick"] * given.quick,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(ROOT)])},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        benchmarks = json.loads((Path(made) / "results.json").read_text(encoding="utf-8"))["benchmarks"]
    figures: dict[str, float] = benchmarks[name]["figures"]
    return figures


def _data(output: Path) -> Path:
    """Return the folder of databases that are slow to create. Both trees use the same."""
    folder = output / "data"
    folder.mkdir(exist_ok=True)
    return folder.absolute()


def _page(base: str, count: int, rounds: Rounds) -> str:
    both = {name: sides for name, sides in rounds.items() if sides[BASE] and sides[HERE]}
    rows = [_row(name, sides[BASE], sides[HERE]) for name, sides in both.items()]
    machine = ", ".join(describe()[fact] for fact in ("date", "processor", "software"))
    note = f"{count} rounds on {machine}. Medians; the ratio with its 95 % confidence interval."
    return f"# This tree over {base}\n\n{rendering.table(_COLUMNS, rows)}\n\n{note}\n"


def _row(name: str, base: list[float], here: list[float]) -> tuple[str, str, str, str]:
    ratios = estimate([one / other for one, other in zip(here, base, strict=True)])
    return name, f"{estimate(base).value:.4g}", f"{estimate(here).value:.4g}", ratio(ratios)


if __name__ == "__main__":
    sys.exit(main())
