"""The command `mcp-parity`: `diff` says what clients see differently, and `check` what they meet at a server."""

import argparse
import logging
import os
import shlex
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NoReturn

from mcp_parity.changes import Finding, Kind
from mcp_parity.comparison import compare_contracts
from mcp_parity.review import find_unannounced, write_page, write_summary
from mcp_parity.revisions import Places, Revision, Unreadable, find_merge_base, read_contract, read_revision
from mcp_parity.settings import PAUSE, ContractError, Settings, parse_example

CANNOT_COMPARE = 2
NUMBERS: dict[str, tuple[float, float, str]] = {
    "limit": (10.0, 0.001, "the seconds that an answer may take"),
    "timeout": (60.0, 0.001, "the seconds that the check may take"),
    "pause": (PAUSE, 0, "the seconds between two reads"),
    "most": (100, 0, "the most resources that are read"),
    "largest": (128 * 1024 * 1024, 1, "the most bytes of an answer"),
}
FIRST_LIMIT = 60.0
"""The seconds that the first answer may take if `--limit` is not given: a package is perhaps downloaded before."""
MOST = 1_000_000_000  # of bytes and seconds, for clocks; NaN and infinity are refused


class _OneLineParser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(CANNOT_COMPARE, f"{self.prog}: {' '.join(message.split())}\n")


def main(given: list[str] | None = None) -> int:
    """Run a command, print what it found, and return the exit status, which README.md describes."""
    parser = _OneLineParser(prog="mcp-parity", description=__doc__)
    version = next((one.version for one in distributions(name="mcp-parity")), "(not installed)")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    commands = parser.add_subparsers(required=True, metavar="diff|check", dest="command", parser_class=_OneLineParser)
    diff = commands.add_parser("diff", help="describe the changes between two git revisions for clients")
    diff.add_argument("base", help="the revision that clients use now, such as the branch to merge into")
    diff.add_argument("head", nargs="?", default="HEAD", help="the revision that they will use; default: HEAD")
    diff.add_argument("--exact", action="store_true", help="compare with BASE itself, not its merge base with HEAD")
    diff.add_argument("--html", type=Path, help="also write a page for a review")
    diff.add_argument("--golden", default="", help="the directory of the goldens; default: as each revision says")
    diff.add_argument("--inventory", default="", help="the inventory; default: as each revision says")
    diff.add_argument("--changelog", default="CHANGELOG.md", help="the file that announces breaking changes")
    diff.add_argument("--first", action="store_true", help="the change introduces the contract: the base has none")
    diff.add_argument("--start", default="", help="start the server of both revisions with a command: needs no goldens")
    diff.add_argument("--build", default="true", help="a command of the shell that runs before --start")
    diff.add_argument("--example", action="append", default=[], help="with --start: 'template = URI'")
    check = _add_check(commands)
    arguments = parser.parse_args(given)
    if arguments.command == "check":
        return _check(check, arguments)
    return _diff(diff, arguments)


