"""Traces have exactly the links that a brute force over all rows finds."""

from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise, permutations
from random import Random
from typing import Any

import pytest

from quilt_mcp.requirements import tables, trace
from quilt_mcp.requirements.answers import Trace, TraceLink
from quilt_mcp.requirements.conditions import load_scope
from quilt_mcp.requirements.model import KINDS, Kind
from quilt_mcp.requirements.parameters import MAX_DEPTH
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.trace import (
    MAX_CYCLES,
    MAX_PATH,
    Relation,
    Walk,
    build_node,
    find_cycles,
    read_trace,
    walk,
)
from tests.requirements.client import connect, read, read_all, read_failure
from tests.requirements.conftest import opened
from tests.requirements.generated import Form
from tests.requirements.graphs import (
    Graph,
    distances,
    edges_of,
    followed,
    make_graph,
    make_tree,
    relate,
    without_hidden,
    write_graph,
)
from tests.support.settings import Settings

USERS = (None, "one", "two")


def walk_from(  # noqa: PLR0917 - what a trace depends on
    connection: Any, graph: Graph, kind: Kind, start: str, depth: int, user: str | None, max_links: int = 2000
) -> Walk:
    has_projects = bool(graph.members)
    scope = load_scope(connection, "test", user, has_projects=has_projects)
    reader = Reader(connection, scope)
    [row] = reader.execute(reader.select_briefs(kind).where(tables.BY_KIND[kind.name].c.id == start))
    return walk(reader, build_node(kind, row, is_below=True), depth, max_links=max_links)


def edge_of(step: Any) -> str:
    link = step.link
    if link.relationship_id:
        return str(link.relationship_id)
    if link.name in {"parent", "child"}:
        child, parent = (link.source, link.target) if link.name == "parent" else (link.target, link.source)
        return f"{child.id} in {parent.id}"
    requirement, criterion = (link.source, link.target) if link.name == "criterion" else (link.target, link.source)
    return f"{requirement.id} to {criterion.id}"


def check(result: Walk, graph: Graph, start: str, depth: int, user: str | None) -> None:
    may_follow = followed(edges_of(graph, user), start)
    steps = distances(may_follow, start, depth)
    expected: dict[str, int] = {}
    for one in may_follow:
        if steps.get(one.source, depth) < depth:
            expected[one.key] = min(expected.get(one.key, depth), steps[one.source] + 1)
    assert {edge_of(step): step.distance for step in result.steps} == expected
    assert len(result.steps) == len(expected)
    assert result.nodes.keys() == steps.keys()
    for step in result.steps:
        assert steps[step.link.source.id] == step.distance - 1
    check_rest(result, may_follow)
    first_seen = {start} | {step.link.target.id for step in result.steps if not step.is_repeated}
    assert first_seen == result.nodes.keys()
    assert sum(not step.is_repeated for step in result.steps) == len(steps) - 1
    assert None not in result.continues.values()


def check_rest(result: Walk, may_follow: Any) -> None:
    """What continues is exactly what has links that are not listed, as far as it was read."""
    listed = {edge_of(step) for step in result.steps}
    unlisted = {one.source for one in may_follow if one.key not in listed} & result.nodes.keys()
    certain = {node for node, goes_on in result.continues.items() if goes_on}
    unknown = {node for node, goes_on in result.continues.items() if goes_on is None}
    assert certain <= unlisted <= certain | unknown


MANY_GRAPHS = [("sqlite", seed) for seed in range(3, 13)] + [(form, 7) for form in ("postgresql", "earlier")]


@pytest.mark.parametrize(
    ("form", "seed"),
    [("sqlite", 1), ("sqlite", 2), *(pytest.param(*one, marks=pytest.mark.soak) for one in MANY_GRAPHS)],
)
def test_a_trace_has_the_links_that_brute_force_finds(
    form: Form, seed: int, make_empty: Callable[[Form], Settings]
) -> None:
    graph, settings = make_graph(seed, size=1 + seed % 6), make_empty(form)
    random_ = Random(seed)  # noqa: S311 - for tests
    write_graph(settings, graph)
    with opened(settings) as database, database.reading() as connection:
        for user in (None,) if form == "earlier" else USERS:
            for kind in KINDS:
                for start in graph.visible(kind.name, user):
                    depth = random_.choice((1, 2, 3, 4, 5, MAX_DEPTH))
                    result = walk_from(connection, graph, kind, start, depth, user)
                    assert not result.is_full
                    check(result, graph, start, depth, user)


