"""athena://: databases and workgroups. Promised to Python callers.

Reads metadata only; no function of this module runs a query.

Quilt gives each managed role its own workgroup, and one workgroup to all other roles. AWS returns the details of a
workgroup only to a role that may use it. So a workgroup is chosen from those that AWS described. The name of a stack
can be the beginning of another's: the workgroups of `acme-staging` also begin like those of `acme`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import NotFound, ResourceFailure
from quilt_mcp.services.athena_history import athena_query_history
from quilt_mcp.services.athena_quotas import DETAILS, ask_each, share_read
from quilt_mcp.services.athena_tables import DATA_CATALOG, cut_parameters, describe_link, read_databases, read_tables
from quilt_mcp.services.athena_workgroups import (
    WORKGROUPS_SHARE,
    WorkgroupList,
    is_other,
    is_spark,
    list_enabled_workgroups,
)
from quilt_mcp.services.auth_metadata import fetch_stack_prefix, make_tabulator_catalog
from quilt_mcp.services.buckets import fetch_bucket_names
from quilt_mcp.services.governance_service import fetch_all_roles, find_own_role, is_managed
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.parallel_calls import NOT_IN_TIME
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import RefusedByAWS

if TYPE_CHECKING:
    from types_boto3_athena import type_defs as athena
    from types_boto3_glue import type_defs as glue

    from quilt_mcp.services.stack.aws import AWSClients
    from quilt_mcp.services.stack.caller import Caller, Standing

    Details = Mapping[str, athena.WorkGroupConfigurationOutputTypeDef | ResourceFailure | None]
    """The details of workgroups by name, or why they failed. Those not reached in time are None or missing."""


class DatabaseRow(TypedDict):
    """One database.

    Attributes:
        name: its name.
        description: its description; empty if there is none.
        location: the S3 location of its tables; null if not set.
        created_at: ISO 8601 in UTC; null if unknown.
        parameters: its parameters, sorted. Of many or long ones, only a part.
        parameters_truncated: true if parameters are left out or cut; absent if not.
        link_target: for a resource link, the account and the database to which it points; null otherwise.
        federated_source: for a database outside Glue, its connection or identifier; null otherwise.
        uri: the URI of its tables.
    """

    name: str
    description: str
    location: str | None
    created_at: str | None
    parameters: dict[str, str]
    parameters_truncated: NotRequired[Literal[True]]
    link_target: str | None
    federated_source: str | None
    uri: str


class DataCatalogRow(TypedDict):
    """A data catalog of Athena."""

    name: str
    """Its name."""
    type: str | None
    """GLUE, LAMBDA, HIVE or FEDERATED; null if Athena does not say."""


class DatabasesAnswer(Paged):
    """A page of the databases of Glue.

    Attributes:
        databases: the databases of this page, sorted by name.
        data_catalog: the data catalog that contains them.
        other_data_catalogs: the data catalogs of Athena beside it, sorted, at most 50, such as those of tabulator and
            of connectors to other databases; null on other pages than the first, and if Athena did not list them.
            `SHOW DATABASES IN` shows what one has.
        other_data_catalogs_truncated: true if Athena has more, as its console shows; absent if not, or if they were not
            listed.
        region: the AWS region.
    """

    databases: list[DatabaseRow]
    data_catalog: str
    other_data_catalogs: list[DataCatalogRow] | None
    other_data_catalogs_truncated: NotRequired[Literal[True]]
    region: str


class WorkgroupRow(TypedDict):
    """One workgroup.

    Attributes:
        name: its name.
        description: its description; empty if there is none.
        created_at: ISO 8601 in UTC; null if unknown.
        engine: the version of its engine, as AWS names it, such as "Athena engine version 3"; null if AWS did not say.
        is_spark: whether it runs Spark. No SQL runs in such a workgroup; null if the engine is unknown.
        needs_identity_center: whether only users of IAM Identity Center can use it: the AWS credentials of a Quilt role
            cannot; null without details.
        scan_limit_bytes: Athena cancels a query there that scans more bytes; null if there is no limit, or without
            details.
        output_location: where it stores results; null if not set, or without details.
        managed_results: whether Athena stores the results itself, so that there is no location; null without details.
        enforce_workgroup_config: whether its settings override those of clients; null without details.
        details_available: whether AWS returned the details of this workgroup.
        details_error: why it did not; null if it did.
    """

    name: str
    description: str
    created_at: str | None
    engine: str | None
    is_spark: bool | None
    needs_identity_center: bool | None
    scan_limit_bytes: int | None
    output_location: str | None
    managed_results: bool | None
    enforce_workgroup_config: bool | None
    details_available: bool
    details_error: str | None


class RecommendedWorkgroup(TypedDict):
    """The workgroup and the data catalogs for the caller's queries.

    Attributes:
        role: the caller's role in the Quilt stack; null if there is none, or if it is unknown.
        workgroup: the workgroup to use; null if it is unknown.
        workgroup_reason: what the choice is based on, or why there is none.
        candidates: the enabled workgroups of the Quilt stack that AWS described to the caller, sorted, at most 50.
        disabled: the disabled workgroups of the Quilt stack, sorted, at most 50. No query can use them.
        data_catalog: the data catalog of athena://databases, for all tables but those of tabulator.
        tabulator_data_catalog: the data catalog of the stack's tabulator tables; null if the stack's name is unknown.
        tabulator_data_catalog_exists: true if Athena returned it; null if that is unknown.
        tabulator_reason: what the two values above are based on.
        iceberg_database: the database, in `data_catalog`, of the four tables for each bucket in which Quilt keeps all
            packages: `{bucket}_package_revision`, `_tag`, `_manifest` and `_entry`; null if it is unknown.
        iceberg_reason: what it is based on, or why it is unknown.
    """

    role: str | None
    workgroup: str | None
    workgroup_reason: str
    candidates: list[str]
    disabled: list[str]
    data_catalog: str
    tabulator_data_catalog: str | None
    tabulator_data_catalog_exists: Literal[True] | None
    tabulator_reason: str
    iceberg_database: str | None
    iceberg_reason: str


class WorkgroupsAnswer(Paged):
    """The answer of athena://workgroups.

    Attributes:
        workgroups: the enabled workgroups of this page: those of Quilt first, then by name.
        region: the AWS region.
        workgroups_total: the number of enabled workgroups; null if not all of them were listed: only 1,000 are
            read, and only as many as the time allows.
        workgroups_covered: the number of workgroups that AWS described.
        recommended: what to use for the caller's queries.
    """

    workgroups: list[WorkgroupRow]
    region: str
    workgroups_total: int | None
    workgroups_covered: int
    recommended: RecommendedWorkgroup


WORKGROUP_PREFIX = "QuiltUserAthena-"
FOR_OTHER_ROLES = "NonManagedRoleWorkgroup"
ASK = "Ask a Quilt administrator which workgroup to use."
MAX_DATABASES = 5
MAX_NAMES = 50
TAG_TABLE = "_package_tag"
"""The end of the name of one of Quilt's four tables for each bucket."""
REPEAT = "Read athena://workgroups again in a minute."


