"""The companies of the demo worlds: one that uses Quilt every day, one that has just installed it, and another one."""

from dataclasses import replace

from quilt_mcp.commands.demo import graphql
from quilt_mcp.commands.demo.data_lake import BUCKETS, DATABASES, PRIMARY, QUERIES, WORK_GROUPS
from quilt_mcp.commands.demo.people import ADMIN, ROLES, SSO, SWITCHED_USERS, USERS
from quilt_mcp.commands.demo.records import Company, Policy, Role, Step, User, Workflow

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

SWITCHED = replace(ACME, users=SWITCHED_USERS)
"""The company after the administrator has switched to another of their roles in the catalog."""

NEW_ROLE_TYPE = replace(
    ACME,
    roles=tuple(
        replace(role, kind=graphql.NEW_ROLE_TYPE) if role.name == ACME.find_user(ADMIN).role else role
        for role in ACME.roles
    ),
)
"""The company with a stack that describes the role of the administrator in a new way. Its rights are the same."""

NORTHWIND = Company(
    "northwind",
    (User(ADMIN, "2024-03-04T10:00:00Z", "2025-05-20T09:00:00Z", "Analyst"),),
    (Role("Analyst", (Policy("Exchange", {"acme-partner-exchange": "READ_WRITE"}),), runs_queries_in=("primary",)),),
    "Analyst",
)
"""Another company. The administrator also uses its stack. Its roles are in the same AWS account."""
