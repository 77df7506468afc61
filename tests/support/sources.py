"""The Python files of the project, each found and read once in a process."""

from functools import cache
from pathlib import Path


@cache
def list_modules(folder: Path) -> tuple[Path, ...]:
    """Return the Python files in a folder and below it."""
    return tuple(sorted(folder.rglob("*.py")))


@cache
def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")
