"""The documents: generated parts are up to date, examples run, and everything that they name exists."""

import ast
import io
import json
import re
import shlex
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest

from quilt_mcp.app.secret_files import can_be_in_file
from quilt_mcp.commands.cli import complete_demo, list_commands
from quilt_mcp.console.parser import create_app
from quilt_mcp.demo.world import World
from tests.bench import document
from tests.contract.test_parity import ERRORS, REASONS
from tests.support import site
from tests.support.answer_pages import FOLDER, PAGE_LINES
from tests.support.docs import (
    COMMAND,
    DOCSTRING,
    LIVE_SECTIONS,
    ROOT,
    SECTIONS,
    SHOWN,
    documents,
    find_outdated,
    with_resource_list,
    write_answer_pages,
)
from tests.support.pages import anchors, blocks, code_spans, links, prose, shell_lines
from tests.support.settings import Settings
from tests.support.settings_tables import grouped_settings, name_variable
from tests.support.sources import list_modules, read
from tests.support.worlds import in_world

PAGES = documents()
README_LINES = 100  # without the generated parts, so that a new scheme fits
README_LINES_IN_ALL = 120
FOLDERS = r"(?:tests|src|docs|golden|deploy|examples|mcp-parity|\.github|\.ci)"
NAMED_PATH = re.compile(rf"(?<![\w./-]){FOLDERS}/[\w./-]*[\w/]|(?<![\w./*{{<-])(?:[\w-]+/)*\w+\.py\b")
"""A path from the top of the repository, or the end of the path of a Python module."""
PARITY = ROOT / "mcp-parity" / "README.md"
"""Its examples and goldens belong to the reader's own server."""
EXAMPLES = frozenset({"pkg/models.py"})
"""Paths in examples of what a caller sends."""


def by_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def written(page: Path) -> list[str]:
    """Return the blocks of Python in a page that do not show a file of examples/."""
    shown = {(ROOT / path).read_text(encoding="utf-8") for path in SHOWN}
    return [block.text for block in blocks(page) if block.language == "python" and block.text not in shown]


