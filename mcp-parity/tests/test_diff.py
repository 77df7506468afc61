"""The pull request's summary: it describes the changes for clients, and rejects unannounced breaking changes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_parity.review import find_unannounced
from tests.repository import (
    CHANGELOG,
    CSV,
    GET_RESOURCE,
    RESOURCES,
    STATUS,
    TOOLS,
    USERS,
    Files,
    Repository,
    contract,
    require_git,
    summarize,
)

ANNOUNCED = """# Changelog

## [Unreleased]

### Added

- More.

### Breaking

- The fields of
  `auth://status`: `expires` is called `until`.

## [0.1.0]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def rename_a_field(files: Files) -> None:
    data = files[STATUS]["data"]
    data["until"] = data.pop("expires")


def test_a_removed_and_an_added_field_are_one_breaking_and_one_compatible_line(repository: Repository) -> None:
    rename_a_field(repository.files)
    repository.commit("head")

    done = repository.diff("base", "head")

    assert done.returncode == 1
    assert (
        done.stdout
        == """## Changes for clients

**Do not merge yet:** no new entry under `### Breaking` of [Unreleased] in CHANGELOG.md names `auth://status`.

### `auth://status`

- *breaking*: `data.expires` is gone (`home`, `member`)
- *compatible*: `data.until` is new (`home`, `member`)
"""
    )


def test_a_breaking_change_passes_when_the_changelog_names_its_uri(repository: Repository) -> None:
    rename_a_field(repository.files)
    repository.files[CHANGELOG] = ANNOUNCED
    repository.commit("head")

    done = repository.diff("base")  # HEAD is the default

    assert done.returncode == 0
    assert "- *breaking*: `data.expires` is gone (`home`, `member`)\n" in done.stdout
    assert "\nCHANGELOG.md announces all breaking changes.\n" in done.stdout


NOT_ANNOUNCED = [
    ("### Breaking", "### Changed"),
    ("## [Unreleased]", "## [Unreleased]\n\n## [0.2.0]"),
    ("`auth://status`", "auth://status"),
    ("`auth://status`", "`auth://status/other`"),
    ("- The fields of\n  `auth://status`", "The fields of\n`auth://status`"),
    ("- The fields of\n  `auth://status`", "<!--\n- The fields of\n  `auth://status`\n-->\n- The fields"),
    ("- The fields of\n  `auth://status`", "```\n- The fields of\n  `auth://status`\n```\n- The fields"),
    ("- The fields of", "### Fixed\n\n- The fields of"),
]


def test_any_other_text_in_the_changelog_does_not_announce_the_change() -> None:
    found = {}
    for right, wrong in NOT_ANNOUNCED:
        assert right in ANNOUNCED
        files = contract() | {CHANGELOG: ANNOUNCED.replace(right, wrong)}
        rename_a_field(files)
        found[wrong] = summarize(contract(), files).status
    assert found == {wrong: 1 for _, wrong in NOT_ANNOUNCED}


OLD_ENTRIES = {
    "the same entry": ANNOUNCED,
    "other line breaks": ANNOUNCED.replace("fields of\n  `auth", "fields of `auth"),
    "another entry is new": ANNOUNCED.replace("- The fields", "- `admin://users`: no tags.\n- The fields"),
    "it was removed": ANNOUNCED.replace("### Breaking", "### Changed"),
}
NEW_ENTRIES = {
    "it was elsewhere": (ANNOUNCED.replace("### Breaking", "### Changed"), ANNOUNCED),
    "it was released": (ANNOUNCED.replace("## [Unreleased]", "## [Unreleased]\n\n## [0.2.0]"), ANNOUNCED),
    "it was changed": (ANNOUNCED, ANNOUNCED.replace("called `until`", "called `until`, and `count` is a text")),
    "there was no changelog": ("", ANNOUNCED),
}


def test_an_entry_of_the_base_announces_no_other_change() -> None:
    found = {}
    for name, changelog in OLD_ENTRIES.items():
        files = contract() | {CHANGELOG: changelog}
        rename_a_field(files)
        found[name] = summarize(contract() | {CHANGELOG: ANNOUNCED}, files).status
    assert found == dict.fromkeys(OLD_ENTRIES, 1)


