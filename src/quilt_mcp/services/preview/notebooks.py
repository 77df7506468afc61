"""Jupyter notebooks: their cells, with texts and outputs."""

import json
from collections.abc import Iterator, Mapping
from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.app.json_depth import is_nested_too_deeply

LARGEST_NOTEBOOK = 4_000_000
CELL = 4_000
"""The characters that are shown of a source or an output."""
FORMAT = 4
TEXTS = ("text/plain", "text/markdown", "text/html")
"""The forms of an output that are shown, the best first."""


class Output(TypedDict):
    """What a cell printed or returned.

    Attributes:
        kind: "stream", "error", or the MIME type of what is shown.
        text: at most 4,000 characters; null for what is no text, such as a picture.
        is_cut: whether the text is cut.
    """

    kind: str
    text: str | None
    is_cut: bool


class Cell(TypedDict):
    """A cell.

    Attributes:
        number: its place in the notebook, from 1.
        kind: "code", "markdown" or "raw".
        source: at most 4,000 characters.
        is_cut: whether the source is cut.
        outputs: what a run printed and returned; empty for a cell that was not run.
    """

    number: int
    kind: Literal["code", "markdown", "raw"]
    source: str
    is_cut: bool
    outputs: list[Output]


class Notebook(TypedDict):
    """A page of a notebook.

    Attributes:
        language: the programming language that the notebook names; null if it names none.
        cell_count: the number of all cells.
        cells: those of this page.
    """

    language: str | None
    cell_count: int
    cells: list[Cell]


def read_notebook(raw: bytes, first: int, room: int) -> Notebook | None:
    """Return the cells from one on, as many as fit and at least one; None if the file is no notebook of format 4.

    Args:
        raw: the file.
        first: the number of the first cell, from 1.
        room: the number of characters of all cells.
    """
    try:
        found = None if is_nested_too_deeply(raw) else json.loads(raw)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("nbformat") != FORMAT:
        return None
    cells = found.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return None
    shown = list[Cell]()
    for number, cell in enumerate(cells[first - 1 :], first):
        one = _describe(number, cell)
        room -= len(json.dumps(one, ensure_ascii=False))
        if shown and room < 0:
            break
        shown.append(one)
    return {"language": _find_language(found), "cell_count": len(cells), "cells": shown}


def _find_language(notebook: Mapping[str, object]) -> str | None:
    meta = notebook.get("metadata")
    for name in ("language_info", "kernelspec"):
        described = meta.get(name) if isinstance(meta, dict) else None
        language = (
            described.get("name" if name == "language_info" else "language") if isinstance(described, dict) else 0
        )
        if isinstance(language, str):
            return language[:100]
    return None


def _describe(number: int, cell: Mapping[str, object]) -> Cell:
    kind, source, outputs = cell.get("cell_type"), _join(cell.get("source")), cell.get("outputs")
    return {
        "number": number,
        "kind": kind if kind in {"code", "markdown"} else "raw",
        "source": source[:CELL],
        "is_cut": len(source) > CELL,
        "outputs": [shown for one in outputs if isinstance(one, dict) for shown in _describe_output(one)]
        if isinstance(outputs, list)
        else [],
    }


def _describe_output(output: Mapping[str, object]) -> Iterator[Output]:
    kind, data = output.get("output_type"), output.get("data")
    if kind == "stream":
        yield _cut("stream", _join(output.get("text")))
    elif kind == "error":
        yield _cut("error", f"{output.get('ename')}: {output.get('evalue')}")
    elif isinstance(data, dict):
        texts = [name for name in TEXTS if name in data]
        for name in texts[:1] or sorted(str(name) for name in data)[:1]:
            yield _cut(name, _join(data[name])) if texts else {"kind": name[:100], "text": None, "is_cut": False}


def _cut(kind: str, text: str) -> Output:
    return {"kind": kind, "text": text[:CELL], "is_cut": len(text) > CELL}


def _join(text: object) -> str:
    """Return a text that the format can have as a list of lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
