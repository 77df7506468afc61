"""An S3 bucket with rights that a test chooses, for the code that calls AWS through `call`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError

from quilt_mcp.services.stack.aws import AWSClients
from quilt_mcp.services.stack.exceptions import map_failure

REGION = "eu-central-1"
ENCRYPTED = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key"}


def allow_all(_: str) -> bool:
    """Allow everything."""
    return True


@dataclass
class ScriptedS3:
    """A bucket. The three functions decide about a prefix to list, a key to read and a key to write.

    Attributes:
        keys: the keys, in any order.
        lists: whether a prefix may be listed; the root is "".
        reads: whether a key may be read.
        writes: whether a key may be written.
        storage: the storage class of some keys.
        responses: what HeadObject returns for some keys, or the code of its error.
        error: the code of the error that every call returns.
        calls: the calls so far: the operation and its parameters.
    """

    keys: Sequence[str] = ()
    lists: Callable[[str], bool] = allow_all
    reads: Callable[[str], bool] = allow_all
    writes: Callable[[str], bool] = allow_all
    storage: dict[str, str] = field(default_factory=dict)
    responses: dict[str, dict[str, Any] | str] = field(default_factory=dict)
    error: str | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def call(self, _service: str, operation: str, **given: Any) -> Any:
        """Respond to one call."""
        self.calls.append((operation, given))
        if self.error:
            raise _make_error(operation, self.error, HTTPStatus.INTERNAL_SERVER_ERROR)
        return getattr(self, operation)(given)

    def as_clients(self) -> AWSClients:
        """Return this object as the type that the code under test takes."""
        return self  # type: ignore[return-value]  # a double: it has only `call`

    def list_objects_v2(self, given: dict[str, Any]) -> dict[str, Any]:
        """List a page, as S3 does: keys in the order of their bytes, prefixes and keys counted together."""
        prefix, delimiter, after = given.get("Prefix", ""), given.get("Delimiter"), given.get("StartAfter", "")
        if not self.lists(prefix):
            raise _make_error("ListObjectsV2", "AccessDenied", HTTPStatus.FORBIDDEN)
        keys = [key for key in sorted(self.keys, key=str.encode) if key.startswith(prefix) and key > after]
        folders = {key: self._cut(key, prefix, delimiter) for key in keys}
        entries = list(dict.fromkeys(folders.values()))
        page = entries[: given.get("MaxKeys", 1000)]
        contents = [{"Key": one, "StorageClass": self.storage.get(one, "STANDARD")} for one in page if one in folders]
        return {
            "Contents": contents,
            "CommonPrefixes": [{"Prefix": one} for one in page if one not in folders],
            "IsTruncated": len(page) < len(entries),
            "ResponseMetadata": _make_metadata(HTTPStatus.OK),
        }

    @staticmethod
    def _cut(key: str, prefix: str, delimiter: str | None) -> str:
        head, found, _ = key.removeprefix(prefix).partition(delimiter or "\0")
        return prefix + head + found if found else key

    def head_object(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata of an object."""
        key = given["Key"]
        response = self.responses.get(key, {})
        if isinstance(response, str):
            raise _make_error("HeadObject", response, HTTPStatus.NOT_FOUND)
        if not self.reads(key):
            raise _make_error("HeadObject", "403", HTTPStatus.FORBIDDEN)
        return response

    def put_object(self, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse the put: because of the rights, or because no object has the ETag."""
        assert given["IfMatch"]
        if not self.writes(given["Key"]):
            raise _make_error("PutObject", "AccessDenied", HTTPStatus.FORBIDDEN)
        raise _make_error("PutObject", "NoSuchKey", HTTPStatus.NOT_FOUND)


def _make_metadata(status: HTTPStatus) -> dict[str, Any]:
    return {"HTTPStatusCode": int(status), "HTTPHeaders": {"x-amz-bucket-region": REGION}}


def _make_error(operation: str, code: str, status: HTTPStatus) -> Exception:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": _make_metadata(status)}
    error = ClientError(response, operation)
    failure = map_failure(error)
    failure.__cause__ = error
    return failure
