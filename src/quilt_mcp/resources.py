"""Every resource of the server: the one table, and its two surfaces.

Adding a resource is one service function and one row here; then `make mcp-list golden`, and read the new goldens.
"""

from fastmcp import FastMCP

from quilt_mcp import runtime_context
from quilt_mcp.admission import admitted
from quilt_mcp.analysis import security_resource, server_resources
from quilt_mcp.boundary import translate
from quilt_mcp.listing import Listing
from quilt_mcp.manager import ResourceManager, Values
from quilt_mcp.page_cache import PageCache
from quilt_mcp.registry import ResourceDefinition, define, registry_of
from quilt_mcp.requirements import providers
from quilt_mcp.requirements import service as requirements
from quilt_mcp.services import (
    athena_read_service,
    auth_metadata,
    governance_service,
    metadata_service,
    permissions_service,
    tabulator_service,
    workflow_service,
)
from quilt_mcp.surfaces import add_surfaces

ENTITY = {"id": "entity_id"}

RESOURCE_REGISTRY: dict[str, ResourceDefinition] = registry_of(
    [
        define("auth://status", auth_metadata.auth_status, name="Auth Status"),
        define("auth://catalog/info", auth_metadata.catalog_info, name="Catalog Info"),
        define("auth://filesystem/status", auth_metadata.filesystem_status, name="Filesystem Status"),
        define("athena://databases", athena_read_service.athena_databases_list, name="Athena Databases"),
        define("athena://workgroups", athena_read_service.athena_workgroups_list, name="Athena Workgroups"),
        define("athena://query/history", athena_read_service.athena_query_history, name="Athena Query History"),
        define("admin://users", governance_service.admin_users_list, name="Admin Users", requires_admin=True),
        define("admin://roles", governance_service.admin_roles_list, name="Admin Roles", requires_admin=True),
        define(
            "admin://config/sso", governance_service.admin_sso_config_get, name="Admin SSO Config", requires_admin=True
        ),
        define(
            "admin://config/tabulator",
            governance_service.admin_tabulator_open_query_get,
            name="Admin Tabulator Config",
            requires_admin=True,
        ),
        define("metadata://templates", metadata_service.list_metadata_templates, name="Metadata Templates"),
        define("metadata://examples", metadata_service.show_metadata_examples, name="Metadata Examples"),
        define(
            "metadata://troubleshooting",
            metadata_service.fix_metadata_validation_issues,
            name="Metadata Troubleshooting",
        ),
        define(
            "metadata://templates/{template}",
            metadata_service.get_metadata_template,
            name="Metadata Template",
            parameter_mapping={"template": "name"},
        ),
        define("permissions://discover", permissions_service.discover_permissions, name="Permissions Discovery"),
        define(
            "permissions://recommendations",
            permissions_service.bucket_recommendations_get,
            name="Bucket Recommendations",
        ),
        define("tabulator://buckets", tabulator_service.tabulator_buckets_list, name="Tabulator Buckets"),
        define("workflow://workflows", workflow_service.workflow_list_all, name="Workflows"),
        define(
            "workflow://workflows/{workflow_id}/status",
            workflow_service.workflow_get_status,
            name="Workflow Status",
            parameter_mapping={"workflow_id": "id"},
        ),
        define("requirements://epics{?cursor,limit}", requirements.epics, name="All Epics"),
        define("requirements://user-stories{?cursor,limit}", requirements.user_stories, name="All User Stories"),
        define("requirements://requirements{?cursor,limit}", requirements.requirements, name="All Requirements"),
        define(
            "requirements://acceptance-criteria{?cursor,limit}",
            requirements.acceptance_criteria,
            name="All Acceptance Criteria",
        ),
        define(
            "requirements://requirements-types{?cursor,limit}",
            requirements.requirement_types,
            name="All Requirement Types",
        ),
        define("requirements://epics/{id}", requirements.epic, name="Epic", parameter_mapping=ENTITY),
        define(
            "requirements://user-stories/{id}", requirements.user_story, name="User Story", parameter_mapping=ENTITY
        ),
        define(
            "requirements://requirements/{id}", requirements.requirement, name="Requirement", parameter_mapping=ENTITY
        ),
        define(
            "requirements://acceptance-criteria/{id}",
            requirements.acceptance_criterion,
            name="Acceptance Criterion",
            parameter_mapping=ENTITY,
        ),
        define(
            "requirements://epics/{id}/hierarchy",
            requirements.epic_hierarchy,
            name="Epic Hierarchy",
            parameter_mapping=ENTITY,
        ),
        define(
            "requirements://epics/{id}/user-stories{?cursor,limit}",
            requirements.epic_user_stories,
            name="User Stories of an Epic",
            parameter_mapping=ENTITY,
        ),
        define(
            "requirements://user-stories/{id}/requirements{?cursor,limit}",
            requirements.user_story_requirements,
            name="Requirements of a User Story",
            parameter_mapping=ENTITY,
        ),
        define(
            "requirements://user-stories/{id}/acceptance-criteria{?cursor,limit}",
            requirements.user_story_acceptance_criteria,
            name="Acceptance Criteria of a User Story",
            parameter_mapping=ENTITY,
        ),
        define(
            "requirements://requirements/{id}/relationships",
            requirements.requirement_relationships,
            name="Requirement Relationships",
            parameter_mapping=ENTITY,
        ),
        define("requirements://search/{query}{?cursor,limit}", requirements.search, name="Search Requirements"),
        define("config://security", security_resource.security, name="Security Configuration"),
        define("config://server", server_resources.server_config, name="Server Configuration"),
        define("info://capabilities", server_resources.capabilities, name="Server Capabilities"),
    ]
)

VARIABLE_VALUES: dict[str, Values] = {
    "template": lambda _template, _prefix: metadata_service.template_names(),
    "id": requirements.reference_ids,
    "query": requirements.queries,
    "workflow_id": lambda _template, _prefix: workflow_service.workflow_ids(),
}


MANAGER = ResourceManager(
    RESOURCE_REGISTRY,
    deadline=lambda: runtime_context.settings().deadline_seconds,
    translate=translate,
    variable_values=VARIABLE_VALUES,
    free_text={"query"},
    admit=admitted,
)

LISTING = Listing(
    [
        providers.EpicProvider(),
        providers.UserStoryProvider(),
        providers.RequirementProvider(),
        providers.AcceptanceCriteriaProvider(),
        providers.SearchProvider(),
    ],
    scope=providers.scope,
    page_size=lambda: runtime_context.settings().list_page_size,
    seconds=lambda: runtime_context.settings().list_provider_seconds,
    translate=translate,
    cache=PageCache(lambda: runtime_context.settings().cache_ttl),
    is_cached=lambda: runtime_context.settings().enable_caching,
    generation=providers.generation,
)


def register_resources(mcp: FastMCP) -> None:
    """Offer every resource on both surfaces of this server: `resources/read`, and the tool `get_resource`."""
    add_surfaces(mcp, MANAGER)
