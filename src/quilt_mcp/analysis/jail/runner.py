"""What the child does in the jail: check the code, load it, analyse it, and always return an answer."""

from collections.abc import Mapping

from quilt_mcp.analysis.engine.analyses import run_analysis
from quilt_mcp.analysis.engine.replay import Start
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.gate.submission import admit_request, load_submission
from quilt_mcp.analysis.jail.guards import install_guards
from quilt_mcp.analysis.messages import Answer, Envelope, Report, check_layers, describe_refusal, error
from quilt_mcp.analysis.policy import Policy

_LONGEST_NAME = 100
_SHOWN = 5


def answer_request(envelope: Envelope, layers: Mapping[str, bool], report: Report) -> Answer:
    """Answer one request, also if its code breaks the analyser.

    Args:
        envelope: the policy, the request and the timeout.
        layers: for each layer of the jail, whether this process has entered it.
        report: sends a partial answer.
    """
    policy = Policy.from_json(envelope["policy"])
    if missing := check_layers(layers, policy):
        return missing
    try:
        return _analyse(envelope, policy, report)
    except Refused as refusal:
        return describe_refusal(refusal.rule, str(refusal), refusal.line)
    except MemoryError:
        return error("MemoryLimit", "The code or its analysis needs more than memory_limit_mb in config://security.")
    except RecursionError:
        return error("RecursionLimit", "The recursion of the code or of its analysis is too deep.")
    except BaseException as raised:  # noqa: BLE001 - analysed code can break the analyser in any way
        return error("AnalysisFailed", f"The analyser failed on this code with {_type_name(raised)}.")


def _analyse(envelope: Envelope, policy: Policy, report: Report) -> Answer:
    request = envelope["request"]
    submission = admit_request(request, policy)
    install_guards(policy)
    try:
        loaded = load_submission(submission, report)
    except (Refused, MemoryError, RecursionError):
        raise
    except BaseException as raised:  # noqa: BLE001 - the code can raise anything, also SystemExit
        return error("CodeRaised", f"The code raised {_type_name(raised)} when it was loaded.")
    answer = run_analysis(
        request,
        loaded,
        seconds=envelope["seconds"],
        path_limit=policy.coverage_threshold,
        start=Start(envelope.get("seed", 0), envelope.get("records")),
    )
    dropped = submission.code.dropped
    return {**answer, "dropped": {"count": len(dropped), "first": [*dropped[:_SHOWN]]}} if dropped else answer


def _type_name(raised: BaseException) -> str:
    """Return the name of an exception class, if it is plain. Analysed code may have chosen it."""
    name = type(raised).__name__
    plain = name.isascii() and name.isidentifier() and len(name) <= _LONGEST_NAME
    return name if plain else "an exception"
