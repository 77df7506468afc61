"""A server on stdio in a demo world, with a clock that stands still: `python -m tests.support.world_server WORLD FILE`.

It writes the world's URL and directory to FILE before the first answer.
"""

import json
import sys
from pathlib import Path

from quilt_mcp.commands.serve import serve
from tests.support.worlds import enter_stopped


def _serve_in(world: str, file: Path) -> int:
    with enter_stopped(world) as entered:
        file.write_text(json.dumps({"url": entered.url, "directory": str(entered.directory)}), encoding="utf-8")
        return serve()


if __name__ == "__main__":
    sys.exit(_serve_in(sys.argv[1], Path(sys.argv[2])))
