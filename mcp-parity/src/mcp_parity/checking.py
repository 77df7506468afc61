"""The goldens, and the checks of a contract in one world. The tests in `contract` call them."""

import json
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import filter as match
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types
from syrupy.assertion import SnapshotAssertion
from syrupy.data import SnapshotCollection
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

from mcp_parity import listing
from mcp_parity.answers import Answer, check_stable, describe_volatile, get_prompt, observe, read
from mcp_parity.calls import call_tool, parse_calls
from mcp_parity.comparison import use_one_form
from mcp_parity.serving import AnyClient, converse
from mcp_parity.settings import COLUMNS, DIRECTORIES, Call, ContractError, Names, Row, Settings, parse_rows
from mcp_parity.values import MISSING, Difference, are_equal, describe, find_differences, has_mask, mask


class GoldenExtension(JSONSnapshotExtension):
    """Stores `snapshot(name="data/auth/status")` as golden/data/auth/status.json.

    What cannot be seen is written as a JSON escape: a reviewer should see all that clients receive.
    """

    root: Path

    def serialize(self, data: Any, **options: Any) -> str:
        text = str(super().serialize(data, **options))
        return re.sub(r"[^\n -~]", lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text)

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:  # noqa: ARG003 - goldens belong to cases, not to tests
        return str(cls.root)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:  # noqa: ARG003 - the name in syrupy
        return str(index)

    def discover_snapshots(self, **_: Any) -> Any:
        """Find no unused goldens: a test of the contract does this, because other tests may be deselected."""
        return []

    @classmethod
    def write_snapshot_collection(cls, *, snapshot_collection: SnapshotCollection, **_: Any) -> None:
        """Write the whole file or nothing."""
        [snapshot] = snapshot_collection
        write_whole(Path(snapshot_collection.location), str(snapshot.data))


def write_golden(snapshot: SnapshotAssertion, name: str, value: Any) -> None:
    """Let syrupy write a golden. It would warn that the name is not that of the test."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Can not relate snapshot")
        if snapshot(name=name) != value:  # syrupy catches the error of the disk
            raise ContractError(f"{name}.json cannot be written: the disk is full, or a directory has this name")


def serialize(value: Any) -> Any:
    """Return the value as a golden holds it."""
    return json.loads(GoldenExtension().serialize(value))


def write_whole(path: Path, text: str) -> None:
    """Write a text file. If that fails, the old file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_golden(settings: Settings, name: str) -> Any:
    """Return the content of a golden, or None if there is no such file."""
    path = settings.golden / f"{name}.json"
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        advice = "restore it, or run pytest --snapshot-update"
        raise ContractError(f"{settings.show(path)} is not JSON: {error}; {advice}") from error


def find_goldens(settings: Settings) -> set[str]:
    found = (path.relative_to(settings.golden).with_suffix("") for path in settings.golden.rglob("*.json"))
    return {path.as_posix() for path in found if path.parts[0] in DIRECTORIES}


Kind = Callable[[str, str], str]
"""How goldens of a kind are named: by a subject and a world."""
UPDATE = "run pytest --snapshot-update, and read what it writes"
LISTED = {name: listing.LISTS[name].key for name in ("resources", "resource-templates")}


class ContractWarning(UserWarning):
    """Something that clients should not see."""


class NothingToCheck(ContractError):
    """The server lacks what the check is about."""


