"""Prepares the documentation site: `python -m tests.support.site FOLDER` writes what `make docs` builds.

The site has the folders of the repository, so that links between the documents and to files stay as they are.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from quilt_mcp.services.resources import PRODUCT
from tests.support.docs import ROOT, documents
from tests.support.pages import links

NAME = f"{PRODUCT.title} MCP server"
INDEX = ROOT / "docs" / "index.md"
SETTINGS = """\
[project]
site_name = {name}
docs_dir = "pages"
use_directory_urls = false  # HTML in a document names pictures as on GitHub
nav = {nav}
[project.theme]
font = false  # the fonts of the reader
features = ["content.code.copy", "navigation.sections", "toc.follow"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""


def find_files() -> set[Path]:
    """Return the documents, what they link to, and their pictures."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in documents()
        for link in links(page)
        if ":" not in link
    }
    pictures = {path for ending in ("png", "svg") for path in (ROOT / "docs").rglob(f"*.{ending}")}
    return {*documents(), *pictures, *filter(Path.is_file, linked)}


def write_navigation() -> str:
    """Return the pages in the sections of docs/index.md, then the pages of answers, in TOML."""
    parts = re.split(r"^## (.+)$", INDEX.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = [_entry(NAME, json.dumps("README.md")), _entry("Documentation", json.dumps("docs/index.md"))]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        found = re.findall(r"^\| \[(.+?)\]\((\S+)\)", text, re.MULTILINE)
        sections.append(_section(heading, [(title, INDEX.parent / link) for title, link in found]))
    answers = sorted((ROOT / "docs" / "answers").glob("*.md"))
    sections.append(_section("Fields of answers", [(page.stem, page) for page in answers]))
    return f"[{', '.join(sections)}]"


def _section(heading: str, pages: list[tuple[str, Path]]) -> str:
    entries = [_entry(title, json.dumps(page.resolve().relative_to(ROOT).as_posix())) for title, page in pages]
    return _entry(heading, f"[{', '.join(entries)}]")


def _entry(title: str, value: str) -> str:
    return f"{{ {json.dumps(title)} = {value} }}"


def write(folder: Path) -> Path:
    """Write the pages and the settings of the site into a folder that it empties, and return its settings."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in find_files():
        copy = folder / "pages" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    settings = folder / "zensical.toml"
    text = SETTINGS.format(name=json.dumps(NAME), nav=write_navigation())
    settings.write_text(text, encoding="utf-8")
    return settings


if __name__ == "__main__":
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")
