"""Every attack of the two tables: refused by the rule that is meant for it, or survived.

Nothing leaks, nothing is written, no process stays behind, and an honest call is answered afterwards.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.analysis.policy import Policy
from quilt_mcp.analysis.warm_process import COMMAND
from tests.analysis import canaries
from tests.analysis.attacks import GATED, MARKER, Attack
from tests.analysis.jailed_attacks import JAILED, REACHED
from tests.analysis.processes import descendants
from tests.analysis.sandboxes import HONEST, UNGATED, ask, running, zygote_of

MEMORY = [canaries.MEMORY]  # in the memory of this process, which is the server here
STATUSES = {"counterexample", "error", "found", "not_found", "timeout", "unknown", "unreachable", "verified"}
POLICY = Policy(memory_limit_mb=512)
Answer = dict[str, Any]


@pytest.fixture(autouse=True)
def _canary_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", canaries.ENVIRONMENT)


async def _attack(command: Sequence[str], attacks: Sequence[Attack], places: Mapping[str, str]) -> dict[str, Answer]:
    """The answers to all the attacks, sent several at a time beside a neighbour with a secret of its own.

    `places` are put into the attacks' code. An honest request is sent last, and its answer is under `honest`.
    """
    answers: dict[str, Answer] = {}
    free = asyncio.Semaphore(8)

    async def one(attack: Attack, known: Mapping[str, str]) -> None:
        code = attack.code
        for place, value in known.items():
            code = code.replace(place, value)
        async with free:
            seconds = 10 if attack.rules else 1
            answers[attack.id] = await ask(sandbox, code, seconds=seconds, policy=POLICY, **attack.request)

    async with running(command) as sandbox:
        await ask(sandbox, "x = 1")
        known = {**places, "{ZYGOTE}": str(zygote_of(sandbox))} if places else {}
        secret = f"x = '{canaries.OTHER_REQUEST}'\nwhile True: pass"
        neighbour = asyncio.create_task(ask(sandbox, secret, seconds=100))
        async with asyncio.TaskGroup() as group:
            for attack in attacks:
                group.create_task(one(attack, known))
        neighbour.cancel()
        await asyncio.wait([neighbour])
        answers["honest"] = await ask(sandbox, HONEST["code"], seconds=20)
        assert descendants(zygote_of(sandbox)) == set()
    return answers


def _is_as_expected(attack: Attack, answer: Answer) -> bool:
    text = json.dumps(answer)
    refused = answer.get("error_type") == "Refused"
    by_rule = answer.get("rule") in attack.rules if attack.rules else not refused
    return by_rule and answer["status"] in STATUSES and attack.contains in text and not canaries.leaks(text)


def _texts_in(directory: Path) -> list[tuple[str, str]]:
    return [(one.name, one.read_text()) for one in directory.iterdir()]


async def test_the_gate_refuses_or_the_sandbox_survives(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    MARKER.unlink(missing_ok=True)
    answers = await _attack(COMMAND, GATED, {})
    wrong = {attack.id: answers[attack.id] for attack in GATED if not _is_as_expected(attack, answers[attack.id])}
    assert wrong == {}
    assert len(answers) == len(GATED) + 1, "two attacks have the same name"
    assert answers["honest"]["status"] == "counterexample"
    assert not MARKER.exists()
    assert not canaries.leaks("".join(capfd.readouterr()) + caplog.text)


async def test_the_jail_alone_holds(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text(canaries.FILE)
    attacks = [Attack(0, name, code) for name, code in JAILED.items()]
    answers = await _attack(UNGATED, attacks, {"{SERVER}": str(os.getpid()), "{FILE}": str(file)})
    texts = {name: json.dumps(answer) for name, answer in answers.items()}
    assert [text for text in texts.values() if REACHED in text or "root:" in text or canaries.leaks(text)] == []
    assert answers["honest"]["status"] == "ran"
    assert _texts_in(tmp_path) == [("file", canaries.FILE)]
    assert not canaries.leaks("".join(capfd.readouterr()) + caplog.text)
