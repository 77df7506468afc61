"""Checks any server without goldens: whether clients can use what it offers. `mcp-parity check` prints the report."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from html import escape
from typing import Any, TypeVar

from mcp_parity.answers import CREDENTIAL, Answer, observe, read, wants_login
from mcp_parity.calls import call_tool, is_harmless
from mcp_parity.listing import LISTS, describe_start, find_example, find_unknown, get_list, get_pages, match_template
from mcp_parity.review import write_document
from mcp_parity.schemas import find_broken_references
from mcp_parity.serving import AnyClient, Talk, Unanswered, ask, disconnect
from mcp_parity.settings import START, Call, ContractError, Settings
from mcp_parity.transports import Command, Remote, advise
from mcp_parity.values import are_equal, cut, find_differences, make_visible

T = TypeVar("T")
ERROR, LOGIN, WARNING, NOTE = "error", "login", "warning", "note"
LEVELS = {ERROR: "errors", LOGIN: "missing logins", WARNING: "warnings", NOTE: "notes"}
GIVE_LOGIN = "give --token TOKEN or --header 'Name: value'"
READERS = ("get_resource", "read_resource")
"""Tools that read resources: those of this name that take a `uri`, as FastMCP's `ResourcesAsTools` has."""
MOST_LINES = 14
MOST_NAMES = 3
LARGE = 1_000_000
LONGEST = 240
MOST_SAID = 120  # so that the credential is in the line
_CHARACTERS_PER_TOKEN = 4
_UNKNOWN_CODES = {-32602, -32002, -32003}


@dataclass(frozen=True)
class Finding:
    """One thing that clients will meet. It is about a URI, a list or a tool."""

    level: str
    about: str
    text: str


@dataclass
class Report:
    """What was found.

    `protocol` is empty if there was no connection, and `tool` if none reads resources. `pages` has only the lists of
    more than one page. `tokens` is about what a model pays for each list, at four characters a token.
    """

    server: str
    name: str = ""
    protocol: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    tool: str = ""
    called: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def status(self) -> int:
        """The exit status: 0 without errors, 1 with errors, 2 if there was no connection, 3 for lack of a login."""
        levels = {one.level for one in self.findings}
        if self.protocol and ERROR in levels:
            return 1
        return 3 if LOGIN in levels else 0 if self.protocol else 2

    def to_json(self) -> str:
        return json.dumps({"status": self.status, **asdict(self)}, indent=2) + "\n"


