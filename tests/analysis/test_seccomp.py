"""The filter of system calls, run by a small interpreter, so that other architectures are tested too."""

import re
import struct
from pathlib import Path

import pytest

from quilt_mcp.analysis.jail.layers import ARCHITECTURES, SYSTEM_CALLS, build_filter

ALLOW, KILL, EPERM = 0x7FFF0000, 0x80000000, 0x00050001
MACHINES = sorted(ARCHITECTURES)
HEADERS = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}


def _decide(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Return the decision of the filter about a call, as the kernel computes it."""
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *(*arguments, *[0] * 6)[:6])
    program = list(struct.iter_unpack("=HBBI", build_filter(machine)))
    at = loaded = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == 0x15:
            at += if_true if loaded == value else if_false
        else:
            assert code == 0x06
            return int(value)


def _number(name: str, machine: str) -> int:
    number: int = next(getattr(call, machine) for call in SYSTEM_CALLS if call.name == name)
    return number


@pytest.mark.parametrize("machine", MACHINES)
def test_only_listed_calls_are_allowed(machine: str) -> None:
    listed = {getattr(call, machine): call for call in SYSTEM_CALLS}
    for number in range(600):
        call = listed.get(number)
        values = [0] * 6
        for only in call.only if call else ():
            values[only.argument] = only.values[-1]
        assert _decide(machine, number, *values) == (ALLOW if call else EPERM), number


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_are_restricted_to_listed_values(machine: str) -> None:
    for call in SYSTEM_CALLS:
        number = getattr(call, machine)
        for only in call.only if number is not None else ():
            values = [0] * 6
            for other in call.only:
                values[other.argument] = other.values[0]
            for value in only.values:
                values[only.argument] = value
                assert _decide(machine, number, *values) == ALLOW
            for value in (max(only.values) + 1, only.values[0] | 1 << 32, 1 << 63):
                values[only.argument] = value
                assert _decide(machine, number, *values) == EPERM


@pytest.mark.parametrize("name", ["open", "stat", "readlink", "statx", "execve", "getcwd", "uname", "sethostname"])
def test_no_call_takes_a_path_or_names_the_machine(name: str) -> None:
    listed = {call.name for call in SYSTEM_CALLS}
    assert not {one for one in listed if one.startswith(name) or one.endswith(f"{name}at")} - {"statfs"}


@pytest.mark.parametrize("name", ["clone", "fork", "vfork", "unshare", "setns", "socket", "ptrace", "io_uring"])
def test_no_call_starts_a_process_a_thread_or_a_connection(name: str) -> None:
    assert not [call.name for call in SYSTEM_CALLS if call.name.startswith(name)]


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_with_numbers_of_another_architecture_kill_the_process(machine: str) -> None:
    other = next(value for name, value in ARCHITECTURES.items() if name != machine)
    assert _decide(machine, 0, architecture=other) == KILL
    assert _decide(machine, 0, architecture=0x40000003) == KILL  # 32-bit x86
    assert _decide(machine, 0x40000000 | _number("read", machine)) == EPERM  # x32


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_agree_with_the_linux_headers(machine: str) -> None:
    header = Path("/usr/include") / HEADERS[machine]
    if not header.exists():
        pytest.skip(f"the kernel's headers are not installed: {header}")
    text = header.read_text()
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    defined.setdefault("newfstatat", defined.get("fstatat", ""))  # under another name in the generic header
    for call in SYSTEM_CALLS:
        number = getattr(call, machine)
        if number is not None:
            assert defined[call.name] == str(number), call.name
