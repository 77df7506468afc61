"""`quilt-mcp install` changes one entry of a configuration and keeps the text around it.

The library pyjson5 reads the results: it is another parser than the one of the command.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyjson5
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.clients import CLIENTS, ClientName
from quilt_mcp.commands.install import executable
from tests.support.client_home import home, started

__all__ = ["home", "started"]
pytestmark = pytest.mark.usefixtures("started")

ENTRY = {"command": executable(), "args": ["serve"]}
ZED = """// Settings
{
    "theme": "One Dark", // dark, "theme": 2
    /* servers { */
    "context_servers": {
        // the first one
        "other": {"command": "x", "args": [], "url": "https://example.com//x"}, // and a note
        // nothing follows
    },
    "tabs": 4,
}
// end
"""
ZED_WITH_ENTRY = ZED.replace(
    "// nothing follows\n",
    f"""// nothing follows
        "quilt": {{
            "command": {json.dumps(executable())},
            "args": [
                "serve"
            ]
        }}
""",
)
TEXTS: dict[str, tuple[ClientName, str, str]] = {
    "comments and commas": ("zed", ZED, ZED_WITH_ENTRY),
    "one line": (
        "cursor",
        '{"mcpServers":{"other":{}},"a":1}',
        f'{{"mcpServers":{{"other":{{}}, "quilt": {json.dumps(ENTRY)}}},"a":1}}',
    ),
    "one line with a last comma": (
        "zed",
        '{"context_servers":{"other":{},}}',
        f'{{"context_servers":{{"other":{{}}, "quilt": {json.dumps(ENTRY)}}}}}',
    ),
    "tabs and Windows line ends": (
        "gemini-cli",
        '{\r\n\t"a": 1 // x\r\n}\r\n',
        (
            '{\r\n\t"a": 1, // x\r\n\t"mcpServers": {\r\n\t\t"quilt": {\r\n\t\t\t"command": '
            f'{json.dumps(executable())},\r\n\t\t\t"args": [\r\n\t\t\t\t"serve"\r\n\t\t\t]\r\n\t\t}}\r\n\t}}\r\n}}\r\n'
        ),
    ),
}


def locate(client: ClientName) -> Path:
    path = CLIENTS[client].find_files()[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run(client: str, *options: str) -> None:
    assert main(["install", client, *options]) == 0


@pytest.mark.parametrize(("client", "before", "after"), TEXTS.values(), ids=TEXTS)
def test_the_entry_follows_the_style_of_the_file(client: ClientName, before: str, after: str, home: Path) -> None:
    path = locate(client)
    path.write_bytes(before.encode())
    run(client, "--write")
    assert path.read_bytes().decode() == after
    run(client, "--remove")
    assert path.read_bytes().decode() == before


def test_comments_inside_the_entry_are_kept(home: Path) -> None:
    path = locate("vscode")
    text = """{
  "servers": {
    "quilt": { // ours
      "type": "stdio",
      "command": "/old/quilt-mcp", // the old one
      "args": ["serve", "--demo"],
      "env": {
        "A": "1" // one
      }
    }
  }
}
"""
    path.write_text(text)
    run("vscode", "--write", "--env", "B=2")
    assert path.read_text() == (
        text.replace('"/old/quilt-mcp"', json.dumps(executable()))
        .replace('["serve", "--demo"]', '[\n        "serve"\n      ]')
        .replace('"A": "1" // one', '"A": "1", // one\n        "B": "2"')
    )


def test_a_byte_order_mark_is_kept(home: Path) -> None:
    path = locate("vscode")
    original = '\ufeff{"servers": {}}'.encode()
    path.write_bytes(original)
    run("vscode", "--write")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf{")
    run("vscode", "--remove")
    assert path.read_bytes() == original
    run("vscode", "--write")
    for copy in path.parent.glob("*.bak*"):
        copy.unlink()
    run("vscode", "--remove")  # without a copy to compare with
    assert path.read_bytes() == original
    run("vscode", "--write")
    path.write_bytes(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    run("vscode", "--remove")
    assert path.read_bytes().startswith(b"{")


@pytest.mark.parametrize("original", [b"", b"\n", b"\xef\xbb\xbf\r\n", b"{}", b"{ }\n", b'{"mcpServers": {}}'])
def test_removing_restores_a_file_without_servers(original: bytes, home: Path) -> None:
    path = locate("cursor")
    path.write_bytes(original)
    run("cursor", "--write")
    run("cursor", "--remove")
    assert path.read_bytes() == original


def test_lines_of_a_comment_stay_lines(home: Path) -> None:
    """Without its line, a removed entry would let a comment hide the bracket that follows."""
    path = locate("zed")
    path.write_text('{"context_servers": {"a": {}, // x\n"quilt": {"command": "quilt-mcp", "args": ["serve"]}}}')
    run("zed", "--remove")
    assert pyjson5.loads(path.read_text()) == {"context_servers": {"a": {}}}


WORDS = st.text(st.sampled_from('ab"\\/{}[],: é😀'), max_size=4)
SCALARS = st.one_of(WORDS, st.integers(-9, 9), st.booleans(), st.none(), st.sampled_from([1.5, -2e10]))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2))
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=2)
GAPS = ["", "", " ", "\t", "\n", "\r\n  ", "/* , } */", "/**/", '// { "\n', " //\r\n"]
"""What can be between two tokens."""


def write_json(value: object, random: Random) -> str:
    def gap() -> str:
        return "".join(random.choices(GAPS, k=2))

    if isinstance(value, dict):
        items = [f"{json.dumps(name)}{gap()}:{gap()}{write_json(one, random)}" for name, one in value.items()]
    elif isinstance(value, list):
        items = [write_json(one, random) for one in value]
    else:
        return json.dumps(value, ensure_ascii=random.choice([True, False]))
    comma = random.choice(["", ","]) if items else ""
    content = ",".join(f"{gap()}{item}{gap()}" for item in items) + comma + gap()
    return f"{{{content}}}" if isinstance(value, dict) else f"[{content}]"


def is_ordered_part(short: str, long: str) -> bool:
    rest = iter(long)
    return all(one in rest for one in short)


FILES = given(seed=st.integers(0, 10**9), rest=OBJECTS, others=st.none() | OBJECTS)
IN_ONE_HOME = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@FILES
@settings(IN_ONE_HOME, max_examples=10)
@pytest.mark.usefixtures("home")
def test_any_file_keeps_everything_but_the_entry(
    seed: int, rest: dict[str, Any], others: dict[str, Any] | None
) -> None:
    check_kept(seed, rest, others)


@pytest.mark.soak
@FILES
@settings(IN_ONE_HOME, max_examples=200)
@pytest.mark.usefixtures("home")
def test_more_files_keep_everything_but_the_entry(
    seed: int, rest: dict[str, Any], others: dict[str, Any] | None
) -> None:
    check_kept(seed, rest, others)


def check_kept(seed: int, rest: dict[str, Any], others: dict[str, Any] | None) -> None:
    before = rest | ({} if others is None else {"context_servers": others})
    random = Random(seed)  # noqa: S311 - no cryptography
    text = "".join(random.choices(GAPS, k=2)) + write_json(before, random) + "".join(random.choices(GAPS, k=2))
    path = locate("zed")
    for old in path.parent.iterdir():
        old.unlink()
    path.write_bytes(text.encode())

    run("zed", "--write")
    written = path.read_bytes().decode()
    assert pyjson5.loads(written) == before | {"context_servers": (others or {}) | {"quilt": ENTRY}}
    assert is_ordered_part(text, written)  # nothing is removed or moved

    run("zed", "--write", "--demo", "--env", "A=1")
    changed = path.read_bytes().decode()
    demo = ENTRY | {"args": ["serve", "--demo", "admin"], "env": {"A": "1"}}
    assert pyjson5.loads(changed) == before | {"context_servers": (others or {}) | {"quilt": demo}}

    run("zed", "--remove")
    assert path.read_bytes().decode() == text

    for copy in path.parent.glob("*.bak*"):
        copy.unlink()
    path.write_bytes(changed.encode())
    run("zed", "--remove")  # without a copy to compare with
    if path.exists():
        removed = path.read_bytes().decode()
        assert pyjson5.loads(removed) == before | {"context_servers": others or {}}
        assert is_ordered_part(removed, changed)
    else:
        assert before == {}
