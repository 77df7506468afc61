"""Reads the contract of a git revision: where its own configuration of pytest says."""

import io
import json
import posixpath
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from configparser import ConfigParser, Error
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mcp_parity.settings import Names, parse_rows

# The files that can configure pytest, in the order in which it looks for them in each directory.
NAMES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
IF_SHALLOW = "If the clone is shallow, run git fetch --unshallow, or set fetch-depth: 0 in the workflow"
_TABLES = {"pyproject.toml": ("tool", "pytest"), "setup.cfg": ("tool:pytest",)}


class Unreadable(Exception):
    """A revision, or a file in it, cannot be read; the message is one line."""


LISTINGS = {"resources": ("resources/list", "uri"), "resource-templates": ("resources/templates/list", "uriTemplate")}
# The forms of goldens: a type, one of several, a list of one form, or an object; `*` stands for all of its fields.
_NULL = type(None)  # also of what is missing
ANSWER = (list, {"contents": ([(dict, str)], str, _NULL), "resource": (dict, _NULL), "tool": (dict, _NULL)})
FORMS: dict[str, Any] = {f"discovery/{name}.json": [{key: str}] for name, (_, key) in LISTINGS.items()} | {
    "discovery/tools.json": [{"name": str, "description": (str, _NULL)}],
    "discovery/prompts.json": [{"name": str, "arguments": ([{"name": str}], _NULL)}],
    "discovery/get-resource.json": {"data": ({"*": [{"uri": str}]}, _NULL)},
}


def _fits(value: Any, form: Any) -> bool:
    if isinstance(form, tuple):
        return any(_fits(value, one) for one in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_fits(one, form[0]) for one in value)
    if isinstance(form, dict):
        fields = dict.fromkeys(value, form["*"]) if isinstance(value, dict) and "*" in form else form
        return isinstance(value, dict) and all(_fits(value.get(name), inner) for name, inner in fields.items())
    return isinstance(value, form)


@dataclass(frozen=True)
class Places:
    """Where a repository has its contract, as paths from its root."""

    golden: str = "golden"
    rows: str = "golden/mcp-list.csv"
    changelog: str = "CHANGELOG.md"


def find_places(candidates: dict[str, str], given: Places, revision: str) -> Places:
    """Return the given places, or else those that the first of the files says. They can configure pytest."""
    found = ((posixpath.dirname(path), _read_options(path, text, revision)) for path, text in candidates.items())
    default: tuple[str, Any] = ("", {})
    folder, options = next((one for one in found if one[1] is not None), default)
    golden = given.golden or posixpath.join(folder, str(options.get("mcp_golden", "golden")))
    inventory = str(options.get("mcp_inventory", ""))
    rows = given.rows or posixpath.join(*((folder, inventory) if inventory else (golden, "mcp-list.csv")))
    return Places(posixpath.normpath(golden), posixpath.normpath(rows), given.changelog)


def _read_options(path: str, text: str, revision: str) -> Any:
    """Return the options of pytest that a file has, or None if pytest goes on to the next file."""
    name = posixpath.basename(path)
    options: Any = ConfigParser(interpolation=None)
    try:
        if name.endswith(".toml"):
            options = tomllib.loads(text)
        else:
            options.read_string(text.removeprefix("\ufeff"))
    except (ValueError, Error) as error:
        raise Unreadable(f"{path} at {revision} cannot be read: {' '.join(str(error).split())}") from error
    for table in (*_TABLES.get(name, ("pytest",)), "ini_options"):
        if table in options:
            options = options[table]
            if not isinstance(options, Mapping):
                raise Unreadable(f"{path} at {revision} cannot be read: {table} is not a table")
        elif table != "ini_options":
            return {} if "pytest." in name else None  # a file of pytest alone configures it even without a table
    return options


