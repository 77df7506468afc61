"""Refusals by the services that speak JSON: Athena and Glue.

| asked                    | moto                | AWS, and here                                       |
|--------------------------|---------------------|-----------------------------------------------------|
| what IAM does not allow  | 403 with XML        | 400 AccessDeniedException, with action and resource |
| with unknown credentials | 403 with XML        | 400 UnrecognizedClientException                     |
| anything of Glue         | needs rights on `*` | needs rights on the ARN of the data catalog         |
"""

from moto.core.exceptions import AccessDeniedError, JsonRESTError
from moto.glue.responses import GlueResponse
from moto.iam.access_control import IAMRequest


class JsonAwareIAMRequest(IAMRequest):
    """The check of a request against the policies of its sender."""

    def check_action_permitted(self, resource: str) -> None:
        """Let the request pass, or refuse it in the form of its protocol."""
        try:
            super().check_action_permitted(resource)
        except AccessDeniedError as refusal:
            if self._speaks_json():
                message = f"{refusal.message} on resource: {resource}"
                raise JsonRESTError("AccessDeniedException", message) from refusal
            raise

    def _raise_invalid_access_key(self, reason: str) -> None:
        if self._speaks_json():
            message = "The security token included in the request is invalid."
            raise JsonRESTError("UnrecognizedClientException", message)
        super()._raise_invalid_access_key(reason)

    def _speaks_json(self) -> bool:
        return "X-Amz-Target" in self._headers


class GlueAnswers(GlueResponse):
    """Glue, whose actions concern a data catalog."""

    def _determine_resource(self) -> str:
        return f"arn:aws:glue:{self.region}:{self.current_account}:catalog"
