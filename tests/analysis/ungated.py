"""A zygote whose children run what they are sent, in the jail, with no other barrier. Run by tests as a script."""

from collections.abc import Mapping
from typing import Any

from quilt_mcp.analysis import zygote


def run(envelope: Mapping[str, Any], layers: Mapping[str, bool], report: Any) -> dict[str, Any]:
    """Run the code, with `report` at hand; its `R`, or what it raised, as text."""
    names: dict[str, Any] = {"report": report}
    try:
        exec(envelope["request"]["code"], names)  # noqa: S102 - which is the point
    except BaseException as raised:  # noqa: BLE001 - whatever an attack ends in
        return {"status": "raised", "value": f"{type(raised).__name__}: {raised}"[:2000]}
    return {"status": "ran", "value": repr(names.get("R"))[:2000], "layers": dict(layers)}


if __name__ == "__main__":
    zygote.serve(run)
