"""Tests of mcp-parity. FastMCP's log is plain in them: rich draws each traceback, which took a third of their time."""

import os

os.environ["FASTMCP_ENABLE_RICH_LOGGING"] = "false"
