"""What AWS says when it refuses, by the code of its error, and what botocore raises before it asks.

A row uses the class, the HTTP status or a structured code of the exception, never its text. Of AWS's sentence about a
refusal, only two parts with a closed set of words are read: the action, and the kind of policy.
"""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from quilt_mcp.core.errors import MakeFailure, NotFound, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.stack.aws_statements import ACTIONS, WHO_CHANGES, read_statement
from quilt_mcp.services.stack.failures import (
    FAILED,
    AWSKeysExpired,
    ConditionNotMet,
    NotSignedInToQuilt,
    Reason,
    RefusedByAWS,
    Throttled,
    TokenRefusedByS3,
    TooSlow,
    UnexplainedByS3,
    behind_proxy,
    find_host,
    is_connection_failure,
    name_class,
    not_trusted,
)

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


def _name_endpoint(error: Exception) -> str:
    host = find_host(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
    return f"{type(error).__name__}: {host}" if host else type(error).__name__


NEW_CREDENTIALS = (
    "Repeat the call. With a login to Quilt, this server then fetches new AWS credentials from the stack.",
    "If auth://status shows aws_source aws_default_chain, renew the AWS credentials of this machine instead.",
)

CLOCK = Reason(
    ResourceExecutionError,
    "The clock of this machine is wrong, so AWS rejects its signatures.",
    ("Set the clock of this machine, then repeat the call.",),
)

OWN_KEY = Reason(
    ResourceExecutionError,
    "The object is encrypted with a key that AWS does not keep (SSE-C).",
    ("Ask the owner of the object for a copy: only who has its key can read it.",),
)

BROKEN = Reason(Unavailable, "AWS could not process the request.")

BY_CODE: Sequence[tuple[Sequence[str], Reason]] = [
    (
        (
            "AccessDenied",
            "AccessDeniedException",
            "NotAuthorized",
            "UnauthorizedOperation",
            "UnauthorizedAccess",
            "Forbidden",
        ),
        Reason(RefusedByAWS, "Your AWS identity is not allowed to do this."),
    ),
    (
        ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
        Reason(AWSKeysExpired, "The AWS credentials have expired.", NEW_CREDENTIALS),
    ),
    (
        (
            "InvalidClientTokenId",
            "InvalidAccessKeyId",
            "InvalidToken",
            "IncompleteSignature",
            "UnrecognizedClientException",
            "MissingAuthenticationToken",
            "AuthFailure",
        ),
        Reason(NotSignedInToQuilt, "AWS rejected the credentials.", NEW_CREDENTIALS),
    ),
    (
        ("SignatureDoesNotMatch", "InvalidSignatureException"),
        Reason(
            NotSignedInToQuilt,
            "AWS rejected the signature of the request.",
            (*NEW_CREDENTIALS, "If it fails again, check the clock of this machine: a signature is valid for minutes."),
        ),
    ),
    (
        (
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "RequestLimitExceeded",
            "TooManyRequestsException",
            "SlowDown",
            "PriorRequestNotComplete",
        ),
        Reason(Throttled, "AWS is throttling requests."),
    ),
    (
        (
            "ConditionalRequestConflict",
            "InternalError",
            "InternalErrorException",
            "InternalFailure",
            "InternalServerException",
            "InternalServerError",
            "InternalServiceException",
            "OperationAborted",
            "OperationTimeoutException",
            "RequestAbortedException",
            "RequestTimeout",
            "RequestTimeoutException",
            "ResourceNotReadyException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "TemporaryRedirect",
        ),
        BROKEN,
    ),
    (
        ("FederationSourceRetryableException",),
        Reason(Unavailable, "The external source of a Glue database could not process the request."),
    ),
    (
        ("FederationSourceException",),
        Reason(
            ResourceExecutionError,
            "The external source of a Glue database failed.",
            ("Ask the owner of the database to check its connection in AWS Glue.",),
        ),
    ),
    (
        ("MetadataException",),
        Reason(
            ResourceExecutionError,
            "Athena could not read the data catalog.",
            ("Ask a Quilt administrator to grant your role the Glue permissions, such as glue:GetDatabases.",),
        ),
    ),
    (
        (
            "GlueEncryptionException",
            "KMS.DisabledException",
            "KMS.InvalidKeyUsageException",
            "KMS.InvalidStateException",
            "KMS.KMSInvalidStateException",
            "KMS.NotFoundException",
        ),
        Reason(
            ResourceExecutionError,
            "AWS could not decrypt or encrypt the data with its KMS key.",
            ("Ask a Quilt administrator whether the KMS key is enabled, and whether your role may use it.",),
        ),
    ),
    (
        ("InvalidObjectState",),
        Reason(
            ResourceExecutionError,
            "The object is archived, so it cannot be read.",
            ("Restore the object in S3, or ask the owner of the bucket to do it.",),
        ),
    ),
    (("PreconditionFailed",), Reason(ConditionNotMet, "The object does not meet the condition of the request.")),
    (
        (
            "InvalidArgument",
            "InvalidBucketName",
            "InvalidInputException",
            "InvalidNextToken",
            "InvalidParameterException",
            "InvalidRequest",
            "InvalidRequestException",
            "ValidationError",
            "ValidationException",
        ),
        Reason(
            ResourceExecutionError,
            "AWS does not accept the request in this form.",
            ("Check the names in the URI. If they are right, report the error with `details`.",),
        ),
    ),
    (
        ("NoSuchBucket", "NoSuchKey", "NoSuchVersion", "EntityNotFoundException"),
        Reason(NotFound, "Not found in AWS."),
    ),
    (("RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"), CLOCK),
    (
        ("AccountProblem", "AllAccessDisabled", "NotSignedUp", "OptInRequired"),
        Reason(
            ResourceExecutionError,
            "AWS has closed this resource, or the account that owns it, for everyone.",
            ("Ask the owner of the AWS account, who can see the reason in the AWS console.",),
        ),
    ),
]
"""What the error codes of AWS mean to the caller. Each code is in one row."""

OTHER = Reason(ResourceExecutionError, "AWS rejected the request.")

TOKEN_OF_S3 = Reason(TokenRefusedByS3, "S3 rejected the session token.", NEW_CREDENTIALS)

UNEXPLAINED = Reason(UnexplainedByS3, "S3 rejected the request and gave no reason.")


def _find(code: str) -> Reason:
    return next((reason for codes, reason in BY_CODE if code in codes), OTHER)


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

LAKE_FORMATION = (
    "Ask a Quilt administrator to grant your role the AWS permission named in `details`.",
    "If it has, AWS Lake Formation refuses you: ask for its grants on the database and its tables.",
    "For Quilt's own tables, the stack's CloudFormation parameter EnableLakeFormationGrants makes these grants.",
)

STATED_CAUSES = [
    (re.compile(r"Signature (?:expired|not yet current):"), CLOCK),
    (re.compile(r"The object was stored using a form of Server Side Encryption\."), OWN_KEY),
]
"""How AWS begins a sentence that names another cause than the code, which several causes share."""


def find_code(failure: ResourceFailure) -> str | None:
    """Return the error code of AWS that a failure was made from; None if it has another cause."""
    response = getattr(failure.__cause__, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, Mapping) else None


def map_client_error(error: "ClientError") -> ResourceFailure:
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
    if row is OTHER and status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
        row = BROKEN
    message = str(error.response.get("Error", {}).get("Message", ""))
    row = next((cause for pattern, cause in STATED_CAUSES if pattern.match(message)), row)
    stated, actions = read_statement(error), row.actions
    if row.failure is not RefusedByAWS:
        return row.failure(row.message, details=f"{action} ({code})", suggested_actions=actions)
    if stated.policy and (stated.is_denied or stated.policy != "identity-based policy"):
        actions = (WHO_CHANGES[stated.policy], *RefusedByAWS.default_actions[1:])
    elif (stated.action or action).startswith("glue:"):
        actions = LAKE_FORMATION
    return RefusedByAWS(row.message, details=stated.describe(action, code), suggested_actions=actions)


def _find_status(error: "ClientError") -> int:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else 0


REPLACED = "whether a proxy, a web filter or AWS_ENDPOINT_URL replaces AWS."


def make_not_from_aws(details: str, *, transient: bool = True) -> Unavailable:
    return Unavailable(
        "AWS did not return a valid response.",
        details=details,
        suggested_actions=[
            *(["Repeat the call."] if transient else []),
            f"{'If it fails again, ask' if transient else 'Ask'} the operator of this server {REPLACED}",
        ],
        transient=transient,
    )


NO_CREDENTIALS = Reason(
    NotSignedInToQuilt,
    "No usable AWS credentials were found.",
    (
        "Run `quilt-mcp login` in a terminal. The Quilt stack then issues AWS credentials.",
        "Or configure AWS credentials on this machine.",
    ),
)

SESSION_ENDED = Reason(
    NotSignedInToQuilt,
    "The AWS session of this machine has ended.",
    (
        "Run `aws sso login`, or `aws login`, on the machine of this server, with `--profile` if AWS_PROFILE is set.",
        "Or run `quilt-mcp login`. The Quilt stack then issues AWS credentials.",
    ),
)

NO_PROFILE = Reason(
    ResourceExecutionError,
    "The AWS profile of this machine does not exist.",
    (
        "Remove AWS_PROFILE from the server's environment, or add the profile to the AWS config file.",
        "Then restart the server.",
    ),
    lambda _: "AWS_PROFILE or AWS_DEFAULT_PROFILE names no profile in the AWS config and credentials files",
)

NO_REGION = Reason(
    ResourceExecutionError,
    "No AWS region is configured.",
    (
        "Run `quilt-mcp login https://<your catalog>`. It stores the region of the stack.",
        "Or set AWS_DEFAULT_REGION in the server's environment.",
    ),
    lambda _: None,
)

AWS_UNREACHABLE = Reason(Unavailable, "AWS cannot be reached.", describe=_name_endpoint)

AWS_TOO_SLOW = Reason(TooSlow, "AWS did not respond in time.", describe=_name_endpoint)


def _aws_behind_proxy(error: Exception) -> ResourceFailure:
    is_down = is_connection_failure(getattr(error, "kwargs", {}).get("error"))
    return (AWS_UNREACHABLE if is_down else behind_proxy("AWS"))(error)


AWS_FAILURES: dict[str, MakeFailure] = {
    "botocore.exceptions.ClientError": map_client_error,
    "botocore.exceptions.NoCredentialsError": NO_CREDENTIALS,
    "botocore.exceptions.PartialCredentialsError": NO_CREDENTIALS,
    "botocore.exceptions.CredentialRetrievalError": NO_CREDENTIALS,
    "botocore.exceptions.TokenRetrievalError": SESSION_ENDED,
    "botocore.exceptions.SSOError": SESSION_ENDED,
    "botocore.exceptions.LoginError": SESSION_ENDED,
    "botocore.exceptions.InvalidRegionError": Reason(
        ResourceExecutionError,
        "The AWS region has a form that no region has.",
        ("Correct the region: in quilt3's config.yml, with `quilt-mcp login`, or AWS_DEFAULT_REGION.",),
    ),
    "botocore.exceptions.ProfileNotFound": NO_PROFILE,
    "botocore.exceptions.NoRegionError": NO_REGION,
    "botocore.exceptions.SSLError": not_trusted("AWS", _name_endpoint, "AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE"),
    "botocore.exceptions.ProxyConnectionError": _aws_behind_proxy,
    "botocore.exceptions.ConnectTimeoutError": AWS_TOO_SLOW,
    "botocore.exceptions.ReadTimeoutError": AWS_TOO_SLOW,
    "botocore.exceptions.ConnectionError": AWS_UNREACHABLE,
    "botocore.exceptions.HTTPClientError": AWS_UNREACHABLE,
    "botocore.exceptions.BotoCoreError": FAILED,
    "botocore.parsers.ResponseParserError": lambda error: make_not_from_aws(name_class(error)),
}
