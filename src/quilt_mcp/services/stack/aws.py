"""AWS in the caller's name: credentials, clients and calls, with time limits and with our failures.

Imported on first use by `callers.py`, because it imports boto3.
"""

import os
import re
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from traceback import walk_tb
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import boto3
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError, InvalidRegionError, NoRegionError, ProfileNotFound
from botocore.loaders import Loader
from botocore.parsers import ResponseParserError

from quilt_mcp.core.errors import NotFound, NotSignedIn, ResourceExecutionError, ResourceFailure
from quilt_mcp.core.tracing import calling
from quilt_mcp.services.settings import StackSettings
from quilt_mcp.services.stack.addresses import parse_address
from quilt_mcp.services.stack.aws_failures import find_code, make_not_from_aws
from quilt_mcp.services.stack.aws_files import UNUSABLE, create_session, make_unusable, note_unused
from quilt_mcp.services.stack.exceptions import map_failure
from quilt_mcp.services.stack.failures import AWSKeysExpired, TokenRefusedByS3, UnexplainedByS3
from quilt_mcp.services.stack.places import Part, Place
from quilt_mcp.services.stack.quilt_files import read_stamp
from quilt_mcp.services.stack.shared_attempts import SharedAttempts
from quilt_mcp.services.stack.sign_in import AWSKeys, SignIn


class IssuedCredentials:
    """The AWS credentials of one identity, which botocore renews before they expire."""

    def __init__(self, keys: AWSKeys, fetch: Callable[[], AWSKeys]) -> None:
        self._keys, self._fetch = keys, fetch

    @property
    def expires_at(self) -> datetime:
        """When those in use expire."""
        return self._keys.expiry_time

    def create_session(self, *, with_files: bool = True) -> boto3.Session:
        """Create a boto3 session with only these credentials, and without the AWS files if they are of no use.

        quilt3's own session is not used: it can renew with an old token, and writes each renewal to disk.
        """
        session = create_session(with_files=with_files)
        session.register_component("credential_provider", CredentialResolver([_StackProvider(self._create)]))
        session.register_component("data_loader", _load_service_descriptions())
        return boto3.Session(botocore_session=session)

    def renew_session(self) -> boto3.Session:
        """Fetch new credentials before the old ones should expire, and create a session with them."""
        self._renew()
        return self.create_session()

    def _create(self) -> RefreshableCredentials:
        return RefreshableCredentials.create_from_metadata(
            metadata=self._keys.model_dump(mode="json"), refresh_using=self._renew, method=_StackProvider.METHOD
        )

    def _renew(self) -> dict[str, str]:
        self._keys = self._fetch()
        return self._keys.model_dump(mode="json")


