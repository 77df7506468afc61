"""CloudWatch: the daily storage metrics of S3.

| request                         | moto                       | AWS, and here                                      |
|---------------------------------|----------------------------|----------------------------------------------------|
| metrics of a bucket             | in every region            | in the region of the bucket                        |
| BucketSizeBytes                 | one type, a made-up size   | for each storage type that the bucket has          |
| archived objects                | one type                   | with the overhead that S3 and Glacier store        |
| noncurrent versions             | are not counted            | are counted, as delete markers are in the number   |
| the newest day                  | today                      | yesterday: S3 sends the values of a day after it   |
| an error in JSON                | has the code of JSON       | and in a header that of the query protocol         |
| a bucket without objects        | 0                          | no values                                          |
| an id in another form, or twice | accepted                   | ValidationError                                    |

Not here: other metrics, other statistics than the average, other periods than a day, and expressions: they are refused
with ValidationError. What is stored now counts for all days since the bucket was created.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionResult
from moto.s3.models import FakeBucket, FakeKey, s3_backends

from quilt_mcp.demo.moto_gaps.refusals import Behaving

PARTITION = "aws"
DAY = timedelta(days=1)
ID = re.compile("[a-z][A-Za-z0-9_]*")
MAX_QUERIES = 500
ARCHIVE_INDEX, ARCHIVE_NAME = 32 * 1024, 8 * 1024
"""What S3 stores beside an archived object, in bytes."""
QUERY_ERROR = "x-amzn-query-error"
QUERY_CODES = {
    "AccessDeniedException": "AccessDenied",
    "ExpiredTokenException": "ExpiredToken",
    "UnrecognizedClientException": "InvalidClientTokenId",
}
"""The codes that errors had before CloudWatch spoke JSON. Clients show these."""
STORAGE_TYPES = {"GLACIER": "Glacier", "DEEP_ARCHIVE": "DeepArchive"}

Metric = tuple[str, str]
"""The name of a metric, and its dimension StorageType."""


class CloudWatchAnswers(Behaving, CloudWatchResponse):
    """CloudWatch, with the responses of AWS."""

    def call_action(self) -> TYPE_RESPONSE:
        status, headers, body = super().call_action()
        if status >= HTTPStatus.BAD_REQUEST and "X-Amz-Target" in self.headers and QUERY_ERROR not in headers:
            code = str(json.loads(body)["__type"])
            headers = {**headers, QUERY_ERROR: f"{QUERY_CODES.get(code, code)};Sender"}
        return status, headers, body

    def get_metric_data(self) -> ActionResult:
        given = self._get_params()
        queries = given.get("MetricDataQueries", [])
        ids = [query["Id"] for query in queries]
        if not 0 < len(ids) <= MAX_QUERIES or len(set(ids)) < len(ids) or not all(map(ID.fullmatch, ids)):
            raise ValidationError("The ids of the queries are not valid.")
        start, end = (_read_time(given[name]) for name in ("StartTime", "EndTime"))
        if start >= end:
            raise ValidationError("The parameter StartTime must be less than the parameter EndTime.")
        results = []
        for query in queries:
            stat = query.get("MetricStat")
            if stat is None or (stat["Stat"], int(stat["Period"])) != ("Average", DAY.total_seconds()):
                raise ValidationError("Only daily averages are known here.")
            dimensions = {one["Name"]: one["Value"] for one in stat["Metric"]["Dimensions"]}
            metric = stat["Metric"]["MetricName"], dimensions.get("StorageType", "")
            bucket = self._find_bucket(dimensions.get("BucketName", ""))
            value = measure(bucket).get(metric) if bucket and stat["Metric"]["Namespace"] == "AWS/S3" else None
            days = [day for day in _list_days(bucket) if start <= day < end] if bucket and value is not None else []
            times = [start + (day - start) // DAY * DAY for day in days]  # periods are counted from the start
            values = {"Timestamps": times, "Values": [float(value or 0) for _ in days]}
            results.append({"Id": query["Id"], "Label": " ".join(metric), "StatusCode": "Complete", **values})
        return ActionResult({"MetricDataResults": results})

    def _find_bucket(self, name: str) -> FakeBucket | None:
        found = s3_backends[self.current_account][PARTITION].buckets.get(name)
        return found if found and found.region_name == self.region else None


def measure(bucket: FakeBucket) -> Counter[Metric]:
    """Return the values of the metrics of a bucket: sizes in bytes, and the number of objects."""
    found = Counter[Metric]()
    for key in bucket.keys:
        for stored in bucket.keys.getlist(key):
            found["NumberOfObjects", "AllStorageTypes"] += 1
            if not isinstance(stored, FakeKey):
                continue
            kind = STORAGE_TYPES.get(str(stored.storage_class), "Standard")
            found["BucketSizeBytes", f"{kind}Storage"] += stored.size
            if kind != "Standard":
                found["BucketSizeBytes", f"{kind}ObjectOverhead"] += ARCHIVE_INDEX
                found["BucketSizeBytes", f"{kind}S3ObjectOverhead"] += ARCHIVE_NAME
    return found


def _read_time(value: datetime | str) -> datetime:
    read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _list_days(bucket: FakeBucket) -> Iterator[datetime]:
    """Yield the days with values, the newest first, as CloudWatch orders them by default."""
    created = bucket.creation_date if bucket.creation_date.tzinfo else bucket.creation_date.replace(tzinfo=UTC)
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - DAY
    while day + DAY > created:
        yield day
        day -= DAY
