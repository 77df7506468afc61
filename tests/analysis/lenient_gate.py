"""A zygote with children that enforce another policy than the published one. Tests run it as a script."""

from collections.abc import Mapping
from dataclasses import replace

from quilt_mcp.analysis.jail import zygote
from quilt_mcp.analysis.jail.runner import answer_request
from quilt_mcp.analysis.messages import Answer, Envelope, Report
from quilt_mcp.analysis.policy import Policy


def run(envelope: Envelope, layers: Mapping[str, bool], report: Report) -> Answer:
    """Answer the request under a policy that also allows `os` and `eval`, and one byte less of code."""
    policy = Policy.from_json(envelope["policy"])
    other = replace(
        policy,
        allowed_modules=(*policy.allowed_modules, "os"),
        dangerous_builtins=tuple(name for name in policy.dangerous_builtins if name != "eval"),
        permitted_builtins=(*policy.permitted_builtins, "eval"),
        code_size_bytes=policy.code_size_bytes - 1,
    )
    return answer_request({**envelope, "policy": other.to_json()}, layers, report)


if __name__ == "__main__":
    zygote.serve(run)
