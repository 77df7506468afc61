"""Lists the buckets of the Quilt stack, then those of the AWS account."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.services.fan_out import NOT_IN_TIME, fan_out
from quilt_mcp.services.registry_rights import StackBuckets, fetch_buckets, fetch_own_role

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients
    from quilt_mcp.services.stack.caller import Caller
    from quilt_mcp.services.stack.graphql import QuiltRole
    from quilt_mcp.services.stack.standing import Standing

LIST_PAGE = 1000  # without a limit, AWS refuses accounts that may have more than 10,000 buckets, and returns no regions

SourceName = Literal["registry", "s3"]
"""The Quilt stack, or the AWS account."""
SOURCES: tuple[SourceName, ...] = ("registry", "s3")
READ = "read"
"""The state of a source that was read."""


@dataclass(frozen=True)
class Buckets:
    """The buckets that the stack and the account list.

    Attributes:
        stack: the buckets of the stack with their collaborators.
        regions: the buckets of the account; the region of each, or None.
        role: the caller's role in the stack, or why it is unknown.
        sources: for each source, "read", or why it could not be read.
    """

    stack: StackBuckets = field(default_factory=StackBuckets)
    regions: Mapping[str, str | None] = field(default_factory=dict)
    role: "QuiltRole | str" = NOT_IN_TIME
    sources: Mapping[SourceName, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """All names: first those of the stack, each part sorted."""
        return [*self.stack.names, *sorted(self.regions.keys() - self._in_stack)]

    @cached_property
    def _in_stack(self) -> frozenset[str]:
        return frozenset(self.stack.names)

    def find_sources(self, bucket: str) -> tuple[SourceName, ...]:
        """Return which sources list a bucket."""
        listed = {"registry": bucket in self._in_stack, "s3": bucket in self.regions}
        return tuple(source for source in SOURCES if listed[source])


class Reader(NamedTuple):
    """The reader: the caller, AWS with the caller's credentials, and the caller's standing in the stack.

    A local user without a login has no standing, and calls AWS with the AWS configuration of this machine.
    """

    caller: "Caller"
    aws: "AWSClients"
    standing: "Standing | None"


def open_reader(caller: "Caller") -> Reader:
    """Ask the stack who the caller is, and open AWS for that user and role.

    Raises:
        ResourceFailure: the stack does not say who the caller is, or issues no AWS credentials.
    """
    try:
        standing = caller.fetch_standing()
    except NotSignedIn:
        return Reader(caller, caller.aws, None)  # also raises, unless this user needs no login
    return Reader(caller, caller.open_aws(standing), standing)


def list_buckets(reader: Reader, *, prefix: str = "", seconds: float) -> Buckets:
    """List the buckets of both sources, and fetch the caller's role.

    Args:
        reader: who reads.
        prefix: lists only the buckets of the account with this prefix.
        seconds: the time limit.
    """
    calls: dict[str, Callable[[], Any]] = {
        "registry": partial(fetch_buckets, reader.caller),
        "s3": partial(_list_account, reader.aws, {"Prefix": prefix} if prefix else {}),
        "role": partial(fetch_own_role, reader.caller, reader.standing),
    }

    def call(name: str) -> Any:
        try:
            return calls[name]()
        except ResourceFailure as failure:
            return failure

    found = fan_out(call, calls, seconds=seconds)
    read = {name: value for name, value in found.items() if not isinstance(value, ResourceFailure)}
    role = read.get("role", f"your role: {NOT_IN_TIME}")
    sources = {name: _describe(found, name) for name in SOURCES}
    stack = read.get("registry", StackBuckets(error=sources["registry"]))
    return Buckets(stack, read.get("s3", {}), role, sources)


def _describe(found: Mapping[str, object], source: SourceName) -> str:
    if source not in found:
        return f"not read: {NOT_IN_TIME}"
    result = found[source]
    return f"not read: {result.message}" if isinstance(result, ResourceFailure) else READ


def _list_account(aws: "AWSClients", filters: Mapping[str, str]) -> dict[str, str | None]:
    found = aws.list_items(
        "s3", "list_buckets", "Buckets", next_key="ContinuationToken", MaxBuckets=LIST_PAGE, **filters
    )
    return {bucket["Name"]: bucket.get("BucketRegion") for bucket in found}


def describe_cut(buckets: Buckets, probed: Sequence[str]) -> str | None:
    """Say which buckets were left out, and how to ask for one of them; None if all were probed."""
    if len(probed) == len(buckets.names):
        return None
    of_stack = min(len(buckets.stack.names), len(probed))
    return (
        f"{len(buckets.names)} buckets were found and {len(probed)} were probed: {of_stack} of the "
        f"{len(buckets.stack.names)} in the Quilt stack, and {len(probed) - of_stack} of the others in the AWS "
        "account, by name. For any other bucket, read permissions://buckets/{bucket}/access."
    )