@pytest.mark.soak
@pytest.mark.parametrize("form", ["sqlite", "postgresql", "earlier"])
def test_a_trace_that_is_cut_by_size_is_the_beginning_of_the_whole(
    form: Form, make_empty: Callable[[Form], Settings]
) -> None:
    graph, settings = make_graph(4, size=5), make_empty(form)
    write_graph(settings, graph)
    unknown, user = 0, None if form == "earlier" else "two"
    with opened(settings) as database, database.reading() as connection:
        for kind in KINDS:
            for start in list(graph.visible(kind.name, user))[:5]:
                may_follow = followed(edges_of(graph, user), start)
                keys = [step.key for step in walk_from(connection, graph, kind, start, 6, user).steps]
                assert keys == sorted(keys)
                for most in {*range(1, 13), len(keys) - 1, len(keys)} & set(range(1, len(keys) + 1)):
                    cut = walk_from(connection, graph, kind, start, 6, user, most)
                    assert [step.key for step in cut.steps] == keys[:most]
                    assert cut.is_full == (most < len(keys))
                    assert bool(cut.continues) >= cut.is_full
                    check_rest(cut, may_follow)
                    unknown += list(cut.continues.values()).count(None)
    assert unknown


async def read_whole(client: Any, path: str, limit: int) -> dict[str, Any]:
    """Read all pages. The links, and the cycles, of all pages are in the first page's answer."""
    assert limit <= MAX_CYCLES, "a page could lack cycles"
    first, *others = await read_all(client, f"{path}&limit={limit}")
    for page in others:
        assert 0 < len(page["links"]) <= limit == len(first["links"])
        same = {"start", "depth", "entity_count", "count", "cycle_count", "cut_by"}
        assert {key: page[key] for key in same} == {key: first[key] for key in same}
    return first | {key: [one for page in (first, *others) for one in page[key]] for key in ("links", "cycles")}


def read_every_page(reader: Reader, kind: Kind, start: str, limit: int, **of: int) -> list[Trace]:
    pages = [read_trace(reader, kind, start, cursor=None, limit=limit, room=10**9, **of)]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(read_trace(reader, kind, start, cursor=cursor, limit=limit, room=10**9, **of))
    return pages


def drop_unread(links: Sequence[TraceLink], whole: Trace) -> list[dict[str, Any]]:
    """Return links without what a page can know better, because it reads what follows fewer entities."""
    unread = {one["entity"]["id"] for one in whole["links"] if one["entity"].get("continues", True) is None}
    left_out = {"continues", "continue_at"}
    return [
        {**one, "entity": {key: value for key, value in one["entity"].items() if key not in left_out}}
        if one["entity"]["id"] in unread
        else {**one}
        for one in links
    ]


@pytest.mark.parametrize(
    ("form", "seed"),
    [("sqlite", 1), ("sqlite", 2), *(pytest.param(*one, marks=pytest.mark.soak) for one in MANY_GRAPHS)],
)
def test_pages_are_the_parts_of_one_walk(form: Form, seed: int, make_empty: Callable[[Form], Settings]) -> None:
    """With and without cycles, complete, cut by depth and cut by size. One page that has everything walks once."""
    graph, settings = make_graph(seed, size=1 + seed % 4), make_empty(form)
    random_ = Random(seed)  # noqa: S311 - for tests
    if seed % 2:  # all relationships in one direction: without cycles
        ends = sorted(graph.entities["requirement"], key=lambda one: one["reference_id"])
        relate(graph, [(one, other) for one, other in combinations(ends, 2) if random_.random() < 0.3])
    write_graph(settings, graph)
    found = set[tuple[bool, str | None]]()
    with opened(settings) as database, database.reading() as connection:
        for user in (None,) if form == "earlier" else USERS:
            reader = Reader(connection, load_scope(connection, "test", user, has_projects=bool(graph.members)))
            for kind in KINDS:
                for start in list(graph.visible(kind.name, user))[:4]:
                    of = {"depth": random_.choice((1, 2, 3, 5, MAX_DEPTH)), "max_links": random_.choice((7, 23, 2000))}
                    [whole] = read_every_page(reader, kind, start, 2000, **of)
                    pages = read_every_page(reader, kind, start, random_.choice((1, 2, 5, 11)), **of)
                    assert drop_unread([one for page in pages for one in page["links"]], whole) == drop_unread(
                        whole["links"], whole
                    )
                    named = [one["closed_by"] for page in pages for one in page["cycles"]]
                    assert len(set(named)) == len(named) == whole["cycle_count"]
                    assert {one["closed_by"] for one in whole["cycles"]} <= set(named)
                    for name in ("start", "count", "entity_count", "cycle_count", "cut_by"):
                        assert {str(page[name]) for page in pages} == {str(whole[name])}
                    found.add((whole["cycle_count"] > 0, whole["cut_by"]))
    assert {cut for _, cut in found} == {None, "depth", "size"} or seed != 1