def test_an_entry_that_is_new_or_changed_announces_the_change() -> None:
    found = {}
    for name, (before, after) in NEW_ENTRIES.items():
        files = contract() | {CHANGELOG: after}
        rename_a_field(files)
        found[name] = summarize(contract() | {CHANGELOG: before}, files).status
    assert found == dict.fromkeys(NEW_ENTRIES, 0)


# a name in the changelog, the URIs that it announces, and URIs that it does not announce
PATTERNS: list[tuple[str, set[str], set[str]]] = [
    (
        "shop://{shop}/items{?filter,order}",
        {"shop://a/items", "shop://a/items?filter=x", "shop://{shop}/items{?filter,order,cursor}"},
        {"shop://a/items/1", "shop://a/items2", "shop://a/b/items", "shop://{shop}/items/{item}{?cursor}"},
    ),
    (
        "shop://items/*",
        {"shop://items/1", "shop://items/{item}"},
        {"shop://items", "shop://items/1/parts", "shop://items/1?part=2", "shop://items/{item}{?part}"},
    ),
    ("shop://items/{item}", {"shop://items/1"}, {"shop://items/1/parts", "shop://items/1?part=2"}),
    ("shop://items/1*", {"shop://items/1", "shop://items/10"}, {"shop://items/2", "shop://items/1/2"}),
    ("shop://items?part=[ab]", {"shop://items?part=[ab]"}, {"shop://items?part=a", "shop://itemspart=[ab]"}),
]


def test_a_pattern_stays_in_its_segment_of_the_path() -> None:
    for name, announced, others in PATTERNS:
        changelog = f"## [Unreleased]\n\n### Breaking\n\n- `{name}`: gone.\n"
        assert find_unannounced(announced | others, "", changelog) == sorted(others), name


def test_the_changelog_must_name_every_resource_with_a_breaking_change() -> None:
    files = contract() | {CHANGELOG: ANNOUNCED}
    rename_a_field(files)
    del files[USERS]["data"]["users"]
    files[TOOLS].pop()

    summary = summarize(contract(), files)

    assert summary.status == 1
    assert "names `admin://users`, `workflow_update_step`." in summary.text


def test_deleting_all_goldens_is_breaking() -> None:
    files = {name: content for name, content in contract().items() if "golden/" not in name or name == CSV}
    summary = summarize(contract(), files)
    assert summary.status == 1
    assert summary.lines.count("- *breaking*: the answer no longer has a golden (`home`)") == 3


def test_it_runs_in_any_directory_of_the_repository(repository: Repository) -> None:
    rename_a_field(repository.files)
    repository.commit("head")
    repository.root /= "golden"
    repository.root.mkdir()
    assert "`data.expires` is gone" in repository.diff("base").stdout


def test_no_change_is_reported_in_one_line(repository: Repository) -> None:
    repository.files["src/new.py"] = "x = 1\n"
    repository.commit("head")
    done = repository.diff("base")
    assert (done.stdout, done.stderr, done.returncode) == ("No changes for clients.\n", "", 0)


def test_the_worst_comes_first_and_long_lists_end_in_a_count() -> None:
    files = contract()
    files[RESOURCES][0]["title"] = "Users"
    files[STATUS]["data"].update({f"field_{number:02}": number for number in range(23)}, count=None)
    files[TOOLS].pop()

    lines = summarize(contract(), files).text.splitlines()[4:]

    new = [f"- *compatible*: `data.field_{number:02}` is new (`home`, `member`)" for number in range(20)]
    assert [line for line in lines if line] == [
        "### `workflow_update_step`",
        "- *breaking*: the tool is gone",
        "### `admin://users`",
        '- *description*: `title` is new: `null` → `"Users"` (`resources/list`)',
        "### `auth://status`",
        *new,
        "- *compatible*: … and 3 more",
        "- *value*: `data.count` changed: `3` → `null` (`home`, `member`)",
    ]


