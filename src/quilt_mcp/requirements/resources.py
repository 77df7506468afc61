"""The requirements domain: its resources and its part of `resources/list`."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from quilt_mcp.app import current_app
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.listing import ListSource
from quilt_mcp.core.registry import ResourceDefinition, Values, define
from quilt_mcp.requirements import service
from quilt_mcp.requirements.filters import SEARCH_FILTERS, describe_filters, list_parameters
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, EPIC, KINDS, REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.providers import EntityProvider, find_scope, list_search_template
from quilt_mcp.requirements.settings import RequirementsSettings

ENTITY = {"id": "entity_id"}


def _id_values(kind: Kind) -> dict[str, Values]:
    return {"id": partial(service.complete_ids, kind)}


def _trace_values(kind: Kind) -> dict[str, Values]:
    return {**_id_values(kind), "depth": service.complete_depths}


def _define_list(path: str, kind: Kind, function: Callable[..., object], name: str, **more: Any) -> ResourceDefinition:
    """Return the definition of a list of entities, with its filters."""
    has_parent = "{" in path
    filters = list_parameters(kind, has_parent=has_parent)
    values = {one: partial(service.complete_filters, kind, one) for one in filters if one != "updated_since"}
    return define(
        f"requirements://{path}{{?{','.join(filters)},cursor,limit}}",
        function,
        name=name,
        # discovery has the allowed values once, not again for the children of one entity
        description=None if has_parent else f"{inspect.getdoc(function)} {describe_filters(kind)}",
        values={**more.pop("values", {}), **values},
        free_text={*filters, "cursor"},  # which can contain spaces and commas, and a title
        **more,
    )


RESOURCES = [
    _define_list("epics", EPIC, service.list_epics, "All Epics"),
    _define_list("user-stories", USER_STORY, service.list_user_stories, "All User Stories"),
    _define_list("requirements", REQUIREMENT, service.list_requirements, "All Requirements"),
    _define_list(
        "acceptance-criteria", ACCEPTANCE_CRITERIA, service.list_acceptance_criteria, "All Acceptance Criteria"
    ),
    define(
        "requirements://requirements-types{?cursor,limit}",
        service.list_requirement_types,
        name="All Requirement Types",
    ),
    define(
        "requirements://epics/{id}", service.get_epic, name="Epic", parameter_mapping=ENTITY, values=_id_values(EPIC)
    ),
    define(
        "requirements://user-stories/{id}",
        service.get_user_story,
        name="User Story",
        parameter_mapping=ENTITY,
        values=_id_values(USER_STORY),
    ),
    define(
        "requirements://requirements/{id}",
        service.get_requirement,
        name="Requirement",
        parameter_mapping=ENTITY,
        values=_id_values(REQUIREMENT),
    ),
    define(
        "requirements://acceptance-criteria/{id}",
        service.get_acceptance_criterion,
        name="Acceptance Criterion",
        parameter_mapping=ENTITY,
        values=_id_values(ACCEPTANCE_CRITERIA),
    ),
    define(
        "requirements://epics/{id}/hierarchy{?cursor,limit}",
        service.get_epic_hierarchy,
        name="Epic Hierarchy",
        parameter_mapping=ENTITY,
        values=_id_values(EPIC),
    ),
    _define_list(
        "epics/{id}/user-stories",
        USER_STORY,
        service.list_stories_of_epic,
        "User Stories of an Epic",
        parameter_mapping=ENTITY,
        values=_id_values(EPIC),
    ),
    _define_list(
        "user-stories/{id}/requirements",
        REQUIREMENT,
        service.list_requirements_of_story,
        "Requirements of a User Story",
        parameter_mapping=ENTITY,
        values=_id_values(USER_STORY),
    ),
    _define_list(
        "user-stories/{id}/acceptance-criteria",
        ACCEPTANCE_CRITERIA,
        service.list_acceptance_criteria_of_story,
        "Acceptance Criteria of a User Story",
        parameter_mapping=ENTITY,
        values=_id_values(USER_STORY),
    ),
    define(
        "requirements://requirements/{id}/relationships{?cursor,limit}",
        service.get_requirement_relationships,
        name="Requirement Relationships",
        parameter_mapping=ENTITY,
        values=_id_values(REQUIREMENT),
    ),
    define(
        f"requirements://search/{{query}}{{?{','.join(SEARCH_FILTERS)},cursor,limit}}",
        service.search,
        name="Search Requirements",
        values={
            "query": service.complete_queries,
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
            "kind": service.complete_kinds,
        },
        free_text={"since", "project", "kind", "cursor"},
    ),
    define("requirements://projects{?cursor,limit}", service.list_projects, name="All Projects"),
    define(
        "requirements://epics/{id}/trace{?depth,cursor,limit}",
        service.trace_epic,
        name="Trace of an Epic",
        parameter_mapping=ENTITY,
        values=_trace_values(EPIC),
    ),
    define(
        "requirements://user-stories/{id}/trace{?depth,cursor,limit}",
        service.trace_user_story,
        name="Trace of a User Story",
        parameter_mapping=ENTITY,
        values=_trace_values(USER_STORY),
    ),
    define(
        "requirements://requirements/{id}/trace{?depth,cursor,limit}",
        service.trace_requirement,
        name="Trace of a Requirement",
        parameter_mapping=ENTITY,
        values=_trace_values(REQUIREMENT),
    ),
    define(
        "requirements://acceptance-criteria/{id}/trace{?depth,cursor,limit}",
        service.trace_acceptance_criterion,
        name="Trace of an Acceptance Criterion",
        parameter_mapping=ENTITY,
        values=_trace_values(ACCEPTANCE_CRITERIA),
    ),
    define(
        "requirements://coverage{?epic,project,category,cursor,limit}",
        service.read_coverage,
        name="Coverage",
        values={
            "epic": partial(service.complete_ids, EPIC),
            "project": service.complete_projects,
            "category": service.complete_categories,
        },
        free_text={"project"},
    ),
]


async def check_database() -> None:
    """Check the requirements database. Does nothing if it is a local file.

    Raises:
        ResourceFailure: the database does not respond, or has other tables.
    """
    if current_app().settings_as(RequirementsSettings).database_url is None:
        return
    await run_in_pool("readiness", service.check_database)


REQUIREMENTS = Domain(
    name="requirements",
    resources=RESOURCES,
    listing=ListSource(find_scope, [EntityProvider(kind) for kind in KINDS], list_search_template),
    checks={"database": check_database},
    pools={"requirements": "database"},
    settings=RequirementsSettings,
)
