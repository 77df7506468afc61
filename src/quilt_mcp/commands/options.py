"""Options that several commands take."""

from typing import Annotated, Literal

from cyclopts import Parameter

World = Literal["admin", "member", "signed_out", "empty"]
"""The worlds of quilt_mcp.demo.world, which is too heavy to import for its names alone."""

Demo = Annotated[
    World | None,
    Parameter(name="--demo", help="A demo world in place of your Quilt login; alone, it means admin."),
]
AsJSON = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON, for programs.")]