def _diff(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    try:
        places = Places(arguments.golden, arguments.inventory, arguments.changelog)
        exact = arguments.base, arguments.base
        name, commit = exact if arguments.exact else find_merge_base(arguments.base, arguments.head)
        pair = [read_revision(name, places, commit), read_revision(arguments.head, places)]
        if arguments.start:
            from mcp_parity.recording import record_revisions  # noqa: PLC0415 - only this needs FastMCP

            settings = Settings(Path.cwd(), arguments.start, examples=dict(map(parse_example, arguments.example)))
            pair = record_revisions(pair, settings, arguments.build)
        text, page, status = compare(*pair, first=arguments.first)
        if arguments.html:
            arguments.html.write_text(page, encoding="utf-8")
        _print(text)
    except (Unreadable, ContractError, OSError) as problem:
        parser.error(str(problem))
    return status


def _print(text: str) -> None:
    """Print UTF-8, independent of the terminal's encoding, as far as somebody reads it: `head` does not read all."""
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except OSError as error:  # to write what is left at the exit would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


def _add_check(commands: Any) -> argparse.ArgumentParser:
    check: argparse.ArgumentParser = commands.add_parser("check", help="check a server without goldens")
    check.add_argument("--tool", default="", help="the tool that reads resources; default: the one that is known")
    check.add_argument("--example", action="append", default=[], help="a URI for a template: 'template = URI'")
    check.add_argument("--header", action="append", default=[], help="a header for HTTP: 'Name: value'")
    check.add_argument("--token", default="", help="a bearer token for HTTP; default: MCP_TOKEN of the environment")
    check.add_argument("--protocol", default="auto", help="auto, legacy or a protocol version")
    for name, (default, _, words) in NUMBERS.items():
        more = f", {FIRST_LIMIT:g} for the first" if name == "limit" else ""
        check.add_argument(f"--{name}", type=type(default), help=f"{words}; default: {default:,}{more}")
    check.add_argument("--json", action="store_true", help="print all that was found as JSON")
    check.add_argument("--html", type=Path, help="also write a page")
    check.add_argument("--badge", type=Path, help="also write the JSON of a badge, for the endpoint of shields.io")
    check.add_argument("server", nargs=argparse.REMAINDER, help="a command with arguments, a URL, or module:attribute")
    return check


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    # only `check` needs FastMCP: `diff` runs where nothing is installed
    from mcp_parity.check import Checker, write_badge, write_page, write_text  # noqa: PLC0415 - as the line above says
    from mcp_parity.serving import disconnect, load_server  # noqa: PLC0415 - as above
    from mcp_parity.transports import Command, Remote  # noqa: PLC0415 - as above

    logging.getLogger("mcp").addHandler(logging.NullHandler())  # the SDK logs with tracebacks what the report names
    named = arguments.server[arguments.server[:1] == ["--"] :]  # other `--` are the server's
    if not named:
        parser.error("name a command, a URL or module:attribute; options stand before it")
    first = arguments.limit or FIRST_LIMIT
    for name, (default, least, _) in NUMBERS.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
        if not least <= getattr(arguments, name) <= MOST:
            parser.error(f"--{name} must be from {least} to {MOST:,}")
    try:
        files = {arguments.html: write_page, arguments.badge: write_badge}
        files = {path: write for path, write in files.items() if path}
        for path in files:
            path.touch()  # before a check that takes long
        headers = dict(map(_parse_header, arguments.header))
        token = arguments.token or os.environ.get("MCP_TOKEN", "")
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        settings = Settings(
            root=Path.cwd(),
            # one argument can be a whole command, but also the path of a file with blanks
            server=named[0] if len(named) == 1 and not Path(named[0]).is_file() else shlex.join(named),
            tool=arguments.tool,
            examples=dict(map(parse_example, arguments.example)),
            protocol=arguments.protocol,
            timeout=arguments.limit,
            pause=arguments.pause,
        )
        with tempfile.TemporaryFile() as errors:
            server = load_server(settings, headers)
            if isinstance(server, Command | Remote):
                server.largest = arguments.largest
            if isinstance(server, Command):
                server.errors = errors
            report = Checker(server, settings, arguments.timeout, arguments.most).run(first)
            disconnect([server])
        for path, write in files.items():
            path.write_text(write(report), encoding="utf-8")
        _print(report.to_json() if arguments.json else write_text(report))
    except (ContractError, OSError) as problem:
        parser.error(str(problem))
    return report.status


def _parse_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise ContractError(f"--header: {line!r} is not of the form `Name: value`")
    return name.strip(), value.strip()


def compare(base: Revision, head: Revision, *, first: bool = False) -> tuple[str, str, int]:
    """Return the summary as Markdown and as HTML, and the exit status. With `first`, only `head` has a contract."""
    changelog = head.places.changelog
    if lacking := head.find_lacking():
        raise Unreadable(f"{lacking}; run pytest --snapshot-update, and commit what it writes")
    lacking = base.find_lacking(goldens=True)
    if lacking and not first:
        raise Unreadable(f"{lacking}; add --first if the change introduces the contract")
    if first and not lacking:
        raise Unreadable(f"there is a contract at {base.name}: leave out --first")
    before, after = read_contract(base), read_contract(head)
    found = [Finding(name, one, where) for name, where, changes in compare_contracts(before, after) for one in changes]
    breaking = {finding.subject for finding in found if finding.change.kind is Kind.BREAKING}
    changelogs = [one.files.get(one.places.changelog, "") for one in (base, head)]
    unannounced = find_unannounced(breaking, *changelogs)
    page = write_page(found, unannounced, [(base.label, before), (head.label, after)], changelog)
    return write_summary(found, unannounced, changelog), page, 1 if unannounced else 0


if __name__ == "__main__":
    sys.exit(main())
