"""The enabled workgroups of the account."""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from quilt_mcp.core.errors import NotFound, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.athena_quotas import WORKGROUPS, ask_each
from quilt_mcp.services.parallel_calls import NOT_IN_TIME

if TYPE_CHECKING:
    from types_boto3_athena import type_defs as athena

    from quilt_mcp.services.stack.aws import AWSClients

WORKGROUPS_PAGE = 50  # the maximum for ListWorkGroups
MAX_WORKGROUPS = 1000  # the default quota of an account
WORKGROUPS_SHARE = 0.5  # of the time: without the details or the queries of workgroups, their list is of little use


class WorkgroupList(NamedTuple):
    """The enabled workgroups.

    Attributes:
        enabled: those of Quilt first, then by name.
        disabled: the names of the others, sorted.
        is_complete: false if the account has more than MAX_WORKGROUPS, or if there was no time for all of them.
    """

    enabled: "list[athena.WorkGroupSummaryTypeDef]"
    disabled: list[str]
    is_complete: bool


def list_enabled_workgroups(aws: "AWSClients", *, until: float) -> WorkgroupList:
    read, is_last = list["athena.WorkGroupSummaryTypeDef"](), False
    token, tokens = "", set[str]()
    while not is_last and len(read) <= MAX_WORKGROUPS:
        page = ask_each(partial(_list_page, aws), [token], until=until, quota=WORKGROUPS).get(token)
        if isinstance(page, ResourceFailure):
            raise page
        if page is None:  # the time is over
            break
        read += page.get("WorkGroups", [])
        token = page.get("NextToken") or ""
        is_last = not token
        if token in tokens:
            raise ResourceExecutionError("AWS returned the same page twice.", details="athena.list_work_groups")
        tokens.add(token)
    if not read and not is_last:
        raise Unavailable("The workgroups were not listed in time.", details=f"athena:ListWorkGroups: {NOT_IN_TIME}")
    found = sorted(read[:MAX_WORKGROUPS], key=lambda group: group["Name"])
    enabled = [group for group in found if group.get("State", "ENABLED") == "ENABLED"]
    disabled = [group["Name"] for group in found if group.get("State", "ENABLED") != "ENABLED"]
    enabled.sort(key=lambda group: is_other(group["Name"]))  # keeps the order by name
    return WorkgroupList(enabled, disabled, is_last and len(read) <= MAX_WORKGROUPS)


def is_other(name: str) -> bool:
    """Return whether a workgroup's name does not say that it is Quilt's."""
    return "quilt" not in name.lower()


def is_spark(engine: str | None) -> bool:
    """Return whether an engine version is one of Spark, in which no SQL runs."""
    return "spark" in (engine or "").lower()


def make_unknown_workgroup(name: str, failure: ResourceFailure) -> NotFound:
    return NotFound(
        f"The workgroup {name!a} was not found.",
        details=failure.details,
        suggested_actions=["Read athena://workgroups for the workgroups of the account."],
    )


def _list_page(aws: "AWSClients", token: str) -> "athena.ListWorkGroupsOutputTypeDef":
    """List a page of workgroups. The token of the first page is empty."""
    given = {"NextToken": token} if token else {}
    found: athena.ListWorkGroupsOutputTypeDef
    found = aws.call("athena", "list_work_groups", MaxResults=WORKGROUPS_PAGE, **given)
    return found
