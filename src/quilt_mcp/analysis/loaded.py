"""What an analysis gets to work on: code that passed the gate, loaded into a module of restricted names."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Tracebacks, `inspect` and the analyser find the canonical source under this name; there is no such file.
FILE_NAME = "/analysis/submitted.py"
MODULE_NAME = "submitted"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Admitted code, ready for an analysis.

    Attributes:
        module: the code, run; registered in `sys.modules` under `MODULE_NAME`.
        source: the canonical source, as the gate wrote it anew; its line numbers are its own.
        tree: the syntax tree that `source` was written from. Its line numbers are those of the client's text.
        report: keep a result for the case that the wall clock ends the analysis: if the child is killed for time, the
            last object given here is the answer. It is an answer in full, with its `status`. May be called often,
            while all that is given here stays below 4 MiB.
    """

    module: ModuleType
    source: str
    tree: ast.Module
    report: Callable[[Mapping[str, Any]], None]
