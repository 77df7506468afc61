"""The requirements domain: its resources and its part of `resources/list`."""

import inspect
import math
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from mcp_types import Annotations, Resource

from quilt_mcp.app import checks, current_app
from quilt_mcp.app.checks import Check
from quilt_mcp.app.domain import Ask, Command, Domain
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core import cursors
from quilt_mcp.core.answers import MIME_TYPE, iso
from quilt_mcp.core.listing import ListedRow, ListSource
from quilt_mcp.core.registry import ResourceDefinition, Values, define
from quilt_mcp.requirements import answers, parameters, service
from quilt_mcp.requirements.answers import COLLECTIONS, EPICS, MAX_SHOWN, USER_STORIES, Entities
from quilt_mcp.requirements.failures import UnknownUser
from quilt_mcp.requirements.model import BY_NAME, EPIC, KINDS, REQUIREMENT, Kind
from quilt_mcp.requirements.parameters import (
    CATEGORIES,
    GROUPS,
    MAX_DEPTH,
    SEARCH_FILTERS,
    SINCE,
    VIEWS,
    describe_filters,
    list_parameters,
)
from quilt_mcp.requirements.service import current_store
from quilt_mcp.requirements.settings import FILE_NAME, RequirementsSettings

if TYPE_CHECKING:
    from quilt_mcp.requirements.conditions import Scope
    from quilt_mcp.requirements.reads import Title


async def find_scope() -> "Scope | None":
    """Return what the caller may see, or None if the providers have nothing to list.

    There is nothing to list without a database, if the setting `list_entities` is off, and for a caller who is not a
    user of the database. Reads report the reason.
    """
    if not current_app().settings_as(RequirementsSettings).list_entities or not has_database():
        return None
    try:
        return await run_in_pool("database", current_store().find_scope)
    except UnknownUser:
        return None


def has_database() -> bool:
    settings = current_app().settings_as(RequirementsSettings)
    return settings.database_url is not None or (settings.data_dir / FILE_NAME).exists()


async def open_database() -> None:
    """Open the database before the first page: to import SQLAlchemy can take most of the time of a page."""
    if current_app().settings_as(RequirementsSettings).list_entities and has_database():
        await run_in_pool("database", current_store)


