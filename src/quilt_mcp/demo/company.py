"""The two companies that a demo world can hold: one that uses Quilt every day, and one that has just installed it."""

from quilt_mcp.demo.data_lake import BUCKETS, DATABASES, PRIMARY, QUERIES, WORK_GROUPS
from quilt_mcp.demo.people import ADMIN, ROLES, SSO, USERS
from quilt_mcp.demo.records import Company, Role, Step, User, Workflow

WORKFLOWS = (
    Workflow(
        "run-250519-intake",
        "Intake of run 250519",
        "Bring one sequencing run from the instrument into the catalog.",
        (
            Step("copy", "Copy the run's files to acme-raw-sequencing", (), ("in_progress", "completed")),
            Step("validate", "Check the files against the sample sheet", ("copy",), ("in_progress", "completed")),
            Step("package", "Push the package runs/250519", ("validate",), ("in_progress", "completed")),
        ),
    ),
    Workflow(
        "quarterly-aggregation",
        "Quarterly aggregation",
        "Aggregate the quarter's runs into one package of results.",
        (
            Step("select-runs", "Choose the runs of the quarter", (), ("in_progress", "completed"), "14 runs chosen"),
            Step("quality-check", "Drop samples below Q30", ("select-runs",), ("in_progress", "completed")),
            Step("aggregate", "Merge the gene counts", ("quality-check",), ("in_progress",), "9 of 14 runs merged"),
            Step("compare", "Compare with the last quarter", ("aggregate",)),
            Step("publish", "Push the package rnaseq/quarterly", ("aggregate", "compare")),
        ),
    ),
)

ACME = Company(
    "acme",
    USERS,
    ROLES,
    "Researcher",
    BUCKETS,
    DATABASES,
    WORK_GROUPS,
    QUERIES,
    WORKFLOWS,
    sso=SSO,
    open_query=True,
)

EMPTY = Company(
    "acme",
    (User(ADMIN, "2023-01-09T08:30:00Z", "2023-01-09T08:30:00Z", "Administrators", is_admin=True),),
    (Role("Administrators", runs_queries_in=("primary",), lists_account=True),),
    "Administrators",
    work_groups=(PRIMARY,),
)