class Checker:
    """The check of one server within a time limit."""

    def __init__(self, server: Any, settings: Settings, seconds: float, most: int) -> None:
        """Prepare a check that may take some seconds, and reads no more than the most resources."""
        self._server = server
        self._settings = settings
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._most = most
        self._stable: dict[str, Any] = {}
        self.report = Report(settings.server)

    def run(self, first: float) -> Report:
        """Check the server. `first` are the seconds that its start and its first answer may take."""
        began = time.monotonic()
        start = self._ask("connection", self._connect, min(first, self._seconds))
        self._end = time.monotonic() + self._seconds
        if start is not None:
            lists = {name: self._list(name, start.get("capabilities")) for name in LISTS}
            for found in _judge_lists(lists):
                self._add(*found)
            tools = {tool["name"]: tool for tool in lists["tools"]}
            inputs = {name: tool["inputSchema"].get("properties") or () for name, tool in tools.items()}
            self.report.tool = self._settings.tool or next((one for one in READERS if "uri" in inputs.get(one, ())), "")
            if self.report.tool and self.report.tool not in tools:
                self._add(ERROR, self.report.tool, "the server has no such tool")
                self.report.tool = ""
            self._read_all({one["uri"]: one for one in lists["resources"]} | self._find_examples(lists))
            self._misspell(lists)
            self._call_tools(lists["tools"])
        if isinstance(self._server, Command):
            lines = sorted(set(self._server.noise))
            for line in lines[:MOST_NAMES]:
                self._add(ERROR, "stdout", f"a line that is no message of MCP: {line!r}; {advise(line)}")
            if len(lines) > MOST_NAMES:
                self._add(ERROR, "stdout", f"{len(lines) - MOST_NAMES} more such lines")
        self.report.seconds = round(time.monotonic() - began, 1)
        return self.report

    def _add(self, level: str, about: str, text: str) -> None:
        finding = Finding(level, about, text.removeprefix(f"{about}: "))
        if finding not in self.report.findings:
            self.report.findings.append(finding)

    def _ask(self, about: str, talk: Talk[T], limit: float | None = None, slow: str = ERROR) -> T | None:
        """Return what the talk returns; None after what went wrong was added to the findings."""
        left = self._end - time.monotonic()
        if left <= 0:
            self._add(ERROR, "time", "the time for the check is over: what follows was not checked")
            return None
        settings = replace(self._settings, timeout=limit or min(left, self._settings.timeout))
        try:
            return ask(self._server, settings, talk, about)
        except Unanswered as error:
            if isinstance(self._server, Remote) and self._server.last.wants_login:
                refused = "the login is refused; " if self._server.has_login else ""
                self._add(LOGIN, about, f"it needs a login ({self._server.last}): {refused}{GIVE_LOGIN}")
            elif said := self._find_missing_login():
                self._add(LOGIN, about, f"it ends at its start and needs a login: {said}")
            else:
                late = "; --limit names another time" if "(mcp_timeout)" in str(error) else ""
                self._add(slow if late else ERROR, about, str(error).replace(" (mcp_timeout)", "") + late)
        except ContractError as error:
            for line in str(error).splitlines() if about in LISTS else [str(error)]:
                without_advice = line.partition(" Make it stable")[0].partition("; add it to mcp_exclude")[0]
                self._add(WARNING if "changes between two reads" in line else ERROR, about, without_advice)
        return None

    async def _connect(self, client: AnyClient) -> dict[str, Any]:
        start = await describe_start(client, (*START, "version"))
        self.report.name = " ".join(str(start[name]) for name in ("name", "version") if name in start)
        self.report.protocol = client.protocol_version or ""
        return start

    def _list(self, name: str, capabilities: dict[str, Any] | None) -> list[dict[str, Any]]:
        """Return the entries of a list, which is asked for twice. A list that is not answered has no count."""

        async def talk(client: AnyClient) -> list[dict[str, Any]]:
            pages = await get_pages(client, name)
            if len(pages) > 1:
                self.report.pages[name] = len(pages)
            entries = await get_list(client, name)
            if list(find_differences([one for page in pages for one in page], entries)):
                self._add(WARNING, name, "the list differs between two requests")
            return entries

        entries = self._ask(name, talk)
        if entries is not None:
            self.report.counts[name] = len(entries)
        if not entries:
            return []
        self.report.tokens[name] = len(json.dumps(entries, ensure_ascii=False)) // _CHARACTERS_PER_TOKEN
        needed = name.replace("resource-templates", "resources")
        if capabilities is not None and needed not in capabilities:
            self._add(WARNING, name, f"the server does not declare the capability {needed}: many clients do not ask")
        return entries

    def _find_examples(self, lists: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        """Return the entries of the templates by a URI that the server completes."""
        found = {}
        for entry in lists["resource-templates"][: self._most]:
            template = entry["uriTemplate"]
            complete = partial(find_example, uri=template, server=self._server)
            uri = self._settings.examples.get(template) or self._ask(template, complete)
            if uri:
                found[uri] = entry
            else:
                self._add(NOTE, template, "not read: the server completes no value; name one with --example")
        return found

    def _read_all(self, entries: dict[str, dict[str, Any]]) -> None:
        """Read each resource once, and then each again, so that a clock moves between."""
        chosen = [uri for uri in entries if not self._settings.excludes(uri)][: self._most]
        if len(entries) > self._most:
            self._add(NOTE, "resources", f"only {self._most} of {len(entries)} are read; --most names another number")
        first = {uri: self._read(uri, entries[uri]) for uri in chosen}
        if any(first.values()) and time.monotonic() < self._end:
            time.sleep(max(0, min(self._settings.pause, self._end - time.monotonic())))
        for uri in [uri for uri in chosen if first[uri]]:
            again = self._observe(uri)
            golden = again.without_tool().shorten([]) if again else first[uri]
            if not self._warn(uri, "the answer changes between two reads", first[uri], golden) and again:
                self._stable[uri] = golden

    def _read(self, uri: str, entry: dict[str, Any]) -> dict[str, Any] | None:
        """Return what a golden would hold of the answer, and judge it."""
        answer = self._ask(uri, partial(read, uri=uri))
        if answer is None:
            return None
        self.report.read.append(uri)
        if wants_login(answer.error_text):
            needed = self._name_credential(str((answer.error or {}).get("message")), answer.error_text)
            self._add(LOGIN, uri, f"it needs a login: {needed}")
        for level, text in _judge(answer, entry):
            self._add(level, uri, text)
        return answer.shorten([])

    def _find_missing_login(self) -> str:
        """Return what a process that has ended said about a login in its last words; empty if it did not."""
        if self.report.protocol or not isinstance(self._server, Command) or self._server.ended is None:
            return ""
        said = self._server.last_error()
        return self._name_credential(said, said) if wants_login(said) else ""

    def _name_credential(self, said: str, where: str) -> str:
        """Return what the server says, and which credential helps, if a text names one."""
        said = cut(said, MOST_SAID)
        if named := list(dict.fromkeys(CREDENTIAL.findall(where))):
            return f"{said}; it names {', '.join(named[:MOST_NAMES])}"
        return f"{said}; {GIVE_LOGIN if isinstance(self._server, Remote) else 'it names no variable and no command'}"

    def _observe(self, uri: str) -> Answer | None:
        return self._ask(uri, lambda client: observe(client, uri, self._settings, self.report.tool))

    def _warn(self, about: str, what: str, one: Any, other: Any) -> bool:
        """Warn where two answers differ. Return whether they do."""
        moved = sorted({found.volatile for found in find_differences(one, other)})
        if moved:
            self._add(WARNING, about, f"{what}: {', '.join(moved[:MOST_NAMES])}")
        return bool(moved)

    def _call_tools(self, tools: list[dict[str, Any]]) -> None:
        """Call what says that it only reads and needs no argument, twice and in both eras, and read what was stable."""
        harmless = [one["name"] for one in tools if is_harmless(one) and not one["inputSchema"].get("required")]
        answers = {name: self._call(name) for name in harmless[: self._most] if name != self.report.tool}
        first = {name: answer for name, answer in answers.items() if answer}
        self.report.called = list(first)
        self._call_again(first, "the answer changes between two calls")
        for uri in self._stable if first else ():
            now = self._ask(uri, partial(read, uri=uri))
            if now and not are_equal(self._stable[uri], now.shorten([])):
                text = "it differs after calls of tools that say that they only read"
                self._add(ERROR, uri, f"{text}: {', '.join(first)}")
        if first and self.report.protocol >= "2026":  # earlier clients speak another
            disconnect([self._server])
            self._settings = replace(self._settings, protocol="legacy")
            self._call_again(first, "the answer differs in an earlier protocol")

    def _call_again(self, first: dict[str, dict[str, Any]], what: str) -> None:
        for name, answer in first.items():
            self._warn(name, what, answer, self._call(name) or answer)

    def _call(self, name: str) -> dict[str, Any] | None:
        answer = self._ask(name, partial(call_tool, call=Call(name, {})), slow=WARNING)
        if answer and answer.error is not None:
            level = LOGIN if wants_login(answer.error_text) else WARNING
            self._add(level, name, f"it needs no argument, but refuses: {answer.error.get('message')}")
        return answer.shorten([]) if answer else None

    def _misspell(self, lists: dict[str, list[dict[str, Any]]]) -> None:
        """Ask for URIs that the server should not know: no list names them."""
        unknown = find_unknown(sorted(one["uri"] for one in lists["resources"]), lists)[:1]
        if not match_template("nothing://here", [one["uriTemplate"] for one in lists["resource-templates"]]):
            unknown.append("nothing://here")
        asked = {uri: self._observe(uri) for uri in sorted(unknown if self.report.read else ())}
        for uri, answer in [(uri, answer) for uri, answer in asked.items() if answer]:
            if answer.error is None:
                self._add(ERROR, uri, "an unknown URI is answered with data")
            elif not wants_login(answer.error_text) and answer.error["code"] not in _UNKNOWN_CODES:
                text = f"an unknown URI is refused with the code {answer.error['code']}, as a failure of the server is"
                self._add(WARNING, uri, text)
            for leak in answer.find_leaks():
                self._add(WARNING, uri, leak)


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+", re.DOTALL)
_TEMPLATE = re.compile(r"([^{}]|\{[+#./;?&]?[\w.%-]+(\*|:\d+)?(,[\w.%-]+(\*|:\d+)?)*\})*", re.DOTALL)


def _judge_lists(lists: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str, str]]:
    """Yield what hosts refuse of the lists. Many refuse the whole list for one entry."""
    for tool in lists["tools"]:
        name = tool["name"]
        if not _NAME.fullmatch(name):
            text = "a tool's name must have 1 to 128 letters, digits, `_`, `-` and `.`"
            yield ERROR, name or "tools", f"{text}; this one has {len(name)}: {name!r}"
        elif "." in name:
            yield WARNING, name, "many hosts refuse a tool's name with a `.`"
        for key in ("inputSchema", "outputSchema"):
            for reference in find_broken_references(tool.get(key) or {}):
                yield ERROR, name, f"{key} refers to {reference}, which it does not have"
    for uri in [one["uri"] for one in lists["resources"] if not _URI.fullmatch(one["uri"])]:
        yield ERROR, uri or "resources", f"{uri!r} is no URI: it has no scheme"
    for template in [one["uriTemplate"] for one in lists["resource-templates"]]:
        if not _TEMPLATE.fullmatch(template):
            yield ERROR, template, "the template is malformed: see RFC 6570"
        elif not _URI.fullmatch(template):
            yield WARNING, template, "the template has no scheme, so that its URIs are none"


