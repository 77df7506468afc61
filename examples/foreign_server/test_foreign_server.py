"""The contract of a server of somebody else: pytest.ini has the command that starts it."""

from mcp_parity.contract import *
