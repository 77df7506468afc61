"""A zygote on a kernel without Landlock. Tests run it as a script."""

import errno

from quilt_mcp.analysis.jail import layers, zygote
from quilt_mcp.analysis.jail.runner import answer_request


def _fail() -> None:
    raise OSError(errno.ENOSYS, "no Landlock")


if __name__ == "__main__":
    layers.drop_files = _fail
    zygote.serve(answer_request)
