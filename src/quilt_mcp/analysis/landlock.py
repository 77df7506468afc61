"""Landlock: the Linux kernel's rules by which a process gives up access to files, network and other processes.

Numbers and structures are those of linux/landlock.h; the system calls have the same numbers on every architecture.
"""

import os
import struct
from collections.abc import Iterable

from quilt_mcp.analysis.libc import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3

# Which rights each version of the interface knows, newest first: (version, file rights, network rights, scopes).
# All of them are given up, so a newer kernel takes away more.
_RIGHTS = (
    (6, (1 << 16) - 1, 3, 3),  # abstract sockets, and signals to processes outside
    (5, (1 << 16) - 1, 3, 0),  # ioctl on devices
    (4, (1 << 15) - 1, 3, 0),  # TCP bind and connect
    (3, (1 << 15) - 1, 0, 0),  # truncate
    (2, (1 << 14) - 1, 0, 0),  # link and rename between directories
    (1, (1 << 13) - 1, 0, 0),  # read, write, execute, make and remove files of all kinds
)


def give_up_files(readable: Iterable[str]) -> None:
    """Give up every access to files, but reading below these directories. For good, and for all threads to come.

    Raises:
        OSError: the kernel has no Landlock, or it is turned off.
    """
    version = syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    known, files, network, scopes = next(row for row in _RIGHTS if row[0] <= version)
    fields = (files, network, scopes)[: 3 if known >= 6 else 2 if known >= 4 else 1]  # noqa: PLR2004 - versions
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for directory in readable:
            _allow_reading(ruleset, directory)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_reading(ruleset: int, directory: str) -> None:
    try:
        opened = os.open(directory, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        rule = struct.pack("=Qi", _READ_FILE | _READ_DIRECTORY, opened)
        syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(opened)
