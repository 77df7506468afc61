"""Makes an answer fit for a golden: what differs by machine or run becomes a visible placeholder, by named path."""

import json
from pathlib import Path
from typing import Any

from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY

MACHINE = "<differs by machine>"


def scrubbed(observed: dict[str, Any], world: World) -> dict[str, Any]:
    """A copy with the world's address, port and directory replaced, and the machine's directories blanked."""
    text = json.dumps(observed).replace(world.url, "https://catalog.example").replace(str(world.directory), "<world>")
    copy: dict[str, Any] = json.loads(text, object_hook=_without_valid_uris)
    if observed.get("uri") == "auth://filesystem/status":
        directories = copy["data"]["directories"]
        for row in directories.values():
            row["free_gib"] = MACHINE
        for name in ("temporary", "current"):
            directories[name]["path"] = MACHINE
    return copy


def _without_valid_uris(found: dict[str, Any]) -> dict[str, Any]:
    """A complete list of the valid URIs becomes a placeholder, or each new resource would change every refusal."""
    if found.get("valid_uris") == list(RESOURCE_REGISTRY):
        found["valid_uris"] = "<every URI>"
    return found


def goldens_on_disk(root: Path) -> set[str]:
    """The names of the goldens that exist."""
    return {path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.json")}
