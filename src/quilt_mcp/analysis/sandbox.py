"""The sandbox of an app: it runs one analysis in a child process and returns its answer within the timeout.

The server does not parse, import or run submitted code, and unpickles nothing: the answer is JSON. Its size and form
are checked. The first analysis starts the zygote; before that, the server has no other process.

A second process, with another hash seed and another time zone, repeats the result. Two further ones repeat a finding
about code with sets or with results that differ between calls. A result that is not the same in all of them is not
reported.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import cast

import anyio

from quilt_mcp.analysis.gate.rules import RULES
from quilt_mcp.analysis.messages import (
    LAYERS,
    MODULE_NAME,
    MOST_FILES,
    RECORDS,
    Answer,
    Envelope,
    ErrorAnswer,
    Request,
    check_layers,
    check_platform,
    describe_refusal,
    error,
    find_module_name,
)
from quilt_mcp.analysis.policy import LONGEST_TIMEOUT_SECONDS, SHORTEST_TIMEOUT_SECONDS, Policy
from quilt_mcp.analysis.processes import COMMAND, FIRST, FURTHER, SECOND, Surroundings, ZygoteKeeper
from quilt_mcp.analysis.settings import AnalysisSettings
from quilt_mcp.app.fair_queue import FairQueue, NoPlace, Share
from quilt_mcp.core.uris import quote


@dataclass(frozen=True, slots=True)
class Chance:
    """What could change results from start to start."""

    first: Surroundings = FIRST  # the surroundings of the process that runs analyses
    second: Surroundings = SECOND  # those of the process that repeats their results
    further: tuple[Surroundings, ...] = FURTHER  # those of further ones, which start when they are needed
    seed: int = 0  # of the random values


# Claims, and the status without the claim
_CLAIMS = {"verified": "unknown", "equivalent": "unknown", "unreachable": "not_found", "complete": "partial"}
_FINDINGS = frozenset({"counterexample", "different", "found"})
_LEAST_SECONDS = 0.5  # with less, a call is not started; a repetition has at least as much
_UNCLAIMED = {"coverage_estimate": None, "confidence": "partial"}
_NOT_REPEATED = (
    "Every path was explored, but the second process did not repeat the result in time. Raise timeout_seconds, or"
    " repeat the call later."
)


async def run_and_repeat(
    first: ZygoteKeeper, second: ZygoteKeeper, envelope: Envelope, further: Sequence[ZygoteKeeper] = ()
) -> Answer:
    """Run an analysis, and repeat its result in children of the other zygotes. The timeout holds for all together."""
    started = anyio.current_time()
    answer = dict(await first.run_child(envelope))
    records = answer.pop(RECORDS, None)
    if answer.get("status") not in _FINDINGS | _CLAIMS.keys() or not isinstance(answer.get("coverage"), dict):
        return answer  # there is nothing to repeat
    if answer["status"] == "complete" and cast("Mapping[str, object]", answer["coverage"]).get("all_paths") is False:
        return _note(answer, replayed=None)  # a call has reached every outcome, and nothing is claimed about others
    if not isinstance(records, list):
        return _withdraw(answer)  # another process cannot repeat it, as when an argument has no source text
    differs = any(isinstance(one, dict) and (one.get("sets") or one.get("varies")) for one in records)
    coverage = cast("Mapping[str, object]", answer["coverage"])
    for keeper in (second, *(further if differs and answer["status"] in _FINDINGS else ())):
        left = max(_LEAST_SECONDS, envelope["seconds"] - (anyio.current_time() - started))
        again: Envelope = {**envelope, "seconds": left, "records": records}
        repeated = {name: one for name, one in (await keeper.run_child(again)).items() if name != RECORDS}
        if repeated.get("status") != answer["status"]:
            unfinished = repeated.get("status") in {"error", "timeout"} or "coverage" not in repeated
            if unfinished:
                return _withdraw(answer)
            nothing = {name: False for name in ("all_paths", "all_arguments") if name in coverage}
            return _note({**repeated, "coverage": {**coverage, **nothing}}, replayed=False)
        if len(_list_examples(repeated)) < len(_list_examples(answer)):  # it has not repeated all of them
            answer |= {name: repeated[name] for name in _EXAMPLES if name in repeated}
    return _note(answer, replayed=True)


_EXAMPLES = ("counterexamples", "triggering_inputs", "paths_to_exception")


def _list_examples(answer: Mapping[str, object]) -> list[object]:
    found = answer.get("counterexamples") or answer.get("triggering_inputs")
    return found if isinstance(found, list) else []


def _withdraw(answer: dict[str, object]) -> Answer:
    """Return the answer without its claim, because it was not repeated. A finding remains, for it has happened."""
    status = str(answer["status"])
    if status in _FINDINGS:
        return _note(answer, replayed=None)
    answer.pop("dead_code_lines", None)
    changed: dict[str, object] = {"status": _CLAIMS[status], "message": _NOT_REPEATED}
    changed |= {name: one for name, one in _UNCLAIMED.items() if name in answer}
    if isinstance(branches := answer.get("branches"), list):
        changed["branches"] = [{key: None if one is False else one for key, one in each.items()} for each in branches]
    return _note({**answer, **changed}, replayed=None)


def _note(answer: Mapping[str, object], *, replayed: bool | None) -> Answer:
    """Add to the coverage whether the result was repeated."""
    coverage = cast("Mapping[str, object]", answer["coverage"])
    return {**answer, "coverage": {**coverage, "replayed": replayed}}


PROBE = (sys.executable, "-I", "-B", "-m", "quilt_mcp.analysis.jail.layers")
_PROBE_SECONDS = 10.0
_NOTED_WAIT_SECONDS = 0.01  # a shorter wait is not worth a field in the answer
_FIXED = Chance()


def is_installed() -> bool:
    """Return whether the extra `analysis` is installed. This imports neither CrossHair nor z3."""
    return find_spec("crosshair") is not None and find_spec("z3") is not None


class Sandbox:
    """An app's limits for analyses, and its zygotes: one runs analyses, the others repeat their results."""

    def __init__(
        self,
        settings: AnalysisSettings,
        *,
        command: Sequence[str] = COMMAND,  # starts a zygote
        chance: Chance = _FIXED,
        probe: Sequence[str] = PROBE,  # prints which layers of the jail work, as JSON
        python: tuple[int, int] = sys.version_info[:2],
        platform: str = sys.platform,
    ) -> None:
        self.policy = Policy.from_settings(settings)
        self._first = ZygoteKeeper(command, chance.first, self.policy)
        self._second = ZygoteKeeper(command, chance.second, self.policy)
        self._further = [ZygoteKeeper(command, one, self.policy) for one in chance.further]
        self._seed = chance.seed
        self._probe = probe
        self._is_linux = platform == "linux"
        self._unsupported = check_platform(platform, python)
        self._queue = FairQueue(settings.analysis_concurrency)
        half = (settings.analysis_concurrency + 1) // 2
        self._remote_share = (settings.analysis_concurrency_per_caller or half, settings.analysis_waiting_per_caller)
        self._layers: dict[str, bool] | None = None
        self._probing = threading.Lock()

    @property
    def zygote_pid(self) -> int | None:
        """The process id of the zygote, or None before the first analysis and after `close`."""
        return self._first.pid

    def accepts_code(self) -> bool:
        """Return whether analyses can run here. The first call probes the layers of the jail."""
        return is_installed() and not self._unsupported and check_layers(self.probe_layers(), self.policy) is None

    def probe_layers(self) -> dict[str, bool]:
        """Return for each layer of the jail whether it works on this machine.

        The first call starts a process that enters the jail and tries. It takes some milliseconds.
        """
        with self._probing:
            if self._layers is None:
                self._layers = dict.fromkeys(LAYERS, False) | (_try_layers(self._probe) if self._is_linux else {})
            return dict(self._layers)

    async def analyse(self, request: Request, *, seconds: float, caller: str | None = None) -> Answer:
        """Run one analysis in its own child process. If the caller is cancelled, the child is killed.

        The time in the queue counts, and is in the answer; only the start of the zygote comes on top. A caller has a
        share of the places; None is the local user, who has all.
        """
        if invalid := self._unsupported or _check_request(request, seconds, self.policy):
            return invalid
        share = Share("") if caller is None else Share(caller, *self._remote_share)
        try:
            async with self._queue.place(share, wait=seconds - _LEAST_SECONDS, hold=seconds) as waited:
                answer = await self._run_child(request, seconds - waited)
        except NoPlace as refusal:
            return _describe_busy(refusal)
        return {**answer, "waited_seconds": round(waited, 3)} if waited >= _NOTED_WAIT_SECONDS else answer

    async def close(self) -> None:
        """End the zygotes and their children. The next analysis starts new ones."""
        for keeper in (self._first, self._second, *self._further):
            await keeper.close()

    async def _run_child(self, request: Request, seconds: float) -> Answer:
        policy = self.policy.to_json()
        envelope: Envelope = {"policy": policy, "request": request, "seconds": seconds, "seed": self._seed}
        return await run_and_repeat(self._first, self._second, envelope, self._further)


