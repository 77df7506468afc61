"""athena://workgroups: the enabled workgroups, and the one for the caller's queries."""

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from quilt_mcp.app import current_app
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.athena_answers import WorkgroupRow, WorkgroupsAnswer
from quilt_mcp.services.athena_calls import DETAILS, WORKGROUPS, ask_each, share_read
from quilt_mcp.services.athena_recommendation import recommend
from quilt_mcp.services.athena_responses import (
    AWSWorkGroup,
    AWSWorkGroupConfiguration,
    AWSWorkGroupDetails,
    AWSWorkGroups,
)
from quilt_mcp.services.fan_out import NOT_IN_TIME
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients

PAGE = 50  # the maximum for ListWorkGroups
MAX_WORKGROUPS = 1000  # the default quota of an account
WORKGROUPS_SHARE = 0.5  # of the time: without the details or the queries of workgroups, their list is of little use

Details = Mapping[str, AWSWorkGroupConfiguration | ResourceFailure]
"""The details of workgroups by name, or why they failed. Those that were not reached in time are missing."""


class WorkgroupList(NamedTuple):
    """The enabled workgroups.

    Attributes:
        enabled: those of Quilt first, then by name.
        disabled: the names of the others, sorted.
        is_complete: false if the account has more than MAX_WORKGROUPS, or if there was no time for all of them.
    """

    enabled: list[AWSWorkGroup]
    disabled: list[str]
    is_complete: bool


def athena_workgroups_list() -> WorkgroupsAnswer:
    """Athena workgroups, and the workgroup and data catalog for your role.

    Only enabled workgroups are listed. Each has the location of its results. Quilt's own workgroups come first. If AWS
    does not return the details of a workgroup, its `details_available` is false, `details_error` is the reason, and the
    values from the details are null. `recommended` names the workgroup to use for your queries, and the data catalogs
    of tabulator tables and of all other tables, each with its evidence.
    """
    caller = current_caller()
    standing = caller.fetch_standing() if caller.login.signed_in else None
    aws = caller.open_aws(standing) if standing else caller.aws
    listed, details = share_read(_read_details, aws)
    rows = [_workgroup_row(one, details.get(one["Name"])) for one in listed.enabled]
    return {
        "workgroups": rows,
        "region": aws.region,
        "count": len(rows),
        "workgroups_total": len(rows) if listed.is_complete else None,
        "workgroups_covered": sum(row["details_available"] for row in rows),
        "recommended": recommend(
            caller,
            aws,
            standing,
            {row["name"]: details.get(row["name"]) for row in rows},
            disabled=listed.disabled,
            all_listed=listed.is_complete,
        ),
    }


def _read_details(aws: "AWSClients") -> tuple[WorkgroupList, Details]:
    seconds, started = current_app().settings_as(QuiltSettings).probe_seconds, time.monotonic()
    listed = list_enabled_workgroups(aws, until=started + WORKGROUPS_SHARE * seconds)
    names = [one["Name"] for one in listed.enabled]
    return listed, ask_each(partial(_read_workgroup, aws), names, until=started + seconds, quota=DETAILS)


def list_enabled_workgroups(aws: "AWSClients", *, until: float) -> WorkgroupList:
    """List the enabled workgroups of the account.

    Args:
        aws: the caller's.
        until: when the time is over, on the monotonic clock.

    Raises:
        Unavailable: no workgroup was listed in time.
        ResourceFailure: AWS returned a failure, or the same page token twice.
    """
    read, is_last = list[AWSWorkGroup](), False
    token, tokens = "", {""}
    while not is_last and len(read) <= MAX_WORKGROUPS:
        page = ask_each(partial(_list_page, aws), [token], until=until, quota=WORKGROUPS).get(token)
        if isinstance(page, ResourceFailure):
            raise page
        if page is None:
            break
        read += page.get("WorkGroups", [])
        token, is_last = page.get("NextToken", ""), not page.get("NextToken")
        if token in tokens and not is_last:
            raise ResourceExecutionError("AWS returned the same page twice.", details="athena.list_work_groups")
        tokens.add(token)
    if not read and not is_last:
        raise Unavailable("The workgroups were not listed in time.", details=f"athena:ListWorkGroups: {NOT_IN_TIME}")
    read, is_all = read[:MAX_WORKGROUPS], is_last and len(read) <= MAX_WORKGROUPS
    enabled = [one for one in read if one.get("State", "ENABLED") == "ENABLED"]
    disabled = sorted(one["Name"] for one in read if one.get("State", "ENABLED") != "ENABLED")
    enabled.sort(key=lambda one: ("quilt" not in one["Name"].lower(), one["Name"]))
    return WorkgroupList(enabled, disabled, is_all)


def is_of_spark(workgroup: AWSWorkGroup) -> bool:
    """Return whether a workgroup runs notebooks, and no queries."""
    return "spark" in workgroup.get("EngineVersion", {}).get("EffectiveEngineVersion", "").lower()


def _list_page(aws: "AWSClients", token: str) -> AWSWorkGroups:
    """List a page of workgroups. The token of the first page is empty."""
    given = {"NextToken": token} if token else {}
    page: AWSWorkGroups = aws.call("athena", "list_work_groups", MaxResults=PAGE, **given)
    return page


def _read_workgroup(aws: "AWSClients", name: str) -> AWSWorkGroupConfiguration:
    details: AWSWorkGroupDetails = aws.call("athena", "get_work_group", WorkGroup=name).get("WorkGroup", {})
    return details.get("Configuration", {})


def _workgroup_row(listed: AWSWorkGroup, details: AWSWorkGroupConfiguration | ResourceFailure | None) -> WorkgroupRow:
    is_known = details is not None and not isinstance(details, ResourceFailure)
    configuration: AWSWorkGroupConfiguration = (
        {} if details is None or isinstance(details, ResourceFailure) else details
    )
    return {
        "name": listed["Name"],
        "description": listed.get("Description", ""),
        "creation_time": iso(listed.get("CreationTime")),
        "output_location": configuration.get("ResultConfiguration", {}).get("OutputLocation"),
        "managed_results": configuration.get("ManagedQueryResultsConfiguration", {}).get("Enabled", False)
        if is_known
        else None,
        "enforce_workgroup_config": configuration.get("EnforceWorkGroupConfiguration"),
        "details_available": is_known,
        "details_error": None if is_known else str(details or NOT_IN_TIME),
    }
