"""CloudWatch in the fake account: rights, regions, days, and the storage types of a bucket."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from botocore.exceptions import ClientError

from quilt_mcp.demo.company import ACME
from quilt_mcp.demo.moto_gaps.cloudwatch import ARCHIVE_INDEX, ARCHIVE_NAME
from quilt_mcp.demo.records import Statement
from tests.demo.test_fake_athena_glue import find_error
from tests.demo.test_fake_glue_rights import enter_account, give_rights

RESULTS, IMAGING, PARTNER = "acme-analysis-results", "acme-imaging-eu", "acme-partner-exchange"
NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
MIDNIGHT = NOW.replace(hour=0)


@pytest.fixture
def cloudwatch(request: pytest.FixtureRequest) -> Iterator[Any]:
    action = getattr(request, "param", "cloudwatch:GetMetricData")
    with time_machine.travel(NOW, tick=False):
        for open_client in enter_account(give_rights(Statement((action,)))):
            yield open_client("cloudwatch")


def make_query(bucket: str, kind: str, name: str = "BucketSizeBytes", **stat: object) -> dict[str, object]:
    dimensions = [{"Name": "StorageType", "Value": kind}, {"Name": "BucketName", "Value": bucket}]
    metric = {"Namespace": "AWS/S3", "MetricName": name, "Dimensions": dimensions}
    return {"Id": f"m_{kind}", "MetricStat": {"Metric": metric, "Period": 86_400, "Stat": "Average"} | stat}


def ask(cloudwatch: Any, *queries: Mapping[str, object], start: datetime, end: datetime) -> dict[str, Any]:
    """Return the results by their ids."""
    found = cloudwatch.get_metric_data(MetricDataQueries=queries, StartTime=start, EndTime=end)
    assert {one["StatusCode"] for one in found["MetricDataResults"]} == {"Complete"}
    return {one["Id"]: one for one in found["MetricDataResults"]}


@pytest.mark.parametrize("cloudwatch", ["monitoring:*", "s3:*", "cloudwatch:ListMetrics"], indirect=True)
def test_the_right_has_the_name_of_cloudwatch(cloudwatch: Any) -> None:
    with pytest.raises(ClientError) as caught:
        ask(cloudwatch, make_query(RESULTS, "StandardStorage"), start=MIDNIGHT - DAY, end=NOW)
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    assert "because no identity-based policy allows the cloudwatch:GetMetricData action" in str(caught.value)


def test_each_storage_type_of_a_bucket_has_its_own_values(cloudwatch: Any) -> None:
    kinds = (
        "StandardStorage",
        "GlacierStorage",
        "GlacierObjectOverhead",
        "GlacierS3ObjectOverhead",
        "OneZoneIAStorage",
    )
    found = ask(cloudwatch, *(make_query(RESULTS, kind) for kind in kinds), start=MIDNIGHT - DAY, end=MIDNIGHT)
    values = {kind: found[f"m_{kind}"]["Values"] for kind in kinds}
    bucket = next(one for one in ACME.buckets if one.name == RESULTS)
    archived = [one for one in bucket.versions if one.storage_class == "GLACIER"]
    assert archived
    assert values["GlacierStorage"] == [sum(len(one.content or b"") for one in archived)]
    assert values["GlacierObjectOverhead"] == [ARCHIVE_INDEX * len(archived)]
    assert values["GlacierS3ObjectOverhead"] == [ARCHIVE_NAME * len(archived)]
    assert values["OneZoneIAStorage"] == []
    assert values["StandardStorage"][0] > 0


def test_the_newest_value_is_that_of_yesterday(cloudwatch: Any) -> None:
    query = make_query(RESULTS, "AllStorageTypes", "NumberOfObjects")
    found = ask(cloudwatch, query, start=MIDNIGHT - 3 * DAY, end=MIDNIGHT + DAY)["m_AllStorageTypes"]
    assert found["Timestamps"] == [MIDNIGHT - DAY, MIDNIGHT - 2 * DAY, MIDNIGHT - 3 * DAY]
    assert len(set(found["Values"])) == 1
    since_noon = ask(cloudwatch, query, start=NOW - 3 * DAY, end=NOW)["m_AllStorageTypes"]
    assert since_noon["Timestamps"] == [NOW - 2 * DAY, NOW - 3 * DAY]
    before = datetime(2022, 1, 1, tzinfo=UTC)  # the bucket is younger
    assert ask(cloudwatch, query, start=before, end=before + 9 * DAY)["m_AllStorageTypes"]["Values"] == []


@pytest.mark.parametrize("bucket", [IMAGING, PARTNER, "acme-nowhere"])
def test_other_regions_and_accounts_have_no_values(bucket: str, cloudwatch: Any) -> None:
    found = ask(cloudwatch, make_query(bucket, "StandardStorage"), start=MIDNIGHT - DAY, end=NOW)
    assert found["m_StandardStorage"]["Values"] == []


@pytest.mark.parametrize(
    "queries",
    [
        [make_query(RESULTS, "StandardStorage") | {"Id": "Upper"}],
        [make_query(RESULTS, "StandardStorage")] * 2,
        [make_query(RESULTS, "StandardStorage", Stat="Sum")],
        [make_query(RESULTS, "StandardStorage", Period=3600)],
        [{"Id": "e1", "Expression": "SUM(METRICS())"}],
    ],
    ids=["id", "same id", "statistic", "period", "expression"],
)
def test_what_the_fake_does_not_know_is_refused(queries: list[dict[str, object]], cloudwatch: Any) -> None:
    given = {"MetricDataQueries": queries, "StartTime": MIDNIGHT - DAY, "EndTime": NOW}
    assert find_error(partial(cloudwatch.get_metric_data, **given))["Code"] == "ValidationError"
    turned = {"MetricDataQueries": [make_query(RESULTS, "StandardStorage")], "StartTime": NOW, "EndTime": NOW - DAY}
    assert find_error(partial(cloudwatch.get_metric_data, **turned))["Code"] == "ValidationError"
