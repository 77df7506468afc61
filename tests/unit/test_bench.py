"""The benchmarks: that all of them run, and that their statistics and their comparison tell the truth."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bench import compare, estimates, line_chart, rendering
from tests.bench.__main__ import BENCHMARKS
from tests.bench.interleaving import Effort, interleaved
from tests.bench.outcome import Chart, Line, Target

ROOT = Path(__file__).parent.parent.parent
SECONDS = 600


def test_every_benchmark_runs_and_leaves_its_results(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "--quick", f"--output={tmp_path}"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert list(results["benchmarks"]) == list(BENCHMARKS)
    for name, outcome in results["benchmarks"].items():
        assert outcome["tables"], name
        assert all(table["rows"] for table in outcome["tables"]), name
        assert outcome["targets"], name
        assert all(value > 0 for value in outcome["figures"].values()), name
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert all(f"## {name}\n" in summary for name in BENCHMARKS)
    assert {"date", "processor", "revision"} <= results["machine"].keys()
    charts = [ET.parse(file).getroot() for file in tmp_path.glob("*.svg")]  # noqa: S314 - our own
    assert len(charts) == 4
    assert {chart.tag for chart in charts} == {"{http://www.w3.org/2000/svg}svg"}


def test_an_unknown_benchmark_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "speed", f"--output={tmp_path}"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no benchmark speed" in done.stderr


def test_a_comparison_with_itself_shows_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def this_tree(revision: str) -> Iterator[Path]:
        assert revision == "main"
        yield ROOT

    monkeypatch.setattr(compare, "_worktree", this_tree)

    status = compare.main(["main", "byte_counts", "--rounds=1", "--quick", f"--output={tmp_path}"])

    page = capsys.readouterr().out
    assert status == 0
    assert page.startswith("# This tree over main\n")
    rows = [line for line in page.splitlines() if line.startswith("| byte_counts: ")]
    assert len(rows) > 3
    assert all("1.00 (1.00-1.00)" in row for row in rows)
    assert (tmp_path / "comparison.md").read_text(encoding="utf-8") == page


def test_a_benchmark_that_does_not_run_on_the_base_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base"
    (base / "src" / "quilt_mcp").mkdir(parents=True)
    (base / "src" / "quilt_mcp" / "__init__.py").write_text("", encoding="utf-8")

    @contextmanager
    def empty_tree(_: str) -> Iterator[Path]:
        yield base

    monkeypatch.setattr(compare, "_worktree", empty_tree)

    assert compare.main(["main", "byte_counts", "--rounds=1", "--quick", f"--output={tmp_path}"]) == 0

    out, err = capsys.readouterr()
    assert "byte_counts does not run on main: it is left out" in err
    assert "| byte_counts" not in out


async def test_each_repetition_runs_every_arm_once_and_the_first_does_not_count() -> None:
    ran: list[str] = []

    async def one() -> None:
        ran.append("one")

    async def other() -> None:
        ran.append("other")

    samples = await interleaved({"one": one, "other": other}, Effort(0, at_least=5, at_most=5))

    assert {name: len(found) for name, found in samples.items()} == {"one": 5, "other": 5}
    assert [set(ran[place : place + 2]) for place in range(0, 12, 2)] == [{"one", "other"}] * 6


def test_a_paired_ratio_is_that_of_each_repetition() -> None:
    found = estimates.paired_ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_an_interval_holds_the_figure_and_narrows_with_more_measurements() -> None:
    few, many = (estimates.estimate([float(n % 10) for n in range(size)]) for size in (20, 2000))
    assert few.low <= few.value <= few.high
    assert few.high - few.low > many.high - many.low


def test_the_95th_percentile_is_a_measurement() -> None:
    assert estimates.percentile_95([float(n) for n in range(1, 101)]) == 95.0
    assert estimates.percentile_95([7.0]) == 7.0
    assert estimates.ratio_of_95([2.0] * 9, [1.0] * 9).value == 2.0


def test_twice_as_fast_and_half_as_fast_cancel_out() -> None:
    assert estimates.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)


def test_a_table_keeps_its_columns_whatever_its_cells_hold() -> None:
    text = rendering.targets([Target("a | b", "1", reached=False), Target("c", "2", reached=True)])
    assert text.splitlines() == [
        "| target | measured |         |",
        "| ------ | -------: | ------: |",
        "| a \\| b |        1 |  MISSED |",
        "| c      |        2 | reached |",
    ]


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_chart_puts_each_point_where_it_belongs(logarithmic: bool) -> None:  # noqa: FBT001 - a case
    line = Line("a < b", [(1, 10), (10, 100), (100, 1000)])
    chart = Chart("x", "title", "n", "ms", [line], log_x=logarithmic, log_y=logarithmic)

    root = ET.fromstring(line_chart.svg(chart))  # noqa: S314 - our own

    circles = [one for one in root if one.tag.endswith("circle")]
    x, y = ([float(one.attrib[name]) for one in circles] for name in ("cx", "cy"))
    assert x == sorted(x)
    assert y == sorted(y, reverse=True)
    assert (x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)) is logarithmic
    assert line_chart.LEFT <= x[0] <= x[2] <= line_chart.WIDTH - line_chart.RIGHT
    assert "a < b" in [one.text for one in root]
