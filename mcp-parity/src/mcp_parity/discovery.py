"""Compares what the tool lists with resources/list and resources/templates/list."""

import json
import re
from typing import Any

from mcp_parity.settings import ContractError
from mcp_parity.values import are_equal

OWN_TOOL = "get_resource"


def check_discovery(found: dict[str, Any]) -> None:
    """Check that the tool lists the resources of both lists. A template stands for the resources that match it.

    Raises:
        ContractError: it does not, or it describes one differently.
    """
    data = found["get-resource"].get("data", {})
    shown = {row["uri"]: row for rows in data.values() for row in rows}
    templates = [re.sub(r"\\\{.*?\\\}", ".+", re.escape(uri.partition("{?")[0])) for uri in shown if "{" in uri]
    listed = {one["uri"]: one for one in found["resources"]}
    listed |= {one["uriTemplate"]: one for one in found["resource-templates"]}
    missing = [uri for uri in listed.keys() - shown.keys() if not any(re.fullmatch(one, uri) for one in templates)]
    lines = [f"  {uri}: listed by resources/list, not by {OWN_TOOL}()" for uri in sorted(missing)]
    lines += [f"  {uri}: listed by {OWN_TOOL}(), not by resources/list" for uri in sorted(shown.keys() - listed.keys())]
    both = sorted(shown.keys() & listed.keys())
    lines += [line for uri in both for line in _describe_row(uri, shown[uri], listed[uri])]
    if lines:
        raise ContractError("\n".join([f"{OWN_TOOL}() and resources/list differ", *lines]))


def _describe_row(uri: str, shown: dict[str, Any], listed: dict[str, Any]) -> list[str]:
    """Return a line for each field of a resource that both lists have, with different values."""
    fields = {**listed.get("_meta", {}), "description": "", "mime_type": listed.get("mimeType"), **listed}
    wrong = [name for name in shown.keys() & fields.keys() if not are_equal(shown[name], fields[name])]
    pairs = ((name, json.dumps(fields[name]), json.dumps(shown[name])) for name in sorted(wrong))
    return [f"  {uri}: {name}: resources/list: {one}; {OWN_TOOL}(): {other}" for name, one, other in pairs]
