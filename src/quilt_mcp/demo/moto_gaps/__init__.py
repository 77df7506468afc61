"""Where moto 5 differs from AWS in what this project uses, and what makes up for it: `filled()` puts it in place.

Each module's docstring names its gaps. Left open: pages of Glue and of ListBuckets, regions in ListBuckets, expiry of
temporary credentials, bucket policies, simulation of policies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import moto.athena.urls
import moto.glue.urls
import moto.s3.responses
from moto.iam import access_control

# Private, but the only way to seed the identifiers that moto makes up, of roles for one.
from moto.moto_api._internal import mock_random

from quilt_mcp.demo.moto_gaps.athena import AthenaAnswers
from quilt_mcp.demo.moto_gaps.refusals import GlueAnswers, JsonAwareIAMRequest
from quilt_mcp.demo.moto_gaps.s3 import S3Answers

SEED = 250_519


@contextmanager
def filled() -> Iterator[None]:
    """Fill the gaps, and seed moto's random identifiers; on leaving, moto is as it was. May be nested."""
    state = mock_random.getstate()
    with (
        patch.dict(moto.athena.urls.url_paths, {"{0}/$": AthenaAnswers.dispatch}),
        patch.dict(moto.glue.urls.url_paths, {"{0}/$": GlueAnswers.dispatch}),
        patch.object(moto.s3.responses, "S3Response", S3Answers),  # moto.s3.urls is loaded anew at each request
        patch.object(access_control, "IAMRequest", JsonAwareIAMRequest),
    ):
        mock_random.seed(SEED)
        try:
            yield
        finally:
            mock_random.setstate(state)
