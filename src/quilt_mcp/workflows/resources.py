"""The workflow domain: its resources, tools and readiness check."""

from importlib import import_module

from quilt_mcp.app import checks, current_app
from quilt_mcp.app.checks import Check
from quilt_mcp.app.domain import Ask, Domain
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.registry import define
from quilt_mcp.workflows import service
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.settings import FILE_NAME, WorkflowSettings
from quilt_mcp.workflows.tools import add_workflow_tools

RESOURCES = [
    define(
        "workflow://workflows",
        service.workflow_list_all,
        name="Workflows",
        parameters=("status", "cursor", "limit"),
        values={"status": service.list_statuses},
        free_text={"cursor"},
    ),
    define(
        "workflow://workflows/{workflow_id}/status",
        service.workflow_get_status,
        name="Workflow Status",
        parameter_mapping={"workflow_id": "id"},
        values={"workflow_id": lambda _: service.workflow_ids()},
    ),
]


async def diagnose(ask: Ask) -> list[Check]:
    """Return the line of the database in the checklist of `quilt-mcp doctor`; none if there is no database."""
    settings = current_app().settings_as(WorkflowSettings)
    if settings.workflows_url is None and not (settings.data_dir / FILE_NAME).exists():
        return []
    return [checks.check_database("workflow database", await ask("workflow://workflows"))]


async def check_database() -> None:
    """Check the database in which machines share workflows. Does nothing if workflows are in a file."""
    await run_in_pool("readiness", current_app().part(Workflows).check)


WORKFLOWS = Domain(
    name="workflows",
    place=20,
    summary="Keeps workflows across conversations: workflow://workflows, and tools that change them.",
    fill_demo=lambda scene: import_module("quilt_mcp.workflows.sample").fill_demo(scene),  # it imports SQLAlchemy
    resources=RESOURCES,
    add_tools=add_workflow_tools,
    checks={"workflows": check_database},
    diagnose=diagnose,
    modules=["quilt_mcp.workflows.store"],
    pools={"workflow": "database"},
    settings=WorkflowSettings,
)
