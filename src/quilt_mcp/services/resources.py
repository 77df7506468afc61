"""The resources of the Quilt domain, and the domain itself."""

from collections.abc import Callable
from functools import partial

from mcp_types import Icon

from quilt_mcp.app import current_app
from quilt_mcp.app.domain import Command, Domain, Product
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.registry import define
from quilt_mcp.services import (
    addresses,
    api_keys,
    athena_history,
    athena_read_service,
    athena_results,
    athena_tables,
    auth_metadata,
    bucket_access,
    bucket_overview,
    bucket_workflows,
    buckets,
    changes,
    contents,
    diagnosis,
    governance_service,
    metadata_service,
    objects,
    package_search,
    packages,
    permissions_service,
    search_guide,
    tabulator_service,
)
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import Callers
from quilt_mcp.services.stack.exceptions import FAILURES
from quilt_mcp.services.tools import add_quilt_tools

ICON = (  # a patchwork of four squares. Blanks and quotes are escaped: clients check that it is a URI
    "data:image/svg+xml,%3Csvg%20xmlns=%27http://www.w3.org/2000/svg%27%20viewBox=%270%200%204%204%27%3E"
    "%3Cpath%20fill=%27%236a5acd%27%20d=%27M0%200h2v2H0zM2%202h2v2H2z%27/%3E"
    "%3Cpath%20fill=%27%23f28e2b%27%20d=%27M2%200h2v2H2zM0%202h2v2H0z%27/%3E%3C/svg%3E"
)
PRODUCT = Product("Quilt", "https://quilt.bio", [Icon(src=ICON, mime_type="image/svg+xml", sizes=["any"])])
SUMMARY = """\
Reads a Quilt stack: login, buckets (quilt://buckets/{bucket}), packages (quilt://buckets/{bucket}/packages,
quilt://search/{query}), permissions, Athena, tabulator, users and roles, package metadata, workflows. It also reads
addresses as people copy them: quilt+s3://, pages of the catalog, s3:// and S3 ARNs. The tool athena_query runs SQL
that only reads, which costs. To push packages, use quilt3 or Quilt's own tools.\
"""
STATIC_TTL_SECONDS = 3600
"""For texts of this package, which change with its version only."""
PAGES = ("cursor", "limit")
CURSOR = {"cursor"}
"""Cursors are free text: one that contains a long name has more characters than other values can have."""
PACKAGE = "quilt://buckets/{bucket}/packages/{namespace}/{name}"
OF_PACKAGE: dict[str, Callable[[str], list[str]]] = {
    "bucket": packages.list_buckets,
    "namespace": partial(packages.list_parts, 0),
    "name": partial(packages.list_parts, 1),
}

SIGNED_IN = partial(define, requires_sign_in=True)
ADMIN = partial(define, requires_admin=True)
TEXTS = partial(define, ttl_seconds=STATIC_TTL_SECONDS, shared=True)
OWN = {"namespace", "name"}
"""Other characters than those of names are refused with the form of a package's name."""

