"""A git repository with a small contract, for the tests of `mcp-parity diff`."""

import atexit
import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

COMMAND = [sys.executable, "-m", "mcp_parity.cli", "diff"]
COLUMNS = ["type", "uri", "name", "description", "requires_admin", "example_uri"]
CSV = "golden/mcp-list.csv"
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
    """A git repository in a directory. Its commit `base` has the files of `contract`.

    Attributes:
        files: what the next commit contains.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = contract()
        self._committed: dict[str, str] = {}
        if not _first.exists():
            self._create()
            shutil.copytree(root, _first)
        else:
            shutil.copytree(_first, root, dirs_exist_ok=True)
            self._committed = _texts(self.files)

    def _create(self) -> None:
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("base")

    def commit(self, tag: str) -> None:
        texts = _texts(self.files)
        for name in self._committed.keys() - texts.keys():
            (self.root / name).unlink()
        for name, text in texts.items():
            if self._committed.get(name) != text:
                path = self.root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        self._committed = texts
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", tag)
        self.git("tag", tag)

    def git(self, *arguments: str) -> None:
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *arguments]
        subprocess.run(command, cwd=self.root, env=_environment(), check=True)

    def summary(self, *revisions: str) -> subprocess.CompletedProcess[str]:
        """Run the script in the repository."""
        command = [*COMMAND, *revisions]
        return subprocess.run(
            command, cwd=self.root, env=_environment(), capture_output=True, encoding="utf-8", check=False
        )

    def compare(self) -> tuple[list[str], int]:
        """Commit, compare with the first commit, and return the lines that describe changes, and the exit status."""
        self.commit("head")
        done = self.summary("base", "head")
        assert done.stderr == ""
        return [line for line in done.stdout.splitlines() if line.startswith("- ")], done.returncode


_first = Path(mkdtemp(prefix="golden-repository-")) / "base"
"""A copy of the first repository. Git takes ten times as long to create another."""
atexit.register(shutil.rmtree, _first.parent, ignore_errors=True)


def _texts(files: Files) -> dict[str, str]:
    return {name: _text(name, content) for name, content in files.items()}


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
    """Return the environment without the git settings of the user who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
