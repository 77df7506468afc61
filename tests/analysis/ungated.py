"""A zygote with children that run any code in the jail, without the other barriers. Tests run it as a script."""

from collections.abc import Mapping

from quilt_mcp.analysis.jail import zygote
from quilt_mcp.analysis.messages import Answer, Envelope, Report


def run(envelope: Envelope, layers: Mapping[str, bool], report: Report) -> Answer:
    """Run the code, which can call `report`. Return its variable `R`, or what it raised, as text."""
    names: dict[str, object] = {"report": report}
    try:
        exec(envelope["request"]["code"], names)  # noqa: S102 - the purpose of this script
    except BaseException as raised:  # noqa: BLE001 - an attack can raise anything
        return {"status": "raised", "value": f"{type(raised).__name__}: {raised}"[:2000]}
    return {"status": "ran", "value": repr(names.get("R"))[:2000], "layers": dict(layers)}


if __name__ == "__main__":
    zygote.serve(run)
