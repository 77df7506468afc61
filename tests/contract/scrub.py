"""Prepares answers for goldens: replaces the values that differ by machine or run with placeholders."""

import json
from typing import Any

from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY

MACHINE = "<differs by machine>"
EARLIER = "<depends on earlier reads>"


def scrub(answer: dict[str, Any], world: World) -> dict[str, Any]:
    """Return a copy with placeholders for the world's directory, and for the machine's directories."""
    text = json.dumps(answer).replace(str(world.directory), "<world>")
    copy: dict[str, Any] = json.loads(text, object_hook=_without_valid_uris)
    if answer.get("uri") == "auth://status" and copy.get("data"):  # known after the first call to AWS
        copy["data"]["credentials"]["aws_expires_at"] = EARLIER
    if answer.get("uri") == "auth://filesystem/status":
        directories = copy["data"]["directories"]
        for row in directories.values():
            row["free_gib"] = MACHINE
        for name in ("temporary", "current"):
            directories[name]["path"] = MACHINE
    return copy


def _without_valid_uris(found: dict[str, Any]) -> dict[str, Any]:
    """Replace a complete list of the valid URIs, so that a new resource does not change every error golden."""
    if found.get("valid_uris") == list(RESOURCE_REGISTRY):
        found["valid_uris"] = "<every URI>"
    return found
