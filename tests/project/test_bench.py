"""The benchmarks: all of them run, and their statistics and comparison are correct."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.bench import compare, document, estimates, peers, rendering
from tests.bench.__main__ import BENCHMARKS
from tests.bench.outcome import Outcome, Target
from tests.bench.peer_servers import DATA
from tests.bench.peers import Cell, Measured
from tests.bench.processes import other_on_http, peer, processor_seconds
from tests.bench.typescript import NotInstalledError, typescript_server
from tests.bench.wire import HTTPConnection, parse_result, read, tool

ROOT = Path(__file__).parent.parent.parent
SECONDS = 600


@pytest.mark.soak
@pytest.mark.alone
def test_every_benchmark_runs_and_writes_its_results(tmp_path: Path) -> None:
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


@pytest.mark.soak
def test_an_unknown_benchmark_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "speed", f"--output={tmp_path}"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no benchmark speed" in done.stderr


@pytest.mark.soak
def test_a_comparison_has_a_ratio_for_each_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def this_tree(revision: str) -> Iterator[Path]:
        assert revision == "main"
        yield ROOT

    monkeypatch.setattr(compare, "_worktree", this_tree)

    status = compare.main(["main", "start", "--rounds=1", "--quick", f"--output={tmp_path}"])

    page = capsys.readouterr().out
    assert status == 0
    assert page.startswith("# This tree over main\n")
    rows = [line for line in page.splitlines() if line.startswith("| start: ")]
    assert len(rows) == 5
    for row in rows:
        base, here, over = (float(cell.split()[0]) for cell in row.strip("| ").split("|")[1:])
        assert over == pytest.approx(here / base, abs=0.01)
    assert (tmp_path / "comparison.md").read_text(encoding="utf-8") == page


@pytest.mark.soak
def test_a_benchmark_that_does_not_run_on_the_base_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base"
    (base / "src" / "quilt_mcp").mkdir(parents=True)
    (base / "src" / "quilt_mcp" / "__init__.py").write_text("", encoding="utf-8")

    @contextmanager
    def empty_tree(_: str) -> Iterator[Path]:
        yield base

    monkeypatch.setattr(compare, "_worktree", empty_tree)

    assert compare.main(["main", "start", "--rounds=1", "--quick", f"--output={tmp_path}"]) == 0

    out, err = capsys.readouterr()
    assert "start does not run on main: it is skipped" in err
    assert "| start" not in out


def test_a_paired_ratio_compares_values_of_the_same_repetition() -> None:
    found = estimates.paired_ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_an_interval_contains_the_figure_and_narrows_with_more_measurements() -> None:
    few, many = (estimates.estimate([float(n % 10) for n in range(size)]) for size in (20, 2000))
    assert few.low <= few.value <= few.high
    assert few.high - few.low > many.high - many.low


def test_a_table_escapes_separators_in_its_cells() -> None:
    text = rendering.targets([Target("a | b", "1", reached=False), Target("c", "2", reached=True)])
    assert text.splitlines() == [
        "| target | measured |         |",
        "| ------ | -------: | ------: |",
        "| a \\| b |        1 |  MISSED |",
        "| c      |        2 | reached |",
    ]


def measure(server: str, *processor: float, size: str = "1 KB", surface: str = "tool") -> dict[Cell, Measured]:
    return {Cell(server, size, "modern", surface): Measured(list(processor), [0.002] * len(processor))}


RESULTS = {
    **measure(peers.OURS, 100e-6, 200e-6, 300e-6),
    **measure(peers.OURS, 100e-6, 100e-6, 100e-6, surface="read"),
    **measure(peers.AGAIN, 110e-6, 190e-6, 300e-6),
    **measure(peers.AGAIN, 130e-6, 130e-6, 130e-6, surface="read"),
    **measure(peers.BARE, 600e-6, 1200e-6, 1800e-6),
    **measure(peers.BARE, 150e-6, 150e-6, 150e-6, surface="read"),
    **measure(peers.AS_TOOLS, 900e-6, 900e-6, 900e-6),
    **measure(peers.PREPARED, 50e-6, 50e-6, 50e-6),
    **measure(peers.PREPARED, 50e-6, 50e-6, 50e-6, surface="read"),
}
"""Of three rounds. The second process of ours is slower at reads."""


def outcome_of_peers() -> Outcome:
    return peers.compare_results(RESULTS, "X is skipped: no node.")


def test_peers_are_compared_in_the_same_round_and_the_worst_kind_of_request_counts() -> None:
    outcome = outcome_of_peers()
    found = {target.text: (target.measured, target.reached) for target in outcome.targets}
    assert found == {
        "1 KB: bare FastMCP over serve, processor time: at least 2": ("1.50 (1.50-1.50)", False),
        "control: a second process of serve over the first, 0.9 to 1.1": ("1.00 to 1.30", False),
    }


def test_the_table_of_peers_has_processor_time_ratio_and_time_of_each_server() -> None:
    [table] = outcome_of_peers().tables
    assert table.columns == ("server", "newest protocol, tool", "newest protocol, read")
    assert list(table.rows) == [
        ("quilt-mcp serve", "200 µs (1.00); 2 ms", "100 µs (1.00); 2 ms"),
        ("the same again", "190 µs (1.00); 2 ms", "130 µs (1.30); 2 ms"),
        ("bare FastMCP", "1,200 µs (6.00); 2 ms", "150 µs (1.50); 2 ms"),
        ("ResourcesAsTools", "900 µs (4.50); 2 ms", ""),
        ("Starlette, prepared bytes", "50 µs (0.25); 2 ms", "50 µs (0.50); 2 ms"),
    ]
    assert table.note.endswith("X is skipped: no node.")


def test_the_section_of_a_run_has_its_machine_targets_and_tables() -> None:
    machine = {name: f"<{name}>" for name in document.FACTS}
    results = {"machine": machine, "benchmarks": {"peers": asdict(outcome_of_peers())}}

    text = document.section(json.loads(json.dumps(results)))

    assert all(f"{name} <{name}>" in text for name in document.FACTS)
    assert "| 1.50 (1.50-1.50) | MISSED |" in text
    assert "**1 KB over HTTP**" in text


@pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks read the clocks of Linux")
def test_processor_time_is_what_the_kernel_reports_at_the_end_of_the_process() -> None:
    work = "import sys, time; sum(range(8_000_000)); print('done', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout, process.stdin:
        process.stdout.readline()
        found = processor_seconds(process.pid)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert 0.5 * (usage.ru_utime + usage.ru_stime) < found <= usage.ru_utime + usage.ru_stime + 0.02


def test_the_typescript_server_is_skipped_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalledError, match="node and npm are not installed"):
        typescript_server(tmp_path / "packages")

    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(NotInstalledError, match="npm cannot install @modelcontextprotocol/server"):
        typescript_server(tmp_path / "packages")


@pytest.mark.soak
@pytest.mark.parametrize("name", [*peers.PEERS, peers.TYPESCRIPT])
async def test_every_peer_answers_the_same_data(name: str, tmp_path: Path) -> None:
    if name == peers.TYPESCRIPT:
        try:
            command = typescript_server(tmp_path / "packages")
        except NotInstalledError as reason:
            pytest.skip(str(reason))
    else:
        command = peer(peers.PEERS[name])
    uri, data = next(iter(DATA.items()))
    async with other_on_http(command, tmp_path) as (port, _):
        for era in peers.ERAS:
            async with HTTPConnection(port, era) as connection:
                [contents] = parse_result(await connection.ask(read(era, uri)))["contents"]
                assert json.loads(contents["text"]) == data
                if name == peers.AS_TOOLS:
                    answer = parse_result(await connection.ask(tool(era, "read_resource", uri=uri)))
                    assert json.dumps(data["rows"][-1], separators=(",", ":")) in answer["content"][0]["text"]
                else:
                    answer = parse_result(await connection.ask(tool(era, "get_resource", uri=uri)))
                    assert answer["structuredContent"] == data