@dataclass(frozen=True)
class Check:
    """Everything that a check needs.

    `world` is empty for home, the first of `worlds`. `to_golden` returns what a golden holds; None is the default.
    """

    settings: Settings
    server: Any
    world: str
    worlds: list[str]
    rows: list[Row]
    names: Names
    snapshot: SnapshotAssertion
    update: bool
    to_golden: Callable[[Answer], Any] | None
    change_rows: Callable[..., object]

    def check_case(self, row: Row, *, own: bool = False) -> None:
        """Check that both surfaces give the answer of the golden. `own` is a row that the home world does not list."""
        uri = row["example_uri"]
        if not uri:
            line = f'mcp_examples = ["{row["uri"]} = {row["uri"].partition("{")[0]}..."]'
            advice = "Let the server complete the variables, or add a URI that exists:"
            raise ContractError(f"{row['uri']}: no example is known. {advice}\n    {line}")

        async def ask(client: AnyClient) -> Answer:
            found = await (self._call(client, row) if row["type"] == "call" else self._observe(client, uri))
            if self.update and not self._is_pinned(found, row):
                await self._check_stable(client, row, found, about=found.to_golden())
            return found

        answer = converse(self.server, self.settings, ask, uri)
        for leak in answer.find_leaks():
            warnings.warn(leak, ContractWarning, stacklevel=2)
        if row["type"] == "resource" and (own or not self.world):
            self._check_listed(answer)
        kind, other = self._find_kinds(answer, row)
        value = self._serialize(answer, row)
        try:
            self._compare(uri, value, kind, other)
        except ContractError:
            if not self.update:
                golden = read_golden(self.settings, kind(uri, self.world)) or read_golden(self.settings, kind(uri, ""))
                about = [found.other for found in find_differences(golden, value) if found.other is not MISSING]
                again = partial(self._check_stable, row=row, first=answer, about=about)
                converse(self.server, self.settings, again, uri)
            raise

    def _check_listed(self, answer: Answer) -> None:
        """Check that a resource of the inventory is known to resources/read, and else whether it is listed still."""
        if answer.error and answer.error.get("code") == mcp_types.INVALID_PARAMS:
            found = converse(self.server, self.settings, partial(listing.get_list, name="resources"), "resources")
            lists = "server lists it, but resources/read does not know it"
            is_listed = any(one["uri"] == answer.uri for one in found)
            said = lists if is_listed else "inventory has it, but the server neither lists nor knows it"
            raise ContractError(f"{answer.uri}: the {said}: {answer.error.get('message')}")

    async def _call(self, client: AnyClient, row: Row) -> Answer:
        if not any(tool["name"] == row["name"] for tool in await listing.get_list(client, "tools")):
            raise ContractError(f"mcp_calls: {row['name']}: the server has no such tool")
        return await call_tool(client, Call(row["name"], json.loads(row["arguments"])))

    async def _check_stable(self, client: AnyClient, row: Row, first: Answer, about: Any) -> None:
        ask = partial(self._call, client, row) if row["type"] == "call" else partial(read, client, first.uri)
        await check_stable(first, self.settings, ask, about=about)

    async def _observe(self, client: AnyClient, uri: str) -> Answer:
        return await observe(client, uri, self.settings, await self._find_tool(client))

    def _find_kinds(self, answer: Answer, row: Row) -> tuple[Kind, Kind | None]:
        """Return how the golden of the answer is named, and one that it replaces."""
        if row["type"] == "call":
            return self.names.asked, None
        kinds = self.names.data, self.names.error
        return kinds if answer.contents is not None else kinds[::-1]

    def _serialize(self, answer: Answer, row: Row) -> Any:
        """Return what a golden holds of the answer."""
        if self.to_golden and row["type"] != "call":
            return serialize(self.to_golden(answer))
        return serialize(answer.shorten(self.settings.volatile_paths(answer.uri)))

    def _is_pinned(self, answer: Answer, row: Row) -> bool:
        """Return whether a golden has the answer already, so that it was read before."""
        kind, _ = self._find_kinds(answer, row)
        goldens = (read_golden(self.settings, kind(answer.uri, world)) for world in (self.world, ""))
        try:
            return self.to_golden is None and any(are_equal(self._serialize(answer, row), one) for one in goldens)
        except ContractError:  # a golden that is no JSON is written again
            return False

    def check_lists(self) -> None:
        """Check that the lists and prompts equal the goldens, and that the tool lists the same resources."""
        found = converse(self.server, self.settings, self._read_lists, "lists")
        if "get-resource" in found:
            listing.check_discovery(found)
        names = [] if self.update else [self.names.listing("server", world) for world in (self.world, "")]
        pinned = next(filter(None, (read_golden(self.settings, name) for name in names)), {"protocol": ""})
        if "protocol" not in pinned:  # an earlier version did not write it
            found.get("server", {}).pop("protocol", None)
        for name, value in found.items():
            if "/" in name:
                self._compare_if_pinned(name, serialize(value), self.names.asked)
            else:
                self._compare(name, serialize(value), self.names.listing, None)
        known = {row["uri"] for row in self.rows}
        if self.world and any(one[key] not in known for name, key in LISTED.items() for one in found[name]):
            self._check_own_resources()

    async def _read_lists(self, client: AnyClient) -> dict[str, Any]:
        """Return the lists, what the server says at its start, and what its prompts say, by the names of goldens."""
        found: dict[str, Any] = {name: await listing.get_list(client, name) for name in listing.LISTS}
        for name, key in LISTED.items():
            found[name] = [one for one in found[name] if not self.settings.excludes(one[key])]
        if start := await listing.describe_start(client, self.settings.start):
            found["server"] = start
        for prompt in found["prompts"]:
            if not any(one.get("required") for one in prompt.get("arguments") or []):
                found[f"prompts/{prompt['name']}"] = await self._get_prompt(client, prompt["name"])
        schemas = [one["inputSchema"] for one in found["tools"] if one["name"] == listing.OWN_TOOL]
        lists = not any("uri" in (one.get("required") or ()) for one in schemas)
        if lists and await self._find_tool(client) == listing.OWN_TOOL:
            body = (await client.call_tool_mcp(listing.OWN_TOOL, {})).structured_content or {}
            found["get-resource"] = {key: value for key, value in body.items() if key != "timestamp"}
        return found

    async def _get_prompt(self, client: AnyClient, name: str) -> Any:
        """Return what a prompt without required arguments says. It must say it twice before it is pinned."""
        volatile = self.settings.volatile_paths(f"prompts/{name}")
        answers = [mask(await get_prompt(client, name), volatile) for _ in range(2 if self.update else 1)]
        if moved := {found.volatile for found in find_differences(answers[0], answers[-1])}:
            raise ContractError(describe_volatile(f"prompts/{name}", moved, Answer(name, None, None)))
        return answers[0]

    def _check_own_resources(self) -> None:
        """Check the answers of what this world lists and the home world does not: it is in no row of the inventory."""
        known = {row["uri"] for row in self.rows}
        rows = [row for row in listing.select_resources(self._list_rows()) if row["uri"] not in known]
        rows = [row for row in rows if not self.settings.excludes(row["uri"])]
        for row in rows:
            if row["type"] != "resource" and row["uri"] not in self.settings.examples:
                line = f'mcp_examples = ["{row["uri"]} = {row["example_uri"]}"]'
                raise ContractError(f"{row['uri']} is listed only in {self.world}: add its example\n    {line}")
            replace(self, names=Names.of([*self.rows, *rows])).check_case(row, own=True)

    def _name_own(self, world: str) -> set[str]:
        """Return the names of goldens of what only another world lists, as its lists in the goldens say."""
        lists = {key: read_golden(self.settings, self.names.listing(name, world)) or [] for name, key in LISTED.items()}
        listed = [one[key] for key, entries in lists.items() for one in entries]
        known = {row["uri"] for row in self.rows}
        own = [{"example_uri": self.settings.examples.get(uri, uri)} for uri in listed if uri not in known]
        return Names.of([*self.rows, *own]).all([world]) if own else set()

    def _list_rows(self) -> list[Row]:
        settings = replace(self.settings, exclude=()) if self.world else self.settings
        components = list_live(self.server, settings)
        self.change_rows(components=components)
        return [one.row for one in components]

    def check_misspelt(self) -> None:
        """Check that both surfaces refuse URIs that no list knows, and one refusal with its golden, if there is one."""

        async def ask(client: AnyClient) -> list[Answer]:
            lists = {name: await listing.get_list(client, name) for name in LISTED}
            unknown = listing.find_unknown([row["uri"] for row in self.rows], lists)
            tool = await self._find_tool(client)
            unknown = [one for one in unknown if not self.settings.excludes(one)]
            return [await observe(client, one, self.settings, tool) for one in unknown]

        answers = converse(self.server, self.settings, ask, "misspelt URIs")
        if not answers:
            raise NothingToCheck("there is no URI that is certainly unknown")
        if known := [one.uri for one in answers if one.error is None]:
            raise ContractError("\n".join(f"{uri}: an unknown URI is answered with data" for uri in known))
        refusal = answers[0].shorten(self.settings.volatile_paths(answers[0].uri))
        about = json.loads(json.dumps(refusal).replace(json.dumps(answers[0].uri)[1:-1], "<uri>"))
        self._compare_if_pinned("errors/unknown", serialize(about), self.names.asked)

    def _compare_if_pinned(self, subject: str, value: Any, kind: Kind) -> None:
        """Compare with a golden that an earlier version did not write: the next update does."""
        if self.update or any(self._path(kind(subject, world)).exists() for world in (self.world, "")):
            self._compare(subject, value, kind, None)

    def check_inventory(self) -> None:
        """Check that the inventory lists what the server lists; write it if goldens are being written."""
        live = self._list_rows()
        path = self.settings.inventory
        for name in self.settings.columns:
            if name not in COLUMNS and not any(name in row for row in live):
                raise ContractError(f"mcp_columns: {name}: no resource, template or tool has it in its _meta")
        text = listing.write_rows(live, self.settings.columns)
        if self.update:
            write_whole(path, text)
            return
        shown = self.settings.show(path)
        if not path.exists():
            raise ContractError(f"there is no {shown}: {UPDATE}")
        if path.read_text(encoding="utf-8") == text:
            return
        known, rows = listing.read_rows(self.settings), parse_rows(text)[0]
        lines = "\n".join(listing.describe_changes(known, rows, self.settings.columns, shown))
        raise ContractError(f"{shown} is not what the server lists\n{lines}\nIf this is intended: {UPDATE}.")

    def check_leftovers(self) -> None:
        """Check that each golden has a case; delete the others if goldens are being written."""
        named = self.names.all(self.worlds).union(*(self._name_own(world) for world in self.worlds if world))
        lists = (read_golden(self.settings, self.names.listing("prompts", world)) or [] for world in self.worlds)
        asked = {f"prompts/{one['name']}" for entries in lists for one in entries}
        calls = parse_calls(self.settings, read_golden(self.settings, "discovery/tools") or [])
        asked |= {call.subject for call in calls}
        named |= {self.names.asked(name, world) for name in asked for world in self.worlds}
        found = find_goldens(self.settings) - named
        left = sorted(name for name in found if not any(fnmatchcase(name, one) for one in self.settings.others))
        if self.update:
            self._delete(left)
        elif left:
            files = "".join(f"\n  {self._show(name)}" for name in left)
            raise ContractError(f"goldens without a case:{files}\npytest --snapshot-update deletes them.")

    def check_settings(self) -> None:
        """Check that each line of the configuration applies to something."""
        uris = {row["uri"] for row in self.rows}
        for world in self.worlds:
            templates = read_golden(self.settings, self.names.listing("resource-templates", world)) or []
            uris |= {one["uriTemplate"] for one in templates}
        unused = [f"mcp_examples: {template}: no such template" for template in self.settings.examples.keys() - uris]
        goldens, others = find_goldens(self.settings), self.settings.others
        unused += [f"mcp_other_goldens: {one}: no such golden" for one in others if not match(goldens, one)]
        for one in self.settings.volatile:
            found = [row["example_uri"] for row in self.rows if fnmatchcase(row["example_uri"], one.pattern)]
            names = [self.names.data(uri, "") for uri in found]
            names += [name for name in match(goldens, one.pattern) if name.startswith(("prompts/", "calls/"))]
            if not names:
                unused.append(f"mcp_volatile: {one}: no such resource")
            elif not any(has_mask(read_golden(self.settings, name), one.where) for name in names):
                unused.append(f"mcp_volatile: {one}: no golden has such a path")
        if unused:
            raise ContractError("\n".join(["lines of the configuration that apply to nothing:", *sorted(unused)]))

    async def _find_tool(self, client: AnyClient) -> str:
        """Return the tool that is the second surface; empty if there is none."""
        wanted = self.settings.tool or listing.OWN_TOOL
        tools = {tool["name"]: tool["inputSchema"] for tool in await listing.get_list(client, "tools")}
        if self.settings.tool and wanted not in tools:
            raise ContractError(f"mcp_tool = {wanted}: the server has no such tool")
        takes_uri = self.settings.tool or "uri" in (tools.get(wanted, {}).get("properties") or ())
        return wanted if takes_uri else ""

    def _compare(self, subject: str, value: Any, kind: Kind, other: Kind | None) -> None:
        """Compare with the golden of the world. An answer that equals that of the home world has no other golden."""
        name, stale = kind(subject, self.world), other(subject, self.world) if other else None
        own = [one for one in (name, stale) if one is not None and self._path(one).exists()]
        home = kind(subject, "")
        if self.world and self._path(home).exists() and are_equal(value, read_golden(self.settings, home)):
            if self.update:
                self._delete(own)
            elif own:
                raise ContractError(f"{self._show(own[0])} equals the golden of the home world: delete it")
            return
        if self.update:
            self._delete([one for one in own if one != name])
            write_golden(self.snapshot, name, value)
            return
        matches = value == self.snapshot(name=name)
        if stale in own:
            now, was = ("data", "a refusal") if kind == self.names.data else ("a refusal", "data")
            raise ContractError(
                f"{self._about(subject)}: the server answers with {now}, but {self._show(str(stale))} is {was}"
                f"\n  {describe_answer(value)}\nIf this is intended: {UPDATE}."
            )
        self._explain(subject, name, kind, value, matches=matches)

    def _explain(self, subject: str, name: str, kind: Kind, value: Any, *, matches: bool) -> None:
        about, shown = self._about(subject), self._show(name)
        golden = read_golden(self.settings, name)
        if golden is None and self.world:
            golden = read_golden(self.settings, kind(subject, ""))
            about, shown = f"{about}: there is no {shown}, and the answer", self._show(kind(subject, ""))
        if golden is None:
            lacks = f"{self._about(subject)}: there is no {self._show(name)}"
            raise ContractError(f"{lacks}: {UPDATE}\n  {describe_answer(value)}")
        forms = use_one_form(golden, value)
        differences = list(find_differences(*forms, subject if isinstance(value, list) else ""))
        if isinstance(value, list) and isinstance(golden, list):
            differences = [name_entry(one, subject, golden, value) for one in differences]
        if differences:
            lines = describe(differences, "golden", "server")
            raise ContractError(f"{about} differs from {shown}\n{lines}\nIf this is intended: {UPDATE}.")
        if not matches:
            raise ContractError(f"{shown} has the right values in another format: {UPDATE}")

    def _about(self, subject: str) -> str:
        return f"{subject} in {self.world}" if self.world else subject

    def _path(self, name: str) -> Any:
        return self.settings.golden / f"{name}.json"

    def _show(self, name: str) -> str:
        return self.settings.show(self._path(name))

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self._path(name).unlink()


def list_live(server: Any, settings: Settings) -> list[listing.Component]:
    return converse(server, settings, lambda client: listing.list_components(client, settings, server), "the inventory")


def describe_answer(golden: Any) -> str:
    error = golden.get("resource") if isinstance(golden, dict) else None
    return f"the error is: {error['message']}" if error else "it is data"


def name_entry(found: Difference, subject: str, golden: list[Any], value: list[Any]) -> Difference:
    """Return the difference of two lists with the name of the entry in the path, in place of its index."""
    at = re.match(rf"{re.escape(subject)}\[(\d+)\]", found.path)
    if at is None or subject not in listing.LISTS:
        return found
    entry = (golden if found.other is MISSING and at[0] == found.path else value)[int(at[1])]
    return found._replace(path=f"{subject}[{entry.get(listing.LISTS[subject].key)}]{found.path[at.end() :]}")