async def test_a_later_page_walks_only_to_its_end(
    settings_with_tables: Settings, statements: list[tuple[str, Any]]
) -> None:
    graph = make_tree([(0, 12)])
    chain = graph.entities["requirement"]
    relate(graph, pairwise(chain))
    write_graph(settings_with_tables, graph)
    async with connect(settings_with_tables) as client:
        path = f"requirements/{chain[0]['reference_id']}/trace?depth=10&limit=3"
        first = await read(client, path)
        of_first = len(statements)
        statements.clear()
        second = await read(client, f"{path}&cursor={first['next_cursor']}")
    assert (second["count"], second["cut_by"]) == (first["count"], first["cut_by"]) == (21, "depth")
    assert len(statements) < of_first / 2


@pytest.mark.soak
async def test_pages_contain_each_link_and_each_cycle_once(settings_with_tables: Settings) -> None:
    graph = make_graph(11)
    write_graph(settings_with_tables, graph)
    start = graph.entities["requirement"][0]["reference_id"]
    async with connect(settings_with_tables) as client:
        largest = await read_whole(client, f"requirements/{start}/trace?depth=4", MAX_CYCLES)
        paged = await read_whole(client, f"requirements/{start}/trace?depth=4", 7)
    assert paged["links"] == largest["links"]
    assert len(paged["links"]) == paged["count"] > 50
    assert len(paged["cycles"]) == paged["cycle_count"] > 0
    assert paged["cycles_rest"] is None
    assert sorted(one["closed_by"] for one in paged["cycles"]) == sorted(one["closed_by"] for one in largest["cycles"])


@pytest.mark.soak
async def test_a_page_with_more_cycles_than_it_names_leads_to_the_rest(settings_with_tables: Settings) -> None:
    graph = make_graph(11)
    relate(graph, permutations(graph.entities["requirement"][:9], 2))
    write_graph(settings_with_tables, graph)
    path = f"requirements/{graph.entities['requirement'][0]['reference_id']}/trace?depth=2"
    async with connect(settings_with_tables) as client:
        first = await read(client, f"{path}&limit=3")
        for cursor in ("", f"&cursor={first['next_cursor']}"):
            page = await read(client, f"{path}&limit=200{cursor}")
            assert page["page_cycle_count"] > len(page["cycles"]) == MAX_CYCLES
            named, links, rest = list[Any](), list[Any](), page["cycles_rest"].removeprefix("requirements://")
            while len(links) < len(page["links"]):
                part = await read(client, rest)
                assert part["cycles_rest"] is None
                assert part["page_cycle_count"] == len(part["cycles"])
                named, links = named + part["cycles"], links + part["links"]
                rest = f"{path}&limit={MAX_CYCLES}&cursor={part['next_cursor']}"
            ids = {one.get("relationship_id") for one in page["links"]}
            assert links[: len(page["links"])] == page["links"]
            assert len([one for one in named if one["closed_by"] in ids]) == page["page_cycle_count"]
            assert all(cycle in named for cycle in page["cycles"])


@pytest.mark.soak
async def test_a_long_cycle_is_cut(settings_with_tables: Settings) -> None:
    graph = make_graph(2, size=MAX_PATH + 20)
    ring = graph.entities["requirement"]
    story = graph.entities["user_story"][0]
    for one in ring:  # so that the trace of the story contains the whole ring
        one |= {"user_story_id": story["id"], "project_id": story["project_id"], "acceptance_criteria_id": None}
    relate(graph, zip(ring, [*ring[1:], ring[0]], strict=True))
    write_graph(settings_with_tables, graph)
    async with connect(settings_with_tables) as client:
        trace = await read(client, f"user-stories/{story['reference_id']}/trace")
        while not trace["cycles"]:
            cursor = trace["next_cursor"]
            trace = await read(client, f"user-stories/{story['reference_id']}/trace?cursor={cursor}")
    [cycle] = trace["cycles"]
    assert (cycle["length"], cycle["is_complete"]) == (len(ring), False)
    assert (len(cycle["path"]), len(cycle["relationship_types"])) == (MAX_PATH + 1, MAX_PATH)
    assert cycle["closed_by"] in {link.get("relationship_id") for link in trace["links"]}


