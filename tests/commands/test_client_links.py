"""The links of the README add a server that starts, to Cursor and to VS Code."""

import base64
import json
import re
from urllib.parse import parse_qs, urlsplit

from quilt_mcp.commands.parser import create_app
from tests.support.docs import ROOT


def link(title: str) -> tuple[str, dict[str, str]]:
    """The address and the parameters of a link in the README."""
    [url] = re.findall(rf"\[{title}\]\((\S+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    parts = urlsplit(url)
    given = parse_qs(parts.query, strict_parsing=True)
    return f"{parts.scheme}://{parts.netloc}{parts.path}", {name: value for name, [value] in given.items()}


def test_cursor_gets_the_command_in_base64() -> None:
    address, parameters = link("Add to Cursor")
    config = json.loads(base64.b64decode(parameters.pop("config"), validate=True))
    assert (address, parameters) == ("https://cursor.com/install-mcp", {"name": "quilt"})
    assert config == {"command": "quilt-mcp", "args": ["serve"]}
    create_app().parse_args(config["args"])


def test_vs_code_gets_the_command_in_json() -> None:
    address, parameters = link("Add to VS Code")
    config = json.loads(parameters.pop("config"))
    assert (address, parameters) == ("https://vscode.dev/redirect/mcp/install", {"name": "quilt"})
    assert config == {"type": "stdio", "command": "quilt-mcp", "args": ["serve"]}


def test_the_links_are_one_line() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if "Add to Cursor" in line]
    assert "Add to VS Code" in line
