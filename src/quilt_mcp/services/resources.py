"""The resources of the Quilt domain, and the domain itself."""

from quilt_mcp.app import current_app
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.registry import define
from quilt_mcp.services import (
    athena_read_service,
    athena_tables,
    auth_metadata,
    governance_service,
    metadata_service,
    package_search,
    packages,
    permissions_service,
    tabulator_service,
)
from quilt_mcp.services import buckets as stack_buckets
from quilt_mcp.services import metadata_service as package_workflows
from quilt_mcp.services import permissions_service as one_bucket
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import Callers
from quilt_mcp.services.stack.failures import FAILURES

STATIC_TTL_SECONDS = 3600
"""For texts of this package, which change with its version only."""
PAGES = ("cursor", "limit")
"""Cursors are free text: one that contains a long name has more characters than other values can have."""
PACKAGE = "quilt://buckets/{bucket}/packages/{namespace}/{name}"
OF_PACKAGE = {
    "bucket": packages.list_buckets,
    "namespace": packages.list_namespaces,
    "name": packages.list_names,
}

RESOURCES = [
    define("auth://status", auth_metadata.auth_status, name="Auth Status"),
    define("auth://catalog/info", auth_metadata.catalog_info, name="Catalog Info"),
    define("auth://filesystem/status", auth_metadata.filesystem_status, name="Filesystem Status"),
    define(
        "athena://databases", athena_read_service.athena_databases_list, name="Athena Databases", requires_sign_in=True
    ),
    define(
        "athena://workgroups",
        athena_read_service.athena_workgroups_list,
        name="Athena Workgroups",
        requires_sign_in=True,
    ),
    define(
        "athena://query/history",
        athena_read_service.athena_query_history,
        name="Athena Query History",
        requires_sign_in=True,
    ),
    define(
        "athena://databases/{database}/tables{?cursor,limit}",
        athena_tables.athena_tables_list,
        name="Athena Tables",
        requires_sign_in=True,
        values={"database": athena_tables.list_databases},
        free_text={"database", "cursor"},
    ),
    define(
        "athena://databases/{database}/tables/{table}",
        athena_tables.athena_table_get,
        name="Athena Table",
        requires_sign_in=True,
        values={"database": athena_tables.list_databases, "table": athena_tables.list_tables},
        free_text={"database", "table"},
    ),
    define(
        "admin://users",
        governance_service.admin_users_list,
        parameters=PAGES,
        free_text={"cursor"},
        name="Admin Users",
        requires_admin=True,
    ),
    define(
        "admin://roles",
        governance_service.admin_roles_list,
        parameters=("bucket", *PAGES),
        free_text={"cursor"},
        name="Admin Roles",
        requires_admin=True,
    ),
    define("admin://config/sso", governance_service.admin_sso_config_get, name="Admin SSO Config", requires_admin=True),
    define(
        "admin://config/tabulator",
        governance_service.admin_tabulator_open_query_get,
        name="Admin Tabulator Config",
        requires_admin=True,
    ),
    define(
        "metadata://templates",
        metadata_service.list_metadata_templates,
        name="Metadata Templates",
        ttl_seconds=STATIC_TTL_SECONDS,
        shared=True,
    ),
    define(
        "metadata://examples",
        metadata_service.show_metadata_examples,
        name="Metadata Examples",
        ttl_seconds=STATIC_TTL_SECONDS,
        shared=True,
    ),
    define(
        "metadata://troubleshooting",
        metadata_service.fix_metadata_validation_issues,
        name="Metadata Troubleshooting",
        ttl_seconds=STATIC_TTL_SECONDS,
        shared=True,
    ),
    define(
        "metadata://templates/{template}",
        metadata_service.get_metadata_template,
        name="Metadata Template",
        parameter_mapping={"template": "name"},
        values={"template": metadata_service.find_template_names},
        ttl_seconds=STATIC_TTL_SECONDS,
        shared=True,
    ),
    define(
        "metadata://workflows/{bucket}",
        package_workflows.bucket_workflows_get,
        name="Bucket Workflows",
        requires_sign_in=True,
        values={"bucket": packages.list_buckets},
    ),
    define(
        "permissions://discover",
        permissions_service.discover_permissions,
        parameters=PAGES,
        free_text={"cursor"},
        name="Permissions Discovery",
        requires_sign_in=True,
    ),
    define(
        "permissions://recommendations",
        permissions_service.bucket_recommendations_get,
        name="Bucket Recommendations",
        requires_sign_in=True,
    ),
    define(
        "permissions://buckets/{bucket}/access",
        one_bucket.bucket_access_get,
        name="Bucket Access",
        requires_sign_in=True,
        values={"bucket": one_bucket.list_stack_buckets},
    ),
    define(
        "tabulator://buckets", tabulator_service.tabulator_buckets_list, name="Tabulator Buckets", requires_sign_in=True
    ),
    define(
        "tabulator://buckets/{bucket}/tables{?cursor,limit}",
        tabulator_service.tabulator_tables_list,
        name="Tabulator Tables",
        requires_sign_in=True,
        values={"bucket": tabulator_service.list_buckets_with_tables},
        free_text={"cursor"},
    ),
    define(
        "quilt://buckets{?cursor,limit}",
        stack_buckets.stack_buckets_list,
        name="Stack Buckets",
        requires_sign_in=True,
        free_text={"cursor"},
    ),
    define(
        "quilt://buckets/{bucket}/packages{?filter,order}",
        packages.packages_list,
        parameters=PAGES,
        name="Packages",
        requires_sign_in=True,
        values={"bucket": packages.list_buckets},
        free_text={"filter", "cursor"},
    ),
    define(
        f"{PACKAGE}{{?revision}}",
        packages.package_get,
        name="Package",
        requires_sign_in=True,
        values=OF_PACKAGE,
        free_text={"namespace", "name"},
    ),
    define(
        f"{PACKAGE}/revisions",
        packages.package_revisions_list,
        parameters=PAGES,
        name="Revisions",
        requires_sign_in=True,
        values=OF_PACKAGE,
        free_text={"namespace", "name", "cursor"},
    ),
    define(
        f"{PACKAGE}/contents{{?path,revision}}",
        packages.package_contents_get,
        parameters=PAGES,
        name="Contents",
        requires_sign_in=True,
        values=OF_PACKAGE,
        free_text={"namespace", "name", "path", "cursor"},
    ),
    define(
        "quilt://search/{query}{?buckets,kind}",
        package_search.stack_search,
        parameters=PAGES,
        name="Search",
        requires_sign_in=True,
        values={"query": packages.list_names},
        free_text={"query", "buckets", "cursor"},
    ),
]


async def check_catalog() -> None:
    """Check that the Quilt catalog responds.

    Raises:
        ResourceFailure: it does not.
    """
    await run_in_pool("readiness", current_app().part(Callers).check_catalog)


QUILT = Domain(
    name="quilt",
    resources=RESOURCES,
    failures=FAILURES,
    checks={"catalog": check_catalog},
    pools={
        "auth": "stack",
        "admin": "stack",
        "tabulator": "stack",
        "quilt": "stack",
        "athena": "aws",
        "permissions": "aws",
    },
    settings=QuiltSettings,
)
