"""The filter of system calls, run by a small interpreter: also for the architecture that this machine has not."""

import re
import struct
from pathlib import Path

import pytest

from quilt_mcp.analysis.seccomp import ARCHITECTURES, filter_program
from quilt_mcp.analysis.system_calls import SYSTEM_CALLS

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
MACHINES = sorted(ARCHITECTURES)
HEADERS = {"x86_64": "x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}


def _decide(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter says to a call, as the kernel would run it."""
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *(*arguments, *[0] * 6)[:6])
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
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
def test_listed_calls_are_let_through_and_no_others(machine: str) -> None:
    listed = {getattr(call, machine): call for call in SYSTEM_CALLS}
    for number in range(600):
        call = listed.get(number)
        values = [0] * 6
        for only in call.only if call else ():
            values[only.argument] = only.values[-1]
        expected = ALLOW if call else ENOSYS if number == 435 else EPERM
        assert _decide(machine, number, *values) == expected, number


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_are_held_to_their_values(machine: str) -> None:
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


@pytest.mark.parametrize("machine", MACHINES)
def test_a_new_process_or_namespace_is_refused(machine: str) -> None:
    clone = _number("clone", machine)
    assert _decide(machine, clone, 0x3D0F00) == ALLOW
    assert _decide(machine, clone, 17) == EPERM
    assert _decide(machine, clone, 0x3D0F00 | 0x10000000) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_by_the_numbers_of_another_architecture_end_the_process(machine: str) -> None:
    other = next(value for name, value in ARCHITECTURES.items() if name != machine)
    assert _decide(machine, 0, architecture=other) == KILL
    assert _decide(machine, 0, architecture=0x40000003) == KILL  # 32-bit x86
    assert _decide(machine, 0x40000000 | _number("read", machine)) == EPERM  # x32


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_linux_headers(machine: str) -> None:
    header = Path("/usr/include") / HEADERS[machine]
    if not header.exists():
        pytest.skip(f"the kernel's headers are not installed: {header}")
    text = header.read_text()
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    defined.setdefault("newfstatat", defined.get("fstatat", ""))  # by another name in the generic header
    for call in SYSTEM_CALLS:
        number = getattr(call, machine)
        if number is not None:
            assert defined[call.name] == str(number), call.name


def test_every_call_has_a_reason_and_stands_once() -> None:
    assert all(call.reason for call in SYSTEM_CALLS)
    assert len({call.name for call in SYSTEM_CALLS}) == len(SYSTEM_CALLS)
