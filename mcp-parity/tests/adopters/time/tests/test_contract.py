from mcp_parity.contract import *
