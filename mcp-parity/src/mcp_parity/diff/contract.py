"""The contract of a revision: its resources, its tools, and the answers in each world."""

import posixpath
from dataclasses import dataclass
from typing import Any

from mcp_parity.diff.revision import Revision
from mcp_parity.names import Names

HOME = "home"  # its goldens have no suffix; other worlds use them where they have none of their own
LISTINGS = {"resources": ("resources/list", "uri"), "resource-templates": ("resources/templates/list", "uriTemplate")}


@dataclass(frozen=True)
class Contract:
    """The rows of the inventory and the goldens of one revision.

    Attributes:
        resources: the row of each URI.
        tools: the entries of tools/list, by name.
        listings: the entry of each URI, by listing.
        answers: the goldens, by URI and world.
        others: the goldens that belong to no resource, such as those of malformed URIs, by name.
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
        """Return the golden that applies in a world, or None."""
        return self.answers.get((uri, world), self.answers.get((uri, HOME)))


def read_contract(revision: Revision) -> Contract:
    """Read the contract from a revision's files.

    Raises:
        Unreadable: a golden is not valid JSON, or the inventory lacks a column.
    """
    folder = revision.places.golden
    goldens = {posixpath.relpath(path, folder)[: -len(".json")]: revision.json(path) for path in revision.goldens}
    listed = {name: goldens.pop(f"discovery/{name}", []) for name in ("tools", *LISTINGS)}
    discovery = goldens.get("discovery/get-resource", {})  # without `data`, it is compared like the other goldens
    by_category = discovery.pop("data", {})
    resources = {row["uri"]: row for row in revision.rows() if row["type"] != "tool"}
    names = Names(row["example_uri"] for row in resources.values() if row["example_uri"])
    homes = {row["example_uri"]: uri for uri, row in resources.items() if row["example_uri"]}
    paths = {names.data(example, "").removeprefix("data/"): uri for example, uri in homes.items()}
    cases = {name: _case(name, paths) for name in goldens}
    return Contract(
        resources=resources,
        tools={tool["name"]: tool for tool in listed["tools"]},
        listings={label: {entry[key]: entry for entry in listed[name]} for name, (label, key) in LISTINGS.items()}
        | {"get_resource()": {entry["uri"]: entry for entries in by_category.values() for entry in entries}},
        # errors/ is sorted after data/: a refusal replaces data that should have been deleted
        answers={case: goldens[name] for name, case in cases.items() if case},
        others={name: goldens[name] for name, case in cases.items() if not case},
    )


def _case(name: str, paths: dict[str, str]) -> tuple[str, str] | None:
    """Return the URI and the world of a golden, or None if it belongs to no resource."""
    kind, _, path = name.partition("/")
    if kind not in {"data", "errors"}:
        return None
    if path in paths:
        return paths[path], HOME
    path, _, world = path.rpartition("--")
    return (paths[path], world) if path in paths else None
