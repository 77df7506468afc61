"""Check servers that anyone knows, and write servers.md: `python servers/check_servers.py [NAME …]`.

It needs npx and uvx. With names, only these servers are checked again; the rows of the others stay as they are.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

PAGE, RESULTS = Path(__file__).with_name("servers.md"), Path(__file__).with_name("servers.json")
SERVERS = {
    "everything": "npx -y @modelcontextprotocol/server-everything@2026.8.31",
    "memory": "npx -y @modelcontextprotocol/server-memory@2026.8.31",
    "filesystem": "npx -y @modelcontextprotocol/server-filesystem@2026.8.31 .",
    "sequential thinking": "npx -y @modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "map": "npx -y @modelcontextprotocol/server-map@2.0.3 --stdio",
    "pdf": "npx -y @modelcontextprotocol/server-pdf@2.0.4 --stdio",
    "git": "uvx mcp-server-git==2026.10.19",
    "fetch": "uvx mcp-server-fetch==2026.10.24",
    "time": "uvx mcp-server-time==2026.10.19",
    "sqlite": "uvx mcp-server-sqlite==2025.4.25 --db-path test.db",
    "playwright": "npx -y @playwright/mcp@0.0.83",
    "chrome-devtools": "npx -y chrome-devtools-mcp@1.11.0",
    "context7": "npx -y @upstash/context7-mcp@4.1.1",
    "desktop-commander": "npx -y @wonderwhy-er/desktop-commander@0.2.52",
    "kubernetes": "npx -y mcp-server-kubernetes@4.1.7",
    "eslint": "npx -y @eslint/mcp@0.3.13",
    "notion": "npx -y @notionhq/notion-mcp-server@2.5.2",
    "sentry": "npx -y @sentry/mcp-server@0.39.0",
    "stripe": "npx -y @stripe/mcp@0.3.3",
    "tavily": "npx -y tavily-mcp@0.2.22",
    "repomix": "npx -y repomix@1.18.1 --mcp",
    "excel": "uvx excel-mcp-server==2.2.2 stdio",
    "arxiv": "uvx arxiv-mcp-server==0.8.2",
    "aws-documentation": "uvx awslabs.aws-documentation-mcp-server==1.2.3",
    "duckdb": "uvx mcp-server-duckdb==1.1.0 --db-path test.duckdb",
    "atlassian": "uvx mcp-atlassian==0.23.1",
}
"""Each with its version, so that a row can be had again. They get no credentials."""
SHOWN = 3
STATUSES = {0: "no error", 1: "errors", 2: "no connection", 3: "a login is missing"}
HEAD = """# Servers that anyone knows

What `mcp-parity check` says about them, without credentials. `python servers/check_servers.py` has written this page. A
row is what was seen on its day, on one machine; an error is what a client meets, whoever causes it.

| server | checked | verdict | offers | read and called | errors and logins |
| --- | --- | --- | --- | --- | --- |
"""


def check(command: str) -> dict[str, Any]:
    """Return the findings about a server, which starts in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            str(Path(sys.executable).with_name("mcp-parity")),
            "check",
            "--json",
            "--limit",
            "60",
            "--timeout",
            "240",
        ]
        done = subprocess.run([*asked, *shlex.split(command)], cwd=folder, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def describe(name: str, found: dict[str, Any]) -> str:
    counts = {kind.replace("-", " "): count for kind, count in found["counts"].items() if count}
    tokens = sum(found["tokens"].values())
    offers = ", ".join(f"{count} {kind}" for kind, count in counts.items()) + (f"; {tokens:,} tokens" if tokens else "")
    named = [one for one in found["findings"] if one["level"] in {"error", "login"}]
    lines = [f"{one['level']}: {one['about']}: {one['text']}" for one in named[:SHOWN]]
    lines += [f"and {len(named) - SHOWN} more"] if len(named) > SHOWN else []
    cells = [
        f"{name}<br>`{found['server']}`",
        found["day"],
        STATUSES[found["status"]],
        offers or "none",
        f"{len(found['read'])} resources, {len(found['called'])} tools",
        "<br>".join(lines) or "none",
    ]
    return "| " + " | ".join(re.sub(r"[|\n]", " ", cell)[:600] for cell in cells) + " |\n"


def main() -> None:
    found = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name in sys.argv[1:] or SERVERS:
        found[name] = check(SERVERS[name]) | {"day": datetime.now(UTC).strftime("%d %B %Y")}
        sys.stdout.write(describe(name, found[name]))
        sys.stdout.flush()
        RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    rows = [describe(name, found[name]) for name in SERVERS if name in found]
    PAGE.write_text(f"{HEAD}{''.join(rows)}\nmcp-parity {version('mcp-parity')}.\n", "utf-8")


if __name__ == "__main__":
    main()
