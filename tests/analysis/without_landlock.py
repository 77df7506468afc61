"""A zygote on a kernel without Landlock. Run by tests as a script."""

import errno

from quilt_mcp.analysis import landlock, worker, zygote


def _missing(readable: object) -> None:
    raise OSError(errno.ENOSYS, "no Landlock")


if __name__ == "__main__":
    landlock.give_up_files = _missing
    zygote.serve(worker.answer)
