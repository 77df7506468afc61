"""Recommends a workgroup and data catalogs for a caller's queries.

Quilt gives each managed role its own workgroup, and one workgroup to all other roles. AWS returns the details of a
workgroup only to a role that may use it. So a workgroup is chosen from those that AWS described.

The name of a stack can be the beginning of another's: the workgroups of `acme-staging` also begin like those of `acme`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.athena_answers import RecommendedWorkgroup
from quilt_mcp.services.athena_responses import AWSDatabase, AWSTable, AWSWorkGroupConfiguration
from quilt_mcp.services.catalog_names import fetch_stack_prefix, make_tabulator_catalog
from quilt_mcp.services.governance_service import is_managed
from quilt_mcp.services.stack.errors import RefusedByAWS

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients
    from quilt_mcp.services.stack.caller import Caller
    from quilt_mcp.services.stack.standing import Standing

DATA_CATALOG = "AwsDataCatalog"
WORKGROUP_PREFIX = "QuiltUserAthena-"
FOR_OTHER_ROLES = "NonManagedRoleWorkgroup"
ASK = "Ask a Quilt administrator which workgroup to use."
MAX_DATABASES = 5
TAG_TABLES = ".*_package_tag"
"""The names of one of Quilt's four tables for each bucket, as a regular expression for Glue."""
REPEAT = "Read athena://workgroups again in a minute."

Details = Mapping[str, AWSWorkGroupConfiguration | ResourceFailure | None]


class _Choice(NamedTuple):
    """The workgroup, if there is one, and the reason."""

    workgroup: str | None
    reason: str


def recommend(
    caller: "Caller",
    aws: "AWSClients",
    standing: "Standing | None",
    details: Details,
    *,
    disabled: Iterable[str] = (),
    all_listed: bool,
) -> RecommendedWorkgroup:
    """Return what the caller's queries should use, with the evidence.

    Args:
        caller: the caller.
        aws: the caller's.
        standing: the caller's; None without a login.
        details: the details of the enabled workgroups, or why they failed; None if there was no time.
        disabled: the disabled workgroups.
        all_listed: whether these are all enabled workgroups of the account.
    """
    stack = fetch_stack_prefix(caller)
    prefix = _make_prefix(stack).lower() if stack else None
    ours = {name: one for name, one in details.items() if prefix and name.lower().startswith(prefix)}
    unusable = [name for name in disabled if prefix and name.lower().startswith(prefix)]
    candidates = sorted(name for name, one in ours.items() if one is not None and not isinstance(one, ResourceFailure))
    all_known = all_listed and all(name in candidates or isinstance(one, RefusedByAWS) for name, one in ours.items())
    choice = _choose(caller, standing, stack, candidates, unusable, all_known=all_known)
    catalog, exists, reason = _find_tabulator_catalog(aws, stack)
    iceberg, iceberg_reason = _find_iceberg_database(aws, stack)
    return {
        "role": standing.role if standing else None,
        "workgroup": choice.workgroup,
        "workgroup_reason": choice.reason,
        "candidates": candidates,
        "disabled": unusable,
        "data_catalog": DATA_CATALOG,
        "tabulator_data_catalog": catalog,
        "tabulator_data_catalog_exists": exists,
        "tabulator_reason": reason,
        "iceberg_database": iceberg,
        "iceberg_reason": iceberg_reason,
    }


def _make_prefix(stack: str) -> str:
    return f"{WORKGROUP_PREFIX}{stack}-"


