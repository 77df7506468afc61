"""S3.

| request                                | moto                       | AWS, and here                              |
|----------------------------------------|----------------------------|--------------------------------------------|
| HeadBucket                             | needs `s3:HeadBucket`      | needs `s3:ListBucket`                      |
| a bucket that does not exist           | 403 without ListBucket     | 404                                        |
| a refused HEAD                         | has a body with a code     | has no body; clients see the status, 403   |
| HeadBucket and listings                | region only if allowed     | always the region, also if they are refused|
| a missing key, without ListBucket      | 404                        | 403                                        |
| the same, ListBucket with a condition  | 404                        | not documented; see Behaviour              |
| put with If-Match                      | needs `s3:PutObject`       | needs `s3:GetObject` too                   |
| the same, missing key, no ListBucket   | 404                        | not documented; see Behaviour              |
| GetObject, object under a KMS key      | allowed                    | needs `kms:Decrypt`; the refusal is KMS's  |
| HeadObject with ChecksumMode, KMS key  | allowed                    | the same                                   |
| ListBuckets                            | one page, without regions  | pages; regions if there is any parameter   |
| a bucket in another region             | processed                  | 301 or 400 with the region; see Behaviour  |
| HeadObject of a version                | needs `s3:GetObject`       | needs `s3:GetObjectVersion`                |
| the same, bucket without versions      | 400                        | 404; the version `null` is the object      |
| a version ID in another form           | 404                        | 400 InvalidArgument                        |
| GetObject, delete marker               | 404 without headers        | 404 with headers that name the marker      |
| the same, with the marker's version    | 404 NoSuchVersion          | 405 with the same headers                  |
| HeadObject of a delete marker          | 405 without Last-Modified  | as GetObject                               |
| object without a version, versioning on| no version                 | the version `null`                         |
| Range in another unit, or damaged      | bytes, or fails            | is ignored                                 |
| Range of the last bytes, empty object  | 200                        | 416                                        |
| a response 304                         | has a body                 | has none                                   |
| a bucket whose requesters pay          | processed                  | other accounts must say that they pay      |
| ListObjectsV2, MaxKeys above 1000      | returns more               | returns 1000                               |
| the same, unknown continuation token   | fails                      | 400 InvalidArgument                        |
| the same, folder of delete markers     | is listed                  | is not                                     |
| the same, StartAfter and encoding-type | is returned as it came     | is encoded                                 |
| ListObjectVersions, encoding-type url  | is ignored                 | keys are encoded                           |
| the same, several versions in a second | the first is the latest    | the last is the latest                     |
| the same, second page                  | can lose its first key     | starts after the key and version           |

The rest of GetObject and HeadObject is moto's, and tests check it too: ranges, conditions, archives.
The form of version IDs is not documented; here they have 32 characters or more. Not here: the archive tiers of S3
Intelligent-Tiering, and access points.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionResult
from moto.core.utils import extract_region_from_aws_authorization, rfc_1123_datetime
from moto.s3.exceptions import (
    InvalidContinuationToken,
    InvalidRange,
    InvalidVersion,
    MethodNotAllowed,
    MissingBucket,
    MissingKey,
    MissingVersion,
    S3AccessDeniedError,
)
from moto.s3.models import FakeBucket, FakeDeleteMarker, FakeKey
from moto.s3.responses import S3Response

from quilt_mcp.demo.moto_gaps.refusals import S3_ARN, Behaving, Sender, make_s3_refusal

REGION_HEADER = "x-amz-bucket-region"
VERSION_HEADER = "x-amz-version-id"
PAYER_HEADER = "x-amz-request-payer"
MISDIRECTED = {
    HTTPStatus.MOVED_PERMANENTLY: "<Error><Code>PermanentRedirect</Code>"
    "<Message>The bucket must be addressed in its region.</Message></Error>",
    HTTPStatus.BAD_REQUEST: "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is "
    "malformed; the region '{signed_for}' is wrong; expecting '{home}'</Message><Region>{home}</Region></Error>",
}
RANGE = re.compile("bytes=([0-9]+-[0-9]*|-[0-9]+)")
VERSION_ID = re.compile("null|[A-Za-z0-9._-]{32,1024}")
FOREIGN_KEY = (
    "on the resource associated with this ciphertext because the resource does not exist in this Region, "
    "no resource-based policies allow access, or a resource-based policy explicitly denies access"
)
"""What KMS says about a key of another account."""
MAX_KEYS = 1000
LIST_BUCKET = "s3:ListBucket"
LISTS = frozenset({"ListBucket", "ListBucketVersions"})
MAX_BUCKETS = 10_000
INTERNAL_HEADER = "x-amz-sdk-checksum-algorithm"  # moto's own. S3 does not send it.
_Stored = FakeKey | FakeDeleteMarker
OWNER = {"ID": "bcaf1ffd86f41161ca5fb16fd081034f"}


class S3Answers(Behaving, S3Response):
    """S3, with the responses of AWS."""

    def bucket_response(self, request: Any, full_url: str, headers: Any) -> TYPE_RESPONSE:
        status, given, body = self._drop_body(request, super().bucket_response(request, full_url, headers))
        region = self._find_region()
        return status, {**given, **({REGION_HEADER: region} if region else {})}, body

    def key_response(self, request: Any, full_url: str, headers: Any) -> TYPE_RESPONSE:
        status, given, body = self._drop_body(request, super().key_response(request, full_url, headers))
        return status, {name: given[name] for name in given if name.lower() != INTERNAL_HEADER}, body

    def all_buckets(self) -> TYPE_RESPONSE:
        self.data["Action"] = "ListAllMyBuckets"
        self._authenticate_and_authorize_s3_action()
        self.data["Action"] = "ListBuckets"
        prefix, size, token = map(self._get_param, ("prefix", "max-buckets", "continuation-token"))
        buckets = self.backend.list_buckets(prefix=prefix, bucket_region=None, max_buckets=None)
        buckets.sort(key=lambda bucket: bucket.name)
        start = int(token or 0)
        end = start + int(size or MAX_BUCKETS)
        has_region = any((prefix, size, token))
        described = [_describe_bucket(bucket, has_region=has_region) for bucket in buckets[start:end]]
        answer: dict[str, object] = {"Owner": OWNER, "Buckets": described}
        following = self.behaviour.make_page_token(end, len(buckets))
        if following is not None:
            answer["ContinuationToken"] = following
        return self.serialized(ActionResult(answer))

    def list_objects_v2(self) -> TYPE_RESPONSE:
        newest = ((name, versions[-1:]) for name, versions in self._list_keys() if isinstance(versions[-1], FakeKey))
        listing = self._list(newest)
        token, after = self._get_param("continuation-token"), self._get_param("start-after") or ""
        start = bisect_right([row.name for row in listing.rows], after if token is None else _read_token(token))
        page, is_cut = listing.cut(start)
        has_owner = self._get_param("fetch-owner") == "true"
        answer = listing.describe(is_cut=is_cut) | {
            "KeyCount": len(page),
            "Contents": [
                _describe_object(row.stored, listing, has_owner=has_owner)
                for row in page
                if isinstance(row.stored, FakeKey)
            ],
            "CommonPrefixes": [{"Prefix": listing.encode(row.name)} for row in page if row.stored is None],
        }
        if is_cut:
            answer["NextContinuationToken"] = page[-1].name.encode().hex()
        if token:
            answer["ContinuationToken"] = token
        elif after:
            answer["StartAfter"] = listing.encode(after)
        self.data["Action"] = "ListObjectsV2"
        return self.serialized(ActionResult(answer))

    def list_object_versions(self) -> TYPE_RESPONSE:
        listing = self._list(self._list_keys())
        key, version = self._get_param("key-marker") or "", self._get_param("version-id-marker")
        start = bisect_right([row.name for row in listing.rows], key)
        if version:
            start = next((at for at, row in enumerate(listing.rows, 1) if (row.name, row.id) == (key, version)), start)
        page, is_cut = listing.cut(start)
        answer = listing.describe(is_cut=is_cut) | {
            "KeyMarker": listing.encode(key),
            "VersionIdMarker": version or "",
            "Versions": [
                _describe_version(row.stored, listing, is_latest=row.is_latest)
                for row in page
                if isinstance(row.stored, FakeKey)
            ],
            "DeleteMarkers": [
                _describe_version(row.stored, listing, is_latest=row.is_latest)
                for row in page
                if isinstance(row.stored, FakeDeleteMarker)
            ],
            "CommonPrefixes": [{"Prefix": listing.encode(row.name)} for row in page if row.stored is None],
        }
        if is_cut:
            answer |= {"NextKeyMarker": listing.encode(page[-1].name), "NextVersionIdMarker": page[-1].id}
        self.data["Action"] = "ListObjectVersions"
        return self.serialized(ActionResult(answer))

    def head_object(self, bucket_name: str, query: dict[str, Any], key_name: str, headers: Any) -> TYPE_RESPONSE:
        given = query
        if self._version_id == "null":  # moto refuses every version of a bucket without versions
            given = {name: query[name] for name in query if name != "versionId" or self._has_versions}
        answer = super().head_object(bucket_name, given, key_name, headers)
        if answer[0] in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
            self._refuse_missing(key_name)
        if headers.get("x-amz-checksum-mode") == "ENABLED":
            self._require_decryption(key_name)
        return self._name_version(answer)

    def get_object(self) -> TYPE_RESPONSE:
        key = self.parse_key_name()
        if not isinstance(self._find(key), FakeKey):
            self._refuse_missing(key)
        self._require_decryption(key)
        return self._name_version(super().get_object())

    def put_object(self) -> TYPE_RESPONSE:
        """Respond to PutObject. With If-Match, the sender needs the right to read too."""
        key = self.parse_key_name()
        if self.headers.get("If-Match"):
            arn = f"{S3_ARN}{self.bucket_name}/{key}"
            if self._sender.decide("s3:GetObject", arn) != "allowed":
                raise make_s3_refusal(self._sender, "s3:GetObject", arn)
            if self.backend.get_object(self.bucket_name, key) is None:
                self._refuse_missing_key(key, is_put=True)
        return super().put_object()

    def _bucket_response(self, request: Any, full_url: str) -> str | TYPE_RESPONSE:
        return self._redirect() or super()._bucket_response(request, full_url)

    def _key_response(self, request: Any, full_url: str) -> TYPE_RESPONSE:
        return self._redirect() or super()._key_response(request, full_url)

    def _authenticate_and_authorize_s3_action(
        self, bucket_name: str | None = None, key_name: str | None = None
    ) -> None:
        super()._authenticate_and_authorize_s3_action(bucket_name, key_name)
        if key_name or (self.method == "GET" and self.data["Action"] in LISTS):  # HeadBucket cannot say who pays
            self._require_payer()

    def _set_action(self, action_resource_type: str, method: str, querystring: dict[str, Any]) -> None:
        super()._set_action(action_resource_type, method, querystring)
        if self.data["Action"] == "HeadBucket":
            self.data["Action"] = "ListBucket"
        elif (action_resource_type, method) == ("KEY", "HEAD") and self._version_id is not None:
            self.data["Action"] = "GetObjectVersion"

    def _handle_range_header(
        self, request: object, response_headers: dict[str, str], response_content: bytes
    ) -> TYPE_RESPONSE:
        asked = str(self.headers["Range"])
        if not RANGE.fullmatch(asked):
            return HTTPStatus.OK, response_headers, response_content
        if response_headers["content-length"] == "0" and asked.startswith("bytes=-"):
            return self.serialized(ActionResult(InvalidRange(range_requested=asked, actual_size="0")))
        return super()._handle_range_header(request, response_headers, response_content)

    @property
    def _version_id(self) -> str | None:
        """The version that the request names."""
        given: list[str] = self.querystring.get("versionId", [])
        return given[0] if given else None

    @property
    def _has_versions(self) -> bool:
        return self.backend.get_bucket(self.bucket_name).versioning_status is not None

    def _find(self, key: str) -> FakeKey | FakeDeleteMarker | None:
        """Return what the request names.

        Raises:
            InvalidVersion: the version ID has another form than those of S3.
        """
        if self._version_id is not None and not VERSION_ID.fullmatch(self._version_id):
            raise InvalidVersion(self._version_id)
        return self.backend.get_object(self.bucket_name, key, self._version_id, return_delete_marker=True)

    def _refuse_missing(self, key: str) -> None:
        """Raise the response to a request for an object or a version that is missing, or that a delete marker hides."""
        marker = self._find(key)
        if self._version_id is None:
            if isinstance(marker, FakeDeleteMarker) and self._sender.decide(LIST_BUCKET, self._bucket_arn) == "allowed":
                self._name_marker(marker)
            self._refuse_missing_key(key)
        if not isinstance(marker, FakeDeleteMarker):
            raise MissingVersion(key, self._version_id)
        self._name_marker(marker)
        self.response_headers |= {"allow": "DELETE", "last-modified": rfc_1123_datetime(marker.last_modified)}
        raise MethodNotAllowed(self.method, "DeleteMarker")

    def _name_marker(self, marker: FakeDeleteMarker) -> None:
        self.response_headers |= {"x-amz-delete-marker": "true", VERSION_HEADER: marker.version_id}

    def _refuse_missing_key(self, key: str, *, is_put: bool = False) -> None:
        """Raise the response to a request for a missing key. Only who may list the bucket learns that it is missing."""
        sender, arn = self._sender, self._bucket_arn
        may_list = sender.decide(LIST_BUCKET, arn) == "allowed"
        may_list_some = sender.decide(LIST_BUCKET, arn, with_conditions=False) == "allowed"  # such as one prefix
        status = HTTPStatus.NOT_FOUND if may_list else HTTPStatus.FORBIDDEN
        if not may_list and (is_put or may_list_some):
            status = self.behaviour.missing_key_status  # it is not documented
        if status is HTTPStatus.NOT_FOUND:
            raise MissingKey(key=key)
        raise make_s3_refusal(sender, LIST_BUCKET, arn)

    def _require_decryption(self, key: str) -> None:
        kms_key, sender = getattr(self._find(key), "kms_key_id", None), self._sender
        if kms_key and (refusal := sender.explain_refusal("kms:Decrypt", kms_key)):
            error = S3AccessDeniedError()
            is_foreign = kms_key.split(":")[4] != sender.account_id
            error.message = f"{refusal.partition(' on resource: ')[0]} {FOREIGN_KEY}" if is_foreign else refusal
            raise error

    def _require_payer(self) -> None:
        """Refuse a sender of another account that does not say that it pays for the request, if it has to."""
        bucket = self.backend.get_bucket(self.bucket_name)
        if bucket.payer == "Requester" and bucket.account_id != self._sender.account_id:
            if self.headers.get(PAYER_HEADER) != "requester":
                raise S3AccessDeniedError
            self.response_headers["x-amz-request-charged"] = "requester"

    def _name_version(self, answer: TYPE_RESPONSE) -> TYPE_RESPONSE:
        """Add the version `null` to a response about an object that was stored before versioning was enabled."""
        status, headers, body = answer
        return (
            status,
            {**({VERSION_HEADER: "null"} if self._has_versions else {}), **headers, **self.response_headers},
            body,
        )

    @property
    def _bucket_arn(self) -> str:
        return f"{S3_ARN}{self.bucket_name}"

    @property
    def _sender(self) -> Sender:
        return Sender.of_request(self.current_account, self.headers)

    def _list_keys(self) -> list[tuple[str, list[_Stored]]]:
        """Return the keys of the bucket in their order, each with what was stored, the oldest first."""
        keys = self.backend.get_bucket(self.bucket_name).keys
        return sorted(keys.iterlists(), key=lambda item: item[0])

    def _list(self, keys: Iterable[tuple[str, list[_Stored]]]) -> "_Listing":
        prefix, delimiter, encoding = (self._get_param(name) or "" for name in ("prefix", "delimiter", "encoding-type"))
        size = min(int(self._get_param("max-keys") or MAX_KEYS), MAX_KEYS)
        rows = list(_find_rows(keys, prefix, delimiter))
        return _Listing(str(self.bucket_name), prefix, delimiter, encoding, size, rows)

    def _redirect(self) -> TYPE_RESPONSE | None:
        """Return the response to a request for another region than the bucket's; None for other requests."""
        home = self._find_region()
        if home is None and self.bucket_name:
            raise MissingBucket(bucket=self.bucket_name)
        signed_for = extract_region_from_aws_authorization(self.headers.get("Authorization", ""))
        if home in {None, signed_for}:
            return None
        status = self.behaviour.misdirected_status
        return status, {REGION_HEADER: home}, MISDIRECTED[status].format(home=home, signed_for=signed_for)

    def _find_region(self) -> str | None:
        try:
            return self.backend.get_bucket(self.bucket_name).region_name if self.bucket_name else None
        except MissingBucket:
            return None

    @staticmethod
    def _drop_body(request: Any, answer: TYPE_RESPONSE) -> TYPE_RESPONSE:
        status, headers, body = answer
        has_none = status == HTTPStatus.NOT_MODIFIED or (
            request.method == "HEAD" and status >= HTTPStatus.MULTIPLE_CHOICES
        )
        return status, headers, b"" if has_none else body