class _Choice(NamedTuple):
    """The workgroup for the caller's queries.

    Attributes:
        stack: the name of the stack; None if it is unknown.
        workgroup: its name; None if it is unknown.
        reason: what the choice is based on, or why there is none.
        candidates: the enabled workgroups of the stack that AWS described, sorted.
        unusable: the disabled workgroups of the stack.
    """

    stack: str | None
    workgroup: str | None
    reason: str
    candidates: list[str]
    unusable: list[str]


class OwnWorkgroup(NamedTuple):
    """The workgroup that is recommended, why, and its configuration; the name is None if it is unknown."""

    name: str | None
    reason: str
    configuration: "athena.WorkGroupConfigurationOutputTypeDef"


def find_own_workgroup(caller: "Caller", aws: "AWSClients", standing: "Standing | None") -> OwnWorkgroup:
    """Return what athena://workgroups recommends, with fewer calls."""
    listed, details = share_read(_read_details, aws)
    known: Details = {one["Name"]: details.get(one["Name"]) for one in listed.enabled}
    choice = _choose_own(caller, standing, known, disabled=listed.disabled, all_listed=listed.is_complete)
    found = known.get(choice.workgroup or "")
    return OwnWorkgroup(
        choice.workgroup, choice.reason, {} if isinstance(found, ResourceFailure) or not found else found
    )


