"""The completion of URIs in a shell: the resources, and the values of variables as the server completes them."""

from typing import NamedTuple

from cyclopts.completion import CompletionContext
from mcp_types import ResourceTemplateReference

from quilt_mcp.commands.session import ServerClient, run_session
from quilt_mcp.commands.startup import list_uris
from quilt_mcp.core.registry import path_of, path_variables


class Place(NamedTuple):
    """A variable that is being completed.

    Attributes:
        template: the URI of the template.
        start: what stands before the variable.
        variable: its name.
        value: its beginning.
        rest: what follows until the next variable.
        others: the values of earlier variables.
    """

    template: str
    start: str
    variable: str
    value: str
    rest: str
    others: dict[str, str]


def complete(context: CompletionContext) -> list[str]:
    """Return the URIs that begin with the typed text, up to the next variable."""
    text = context.incomplete
    literal, places = find_candidates(text)
    if not places:
        return literal
    demo = context.get("demo")
    world: str | None = demo.raw if demo else None
    values = run_session(lambda client: _ask(client, places), demo=world)
    return sorted({*literal, *values})


def find_candidates(text: str) -> tuple[list[str], list[Place]]:
    """Return the URIs and their beginnings that need no values, and the variables that the text ends in."""
    literal: set[str] = set()
    places: list[Place] = []
    for uri in list_uris():
        path = path_of(uri)
        if not path_variables(uri):
            literal |= {path} if path.startswith(text) else set()
            continue
        found = _match(uri, path, text)
        if isinstance(found, Place):
            places.append(found)
        elif found:
            literal.add(found)
    return sorted(literal), places


def _match(uri: str, path: str, text: str) -> Place | str | None:
    """Return the variable of a template that the text ends in, or the beginning of the template that it begins."""
    rest, at, others = path, 0, dict[str, str]()
    while True:
        literal, opening, more = rest.partition("{")
        typed = text[at:]
        if literal.startswith(typed) and not (opening and typed == literal):
            return text[:at] + literal
        if not typed.startswith(literal) or not opening:
            return None
        at += len(literal)
        variable, _, rest = more.partition("}")
        value, slash, _ = text[at:].partition("/")
        if not slash:
            return Place(uri, text[:at], variable, value, rest.partition("{")[0], others)
        others = {**others, variable: value}
        at += len(value)


async def _ask(client: ServerClient, places: list[Place]) -> list[str]:
    found: list[str] = []
    for one in places:
        argument = {"name": one.variable, "value": one.value}
        completion = await client.complete(
            ResourceTemplateReference(uri=one.template), argument, context_arguments=one.others
        )
        found += [f"{one.start}{value}{one.rest}" for value in completion.values]
    return found