def test_every_generated_part_is_up_to_date() -> None:
    source = DOCSTRING.read_text(encoding="utf-8")
    assert [path.name for path, _ in find_outdated(SECTIONS)] == [], f"run `make mcp-list` or `{COMMAND}`"
    assert with_resource_list(source) == source, f"run `make mcp-list` or `{COMMAND}`"
    written = {page: page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")}
    assert written == write_answer_pages(), f"run `make mcp-list` or `{COMMAND}`"


def test_every_section_that_is_marked_is_generated() -> None:
    marked = [
        name for page in PAGES for name in re.findall(r"<!-- generated: (\S+) -->", page.read_text(encoding="utf-8"))
    ]
    assert sorted(marked) == sorted({**SECTIONS, **LIVE_SECTIONS, document.SECTION: None})


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    written = re.sub(r"<!-- generated: .*?<!-- /generated -->", "", text, flags=re.DOTALL)
    assert len(written.splitlines()) <= README_LINES
    assert len(text.splitlines()) <= README_LINES_IN_ALL


@pytest.mark.parametrize("page", [page for page in PAGES if ROOT / "docs" in page.parents], ids=by_name)
def test_a_page_has_at_most_300_lines(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= PAGE_LINES


def test_every_setting_is_in_one_group() -> None:
    grouped = [name for names in grouped_settings().values() for name in names]
    assert sorted(grouped) == sorted(Settings.model_fields)


def test_the_errors_page_has_every_name_and_every_reason() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in ERRORS if f"| `{name}`" not in page] == []
    assert [reason for reason in REASONS if f"({reason})" not in page] == []
    internal = ("HEAD request", "conditional request")  # only probes see these
    assert [words for words in internal if words in page] == []


@in_world("admin")
@pytest.mark.parametrize("page", [page for page in PAGES if page != PARITY and written(page)], ids=by_name)
async def test_python_that_is_written_in_a_page_runs(page: Path, world: World) -> None:
    for text in written(page):
        await run(text)


def test_the_python_examples_of_mcp_parity_are_valid() -> None:
    examples = [block.text for block in blocks(PARITY) if block.language == "python"]
    assert examples
    for text in examples:
        ast.parse(text)


async def run(source: str) -> None:
    """Run source that can await at its top level."""
    code = compile(source, "<example>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if (awaited := eval(code, {})) is not None:  # noqa: S307 - the document's own code
        await awaited


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_json_examples_are_json_and_configurations_start_the_server(page: Path) -> None:
    for block in blocks(page):
        if block.language in {"json", "jsonl"}:
            for text in block.text.splitlines() if block.language == "jsonl" else [block.text]:
                value = json.loads(text)
                for server in (value.get("mcpServers") or value.get("servers") or {}).values():
                    assert Path(server["command"]).name == "quilt-mcp"
                    parse(server["args"])


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_shell_command_exists_with_its_options(page: Path) -> None:
    for line in shell_lines(page):
        check_command(shlex.split(line))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_command_in_a_sentence_exists_with_its_options(page: Path) -> None:
    for span in code_spans(page):
        if span.startswith("quilt-mcp "):
            check_options(shlex.split(span)[1:])
        elif span.startswith("make "):
            check_command(shlex.split(span))
        elif span.startswith("--") and page.name == "deploy.md":
            assert span.split()[0] in options_of("serve"), span


def check_command(words: list[str]) -> None:
    """Check a command line of a document as far as is possible without running it."""
    match words:
        case ["quilt-mcp", *rest]:
            parse(rest)
        case ["make", *rest]:
            targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
            assert {word for word in rest if "=" not in word} <= targets, words
            check_extras(" ".join(word.removeprefix("EXTRAS=") for word in rest if word.startswith("EXTRAS=")).split())
        case ["pipx", "install", source] | ["uv", "tool", "install", source]:
            assert source.startswith("."), words
            check_extras(re.findall(r"(?<=[\[,])\w+", source))
        case [".venv/bin/python", "-m", "pip", "install", source]:
            assert (ROOT / source / "pyproject.toml").is_file(), words
        case ["export", *assignments]:
            assert {word.partition("=")[0] for word in assignments} <= variables(), words
        case ["strictdoc", "export", "--formats=reqif-sdoc", "--output-dir=output", _]:
            pass  # tests/requirements/test_reqif_mapping.py runs it
        case ["doorstop", "export", "REQ", "requirements.csv", "--csv"]:
            pass  # tests/requirements/test_issues.py runs it
        case ["git", "clone", "https://git.example.com/quilt-mcp.git"]:
            pass
        case _:
            pytest.fail(f"nothing checks {shlex.join(words)}")


def check_extras(names: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(names) <= project["optional-dependencies"].keys()


def parse(words: list[str]) -> None:
    """Parse a command line of quilt-mcp; an unknown command or option raises CycloptsError."""
    create_app(list_commands()).parse_args(list(complete_demo(words)))


def check_options(words: list[str]) -> None:
    """Check that a command of quilt-mcp exists and has these options."""
    command = words[0]
    assert command in list_commands() or command.startswith("--"), words
    given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    assert given <= options_of(command), words


def options_of(command: str) -> set[str]:
    if command == "requirements" or command.startswith("--"):
        return set()
    return {
        name
        for argument in create_app(list_commands())[command].assemble_argument_collection()
        for name in argument.names
    }


def variables() -> set[str]:
    in_files = {f"{name_variable(name)}_FILE" for name, field in Settings.model_fields.items() if can_be_in_file(field)}
    example = run_path(str(ROOT / "examples" / "own_domain" / "stations_domain.py"))["StationsSettings"]
    of_example = {f"QUILT_MCP_{name.upper()}" for name in example.model_fields}
    return in_files | of_example | {name_variable(name) for name in Settings.model_fields}


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"\bQUILT_[A-Z][A-Z_]*", page.read_text(encoding="utf-8")))
    assert named - variables() == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, following = set[Path](), [ROOT / "README.md"]
    while following:
        page = following.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            targets = [link.partition("#")[0] for link in links(page) if not link.startswith("https://")]
            following += [(page.parent / target).resolve() for target in targets if target]
    assert set(PAGES) - reached == set()


def test_every_path_that_a_document_a_comment_or_a_docstring_names_exists() -> None:
    sources = [path for folder in ("src", "tests", "examples", ".github") for path in list_modules(ROOT / folder)]
    texts = [(page, prose(page)) for page in PAGES] + [(path, text) for path in sources for text in notes(path)]
    modules = [path.relative_to(ROOT).as_posix() for path in [*sources, *(ROOT / "mcp-parity").rglob("*.py")]]
    ends = {f"/{module}"[at:] for module in modules for at, one in enumerate(f"/{module}") if one == "/"}
    missing = {
        f"{path.relative_to(ROOT)}: {named}"
        for path, text in texts
        for named in NAMED_PATH.findall(text)
        if not (path == PARITY and named.startswith("golden/"))
        if named not in EXAMPLES and not (ROOT / named).exists() and f"/{named}" not in ends
    }
    assert missing == set()


def notes(path: Path) -> Iterator[str]:
    """Yield the comments and the docstrings of a Python file, if it can name paths."""
    source = read(path)
    if not NAMED_PATH.search(source):
        return  # most files: it takes long to find their comments
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def test_the_site_has_every_document_in_its_navigation_and_every_file_that_one_links_to(tmp_path: Path) -> None:
    settings = tomllib.loads(site.write(tmp_path).read_text(encoding="utf-8"))["project"]
    pages = [entry for section in settings["nav"] for value in section.values() for entry in flatten(value)]
    assert set(pages) == {by_name(page) for page in PAGES}
    for page in PAGES:
        copied = tmp_path / "pages" / by_name(page)
        assert [
            one for one in links(page) if ":" not in one and not (copied.parent / one.partition("#")[0]).exists()
        ] == []


def flatten(value: str | list[dict[str, str]]) -> list[str]:
    return [value] if isinstance(value, str) else [page for entry in value for page in entry.values()]
