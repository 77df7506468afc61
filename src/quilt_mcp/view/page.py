"""The page that hosts of MCP Apps show: one file, page.html, with the templates of the server written into it.

Its address has a hash of its content: hosts may keep it for as long as they like, and a new version is a new resource.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from quilt_mcp.core.answers import Document
from quilt_mcp.core.registry import ResourceDefinition

MIME_TYPE = "text/html;profile=mcp-app"
TTL_SECONDS = 86_400
META = {"ui": {"prefersBorder": True, "permissions": {"clipboardWrite": {}}}}
"""For the host. Without `csp`, the page can reach nothing but the host."""
PLACEHOLDER = "[/*templates*/]"


@cache
def read_page() -> str:
    """Return the text of page.html."""
    return files("quilt_mcp.view").joinpath("page.html").read_text("utf-8")


def make_page(definitions: Iterable[ResourceDefinition]) -> Document:
    """Return the page. The templates make a row of an answer into a link to the resource about it."""
    templates = sorted(one["uri"] for one in definitions if one["is_template"])
    text = read_page().replace(PLACEHOLDER, json.dumps(templates).replace("<", "\\u003c"), 1)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Document(
        uri=f"ui://quilt-mcp/view/{digest}",
        resource_name="View",
        data={},
        text=text,
        mime_type=MIME_TYPE,
        meta=META,
        ttl_ms=TTL_SECONDS * 1000,
        cache_scope="public",
    )
