"""The command `mcp-parity diff BASE [HEAD]`: what clients see differently after a change."""

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from mcp_parity.diff.change import Kind
from mcp_parity.diff.changelog import read_announced
from mcp_parity.diff.comparison import find_changes
from mcp_parity.diff.contract import read_contract
from mcp_parity.diff.markdown import write_summary
from mcp_parity.diff.places import Places, Unreadable
from mcp_parity.diff.review import write_page
from mcp_parity.diff.revision import Revision, read_revision

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
    diff.add_argument("--golden", default="", help="the directory of the goldens; default: as each revision says")
    diff.add_argument("--inventory", default="", help="the inventory; default: as each revision says")
    diff.add_argument("--changelog", default="CHANGELOG.md", help="the file that announces breaking changes")
    diff.add_argument("--first", action="store_true", help="the change introduces the contract: the base has none")
    arguments = parser.parse_args(given)
    try:
        places = Places(arguments.golden, arguments.inventory, arguments.changelog)
        base, head = (read_revision(name, places) for name in (arguments.base, arguments.head))
        text, page, status = compare(base, head, first=arguments.first)
        if arguments.html:
            arguments.html.write_text(page, encoding="utf-8")
    except (Unreadable, OSError) as problem:
        diff.error(str(problem))
    sys.stdout.buffer.write(text.encode())  # always UTF-8, independent of the terminal's encoding
    return status


def compare(base: Revision, head: Revision, *, first: bool = False) -> tuple[str, str, int]:
    """Return the summary as Markdown and as HTML, and the exit status.

    Args:
        base: the revision that clients use now.
        head: the revision that they will use.
        first: whether only `head` has a contract.

    Raises:
        Unreadable: the files of a revision cannot be read, or nothing can be compared.
    """
    places = head.places
    _check_contracts(base, head, first=first)
    before, after = read_contract(base), read_contract(head)
    found = list(find_changes(before, after))
    breaking = {finding.subject for finding in found if finding.change.kind is Kind.BREAKING}
    unannounced = sorted(breaking - read_announced(head.files.get(places.changelog, "")))
    summary = write_summary(found, unannounced, places.changelog)
    page = write_page(found, unannounced, before, after, places.changelog)
    return summary, page, 1 if unannounced else 0


def _check_contracts(base: Revision, head: Revision, *, first: bool) -> None:
    """Check that both revisions have a contract; with `first`, that only HEAD has one.

    Raises:
        Unreadable: one of them lacks it, or has one.
    """
    if lacking := head.find_lacking():
        raise Unreadable(f"{lacking}; run pytest --snapshot-update, and commit what it writes")
    lacking = base.find_lacking(goldens=True)
    if lacking and not first:
        raise Unreadable(f"{lacking}; add --first if the change introduces the contract")
    if first and not lacking:
        raise Unreadable(f"there is a contract at {base.name}: leave out --first")


if __name__ == "__main__":
    sys.exit(main())
