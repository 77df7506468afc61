"""The workflow domain: its resources, tools and readiness check."""

from importlib import import_module

from quilt_mcp.app import current_app
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.registry import define
from quilt_mcp.workflows import service
from quilt_mcp.workflows.service import Workflows
from quilt_mcp.workflows.settings import WorkflowSettings
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
    pools={"workflow": "database"},
    settings=WorkflowSettings,
)