def _judge(answer: Answer, entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an answer: with itself, and beside the entry of the list."""
    yield from ((WARNING, leak) for leak in answer.find_leaks())
    if wants_login(answer.error_text):
        return
    if answer.error is not None:
        yield ERROR, f"it is listed, but refused: {answer.error.get('message')} (code {answer.error.get('code')})"
        return
    contents = answer.contents or []
    if not contents:
        yield WARNING, "the answer has no contents"
    if len(contents) == 1 and "uri" in contents[0]:
        yield WARNING, f"the answer is about another URI: {contents[0]['uri']}"
    announced, types = entry.get("mimeType"), [one["mime_type"] for one in contents]
    if announced and len(types) == 1 and types[0] != announced:
        yield WARNING, f"the list announces {announced}, but the answer is {types[0]}"
    size = sum(_measure(one) for one in contents)
    has_bytes = all("lines" in one or "blob" in one for one in contents)  # JSON is parsed: its size is another
    if has_bytes and size != entry.get("size", size):
        yield WARNING, f"the list announces {entry['size']!r} bytes, but the answer has {size}"
    if size > LARGE:
        yield WARNING, f"it has {size:,} characters or bytes: more than most clients can use"


def _measure(content: dict[str, Any]) -> int:
    if "blob" in content:
        return int(content["blob"]["bytes"])
    if "lines" in content:
        return len("\n".join(content["lines"]).encode(errors="surrogatepass"))
    return len(json.dumps(content.get("data"), ensure_ascii=False))


def write_text(report: Report) -> str:
    """Return the report on one screen. What cannot be seen is written as an escape."""
    lines = [_plain(line) for line in _headline(report)]
    merged = _merge(report.findings)
    shown = [f"  {level:<8} {_plain(about)}: {_plain(text)}" for level, about, text in merged[:MOST_LINES]]
    more = [f"  … and {len(merged) - MOST_LINES} more; --json has all"] if len(merged) > MOST_LINES else []
    return "\n".join([*lines, *shown, *more, _verdict(report)]) + "\n"


def _headline(report: Report) -> Iterator[str]:
    if not report.protocol:
        yield f"{report.server}: nothing could be checked"
        return
    yield f"{report.name or report.server} (protocol {report.protocol}, {report.seconds} s)"
    offers = ", ".join(_count(count, name.replace("-", " ")) for name, count in report.counts.items())
    yield f"  offers   {offers or 'nothing that can be listed'}"
    if report.tokens:
        costs = ", ".join(f"{name.replace('-', ' ')} {count:,}" for name, count in report.tokens.items())
        yield f"  costs    about {sum(report.tokens.values()):,} tokens for the lists ({costs})"
    if report.pages:
        yield "  pages    " + ", ".join(f"{name} {count}" for name, count in report.pages.items())
    if total := report.counts.get("tools"):
        rest = "; the others need arguments, or do not say that they only read" if len(report.called) < total else ""
        yield f"  called   {len(report.called)} of {_count(total, 'tools')} twice{rest}"
    if report.read:
        tool = f", and with the tool {report.tool}" if report.tool else ""
        yield f"  read     {_count(len(report.read), 'resources')} twice{tool}"


def _count(count: int, plural: str) -> str:
    return f"{count} {plural[:-1] if count == 1 else plural}"


def _verdict(report: Report) -> str:
    counts = {level: sum(one.level == level for one in report.findings) for level in LEVELS}
    found = [_count(count, LEVELS[level]) for level, count in counts.items() if count]
    return f"{', '.join(found)}." if found else "Nothing is wrong."


def _merge(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Return the level, the names and the text of the findings; those with the same text are one."""
    merged: dict[tuple[str, str], list[str]] = {}
    for one in sorted(findings, key=lambda one: [*LEVELS].index(one.level)):
        merged.setdefault((one.level, one.text), []).append(one.about)
    shown = {key: names[0] + (f" and {len(names) - 1} more" if names[1:] else "") for key, names in merged.items()}
    return [(level, about, text) for (level, text), about in shown.items()]


def _plain(text: str) -> str:
    """Return a text as one line of what a terminal can show."""
    return cut(make_visible(text), LONGEST)


def write_badge(report: Report) -> str:
    """Return the JSON for the endpoint badge of shields.io."""
    color = ("brightgreen", "red", "lightgrey", "orange")[report.status]
    message = _verdict(report).rstrip(".").replace("Nothing is wrong", "passing")
    return json.dumps({"schemaVersion": 1, "label": "mcp-parity", "message": message, "color": color}) + "\n"


def write_page(report: Report) -> str:
    """Return the report as a page without scripts. Every value is text."""
    kinds = {ERROR: "breaking", LOGIN: "value", WARNING: "value", NOTE: "compatible"}
    rows = [
        f'<li><span class="kind {kinds[level]}">{level}</span><code>{about}</code> {text}</li>'
        for level, *texts in _merge(report.findings)
        for about, text in [map(escape, map(_plain, texts))]
    ]
    head = "".join(f"<p>{escape(_plain(line))}</p>" for line in _headline(report))
    return write_document("Check of a server", [head, f"<ul>{''.join(rows)}</ul>", f"<p>{_verdict(report)}</p>"])
