"""The command `quilt-mcp` as `python -m quilt_mcp`, for a shell that does not find it."""

import sys

from quilt_mcp.commands.entry import main

if __name__ == "__main__":
    sys.exit(main())
