"""The answers of athena://databases, athena://workgroups and athena://query/history."""

from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


class DatabaseRow(TypedDict):
    """One database.

    Attributes:
        name: its name.
        description: its description; empty if there is none.
        location_uri: the S3 location of its tables; null if not set, or if the source is Athena.
        create_time: ISO 8601 in UTC; null if unknown, or if the source is Athena.
        parameters: its parameters, sorted. Of many or long ones, only a part.
        parameters_truncated: whether parameters are left out or cut: at most 100, with 1,000 characters each.
        link_target: for a resource link, the account and the database to which it points; null otherwise.
        federated_source: for a database outside Glue, its connection or identifier; null otherwise.
    """

    name: str
    description: str
    location_uri: str | None
    create_time: str | None
    parameters: dict[str, str]
    parameters_truncated: bool
    link_target: str | None
    federated_source: str | None


class DatabasesAnswer(TypedDict):
    """The answer of athena://databases.

    Attributes:
        databases: the databases, sorted by name.
        data_catalog_name: the data catalog that contains them.
        count: the number of databases.
        source: the AWS service that listed them.
        region: the AWS region.
    """

    databases: list[DatabaseRow]
    data_catalog_name: str
    count: int
    source: Literal["glue", "athena"]
    region: str


class WorkgroupRow(TypedDict):
    """One workgroup.

    Attributes:
        name: its name.
        description: its description; empty if there is none.
        creation_time: ISO 8601 in UTC; null if unknown.
        output_location: where it stores results; null if not set, or without details.
        managed_results: whether Athena stores the results itself, so that there is no location; null without details.
        enforce_workgroup_config: whether its settings override those of clients; null without details.
        details_available: whether AWS returned the details of this workgroup.
        details_error: why it did not; null if it did.
    """

    name: str
    description: str
    creation_time: str | None
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
        candidates: the enabled workgroups of the Quilt stack that AWS described to the caller, sorted.
        disabled: the disabled workgroups of the Quilt stack, sorted. No query can use them.
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


class WorkgroupsAnswer(TypedDict):
    """The answer of athena://workgroups.

    Attributes:
        workgroups: the enabled workgroups: those of Quilt first, then by name.
        region: the AWS region.
        count: the number of workgroups in the list.
        workgroups_total: the number of enabled workgroups; null if not all of them were listed: only 1,000 are
            read, and only as many as the time allows.
        workgroups_covered: the number of workgroups that AWS described.
        recommended: what to use for the caller's queries.
    """

    workgroups: list[WorkgroupRow]
    region: str
    count: int
    workgroups_total: int | None
    workgroups_covered: int
    recommended: RecommendedWorkgroup


class QueryRow(TypedDict):
    """One query execution.

    Attributes:
        query_execution_id: its id.
        query: the SQL text, cut at 4000 characters.
        query_truncated: whether the text was cut.
        status: QUEUED, RUNNING, SUCCEEDED, FAILED or CANCELLED; null if unknown.
        submission_time: ISO 8601 in UTC; null if unknown.
        completion_time: ISO 8601 in UTC; null if it still runs.
        execution_time_ms: time in the engine, in milliseconds; null if unknown.
        data_scanned_bytes: amount of data read, in bytes; null if unknown.
        result_location: the S3 URI of the result; null if unknown.
        work_group: its workgroup; null if unknown.
        database: the database in which it ran; null if unknown.
        error_message: why it failed or was cancelled, cut at 4000 characters; null otherwise.
        error_message_truncated: whether it was cut.
    """

    query_execution_id: str
    query: str
    query_truncated: bool
    status: str | None
    submission_time: str | None
    completion_time: str | None
    execution_time_ms: int | None
    data_scanned_bytes: int | None
    result_location: str | None
    work_group: str | None
    database: str | None
    error_message: str | None
    error_message_truncated: bool


class UnavailableWorkgroup(TypedDict):
    """A workgroup that is missing from the history, and the reason."""

    name: str
    """Its name."""
    reason: str
    """Why it could not be read."""


class HistoryAnswer(TypedDict):
    """The answer of athena://query/history.

    Attributes:
        query_history: the queries, newest first.
        count: the number of queries in the list.
        max_results: the maximum of `count`.
        workgroups: the workgroups that were read. Those of Spark have no queries, and are left out.
        workgroups_unavailable: the workgroups with queries that could not be read.
        unprocessed: the number of queries that Athena listed but did not describe.
        region: the AWS region.
        workgroups_total: the number of enabled workgroups; null if not all of them were listed: only 1,000 are
            read, and only as many as the time allows.
        workgroups_covered: the number of workgroups that were read.
        is_complete: whether these are the newest queries of all enabled workgroups except those that AWS does not let
            you read. False if other workgroups or queries are missing.
    """

    query_history: list[QueryRow]
    count: int
    max_results: int
    workgroups: list[str]
    workgroups_unavailable: list[UnavailableWorkgroup]
    unprocessed: int
    region: str
    workgroups_total: int | None
    workgroups_covered: int
    is_complete: bool
