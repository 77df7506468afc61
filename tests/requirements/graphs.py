"""Random requirements for tests: with hidden neighbours, cross links, cycles, gaps and orphans; and what is in them."""

import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from quilt_mcp.requirements.model import BY_NAME, KINDS, Kind
from tests.requirements import generated
from tests.requirements.conftest import opened
from tests.requirements.reading import place_of
from tests.support.settings import Settings

Row = dict[str, Any]
TYPES = ("depends_on", "blocks", "relates_to", "derives_from")
NOW = "2026-01-02 03:04:05.000000"
_TIMES = {"created_at": NOW, "updated_at": NOW}


@dataclass
class Graph:
    """Rows by table. An entity has `project_id`, also if its database has no projects."""

    users: list[Row] = field(default_factory=list)
    projects: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    relationships: list[Row] = field(default_factory=list)
    entities: dict[str, list[Row]] = field(default_factory=lambda: {kind.name: [] for kind in KINDS})

    def project_ids(self, username: str | None) -> set[str]:
        """The projects that a user sees; None is an administrator."""
        if username is None:
            return {one["id"] for one in self.projects}
        [user] = [one["id"] for one in self.users if one["username"] == username]
        return {one["project_id"] for one in self.members if one["user_id"] == user}

    def visible(self, kind: str, username: str | None) -> dict[str, Row]:
        """The entities of a kind that a user sees, by ID."""
        seen = self.project_ids(username)
        return {one["id"]: one for one in self.entities[kind] if one["project_id"] in seen}


def make_graph(seed: int, *, size: int = 6) -> Graph:
    """Make a graph of three projects and three users: a member of the first, of the first two, and of none."""
    random_ = random.Random(seed)  # noqa: S311 - for tests

    def new_id() -> str:
        return str(uuid.UUID(int=random_.getrandbits(128), version=4))

    graph = Graph()
    graph.projects = [{"id": new_id(), "name": f"Project {at} of {seed}", "description": None} for at in range(3)]
    graph.users = [{"id": new_id(), "username": name, "role": "User"} for name in ("one", "two", "none")]
    pairs = [(0, 0), (1, 0), (1, 1)]
    graph.members = [
        {"user_id": graph.users[user]["id"], "project_id": graph.projects[project]["id"], "role": "Viewer"}
        for user, project in pairs
    ]
    for kind, number in zip(KINDS, (size, 2 * size, 3 * size, 5 * size), strict=True):
        for at in range(number):
            row: Row = {"id": new_id(), "reference_id": f"{kind.prefix}-{seed * 1000 + at:03d}"}
            row |= _text(kind, random_, graph)
            if kind.parent:
                parent = random_.choice(graph.entities[kind.parent])
                row |= {str(kind.parent_column): parent["id"], "project_id": parent["project_id"]}
            else:
                row["project_id"] = random_.choice(graph.projects)["id"]
            if kind.name == "requirement":
                near = [one for one in graph.entities["acceptance_criteria"] if random_.random() < 0.5]
                row["acceptance_criteria_id"] = random_.choice(near)["id"] if near and random_.random() < 0.6 else None
            graph.entities[kind.name].append(row)
    wanted = [one["id"] for one in graph.entities["requirement"]]
    drawn = {(*random_.sample(wanted, 2), random_.choice(TYPES)) for _ in range(7 * size)}
    graph.relationships = [
        {"id": new_id(), "source_requirement_id": source, "target_requirement_id": target, "type": name}
        for source, target, name in sorted(drawn)
    ]
    return graph


def _text(kind: Kind, random_: random.Random, graph: Graph) -> Row:
    user = random_.choice(graph.users)["id"]
    if not kind.statuses:
        return {"description": "WHEN " + "so " * random_.randrange(60), "author_id": user}
    return {
        "title": f"{kind.title} {random_.random()}",
        "description": None,
        "status": random_.choice(kind.statuses),
        "priority": random_.randrange(1, 5),
        "creator_id": user,
        "assignee_id": random_.choice(graph.users)["id"],
    }


