"""Every attack of the two tables is refused by its rule, or survived.

Afterwards nothing has leaked, nothing is written, no process is left, and an honest call gets its answer.
"""

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.analysis.processes import COMMAND
from tests.analysis import canaries
from tests.analysis.attack import MARKER, Attack
from tests.analysis.attacks import GATED
from tests.analysis.jailed_attacks import JAILED, REACHED
from tests.analysis.measurement import FOUND
from tests.analysis.programs import OPEN
from tests.analysis.sandboxes import HONEST, UNGATED, ask, running, zygote_of
from tests.support.processes import descendants
from tests.support.settings import Settings

MEMORY = [canaries.MEMORY]  # in the memory of this process, which acts as the server
STATUSES = FOUND | OPEN | {"error", "unreachable", "verified"}
ATTACKED = Settings(analysis_memory_limit_mb=512, analysis_concurrency=10)  # so that no attack waits
LATE_SECONDS = 40  # a queue of eight on a slow machine
Answer = dict[str, Any]


@pytest.fixture(autouse=True)
def _canary_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", canaries.ENVIRONMENT)


async def _attack(
    command: Sequence[str], attacks: Sequence[Attack], places: Mapping[str, str], endless: str
) -> dict[str, Answer]:
    """Return the answers to the attacks, sent several at a time beside another analysis of code with a secret.

    `places` are values for the placeholders in the code of the attacks, and `endless` is the code after the secret. An
    honest request follows the attacks; its answer has the key `honest`.
    """
    answers: dict[str, Answer] = {}
    late: dict[str, bool] = {}
    free = asyncio.Semaphore(8)

    async def one(attack: Attack, known: Mapping[str, str]) -> None:
        code = attack.code
        for place, value in known.items():
            code = code.replace(place, value)
        async with free:
            seconds = 10 if attack.rules or attack.claims else 1
            started = time.monotonic()
            answers[attack.id] = await ask(sandbox, code, seconds=seconds, **attack.request)
            late[attack.id] = time.monotonic() - started - seconds > LATE_SECONDS

    async with running(command, ATTACKED) as sandbox:
        await ask(sandbox, "x = 1")
        known = {**places, "{ZYGOTE}": str(zygote_of(sandbox))} if places else {}
        secret = f"x = '{canaries.OTHER_REQUEST}'\n{endless}"
        other = asyncio.create_task(ask(sandbox, secret, seconds=100))
        async with asyncio.TaskGroup() as group:
            for attack in attacks:
                group.create_task(one(attack, known))
        other.cancel()
        await asyncio.wait([other])
        answers["honest"] = await ask(sandbox, HONEST["code"], seconds=60)
        assert descendants(zygote_of(sandbox)) == set()
    assert [name for name, is_late in late.items() if is_late] == []
    return answers


def _is_as_expected(attack: Attack, answer: Answer) -> bool:
    text = json.dumps(answer)
    refused = answer.get("error_type") == "Refused"
    by_rule = answer.get("rule") in attack.rules if attack.rules else not refused or bool(attack.claims)
    claims_nothing_wrong = answer["status"] not in attack.claims
    return (
        by_rule
        and claims_nothing_wrong
        and answer["status"] in STATUSES
        and attack.contains in text
        and not canaries.leaks(text)
    )


def _texts_in(directory: Path) -> list[tuple[str, str]]:
    return [(one.name, one.read_text()) for one in directory.iterdir()]


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.soak)])
async def test_gate_refuses_or_sandbox_survives_every_attack(
    every: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    MARKER.unlink(missing_ok=True)
    attacks = GATED[::every]
    answers = await _attack(COMMAND, attacks, {}, "while True: pass")
    wrong = {attack.id: answers[attack.id] for attack in attacks if not _is_as_expected(attack, answers[attack.id])}
    assert wrong == {}
    assert len(answers) == len(attacks) + 1, "two attacks have the same name"
    assert answers["honest"]["status"] == "counterexample"
    assert not MARKER.exists()
    assert not canaries.leaks("".join(capfd.readouterr()) + caplog.text)


async def test_jail_alone_stops_every_attack(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text(canaries.FILE)
    attacks = [Attack(0, name, code) for name, code in JAILED.items()]
    places = {"{SERVER}": str(os.getpid()), "{FILE}": str(file)}
    answers = await _attack(UNGATED, attacks, places, "import time\nwhile True: time.sleep(1)")
    texts = {name: json.dumps(answer) for name, answer in answers.items()}
    assert [text for text in texts.values() if REACHED in text or "root:" in text or canaries.leaks(text)] == []
    assert answers["honest"]["status"] == "ran"
    assert _texts_in(tmp_path) == [("file", canaries.FILE)]
    assert not canaries.leaks("".join(capfd.readouterr()) + caplog.text)
