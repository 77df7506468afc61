"""`resources/list` over many requirements, page by page, against FastMCP's own paging; and reads and searches there.

Each size has its own process of `quilt-mcp serve` over stdio. FastMCP's paging uses a provider that lists all entities
of the same file, as FastMCP's providers do.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fastmcp.utilities.pagination import CursorState

from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.requirements.model import REQUIREMENT, USER_STORY, format_reference
from tests.bench.estimates import Estimate, estimate, paired_ratio, percentile_95
from tests.bench.generated_requirements import MEMBERS, count_of, database, engineer, entity_id, url
from tests.bench.interleaving import Arm, Effort, Samples, interleave
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.processes import QUILT_MCP, on_stdio, other_server, peak_memory
from tests.bench.servers import PAGE_SIZE
from tests.bench.wire import Call, StdioServer, call, parse_result, read, tool

SIZES, SIZES_OF_ALL = (10_000, 100_000, 1_000_000), (10_000, 100_000)
DEPTHS = 10
MOST_OVER_FIRST, MOST_OVER_SMALLEST = 1.5, 1.2
OURS, THEIRS = "quilt-mcp", "FastMCP's paging"
SEARCHES = {"common word": "ledger", "two words": "ledger token", "phrase": '"import review"', "rare word": "case2"}
COMMON, FILTERED = SEARCHES["common word"], "status=Draft&priority=1"
FILTERS = {
    "status": "status=Draft,Active",
    "priority": "priority=1",
    "assignee": f"assignee={engineer(5)}",
    "assignee, status, priority": f"assignee={engineer(5)}&status=Draft,Active&priority=1,2,3",
    "type": "type=Functional",
    "project": "project=project 3",
    "updated since": "updated_since=2020-12-01",
    "by title": "sort=title",
    "by number, last first": "sort=-reference_id",
    "by time of change, last first": "sort=-updated_at",
    "assignee, by time of change": f"assignee={engineer(5)}&sort=updated_at",
}
"""Filters and orders of the requirements."""
MOST_OVER_UNFILTERED = 2.0
_PAGE, _FOLLOWING = "first 50 requirements", "following 50 requirements"
_ERA = "modern"


class Walk(NamedTuple):
    """The whole list, read once.

    Attributes:
        cursors: of each page. The first is None.
        entities: their number. Each occurs once, in order.
        seconds: for all of it, with the client's parsing.
    """

    cursors: list[str | None]
    entities: int
    seconds: float

    def at(self, depth: float) -> str | None:
        """The cursor of the page at this depth, from 0 to 1; at 1 it is the last page that is full."""
        return self.cursors[round(depth * max(0, len(self.cursors) - 2))]


@dataclass
class Findings:
    """All measurements, by size."""

    walks: dict[int, Walk]
    pages: Samples
    both: Samples
    reads: Samples
    scoped: Samples
    members: dict[str, Walk]
    memory: dict[tuple[str, int], int]


async def run(run: Run) -> Outcome:
    """Measure with 10,000, 100,000 and a million entities; the first run creates the files."""
    sizes, sizes_of_all = ((1_000,), (1_000,)) if run.quick else (SIZES, SIZES_OF_ALL)
    files = {size: await database(size, run.folder) for size in sizes}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder, serve = Path(made), (*QUILT_MCP, "serve")

        def start(command: tuple[str, ...], size: int, **settings: str) -> StdioServer:
            given = {"database_url": url(files[size])} | settings
            return stack.enter_context(on_stdio(command, _ERA, folder, given))

        ours = {size: start(serve, size) for size in sizes}
        theirs = {size: start((*other_server("list-all"), str(files[size])), size) for size in sizes_of_all}
        members = {
            name: start(serve, sizes[-1], requirements_user=name) for name in list(MEMBERS)[: 1 if run.quick else None]
        }
        return _outcome(await _measured(run, ours, theirs, members))


async def _measured(
    run: Run, ours: dict[int, StdioServer], theirs: dict[int, StdioServer], members: dict[str, StdioServer]
) -> Findings:
    walks = {size: _walk(server) for size, server in ours.items()}
    of_members = {name: _walk(server) for name, server in members.items()}
    everyone = {"administrator": (list(ours.values())[-1], list(walks.values())[-1])}
    everyone |= {name: (members[name], of_members[name]) for name in members}
    depths = [step / DEPTHS for step in range(DEPTHS + 1)]
    few = Effort(0, at_least=run.times(3), at_most=run.times(3))
    return Findings(
        walks=walks,
        pages=await interleave(
            {
                _name(OURS, size, depth): _listing(server, walks[size].at(depth))
                for size, server in ours.items()
                for depth in depths
            },
            Effort(run.seconds(25), at_least=run.times(30)),
        ),
        both=await interleave(
            {
                _name(name, size, depth): arm
                for size, server in theirs.items()
                for depth in (0.0, 1.0)
                for name, arm in (
                    (OURS, _listing(ours[size], walks[size].at(depth))),
                    (THEIRS, _listing(server, CursorState(int(depth * (size - PAGE_SIZE))).encode())),
                )
            },
            few,
        ),
        reads=await interleave(_reads(ours), Effort(run.seconds(15), at_least=run.times(20))),
        scoped=await interleave(
            {
                f"{name}, {depth:.1f}": _listing(server, walk.at(depth))
                for name, (server, walk) in everyone.items()
                for depth in (0.0, 0.5, 1.0)
            }
            | {
                f"{name}, search{'?' if filters else ''}{filters}": _asking(server, _search(COMMON, filters))
                for name, (server, _) in everyone.items()
                for filters in ("", FILTERED)
            },
            Effort(run.seconds(8), at_least=run.times(20)),
        ),
        members=of_members,
        memory={
            (name, size): peak_memory(server.process.pid)
            for name, servers in ((OURS, ours), (THEIRS, theirs))
            for size, server in servers.items()
        },
    )


def _walk(server: StdioServer) -> Walk:
    """The whole list.

    Raises:
        RuntimeError: its URIs do not follow each other.
    """
    cursors: list[str | None] = [None]
    server.send(_page(None))  # the process has then started, and opened the database
    entities, last, started = 0, "", time.perf_counter()
    while True:
        page = json.loads(server.send(_page(cursors[-1])))["result"]
        for resource in page["resources"]:
            if resource["uri"] <= last:
                raise RuntimeError(f"{resource['uri']} is listed after {last}")
            last = resource["uri"]
            entities += resource["name"].startswith(_NAMES)
        if (cursor := page.get("nextCursor")) is None:
            return Walk(cursors, entities, time.perf_counter() - started)
        cursors.append(cursor)


_NAMES = ("Epic: ", "User Story: ", "Acceptance Criteria: ", "Requirement: ")


def _page(cursor: str | None) -> Call:
    return call(_ERA, "resources/list", {"cursor": cursor} if cursor else {})


def _listing(server: StdioServer, cursor: str | None) -> Arm:
    return _asking(server, _page(cursor))


def _asking(server: StdioServer, request: Call) -> Arm:
    return lambda: server.ask(request)


def _name(server: str, size: int, depth: float) -> str:
    return f"{server}, {size}, {depth:.1f}"


def _reads(servers: dict[int, StdioServer]) -> dict[str, Arm]:
    """Return reads of the middle entity, by both names and surfaces, and searches. Each answer is checked once."""
    arms: dict[str, Arm] = {}
    for size, server in servers.items():
        number = count_of(REQUIREMENT, size) // 2
        by_reference = f"requirements://requirements/{format_reference(REQUIREMENT, number + 1)}"
        by_uuid = f"requirements://requirements/{entity_id(REQUIREMENT, number)}"
        story = (
            f"requirements://user-stories/{format_reference(USER_STORY, count_of(USER_STORY, size) // 2)}/requirements"
        )
        requests = {
            "by UUID": read(_ERA, by_uuid),
            "by reference id": read(_ERA, by_reference),
            "by reference id, get_resource": tool(_ERA, TOOL_NAME, uri=by_reference),
            "requirements of a story": read(_ERA, story),
        }
        for name, query in {"": "limit=50", **FILTERS}.items():
            uri = f"requirements://requirements?{quote(query, safe='=&,')}"
            requests[_join(_PAGE, name)] = read(_ERA, uri)
            cursor = _read_data(server, read(_ERA, uri))["next_cursor"]
            if cursor:
                requests[_join(_FOLLOWING, name)] = read(_ERA, f"{uri}&cursor={cursor}")
        queries = SEARCHES | {"reference id": format_reference(REQUIREMENT, number + 1)}
        for name, query in queries.items():
            requests[f"search: {name}"] = _search(query)
        for name, request in requests.items():
            found = _read_data(server, request)
            if name.startswith("search") and not found["results"]:
                raise RuntimeError(f"{name} finds nothing among {size}")
            arms[f"{name}, {size}"] = _asking(server, request)
    return arms


def _search(query: str, filters: str = "") -> Call:
    return read(_ERA, f"requirements://search/{quote(query)}{'?' if filters else ''}{filters}")


def _read_data(server: StdioServer, request: Call) -> dict[str, Any]:
    contents = parse_result(server.send(request)).get("contents", [{"text": "{}"}])
    data: dict[str, Any] = json.loads(contents[0]["text"])
    return data


def _join(page: str, name: str) -> str:
    return f"{page}: {name}" if name else page


def _outcome(found: Findings) -> Outcome:
    return Outcome(
        tables=[
            _pages_table(found),
            _both_table(found),
            _walks_table(found),
            _reads_table(found),
            _scopes_table(found),
        ],
        targets=[
            _last_target(found),
            _memory_target(found),
            _walk_target(found),
            *(_filter_target(found, page) for page in (_PAGE, _FOLLOWING)),
        ],
        figures={
            f"{name} [ms]": estimate(samples).value * 1000
            for several in (found.pages, found.reads, found.scoped)
            for name, samples in several.items()
        },
    )


def _last_over_first(found: Findings, size: int) -> Estimate:
    return paired_ratio(found.pages[_name(OURS, size, 1.0)], found.pages[_name(OURS, size, 0.0)])


def _pages_table(found: Findings) -> Table:
    rows = []
    for size in found.walks:
        first, middle, last = (found.pages[_name(OURS, size, depth)] for depth in (0.0, 0.5, 1.0))
        rows.append(
            (
                f"{size:,}",
                *(milliseconds(estimate(samples).value) for samples in (first, middle, last)),
                milliseconds(percentile_95(first)),
                milliseconds(percentile_95(last)),
                ratio(_last_over_first(found, size)),
            )
        )
    columns = ("entities", "first", "middle", "last", "first, 95 %", "last, 95 %", "last over first")
    return Table(f"A page of {PAGE_SIZE} in resources/list, ms", columns, rows, "The last page is the last full one.")


def _both_table(found: Findings) -> Table:
    rows = []
    for _, size in (key for key in found.memory if key[0] == THEIRS):
        for depth, page in ((0.0, "first"), (1.0, "last")):
            ours, theirs = (found.both[_name(name, size, depth)] for name in (OURS, THEIRS))
            times = (milliseconds(estimate(samples).value) for samples in (ours, theirs))
            rows.append((f"{size:,}, {page}", *times, f"{paired_ratio(theirs, ours).value:,.0f}"))
    return Table("Against FastMCP's own paging", ("entities, page", f"{OURS}, ms", f"{THEIRS}, ms", "times"), rows)


def _walks_table(found: Findings) -> Table:
    rows = []
    for size, walk in found.walks.items():
        theirs = found.memory.get((THEIRS, size))
        rows.append(
            (
                f"{size:,}",
                f"{walk.entities:,}",
                f"{len(walk.cursors):,}",
                f"{walk.seconds:.1f}",
                f"{found.memory[OURS, size] / 2**20:.0f}",
                f"{theirs / 2**20:.0f}" if theirs else "",
            )
        )
    columns = ("entities", "listed", "pages", "s", f"{OURS}, peak MiB", f"{THEIRS}, peak MiB")
    return Table("The whole list, and the server's memory", columns, rows)


def _by_size(samples: Samples, sizes: Sequence[int]) -> list[tuple[str, ...]]:
    operations = dict.fromkeys(name.rpartition(", ")[0] for name in samples)
    return [(one, *(milliseconds(estimate(samples[f"{one}, {size}"]).value) for size in sizes)) for one in operations]


def _reads_table(found: Findings) -> Table:
    sizes = list(found.walks)
    rows = _by_size(found.reads, sizes)
    return Table("Reads, median, ms", ("read", *(f"{size:,}" for size in sizes)), rows)


def _scopes_table(found: Findings) -> Table:
    rows = []
    for name, entities in (
        {"administrator": list(found.walks)[-1]} | {k: w.entities for k, w in found.members.items()}
    ).items():
        asked = [*(f"{depth}" for depth in (0.0, 0.5, 1.0)), "search", f"search?{FILTERED}"]
        times = (milliseconds(estimate(found.scoped[f"{name}, {one}"]).value) for one in asked)
        rows.append((name, f"{entities:,}", *times))
    columns = ("caller", "entities", "first", "middle", "last", f"search: {COMMON}", f"with {FILTERED}")
    return Table("A page by what the caller may see, ms", columns, rows)


def _last_target(found: Findings) -> Target:
    size = max(found.walks)
    over = _last_over_first(found, size)
    text = f"{size:,} entities: the last page at most {MOST_OVER_FIRST} times the first"
    return Target(text, ratio(over), over.value <= MOST_OVER_FIRST)


def _memory_target(found: Findings) -> Target:
    sizes = [found.memory[OURS, size] for size in found.walks]
    over = max(sizes) / min(sizes)
    shown = ", ".join(f"{size / 2**20:.0f} MiB" for size in sizes)
    text = f"peak memory from {min(found.walks):,} to {max(found.walks):,} entities within {MOST_OVER_SMALLEST}"
    return Target(text, f"{over:.2f}: {shown}", over <= MOST_OVER_SMALLEST)


def _filter_target(found: Findings, page: str) -> Target:
    size = max(found.walks)
    samples = {name: found.reads.get(f"{_join(page, name)}, {size}") for name in FILTERS}
    unfiltered = estimate(found.reads[f"{page}, {size}"]).value
    over = {name: estimate(of_name).value / unfiltered for name, of_name in samples.items() if of_name}
    worst = max(over, key=lambda name: over[name])
    text = f"{size:,} entities: the {page} with a filter at most {MOST_OVER_UNFILTERED:g} times those without"
    return Target(text, f"{over[worst]:.2f} ({worst})", over[worst] <= MOST_OVER_UNFILTERED)


def _walk_target(found: Findings) -> Target:
    listed = {size: walk.entities for size, walk in found.walks.items()}
    shown = ", ".join(f"{count:,}" for count in listed.values())
    return Target("the whole list: each entity once, in order", shown, all(size == n for size, n in listed.items()))