def _choose_own(
    caller: "Caller", standing: "Standing | None", details: "Details", *, disabled: Iterable[str], all_listed: bool
) -> _Choice:
    stack = fetch_stack_prefix(caller)
    prefix = _make_prefix(stack).lower() if stack else None
    ours = {name: one for name, one in details.items() if prefix and name.lower().startswith(prefix)}
    unusable = [name for name in disabled if prefix and name.lower().startswith(prefix)]
    candidates = sorted(name for name, one in ours.items() if one is not None and not isinstance(one, ResourceFailure))
    all_known = all_listed and all(name in candidates or isinstance(one, RefusedByAWS) for name, one in ours.items())
    workgroup, reason = _choose(caller, standing, stack, candidates, unusable, all_known=all_known)
    return _Choice(stack, workgroup, reason, candidates, unusable)


def recommend(
    caller: "Caller",
    aws: "AWSClients",
    standing: "Standing | None",
    details: "Details",
    *,
    disabled: Iterable[str] = (),
    all_listed: bool,
) -> RecommendedWorkgroup:
    choice = _choose_own(caller, standing, details, disabled=disabled, all_listed=all_listed)
    catalog, exists, reason = _find_tabulator_catalog(aws, choice.stack)
    iceberg, iceberg_reason = _find_iceberg_database(caller, aws, choice.stack)
    return {
        "role": standing.role if standing else None,
        "workgroup": choice.workgroup,
        "workgroup_reason": choice.reason,
        "candidates": choice.candidates[:MAX_NAMES],
        "disabled": choice.unusable[:MAX_NAMES],
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
) -> tuple[str | None, str]:
    """Return the workgroup, if there is one, and the reason."""
    start = len(_make_prefix(stack or ""))
    suffixes = {name[start:].lower(): name for name in candidates}
    closed = {name[start:].lower(): name for name in disabled}
    role = standing.role.lower() if standing and standing.role else None
    if role and (own := closed.get(role)):
        return None, f"{own} has the name of your role, and is disabled. Ask a Quilt administrator to enable it."
    if role and (own := suffixes.get(role)):
        return own, "It has the name of your role, and AWS returned its details to you."
    only = candidates[0] if all_known and not disabled and len(candidates) == 1 else None
    if stack and only and "-" not in only[start:]:  # otherwise, it can be that of a stack with a longer name
        return only, "AWS returned the details of no other workgroup of the Quilt stack to you."
    shared = suffixes.get(FOR_OTHER_ROLES.lower())
    if standing and shared and _has_custom_role(caller, standing):
        return shared, "Quilt does not manage your role, and this is Quilt's workgroup for such roles."
    if disabled and all_known:
        return (
            None,
            f"No enabled workgroup has your role's name. Disabled: {', '.join(disabled[:MAX_DATABASES])}. {ASK}",
        )
    return None, _explain(stack, candidates, all_known=all_known)


def _explain(stack: str | None, candidates: Sequence[str], *, all_known: bool) -> str:
    if stack is None:
        return f"The name of the Quilt stack is unknown, so its workgroups are, too. {ASK}"
    if not all_known:
        return f"Not all workgroups of the Quilt stack could be read, and no candidate has your role's name. {REPEAT}"
    if not candidates:
        return f"AWS returned the details of no workgroup of the Quilt stack to you. {ASK}"
    if len(candidates) == 1:
        return f"The only candidate does not have your role's name, and it can belong to another stack. {ASK}"
    return f"AWS returned the details of all `candidates` to you, and none has your role's name. {ASK}"


def _has_custom_role(caller: "Caller", standing: "Standing") -> bool:
    """Return whether Quilt does not manage the caller's role. Only administrators may ask the stack."""
    role = find_own_role(fetch_all_roles(caller, standing), standing)
    return not isinstance(role, str) and not is_managed(role)


def _find_tabulator_catalog(aws: "AWSClients", stack: str | None) -> tuple[str | None, Literal[True] | None, str]:
    if stack is None:
        return None, None, "The name of the Quilt stack is unknown."
    name, reason = make_tabulator_catalog(stack), "Its name follows from the name of the Quilt stack"
    try:
        aws.call("athena", "get_data_catalog", Name=name)
    except ResourceFailure as failure:
        return name, None, f"{reason}. Athena did not return it: {failure.message}"
    return name, True, f"{reason}, and Athena has a data catalog of this name."


