"""The differences between moto 5 and AWS that matter to this project. `fill_gaps()` corrects them.

The docstring of each module lists its differences. Not corrected: bucket policies, key policies of KMS, session
policies, simulation of policies.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import moto.athena.urls
import moto.cloudwatch.urls
import moto.glue.urls
import moto.s3.responses
from moto.iam import access_control

# Private, but the only way to seed the identifiers that moto generates, such as those of roles.
from moto.moto_api._internal import mock_random

from quilt_mcp.demo.moto_gaps.athena import AthenaAnswers, GlueAnswers
from quilt_mcp.demo.moto_gaps.cloudwatch import CloudWatchAnswers
from quilt_mcp.demo.moto_gaps.refusals import Behaving, Behaviour, StrictIAMRequest, StrictS3Request
from quilt_mcp.demo.moto_gaps.s3 import S3Answers
from quilt_mcp.demo.query_engine import QueryEngine

SEED = 250_519


@contextmanager
def fill_gaps(behaviour: Behaviour | None = None, engine: QueryEngine | None = None) -> Iterator[None]:
    """Correct moto and seed its random identifiers until the context ends. Then moto is restored. May be nested.

    Args:
        behaviour: where AWS is not documented; by default as in `Behaviour`.
        engine: runs the queries of Athena; by default over no tables.
    """
    state = mock_random.getstate()
    with (
        patch.dict(moto.athena.urls.url_paths, {"{0}/$": AthenaAnswers.dispatch}),
        patch.dict(moto.cloudwatch.urls.url_paths, {"{0}/$": CloudWatchAnswers.dispatch}),
        patch.dict(moto.glue.urls.url_paths, {"{0}/$": GlueAnswers.dispatch}),
        patch.object(moto.s3.responses, "S3Response", S3Answers),  # moto loads moto.s3.urls again to build its URLs
        patch.object(access_control, "IAMRequest", StrictIAMRequest),
        patch.object(access_control, "S3IAMRequest", StrictS3Request),
        patch.object(Behaving, "behaviour", behaviour or Behaviour()),
        patch.object(AthenaAnswers, "engine", engine or QueryEngine()),
    ):
        mock_random.seed(SEED)
        try:
            yield
        finally:
            mock_random.setstate(state)