@dataclass(frozen=True)
class Revision:
    """The files of a revision that describe what clients see: their texts by path."""

    name: str
    files: dict[str, str]
    places: Places
    commit: str = ""

    @property
    def label(self) -> str:
        """The name and the start of the commit's hash."""
        return f"{self.name} ({self.commit[:7]})" if self.commit and self.commit != self.name else self.name

    @property
    def goldens(self) -> list[str]:
        folder = "" if self.places.golden == "." else f"{self.places.golden}/"
        return sorted(path for path in self.files if path.startswith(folder) and path.endswith(".json"))

    def find_lacking(self, *, goldens: bool = False) -> str:
        """Return a sentence about an inventory that does not exist, or goldens if some are needed; else nothing."""
        outcome = f"at {self.name}: nothing was compared"
        if self.places.rows not in self.files:
            return f"there is no inventory {outcome} (looked for {self.places.rows})"
        if goldens and not self.goldens:
            return f"there are no goldens {outcome} (looked in {self.places.golden})"
        return ""

    def json(self, path: str) -> Any:
        try:
            found = json.loads(self.files[path])
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"{path} at {self.name} is not valid JSON: {error}") from error
        if not _fits(found, FORMS.get(posixpath.relpath(path, self.places.golden), ANSWER)):
            raise Unreadable(f"{path} at {self.name} is not of a form that pytest writes: run pytest --snapshot-update")
        return found

    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the inventory, or none if there is no such file."""
        path = self.places.rows
        rows, lacks = parse_rows(self.files.get(path, ""))
        if lacks and path in self.files:
            raise Unreadable(f"{path} at {self.name} is empty, or has a row without type, uri or example_uri")
        return rows


def find_merge_base(base: str, head: str) -> tuple[str, str]:
    """Return a name for the commit from which the head's branch started, and its hash."""
    commits = [_find_commit(name, about=name) for name in (base, head)]
    lacking = f"there is no merge base. {IF_SHALLOW}. Else add --exact to compare with {base} itself"
    found = _git("merge-base", *commits, about=f"{base}...{head}", lacking=lacking).decode().strip()
    return (base if found == commits[0] else f"the merge base of {base} and {head}"), found


def read_revision(name: str, given: Places, commit: str = "") -> Revision:
    """Read a revision, or the `commit` if its name is only for messages. It names the places that are not given."""
    tree = _find_commit(commit or name, about=name)
    here = PurePosixPath(_git("rev-parse", "--show-prefix", about=name).decode(errors="replace").rstrip("\n"))
    paths = [str(folder / one) for folder in (here, *here.parents) for one in NAMES]
    found = {} if given.golden and given.rows else _read_files(tree, paths, name)
    places = find_places({path: found[path] for path in paths if path in found}, given, name)
    return Revision(name, _read_files(tree, [places.golden, places.rows, places.changelog], name), places, tree)


@contextmanager
def check_out(revision: Revision, build: str) -> Iterator[Path]:
    """Check out a revision in a temporary folder, build it there, and yield this directory in it."""
    with tempfile.TemporaryDirectory(prefix="mcp-parity-") as folder:
        tree, about = str(Path(folder, "tree")), revision.name
        prefix = _git("rev-parse", "--show-prefix", about=about).decode(errors="replace").rstrip("\n")
        _git("worktree", "add", "--quiet", "--detach", tree, revision.commit, about=about)
        try:
            here = Path(tree, prefix)
            built = subprocess.run(build, shell=True, cwd=here, capture_output=True, check=False)  # noqa: S602 - the user's command
            if built.returncode:
                said = (b"it says nothing\n" + built.stdout + built.stderr).decode(errors="replace").strip()
                raise Unreadable(f"--build fails at {about} with status {built.returncode}: {said.splitlines()[-1]}")
            yield here
        finally:
            _git("worktree", "remove", "--force", tree, about=about)


def _find_commit(revision: str, *, about: str) -> str:
    options = "--verify", "-q", "--end-of-options"
    return _git("rev-parse", *options, f"{revision}^{{commit}}", about=about).decode().strip()


