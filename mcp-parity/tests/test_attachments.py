"""Answers with attachments: contents after the first, which the tool gives as blocks beside its body."""

import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.project import FEW, PLUGINS, Project
from tests.raw_tool_server import BLOB_TWICE
from tests.test_raw_faults import WORLD

SERVER = Path(__file__).parent / "raw_tool_server.py"
LIES = "raw://rows: get_resource lies: it differs from resources/read"
READ, TOOL = "resources/read: ", "get_resource: "
FAULTS = {
    "tool: none is attached": (LIES, "contents[1]: " + READ + '{"', TOOL + "nothing", "contents[3]: "),
    "tool: one is missing": (LIES, "contents[2]: " + READ + '{"mime_type": "audio/wav", ', TOOL + "nothing"),
    "tool: the last is missing": (LIES, "contents[3]: " + READ + '{"', TOOL + "nothing"),
    "tool: one is twice": (LIES, f"contents[3]: {READ}nothing; {TOOL}{{"),
    "tool: two are exchanged": (LIES, "contents: the same, but in another order"),
    "tool: one has other bytes": (LIES, "contents[1].blob.sha256: " + READ, "contents[1].blob.image: "),
    "tool: one has another type": (LIES, f'contents[1].mime_type: {READ}"image/png"; {TOOL}"image/jpeg"'),
    "tool: a table has another type": (LIES, "contents[3].mime_type: " + READ, f'{TOOL}"text/csv"'),
    "tool: a table has another URI": (LIES, f'contents[3].uri: {READ}"raw://table"; {TOOL}"raw://other"'),
    "tool: one is not base64": ("raw://rows: a blob of the tool is not base64: ",),
    "read: none is attached": (LIES, f"contents[1]: {READ}nothing; {TOOL}{{"),
    "read: one is missing": (LIES, f"contents[2]: {READ}nothing; {TOOL}{{"),
    "read: one is twice": (LIES, "contents[3]: " + READ + '{"', TOOL + "nothing"),
    "read: two are exchanged": (LIES, "contents: the same, but in another order"),
    "read: one has other bytes": (LIES, "contents[1].blob.sha256: " + READ, "contents[1].blob.image: "),
    "read: one has another type": (LIES, f'contents[1].mime_type: {READ}"image/jpeg"; {TOOL}"image/png"'),
    "read: a table has another URI": (LIES, f'contents[3].uri: {READ}"raw://other"; {TOOL}"raw://table"'),
    "read: one is not base64": ("raw://rows: the blob is not base64: ",),
}


@pytest.fixture
def attached(project: Project) -> Project:
    """A project that pins a server with attachments, with goldens."""
    project.write("pyproject.toml", f'[tool.pytest.ini_options]\nmcp_server = "{sys.executable} {SERVER}"\n')
    status, output = project.update()
    assert status == 0, output
    return project


def test_attachments_are_pinned_by_size_and_hash_and_small_images_in_full(attached: Project) -> None:
    status, output = attached.run()
    assert status == 0, output
    first, image, sound, table = attached.golden("data/raw/rows")["contents"]
    assert first.keys() == {"mime_type", "data"}
    assert (image["mime_type"], image["blob"].keys()) == ("image/png", {"bytes", "image", "sha256"})
    assert (sound["mime_type"], sound["blob"].keys()) == ("audio/wav", {"bytes", "sha256"})
    assert table["uri"] == "raw://table"
    assert table["blob"] == {"bytes": 4, "sha256": hashlib.sha256(b"PAR1").hexdigest()}
    assert attached.golden("data/raw/blob")["contents"][0]["mime_type"] == "image/png"


def test_a_blob_in_the_body_and_as_a_block_is_one_content(attached: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", BLOB_TWICE)
    status, output = attached.run("-k", "blob")
    assert status == 0, output


def find_unnamed(project: Project, faults: Sequence[str]) -> dict[str, str]:
    """Run the case of the rows with each fault. Return the reports that lack a message."""
    for number, fault in enumerate(faults):
        project.write(f"tests/test_{number}.py", WORLD.format(fault=fault, world="home"))
    found = {f"tests/test_{number}.py": "" for number in range(len(faults))}
    ran = project.pytester.inline_run(*FEW, "-W", "default", "-k", "home and rows", *found, plugins=PLUGINS)
    for one in ran.getreports("pytest_runtest_logreport"):
        found[one.nodeid.partition("::")[0]] += one.longreprtext if one.failed else ""
    pairs = zip(faults, found.values(), strict=True)
    return {fault: text for fault, text in pairs if not all(one in text for one in FAULTS[fault])}


def test_a_difference_of_an_attachment_is_named(attached: Project) -> None:
    assert find_unnamed(attached, [*FAULTS]) == {}


@pytest.mark.parametrize("name", ["one has other bytes", "two are exchanged", "the last is missing"])
def test_an_attachment_that_changes_on_both_surfaces_differs_from_the_golden(
    name: str, attached: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both surfaces have the fault, so only the golden tells."""
    attached.write("both.py", f"import os, runpy, sys\nfrom unittest.mock import patch\n{BOTH}".replace("NAME", name))
    attached.change(str(SERVER), "both.py", "pyproject.toml")
    output = attached.fail("-k", "rows")
    assert "raw://rows differs from golden/data/raw/rows.json" in output
    assert re.search(r"  contents(\[\d\])?\S*: ", output)


BOTH = f"""
sys.path.insert(0, {str(SERVER.parents[1])!r})
from tests import raw_server, raw_tool_server
raw_tool_server.FAULT = "any: NAME"
attach = raw_tool_server.attach
raw_tool_server.attach = lambda surface: attach(surface="any")
raw_server.METHODS |= {{
    "resources/read": raw_tool_server.read,
    "tools/call": raw_tool_server.call,
    "tools/list": raw_tool_server.list_tools,
}}
raw_server.main()
"""
