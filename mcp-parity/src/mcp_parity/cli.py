"""The command `mcp-parity diff BASE [HEAD]`: what clients see differently after a change."""

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from mcp_parity.diff.change import Kind
from mcp_parity.diff.changelog import read_announced
from mcp_parity.diff.comparison import find_changes
from mcp_parity.diff.contract import read_contract
from mcp_parity.diff.markdown import write_summary
from mcp_parity.diff.review import write_page
from mcp_parity.diff.revision import Places, Revision, Unreadable, read_revision

CANNOT_COMPARE = 2


class _OneLineParser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(CANNOT_COMPARE, f"{self.prog}: {' '.join(message.split())}\n")


def main(given: list[str] | None = None) -> int:
    """Compare two revisions, print the summary, and return the exit status.

    It is 0 if there are no breaking changes or the changelog announces them, 1 if it does not, and 2 if the revisions
    cannot be compared.

    Args:
        given: the arguments; by default those of the process.
    """
    parser = _OneLineParser(prog="mcp-parity", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="diff", parser_class=_OneLineParser)
    diff = commands.add_parser("diff", help="describe the changes between two git revisions for clients")
    diff.add_argument("base", help="the revision that clients use now")
    diff.add_argument("head", nargs="?", default="HEAD", help="the revision that they will use; default: HEAD")
    diff.add_argument("--html", type=Path, help="also write a page for a review")
    diff.add_argument("--golden", help="the directory of the goldens; default: as in pyproject.toml, or golden")
    diff.add_argument("--inventory", help="the inventory; default: as in pyproject.toml, or mcp-list.csv beside them")
    diff.add_argument("--changelog", default="CHANGELOG.md", help="the file that announces breaking changes")
    arguments = parser.parse_args(given)
    try:
        places = _find_places(arguments)
        text, page, status = compare(read_revision(arguments.base, places), read_revision(arguments.head, places))
        if arguments.html:
            arguments.html.write_text(page, encoding="utf-8")
    except (Unreadable, OSError) as problem:
        diff.error(str(problem))
    sys.stdout.buffer.write(text.encode())  # always UTF-8, independent of the terminal's encoding
    return status


def compare(base: Revision, head: Revision) -> tuple[str, str, int]:
    """Return the summary as Markdown and as HTML, and the exit status.

    Raises:
        Unreadable: the files of a revision cannot be read, or HEAD has no resources.
    """
    places = head.places
    if not head.rows():
        raise Unreadable(f"there is no {places.rows} at {head.name}")
    before, after = read_contract(base), read_contract(head)
    found = list(find_changes(before, after))
    breaking = {finding.subject for finding in found if finding.change.kind is Kind.BREAKING}
    unannounced = sorted(breaking - read_announced(head.files.get(places.changelog, "")))
    summary = write_summary(found, unannounced, places.changelog)
    page = write_page(found, unannounced, before, after, places.changelog)
    return summary, page, 1 if unannounced else 0


def _find_places(arguments: argparse.Namespace) -> Places:
    """Return where the contract is: as the command line says, else as pytest's configuration says."""
    options: dict[str, Any] = {}
    configuration = Path("pyproject.toml")
    if configuration.exists():
        try:
            document = tomllib.loads(configuration.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise Unreadable(f"pyproject.toml is not TOML: {error}") from error
        options = document.get("tool", {}).get("pytest", {}).get("ini_options", {})
    golden = arguments.golden or options.get("mcp_golden", "golden")
    inventory = arguments.inventory or options.get("mcp_inventory", f"{golden}/mcp-list.csv")
    return Places(golden.rstrip("/"), inventory, arguments.changelog)


if __name__ == "__main__":
    sys.exit(main())