def _read_files(tree: str, paths: list[str], about: str) -> dict[str, str]:
    """Return the texts of the files at the paths, and below them, by path. A failure names what they are `about`."""
    listed = _git("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths, about=about)
    entries = [entry.partition("\t") for entry in listed.decode(errors="replace").split("\0") if entry]
    blobs = {path: meta.split()[2] for meta, _, path in entries if " blob " in meta}  # not the commits of submodules
    output = io.BytesIO(_git("cat-file", "--batch", about=about, stdin="\n".join([*blobs.values(), ""]).encode()))
    files = {}
    for path in blobs:
        size = int(output.readline().split()[2])
        files[path] = output.read(size).decode(errors="replace")
        output.readline()
    return files


def _git(*arguments: str, about: str, stdin: bytes = b"", lacking: str = f"no such commit. {IF_SHALLOW}") -> bytes:
    """Return what git prints. `lacking` is the reason for a failure for which git gives none."""
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, check=True)  # noqa: S603 - git, and no shell
    except FileNotFoundError as error:
        raise Unreadable("git is not installed") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().partition("\n")[0] or lacking
        raise Unreadable(f"git cannot read {about!r}: {reason}") from error
    return done.stdout


HOME = "home"  # its goldens have no suffix; other worlds use them where they have none of their own


@dataclass(frozen=True)
class Contract:
    """The rows of the inventory and the goldens of one revision, by URI, and by URI and world.

    `prompts` have their arguments as a schema, and are None if the revision does not pin them. `others` are the goldens
    that belong to no resource, such as those of malformed URIs.
    """

    resources: dict[str, dict[str, str]]
    tools: dict[str, Any]
    prompts: dict[str, Any] | None
    listings: dict[str, dict[str, Any]]
    answers: dict[tuple[str, str], Any]
    others: dict[str, Any]

    @property
    def worlds(self) -> set[str]:
        return {world for _, world in self.answers}

    def answer(self, uri: str, world: str) -> Any:
        """Return the golden that applies in a world, or None."""
        return self.answers.get((uri, world), self.answers.get((uri, HOME)))


def read_contract(revision: Revision) -> Contract:
    folder = revision.places.golden
    goldens = {posixpath.relpath(path, folder)[: -len(".json")]: revision.json(path) for path in revision.goldens}
    listed = {name: goldens.pop(f"discovery/{name}", []) for name in ("tools", *LISTINGS)}
    prompts = goldens.pop("discovery/prompts", None)
    discovery = goldens.get("discovery/get-resource", {})  # without `data`, it is compared like the other goldens
    by_category = discovery.pop("data", None) or {}
    resources = {row["uri"]: row for row in revision.rows() if row["type"] != "tool"}
    names = Names.of(resources.values())
    homes = {row["example_uri"]: uri for uri, row in resources.items() if row["example_uri"]}
    paths = {names.data(example, "").removeprefix("data/"): uri for example, uri in homes.items()}
    cases = {name: _case(name, paths) for name in goldens}
    return Contract(
        resources=resources,
        tools={tool["name"]: tool for tool in listed["tools"]},
        prompts=None if prompts is None else {prompt["name"]: _to_schema(prompt) for prompt in prompts},
        listings={label: {entry[key]: entry for entry in listed[name]} for name, (label, key) in LISTINGS.items()}
        | {"get_resource()": {entry["uri"]: entry for entries in by_category.values() for entry in entries}},
        # errors/ is sorted after data/: a refusal replaces data that should have been deleted
        answers={case: goldens[name] for name, case in cases.items() if case},
        others={name: goldens[name] for name, case in cases.items() if not case},
    )


def _to_schema(prompt: dict[str, Any]) -> dict[str, Any]:
    """Return a prompt with the arguments in the form of a tool's, in their order, so that they are compared alike."""
    arguments = {one["name"]: one for one in prompt.get("arguments") or []}
    of_list = {"name", "required"}
    properties = {name: {key: one[key] for key in one if key not in of_list} for name, one in arguments.items()}
    schema = {"properties": properties, "required": [name for name, one in arguments.items() if one.get("required")]}
    return {name: value for name, value in prompt.items() if name != "arguments"} | {"inputSchema": schema}


def _case(name: str, paths: dict[str, str]) -> tuple[str, str] | None:
    """Return the URI and the world of a golden, or None if it belongs to no resource."""
    kind, _, path = name.partition("/")
    if kind not in {"data", "errors"}:
        return None
    if path in paths:
        return paths[path], HOME
    path, _, world = path.rpartition("--")
    return (paths[path], world) if path in paths else None
