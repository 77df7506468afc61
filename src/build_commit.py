"""Writes the commit into distributions, for /health, /metrics and --version. hatchling runs this when it builds one.

Without git, set the environment variable SOURCE_COMMIT. It is in src/, so that every copy of the sources has it.
"""

import os
import re
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "quilt_mcp/app/commit.txt"


class CommitHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is not installed for development
    """Adds the file with the commit to a wheel or an sdist. An editable installation has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, unless the sources have it already, as those of an sdist do."""
        root = Path(self.root)
        commit = os.environ.get("SOURCE_COMMIT") or _ask_git(root)
        if version == "editable" or (root / "src" / NAME).exists() or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
            return
        file = Path(mkdtemp(prefix="quilt-mcp-commit-")) / "commit.txt"
        file.write_text(f"{commit}\n", encoding="ascii")
        build_data["force_include"][str(file)] = NAME if self.target_name == "wheel" else f"src/{NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, artifact_path
        for source in build_data["force_include"]:
            if Path(source).parent.name.startswith("quilt-mcp-commit-"):
                Path(source).unlink()
                Path(source).parent.rmdir()


def _ask_git(root: Path) -> str:
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:  # the command is constant, but for the path of this file
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)  # noqa: S603 - constant
        return ran.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
