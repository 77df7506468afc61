"""The rights, the tables and the quotas of Athena and Glue in the worlds of AWS, seen with plain boto3."""

from collections.abc import Callable
from typing import Any

import pytest
import quilt3
from botocore.config import Config
from botocore.exceptions import ClientError

from quilt_mcp.demo.world import World
from tests.support.worlds import in_world
from tests.worlds.limits import Throttle

SEQUENCING = "acme_sequencing"
ONE_TRY = Config(retries={"mode": "standard", "total_max_attempts": 1})


def create_client(service: str) -> Any:
    return quilt3.get_boto3_session().client(service, config=ONE_TRY)


def find_error(call: Callable[[], object]) -> dict[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    return dict(caught.value.response["Error"])


@pytest.fixture
def glue(world: World) -> Any:
    del world
    return create_client("glue")


@pytest.fixture
def athena(world: World) -> Any:
    del world
    return create_client("athena")


@in_world("admin")
class TestTables:
    def test_a_view_has_an_empty_location(self, glue: Any) -> None:
        view = glue.get_table(DatabaseName=SEQUENCING, Name="runs_below_q30")["Table"]
        assert (view["TableType"], view["StorageDescriptor"]["Location"]) == ("VIRTUAL_VIEW", "")
        assert (view["PartitionKeys"], view.get("Description")) == ([], "Runs with samples below Q30")

    def test_unknown_names_are_not_found(self, glue: Any) -> None:
        for call in (
            lambda: glue.get_database(Name="nowhere"),
            lambda: glue.get_tables(DatabaseName="nowhere"),
            lambda: glue.get_table(DatabaseName=SEQUENCING, Name="nothing"),
        ):
            assert find_error(call)["Code"] == "EntityNotFoundException"

    def test_lists_have_pages(self, glue: Any) -> None:
        pages = glue.get_paginator("get_databases").paginate(PaginationConfig={"PageSize": 3})
        assert [len(page["DatabaseList"]) for page in pages] == [3, 2]
        pages = glue.get_paginator("get_tables").paginate(DatabaseName=SEQUENCING, PaginationConfig={"PageSize": 2})
        assert [len(page["TableList"]) for page in pages] == [2, 1]
        assert find_error(lambda: glue.get_databases(MaxResults=101))["Code"] == "InvalidInputException"


@in_world("glue_denied")
class TestGlueDenied:
    def test_the_rest_of_athena_works(self, athena: Any) -> None:
        assert athena.list_databases(CatalogName="quilt-acme-tabulator")["DatabaseList"]
        assert athena.list_work_groups()["WorkGroups"]

    def test_athenas_own_refusal_names_the_action_but_no_user(self, athena: Any) -> None:
        error = find_error(lambda: athena.get_work_group(WorkGroup="primary"))
        assert error["Code"] == "AccessDeniedException"
        assert error["Message"].startswith("You are not authorized to perform: athena:GetWorkGroup on the resource.")


def count_admitted(throttle: Throttle, operation: str, calls: int) -> int:
    return sum(throttle.admit(operation) for _ in range(calls))


def test_a_quota_has_a_burst_and_then_a_rate() -> None:
    seconds = [0.0]
    throttle = Throttle(lambda: seconds[0])
    assert count_admitted(throttle, "ListQueryExecutions", 30) == 10
    assert count_admitted(throttle, "BatchGetQueryExecution", 60) == 40
    seconds[0] = 0.4
    assert count_admitted(throttle, "ListQueryExecutions", 30) == 2
    seconds[0] = 1000
    assert count_admitted(throttle, "ListQueryExecutions", 30) == 10


def list_until_refused(athena: Any, groups: list[str]) -> None:
    for group in groups:
        athena.list_query_executions(WorkGroup=group)


@in_world("athena_throttled")
class TestThrottled:
    def test_too_many_calls_are_refused(self, athena: Any, world: World) -> None:
        assert len(world.company.work_groups) == 60
        world.account.behaviour.admits = Throttle().admit  # other tests of this world have used its burst
        groups = [group.name for group in world.company.work_groups]
        for group in groups[:10]:
            athena.list_query_executions(WorkGroup=group)
        with pytest.raises(ClientError) as caught:
            list_until_refused(athena, groups[10:])
        assert caught.value.response["Error"] == {"Code": "ThrottlingException", "Message": "Rate exceeded"}
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


@in_world("admin")
def test_other_worlds_have_no_quotas(athena: Any) -> None:
    for _ in range(50):
        athena.list_query_executions(WorkGroup="primary")