def _choose(
    caller: "Caller",
    standing: "Standing | None",
    stack: str | None,
    candidates: Sequence[str],
    disabled: Sequence[str],
    *,
    all_known: bool,
) -> _Choice:
    start = len(_make_prefix(stack or ""))
    suffixes = {name[start:].lower(): name for name in candidates}
    closed = {name[start:].lower(): name for name in disabled}
    if standing and standing.role and (own := closed.get(standing.role.lower())):
        return _Choice(
            None, f"{own} has the name of your role, and is disabled. Ask a Quilt administrator to enable it."
        )
    if standing and standing.role and (own := suffixes.get(standing.role.lower())):
        return _Choice(own, "It has the name of your role, and AWS returned its details to you.")
    if stack and all_known and not disabled and len(candidates) == 1 and _belongs_to(stack, candidates[0]):
        return _Choice(candidates[0], "AWS returned the details of no other workgroup of the Quilt stack to you.")
    shared = suffixes.get(FOR_OTHER_ROLES.lower())
    if standing and shared and _has_custom_role(caller, standing):
        return _Choice(shared, "Quilt does not manage your role, and this is Quilt's workgroup for such roles.")
    if disabled and all_known:
        return _Choice(None, f"No enabled workgroup has your role's name. Disabled: {', '.join(disabled)}. {ASK}")
    return _Choice(None, _explain(stack, candidates, all_known=all_known))


def _explain(stack: str | None, candidates: Sequence[str], *, all_known: bool) -> str:
    """Return why no workgroup is recommended."""
    if stack is None:
        return f"The name of the Quilt stack is unknown, so its workgroups are, too. {ASK}"
    if not all_known:
        return f"Not all workgroups of the Quilt stack could be read, and no candidate has your role's name. {REPEAT}"
    if not candidates:
        return f"AWS returned the details of no workgroup of the Quilt stack to you. {ASK}"
    if len(candidates) == 1:
        return f"The only candidate does not have your role's name, and it can belong to another stack. {ASK}"
    return f"AWS returned the details of all `candidates` to you, and none has your role's name. {ASK}"


def _belongs_to(stack: str, workgroup: str) -> bool:
    """Return whether a workgroup with the stack's prefix cannot be that of a stack with a longer name."""
    return "-" not in workgroup[len(_make_prefix(stack)) :]


def _has_custom_role(caller: "Caller", standing: "Standing") -> bool:
    """Return whether Quilt does not manage the caller's role. Only administrators may ask the stack."""
    if not standing.is_admin or not standing.role:
        return False
    try:
        roles = caller.query_stack(lambda stack: stack.roles_list())
    except ResourceFailure:
        return False
    return any(role.name == standing.role and not is_managed(role) for role in roles)


def _find_tabulator_catalog(aws: "AWSClients", stack: str | None) -> tuple[str | None, Literal[True] | None, str]:
    if stack is None:
        return None, None, "The name of the Quilt stack is unknown."
    name = make_tabulator_catalog(stack)
    try:
        aws.call("athena", "get_data_catalog", Name=name)
    except ResourceFailure as failure:
        return name, None, f"Its name follows from the name of the Quilt stack. Not checked: {failure.message}"
    return name, True, "Its name follows from the name of the Quilt stack, and Athena has a data catalog of this name."


def _find_iceberg_database(aws: "AWSClients", stack: str | None) -> tuple[str | None, str]:
    """Find the Glue database in which stacks from 1.70 on keep four tables about the packages of each bucket.

    No API of the stack names it. Its tables do.
    """
    try:
        listed: Iterable[AWSDatabase] = aws.list_items("glue", "get_databases", "DatabaseList", MaxResults=100)
        names = [one["Name"] for one in listed if "iceberg" in one["Name"].lower()]
        for name in sorted(names, key=lambda one: ((stack or "") not in one.lower(), one))[:MAX_DATABASES]:
            found: list[AWSTable] = aws.call(
                "glue", "get_tables", DatabaseName=name, Expression=TAG_TABLES, MaxResults=1
            ).get("TableList", [])
            if found:
                return (
                    name,
                    f"Glue has the table {found[0]['Name']} in it, which Quilt keeps for the packages of a bucket.",
                )
    except ResourceFailure as failure:
        return None, f"Not found: {failure.message}"
    return None, "Glue shows you no database of this kind. Quilt Platform keeps one since 1.70; ask an administrator."
