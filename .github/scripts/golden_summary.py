# /// script
# requires-python = ">=3.11"
# ///
"""Tells in Markdown what clients will see differently between two git revisions: see CONTRIBUTING.md, Goldens.

    python .github/scripts/golden_summary.py BASE [HEAD]

Exit status: 0 if nothing breaks clients, or CHANGELOG.md at HEAD announces what does; 1 if it does not; 2 if the
comparison cannot be made.
"""

import argparse
import sys
from typing import NoReturn

from golden_diff.change import Kind
from golden_diff.changelog import announced
from golden_diff.comparison import findings
from golden_diff.contract import read_contract
from golden_diff.markdown import summary
from golden_diff.revision import CHANGELOG, ROWS, Revision, Unreadable, read_revision

CANNOT = 2


class OneLineParser(argparse.ArgumentParser):
    """A parser that tells a wrong usage in one line."""

    def error(self, message: str) -> NoReturn:
        """Leave with the message."""
        self.exit(CANNOT, f"{self.prog}: {message}\n")


def main() -> int:
    """Compare the revisions that the command line names, print the summary, and answer the exit status."""
    parser = OneLineParser(description="Tell what clients will see differently between two git revisions.")
    parser.add_argument("base", help="the revision that clients know")
    parser.add_argument("head", nargs="?", default="HEAD", help="the revision that they will get; default: HEAD")
    arguments = parser.parse_args()
    try:
        text, status = compared(read_revision(arguments.base), read_revision(arguments.head))
    except Unreadable as problem:
        parser.error(str(problem))
    sys.stdout.buffer.write(text.encode())  # UTF-8, whatever the terminal's encoding is
    return status


def compared(base: Revision, head: Revision) -> tuple[str, int]:
    """The summary, and the exit status.

    Raises:
        Unreadable: a revision holds what cannot be compared, or HEAD has no resources.
    """
    if not head.rows():
        raise Unreadable(f"there is no {ROWS} at {head.name}")
    found = list(findings(read_contract(base), read_contract(head)))
    breaking = {finding.subject for finding in found if finding.change.kind is Kind.BREAKING}
    unannounced = sorted(breaking - announced(head.files.get(CHANGELOG, "")))
    return summary(found, unannounced), 1 if unannounced else 0


if __name__ == "__main__":
    sys.exit(main())