def _describe_bucket(bucket: FakeBucket, *, has_region: bool) -> dict[str, str]:
    described = {"Name": bucket.name, "CreationDate": bucket.creation_date_ISO8601}
    return {**described, "BucketRegion": bucket.region_name} if has_region else described


class _Row(NamedTuple):
    """A row of a list: an object or a version, a delete marker, or a common prefix, for which nothing is stored."""

    name: str
    stored: _Stored | None = None
    is_latest: bool = False

    @property
    def id(self) -> str:
        return str(self.stored.version_id) if self.stored else ""


class _Listing(NamedTuple):
    """What a request lists: its parameters, and the rows of all pages."""

    bucket: str
    prefix: str
    delimiter: str
    encoding: str
    size: int
    rows: list[_Row]

    def cut(self, start: int) -> tuple[list[_Row], bool]:
        """Return a page, and whether there are more."""
        return self.rows[start : start + self.size], 0 < self.size < len(self.rows) - start

    def encode(self, name: str) -> str:
        return quote(name) if self.encoding else name

    def describe(self, *, is_cut: bool) -> dict[str, object]:
        """Return what all lists have."""
        described: dict[str, object] = {
            "Name": self.bucket,
            "Prefix": self.encode(self.prefix),
            "MaxKeys": self.size,
            "IsTruncated": is_cut,
        }
        if self.delimiter:
            described["Delimiter"] = self.encode(self.delimiter)
        return described | ({"EncodingType": self.encoding} if self.encoding else {})


