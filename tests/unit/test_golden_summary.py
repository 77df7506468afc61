"""The pull request's summary: it tells what clients will see differently, and refuses what breaks them unannounced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.golden_repository import CHANGELOG, RESOURCES, SCRIPT, STATUS, TOOLS, USERS, Files, Repository

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

    done = repository.summary("base", "head")

    assert done.returncode == 1
    assert (
        done.stdout
        == """## What clients will see differently

**Not to be merged yet:** no entry under `### Breaking` of [Unreleased] in CHANGELOG.md names `auth://status`.

### `auth://status`

- *breaking*: `data.expires` is gone (`admin`, `member`)
- *compatible*: `data.until` is new (`admin`, `member`)
"""
    )


def test_a_breaking_change_passes_when_the_changelog_names_its_uri(repository: Repository) -> None:
    rename_a_field(repository.files)
    repository.files[CHANGELOG] = ANNOUNCED
    repository.commit("head")

    done = repository.summary("base")  # HEAD is the default

    assert done.returncode == 0
    assert "- *breaking*: `data.expires` is gone (`admin`, `member`)\n" in done.stdout
    assert "\nWhat breaks clients is announced in CHANGELOG.md.\n" in done.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("### Breaking", "### Changed"),
        ("## [Unreleased]", "## [Unreleased]\n\n## [0.2.0]"),
        ("`auth://status`", "auth://status"),
        ("`auth://status`", "`auth://status/other`"),
        ("- The fields of\n  `auth://status`", "The fields of\n`auth://status`"),
        ("- The fields of\n  `auth://status`", "<!--\n- The fields of\n  `auth://status`\n-->\n- The fields"),
        ("- The fields of\n  `auth://status`", "```\n- The fields of\n  `auth://status`\n```\n- The fields"),
        ("- The fields of", "### Fixed\n\n- The fields of"),
    ],
)
def test_nothing_else_in_the_changelog_lets_it_pass(right: str, wrong: str, repository: Repository) -> None:
    rename_a_field(repository.files)
    assert right in ANNOUNCED
    repository.files[CHANGELOG] = ANNOUNCED.replace(right, wrong)
    repository.commit("head")
    assert repository.summary("base").returncode == 1


def test_every_resource_that_breaks_must_be_named(repository: Repository) -> None:
    rename_a_field(repository.files)
    del repository.files[USERS]["data"]["users"]
    repository.files[TOOLS].pop()
    repository.files[CHANGELOG] = ANNOUNCED
    repository.commit("head")

    done = repository.summary("base")

    assert done.returncode == 1
    assert "names `admin://users`, `workflow_update_step`." in done.stdout


def test_deleting_all_goldens_is_no_way_around(repository: Repository) -> None:
    repository.files = {name: content for name, content in repository.files.items() if "golden/" not in name}
    lines, status = repository.changed()
    assert status == 1
    assert lines.count("- *breaking*: the answer has no golden any more (`admin`)") == 3


def test_it_runs_in_any_directory_of_the_repository(repository: Repository) -> None:
    rename_a_field(repository.files)
    repository.commit("head")
    repository.root /= "golden"
    assert "`data.expires` is gone" in repository.summary("base").stdout


def test_no_change_is_told_in_one_line(repository: Repository) -> None:
    repository.files["src/new.py"] = "x = 1\n"
    repository.commit("head")
    done = repository.summary("base")
    assert (done.stdout, done.stderr, done.returncode) == ("No change for clients.\n", "", 0)


def test_the_worst_comes_first_and_long_lists_end_in_a_count(repository: Repository) -> None:
    repository.files[RESOURCES][0]["title"] = "Users"
    repository.files[STATUS]["data"].update({f"field_{number:02}": number for number in range(23)}, count=None)
    repository.files[TOOLS].pop()
    repository.commit("head")

    lines = repository.summary("base").stdout.splitlines()[4:]

    new = [f"- *compatible*: `data.field_{number:02}` is new (`admin`, `member`)" for number in range(20)]
    assert [line for line in lines if line] == [
        "### `workflow_update_step`",
        "- *breaking*: the tool is gone",
        "### `admin://users`",
        "- *compatible*: `title` is new (`resources/list`)",
        "### `auth://status`",
        *new,
        "- *compatible*: … and 3 more",
        "- *value*: `data.count` changed: `3` → `null` (`admin`, `member`)",
    ]


@pytest.mark.parametrize("revisions", [(), ("base", "HEAD", "more"), ("nowhere",), ("base", "nowhere"), ("--", "-x")])
def test_what_cannot_be_compared_is_told_in_one_line(revisions: tuple[str, ...], repository: Repository) -> None:
    done = repository.summary(*revisions)
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.startswith("golden_summary.py: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({STATUS: "{"}, "golden/data/auth/status.json at head is no JSON"),
        ({"README.md": "Nothing here.\n"}, "there is no tests/fixtures/mcp-list.csv at head"),
        ({"tests/fixtures/mcp-list.csv": "uri\nauth://status\n"}, "has a row without type, uri or example_uri"),
    ],
)
def test_a_revision_without_a_readable_contract_is_told_in_one_line(
    files: Files, told: str, repository: Repository
) -> None:
    repository.files = files if STATUS not in files else repository.files | files
    repository.commit("head")
    done = repository.summary("base", "head")
    assert (done.stdout, done.returncode) == ("", 2)
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_outside_of_a_repository_it_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "LC_ALL": "C"}
    command = [sys.executable, str(SCRIPT), "HEAD"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not a git repository" in done.stderr
    assert done.stderr.count("\n") == 1
