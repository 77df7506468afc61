"""Lets cyclopts inspect the function of each command once, and not for each call of the command line."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from cyclopts import App, ArgumentCollection


@pytest.fixture(scope="session", autouse=True)
def commands_inspected_once() -> Iterator[None]:
    assemble = App.assemble_argument_collection
    known: dict[Callable[..., Any] | None, ArgumentCollection] = {}

    def recall(app: App, **options: Any) -> ArgumentCollection:
        if options:
            return assemble(app, **options)
        if app.default_command not in known:
            known[app.default_command] = assemble(app)
        return known[app.default_command].copy(reset_tokens=True)

    with patch.object(App, "assemble_argument_collection", recall):
        yield
