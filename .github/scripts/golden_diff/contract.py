"""What a revision promises to clients: its resources, its tools, and what it answers in each world."""

from dataclasses import dataclass
from typing import Any

from golden_diff.revision import Revision

HOME = "admin"  # the world whose goldens carry no suffix, and which stands in where another has none of its own
LISTINGS = {
    "resources": ("resources/list", "uri"),
    "resource-templates": ("resources/templates/list", "uriTemplate"),
}


@dataclass(frozen=True)
class Contract:
    """The rows of mcp-list.csv and the files in golden/ of one revision.

    Attributes:
        resources: the row of each URI.
        tools: what tools/list says, by name.
        listings: what clients see of each URI before they read it, by listing.
        answers: the goldens, by URI and world.
        others: the goldens of no resource, such as those of malformed URIs, by name.
    """

    resources: dict[str, dict[str, str]]
    tools: dict[str, Any]
    listings: dict[str, dict[str, Any]]
    answers: dict[tuple[str, str], Any]
    others: dict[str, Any]

    @property
    def worlds(self) -> set[str]:
        """The worlds that have goldens."""
        return {world for _, world in self.answers}

    def answer(self, uri: str, world: str) -> Any:
        """The golden that holds in a world, or None."""
        return self.answers.get((uri, world), self.answers.get((uri, HOME)))


def read_contract(revision: Revision) -> Contract:
    """Read it from a revision's files.

    Raises:
        Unreadable: a golden is no JSON, or mcp-list.csv lacks a column.
    """
    goldens = {
        path.removeprefix("golden/").removesuffix(".json"): revision.json(path)
        for path in sorted(revision.files)
        if path.startswith("golden/") and path.endswith(".json")
    }
    listed = {name: goldens.pop(f"discovery/{name}", []) for name in ("tools", *LISTINGS)}
    discovery = goldens.get("discovery/get-resource", {})  # what is left of it, its envelope, is compared as it stands
    by_category = discovery.pop("data", {})
    resources = {row["uri"]: row for row in revision.rows() if row["type"] != "tool"}
    paths = {row["example_uri"].replace("://", "/"): uri for uri, row in resources.items()}
    cases = {name: _case(name, paths) for name in goldens}
    return Contract(
        resources=resources,
        tools={tool["name"]: tool for tool in listed["tools"]},
        listings={label: {entry[key]: entry for entry in listed[name]} for name, (label, key) in LISTINGS.items()}
        | {"get_resource()": {entry["uri"]: entry for entries in by_category.values() for entry in entries}},
        # sorted, errors/ comes after data/: a refusal goes before data that should have been deleted with it
        answers={case: goldens[name] for name, case in cases.items() if case},
        others={name: goldens[name] for name, case in cases.items() if not case},
    )


def _case(name: str, paths: dict[str, str]) -> tuple[str, str] | None:
    """The URI and the world of a golden, or None if it is no resource's."""
    kind, _, path = name.partition("/")
    if kind not in {"data", "errors"}:
        return None
    if path in paths:
        return paths[path], HOME
    path, _, world = path.rpartition("--")
    return (paths[path], world) if path in paths else None
