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
| GetObject, object under a KMS key      | allowed                    | needs `kms:Decrypt` on the key             |
| HeadObject with ChecksumMode, KMS key  | allowed                    | needs `kms:Decrypt` on the key             |
| ListBuckets                            | one page, without regions  | pages; regions if there is any parameter   |
| a bucket in another region             | processed                  | 301 with the region, which clients follow  |
"""

from http import HTTPStatus
from typing import Any

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionResult
from moto.core.utils import extract_region_from_aws_authorization
from moto.s3.exceptions import BucketAccessDeniedError, MissingBucket, MissingKey
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from quilt_mcp.demo.moto_gaps.refusals import Behaving, Sender

REGION_HEADER = "x-amz-bucket-region"
REDIRECT = "<Error><Code>PermanentRedirect</Code><Message>The bucket must be addressed in its region.</Message></Error>"
LIST_BUCKET = "s3:ListBucket"
MAX_BUCKETS = 10_000
INTERNAL_HEADER = "x-amz-sdk-checksum-algorithm"  # moto's own. S3 does not send it.
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

    def head_object(self, bucket_name: str, query: dict[str, Any], key_name: str, headers: Any) -> TYPE_RESPONSE:
        answer = super().head_object(bucket_name, query, key_name, headers)
        if answer[0] == HTTPStatus.NOT_FOUND:
            self._refuse_missing_key(key_name)
        elif headers.get("x-amz-checksum-mode") == "ENABLED":
            self._require_decryption(key_name)
        return answer

    def get_object(self) -> TYPE_RESPONSE:
        key = self.parse_key_name()
        if "versionId" not in self.querystring and self.backend.get_object(self.bucket_name, key) is None:
            self._refuse_missing_key(key)
        self._require_decryption(key)
        return super().get_object()

    def put_object(self) -> TYPE_RESPONSE:
        """Respond to PutObject. With If-Match, the sender needs the right to read too."""
        key = self.parse_key_name()
        if self.headers.get("If-Match"):
            if self._sender.decide("s3:GetObject", f"arn:aws:s3:::{self.bucket_name}/{key}") != "allowed":
                raise BucketAccessDeniedError(bucket=self.bucket_name)
            if self.backend.get_object(self.bucket_name, key) is None:
                self._refuse_missing_key(key, is_put=True)
        return super().put_object()

    def _bucket_response(self, request: Any, full_url: str) -> str | TYPE_RESPONSE:
        return self._redirect() or super()._bucket_response(request, full_url)

    def _key_response(self, request: Any, full_url: str) -> TYPE_RESPONSE:
        return self._redirect() or super()._key_response(request, full_url)

    def _set_action(self, action_resource_type: str, method: str, querystring: dict[str, Any]) -> None:
        super()._set_action(action_resource_type, method, querystring)
        if self.data["Action"] == "HeadBucket":
            self.data["Action"] = "ListBucket"

    def _refuse_missing_key(self, key: str, *, is_put: bool = False) -> None:
        """Raise the response to a request for a missing key. Only who may list the bucket learns that it is missing."""
        sender, arn = self._sender, f"arn:aws:s3:::{self.bucket_name}"
        may_list = sender.decide(LIST_BUCKET, arn) == "allowed"
        may_list_some = sender.decide(LIST_BUCKET, arn, with_conditions=False) == "allowed"  # such as one prefix
        status = HTTPStatus.NOT_FOUND if may_list else HTTPStatus.FORBIDDEN
        if not may_list and (is_put or may_list_some):
            status = self.behaviour.missing_key_status  # it is not documented
        if status is HTTPStatus.NOT_FOUND:
            raise MissingKey(key=key)
        raise BucketAccessDeniedError(bucket=self.bucket_name)

    def _require_decryption(self, key: str) -> None:
        kms_key = getattr(self.backend.get_object(self.bucket_name, key), "kms_key_id", None)
        if kms_key and self._sender.decide("kms:Decrypt", kms_key) != "allowed":
            raise BucketAccessDeniedError(bucket=self.bucket_name)

    @property
    def _sender(self) -> Sender:
        return Sender.of_request(self.current_account, self.headers)

    def _redirect(self) -> TYPE_RESPONSE | None:
        """Return the redirect for a request to another region than the bucket's; None for other requests."""
        home = self._find_region()
        if home is None and self.bucket_name:
            raise MissingBucket(bucket=self.bucket_name)
        signed_for = extract_region_from_aws_authorization(self.headers.get("Authorization", ""))
        if home in {None, signed_for}:
            return None
        return HTTPStatus.MOVED_PERMANENTLY, {REGION_HEADER: home}, REDIRECT

    def _find_region(self) -> str | None:
        try:
            return self.backend.get_bucket(self.bucket_name).region_name if self.bucket_name else None
        except MissingBucket:
            return None

    @staticmethod
    def _drop_body(request: Any, answer: TYPE_RESPONSE) -> TYPE_RESPONSE:
        status, headers, body = answer
        return status, headers, b"" if request.method == "HEAD" and status >= HTTPStatus.MULTIPLE_CHOICES else body


def _describe_bucket(bucket: FakeBucket, *, has_region: bool) -> dict[str, str]:
    described = {"Name": bucket.name, "CreationDate": bucket.creation_date_ISO8601}
    return {**described, "BucketRegion": bucket.region_name} if has_region else described
