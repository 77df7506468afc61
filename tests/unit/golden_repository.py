"""A git repository with a small contract, for the tests of .github/scripts/golden_summary.py."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent.parent.parent / ".github" / "scripts" / "golden_summary.py"
COLUMNS = ["type", "uri", "name", "description", "requires_admin", "example_uri"]
CSV = "tests/fixtures/mcp-list.csv"
STATUS = "golden/data/auth/status.json"
STATUS_OF_MEMBER = "golden/data/auth/status--member.json"
STATUS_REFUSED = "golden/errors/auth/status--member.json"
USERS = "golden/data/admin/users.json"
USERS_OF_MEMBER = "golden/errors/admin/users--member.json"
TEMPLATE = "golden/data/metadata/templates/standard.json"
TYPO = "golden/errors/bad-input/typo.json"
TOOLS = "golden/discovery/tools.json"
RESOURCES = "golden/discovery/resources.json"
GET_RESOURCE = "golden/discovery/get-resource.json"
CHANGELOG = "CHANGELOG.md"

Files = dict[str, Any]

URIS = ["admin://users", "auth://status", "metadata://templates/{template}"]


def answer(uri: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"success": True, "uri": uri, "data": data, "mime_type": "application/json"}


def refusal(uri: str, error: str, code: int) -> dict[str, Any]:
    body = {"success": False, "uri": uri, "error": error, "message": "No.", "suggested_actions": ["Ask."]}
    return {"resource": {"code": code, "data": body, "message": "No."}, "tool": body}


def row(uri: str, example: str) -> dict[str, str]:
    return {
        "type": "resource_template" if "{" in uri else "resource",
        "uri": uri,
        "name": uri,
        "description": "What it is.",
        "requires_admin": "false",
        "example_uri": example,
    }


def entry(uri: str) -> dict[str, str]:
    return {"uri": uri, "name": uri, "description": "What it is."}


def contract() -> Files:
    """The files of the first commit: JSON values, texts, and for the CSV its rows."""
    uri_argument = {"type": "string", "description": "The URI.", "maxLength": 200}
    step = {
        "workflow_id": {"type": "string", "pattern": "^[a-z]$"},
        "status": {"type": "string", "enum": ["pending", "completed"]},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "labels": {"type": "array", "items": {"type": ["string", "integer"]}},
        "size": {"oneOf": [{"not": 1}, {"not": 2}]},
        "kind": {"const": "a"},
        "note": {},
    }
    users = [{"name": name, "role": {"title": "Reader"}, "active": True} for name in ("ada", "ben", "cleo")]
    return {
        CSV: [row(uri, uri.replace("{template}", "standard")) for uri in URIS],
        STATUS: answer("auth://status", {"status": "authenticated", "user": None, "expires": "2026", "count": 3}),
        USERS: answer("admin://users", {"users": users, "tags": ["a", "b"]}),
        USERS_OF_MEMBER: refusal("admin://users", "Unauthorized", -32002),
        TEMPLATE: answer("metadata://templates/standard", {"fields": {"version": "1.0"}}),
        TYPO: refusal("auth://statsu", "InvalidURI", -32602),
        RESOURCES: [entry(uri) for uri in URIS[:2]],
        "golden/discovery/resource-templates.json": [{"uriTemplate": URIS[2], "name": "Template"}],
        GET_RESOURCE: {"success": True, "uri": "", "data": {"all": [entry(uri) for uri in URIS]}},
        TOOLS: [
            {
                "name": "get_resource",
                "description": "Read any resource.",
                "inputSchema": {"type": "object", "properties": {"uri": uri_argument}, "additionalProperties": True},
                "outputSchema": {
                    "type": "object",
                    "properties": {"success": {"type": "boolean"}, "data": {"type": "object"}},
                    "required": ["success"],
                },
            },
            {
                "name": "workflow_update_step",
                "inputSchema": {"type": "object", "properties": step, "required": ["workflow_id", "status"]},
            },
        ],
        CHANGELOG: "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- All of it.\n",
    }


class Repository:
    """A git repository in a directory of its own; `files` is what the next commit holds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = contract()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("base")

    def commit(self, tag: str) -> None:
        self.git("rm", "-r", "--quiet", "--ignore-unmatch", ".")
        for name, content in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_text(name, content), encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", tag)
        self.git("tag", tag)

    def git(self, *arguments: str) -> None:
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *arguments]
        subprocess.run(command, cwd=self.root, env=_environment(), check=True)

    def summary(self, *revisions: str) -> subprocess.CompletedProcess[str]:
        """Run the script in the repository."""
        command = [sys.executable, str(SCRIPT), *revisions]
        return subprocess.run(
            command, cwd=self.root, env=_environment(), capture_output=True, encoding="utf-8", check=False
        )

    def changed(self) -> tuple[list[str], int]:
        """Commit, compare with the first commit, and answer the lines that tell a change, and the exit status."""
        self.commit("head")
        done = self.summary("base", "head")
        assert done.stderr == ""
        return [line for line in done.stdout.splitlines() if line.startswith("- ")], done.returncode


def _text(name: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if name != CSV:
        return json.dumps(content, indent=2) + "\n"
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(content)
    return out.getvalue()


def _environment() -> dict[str, str]:
    """The process's own, without the settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
