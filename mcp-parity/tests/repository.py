"""A small contract in two revisions, in memory or in git, for the tests of `mcp-parity diff`."""

import copy
import csv
import io
import json
import os
import shutil
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from mcp_parity.cli import compare, main
from mcp_parity.revisions import Places, Revision

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
    """The files of the first revision: JSON values, texts, and for the CSV its rows."""
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
                "annotations": {
                    "title": "Read",
                    "readOnlyHint": True,
                    "destructiveHint": False,
                    "idempotentHint": True,
                    "openWorldHint": False,
                },
                "inputSchema": {"type": "object", "properties": {"uri": uri_argument}, "additionalProperties": True},
                "outputSchema": {
                    "type": "object",
                    "properties": {"success": {"type": "boolean"}, "data": {"type": "object"}},
                    "required": ["success"],
                },
            },
            {
                "name": "workflow_update_step",
                "annotations": {"readOnlyHint": False, "destructiveHint": True},
                "inputSchema": {"type": "object", "properties": step, "required": ["workflow_id", "status"]},
            },
        ],
        CHANGELOG: "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- All of it.\n",
    }


def move(files: Files, folder: str) -> Files:
    """Return the files with the goldens in another folder."""
    return {name.replace("golden/", f"{folder}/", 1): content for name, content in files.items()}


class Summary(NamedTuple):
    """What the command tells of two revisions."""

    text: str
    page: str
    status: int

    @property
    def lines(self) -> list[str]:
        """The lines that describe changes."""
        return [line for line in self.text.splitlines() if line.startswith("- ")]


def summarize(before: Files, after: Files) -> Summary:
    """Compare two revisions in memory, without git."""
    base, head = (Revision(name, _texts(files), Places()) for name, files in (("base", before), ("head", after)))
    return Summary(*compare(base, head))


def require_git() -> None:
    """Skip the test on a machine without git."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")


class Repository:
    """A git repository without a work tree. Its commit `base` has the files of `contract`.

    Attributes:
        files: what the next commit contains.
    """

    def __init__(self, root: Path) -> None:
        require_git()
        self.root = root
        self.files = contract()
        self._git("init", "--quiet", "--template=", "--initial-branch=main")
        self.commit("base", parent="")

    def commit(self, tag: str, parent: str = "main") -> None:
        """Commit with a submodule among the goldens, and tag. Without a parent, the commit begins a history."""
        lines = [b"commit refs/heads/main", b"committer Ada <ada@example.com> 0 +0000", b"data 0"]
        lines += [f"from {parent}^0".encode(), b"deleteall"] if parent else []
        lines.append(b"M 160000 " + b"1" * 40 + b" golden/submodule")
        for name, text in _texts(self.files).items():
            data = text.encode()
            lines += [f"M 100644 inline {name}".encode(), f"data {len(data)}".encode(), data]
        lines += [f"reset refs/tags/{tag}".encode(), b"from refs/heads/main", b""]
        self._git("fast-import", "--quiet", "--force", stdin=b"\n".join(lines))

    def diff(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the repository and in this process."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        environment = patch.dict(os.environ, _environment(), clear=True)
        with chdir(self.root), environment, redirect_stdout(out), redirect_stderr(err):
            try:
                status: Any = main(["diff", *arguments])
            except SystemExit as end:
                status = end.code
        out.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), err.getvalue())

    def clone(self, root: Path, *, depth: int) -> "Repository":
        """Return a shallow clone."""
        source = ["--no-local", f"--depth={depth}", "--no-single-branch", "--bare", self.root.as_uri()]
        self._git("clone", "--quiet", "--template=", *source, str(root))
        found = copy.copy(self)
        found.root = root
        return found

    def _git(self, *arguments: str, stdin: bytes = b"") -> None:
        command = ["git", *arguments]
        subprocess.run(command, cwd=self.root, env=_environment(), input=stdin, check=True)


def _texts(files: Files) -> dict[str, str]:
    return {name: _text(name, content) for name, content in files.items()}


def _text(name: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if not name.endswith(".csv"):
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
