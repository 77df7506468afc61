"""The checks of a contract in one world. The tests in `contract` call them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import filter as match
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from syrupy.assertion import SnapshotAssertion

from mcp_parity.discovery import OWN_TOOL, check_discovery
from mcp_parity.goldens import find_goldens, read_golden, serialize, write_golden, write_whole
from mcp_parity.inventory import Component, Row, list_components, select_resources, write_rows
from mcp_parity.names import Names
from mcp_parity.observing import Answer, check_listed, check_stable, observe
from mcp_parity.serving import AnyClient, converse, get_list
from mcp_parity.settings import COLUMNS, ContractError, Settings
from mcp_parity.values import are_equal, describe, find_differences, has_mask

UPDATE = "run pytest --snapshot-update, and read what it writes"


class ContractWarning(UserWarning):
    """Something that clients should not see."""


class NothingToCheck(ContractError):
    """The server lacks what the check is about."""


@dataclass(frozen=True)
class Check:
    """Everything that a check needs.

    Attributes:
        settings: the configuration.
        server: what FastMCP's client can connect to.
        world: the name of the world; empty for the home world.
        rows: the resources of the inventory.
        snapshot: syrupy's assertion for goldens.
        update: whether goldens are being written.
        to_golden: returns what a golden holds of an answer; None for the default.
        change_rows: changes the rows of the inventory before they are written or compared.
    """

    settings: Settings
    server: Any
    world: str
    rows: list[Row]
    snapshot: SnapshotAssertion
    update: bool
    to_golden: Callable[[Answer], Any] | None
    change_rows: Callable[..., object]

    @cached_property
    def names(self) -> Names:
        """The names of all goldens."""
        return Names(row["example_uri"] for row in self.rows if row["example_uri"])

    def check_case(self, row: Row) -> None:
        """Check that both surfaces give the answer of the golden."""
        uri = row["example_uri"]
        if not uri:
            line = f'mcp_examples = ["{row["uri"]} = {row["uri"].partition("{")[0]}..."]'
            advice = "Let the server complete the variables, or add a URI that exists:"
            raise ContractError(f"{row['uri']}: no example is known. {advice}\n    {line}")

        async def ask(client: AnyClient) -> Answer:
            found = await observe(client, uri, self.settings, await self._find_tool(client))
            if self.update:
                await check_stable(client, found, self.settings)
            return found

        answer = converse(self.server, self.settings, ask, uri)
        for leak in answer.find_leaks():
            warnings.warn(leak, ContractWarning, stacklevel=2)
        if row["type"] == "resource" and not self.world:
            check_listed(answer)
        golden = self.to_golden(answer) if self.to_golden else answer.shorten(self.settings.volatile_paths(uri))
        kinds = [self.names.data, self.names.error]
        kind, other = kinds if answer.contents is not None else reversed(kinds)
        try:
            self._compare(uri, serialize(golden), kind, other)
        except ContractError:
            if not self.update:
                converse(self.server, self.settings, lambda client: check_stable(client, answer, self.settings), uri)
            raise

    def check_lists(self) -> None:
        """Check that the lists equal the goldens, and that the tool lists the same resources."""

        async def ask(client: AnyClient) -> dict[str, Any]:
            found: dict[str, Any] = {
                "resources": _to_json(await get_list(client.list_resources)),
                "resource-templates": _to_json(await get_list(client.list_resource_templates)),
                "tools": _to_json(await get_list(client.list_tools)),
            }
            for name, key in (("resources", "uri"), ("resource-templates", "uriTemplate")):
                found[name] = [one for one in found[name] if not self.settings.excludes(one[key])]
            if await self._find_tool(client) == OWN_TOOL:
                body = (await client.call_tool_mcp(OWN_TOOL, {})).structured_content or {}
                found["get-resource"] = {key: value for key, value in body.items() if key != "timestamp"}
            return found

        found = converse(self.server, self.settings, ask, "lists")
        if "get-resource" in found:
            check_discovery(found)
        for name, value in found.items():

            def kind(listing: str, world: str) -> str:
                return f"discovery/{listing}" + (f"--{world}" if world else "")

            self._compare(name, serialize(value), kind, None)

    def check_misspelt(self) -> None:
        """Check that both surfaces refuse misspelt URIs in the same way."""

        async def ask(client: AnyClient) -> None:
            tool = await self._find_tool(client)
            if not tool:
                raise NothingToCheck("the server has no tool that reads resources")
            for row in self.rows:
                if (uri := _misspell(row["uri"])) and not self.settings.excludes(uri):
                    await observe(client, uri, self.settings, tool)

        converse(self.server, self.settings, ask, "misspelt URIs")

    def check_inventory(self) -> None:
        """Check that the inventory lists what the server lists; write it if goldens are being written."""

        async def ask(client: AnyClient) -> list[Component]:
            return await list_components(client, self.settings, self.server)

        components = converse(self.server, self.settings, ask, "the inventory")
        self.change_rows(components=components)
        live = [one.row for one in components]
        path = self.settings.inventory
        for name in self.settings.columns:
            if name not in COLUMNS and not any(name in row for row in live):
                raise ContractError(f"mcp_columns: {name}: no resource, template or tool has it in its _meta")
        text = write_rows(live, self.settings.columns)
        if self.update:
            write_whole(path, text)
            return
        shown = self.settings.show(path)
        if not path.exists():
            raise ContractError(f"there is no {shown}: {UPDATE}")
        if path.read_text(encoding="utf-8") == text:
            return
        was, now = ({row["uri"] for row in rows} for rows in (self.rows, select_resources(live)))
        gone = [f"  {uri}: in {shown}, but the server does not list it" for uri in sorted(was - now)]
        new = [f"  {uri}: the server lists it, but it is not in {shown}" for uri in sorted(now - was)]
        lines = gone + new or ["  a name, description, MIME type, example or tool has changed"]
        lines = [f"{shown} is not what the server lists", *lines, f"If this is intended: {UPDATE}."]
        raise ContractError("\n".join(lines))

    def check_leftovers(self, worlds: list[str]) -> None:
        """Check that each golden has a case; delete the others if goldens are being written."""
        found = find_goldens(self.settings) - self.names.all(worlds)
        left = sorted(name for name in found if not any(fnmatchcase(name, one) for one in self.settings.others))
        if self.update:
            self._delete(left)
        elif left:
            files = "".join(f"\n  {self._show(name)}" for name in left)
            raise ContractError(f"goldens without a case:{files}\npytest --snapshot-update deletes them.")

    def check_settings(self) -> None:
        """Check that each line of the configuration applies to something."""
        uris = {row["uri"] for row in self.rows}
        unused = [f"mcp_examples: {template}: no such template" for template in self.settings.examples.keys() - uris]
        goldens, others = find_goldens(self.settings), self.settings.others
        unused += [f"mcp_other_goldens: {one}: no such golden" for one in others if not match(goldens, one)]
        for one in self.settings.volatile:
            found = [row["example_uri"] for row in self.rows if fnmatchcase(row["example_uri"], one.pattern)]
            if not found:
                unused.append(f"mcp_volatile: {' '.join(one)}: no such resource")
            elif not any(has_mask(read_golden(self.settings, self.names.data(uri, "")), one.path) for uri in found):
                unused.append(f"mcp_volatile: {' '.join(one)}: no golden has such a path")
        if unused:
            raise ContractError("\n".join(["lines of the configuration that apply to nothing:", *sorted(unused)]))

    async def _find_tool(self, client: AnyClient) -> str:
        """Return the tool that is the second surface; empty if there is none."""
        wanted = self.settings.tool or OWN_TOOL
        if wanted in {tool.name for tool in await get_list(client.list_tools)}:
            return wanted
        if self.settings.tool:
            raise ContractError(f"mcp_tool = {wanted}: the server has no such tool")
        return ""

    def _compare(
        self, subject: str, value: Any, kind: Callable[[str, str], str], other: Callable[[str, str], str] | None
    ) -> None:
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

    def _explain(self, subject: str, name: str, kind: Callable[[str, str], str], value: Any, *, matches: bool) -> None:
        about, shown = self._about(subject), self._show(name)
        golden = read_golden(self.settings, name)
        if golden is None and self.world:
            golden = read_golden(self.settings, kind(subject, ""))
            about, shown = f"{about}: there is no {shown}, and the answer", self._show(kind(subject, ""))
        if golden is None:
            raise ContractError(f"{about}: there is no {shown}: {UPDATE}\n  {describe_answer(value)}")
        if differences := list(find_differences(golden, value)):
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


def describe_answer(golden: Any) -> str:
    """Return one line about an answer."""
    error = golden.get("resource") if isinstance(golden, dict) else None
    return f"the error is: {error['message']}" if error else "it is data"


def _to_json(listed: list[Any]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed]


def _misspell(uri: str) -> str:
    """Return a URI that is probably unknown; empty if every text is a valid URI."""
    path = uri.partition("{")[0].rstrip("/")
    if not path or path.endswith(":"):
        return ""
    return path[:-1] + ("y" if path.endswith("x") else "x") + ("/v" if "{" in uri else "")