def _find_rows(keys: Iterable[tuple[str, list[_Stored]]], prefix: str, delimiter: str) -> Iterator[_Row]:
    """Yield the rows in the order of their keys, and for each key the newest version first."""
    folder = None
    for name, versions in keys:
        if not name.startswith(prefix):
            continue
        end = name.find(delimiter, len(prefix)) if delimiter else -1
        if end < 0:
            yield from (_Row(name, one, is_latest=one is versions[-1]) for one in reversed(versions))
        elif name[: end + len(delimiter)] != folder:
            folder = name[: end + len(delimiter)]
            yield _Row(folder)


def _read_token(token: str) -> str:
    """Return the last key or common prefix of the previous page."""
    try:
        return bytes.fromhex(token).decode()
    except ValueError:
        raise InvalidContinuationToken from None


def _describe_object(stored: FakeKey, listing: _Listing, *, has_owner: bool) -> dict[str, object]:
    described = {
        "Key": listing.encode(stored.name),
        "LastModified": stored.last_modified_ISO8601,
        "ETag": stored.etag,
        "Size": stored.size,
        "StorageClass": stored.storage_class,
    }
    if stored.checksum_algorithm:
        described["ChecksumAlgorithm"] = [stored.checksum_algorithm]
    return {**described, "Owner": OWNER} if has_owner else described


def _describe_version(stored: _Stored, listing: _Listing, *, is_latest: bool) -> dict[str, object]:
    described = {
        "Key": listing.encode(stored.name),
        "VersionId": stored.version_id,
        "IsLatest": is_latest,
        "LastModified": stored.last_modified_ISO8601,
        "Owner": OWNER,
    }
    if isinstance(stored, FakeKey):
        described |= {"ETag": stored.etag, "Size": stored.size, "StorageClass": stored.storage_class}
    return described