class _StackProvider(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    METHOD = "quilt-registry"
    CANONICAL_NAME = "QuiltRegistry"

    def __init__(self, create: Callable[[], RefreshableCredentials]) -> None:
        super().__init__()
        self._create = create

    def load(self) -> RefreshableCredentials:
        return self._create()


@cache
def _load_service_descriptions() -> Loader:
    """Return botocore's descriptions of the AWS services. All callers share them, because each copy takes 20 MB."""
    return create_session().get_component("data_loader")


def open_own_session() -> boto3.Session:
    """Open a session with the AWS credentials of this machine.

    Raises:
        ResourceExecutionError: its AWS files cannot be used.
    """
    try:
        return boto3.Session()
    except ProfileNotFound as error:
        raise map_failure(error) from error
    except UNUSABLE as error:
        raise make_unusable(error) from error


def take_aws_fingerprint() -> Hashable:
    """Return a value that changes when the user writes the AWS files or sets AWS variables. It contains keys.

    A boto3 session reads them once, so it keeps the identity that they had.
    """
    variables = frozenset((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    paths = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
        os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config",
    )
    # Without a home directory, pathlib fails.
    files = [Path(os.path.expanduser(path)) for path in paths]  # noqa: PTH111 - as above
    return variables, *map(read_stamp, files)


Response = Mapping[str, Any]
"""What AWS returned. boto3 has no types."""

MAX_CONNECTIONS = 32  # the number of threads of fan_out
DEFAULT_REGION = "us-east-1"
Service = Literal["athena", "cloudwatch", "glue", "s3", "sts"]
SERVICES: tuple[Service, ...] = get_args(Service)
"""All services that this server calls."""
FIX_ENDPOINT = (
    "Ask the operator of this server to change or remove the endpoint: AWS_ENDPOINT_URL_{}, AWS_ENDPOINT_URL, or "
    "`endpoint_url` of the AWS profile or of its `services`. An endpoint on another machine needs an https:// address."
)
ANY_REGION = frozenset({"s3", "sts"})
"""The services that respond to calls for other regions, so that they can be called without knowing the region."""
DEFAULT_ATTEMPTS = 2
ATTEMPTS = {"athena": 3}
"""For services that throttle readers: more attempts. `athena_quotas.py` adapts the rate of calls."""
DOMAINS = re.compile(
    r"\.(amazonaws\.(com|com\.cn|eu)|api\.aws|aws\.scloud|amazonwebservices\.(com\.cn|eu)|ic\.gov|sgov\.gov|adc-e\.uk)$"
)
"""The domains of AWS in all its partitions."""
NOT_A_RESPONSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What botocore raises for a body that is not a response of AWS, such as a page that is not in UTF-8."""
JSON_OF_AWS = "application/x-amz-json"


class InUse:
    """Referenced by everything that uses one login. When nothing references it any more, the login is closed.

    Args:
        find_region: returns the region of the stack; None if it is unknown.
    """

    def __init__(self, find_region: Callable[[], str | None]) -> None:
        self.find_region = find_region


class AWSClients:
    """The boto3 clients of one identity. Each is created once. It is thread-safe.

    The clients are closed when this object is no longer referenced.

    Attributes:
        is_rejected: whether AWS has rejected the credentials.
    """

    def __init__(
        self,
        session: boto3.Session,
        settings: StackSettings,
        sign_in: SignIn,
        in_use: InUse,
        credentials: IssuedCredentials | None = None,
    ) -> None:
        self.is_rejected = False
        self._region = ""
        self._session, self._sign_in, self._in_use, self._credentials = session, sign_in, in_use, credentials
        self._lock = threading.Lock()
        self._checks, self._renewals = SharedAttempts[bool](), SharedAttempts[None]()
        self._clients: dict[str, BaseClient] = {}
        weakref.finalize(self, _close, self._clients).atexit = False
        self._config = Config(
            connect_timeout=settings.connect_timeout_seconds,
            read_timeout=settings.read_timeout_seconds,
            max_pool_connections=MAX_CONNECTIONS,
        )

    @property
    def expires_at(self) -> datetime | None:
        """When the credentials that the stack issued expire; None for those of this machine."""
        return self._credentials.expires_at if self._credentials else None

    @property
    def region(self) -> str:
        """The region in use: that of the stack, else that of the environment.

        Raises:
            ResourceFailure: it is unknown. In another region there are other databases, or none.
        """
        if not self._region:
            # boto3 does not read AWS_REGION
            region = self._in_use.find_region() or self._session.region_name or os.environ.get("AWS_REGION")
            if not region:
                raise map_failure(NoRegionError())
            self._region = region
        return self._region

    def find_replacements(self) -> dict[str, str] | None:
        """Return, by service, the host that replaces AWS's; None if nothing is replaced.

        A variable or an AWS profile can name it. A service whose client cannot be created is left out: it cannot be
        called either.
        """
        hosts = {}
        for service in SERVICES:
            with suppress(ResourceFailure):
                hosts[service] = urlsplit(self._client(service).meta.endpoint_url).hostname or ""
        return {service: host for service, host in hosts.items() if not DOMAINS.search(host)} or None

    def call(self, service: Service, operation: str, **parameters: object) -> Any:
        """Call one operation, such as `call("athena", "get_work_group", WorkGroup="primary")`.

        If the credentials have expired earlier than the stack said, the call is repeated with new ones.

        Raises:
            ResourceFailure: the rows of `failures.py` describe the exception that botocore raised.
        """
        session = self._session
        try:
            try:
                return self._send(service, operation, parameters)
            except (AWSKeysExpired, UnexplainedByS3, TokenRefusedByS3) as failure:
                self._renew_keys(session, failure)
            return self._send(service, operation, parameters)
        except NotSignedIn as failure:
            self.is_rejected = True
            self._sign_in.note_rejection(failure)
            raise

    def read_object(self, bucket: str, key: str, most: int, version: str | None = None) -> bytes | None:
        """Read at most this number of bytes of an object. Return None if the bucket has no such key or version.

        Raises:
            NotFound: there is no such bucket.
            ResourceFailure: as `call`.
        """
        try:
            _, content = self._get_object(most, Bucket=bucket, Key=key, **({"VersionId": version} if version else {}))
        except NotFound as missing:
            if find_code(missing) != "NoSuchBucket":
                return None
            actions = ["Read permissions://discover to see the names of your buckets."]
            raise NotFound(f"S3 has no bucket {bucket!a}.", suggested_actions=actions) from missing
        return content

    def read_part(self, place: Place, start: int, size: int, etag: str | None = None) -> Part:
        """Read this number of bytes of an object from a byte on; fewer at its end, and none of an empty one.

        Args:
            place: of the object.
            start: the first byte.
            size: the number of bytes.
            etag: the ETag that the object must have; None for any.

        Raises:
            ConditionNotMet: the object has another ETag.
            ResourceFailure: as `call`. `find_code` returns its code in AWS.
        """
        given = {"Bucket": place.bucket, "Key": place.key, "Range": f"bytes={start}-{start + size - 1}"}
        given |= {"VersionId": place.version} if place.version else {}
        given |= {"IfMatch": etag} if etag else {}
        try:
            found, content = self._get_object(size, **given)
        except ResourceExecutionError as refusal:
            if find_code(refusal) == "InvalidRange":  # only an empty object has no first byte
                return Part(b"", 0 if start == 0 else start, None, None, None)
            raise
        total = str(found.get("ContentRange", "")).rpartition("/")[2]
        if not total.isdecimal() and start:  # the whole object instead of the part
            raise make_not_from_aws("s3.get_object")
        size = int(total) if total.isdecimal() else found["ContentLength"]
        return Part(content, size, found.get("ETag"), found.get("LastModified"), found.get("ContentType"))

    def _get_object(self, most: int, **given: str) -> tuple[Response, bytes]:
        """Return the response of GetObject, and at most this number of bytes of its body."""
        found = self.call("s3", "get_object", **given)
        body = found["Body"]
        try:
            content: bytes = body.read(most)
        except (BotoCoreError, OSError) as error:
            raise map_failure(error) from error
        finally:
            body.close()
        is_cut = len(content) < min(most, found.get("ContentLength", 0))  # botocore does not check a limited read
        if is_cut or "RequestId" not in found["ResponseMetadata"]:  # any page looks like the content of an object
            raise make_not_from_aws("s3.get_object")
        return found, content

    def list_items(
        self, service: Service, operation: str, key: str, *, next_key: str = "NextToken", **given: object
    ) -> Iterator[Any]:
        """Iterate over the items of all pages of an operation. Each page is one call.

        Args:
            service: as for `call`.
            operation: as for `call`.
            key: the key of the items in a page.
            next_key: the name of the page token, in the parameters and in the response.
            given: the parameters of the operation.

        Raises:
            ResourceFailure: as `call`, or AWS returned a page token twice: the list would never end.
        """
        page, tokens = self.call(service, operation, **given), set[str]()
        yield from page.get(key, ())
        while token := page.get(next_key):  # some services return an empty token with the last page
            if token in tokens:
                raise ResourceExecutionError("AWS returned the same page twice.", details=f"{service}.{operation}")
            tokens.add(token)
            page = self.call(service, operation, **given, **{next_key: token})
            yield from page.get(key, ())

    def _send(self, service: Service, operation: str, parameters: Mapping[str, object]) -> Response:
        try:
            with calling("aws", f"{service}.{operation}"):
                client = self._client(service)
                self._check_encryption(service, client)
                response: Response = getattr(client, operation)(**parameters)
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            raise map_failure(error) from error
        except OSError as error:  # botocore has classes of its own for the network: this is a file with credentials
            if _passed_own_code(error):
                raise
            raise make_unusable(error) from error
        except NOT_A_RESPONSE as error:
            if _passed_own_code(error):
                raise
            raise make_not_from_aws(f"{service}.{operation}") from error
        if not _is_from_aws(response):
            raise make_not_from_aws(f"{service}.{operation}")
        return response

    def _renew_keys(self, session: boto3.Session, failure: ResourceFailure) -> None:
        """Replace the session that caused a failure, unless another thread has replaced it.

        Raises:
            ResourceFailure: the same failure if new credentials would not help, or the stack issued none.
        """
        if self._session is not session:
            return
        credentials = self._credentials
        if isinstance(failure, TokenRefusedByS3):
            raise _make_wrong_region(failure) if self._checks.share(session, self._are_keys_accepted) else failure
        if credentials is None or self.is_rejected:
            raise failure
        if isinstance(failure, UnexplainedByS3) and self._checks.share(session, self._are_keys_accepted):
            if self._session is session:
                raise failure
            return
        self._renewals.share(session, lambda: self._replace_session(session, credentials))

    def _replace_session(self, session: boto3.Session, credentials: IssuedCredentials) -> None:
        if self._session is session:  # `_renewals` lets one thread in at a time, and the first replaces it
            renewed = credentials.renew_session()
            with self._lock:
                self._session = renewed
                self._clients.clear()

    def _are_keys_accepted(self) -> bool:
        """Return whether AWS still accepts the credentials. Every identity may ask STS who it is."""
        try:
            self._send("sts", "get_caller_identity", {})
        except NotSignedIn:
            return False
        return True

    def _client(self, service: Service) -> BaseClient:
        region = self._choose_region(service)
        with self._lock:
            if service not in self._clients:
                client = self._create_client(service, region)
                self._clients[service] = client
                client.meta.events.register_first("needs-retry.s3.HeadBucket", _fail_if_redirected)
            return self._clients[service]

    def _create_client(self, service: Service, region: str) -> BaseClient:
        """Create a client, without the AWS files of this machine if they do no good and are not needed."""
        retries = {"mode": "standard", "total_max_attempts": ATTEMPTS.get(service, DEFAULT_ATTEMPTS)}
        config = self._config.merge(Config(retries=retries))
        try:
            return self._session.client(service, region_name=region, config=config)
        except UNUSABLE as error:
            if isinstance(error, InvalidRegionError) or _passed_own_code(error):
                raise map_failure(error) from error
            if str(error).startswith("Invalid endpoint"):  # the rest of its message can contain a password
                raise ResourceExecutionError(
                    f"The endpoint of the AWS service {service} is not a valid URL.",
                    details=service,
                    suggested_actions=[FIX_ENDPOINT.format(service.upper())],
                ) from None
            if self._credentials is None:
                raise make_unusable(error) from error
            note_unused(error)
            self._session = self._credentials.create_session(with_files=False)
            try:
                return self._session.client(service, region_name=region, config=config)
            except UNUSABLE as remaining:  # a variable of the environment
                raise make_unusable(remaining) from remaining

    def _check_encryption(self, service: Service, client: BaseClient) -> None:
        """Check that the session of a Quilt login is encrypted on its way to an endpoint that replaces AWS.

        As for the tokens of Quilt, nothing needs encryption that does not leave this machine: LocalStack and MinIO
        listen there without TLS. `find_replacements` names them.

        Raises:
            ResourceExecutionError: nothing may be sent there.
        """
        url = client.meta.endpoint_url
        if self._credentials is None or urlsplit(url).scheme == "https":
            return
        address = parse_address(url)
        if address is None or not address.is_loopback:
            raise ResourceExecutionError(
                f"The endpoint that replaces the AWS service {service} is not encrypted, so the AWS session of the "
                "Quilt login is not sent there.",
                details=f"{service}: http instead of https",
                suggested_actions=[FIX_ENDPOINT.format(service.upper())],
            )

    def _choose_region(self, service: Service) -> str:
        try:
            return self.region
        except ResourceFailure:
            if service in ANY_REGION:
                return DEFAULT_REGION
            raise


def _passed_own_code(error: Exception) -> bool:
    """Return whether code of this project raised an error, such as while it renewed credentials, or was asked to."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)][1:]
    return any(frame.f_globals["__name__"].startswith("quilt_mcp.services") for frame in frames)


def _fail_if_redirected(response: tuple[Any, Response] | None, **_: object) -> None:
    """Raise the error that a redirect of HeadBucket is. Its headers can name the region, which botocore then uses.

    botocore sends HeadBucket to find the region after a redirect, and does so again and again if that is redirected.
    """
    if response and HTTPStatus.MULTIPLE_CHOICES <= response[0].status_code < HTTPStatus.BAD_REQUEST:
        raise ClientError(response[1], "HeadBucket")


def _make_wrong_region(failure: ResourceFailure) -> ResourceExecutionError:
    return ResourceExecutionError(
        "S3 does not accept the AWS credentials in the region of this bucket, although AWS accepts them elsewhere.",
        details=failure.details.removeprefix(f"{NotSignedIn.reason}: ") if failure.details else None,
        suggested_actions=[
            "Ask a Quilt administrator whether the AWS account has enabled the region, which can be an opt-in region.",
            "Ask whether the stack issues session tokens for all regions (version 2 of the tokens of the global STS).",
        ],
    )


def _is_from_aws(response: Response) -> bool:
    """Return whether AWS sent a response with status 200, and not a proxy, for example.

    botocore returns an empty response for a body without anything that it expects. Only Athena and Glue may send one,
    because most of their lists are optional, and they use a content type of their own.
    """
    headers = response["ResponseMetadata"]["HTTPHeaders"]
    return len(response) > 1 or JSON_OF_AWS in headers.get("content-type", "")


def _close(clients: Mapping[str, BaseClient]) -> None:
    for client in clients.values():
        client.close()