@pytest.mark.soak
async def test_hidden_entities_change_nothing(make_settings: Callable[..., Settings], dialect: str) -> None:
    """The answers are equal to those of a database that does not have what the user may not see."""
    graph = make_graph(13)
    both = make_settings(dialect, "tables"), make_settings(dialect, "tables")
    for settings, rows in zip(both, (graph, without_hidden(graph, "one")), strict=True):
        write_graph(settings, rows)
    async with connect(both[0], "one") as full, connect(both[1], "one") as bare:
        for kind in KINDS:
            seen = graph.visible(kind.name, "one")
            for row in [*seen.values()][:5]:
                path = f"{kind.segment}/{row['reference_id']}/trace?limit=20&depth=5"
                assert await read(full, path) == await read(bare, path)
            [hidden, *_] = [row for row in graph.entities[kind.name] if row["id"] not in seen]
            for path in (f"{kind.segment}/{hidden[key]}/trace" for key in ("id", "reference_id")):
                assert (await read_failure(full, path)).body == (await read_failure(bare, path)).body
        for path in ("coverage", "coverage?category=requirements_without_criterion&limit=3", "projects"):
            assert await read(full, path) == await read(bare, path)


def check_cycles(relations: list[Relation]) -> list[list[Relation]]:
    """Check that each cycle is one, and that each cycle of the relations contains the last relation of one of them."""
    found = find_cycles(relations)
    for cycle in found:
        assert [one.target for one in cycle[:-1]] == [one.source for one in cycle[1:]]
        assert cycle[-1].target == cycle[0].source
        assert len({one.source for one in cycle}) == len(cycle)
    closing = [cycle[-1].id for cycle in found]
    assert len(set(closing)) == len(closing)
    left: TopologicalSorter[str] = TopologicalSorter()
    for one in relations:
        if one.id not in closing:
            left.add(one.target, one.source)
    left.prepare()  # raises CycleError for a cycle
    return found


@pytest.mark.parametrize("seed", range(60))
def test_cycles_of_random_relations(seed: int) -> None:
    random_ = Random(seed)  # noqa: S311 - for tests
    names = "ABCDEFGH"[: random_.randrange(1, 9)]
    relations = [
        Relation(f"{at}", random_.choice(names), random_.choice(names), random_.choice(["x", "y"]))
        for at in range(random_.randrange(16))
    ]
    found = check_cycles(relations)
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for one in relations:
        sorter.add(one.target, one.source)
    try:
        sorter.prepare()
    except CycleError:
        assert found
    else:
        assert not found


def test_a_cycle_of_one_type_is_found_before_those_of_several() -> None:
    relations = [Relation("1", "A", "B", "relates_to"), Relation("2", "A", "B", "x"), Relation("3", "B", "A", "x")]
    assert [[one.id for one in cycle] for cycle in check_cycles(relations)] == [["2", "3"]]


def test_a_long_ring_needs_no_recursion() -> None:
    number = 5000
    ring = [Relation(f"{at}", f"{at}", f"{(at + 1) % number}", "x") for at in range(number)]
    assert [len(cycle) for cycle in trace.find_cycles(ring)] == [number]


async def test_a_cycle_is_named_with_its_path_and_types(settings_with_tables: Settings) -> None:
    graph = make_graph(2, size=1)
    first, second, third = graph.entities["requirement"][:3]
    graph.relationships = [
        one | {"source_requirement_id": source["id"], "target_requirement_id": target["id"], "type": name}
        for one, source, target, name in zip(
            graph.relationships,
            (first, second, third),
            (second, third, first),
            ("depends_on", "blocks", "depends_on"),
            strict=False,
        )
    ]
    write_graph(settings_with_tables, graph)
    async with connect(settings_with_tables) as client:
        trace = await read(client, f"requirements/{first['reference_id']}/trace")
    [cycle] = trace["cycles"]
    assert trace["cycle_count"] == 1
    references = [one["reference_id"] for one in (first, second, third)]
    assert (cycle["length"], cycle["is_complete"], trace["cycles_rest"]) == (3, True, None)
    assert cycle["path"][0] == cycle["path"][-1]
    assert sorted(cycle["path"][1:]) == sorted(references)
    assert sorted(cycle["relationship_types"]) == ["blocks", "depends_on", "depends_on"]
    assert cycle["closed_by"] in {one["id"] for one in graph.relationships}