class EntityProvider:
    """Lists the entities of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = f"{kind.name}_provider"
        self.prefix = f"requirements://{kind.segment}/"

    async def page(self, after: str, limit: int, scope: "Scope | None") -> list[ListedRow]:
        """Return at most `limit` entities, in the order of their positions. A key is a position and an ID."""
        if scope is None:
            return []
        newest = count_listed() or None
        read = partial(
            current_store().list_titles, self.kind, scope, after=_parse_place(after), limit=limit, newest=newest
        )
        found = await run_in_pool("database", read)
        return [ListedRow(f"{one.position!r} {one.id}", self._describe(one)) for one in found]

    def _describe(self, entity: "Title") -> Resource:
        is_cut = len(entity.title) > MAX_SHOWN and not self.kind.statuses
        shown = f"{entity.title[: MAX_SHOWN - 1]}…" if is_cut else entity.title
        return Resource(
            uri=f"{self.prefix}{entity.id}",
            name=f"{self.kind.title} {entity.reference_id}",
            title=shown,
            mime_type=MIME_TYPE,
            annotations=Annotations(last_modified=iso(entity.updated_at)) if entity.updated_at else None,
        )


def _parse_place(key: str) -> tuple[float, str] | None:
    """Return the position and the ID in a key of a list; None if it is empty.

    Raises:
        InvalidTemplateVariable: the key has another form.
    """
    if not key:
        return None
    position, _, row_id = key.partition(" ")
    try:
        place = float(position), row_id
    except ValueError as error:
        raise cursors.make_invalid() from error
    if not math.isfinite(place[0]) or not parameters.is_id(row_id):  # PostgreSQL refuses to compare it
        raise cursors.make_invalid()
    return place


def count_listed() -> int:
    """Return how many entities of each kind are listed; 0 if all are."""
    return current_app().settings_as(RequirementsSettings).max_resources_per_provider


def describe_rest() -> dict[str, str]:
    """Return what the rows of the collections say if the list has some of their entities only."""
    settings = current_app().settings_as(RequirementsSettings)
    if not (settings.list_entities and count_listed()):
        return {}
    note = f"This list has at most {count_listed()} of them: those that changed last."
    return {f"requirements://{kind.segment}": note for kind in KINDS}


def list_search_template() -> list[Resource]:
    """Return the search template as a resource, if the setting `list_search_template` is on."""
    if not current_app().settings_as(RequirementsSettings).list_search_template:
        return []
    return [
        Resource(
            uri="requirements://search/{query}",
            name="Search Requirements",
            description="Search across all epics, user stories, and requirements",
            mime_type=MIME_TYPE,
        )
    ]


ENTITY = {"id": "entity_id"}
_WITHIN: dict[str, Values] = {"epic": partial(service.complete_ids, EPIC), "project": service.complete_projects}
"""The values of the limits of an overview."""
_DEPTHS = [str(depth) for depth in range(1, MAX_DEPTH + 1)]


def _id_values(kind: Kind) -> dict[str, Values]:
    return {"id": partial(service.complete_ids, kind)}


def _name(one: Entities[object]) -> str:
    article, _, noun = one.one.partition(" ")
    return f"{article} {noun.title()}"


def _define_list(one: Entities[object], parent: Entities[object] | None = None) -> ResourceDefinition:
    """Return the definition of a list of entities, with its filters."""
    function = service.make_list(one, parent)
    filters = list_parameters(one.kind, has_parent=parent is not None)
    values = {name: partial(service.complete_filters, one.kind, name) for name in filters if name not in SINCE}
    path = f"{parent.kind.segment}/{{id}}/{one.kind.segment}" if parent else one.kind.segment
    return define(
        f"requirements://{path}{{?{','.join(filters)},view,cursor,limit}}",
        function,
        name=f"{one.many.title()} of {parent.one.title().replace('A', 'a', 1)}"
        if parent
        else f"All {one.many.title()}",
        # discovery has the allowed values once, not again for the children of one entity
        description=None if parent else f"{inspect.getdoc(function)} {describe_filters(one.kind)}",
        parameter_mapping=ENTITY if parent else None,
        values={**(_id_values(parent.kind) if parent else {}), **values, "view": partial(service.complete_one, VIEWS)},
        free_text={*filters, "cursor"},  # which can contain spaces and commas, and a title
    )


def _define_entity(one: Entities[object]) -> ResourceDefinition:
    return define(
        f"requirements://{one.kind.segment}/{{id}}",
        service.make_entity(one),
        name=one.one.partition(" ")[2].title(),
        parameter_mapping=ENTITY,
        values=_id_values(one.kind),
    )


def _define_trace(one: Entities[object]) -> ResourceDefinition:
    return define(
        f"requirements://{one.kind.segment}/{{id}}/trace{{?depth,cursor,limit}}",
        service.make_trace(one),
        name=f"Trace of {_name(one)}",
        parameter_mapping=ENTITY,
        values={**_id_values(one.kind), "depth": partial(service.complete_one, _DEPTHS)},
    )


RESOURCES = [
    *(_define_list(one) for one in COLLECTIONS),
    define(
        "requirements://requirements-types{?cursor,limit}", service.list_requirement_types, name="All Requirement Types"
    ),
    *(_define_entity(one) for one in COLLECTIONS),
    define(
        "requirements://epics/{id}/hierarchy{?view,cursor,limit}",
        service.get_epic_hierarchy,
        name="Epic Hierarchy",
        parameter_mapping=ENTITY,
        values={**_id_values(EPIC), "view": partial(service.complete_one, VIEWS)},
    ),
    _define_list(USER_STORIES, EPICS),
    _define_list(answers.REQUIREMENTS, USER_STORIES),
    _define_list(answers.ACCEPTANCE_CRITERIA, USER_STORIES),
    define(
        "requirements://requirements/{id}/relationships{?cursor,limit}",
        service.get_requirement_relationships,
        name="Requirement Relationships",
        parameter_mapping=ENTITY,
        values=_id_values(REQUIREMENT),
    ),
    define(
        f"requirements://search/{{query}}{{?{','.join(SEARCH_FILTERS)},view,cursor,limit}}",
        service.search,
        name="Search Requirements",
        values={
            "query": service.complete_queries,
            "view": partial(service.complete_one, VIEWS),
            **{one: partial(service.complete_search_filters, one) for one in SEARCH_FILTERS if one != "updated_since"},
        },
        free_text={"query", *SEARCH_FILTERS},
    ),
    define(
        "requirements://changes{?since,project,kind,cursor,limit}",
        service.list_changes,
        name="Changes",
        values={
            "project": partial(service.complete_filters, EPIC, "project"),
            "kind": partial(service.complete_several, list(BY_NAME)),
        },
        free_text={"since", "project", "kind", "cursor"},
    ),
    define(
        "requirements://summary{?group,project,epic}",
        service.read_summary,
        name="Summary",
        values={"group": partial(service.complete_several, GROUPS), **_WITHIN},
        free_text={"group", "project"},
    ),
    define(
        "requirements://relationships{?type,project,epic,cursor,limit}",
        service.list_relationships,
        name="Relationships",
        values={"type": service.complete_relationship_types, **_WITHIN},
        free_text={"type", "project", "cursor"},
    ),
    define("requirements://projects{?cursor,limit}", service.list_projects, name="All Projects"),
    define(
        "requirements://projects/{project}/members{?cursor,limit}",
        service.list_members,
        name="Project Members",
        values={"project": service.complete_project_ids},
        free_text={"project"},
    ),
    *(_define_trace(one) for one in COLLECTIONS),
    define(
        "requirements://coverage{?epic,project,category,cursor,limit}",
        service.read_coverage,
        name="Coverage",
        values={**_WITHIN, "category": partial(service.complete_one, CATEGORIES)},
        free_text={"project"},
    ),
]


async def diagnose(ask: Ask) -> list[Check]:
    """Return the line of the database in the checklist of `quilt-mcp doctor`; none if there is no database."""
    if not has_database():
        return []
    return [checks.check_database("requirements database", await ask("requirements://projects?limit=1"))]


async def check_database() -> None:
    """Check the requirements database. Does nothing if it is a local file."""
    if current_app().settings_as(RequirementsSettings).database_url is None:
        return
    await run_in_pool("readiness", service.check_database)


REQUIREMENTS = Domain(
    name="requirements",
    place=30,
    summary="Reads a requirements database: epics, user stories, requirements, acceptance criteria, with search.",
    commands={
        "requirements": Command(
            "quilt_mcp.requirements.commands.app:app",
            "Import, export, migrate and inspect the requirements database.",
        )
    },
    fill_demo=lambda scene: import_module("quilt_mcp.requirements.sample").fill_demo(scene),  # it imports SQLAlchemy
    modules=["quilt_mcp.requirements.store"],
    resources=RESOURCES,
    listing=ListSource(
        find_scope, [EntityProvider(kind) for kind in KINDS], list_search_template, describe_rest, open_database
    ),
    checks={"database": check_database},
    diagnose=diagnose,
    pools={"requirements": "database"},
    settings=RequirementsSettings,
)
