"""What the child of one analysis does, once it is in the jail: gate, load, analyse, and always an answer."""

from collections.abc import Callable, Mapping
from typing import Any

from quilt_mcp.analysis import analyses, gate, guards
from quilt_mcp.analysis.answers import Answer, error, missing_layers
from quilt_mcp.analysis.facade import load_module
from quilt_mcp.analysis.gate_rules import Refused
from quilt_mcp.analysis.loaded import Loaded
from quilt_mcp.analysis.policy import Policy

Report = Callable[[Mapping[str, Any]], None]
_LONGEST_NAME = 100


def answer(envelope: Mapping[str, Any], layers: Mapping[str, bool], report: Report) -> Answer:
    """Answer one request, whatever its code does to this process short of ending it.

    Args:
        envelope: `policy`, as `Policy.as_json` wrote it, and `request`, with `tool`, `code` and the tool's parameters.
        layers: for each layer of the jail whether it took hold.
        report: keeps an answer for the case that this process is killed for time.
    """
    policy, request = Policy.from_json(envelope["policy"]), dict(envelope["request"])
    refusal = missing_layers(layers, policy)
    if refusal:
        return refusal
    try:
        return _analysed(request, policy, report)
    except Refused as refused:
        return error("Refused", str(refused), rule=refused.rule, line=refused.line)
    except MemoryError:
        return error("MemoryLimit", "The code or its analysis needs more than memory_limit_mb in config://security.")
    except RecursionError:
        return error("RecursionLimit", "The code or its analysis recurses too deeply.")
    except BaseException as raised:  # noqa: BLE001 - analysed code may break the analyser, and its caller is told
        return error("AnalysisFailed", f"The analyser failed on this code, by {_type_name(raised)}.")


def _analysed(request: dict[str, Any], policy: Policy, report: Report) -> Answer:
    admitted = gate.admit(request["code"], policy)
    guards.install(policy)
    try:
        module = load_module(admitted.source, policy)
    except (Refused, MemoryError, RecursionError):
        raise
    except BaseException as raised:  # noqa: BLE001 - the code raises what it likes, SystemExit included
        return error("CodeRaised", f"The code raised {_type_name(raised)} when it was loaded.")
    return analyses.run(request, Loaded(module, admitted.source, admitted.tree, report), policy)


def _type_name(raised: BaseException) -> str:
    """The name of an exception's type, which the code may have chosen."""
    name = type(raised).__name__
    plain = name.isascii() and name.isidentifier() and len(name) <= _LONGEST_NAME
    return name if plain else "an exception"
