"""Loads the fixtures that all tests share. A process that only distributes tests needs none, and imports none."""

import os
import sys
import tempfile

import pytest

from tests.support.examples import register_profiles

# The sandbox refuses to analyse on a Python version that its attack table has not run on.
collect_ignore = ["analysis"] if sys.version_info >= (3, 14) else []


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads which profile the command line names
def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures in a process that runs tests. Their imports take two seconds."""
    register_profiles()
    # A test that names no directory must not read, or write, the data of the person who runs it.
    own = tempfile.TemporaryDirectory(prefix="quilt-mcp-tests-")
    config.add_cleanup(own.cleanup)
    os.environ["XDG_DATA_HOME"] = own.name
    distributes = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not distributes:
        for module in ("tests.support.fixtures", "tests.support.done_once"):
            config.pluginmanager.import_plugin(module)
