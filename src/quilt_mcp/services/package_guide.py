"""What a package says about itself: README.md, and the files that quilt_summarize.json names for the catalog."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.preview.stored_file import StoredFile, parse_key
from quilt_mcp.services.readme import README, README_BYTES, Readme, cut_readme, make_unread
from quilt_mcp.services.stack.failures import explain

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

SUMMARY = "quilt_summarize.json"
SUMMARY_BYTES = 65_536
MOST_HIGHLIGHTS = 20
MAX_TEXT = 300
NO_LIST = f"{SUMMARY} is no list in JSON of at most {SUMMARY_BYTES:,} bytes."


class _File(TypedDict):
    physicalKey: str


class GuideFiles(TypedDict):
    """The two files, if the package has them."""

    readme: _File | None
    summary: _File | None


class Highlight(TypedDict):
    """A file that quilt_summarize.json names.

    Attributes:
        path: its path, as it is written there.
        title: its title; null if none is written.
        description: its description; null as above. Texts are cut at 300 characters.
        uri: the URI that shows what is in it.
    """

    path: str
    title: str | None
    description: str | None
    uri: str


class Guide(Readme):
    """What a package says about itself.

    Attributes:
        highlights: the first 20 files that quilt_summarize.json names; null with the reason in `highlights_error`.
        highlights_error: why they are null: there is no such file, it is no list, or S3 refuses it; null if it was
            read.
    """

    highlights: list[Highlight] | None
    highlights_error: str | None


def read_guide(caller: "Caller", files: GuideFiles, make_uri: Callable[[str], str]) -> Guide:
    """Read both files with the caller's role, as far as they exist. What is refused is said in the answer.

    Args:
        caller: who reads.
        files: where they are.
        make_uri: makes the URI of a file of the package from its path.
    """
    text, problem = _read(caller, files["readme"], README, README_BYTES)
    listed, trouble = _read(caller, files["summary"], SUMMARY, SUMMARY_BYTES)
    highlights = None if listed is None else _read_highlights(listed, make_uri)
    return {
        **(make_unread(problem) if text is None else cut_readme(text)),
        "highlights": highlights,
        "highlights_error": NO_LIST if listed is not None and highlights is None else trouble or None,
    }


def _read(caller: "Caller", file: _File | None, name: str, most: int) -> tuple[bytes | None, str]:
    """Return the first bytes of a file, or why it cannot be read."""
    if file is None:
        return None, f"The package has no {name} at its root."
    try:
        return StoredFile(caller.aws, parse_key(file["physicalKey"])).read(0, most), ""
    except ResourceFailure as failure:
        return None, explain(failure)


def _read_highlights(raw: bytes, make_uri: Callable[[str], str]) -> list[Highlight] | None:
    try:
        found = json.loads(raw) if len(raw) < SUMMARY_BYTES and not is_nested_too_deeply(raw) else None
    except ValueError:
        return None
    if not isinstance(found, list):
        return None
    rows = [row for one in found for row in _list_files(one)]
    return [
        {
            "path": path[:MAX_TEXT],
            "title": title,
            "description": description,
            "uri": make_uri(path.strip("/")),
        }
        for path, title, description in rows[:MOST_HIGHLIGHTS]
    ]


def _list_files(entry: object) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the path, the title and the description of an entry: a path, an object, or a row of these."""
    if isinstance(entry, str):
        yield entry, None, None
    elif isinstance(entry, list):
        for one in entry:
            if not isinstance(one, list):
                yield from _list_files(one)
    elif isinstance(entry, dict) and isinstance(entry.get("path"), str):
        texts = (entry.get("title"), entry.get("description"))
        title, description = (one[:MAX_TEXT] if isinstance(one, str) else None for one in texts)
        yield entry["path"], title, description
