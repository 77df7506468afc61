"""Options that several commands take."""

from typing import Annotated, Literal

from cyclopts import Parameter

World = Literal["admin", "member", "signed_out", "empty"]
"""The worlds of quilt_mcp.commands.demo.world, which is too expensive to import for their names."""

Demo = Annotated[
    World | None,
    Parameter(name="--demo", help="Use a demo world instead of your Quilt login; without a value, admin."),
]
AsJSON = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")]