def test_the_base_is_the_commit_from_which_the_branch_started(repository: Repository, tmp_path: Path) -> None:
    repository.files[STATUS]["data"]["added"] = 1
    repository.commit("main-goes-on")
    repository.files = contract() | {"src/new.py": "x = 1\n"}
    repository.commit("branch", parent="base")

    done = repository.diff("main-goes-on", "branch")
    assert (done.stdout, done.stderr, done.returncode) == ("No changes for clients.\n", "", 0)

    done = repository.diff("main-goes-on", "branch", "--exact")
    assert "- *breaking*: `data.added` is gone (`home`, `member`)\n" in done.stdout
    assert done.returncode == 1

    rename_a_field(repository.files)
    repository.commit("branch-breaks")
    done = repository.diff("main-goes-on", "branch-breaks", "--html", "review.html")
    assert "- *breaking*: `data.expires` is gone (`home`, `member`)\n" in done.stdout
    assert "data.added" not in done.stdout
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    assert re.search(r"<code>the merge base of main-goes-on and branch-breaks \([0-9a-f]{7}\)</code> →", page)


def test_without_a_merge_base_one_line_says_what_to_do(repository: Repository, tmp_path: Path) -> None:
    repository.commit("main-goes-on")
    rename_a_field(repository.files)
    repository.commit("unrelated", parent="")
    repository.commit("branch", parent="base")
    shallow = repository.clone(tmp_path / "shallow", depth=1)

    for one, head in ((repository, "unrelated"), (shallow, "branch")):
        done = one.diff("main-goes-on", head)
        assert (done.stdout, done.returncode) == ("", 2)
        assert done.stderr == (
            f"mcp-parity diff: git cannot read 'main-goes-on...{head}': there is no merge base. "
            "If the clone is shallow, run git fetch --unshallow, or set fetch-depth: 0 in the workflow. "
            "Else add --exact to compare with main-goes-on itself\n"
        )
        done = one.diff("main-goes-on", head, "--exact")
        assert "- *breaking*: `data.expires` is gone (`home`, `member`)\n" in done.stdout


INCOMPARABLE = [(), ("base", "HEAD", "more"), ("nowhere",), ("base", "nowhere"), ("--", "-x")]


def test_what_cannot_be_compared_is_reported_in_one_line(repository: Repository) -> None:
    found = {revisions: repository.diff(*revisions) for revisions in INCOMPARABLE}
    assert {revisions: (done.stdout, done.returncode) for revisions, done in found.items()} == dict.fromkeys(
        INCOMPARABLE, ("", 2)
    )
    for revisions, done in found.items():
        assert done.stderr.startswith("mcp-parity"), revisions
        assert done.stderr.count("\n") == 1, revisions


UNREADABLE = [
    (contract() | {STATUS: "{"}, "golden/data/auth/status.json at head is not valid JSON"),
    (contract() | {STATUS: "[" * 100_000}, "golden/data/auth/status.json at head is not valid JSON"),
    (contract() | {STATUS: '{"resource": "no"}'}, f"{STATUS} at head is not of a form that pytest writes"),
    (contract() | {TOOLS: '{"name": "sum"}'}, f"{TOOLS} at head is not of a form that pytest writes"),
    (contract() | {GET_RESOURCE: '{"data": [{}]}'}, f"{GET_RESOURCE} at head is not of a form that pytest writes"),
    (
        {"README.md": "Nothing here.\n"},
        "there is no inventory at head: nothing was compared (looked for golden/mcp-list.csv); run pytest ",
    ),
    ({CSV: "uri\nauth://status\n"}, "has a row without type, uri or example_uri"),
    ({CSV: "uri\n"}, "has a row without type, uri or example_uri"),
    ({CSV: ""}, "golden/mcp-list.csv at head is empty"),
]


def test_a_revision_without_a_readable_contract_is_reported_in_one_line(repository: Repository) -> None:
    for files, message in UNREADABLE:
        repository.files = files
        repository.commit("head")
        done = repository.diff("base", "head")
        assert (done.stdout, done.returncode) == ("", 2), message
        assert message in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


def test_a_reader_that_stops_causes_no_traceback(repository: Repository) -> None:
    repository.commit("head")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mcp_parity.cli", "diff", "base", "head"]
    done = subprocess.run(command, cwd=repository.root, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_outside_of_a_repository_it_reports_an_error(tmp_path: Path) -> None:
    """As a process, as a user starts it."""
    require_git()
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "LC_ALL": "C"}
    command = [sys.executable, "-m", "mcp_parity.cli", "diff", "HEAD"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
    assert done.stderr.count("\n") == 1
