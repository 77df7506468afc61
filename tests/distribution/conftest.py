"""Packages that are built once for all tests of this folder."""

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.distribution.building import run_or_skip, run_script
from tests.support.server_process import ROOT


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, as `make mcpb` builds it."""
    path = tmp_path_factory.mktemp("bundle") / "quilt.mcpb"
    run_script("bundle", path)
    return path


@pytest.fixture
def unpacked(bundle: Path, tmp_path: Path) -> Path:
    """A directory with the files of the bundle."""
    directory = tmp_path / "unpacked"
    with ZipFile(bundle) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as `make wheels` builds it."""
    directory = tmp_path_factory.mktemp("wheel")
    run_or_skip(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, ROOT)
    [found] = directory.glob("*.whl")
    return found
