"""The default app: the one of tests that call service functions without a server."""

from quilt_mcp.app import App, Parts, current_app, default_app
from tests.support.settings import Settings


def use_settings(new: Settings, parts: Parts | None = None) -> None:
    """Give Python callers an app with these settings and parts, until the end of the test."""
    default_app.register(lambda: App(new, parts))


def use_environment() -> None:
    """Give Python callers a new app, with the settings that the environment has when the app is first used."""
    default_app.register(lambda: App(Settings()))


def current_settings() -> Settings:
    """Return the settings of the current app."""
    return current_app().settings_as(Settings)
