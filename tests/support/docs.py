"""Writes the parts of README, docs and the docstring of `get_resource` that follow from the code.

`python -m tests.support.docs` writes them. `tests/project/test_docs.py` fails if one of them is out of date.
"""

import base64
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

from quilt_mcp.commands.client_config import COMMAND as SERVER
from quilt_mcp.commands.client_config import SERVER_NAME
from quilt_mcp.core.errors import SESSIONLESS_CODES, ResourceFailure, Unauthorized
from quilt_mcp.core.registry import ResourceDefinition, path_of, path_variables
from quilt_mcp.requirements.model import PARENTS, RECORDS, RecordType
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.contract.cases import HOME, read_rows
from tests.support.answer_pages import FOLDER, AnswerPages
from tests.support.answer_types import find_answer_type, find_classes
from tests.support.demo_picture import output_of, picture
from tests.support.questions import write_tables
from tests.support.settings_tables import settings_tables

ROOT = Path(__file__).parents[2]
COMMAND = "python -m tests.support.docs"
DOCSTRING = ROOT / "src" / "quilt_mcp" / "tools" / "resource_access.py"
PICTURE = ROOT / "docs" / "demo.svg"
REFUSED = ("admin://users", "--demo=member")  # the read of the example of an error
WIDTH = 116  # of the lines of a list in a docstring

SCHEMES = {
    "auth": "Login, catalog, and the local directories that Quilt writes to.",
    "athena": "Athena databases, tables, workgroups and query history, and which workgroup to use.",
    "admin": "Users, roles and configuration of the stack.",
    "metadata": "Templates, examples and help for package metadata.",
    "permissions": "Your access to each bucket, with evidence, and which buckets to create packages in.",
    "tabulator": "Buckets with tabulator tables, and the tables with their columns.",
    "quilt": "Buckets of the stack, their packages, and search.",
    "workflow": "Workflows written by the workflow tools.",
    "requirements": "Epics, user stories, requirements and acceptance criteria, with search.",
    "config": "Rules for analysed code, and settings of this server.",
    "info": "Everything that this server offers.",
}
"""What each scheme contains. For a scheme that is not here, the names of its resources."""


def documents() -> list[Path]:
    """Return README, CONTRIBUTING, CHANGELOG, the pages of docs, and the READMEs of mcp-parity and the examples."""
    folders = [ROOT / name / "README.md" for name in ("mcp-parity", "examples")]
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *folders]


def find_outdated(sections: Mapping[str, Callable[[], str]]) -> Iterator[tuple[Path, str]]:
    """Yield each document in which one of these sections is out of date, with the text that it must have."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = with_sections(text, sections)
        if new != text:
            yield path, new


def write_answer_pages() -> dict[Path, str]:
    """Return the text of each page in docs/answers."""
    return {path: text for scheme, rows in _by_scheme() for path, text in AnswerPages(scheme, rows).write().items()}


def with_sections(text: str, sections: Mapping[str, Callable[[], str]]) -> str:
    """Return a document with these sections up to date."""
    for name, generate in sections.items():
        start, end = f"<!-- generated: {name} -->\n", "<!-- /generated -->"
        if start in text:
            before, _, rest = text.partition(start)
            text = f"{before}{start}{generate()}\n{end}{rest.partition(end)[2]}"
    return text


def with_resource_list(source: str) -> str:
    """Return the module of `get_resource` with the list of resources in its docstring up to date."""
    pattern = re.compile(r"(?<=\n    The resources, by scheme:\n\n).*?(?=\n    Args:\n)", re.DOTALL)
    new, count = pattern.subn(lambda _: _resource_list(), source)
    if count != 1:
        raise ValueError(f"{DOCSTRING.name} has no list of resources")
    return new


def _by_scheme() -> Iterator[tuple[str, list[ResourceDefinition]]]:
    """The resources of each scheme, in the order of the registry."""
    for scheme in dict.fromkeys(row["category"] for row in RESOURCE_REGISTRY.values()):
        yield scheme, [row for row in RESOURCE_REGISTRY.values() if row["category"] == scheme]


def _summary(scheme: str, rows: Iterable[ResourceDefinition]) -> str:
    return SCHEMES.get(scheme, f"{', '.join(row['name'] for row in rows)}.")


def _resource_list() -> str:
    lines: list[str] = []
    for scheme, rows in _by_scheme():
        lines.append(f"    - {scheme}: {_summary(scheme, rows)}")
        uris = ", ".join(f"``{row['uri']}``{' (admin)' if row['requires_admin'] else ''}" for row in rows)
        indent = " " * 6
        lines += textwrap.wrap(
            uris, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return "\n".join([*lines, ""])


def _schemes() -> str:
    return _table(
        ("scheme", "contains", "resources"),
        (
            (f"[`{scheme}://`](docs/resources.md#{scheme})", _summary(scheme, rows), f"{len(rows)}")
            for scheme, rows in _by_scheme()
        ),
    )


def _resources() -> str:
    examples = {row.uri: row for row in read_rows()}
    parts: list[str] = []
    for scheme, rows in _by_scheme():
        parts += [f"## {scheme}", "", _summary(scheme, rows), ""]
        table, pages = [], AnswerPages(scheme, rows)
        for row in rows:
            example = examples.get(row["uri"]) or examples.get(path_of(row["uri"]))
            link = f"[`{example.example_uri}`](../golden/{example.data_golden(HOME)}.json)" if example else ""
            admin = (
                " Administrators only." if row["requires_admin"] and "dministrators" not in row["description"] else ""
            )
            table.append((f"`{row['uri']}`", row["description"] + admin, pages.link_answer(row), link))
        parts += [_table(("URI", "description", "fields", "example"), table), ""]
    return "\n".join(parts).rstrip()


def failure_classes(base: type[ResourceFailure] = ResourceFailure) -> list[type[ResourceFailure]]:
    """Return the classes of failures below a class, in the order of the tree in core/errors.py.

    Only those of modules called `errors` or `failures`, and not those that no client sees. Others are details of their
    modules, which may not be imported yet.
    """
    found = [one for one in base.__subclasses__() if "No client sees" not in (one.__doc__ or "")]
    own = [one for one in found if re.fullmatch(r"quilt_mcp\.(\w+\.)+(errors|failures)", one.__module__)]
    ordered = sorted(own, key=lambda one: (not one.__module__.startswith("quilt_mcp.core."), one.__module__))
    return [found for one in ordered for found in (one, *failure_classes(one))]


def _meaning(cls: type[ResourceFailure]) -> str:
    """The first sentence of the class's docstring."""
    return " ".join(re.split(r"(?<=\.)\s", cls.__doc__ or "", maxsplit=1)[0].split())


