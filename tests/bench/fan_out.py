"""How long `permissions://discover` takes with many buckets and 50 ms for each call to AWS.

botocore works as usual, but sends nothing: this module returns the answers after 50 ms. The Quilt stack is the demo's.
"""

import math
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from quilt_mcp.app import App
from quilt_mcp.commands.logs import configure_logging
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.server import create_manager
from quilt_mcp.services import lists as threads
from quilt_mcp.settings import Settings
from tests.bench.estimates import estimate
from tests.bench.interleaving import Arm
from tests.bench.outcome import Outcome, Run, Table, Target

URI = "permissions://discover?limit=500"
DELAY = 0.05
COUNTS = (50, 500)
MOST_OVER_IDEAL, MOST_CALLS_PER_BUCKET, MOST_CALLS_BESIDE = 1.5, 4, 3
SEQUENTIAL = 2  # the identity, then the account's buckets
_CALLER = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::123456789012:assumed-role/bench/bench</Arn><UserId>AROA:bench</UserId><Account>123456789012</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""


class SlowAWS:
    """Answers every call to AWS after a delay, and counts them."""

    def __init__(self, buckets: list[str]) -> None:
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()
        listed = "".join(f"<Bucket><Name>{name}</Name></Bucket>" for name in buckets)
        self._answers = {
            "GetCallerIdentity": _CALLER,
            "ListBuckets": f"<ListAllMyBucketsResult><Buckets>{listed}</Buckets></ListAllMyBucketsResult>",
            "HeadObject": "",
        }

    def register(self, session: Any) -> None:
        """Replace the network in a botocore session."""
        session.register("before-send", self._answer)

    def _answer(self, request: Any, event_name: str, **_: Any) -> Any:
        operation = event_name.rpartition(".")[2]
        with self._lock:
            self.calls[operation] += 1
        time.sleep(DELAY)
        body = _list_keys(request.url) if operation == "ListObjectsV2" else self._answers[operation]
        headers = {"content-type": "application/xml", "x-amz-bucket-region": "us-east-1"}
        return import_module("botocore.awsrequest").AWSResponse(request.url, 200, headers, _Raw(body.encode()))


def _list_keys(url: str) -> str:
    """A page of a bucket with many packages: Quilt's own prefix comes first and fills it, and data follow."""
    query = parse_qs(urlsplit(url).query)
    prefixes = ["data/", "runs/"] if "start-after" in query else [".quilt/named_packages/"]
    count = int(query["max-keys"][0])
    contents = "".join(
        f"<Contents><Key>{prefixes[number % len(prefixes)]}{number}</Key><LastModified>2025-01-01T00:00:00.000Z"
        f"</LastModified><ETag>&quot;{number:032x}&quot;</ETag><Size>64</Size><StorageClass>STANDARD</StorageClass>"
        "</Contents>"
        for number in range(count)
    )
    return f"<ListBucketResult><IsTruncated>true</IsTruncated>{contents}</ListBucketResult>"


class _Raw(BytesIO):
    """A body, as urllib3 gives it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


async def run(run: Run) -> Outcome:
    """Read the resource with 50 and 500 buckets."""
    found = {count: await _measured(count, run) for count in ((20,) if run.quick else COUNTS)}
    columns = ("buckets", "AWS calls", "32 threads, s", "ideal, s", "over ideal")
    rows: list[tuple[str, ...]] = []
    outcome = Outcome([Table(f"{URI}, {DELAY * 1000:.0f} ms for each call to AWS", columns, rows, _NOTE)])
    for count, (seconds, calls) in found.items():
        median, ideal = estimate(seconds), _ideal(calls)
        over = median.scale(1 / ideal)
        rows.append(
            (
                str(count),
                str(calls.total()),
                f"{median.value:.2f} ({median.low:.2f}-{median.high:.2f})",
                f"{ideal:.2f}",
                f"{over.value:.2f}",
            )
        )
        outcome.targets += _targets(count, over.value, calls)
        outcome.figures |= {f"{count} buckets [ms]": median.value * 1000, f"{count} buckets, AWS calls": calls.total()}
    return outcome


_NOTE = (
    "Ideal: 32 threads that only wait. Two calls come first, one after the other; then the others, of which each "
    "bucket needs up to four."
)


def _ideal(calls: Counter[str]) -> float:
    return DELAY * (SEQUENTIAL + math.ceil((calls.total() - SEQUENTIAL) / threads.WORKERS))


def _targets(count: int, over: float, calls: Counter[str]) -> list[Target]:
    most = MOST_CALLS_PER_BUCKET * count + MOST_CALLS_BESIDE
    return [
        Target(f"{count} buckets: at most {MOST_OVER_IDEAL} times the ideal", f"{over:.2f}", over <= MOST_OVER_IDEAL),
        Target(f"{count} buckets: at most {most} calls to AWS", str(calls.total()), calls.total() <= most),
    ]


async def _measured(count: int, run: Run) -> tuple[list[float], Counter[str]]:
    """The seconds of each read, and the AWS calls of one read."""
    with _stack_of(count) as aws, configure_logging("ERROR"):
        manager = create_manager(App(Settings(deadline_seconds=600, probe_seconds=500)))
        await _read(manager, count)  # creates the clients
        seconds = []
        for _ in range(run.times(10)):
            aws.calls.clear()
            seconds.append(await _seconds(lambda: _read(manager, count)))
        return seconds, Counter(aws.calls)


async def _seconds(arm: Arm) -> float:
    started = time.perf_counter()
    await arm()
    return time.perf_counter() - started


async def _read(manager: ResourceManager, count: int) -> None:
    """Read it, and check that every bucket was tried."""
    answer = await manager.get_resource(URI)
    readable = [row for row in answer["data"]["bucket_permissions"] if row["can_read"]]
    if len(readable) != count:
        raise RuntimeError(f"{len(readable)} of {count} buckets could be read: {answer}")


@contextmanager
def _stack_of(count: int) -> Iterator[SlowAWS]:
    """A signed-in user of a stack with this number of buckets, and an AWS with a delay."""
    company, world = import_module("quilt_mcp.commands.demo.company"), import_module("quilt_mcp.commands.demo.world")
    records, stacks = import_module("quilt_mcp.commands.demo.records"), import_module("quilt_mcp.commands.demo.stack")
    botocore, quilt3 = import_module("botocore"), import_module("quilt3")
    buckets = tuple(records.Bucket(f"bench-{number}", "", "2025-01-01") for number in range(count))
    names = [bucket.name for bucket in buckets]
    aws = SlowAWS(names)
    keys = {"AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "secret", "SessionToken": "token"}
    user = company.ACME.find_user(company.ADMIN)
    role = records.Role(user.role, (records.Policy("All", dict.fromkeys(names, "READ_WRITE")),))
    fake = replace(company.ACME, buckets=buckets, users=(replace(user, extra_roles=()),), roles=(role,))
    with (
        tempfile.TemporaryDirectory() as directory,
        world.isolate(Path(directory)),
        stacks.FakeStack(fake, lambda _: keys | {"Expiration": "2099-01-01T00:00:00Z"}) as stack,
    ):
        quilt3.util.configure_from_url(stack.url)
        quilt3.session.login_with_token(stack.sign_in(fake.users[0]))
        botocore.register_initializer(aws.register)
        try:
            yield aws
        finally:
            botocore.unregister_initializer(aws.register)
