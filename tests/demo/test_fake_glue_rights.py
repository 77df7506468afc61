"""Rights on the databases and tables of Glue and on data catalogs, where the administrator has few rights."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

from quilt_mcp.demo.aws import open_account
from quilt_mcp.demo.company import ACME
from quilt_mcp.demo.records import Column, Company, Role, Statement, Table
from tests.demo.test_fake_athena_glue import find_error

SEQUENCING = "acme_sequencing"
GLUE = "arn:aws:glue:us-east-1:123456789012"


def enter_account(company: Company) -> Iterator[Any]:
    """Yield a function that creates clients for the administrator."""
    with open_account(company) as account:
        keys = account.credentials(company.find_user("amara_osei"))
        given = (keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], "us-east-1")
        session = boto3.Session(*given)
        yield session.client


@pytest.fixture
def open_as(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield from enter_account(request.param)


def give_rights(*statements: Statement) -> Company:
    """Return the company; its administrator has no other rights than these."""
    role = Role("Own", external_arn="arn:aws:iam::123456789012:role/own", statements=statements)
    users = tuple(replace(user, role="Own") for user in ACME.users if user.name == "amara_osei")
    return replace(ACME, users=users, roles=(role,))


def make_large_database(count: int) -> Company:
    column = (Column("id", "string"),)
    tables = tuple(Table(f"t{number:04}", "2024-01-08T09:00:00Z", column) for number in range(count))
    company = give_rights(Statement(("glue:*",)))
    return replace(company, databases=(replace(ACME.databases[0], tables=tables),))


@pytest.mark.parametrize(
    ("open_as", "full"),
    [(make_large_database(201), 2), pytest.param(make_large_database(1001), 10, marks=pytest.mark.soak)],
    indirect=["open_as"],
    ids=["201", "1001"],
)
def test_pages_of_tables_have_100_but_the_last(open_as: Any, full: int) -> None:
    pages = open_as("glue").get_paginator("get_tables").paginate(DatabaseName=SEQUENCING)
    assert [len(page["TableList"]) for page in pages] == [100] * full + [1]


READ = ("glue:GetTable", "glue:GetTables")
LEVELS = (f"{GLUE}:catalog", f"{GLUE}:database/{SEQUENCING}", f"{GLUE}:table/{SEQUENCING}/*")


@pytest.mark.parametrize(
    ("open_as", "refused"),
    [(give_rights(Statement(READ, LEVELS[:count])), LEVELS[count : count + 1]) for count in (1, 2, 3)],
    indirect=["open_as"],
)
def test_tables_need_rights_on_the_catalog_the_database_and_the_table(open_as: Any, refused: tuple[str, ...]) -> None:
    glue = open_as("glue")
    calls: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
        "GetTables": (lambda: glue.get_tables(DatabaseName=SEQUENCING), refused),
        "GetTable": (
            lambda: glue.get_table(DatabaseName=SEQUENCING, Name="run_metrics"),
            tuple(arn.replace("/*", "/run_metrics") for arn in refused),
        ),
    }
    for action, (call, arns) in calls.items():
        if arns:
            assert find_error(call) == {
                "Code": "AccessDeniedException",
                "Message": "User: arn:aws:sts::123456789012:assumed-role/own/amara_osei is not authorized to perform: "
                f"glue:{action} on resource: {arns[0]} because no identity-based policy allows the glue:{action} "
                "action",
            }
        else:
            call()


@pytest.mark.parametrize(
    "open_as",
    [give_rights(Statement(("athena:GetDataCatalog",), ("arn:aws:athena:*:*:datacatalog/other",)))],
    indirect=True,
)
def test_a_data_catalog_needs_a_right_on_it(open_as: Any) -> None:
    athena = open_as("athena")
    assert find_error(lambda: athena.get_data_catalog(Name="other"))["Code"] == "InvalidRequestException"  # has none
    refused = find_error(lambda: athena.get_data_catalog(Name="quilt-acme-tabulator"))
    assert refused["Code"] == "AccessDeniedException"
