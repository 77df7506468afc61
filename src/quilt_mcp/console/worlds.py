"""The names of the demo worlds that commands offer. `quilt_mcp.demo.world`, which has their plans, costs more."""

from typing import Literal

World = Literal["admin", "member", "signed_out", "empty"]