def _find_iceberg_database(caller: "Caller", aws: "AWSClients", stack: str | None) -> tuple[str | None, str]:
    """Find the Glue database in which stacks from 1.70 on keep four tables about the packages of each bucket.

    No API of the stack names it. Its tables do. The account can have another one, of another stack.
    """
    try:
        names = [one["Name"] for one in read_databases(aws) if "iceberg" in one["Name"].lower()]
        named = {name: bool(stack and stack in name.lower()) for name in names}
        for name in sorted(names, key=lambda one: (not named[one], one))[:MAX_DATABASES]:
            if table := _find_tag_table(caller, aws, name, is_named=named[name]):
                return name, f"Glue has the table {table} in it, which Quilt keeps for the packages of a bucket."
    except ResourceFailure as failure:
        return None, f"Not found: {failure.message}"
    if names:
        return None, f"No table shows that one of these is the stack's: {', '.join(sorted(names)[:MAX_DATABASES])}."
    return None, (
        "Glue shows you no database of this kind, which Quilt Platform keeps since 1.70. Older stacks keep the views "
        "{bucket}_packages-view and {bucket}_objects-view in a database; ask an administrator for its name."
    )


def _find_tag_table(caller: "Caller", aws: "AWSClients", database: str, *, is_named: bool) -> str | None:
    """Find one of Quilt's tables: any in a database with the name of the stack, else that of one of its buckets."""
    try:
        if is_named:
            return next((one["Name"] for one in read_tables(aws, database, Expression=f".*{TAG_TABLE}")), None)
    except RefusedByAWS:  # a session policy of the stack can allow the tables of the caller's buckets alone
        if table := _find_table_of_bucket(caller, aws, database):
            return table
        raise
    return _find_table_of_bucket(caller, aws, database)


def _find_table_of_bucket(caller: "Caller", aws: "AWSClients", database: str) -> str | None:
    for bucket in fetch_bucket_names(caller)[:MAX_DATABASES] if caller.login.signed_in else ():
        with suppress(NotFound, RefusedByAWS):
            name = f"{bucket}{TAG_TABLE}"
            return str(aws.call("glue", "get_table", DatabaseName=database, Name=name)["Table"]["Name"])
    return None


