"""S3.

| asked                                 | moto                       | AWS, and here                              |
|---------------------------------------|----------------------------|--------------------------------------------|
| HeadBucket                            | needs `s3:HeadBucket`      | needs `s3:ListBucket`                      |
| a bucket that does not exist          | 403 to who may not list it | 404                                        |
| a HEAD that is refused                | has a body with a code     | has none: clients see the status, 403      |
| a missing key, without ListBucket     | 404                        | 403: who may not list may not know         |
| a bucket outside the request's region | answered                   | 301 with the region; clients then go there |
"""

from http import HTTPStatus
from typing import Any

from moto.core.common_types import TYPE_RESPONSE
from moto.core.utils import extract_region_from_aws_authorization
from moto.s3.exceptions import MissingBucket, MissingKey
from moto.s3.responses import S3Response

REGION_HEADER = "x-amz-bucket-region"
REDIRECT = "<Error><Code>PermanentRedirect</Code><Message>The bucket must be addressed in its region.</Message></Error>"


class S3Answers(S3Response):
    """S3, as AWS answers."""

    def bucket_response(self, request: Any, full_url: str, headers: Any) -> TYPE_RESPONSE:
        """Answer a request about a bucket."""
        return self._without_body(request, super().bucket_response(request, full_url, headers))

    def key_response(self, request: Any, full_url: str, headers: Any) -> TYPE_RESPONSE:
        """Answer a request about an object."""
        return self._without_body(request, super().key_response(request, full_url, headers))

    def head_object(self, bucket_name: str, query: dict[str, Any], key_name: str, headers: Any) -> TYPE_RESPONSE:
        """Answer HeadObject."""
        answer = super().head_object(bucket_name, query, key_name, headers)
        if answer[0] == HTTPStatus.NOT_FOUND:
            self._require_listing(bucket_name)
        return answer

    def _key_response_get(self, query: dict[str, Any], key_name: str) -> TYPE_RESPONSE:
        try:
            return super()._key_response_get(query, key_name)
        except MissingKey:
            self._require_listing(self.bucket_name)
            raise

    def _bucket_response(self, request: Any, full_url: str) -> str | TYPE_RESPONSE:
        creates = request.method == "PUT" and self._home_region() is None
        return (None if creates else self._misdirected()) or super()._bucket_response(request, full_url)

    def _key_response(self, request: Any, full_url: str) -> TYPE_RESPONSE:
        return self._misdirected() or super()._key_response(request, full_url)

    def _set_action(self, action_resource_type: str, method: str, querystring: dict[str, Any]) -> None:
        super()._set_action(action_resource_type, method, querystring)
        if self.data["Action"] == "HeadBucket":
            self.data["Action"] = "ListBucket"

    def _require_listing(self, bucket_name: str) -> None:
        self.data["Action"] = "ListBucket"
        self._authenticate_and_authorize_s3_action(bucket_name=bucket_name)

    def _misdirected(self) -> TYPE_RESPONSE | None:
        """The answer to a request that has not come to the bucket's region, if it is one."""
        home = self._home_region()
        if home is None and self.bucket_name:
            raise MissingBucket(bucket=self.bucket_name)
        signed_for = extract_region_from_aws_authorization(self.headers.get("Authorization", ""))
        if home in {None, signed_for}:
            return None
        return HTTPStatus.MOVED_PERMANENTLY, {REGION_HEADER: home}, REDIRECT

    def _home_region(self) -> str | None:
        try:
            return self.backend.get_bucket(self.bucket_name).region_name if self.bucket_name else None
        except MissingBucket:
            return None

    def _without_body(self, request: Any, answer: TYPE_RESPONSE) -> TYPE_RESPONSE:
        status, headers, _ = answer
        if request.method != "HEAD" or status < HTTPStatus.MULTIPLE_CHOICES:
            return answer
        region = self._home_region()
        return status, {**headers, **({REGION_HEADER: region} if region else {})}, b""
