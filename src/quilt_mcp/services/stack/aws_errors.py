"""The meaning of AWS error codes."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple, Protocol

from quilt_mcp.core.errors import NotFound, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.stack.errors import AWSKeysExpired, NotSignedInToQuilt, RefusedByAWS, Throttled

# The IAM action that each operation needs, for the person who grants it.
ACTIONS = {
    "BatchGetQueryExecution": "athena:BatchGetQueryExecution",
    "GetCallerIdentity": "sts:GetCallerIdentity",
    "GetDataCatalog": "athena:GetDataCatalog",
    "GetDatabase": "glue:GetDatabase",
    "GetDatabases": "glue:GetDatabases",
    "GetTable": "glue:GetTable",
    "GetTables": "glue:GetTables",
    "GetWorkGroup": "athena:GetWorkGroup",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListBuckets": "s3:ListAllMyBuckets",
    "ListDatabases": "athena:ListDatabases",
    "ListObjectsV2": "s3:ListBucket",
    "ListQueryExecutions": "athena:ListQueryExecutions",
    "ListWorkGroups": "athena:ListWorkGroups",
    "PutObject": "s3:PutObject",
}

NEW_CREDENTIALS = (
    "Repeat the call. With a login to Quilt, this server then fetches new AWS credentials from the stack.",
    "If auth://status shows aws_source aws_default_chain, renew the AWS credentials of this machine instead.",
)
NO_CREDENTIALS = (
    "Run `quilt3 login` in a terminal. The Quilt stack then issues AWS credentials.",
    "Or configure AWS credentials on this machine.",
)


class _Row(NamedTuple):
    """What a group of AWS error codes means to the caller."""

    codes: frozenset[str]
    failure: type[ResourceFailure]
    message: str
    actions: tuple[str, ...] = ()


BROKEN = _Row(
    frozenset(
        {
            "InternalError",
            "InternalErrorException",
            "InternalFailure",
            "InternalServerException",
            "InternalServerError",
            "InternalServiceException",
            "OperationTimeoutException",
            "ResourceNotReadyException",
            "RequestTimeout",
            "RequestTimeoutException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
        }
    ),
    Unavailable,
    "AWS could not process the request.",
)


class UnexplainedByS3(ResourceExecutionError):
    """S3 rejected a HEAD request. The response has no body, so expired credentials are one of several causes.

    No client sees this failure: it is the evidence of a probe.
    """


class TokenRefusedByS3(NotSignedInToQuilt):
    """S3 rejected the session token. A region that is not enabled by default accepts only some tokens."""


UNEXPLAINED = _Row(
    frozenset(),
    UnexplainedByS3,
    "S3 rejected the request and gave no reason.",
    (
        "Read permissions://discover. It fails if your AWS credentials have expired.",
        "If it succeeds, the object can be encrypted with a key of its owner (SSE-C), which every read must contain.",
    ),
)
BY_CODE = (
    _Row(
        frozenset(
            {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "Forbidden"}
        ),
        RefusedByAWS,
        "Your AWS identity is not allowed to do this.",
    ),
    _Row(
        frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}),
        AWSKeysExpired,
        "The AWS credentials have expired.",
        NEW_CREDENTIALS,
    ),
    _Row(
        frozenset(
            {
                "InvalidClientTokenId",
                "InvalidAccessKeyId",
                "InvalidToken",
                "SignatureDoesNotMatch",
                "InvalidSignatureException",
                "IncompleteSignature",
                "UnrecognizedClientException",
                "MissingAuthenticationToken",
                "AuthFailure",
            }
        ),
        NotSignedInToQuilt,
        "AWS rejected the credentials.",
        NEW_CREDENTIALS,
    ),
    _Row(
        frozenset(
            {
                "Throttling",
                "ThrottlingException",
                "ThrottledException",
                "RequestThrottled",
                "RequestThrottledException",
                "RequestLimitExceeded",
                "TooManyRequestsException",
                "SlowDown",
                "PriorRequestNotComplete",
            }
        ),
        Throttled,
        "AWS is throttling requests.",
    ),
    BROKEN,
    _Row(
        frozenset({"FederationSourceRetryableException"}),
        Unavailable,
        "The external source of a Glue database could not process the request.",
    ),
    _Row(
        frozenset({"FederationSourceException"}),
        ResourceExecutionError,
        "The external source of a Glue database failed.",
        ("Ask the owner of the database to check its connection in AWS Glue.",),
    ),
    _Row(
        frozenset({"MetadataException"}),
        ResourceExecutionError,
        "Athena could not read the data catalog.",
        ("Ask a Quilt administrator to grant your role the Glue permissions, such as glue:GetDatabases.",),
    ),
    _Row(
        frozenset(
            {
                "GlueEncryptionException",
                "KMS.DisabledException",
                "KMS.InvalidKeyUsageException",
                "KMS.InvalidStateException",
                "KMS.KMSInvalidStateException",
                "KMS.NotFoundException",
            }
        ),
        ResourceExecutionError,
        "AWS could not decrypt or encrypt the data with its KMS key.",
        ("Ask a Quilt administrator whether the KMS key is enabled, and whether your role may use it.",),
    ),
    _Row(
        frozenset({"InvalidObjectState"}),
        ResourceExecutionError,
        "The object is archived, so it cannot be read.",
        ("Restore the object in S3, or ask the owner of the bucket to do it.",),
    ),
    _Row(
        frozenset({"PreconditionFailed", "ConditionalRequestConflict"}),
        ResourceExecutionError,
        "The object does not meet the condition of the request.",
    ),
    _Row(
        frozenset(
            {
                "InvalidArgument",
                "InvalidBucketName",
                "InvalidInputException",
                "InvalidParameterException",
                "InvalidRequest",
                "InvalidRequestException",
                "ValidationException",
            }
        ),
        ResourceExecutionError,
        "AWS does not accept the request in this form.",
        ("Check the names in the URI. If they are right, report the error with `details`.",),
    ),
    _Row(frozenset({"NoSuchBucket", "NoSuchKey", "EntityNotFoundException"}), NotFound, "Not found in AWS."),
    _Row(
        frozenset({"RequestTimeTooSkewed"}),
        ResourceExecutionError,
        "The clock of this machine is wrong, so AWS rejects its signatures.",
        ("Set the clock of this machine, then repeat the call.",),
    ),
)
OTHER = _Row(frozenset(), ResourceExecutionError, "AWS rejected the request.")


def _find(code: str) -> _Row:
    return next((row for row in BY_CODE if code in row.codes), OTHER)


# S3 sends no body with the response to a HEAD request. The code is then the status. A 400 has different meanings.
BY_STATUS = {
    "400": UNEXPLAINED,
    "401": _find("AuthFailure"),
    "403": _find("Forbidden"),
    "404": _find("NoSuchKey"),
    "412": _find("PreconditionFailed"),
    "429": _find("SlowDown"),
    "503": _find("SlowDown"),
}
TOKEN_OF_S3 = _Row(frozenset(), TokenRefusedByS3, "S3 rejected the session token.", NEW_CREDENTIALS)
LAKE_FORMATION = (
    "Ask a Quilt administrator to grant your role the AWS permission named in `details`.",
    "If it has, AWS Lake Formation refuses you: ask for its grants on the database and its tables.",
    "For Quilt's own tables, the stack's CloudFormation parameter EnableLakeFormationGrants makes these grants.",
)


class _ClientError(Protocol):
    """What the rows read of a botocore ClientError."""

    response: Mapping[str, Mapping[str, object]]
    operation_name: str


def map_client_error(error: _ClientError) -> ResourceFailure:
    """Return the failure for a ClientError of botocore, by its code, else by its HTTP status.

    AWS always sends a code, except in response to HEAD. So a response without one comes from something else.
    """
    code, operation = str(error.response.get("Error", {}).get("Code", "")), error.operation_name
    action, status = ACTIONS.get(operation, operation), _find_status(error)
    if operation.startswith("Head"):
        row = BY_STATUS.get(code) or _find(code)
    else:
        row = TOKEN_OF_S3 if code == "InvalidToken" and action.startswith("s3:") else _find(code)
        if row is OTHER and (code.isdigit() or not code) and status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return make_not_from_aws(f"{action}: HTTP status {code or status}", transient=False)
    if row is OTHER and status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        row = BROKEN
    actions = row.actions
    if row.failure is RefusedByAWS and action.startswith("glue:"):
        actions = LAKE_FORMATION
    return row.failure(row.message, details=f"{action} ({code})", suggested_actions=actions)


def _find_status(error: _ClientError) -> int:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else 0


REPLACED = "whether a proxy, a web filter or AWS_ENDPOINT_URL replaces AWS."


def make_not_from_aws(details: str, *, transient: bool = True) -> Unavailable:
    """Return the failure for a response that AWS does not send."""
    return Unavailable(
        "AWS did not return a valid response.",
        details=details,
        suggested_actions=[
            *(["Repeat the call."] if transient else []),
            f"{'If it fails again, ask' if transient else 'Ask'} the operator of this server {REPLACED}",
        ],
        transient=transient,
    )
