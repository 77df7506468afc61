"""Links that add the installed server to Cursor and to VS Code with one click, for the README."""

import base64
import json
from urllib.parse import quote, urlencode

from quilt_mcp.commands.client_config import COMMAND, SERVER_NAME

CURSOR = "https://cursor.com/install-mcp"
VS_CODE = "https://vscode.dev/redirect/mcp/install"
ENTRY = {"command": COMMAND, "args": ["serve"]}


def client_links() -> str:
    """Return both links in one line of Markdown."""
    cursor = base64.b64encode(_write(ENTRY).encode()).decode()
    vs_code = _write({"type": "stdio", **ENTRY})
    return f"[Add to Cursor]({CURSOR}?{_encode(config=cursor)}) · [Add to VS Code]({VS_CODE}?{_encode(config=vs_code)})"


def _encode(config: str) -> str:
    return urlencode({"name": SERVER_NAME, "config": config}, quote_via=quote, safe="")


def _write(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
