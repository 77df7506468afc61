"""How large a bucket is: the storage metrics that S3 sends to CloudWatch once a day."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.stack.failures import explain

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients

STORAGE_TYPES = (
    "StandardStorage",
    "IntelligentTieringFAStorage",
    "IntelligentTieringIAStorage",
    "IntelligentTieringAIAStorage",
    "IntelligentTieringAAStorage",
    "IntelligentTieringDAAStorage",
    "IntAAObjectOverhead",
    "IntAAS3ObjectOverhead",
    "IntDAAObjectOverhead",
    "IntDAAS3ObjectOverhead",
    "StandardIAStorage",
    "StandardIASizeOverhead",
    "StandardIAObjectOverhead",
    "OneZoneIAStorage",
    "OneZoneIASizeOverhead",
    "ReducedRedundancyStorage",
    "GlacierInstantRetrievalStorage",
    "GlacierInstantRetrievalSizeOverhead",
    "GlacierIRSizeOverhead",  # the former name of the one before
    "GlacierStorage",
    "GlacierStagingStorage",
    "GlacierObjectOverhead",
    "GlacierS3ObjectOverhead",
    "DeepArchiveStorage",
    "DeepArchiveStagingStorage",
    "DeepArchiveObjectOverhead",
    "DeepArchiveS3ObjectOverhead",
)
"""The values of the dimension StorageType that the S3 user guide lists, or has listed, for general purpose buckets."""
OBJECTS = "AllStorageTypes"
"""The only StorageType of NumberOfObjects."""
DAY_SECONDS = 86_400
DAYS = 14
"""How old the newest value can be. S3 sends it a day or two later."""


class BucketSize(TypedDict):
    """The size of a bucket, as S3 measures it once a day.

    It counts current and noncurrent versions, and the parts of incomplete uploads.

    Attributes:
        size: the size in bytes, the sum of all storage types; null with the reason in `size_error`.
        size_by_storage_type: the bytes of each StorageType of CloudWatch that the bucket has. A name that ends with
            Overhead is what S3 stores or bills beside the objects. Null as above.
        object_count: the number of objects, with versions, delete markers and parts; null as above.
        measured_at: the day of these values, ISO 8601 in UTC; null as above.
        size_region: the AWS region in which CloudWatch was asked; null if it was not.
        size_error: why a value is null. Quilt's roles usually lack the right cloudwatch:GetMetricData.
    """

    size: int | None
    size_by_storage_type: dict[str, int] | None
    object_count: int | None
    measured_at: str | None
    size_region: str | None
    size_error: str | None


def make_unknown_size(reason: str, region: str | None = None) -> BucketSize:
    return {
        "size": None,
        "size_by_storage_type": None,
        "object_count": None,
        "measured_at": None,
        "size_region": region,
        "size_error": reason,
    }


def ask_size(aws: "AWSClients", bucket: str) -> BucketSize:
    """Ask CloudWatch in the region in use for the newest daily values. One call, unless AWS sends them in pages."""
    try:
        region = aws.region
        values = _read_values(aws, bucket)
    except ResourceFailure as failure:
        return make_unknown_size(explain(failure))
    if values is None:
        return make_unknown_size("CloudWatch did not send all values. Repeat the call.", region)
    if not values:
        return make_unknown_size(
            f"CloudWatch in {region} has no values of the last {DAYS} days for this bucket in the AWS account of your "
            "identity: it is in another account or region, is new, or has no objects.",
            region,
        )
    newest = max(values)
    measured = values[newest]
    count = measured.pop(OBJECTS, None)
    missing = [name for name, value in (("size", measured), ("number of objects", count)) if value in ({}, None)]
    return {
        "size": sum(measured.values()) if measured else None,
        "size_by_storage_type": measured or None,
        "object_count": count,
        "measured_at": iso(newest),
        "size_region": region,
        "size_error": f"CloudWatch has no {missing[0]} of this day." if missing else None,
    }


def _read_values(aws: "AWSClients", bucket: str) -> dict[datetime, dict[str, int]] | None:
    """Return the values of each day, by storage type; None if AWS does not send all of them."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    metrics = [("BucketSizeBytes", kind) for kind in STORAGE_TYPES] + [("NumberOfObjects", OBJECTS)]
    queries = [
        {
            "Id": f"m{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/S3",
                    "MetricName": name,
                    "Dimensions": [{"Name": "BucketName", "Value": bucket}, {"Name": "StorageType", "Value": kind}],
                },
                "Period": DAY_SECONDS,
                "Stat": "Average",
            },
        }
        for number, (name, kind) in enumerate(metrics)
    ]
    kinds = {query["Id"]: kind for query, (_, kind) in zip(queries, metrics, strict=True)}
    found, status = defaultdict[datetime, dict[str, int]](dict), dict[str, str]()
    results = aws.list_items(
        "cloudwatch",
        "get_metric_data",
        "MetricDataResults",
        MetricDataQueries=queries,
        StartTime=midnight - timedelta(days=DAYS),  # CloudWatch counts days from here
        EndTime=midnight + timedelta(days=1),
    )
    for series in results:
        status[series["Id"]] = series["StatusCode"]
        for day, value in zip(series["Timestamps"], series["Values"], strict=True):
            found[day.astimezone(UTC)][kinds[series["Id"]]] = int(value)
    is_complete = status.keys() == kinds.keys() and set(status.values()) == {"Complete"}
    return dict(found) if is_complete else None
