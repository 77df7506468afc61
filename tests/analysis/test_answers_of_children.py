"""What a child writes to the channel of its answer, and what the caller gets."""

import asyncio
import json

import pytest

from quilt_mcp.analysis.messages import ANSWER_ITEMS, ANSWER_TEXT
from quilt_mcp.analysis.processes import parse_last_line
from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.sandboxes import ask

LOOP = "while True: pass"
# writes one line to every descriptor, and so to the channel of its answer
WRITE_EVERYWHERE = (
    "import os\nfor fd in range(3, 40):\n    try: os.write(fd, b'{line}\\n')\n    except OSError: pass\nos._exit(0)"
)


@pytest.mark.soak
async def test_partial_answer_is_returned_only_at_the_timeout(ungated: Sandbox) -> None:
    code = "report({'status': 'timeout', 'found': 1})\nreport({'status': 'timeout', 'found': 2})\n" + LOOP
    answer = await ask(ungated, code)
    answer.pop("waited_seconds", None)  # on a busy machine
    assert answer == {"status": "timeout", "found": 2}
    crash = "report({'status': 'verified'})\nimport os\nos._exit(1)"
    assert (await ask(ungated, crash))["error_type"] == "WorkerDied"
    assert (await ask(ungated, "report({'status': 'timeout'})"))["status"] == "ran"


async def test_forged_answer_reaches_only_its_own_caller(ungated: Sandbox) -> None:
    forge = WRITE_EVERYWHERE.replace("{line}", '{"answer": {"status": "forged"}}')
    forged, other = await asyncio.gather(ask(ungated, forge), ask(ungated, "R = 'own'"))
    assert forged == {"status": "forged"}
    assert other["value"] == "'own'"


async def test_answers_are_valid_json(ungated: Sandbox) -> None:
    answer = await ask(ungated, "raise ValueError('\\ud800')")
    assert answer["value"] == "ValueError: ?"
    json.dumps(answer, ensure_ascii=False).encode()
    shapes = [
        "[]",
        "{}",
        "1",
        "\\xff[[{",
        '{"status": 1}',
        '{"status": "x", "n": NaN}',
        '{"status": "x", "n": 1e999}',
        '{"status": "x", "d": ' + "[" * 20 + "]" * 20 + "}",
    ]
    for shape in shapes:
        code = WRITE_EVERYWHERE.replace("{line}", f'{{"answer": {shape}}}')
        assert (await ask(ungated, code))["error_type"] == "WorkerDied", shape


async def test_result_that_is_too_large_is_refused(ungated: Sandbox) -> None:
    large = "import os\nfor fd in range(3, 40):\n    try:\n        while True: os.write(fd, b'x' * 65536)\n"
    large += "    except OSError: pass"
    assert (await ask(ungated, large, seconds=60))["error_type"] == "ResultTooLarge"


@pytest.mark.parametrize(
    ("part", "accepted"),
    [
        ("x" * ANSWER_TEXT, True),
        ("x" * (ANSWER_TEXT + 1), False),
        ([0] * ANSWER_ITEMS, True),
        ([0] * (ANSWER_ITEMS + 1), False),
        ({"x" * (ANSWER_TEXT + 1): 0}, False),
        (["x" * (ANSWER_TEXT + 1)], False),
    ],
)
def test_server_refuses_an_answer_with_a_longer_part(part: object, accepted: bool) -> None:  # noqa: FBT001 - pytest passes parameters by name
    line = json.dumps({"answer": {"status": "verified", "part": part}}) + "\n"
    assert (parse_last_line(bytearray(line.encode()), "answer") is not None) == accepted
