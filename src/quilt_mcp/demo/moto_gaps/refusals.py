"""Refusals, and who is refused.

| request                        | moto                | AWS, and here                                             |
|--------------------------------|---------------------|-----------------------------------------------------------|
| not allowed, in Athena or Glue | 403 with XML        | 400 AccessDeniedException, each service with its own text |
| not allowed, in S3             | "Access Denied"     | the same for a bucket of another account; else the reason |
| unknown keys, Athena or Glue   | 403 with XML        | 400 UnrecognizedClientException                           |
| expired keys                   | never               | ExpiredToken; ExpiredTokenException in Athena and Glue    |
| errors of STS                  | in `Errors/Error`   | in `Error`                                                |
| an action of CloudWatch        | `monitoring:`       | `cloudwatch:`, with a reason                              |

How IAM decides whether policies allow a request.

| element of a policy      | moto                                | AWS, and here                                 |
|--------------------------|-------------------------------------|-----------------------------------------------|
| Condition                | an unmet one refuses every resource | the statement does not apply                  |
| condition on `s3:prefix` | never met                           | compared with the prefix of the request       |
| permissions boundary     | ignored                             | the policies and the boundary must both allow |
| session policy           | ignored                             | the same, and it must allow too               |
| NotResource              | ignored                             | all resources but these                       |
| `?`, `.` in a pattern    | parts of a regular expression       | one character, a dot                          |
| Action                   | case-sensitive                      | not case-sensitive                            |

Not here: bucket policies, organizations, and operators that are not in OPERATORS.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from moto.core.exceptions import AccessDeniedError, JsonRESTError
from moto.iam import access_control
from moto.iam.access_control import IAMRequest, IAMRequestBase, S3IAMRequest
from moto.s3.exceptions import S3AccessDeniedError, S3ClientError
from moto.s3.models import s3_backends
from moto.sts.models import sts_backends


@dataclass
class Behaviour:
    """The behaviour of an account.

    Attributes:
        missing_key_status: the response to a request for a missing key by a sender who may list only a prefix, and to a
            conditional put of a missing key by a sender who may not list. AWS documents neither.
        misdirected_status: the response to a request that is signed for another region than the bucket's: 301, or 400
            if the name of the host leads to the bucket's region already. Clients follow both.
        admits: whether the account may call an operation of Athena now. It counts the call.
        is_expired: whether an access key has expired. It counts the call with this key.
        run_query: the states of a new query, with the bytes scanned, that calls of GetQueryExecution see one after the
            other before it ends.
        lost_results: the ids of queries whose results were deleted.
        pad_token: what the page tokens of GetQueryResults begin with. AWS does not document how long they are.
        empty_page_tokens: whether the last page has an empty page token. Otherwise it has none.
    """

    missing_key_status: HTTPStatus = HTTPStatus.FORBIDDEN
    misdirected_status: HTTPStatus = HTTPStatus.MOVED_PERMANENTLY
    admits: Callable[[str], bool] = lambda _: True
    is_expired: Callable[[str], bool] = lambda _: False
    run_query: Callable[[str], Iterable[tuple[str, int]]] = lambda _: (("QUEUED", 0), ("RUNNING", 0))
    lost_results: Collection[str] = ()
    pad_token: str = ""
    empty_page_tokens: bool = False

    def make_page_token(self, end: int, total: int) -> str | None:
        """Return the token of the page that starts at `end`; None for no token."""
        return str(end) if end < total else "" if self.empty_page_tokens else None


class Behaving:
    """A part of the fake that follows the behaviour of the account. `fill_gaps` replaces it for a time."""

    behaviour: ClassVar[Behaviour] = Behaviour()


Statement = Mapping[str, Any]

Limit = Literal["outside the boundary", "outside the session policy"]
Decision = Literal["allowed", "denied", "not allowed"] | Limit
"""`denied` is an explicit Deny. `not allowed` means that no policy allows the request."""


class Access(NamedTuple):
    """What a sender asks for. `context` has the condition keys of the request."""

    action: str
    resource: str
    context: Mapping[str, str]


def decide(policies: Iterable[str], limits: Mapping[Limit, str], access: Access) -> Decision:
    """Return the decision of a sender's policies, which are JSON documents, and of what limits them."""
    applying = {effect for policy in policies for effect in _find_effects(policy, access)}
    limiting = {limit: _find_effects(policy, access) for limit, policy in limits.items()}
    if "Deny" in applying.union(*limiting.values()):
        return "denied"
    if "Allow" not in applying:
        return "not allowed"
    return next((limit for limit, effects in limiting.items() if "Allow" not in effects), "allowed")


