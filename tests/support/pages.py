"""What the documents contain: code blocks, code spans, headings and links."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        page: the document.
        language: after the fence.
        text: without the indentation of the fence.
    """

    page: Path
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a document."""
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Block(page, one["language"], textwrap.dedent(one["text"])) for one in found]


def prose(page: Path) -> str:
    """Return a document without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def code_spans(page: Path) -> list[str]:
    """Return the texts in backquotes outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def shell_lines(page: Path) -> Iterator[str]:
    """Yield the lines of shell blocks, without comments."""
    for block in blocks(page):
        if block.language == "sh":
            for line in block.text.splitlines():
                if command := re.sub(r"(^|\s)#.*", "", line).strip():
                    yield command


def links(page: Path) -> list[str]:
    """Return the targets of links and images."""
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors that headings get on GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
