"""Loads the fixtures that the tests share. A process that only distributes tests needs none, and imports none."""

import gc

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures in a process that runs tests. Their imports take two seconds."""
    distributes = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not distributes:
        gc.disable()  # until the tests are collected: modules are no garbage
        config.pluginmanager.import_plugin("tests.fixtures")