def _errors() -> str:
    def name(cls: type[ResourceFailure]) -> str:
        return f"`{cls.error}`" + (f" ({cls.reason})" if issubclass(cls, Unauthorized) else "")

    raised = [cls for cls in failure_classes() if cls is not Unauthorized]  # only its subclasses are raised
    return _table(
        ("`error`", "code", "before 2026-07-28", "meaning", "first suggested action"),
        (
            (
                name(cls),
                f"{SESSIONLESS_CODES.get(cls.code, cls.code)}",
                f"{cls.code}",
                _meaning(cls),
                cls.default_actions[0],
            )
            for cls in raised
        ),
    )


def _records() -> str:
    """Return the fields of each kind of record in a file to import."""
    table = []
    for kind, record in RECORDS.items():
        texts = {"description", PARENTS.get(kind)} - {*record.optional, "project_id"}
        needed = [name for name in record.fields if record.requires(name) or name in texts]
        others = [name for name in record.fields if name not in needed]
        table.append((f"`{kind}`", _fields(needed, record), _fields(others, record)))
    return _table(("`kind`", "needs", "can also have"), table)


def _fields(names: Iterable[str], record: RecordType) -> str:
    values = {name: f" ({', '.join(choices)})" for name, choices in record.choices.items()}
    return ", ".join(f"`{name}`{values.get(name, '')}" for name in names)


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _error_example() -> str:
    return f"```json\n{output_of('get', *REFUSED, '--json').rstrip()}\n```"


def _show(path: str) -> str:
    return f"```python\n{(ROOT / path).read_text(encoding='utf-8').rstrip()}\n```"


def _client_links() -> str:
    """Return the links that add the installed server to Cursor and to VS Code with one click."""
    entry = {"command": SERVER, "args": ["serve"]}
    cursor = _encode(base64.b64encode(_write_json(entry).encode()).decode())
    vs_code = _encode(_write_json({"type": "stdio", **entry}))
    return (
        f"[Add to Cursor](https://cursor.com/install-mcp?{cursor})"
        f" · [Add to VS Code](https://vscode.dev/redirect/mcp/install?{vs_code})"
    )


def _encode(entry: str) -> str:
    return urlencode({"name": SERVER_NAME, "config": entry}, quote_via=quote, safe="")


def _write_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


SHOWN = (
    "examples/read_both_ways.py",
    "examples/own_resource.py",
    "examples/own_domain/stations_domain.py",
)
SECTIONS: Mapping[str, Callable[[], str]] = {
    **{path: partial(_show, path) for path in SHOWN},
    "client-links": _client_links,
    "schemes": _schemes,
    "questions": write_tables,
    "resources": _resources,
    "settings": settings_tables,
    "errors": _errors,
    "records": _records,
}
"""What generates each section."""

LIVE_SECTIONS: Mapping[str, Callable[[], str]] = {"error-example": _error_example}
"""The sections that need a demo world."""


def find_incomplete(rows: Iterable[ResourceDefinition], examples: Mapping[str, str]) -> Iterator[str]:
    """Yield one line for each row that lacks something for the contract and the documents: which row lacks what.

    Args:
        rows: the rows.
        examples: the URIs of the contract's examples, by the URI of the row.
    """
    for row in rows:
        if not list(find_classes(find_answer_type(row))):
            yield f"{row['uri']} has no fields to document: its function must return a TypedDict or a model."
        names = path_variables(row["uri"])
        if missing := [name for name in names if name not in row.get("values", {})]:
            yield f"{row['uri']} has no example: `values` of its row must list values of {', '.join(missing)}."
        elif not examples.get(row["uri"]):
            yield f"{row['uri']} has no example: its `values` list nothing in the world {HOME}."


def write() -> None:
    """Write everything that is generated.

    Raises:
        SystemExit: a row is incomplete.
    """
    if incomplete := list(
        find_incomplete(RESOURCE_REGISTRY.values(), {row.uri: row.example_uri for row in read_rows()})
    ):
        raise SystemExit("\n".join(incomplete))
    pages = write_answer_pages()
    FOLDER.mkdir(exist_ok=True)
    for path in set(FOLDER.glob("*.md")) - pages.keys():
        path.unlink()
    for path, text in [*pages.items(), *find_outdated({**SECTIONS, **LIVE_SECTIONS})]:
        path.write_text(text, encoding="utf-8")
    DOCSTRING.write_text(with_resource_list(DOCSTRING.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    write()
