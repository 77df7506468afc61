"""Landlock: a feature of the Linux kernel by which a process drops access to files, network and other processes.

Numbers and structures are those of linux/landlock.h. The system calls have the same numbers on every architecture.
"""

import os
import struct

from quilt_mcp.analysis.jail.libc import syscall

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_CREATE_RULESET_VERSION = 1

# The rights in each version of the interface, newest first: (version, file rights, network rights, scopes).
# The process drops all of them, so a newer kernel removes more.
_RIGHTS = (
    (6, (1 << 16) - 1, 3, 3),  # abstract sockets, and signals to processes outside
    (5, (1 << 16) - 1, 3, 0),  # ioctl on devices
    (4, (1 << 15) - 1, 3, 0),  # TCP bind and connect
    (3, (1 << 15) - 1, 0, 0),  # truncate
    (2, (1 << 14) - 1, 0, 0),  # link and rename between directories
    (1, (1 << 13) - 1, 0, 0),  # read, write, execute, create and remove files of all kinds
)


def drop_files() -> None:
    """Drop all access to files. This holds for all later threads too.

    Raises:
        OSError: the kernel has no Landlock, or it is disabled.
    """
    version = syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    known, files, network, scopes = next(row for row in _RIGHTS if row[0] <= version)
    fields = (files, network, scopes)[: 3 if known >= 6 else 2 if known >= 4 else 1]  # noqa: PLR2004 - versions
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
