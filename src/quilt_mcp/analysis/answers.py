"""Answers that tell of a failure of the sandbox: alike whether the server or the child gives them."""

from collections.abc import Mapping
from typing import Any

from quilt_mcp.analysis.policy import Policy

Answer = dict[str, Any]

# The layers of the jail, and what each withholds
LAYERS = {
    "landlock": "no file but the Python libraries, and those only for reading",
    "privileges": "no way to gain privileges, none kept, and no other process of the user may look in",
    "rlimits": "hard limits for memory, processor time, files and stack",
    "seccomp": "only the listed system calls: no socket, no process, no signal to others, no executable memory",
}


def error(error_type: str, message: str, **more: Any) -> Answer:
    """An answer with status `error`. The message is ours: no text of analysed code goes into it."""
    return {"status": "error", "error_type": error_type, "message": message, **more}


def missing_layers(layers: Mapping[str, bool], policy: Policy) -> Answer | None:
    """The refusal to analyse where a layer of the jail does not hold; None if all do, or the operator accepts less."""
    missing = sorted(layer for layer in LAYERS if not layers.get(layer))
    if not missing or policy.allow_weaker_sandbox:
        return None
    return error(
        "SandboxUnavailable",
        f"No code is analysed: on this machine the sandbox lacks {', '.join(missing)}. Run the server on Linux with"
        " Landlock and seccomp, or let its operator accept less by QUILT_MCP_ANALYSIS_ALLOW_WEAKER_SANDBOX.",
    )
