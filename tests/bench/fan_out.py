"""How long `permissions://discover` takes with many buckets and 50 ms for each call to AWS.

botocore does all its work but sending: the answers come from here, after 50 ms. The Quilt stack is the demo's.
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
from unittest.mock import patch

from quilt_mcp import runtime_context
from quilt_mcp.commands.process import logging_from
from quilt_mcp.resources import MANAGER
from quilt_mcp.services import fan_out as threads
from quilt_mcp.settings import Settings
from tests.bench.estimates import estimate
from tests.bench.interleaving import Arm
from tests.bench.outcome import Outcome, Run, Table, Target

URI = "permissions://discover"
DELAY = 0.05
COUNTS = (50, 500)
MOST_OVER_IDEAL, MOST_CALLS_BESIDE = 1.5, 3
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
            "GetCallerIdentity": (200, _CALLER),
            "ListBuckets": (200, f"<ListAllMyBucketsResult><Buckets>{listed}</Buckets></ListAllMyBucketsResult>"),
            "HeadBucket": (200, ""),
            "HeadObject": (404, ""),  # the probe asks for a key that is not there
        }

    def register(self, session: Any) -> None:
        """Take the place of the network in a botocore session."""
        session.register("before-send", self._answer)

    def _answer(self, request: Any, event_name: str, **_: Any) -> Any:
        operation = event_name.rpartition(".")[2]
        with self._lock:
            self.calls[operation] += 1
        time.sleep(DELAY)
        status, body = self._answers[operation]
        headers = {"content-type": "application/xml", "x-amz-bucket-region": "us-east-1"}
        return import_module("botocore.awsrequest").AWSResponse(request.url, status, headers, _Raw(body.encode()))


class _Raw(BytesIO):
    """A body, as urllib3 gives it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


async def run(run: Run) -> Outcome:
    """Read it with 50 and 500 buckets, by 32 threads and by one."""
    found = {count: await _measured(count, run) for count in ((20,) if run.quick else COUNTS)}
    columns = ("buckets", "AWS calls", "32 threads, s", "ideal, s", "over ideal", "one thread, s", "times as fast")
    rows: list[tuple[str, ...]] = []
    outcome = Outcome([Table(f"{URI}, {DELAY * 1000:.0f} ms for each call to AWS", columns, rows, _NOTE)])
    for count, (parallel, sequential, calls) in found.items():
        median, ideal = estimate(parallel), _ideal(count)
        over = median.scaled(1 / ideal)
        rows.append(
            (
                str(count),
                str(calls.total()),
                f"{median.value:.2f} ({median.low:.2f}-{median.high:.2f})",
                f"{ideal:.2f}",
                f"{over.value:.2f}",
                f"{sequential:.1f}",
                f"{sequential / median.value:.1f}",
            )
        )
        outcome.targets += _targets(count, over.value, calls)
        outcome.figures |= {f"{count} buckets [ms]": median.value * 1000, f"{count} buckets, AWS calls": calls.total()}
    return outcome


_NOTE = "Ideal: 32 threads that only wait. Two calls come first, one after the other; then two for each bucket."


def _ideal(count: int) -> float:
    return DELAY * (2 + 2 * math.ceil(count / threads.WORKERS))


def _targets(count: int, over: float, calls: Counter[str]) -> list[Target]:
    most = 2 * count + MOST_CALLS_BESIDE
    return [
        Target(f"{count} buckets: at most {MOST_OVER_IDEAL} times the ideal", f"{over:.2f}", over <= MOST_OVER_IDEAL),
        Target(f"{count} buckets: at most {most} calls to AWS", str(calls.total()), calls.total() <= most),
    ]


async def _measured(count: int, run: Run) -> tuple[list[float], float, Counter[str]]:
    """The seconds of each read by 32 threads, and of one by a single thread; the AWS calls of one read."""
    with _stack_of(count) as aws, logging_from("ERROR"):
        await _read(count)  # makes the clients
        parallel = []
        for _ in range(run.times(10)):
            aws.calls.clear()
            parallel.append(await _seconds(lambda: _read(count)))
        calls = Counter(aws.calls)
        with patch.object(threads, "WORKERS", 1):
            return parallel, await _seconds(lambda: _read(count)), calls


async def _seconds(arm: Arm) -> float:
    started = time.perf_counter()
    await arm()
    return time.perf_counter() - started


async def _read(count: int) -> None:
    """Read it, and see that every bucket was tried."""
    answer = await MANAGER.get_resource(URI)
    readable = [row for row in answer["data"]["bucket_permissions"] if row["can_read"]]
    if len(readable) != count:
        raise RuntimeError(f"{len(readable)} of {count} buckets could be read: {answer}")


@contextmanager
def _stack_of(count: int) -> Iterator[SlowAWS]:
    """A person who is signed in to a stack with so many buckets, and an AWS that takes its time."""
    company, environment = import_module("quilt_mcp.demo.company"), import_module("quilt_mcp.demo.environment")
    records, stacks = import_module("quilt_mcp.demo.records"), import_module("quilt_mcp.demo.stack")
    botocore, quilt3 = import_module("botocore"), import_module("quilt3")
    buckets = tuple(records.Bucket(f"bench-{number}", "", "2025-01-01") for number in range(count))
    aws = SlowAWS([bucket.name for bucket in buckets])
    keys = {"AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "secret", "SessionToken": "token"}
    fake = replace(company.ACME, buckets=buckets)
    with (
        tempfile.TemporaryDirectory() as directory,
        environment.isolated(Path(directory)),
        stacks.FakeStack(fake, lambda _: keys | {"Expiration": "2099-01-01T00:00:00Z"}) as stack,
    ):
        quilt3.util.configure_from_url(stack.url)
        quilt3.session.login_with_token(stack.sign_in(fake.user(company.ADMIN)))
        runtime_context.use_settings(Settings(deadline_seconds=600, probe_seconds=500))
        botocore.register_initializer(aws.register)
        try:
            yield aws
        finally:
            botocore.unregister_initializer(aws.register)
            runtime_context.use_settings(Settings())