def athena_workgroups_list(cursor: str | None = None, limit: str | None = None) -> WorkgroupsAnswer:
    """Athena workgroups, and which to use.

    Only enabled workgroups are listed, 50 per page: `?cursor=` and the `next_cursor` of a page read the next one, and
    each page reads all of them. Each has the location of its results. Quilt's own workgroups come first. If AWS
    does not return the details of a workgroup, its `details_available` is false, `details_error` is the reason, and the
    values from the details are null. `recommended` names the workgroup to use for your queries, and the data catalogs
    of tabulator tables and of all other tables, each with its evidence.
    """
    caller = current_caller()
    standing = caller.fetch_standing() if caller.login.signed_in else None
    aws = caller.open_aws(standing) if standing else caller.aws
    listed, details = share_read(_read_details, aws)
    rows = [_workgroup_row(one, details.get(one["Name"])) for one in listed.enabled]
    page = cut_page(
        rows,
        lambda row: f"{'b' if is_other(row['name']) else 'a'}{row['name']}",
        build=lambda row: row,
        cursor=cursor,
        limit=limit,
        scope=("workgroups", aws.region),
    )
    return {
        "workgroups": page.rows,
        "count": page.total,
        "next_cursor": page.next_cursor,
        "region": aws.region,
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


def _read_details(aws: "AWSClients") -> "tuple[WorkgroupList, Details]":
    seconds, started = current_app().settings_as(QuiltSettings).probe_seconds, time.monotonic()
    listed = list_enabled_workgroups(aws, until=started + WORKGROUPS_SHARE * seconds)
    names = [one["Name"] for one in listed.enabled]
    return listed, ask_each(partial(_read_workgroup, aws), names, until=started + seconds, quota=DETAILS)


def _read_workgroup(aws: "AWSClients", name: str) -> "athena.WorkGroupConfigurationOutputTypeDef":
    details: athena.WorkGroupTypeDef = aws.call("athena", "get_work_group", WorkGroup=name).get("WorkGroup", {})
    return details.get("Configuration", {})


def _workgroup_row(
    listed: "athena.WorkGroupSummaryTypeDef",
    details: "athena.WorkGroupConfigurationOutputTypeDef | ResourceFailure | None",
) -> WorkgroupRow:
    """Return a row; the details are None if the time was over before they were read."""
    known = None if isinstance(details, ResourceFailure) else details
    configuration: athena.WorkGroupConfigurationOutputTypeDef = known or {}
    engine = find_engine(listed.get("EngineVersion") or configuration.get("EngineVersion"))
    return {
        "name": listed["Name"],
        "description": listed.get("Description", ""),
        "created_at": iso(listed.get("CreationTime")),
        "engine": engine,
        "is_spark": None if engine is None else is_spark(engine),
        "needs_identity_center": configuration.get("IdentityCenterConfiguration", {}).get("EnableIdentityCenter", False)
        if known is not None
        else None,
        "scan_limit_bytes": configuration.get("BytesScannedCutoffPerQuery"),
        "output_location": configuration.get("ResultConfiguration", {}).get("OutputLocation"),
        "managed_results": configuration.get("ManagedQueryResultsConfiguration", {}).get("Enabled", False)
        if known is not None
        else None,
        "enforce_workgroup_config": configuration.get("EnforceWorkGroupConfiguration"),
        "details_available": known is not None,
        "details_error": None if known is not None else str(details or NOT_IN_TIME),
    }


def find_engine(version: "athena.EngineVersionTypeDef | None") -> str | None:
    """Return the engine that is in use, or else the one that was selected: AUTO says nothing."""
    named = (version or {}).get("EffectiveEngineVersion") or (version or {}).get("SelectedEngineVersion")
    return None if named in {None, "", "AUTO"} else named


__all__ = ["athena_databases_list", "athena_query_history", "athena_workgroups_list"]


def athena_databases_list(cursor: str | None = None, limit: str | None = None) -> DatabasesAnswer:
    """The databases of Glue.

    Each has its name, description, location, creation time and parameters, and the URI of its tables. There are 50 per
    page: `?cursor=` and the `next_cursor` of a page read the next one. Each page reads all databases.
    """
    aws = current_caller().aws
    page = cut_page(
        read_databases(aws),
        lambda database: database["Name"],
        build=_database_row,
        cursor=cursor,
        limit=limit,
        scope=("glue databases", aws.region),
    )
    others, has_more = (None, False) if cursor else _list_other_catalogs(aws)
    answer: DatabasesAnswer = {
        "databases": page.rows,
        "next_cursor": page.next_cursor,
        "data_catalog": DATA_CATALOG,
        "other_data_catalogs": others,
        "count": page.total,
        "region": aws.region,
    }
    if has_more:
        answer["other_data_catalogs_truncated"] = True
    return answer


def _list_other_catalogs(aws: "AWSClients") -> tuple[list[DataCatalogRow] | None, bool]:
    """List the first data catalogs, and say whether Athena has more.

    They are None if Athena refuses or fails, which says nothing about the databases of Glue.
    """
    try:
        found: athena.ListDataCatalogsOutputTypeDef = aws.call("athena", "list_data_catalogs", MaxResults=MAX_NAMES)
    except ResourceFailure:
        return None, False
    listed = [one for one in found.get("DataCatalogsSummary", []) if "CatalogName" in one]
    names = {one["CatalogName"]: one.get("Type") for one in listed if one["CatalogName"] != DATA_CATALOG}
    return [{"name": name, "type": names[name]} for name in sorted(names)], bool(found.get("NextToken"))


def _database_row(database: "glue.DatabaseTypeDef") -> DatabaseRow:
    parameters, federation = database.get("Parameters", {}), database.get("FederatedDatabase", {})
    kept = cut_parameters(parameters)
    row: DatabaseRow = {
        "name": database["Name"],
        "description": database.get("Description", ""),
        "location": database.get("LocationUri"),
        "created_at": iso(database.get("CreateTime")),
        "parameters": kept,
        "link_target": describe_link(database.get("TargetDatabase")),
        "federated_source": federation.get("ConnectionName") or federation.get("Identifier"),
        "uri": f"athena://databases/{quote(database['Name'], safe='')}/tables",
    }
    if kept != parameters:
        row["parameters_truncated"] = True
    return row
