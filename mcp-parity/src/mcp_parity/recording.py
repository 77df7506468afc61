"""Records what a revision answers when it is started, as its goldens would be: `mcp-parity diff --start`."""

import asyncio
import json
import tempfile
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_parity import listing
from mcp_parity.answers import Answer, has_time, read
from mcp_parity.calls import call_tool, find_calls
from mcp_parity.revisions import Places, Revision, Unreadable, check_out
from mcp_parity.serving import AnyClient, ask, disconnect, load_server
from mcp_parity.settings import COLUMNS, ContractError, Names, Settings
from mcp_parity.transports import Command
from mcp_parity.values import Place, find_differences

Recorded = tuple[str, dict[str, Any], dict[str, tuple[Answer, Answer]]]
"""The inventory, the lists by the names of goldens, and two answers to each request: what differs is not compared."""


def record_revisions(pair: list[Revision], settings: Settings, build: str) -> list[Revision]:
    """Start the server of each revision, and return the revisions with what it answers in place of their goldens."""
    found = []
    for one in pair:
        with check_out(one, build) as folder:
            found.append(_start(one.name, replace(settings, root=folder)))
    places = Places("golden", "golden/mcp-list.csv", pair[0].places.changelog)
    recorded = []
    for one, (rows, goldens, answers) in zip(pair, found, strict=True):
        values = goldens | {name: first.shorten(_find_moved(name, found)) for name, (first, _) in answers.items()}
        files = {f"golden/{name}.json": json.dumps(value) for name, value in values.items()}
        files |= {places.rows: rows, places.changelog: one.files.get(one.places.changelog, "")}
        recorded.append(Revision(one.name, files, places, one.commit))
    return recorded


def _find_moved(name: str, found: list[Recorded]) -> list[Place]:
    """Return where the two answers of one of the revisions differ."""
    pairs = (answers[name] for _, _, answers in found if name in answers)
    golden_pairs = ((one.to_golden(), other.to_golden()) for one, other in pairs)
    return [Place(path) for path in {moved.volatile for pair in golden_pairs for moved in find_differences(*pair)}]


def _start(name: str, settings: Settings) -> Recorded:
    """Start the server in the folder of its revision, and record it. A failure has one line."""
    server = load_server(settings)
    if not isinstance(server, Command):
        raise ContractError(f"--start {settings.server}: this is no command")
    with tempfile.TemporaryFile() as errors:
        server.errors = errors
        try:
            return ask(server, settings, partial(_record, settings=settings, server=server), name)
        except ContractError as error:
            raise Unreadable(" ".join(str(error).split())) from error
        finally:
            disconnect([server])


async def _record(client: AnyClient, settings: Settings, server: Any) -> Recorded:
    lists = {name: await listing.get_list(client, name) for name in listing.LISTS}
    rows = [one.row for one in await listing.list_components(client, settings, server)]
    goldens: dict[str, Any] = {f"discovery/{name}": entries for name, entries in lists.items()}
    goldens["discovery/server"] = await listing.describe_start(client, settings.start)
    uris = [row["example_uri"] for row in listing.select_resources(rows) if row["example_uri"]]
    names = Names(uris)
    requests = {uri: partial(read, client, uri) for uri in uris}
    requests |= {call.subject: partial(call_tool, client, call) for call in find_calls(lists["tools"])}
    first = {subject: await request() for subject, request in requests.items()}
    await asyncio.sleep(settings.pause if any(has_time(one.to_golden()) for one in first.values()) else 0)
    answers = {}
    for subject, one in first.items():
        kind = names.asked if subject not in uris else names.data if one.contents is not None else names.error
        answers[kind(subject, "")] = one, await requests[subject]()
    return listing.write_rows(rows, COLUMNS), goldens, answers
