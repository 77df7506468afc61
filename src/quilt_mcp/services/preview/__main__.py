"""Runs the process that opens files: `python -m quilt_mcp.services.preview`."""

import sys

from quilt_mcp.services.preview.child import main

sys.exit(main())
