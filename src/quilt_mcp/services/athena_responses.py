"""The parts of the responses of Athena and Glue that the answers of athena:// are made from."""

from datetime import datetime
from typing import NotRequired, TypedDict


class AWSDatabase(TypedDict):
    """A database in a response of Glue or Athena."""

    Name: str
    Description: NotRequired[str]
    LocationUri: NotRequired[str]
    CreateTime: NotRequired[datetime]
    Parameters: NotRequired[dict[str, str]]
    TargetDatabase: NotRequired["AWSTarget"]
    FederatedDatabase: NotRequired["AWSFederation"]


class AWSTarget(TypedDict, total=False):
    """What a resource link points to."""

    CatalogId: str
    DatabaseName: str
    Name: str
    Region: str


class AWSFederation(TypedDict, total=False):
    """The source of a database outside Glue."""

    Identifier: str
    ConnectionName: str


class AWSEngine(TypedDict, total=False):
    """The engine of a workgroup."""

    EffectiveEngineVersion: str


class AWSWorkGroup(TypedDict):
    """A workgroup in a response of ListWorkGroups."""

    Name: str
    State: NotRequired[str]
    Description: NotRequired[str]
    CreationTime: NotRequired[datetime]
    EngineVersion: NotRequired[AWSEngine]


class AWSWorkGroups(TypedDict, total=False):
    """A page of a response of ListWorkGroups."""

    WorkGroups: list[AWSWorkGroup]
    NextToken: str


class AWSResultConfiguration(TypedDict, total=False):
    """Where results are stored."""

    OutputLocation: str


class AWSWorkGroupConfiguration(TypedDict, total=False):
    """The settings of a workgroup."""

    ResultConfiguration: AWSResultConfiguration
    EnforceWorkGroupConfiguration: bool
    ManagedQueryResultsConfiguration: "AWSManagedResults"


class AWSManagedResults(TypedDict, total=False):
    """Whether Athena stores results itself."""

    Enabled: bool


class AWSWorkGroupDetails(TypedDict, total=False):
    """A workgroup in a response of GetWorkGroup."""

    Configuration: AWSWorkGroupConfiguration


class AWSQueryStatus(TypedDict, total=False):
    """The status of a query execution."""

    State: str
    SubmissionDateTime: datetime
    CompletionDateTime: datetime
    StateChangeReason: str


class AWSQueryStatistics(TypedDict, total=False):
    """The statistics of a query execution."""

    EngineExecutionTimeInMillis: int
    DataScannedInBytes: int


class AWSQueryContext(TypedDict, total=False):
    """Where a query ran."""

    Database: str


class AWSQueryExecution(TypedDict):
    """A query execution in a response of BatchGetQueryExecution."""

    QueryExecutionId: str
    Query: NotRequired[str]
    Status: NotRequired[AWSQueryStatus]
    Statistics: NotRequired[AWSQueryStatistics]
    ResultConfiguration: NotRequired[AWSResultConfiguration]
    QueryExecutionContext: NotRequired[AWSQueryContext]
    WorkGroup: NotRequired[str]


class AWSQueryIds(TypedDict, total=False):
    """A page of a response of ListQueryExecutions."""

    QueryExecutionIds: list[str]
    NextToken: str


class AWSQueryExecutions(TypedDict, total=False):
    """A response of BatchGetQueryExecution."""

    QueryExecutions: list[AWSQueryExecution]
    UnprocessedQueryExecutionIds: list[object]


class AWSColumn(TypedDict):
    """A column in a response of Glue."""

    Name: str
    Type: NotRequired[str]
    Comment: NotRequired[str]
    Parameters: NotRequired[dict[str, str]]


class AWSSerde(TypedDict, total=False):
    """How rows are stored in files."""

    SerializationLibrary: str
    Parameters: dict[str, str]


class AWSStorage(TypedDict, total=False):
    """Where and how a table is stored."""

    Columns: list[AWSColumn]
    Location: str
    InputFormat: str
    OutputFormat: str
    SerdeInfo: AWSSerde
    Parameters: dict[str, str]


class AWSRepresentation(TypedDict, total=False):
    """The query of a view for one engine."""

    Dialect: str
    ViewOriginalText: str


class AWSView(TypedDict, total=False):
    """A view that several engines can read."""

    Representations: list[AWSRepresentation]


class AWSTable(TypedDict):
    """A table in a response of Glue."""

    Name: str
    DatabaseName: NotRequired[str]
    Description: NotRequired[str]
    CreateTime: NotRequired[datetime]
    UpdateTime: NotRequired[datetime]
    StorageDescriptor: NotRequired[AWSStorage]
    PartitionKeys: NotRequired[list[AWSColumn]]
    ViewOriginalText: NotRequired[str]
    TableType: NotRequired[str]
    TargetTable: NotRequired[AWSTarget]
    ViewDefinition: NotRequired[AWSView]
    Parameters: NotRequired[dict[str, str]]
