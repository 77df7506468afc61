"""The links of the README add a server that starts, to Cursor and to VS Code."""

import base64
import json
import re
from urllib.parse import parse_qs, urlsplit

from quilt_mcp.commands.cli import list_commands
from quilt_mcp.console.parser import create_app
from tests.support.docs import ROOT


def link(title: str) -> tuple[str, dict[str, str]]:
    [url] = re.findall(rf"\[{title}\]\((\S+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    parts = urlsplit(url)
    given = parse_qs(parts.query, strict_parsing=True)
    return f"{parts.scheme}://{parts.netloc}{parts.path}", {name: value for name, [value] in given.items()}


ENTRY = {"command": "quilt-mcp", "args": ["serve"]}


def test_both_clients_get_a_command_that_starts_the_server() -> None:
    cursor, of_cursor = link("Add to Cursor")
    vs_code, of_vs_code = link("Add to VS Code")
    assert json.loads(base64.b64decode(of_cursor.pop("config"), validate=True)) == ENTRY
    assert json.loads(of_vs_code.pop("config")) == {"type": "stdio"} | ENTRY
    assert (cursor, of_cursor) == ("https://cursor.com/install-mcp", {"name": "quilt"})
    assert (vs_code, of_vs_code) == ("https://vscode.dev/redirect/mcp/install", {"name": "quilt"})
    create_app(list_commands()).parse_args(ENTRY["args"])