def _find_effects(policy: str, access: Access) -> set[str]:
    return {
        one["Effect"]
        for one in parse_policy(policy)
        if _selects(one, "Action", access.action.lower(), str.lower)
        and _selects(one, "Resource", access.resource, str)
        and _meets(one.get("Condition", {}), access.context)
    }


def ignore_conditions(policy: str) -> str:
    statements = [{key: one[key] for key in one if key != "Condition"} for one in parse_policy(policy)]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@lru_cache(maxsize=512)
def parse_policy(document: str) -> tuple[Statement, ...]:
    statements = json.loads(document)["Statement"]
    return tuple(statements) if isinstance(statements, list) else (statements,)


def _selects(statement: Statement, element: str, value: str, fold: Callable[[str], str]) -> bool:
    """Return whether an element, or its opposite such as NotAction, selects a value."""
    if element in statement:
        return any(_matches(fold(pattern), value) for pattern in _list(statement[element]))
    return not any(_matches(fold(pattern), value) for pattern in _list(statement[f"Not{element}"]))


def _meets(condition: Mapping[str, Mapping[str, object]], context: Mapping[str, str]) -> bool:
    """Return whether all conditions are met. A key that the request does not have meets none of them."""
    return all(
        key in context and any(OPERATORS[operator](expected, context[key]) for expected in _list(values))
        for operator, keys in condition.items()
        for key, values in keys.items()
    )


def _list(value: object) -> list[str]:
    return value if isinstance(value, list) else [str(value)]


@lru_cache(maxsize=4096)
def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), value, re.DOTALL) is not None


OPERATORS: Mapping[str, Callable[[str, str], bool]] = {"StringEquals": str.__eq__, "StringLike": _matches}
"""For each operator, whether the value in the policy matches that of the request. Others raise KeyError."""


PARTITION = "aws"
EXPIRED = "The security token included in the request is expired"
INVALID = "The security token included in the request is invalid."
REQUEST_ID = "3f0c6f0e-4c9c-4c0f-9e67-1d2a5b8c7e41"
PREFIX_KEY = "s3:prefix"
S3_ARN = "arn:aws:s3:::"
NO_RESOURCE = frozenset({"*", f"{S3_ARN}*"})
REASONS: dict[Decision, str] = {
    "denied": "with an explicit deny in an identity-based policy",
    "not allowed": "because no identity-based policy allows the {} action",
    "outside the boundary": "because no permissions boundary allows the {} action",
    "outside the session policy": "because no session policy allows the {} action",
}


class Sender:
    """The identity behind an access key, with its policies."""

    def __init__(self, access_key: Any) -> None:
        self._key = access_key

    @classmethod
    def of_request(cls, account_id: str, headers: Mapping[str, str]) -> "Sender":
        """Return the sender of a request. Its signature has been checked."""
        key_id = headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        return cls(access_control.create_access_key(account_id, PARTITION, key_id, dict(headers)))

    def decide(
        self, action: str, resource: str, context: Mapping[str, str] | None = None, *, with_conditions: bool = True
    ) -> Decision:
        """Return whether the sender may do this. Without conditions, all conditions count as met."""
        policies = [read_document(policy) for policy in self._key.collect_policies()]
        if not with_conditions:
            policies = [ignore_conditions(policy) for policy in policies]
        return decide(policies, self._read_limits(), Access(action, resource, context or {}))

    @property
    def account_id(self) -> str:
        return str(self._key.account_id)

    def explain_refusal(
        self, action: str, resource: str, context: Mapping[str, str] | None = None, *, quote: str = ""
    ) -> str | None:
        """Return why the sender may not do this, as IAM explains it; None if it may.

        `quote` is what the service writes around the resource. Nothing is said about a resource that is no resource.
        """
        decision = self.decide(action, resource, context)
        if decision == "allowed":
            return None
        reason = REASONS[decision].format(action)
        of_resource = "" if resource in NO_RESOURCE else f" on resource: {quote}{resource}{quote}"
        return f"User: {self._key.arn} is not authorized to perform: {action}{of_resource} {reason}"

    def _read_limits(self) -> dict[Limit, str]:
        limits: dict[Limit, str] = {}
        if name := getattr(self._key, "_owner_role_name", None):
            if arn := self._key.backend.get_role(name).permissions_boundary_arn:
                limits["outside the boundary"] = read_document(self._key.backend.get_policy(arn))
            sessions = sts_backends[self._key.account_id][PARTITION].assumed_roles
            if policy := next(one.policy for one in sessions if one.access_key_id == self._key._access_key_id):  # noqa: SLF001 - moto's
                limits["outside the session policy"] = policy
        return limits


