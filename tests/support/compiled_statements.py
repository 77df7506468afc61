"""Lets SQLAlchemy compile each statement once for all SQLite engines of a process, and not for each engine."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import ClauseElement, Compiled, Dialect
from sqlalchemy.util import LRUCache


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once() -> Iterator[None]:
    name = "_compile_w_cache"  # SQLAlchemy's own cache is for one engine
    compile_ = vars(ClauseElement)[name]
    compiled: LRUCache[Any, Compiled] = LRUCache(2000)
    dialects: dict[type[Dialect], Dialect] = {}

    def recall(self: ClauseElement, dialect: Dialect, *, compiled_cache: Any, **options: Any) -> object:
        if dialect.name == "sqlite" and compiled_cache is not None:
            dialect, compiled_cache = dialects.setdefault(type(dialect), dialect), compiled
        return compile_(self, dialect, compiled_cache=compiled_cache, **options)

    with patch.object(ClauseElement, name, recall):
        yield