def make_tree(stories: Sequence[tuple[int, int]], *, epics: int = 1, relationships: int = 0) -> Graph:
    """Make epics, the first with a user story for each pair: its numbers of acceptance criteria and of requirements.

    The first requirement has so many relationships to others, and half as many from others.
    """
    graph = Graph(projects=[_name("Project")], users=[{"id": str(uuid4()), "username": "u", "role": "User"}])
    user, project = graph.users[0]["id"], graph.projects[0]["id"]
    planned = {"priority": 2, "status": "Draft", "creator_id": user, "assignee_id": user, "description": None}

    def add(kind: Kind, number: int, **more: Any) -> Row:
        rows = graph.entities[kind.name]
        for _ in range(number):
            place = len(rows) + 1
            text = planned | {"title": f"{kind.title} {place}"}
            own = text if kind.statuses else {"author_id": user, "description": f"{place}"}
            reference = f"{kind.prefix}-{place:03d}"
            rows.append({"id": str(uuid4()), "reference_id": reference, "project_id": project, **own, **more})
        return rows[-1] if rows else {}

    epic, story, criterion, requirement = KINDS
    add(epic, epics)
    for some, more in stories:
        parent = {"user_story_id": add(story, 1, epic_id=graph.entities[epic.name][0]["id"])["id"]}
        add(criterion, some, **parent)
        add(requirement, more, acceptance_criteria_id=None, **parent)
    first, *others = graph.entities[requirement.name] or [{}]
    ends = [(first, other) for other in others[:relationships]]
    relate(graph, [*ends, *((other, first) for _, other in ends[: relationships // 2])])
    return graph


def relate(graph: Graph, pairs: Iterable[tuple[Row, Row]]) -> None:
    """Replace the relationships of a graph by some of one type."""
    graph.relationships = [
        {"id": str(uuid4()), "source_requirement_id": source["id"], "target_requirement_id": target["id"]}
        | {"type": "blocks"}
        for source, target in pairs
    ]


def write_graph(settings: Settings, graph: Graph) -> None:
    """Write the rows as they are, without the checks and the search index of `writing`. Remove what was there."""
    with opened(settings) as database, database.reading():
        form: Any = "earlier" if database.is_existing else database.dialect
    types = {name: _name(name) for name in TYPES}
    functional = _name("Functional")
    rows = {
        "users": [one | {"email": f"{one['username']}@example.com"} | _TIMES for one in graph.users],
        "projects": [one | _TIMES for one in graph.projects],
        "project_members": graph.members,
        "requirement_types": [functional | _TIMES],
        "relationship_types": [one | _TIMES for one in types.values()],
        **{kind.table: [one | _TIMES for one in graph.entities[kind.name]] for kind in KINDS},
        "requirement_relationships": [
            {key: value for key, value in one.items() if key != "type"}
            | {"relationship_type_id": types[one["type"]]["id"], "created_by": graph.users[0]["id"], "created_at": NOW}
            for one in graph.relationships
        ],
    }
    rows["requirements"] = [one | {"type_id": functional["id"]} for one in rows["requirements"]]
    generated.write(form, place_of(settings), generated.fit(rows, form))


def _name(name: str) -> Row:
    return {"id": str(uuid4()), "name": name, "description": None}


def without_hidden(graph: Graph, username: str) -> Graph:
    """The graph with only what a user sees. Its users stay."""
    seen = graph.project_ids(username)
    left = {kind.name: list(graph.visible(kind.name, username).values()) for kind in KINDS}
    criteria, wanted = ({one["id"] for one in left[name]} for name in ("acceptance_criteria", "requirement"))
    left["requirement"] = [
        one
        | {
            "acceptance_criteria_id": one["acceptance_criteria_id"]
            if one["acceptance_criteria_id"] in criteria
            else None
        }
        for one in left["requirement"]
    ]
    return Graph(
        users=graph.users,
        projects=[one for one in graph.projects if one["id"] in seen],
        members=[one for one in graph.members if one["project_id"] in seen],
        relationships=[
            one for one in graph.relationships if {one["source_requirement_id"], one["target_requirement_id"]} <= wanted
        ],
        entities=left,
    )


@dataclass(frozen=True)
class Edge:
    """A link that may be followed from `source` to `target`."""

    key: str
    source: str
    target: str
    link: str


def edges_of(graph: Graph, username: str | None) -> list[Edge]:
    """Every link between entities that a user sees, in both directions."""
    rows = {kind.name: graph.visible(kind.name, username) for kind in KINDS}
    found = []
    for kind in KINDS[1:]:
        for one in rows[kind.name].values():
            parent = one[str(kind.parent_column)]
            if parent in rows[BY_NAME[str(kind.parent)].name]:
                key = f"{one['id']} in {parent}"
                found += [Edge(key, one["id"], parent, "parent"), Edge(key, parent, one["id"], "child")]
    for one in rows["requirement"].values():
        criterion = one["acceptance_criteria_id"]
        if criterion in rows["acceptance_criteria"]:
            key = f"{one['id']} to {criterion}"
            found += [Edge(key, one["id"], criterion, "criterion"), Edge(key, criterion, one["id"], "requirement")]
    for one in graph.relationships:
        ends = one["source_requirement_id"], one["target_requirement_id"]
        if set(ends) <= rows["requirement"].keys():
            found += [Edge(one["id"], *ends, "outgoing"), Edge(one["id"], ends[1], ends[0], "incoming")]
    return found


def followed(edges: Iterable[Edge], start: str) -> list[Edge]:
    """The links that a trace may follow: down only from the start and its descendants."""
    below, before = {start}, set[str]()
    while below != before:
        before = set(below)
        below |= {one.target for one in edges if one.link in {"child", "requirement"} and one.source in below}
    return [one for one in edges if one.link not in {"child", "requirement"} or one.source in below]


def distances(edges: Iterable[Edge], start: str, depth: int) -> dict[str, int]:
    """The number of steps to each entity within this depth."""
    found = {start: 0}
    for distance in range(1, depth + 1):
        ends = {one.target for one in edges if found.get(one.source) == distance - 1}
        found |= dict.fromkeys(ends - found.keys(), distance)
    return found
