"""The App: what it owns, and how it closes it."""

import pytest
from pydantic import BaseModel

from quilt_mcp.app import App, current_app
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_manager, create_server
from tests.core.test_new_resource import ROW, domain_of


class NoSettings(BaseModel):
    pass


class Part:
    def __init__(self, settings: object) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Older(Part):
    pass


class Failing(Part):
    async def close(self) -> None:
        raise ConnectionError


async def test_a_part_that_fails_to_close_leaves_no_other_open() -> None:
    app = App(NoSettings())
    older, _, newer = app.part(Older), app.part(Failing), app.part(Part)
    with pytest.raises(ConnectionError):
        await app.close()
    assert (older.is_closed, newer.is_closed) == (True, True)


def test_a_part_is_created_once_and_a_wrong_settings_class_is_an_error() -> None:
    app = App(NoSettings())
    assert app.part(Part) is app.part(Part)
    with pytest.raises(TypeError, match="NoSettings; expected World"):
        app.settings_as(World)  # type: ignore[type-var]  # a class without settings


def test_python_callers_inside_a_servers_app_use_its_manager() -> None:
    server = create_server(domains=[domain_of(ROW)])
    with server.app.active():
        assert current_app().once(create_manager) is server.manager