def read_document(policy: object) -> str:
    if isinstance(policy, str):
        return policy
    # moto's type of `policy` is too wide
    return next(str(version.document) for version in policy.versions if version.is_default)  # type: ignore[attr-defined]  # moto declares no types of policies


class _StrictRequest(Behaving, IAMRequestBase):
    """Checks a request against the policies of its sender."""

    def check_signature(self) -> None:
        super().check_signature()
        key_id = self._headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        if self.behaviour.is_expired(key_id):
            self._raise_expired()

    def check_action_permitted(self, resource: str) -> None:
        if self._service == "sts":  # its actions depend on trust policies, which moto checks
            super().check_action_permitted(resource)
        elif Sender(self._access_key).decide(self._action, resource, self._read_context()) != "allowed":
            self._refuse(resource)

    def _read_context(self) -> Mapping[str, str]:
        return {}

    def _refuse(self, resource: str) -> None:
        del resource
        self._raise_access_denied()

    def _raise_expired(self) -> None:
        raise NotImplementedError


class StrictIAMRequest(_StrictRequest, IAMRequest):
    """A request to a service other than S3."""

    def check_action_permitted(self, resource: str) -> None:
        # CloudWatch has one name in signatures, and another in policies
        self._action = self._action.replace("monitoring:", "cloudwatch:", 1)
        super().check_action_permitted(resource)

    def _refuse(self, resource: str) -> None:
        if self._service == "athena":
            raise JsonRESTError(
                "AccessDeniedException",
                f"You are not authorized to perform: {self._action} on the resource. After your AWS administrator or "
                "you have updated your permissions, please try again.",
            )
        refusal = str(Sender(self._access_key).explain_refusal(self._action, resource))
        if self._uses_json():
            raise JsonRESTError("AccessDeniedException", refusal)
        raise QueryError("AccessDenied", refusal)

    def _raise_invalid_access_key(self, _: str) -> None:
        if self._uses_json():
            raise JsonRESTError("UnrecognizedClientException", INVALID)
        raise QueryError("InvalidClientTokenId", INVALID)

    def _raise_expired(self) -> None:
        if self._uses_json():
            raise JsonRESTError("ExpiredTokenException", EXPIRED)
        raise QueryError("ExpiredToken", EXPIRED)

    def _uses_json(self) -> bool:
        return "X-Amz-Target" in self._headers


class QueryError(AccessDeniedError):
    """An error of a service with the query protocol, such as STS. moto puts another element around it."""

    def __init__(self, code: str, message: str) -> None:
        super(AccessDeniedError, self).__init__(code, message)
        error = f"<Type>Sender</Type><Code>{code}</Code><Message>{message}</Message>"
        self.description = f"<ErrorResponse><Error>{error}</Error><RequestId>{REQUEST_ID}</RequestId></ErrorResponse>"


def make_s3_refusal(sender: Sender, action: str, arn: str, context: Mapping[str, str] | None = None) -> S3ClientError:
    """Return the refusal of S3. It has a reason if the bucket is in the sender's account, since 2024."""
    error = S3AccessDeniedError()
    owner = s3_backends.bucket_accounts.get(arn.removeprefix(S3_ARN).partition("/")[0], (PARTITION, sender.account_id))
    if owner == (PARTITION, sender.account_id):
        error.message = sender.explain_refusal(action, arn, context, quote='"') or error.message
    return error


class StrictS3Request(_StrictRequest, S3IAMRequest):
    """A request to S3."""

    def _refuse(self, resource: str) -> None:
        raise make_s3_refusal(Sender(self._access_key), self._action, resource, self._read_context())

    def _read_context(self) -> Mapping[str, str]:
        """Return the condition keys. A listing without a prefix has no `s3:prefix`."""
        query = dict(parse_qsl(urlsplit(self._path).query, keep_blank_values=True))
        return {PREFIX_KEY: query["prefix"]} if "prefix" in query else {}

    def _raise_expired(self) -> None:
        raise ExpiredS3Token


class ExpiredS3Token(S3ClientError):
    """The refusal of expired keys by S3."""

    code = "ExpiredToken"
    status = HTTPStatus.BAD_REQUEST

    def __init__(self) -> None:
        super().__init__("The provided token has expired.")