def _describe_busy(refusal: NoPlace) -> ErrorAnswer:
    seconds = refusal.retry_after_seconds
    when = "1 second" if seconds == 1 else f"{seconds} seconds"
    what = "No analysis ended in time." if refusal.waited else "Too many of your analyses wait for a place."
    return {
        **error("Busy", f"{what} Repeat the call in {when}, or run fewer analyses at the same time."),
        "waited_seconds": round(refusal.waited, 3),
        "retry_after_seconds": seconds,
    }


def _try_layers(probe: Sequence[str]) -> dict[str, bool]:
    try:
        run = subprocess.run(probe, env={}, cwd="/", capture_output=True, timeout=_PROBE_SECONDS, check=True)  # noqa: S603 - this project's own module
        tried: dict[str, bool] = json.loads(run.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return tried


def _check_request(request: Request, seconds: float, policy: Policy) -> ErrorAnswer | None:
    if not SHORTEST_TIMEOUT_SECONDS <= seconds <= LONGEST_TIMEOUT_SECONDS:  # also false for NaN
        return error(
            "InvalidTimeout",
            f"timeout_seconds must be from {SHORTEST_TIMEOUT_SECONDS} to {LONGEST_TIMEOUT_SECONDS}.",
        )
    if not isinstance(request.get("code"), str):
        return error("InvalidCode", "`code` must be a string.")
    if invalid := _check_names(request):
        return invalid
    # the gate checks the same limit; this check keeps larger texts out of the other processes
    texts = [request["code"], request.get("old_code", ""), *request.get("files", {}).values()]
    if sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) > policy.code_size_bytes:
        return describe_refusal("size", RULES["size"])
    return None


def _check_names(request: Request) -> ErrorAnswer | None:
    names = {key: find_module_name(key) for key in request.get("files", {})}
    own = request.get("module_name", MODULE_NAME)
    if find_module_name(own) != own or own in names.values():
        return error(
            "InvalidModuleName",
            f"`module_name` {quote(own)} is the name of another module, from which the test would import. Use the name"
            " of the file that has the code, such as `shop.prices`, and none of the standard library or of `files`.",
        )
    advice = "Use module names such as `models` or `pkg.models`, and none of the standard library. At most"
    advice += f" {MOST_FILES} files are possible."
    if wrong := [key for key, name in names.items() if name is None]:
        return error("InvalidFiles", f"{quote(wrong[0])} is not a name that a file can have. {advice}")
    if len(names) > MOST_FILES:
        return error("InvalidFiles", f"Too many files. {advice}")
    if len({*names.values()}) < len(names):
        return error("InvalidFiles", "Two files are the same module, such as `a` and `a.py`. Leave one of them.")
    return None
