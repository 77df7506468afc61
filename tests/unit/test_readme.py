"""The README: its tables are generated from the code, its Python runs, its JSON is what the server answers.

`python -m tests.unit.test_readme` writes the tables anew.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp import errors
from quilt_mcp.commands.install import executable
from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.settings import Settings
from tests.contract.test_parity import ERRORS, REASONS
from tests.worlds import in_world

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
MADE_DEFAULTS = {
    "data_dir": "the user data directory",
    "analysis_concurrency": "the number of cores, at most 64",
}


def resource_rows() -> Iterable[str]:
    for uri, definition in sorted(RESOURCE_REGISTRY.items()):
        yield f"| `{uri}` | {definition['description']} | {'yes' if definition['requires_admin'] else ''} |"


def setting_rows() -> Iterable[str]:
    for name, field in Settings.model_fields.items():
        default = MADE_DEFAULTS[name] if field.default_factory else f"`{field.default}`"
        yield f"| `QUILT_MCP_{name.upper()}` | {default} | {field.description} |"


def error_rows() -> Iterable[str]:
    """A row for each class of the error tree that is raised."""
    for cls in failures():
        reason = f" ({cls.reason})" if issubclass(cls, errors.Unauthorized) else ""
        meaning = (inspect.getdoc(cls) or "").split(". ")[0].split(".\n")[0].rstrip(".")
        yield f"| `{cls.error}`{reason} | {meaning} | {cls.default_actions[0]} | {cls.code} |"


def failures() -> list[type[errors.ResourceFailure]]:
    """The classes of errors.py that are raised, in the order in which they stand there."""
    return [
        cls
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, errors.ResourceFailure) and hasattr(cls, "default_actions")
    ]


TABLES = {"errors": error_rows, "resources": resource_rows, "settings": setting_rows}


def with_tables(text: str) -> str:
    for name, rows in TABLES.items():
        table = "\n".join(rows())
        text = re.sub(
            rf"<!-- {name} -->.*?<!-- /{name} -->", f"<!-- {name} -->\n{table}\n<!-- /{name} -->", text, flags=re.DOTALL
        )
    return text


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_tables_are_what_the_code_says() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == with_tables(text), "run `python -m tests.unit.test_readme`"


def test_the_errors_table_has_the_six_names_and_every_reason() -> None:
    rows = list(error_rows())
    assert len(rows) == len(failures())
    assert {row.split("`")[1] for row in rows} == ERRORS
    assert [reason for reason in REASONS if not any(f"({reason})" in row for row in rows)] == []


@in_world("admin")
@pytest.mark.parametrize("number", range(len(blocks("python"))))
async def test_the_python_runs_as_it_stands(number: int, world: World) -> None:
    names = await run(blocks("python")[number].replace(".venv/bin/quilt-mcp", executable()))
    if "contents" in names:
        assert "--demo" in names["demo"]["mcpServers"]["quilt"]["args"]  # this test's world is not what it asks
        shown = json.loads(blocks("json")[0])
        assert json.loads(names["contents"].text) == shown
        assert names["answer"].structured_content["data"] == shown


async def run(source: str) -> dict[str, Any]:
    """Run source that awaits at its top level, and answer the names that it sets."""
    names: dict[str, Any] = {}
    code = compile(source, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)  # noqa: S307 - the README's own code
    return names


def test_the_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make (\w[\w-]*)", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
