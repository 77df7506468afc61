# /// script
# requires-python = ">=3.11"
# ///
"""Builds what MCP clients install: the bundle for Claude Desktop, and the entry for the MCP registry.

    python .github/scripts/packages.py bundle dist/quilt.mcpb
    python .github/scripts/packages.py entry server.json
    python .github/scripts/packages.py entry server.json --repository OWNER/NAME --bundle dist/quilt.mcpb

The second command writes the entry that is in this repository; the third, the entry of a release.
It needs an environment in which quilt-mcp is installed.
"""

import argparse
import sys
from pathlib import Path

from distribution.bundle import write_bundle
from distribution.registry_entry import write_entry


def main() -> int:
    """Write the file that the command line names, and return the exit status."""
    parser = argparse.ArgumentParser(description="Build what MCP clients install.")
    commands = parser.add_subparsers(dest="command", required=True)
    bundle = commands.add_parser("bundle", help="the bundle for Claude Desktop")
    entry = commands.add_parser("entry", help="the entry for the MCP registry")
    for command in (bundle, entry):
        command.add_argument("file", type=Path, help="the file to write")
    entry.add_argument("--repository", help="OWNER/NAME of the repository that has the bundle in its release")
    entry.add_argument("--bundle", type=Path, help="the bundle of the release")
    arguments = parser.parse_args()
    if arguments.command == "bundle":
        write_bundle(arguments.file)
    elif (arguments.repository is None) != (arguments.bundle is None):
        parser.error("--repository and --bundle belong together")
    else:
        write_entry(arguments.file, arguments.repository, arguments.bundle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