RESOURCES = [
    define("auth://status", auth_metadata.auth_status, name="Auth Status"),
    define("auth://catalog/info", auth_metadata.catalog_info, name="Catalog Info"),
    define("auth://filesystem/status", auth_metadata.filesystem_status, name="Filesystem Status"),
    SIGNED_IN(
        "athena://databases",
        athena_read_service.athena_databases_list,
        name="Athena Databases",
        parameters=PAGES,
        free_text=CURSOR,
    ),
    SIGNED_IN(
        "athena://workgroups",
        athena_read_service.athena_workgroups_list,
        name="Athena Workgroups",
        parameters=PAGES,
        free_text=CURSOR,
    ),
    SIGNED_IN(
        "athena://query/history",
        athena_read_service.athena_query_history,
        name="Athena Query History",
        parameters=("order", "status", "workgroup"),
        values={"order": athena_history.list_orders, "status": athena_history.list_statuses},
        free_text={"workgroup"},
    ),
    SIGNED_IN(
        "athena://query/{execution_id}/results{?cursor,limit}",
        athena_results.query_results_get,
        name="Athena Query Results",
        values={"execution_id": athena_history.list_executions},
        free_text=CURSOR,
        pool="aws",
    ),
    SIGNED_IN(
        "athena://databases/{database}/tables{?cursor,limit}",
        athena_tables.athena_tables_list,
        name="Athena Tables",
        values={"database": athena_tables.list_databases},
        free_text={"database", "cursor"},
    ),
    SIGNED_IN(
        "athena://databases/{database}/tables/{table}{?cursor,limit}",
        athena_tables.athena_table_get,
        name="Athena Table",
        values={"database": athena_tables.list_databases, "table": athena_tables.list_tables},
        free_text={"database", "table", "cursor"},
    ),
    ADMIN(
        "admin://users",
        governance_service.admin_users_list,
        name="Admin Users",
        parameters=("active", "role", "sort", *PAGES),
        values={"active": governance_service.list_activities, "sort": governance_service.list_user_orders},
        free_text={"role", "cursor"},
    ),
    ADMIN(
        "admin://api-keys",
        api_keys.admin_api_keys_list,
        name="Admin API Keys",
        parameters=("status", "sort", *PAGES),
        values={"status": api_keys.list_statuses, "sort": api_keys.list_orders},
        free_text=CURSOR,
    ),
    ADMIN(
        "admin://roles",
        governance_service.admin_roles_list,
        name="Admin Roles",
        parameters=("bucket", *PAGES),
        free_text=CURSOR,
    ),
    ADMIN("admin://config/sso", governance_service.admin_sso_config_get, name="Admin SSO Config"),
    ADMIN("admin://config/tabulator", governance_service.admin_tabulator_open_query_get, name="Admin Tabulator Config"),
    TEXTS("metadata://templates", metadata_service.list_metadata_templates, name="Metadata Templates"),
    TEXTS("metadata://examples", metadata_service.show_metadata_examples, name="Metadata Examples"),
    TEXTS(
        "metadata://troubleshooting", metadata_service.fix_metadata_validation_issues, name="Metadata Troubleshooting"
    ),
    TEXTS(
        "metadata://templates/{template}",
        metadata_service.get_metadata_template,
        name="Metadata Template",
        parameter_mapping={"template": "name"},
        values={"template": metadata_service.find_template_names},
    ),
    SIGNED_IN(
        "metadata://workflows/{bucket}",
        bucket_workflows.bucket_workflows_get,
        name="Bucket Workflows",
        values={"bucket": packages.list_buckets},
        pool="aws",
    ),
    SIGNED_IN(
        "permissions://discover",
        permissions_service.discover_permissions,
        name="Permissions Discovery",
        parameters=PAGES,
        free_text=CURSOR,
    ),
    SIGNED_IN(
        "permissions://recommendations", permissions_service.bucket_recommendations_get, name="Bucket Recommendations"
    ),
    SIGNED_IN(
        "permissions://buckets/{bucket}/access",
        bucket_access.bucket_access_get,
        name="Bucket Access",
        values={"bucket": bucket_access.list_stack_buckets},
    ),
    SIGNED_IN(
        "tabulator://buckets",
        tabulator_service.tabulator_buckets_list,
        name="Tabulator Buckets",
        parameters=PAGES,
        free_text=CURSOR,
    ),
    SIGNED_IN(
        "tabulator://buckets/{bucket}/tables{?cursor,limit}",
        tabulator_service.tabulator_tables_list,
        name="Tabulator Tables",
        values={"bucket": tabulator_service.list_buckets_with_tables},
        free_text=CURSOR,
    ),
    SIGNED_IN("quilt://buckets{?cursor,limit}", buckets.stack_buckets_list, name="Stack Buckets", free_text=CURSOR),
    SIGNED_IN(
        "quilt://buckets/{bucket}",
        bucket_overview.bucket_overview_get,
        name="Bucket",
        values={"bucket": packages.list_buckets},
        pool="aws",
    ),
    SIGNED_IN(
        "quilt://buckets/{bucket}/packages{?filter,order,cursor,limit}",
        packages.packages_list,
        name="Packages",
        values={"bucket": packages.list_buckets, "order": lambda _: [*packages.ORDERS]},
        free_text={"filter", "cursor"},
    ),
    SIGNED_IN(
        "quilt://buckets/{bucket}/objects{?prefix,cursor,limit}",
        objects.bucket_objects_list,
        name="Objects",
        values={"bucket": packages.list_buckets},
        free_text=CURSOR,
        keys={"prefix"},
        pool="aws",
    ),
    SIGNED_IN(
        "quilt://buckets/{bucket}/object{?key,version,cursor,limit}",
        objects.bucket_object_get,
        name="Object",
        values={"bucket": packages.list_buckets},
        free_text={"version", "cursor"},
        keys={"key"},
        pool="aws",
    ),
    SIGNED_IN(
        f"{PACKAGE}{{?revision}}",
        packages.package_get,
        name="Package",
        values=OF_PACKAGE,
        free_text=OWN,
        pool="aws",
    ),
    SIGNED_IN(
        f"{PACKAGE}/revisions{{?cursor,limit}}",
        packages.package_revisions_list,
        name="Revisions",
        values=OF_PACKAGE,
        free_text=OWN | CURSOR,
    ),
    SIGNED_IN(
        f"{PACKAGE}/changes{{?from,to,cursor,limit}}",
        changes.package_changes_get,
        name="Changes",
        parameter_mapping={"from": "older", "to": "newer"},
        values=OF_PACKAGE,
        free_text=OWN | CURSOR,
        pool="aws",
    ),
    SIGNED_IN(
        f"{PACKAGE}/contents{{?path,revision,cursor,limit}}",
        contents.package_contents_get,
        name="Contents",
        values=OF_PACKAGE,
        free_text=OWN | CURSOR,
        keys={"path"},
        pool="aws",
    ),
    TEXTS("quilt://search", search_guide.search_guide_get, name="How to Search"),
    SIGNED_IN(
        "quilt://search/{query}{?buckets,kind,cursor,limit}",
        package_search.stack_search,
        name="Search",
        values={"query": OF_PACKAGE["name"], "kind": lambda _: [*package_search.KINDS]},
        free_text={"query", "buckets", "cursor"},
        advice=package_search.ADVICE,
    ),
]


async def check_catalog() -> None:
    await run_in_pool("readiness", current_app().part(Callers).check_catalog)


QUILT = Domain(
    name="quilt",
    place=10,
    summary=SUMMARY,
    product=PRODUCT,
    add_tools=add_quilt_tools,
    diagnose=diagnosis.diagnose,
    translate=addresses.translate,
    guess=addresses.guess,
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
    modules=["quilt_mcp.services.stack.caller", "quilt_mcp.services.stack.catalog"],
    commands={
        "login": Command(
            "quilt_mcp.services.signing_in:login", "Sign in to a Quilt catalog, with a code from its page."
        ),
        "logout": Command("quilt_mcp.services.signing_in:logout", "Remove the logins to all stacks."),
    },
)
