"""Each revision is read where its own configuration says, and the command fails if nothing was compared."""

from pathlib import Path

import pytest

from mcp_parity.revisions import Places, find_places
from tests.repository import CSV, RESOURCES, STATUS, TOOLS, Files, Repository, contract, move

MOVED = '[tool.pytest.ini_options]\nmcp_golden = "contract"\n'


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def write(repository: Repository, tag: str, files: Files) -> None:
    repository.files = files
    repository.commit(tag)


def break_clients(files: Files) -> Files:
    """Remove a field, and require an argument."""
    del files[STATUS]["data"]["expires"]
    files[TOOLS][0]["inputSchema"]["required"] = ["uri"]
    return files


BROKEN = ["- *breaking*: `data.expires` is gone (`home`, `member`)", "- *breaking*: argument `uri` is now required"]


def find_lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("- ")]


def test_goldens_that_move_are_compared_with_the_old_ones(repository: Repository) -> None:
    write(repository, "moved", {**move(contract(), "contract"), "pyproject.toml": MOVED})
    write(repository, "broken", {**move(break_clients(contract()), "contract"), "pyproject.toml": MOVED})
    done = repository.diff("base", "moved")
    assert (done.stdout, done.stderr, done.returncode) == ("No changes for clients.\n", "", 0)
    for base in ("base", "moved"):
        done = repository.diff(base, "broken")
        assert (find_lines(done.stdout), done.returncode) == (BROKEN, 1)


def test_an_inventory_that_moves_is_compared_with_the_old_one(repository: Repository) -> None:
    files = break_clients(contract())
    files["lists/mcp.csv"] = files.pop(CSV)
    files["pyproject.toml"] = '[tool.pytest.ini_options]\nmcp_inventory = "lists/mcp.csv"\n'
    write(repository, "head", files)
    done = repository.diff("base", "head")
    assert (find_lines(done.stdout), done.returncode) == (BROKEN, 1)


def test_a_configuration_that_moves_to_another_file_is_read_in_both(repository: Repository) -> None:
    ini = {"pytest.ini": "[pytest]\nmcp_golden = pinned\n", "pyproject.toml": "[project]\n"}
    write(repository, "ini", {**move(contract(), "pinned"), **ini})
    write(repository, "toml", {**move(break_clients(contract()), "contract"), "pyproject.toml": MOVED})
    done = repository.diff("ini", "toml")
    assert (find_lines(done.stdout), done.returncode) == (BROKEN, 1)


# Configurations and the files that pytest does not read because of them. Each names the folder `contract`.
CONFIGURATIONS: list[dict[str, str]] = [
    {"pytest.toml": '[pytest]\nmcp_golden = "contract"\n', "pytest.ini": "[pytest]\nmcp_golden = x\n"},
    {".pytest.toml": '[pytest]\nmcp_golden = "contract/"\n', ".pytest.ini": "[pytest]\nmcp_golden = x\n"},
    {"pytest.ini": "[pytest]\naddopts = -k %s\nmcp_golden = contract\n", "pyproject.toml": "not TOML"},
    {".pytest.ini": "\ufeff[pytest]\nmcp_golden: ./contract\n", "pyproject.toml": MOVED.replace("contract", "x")},
    {"pyproject.toml": MOVED, "tox.ini": "[pytest]\nmcp_golden = x\n"},
    {"pyproject.toml": '[tool.pytest]\nmcp_golden = "contract"\n', "setup.cfg": "[tool:pytest]\nmcp_golden = x\n"},
    {"pyproject.toml": "[tool.ruff]\n", "tox.ini": "[pytest]\nmcp_golden = contract\n"},
    {"pyproject.toml": "", "tox.ini": "[tox]\n", "setup.cfg": "[tool:pytest]\nmcp_golden = contract\n"},
    {"shop/pyproject.toml": "[project]\n", "pyproject.toml": MOVED},
]
AS_CONFIGURED = Places("", "", "CHANGELOG.md")


def test_the_configuration_is_the_one_that_pytest_reads() -> None:
    found = [find_places(files, AS_CONFIGURED, "main") for files in CONFIGURATIONS]
    assert found == [Places("contract", "contract/mcp-list.csv")] * len(CONFIGURATIONS)
    assert find_places({"pytest.ini": "", "pyproject.toml": MOVED}, AS_CONFIGURED, "main") == Places()


def test_the_configuration_of_the_work_tree_is_not_read(repository: Repository) -> None:
    (repository.root / "pyproject.toml").write_text("not TOML", encoding="utf-8")
    write(repository, "head", break_clients(contract()))
    assert find_lines(repository.diff("base", "head").stdout) == BROKEN


def test_paths_are_relative_to_the_nearest_configuration(repository: Repository) -> None:
    """A repository with several projects: the one in the current directory is compared."""
    root, folder = repository.root, repository.root / "shop" / "tests"
    folder.mkdir(parents=True)
    for tag, files in (("one", contract()), ("two", break_clients(contract()))):
        configuration = {"shop/pyproject.toml": MOVED, "pyproject.toml": MOVED.replace("contract", "none")}
        write(repository, tag, {**move(files, "shop/contract"), **configuration})
    repository.root = folder
    assert find_lines(repository.diff("one", "two").stdout) == BROKEN
    repository.root = root
    done = repository.diff("one", "two")
    assert "there is no inventory at two: nothing was compared (looked for none/mcp-list.csv)" in done.stderr
    given = ("--golden", "shop/contract", "--inventory", "shop/contract/mcp-list.csv")
    assert find_lines(repository.diff("one", "two", *given).stdout) == BROKEN


def test_the_goldens_can_be_in_the_root(repository: Repository) -> None:
    configuration = {"pyproject.toml": MOVED.replace("contract", ".")}
    for tag, files in (("one", contract()), ("two", break_clients(contract()))):
        write(repository, tag, {name.removeprefix("golden/"): text for name, text in files.items()} | configuration)
    for base in ("base", "one"):
        assert find_lines(repository.diff(base, "two").stdout) == BROKEN


FIRST = "add --first if the change introduces the contract\n"


def test_without_an_inventory_at_the_base_nothing_is_compared(repository: Repository) -> None:
    write(repository, "before", {"README.md": "Nothing here.\n"})
    done = repository.diff("before", "base", "--exact")
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr == (
        "mcp-parity diff: there is no inventory at before: nothing was compared (looked for golden/mcp-list.csv); "
        + FIRST
    )
    done = repository.diff("before", "base", "--exact", "--first")
    assert (done.stderr, done.returncode) == ("", 0)
    assert "### `auth://status`\n\n- *compatible*: the resource is new\n" in done.stdout


def test_without_goldens_at_the_base_nothing_is_compared(repository: Repository) -> None:
    """The inventory stays where it is, and the options name the new folder of the goldens."""
    files = move(break_clients(contract()), "contract")
    write(repository, "head", files | {CSV: files.pop("contract/mcp-list.csv")})
    given = ("base", "head", "--golden", "contract", "--inventory", CSV)
    done = repository.diff(*given)
    assert (done.stdout, done.returncode) == ("", 2)
    assert "there are no goldens at base: nothing was compared (looked in contract); " + FIRST in done.stderr
    assert repository.diff(*given, "--first").returncode == 0


def test_a_folder_that_neither_revision_has_is_reported(repository: Repository) -> None:
    write(repository, "head", break_clients(contract()))
    done = repository.diff("base", "head", "--golden", "goldne", "--inventory", CSV)
    assert (done.stdout, done.returncode) == ("", 2)
    assert "there are no goldens at base: nothing was compared (looked in goldne)" in done.stderr


def test_the_options_name_paths_in_any_form(repository: Repository) -> None:
    write(repository, "head", break_clients(contract()))
    done = repository.diff("base", "head", "--golden", "./golden/", "--inventory", "golden//mcp-list.csv")
    assert find_lines(done.stdout) == BROKEN


def test_first_is_refused_if_there_is_something_to_compare(repository: Repository) -> None:
    write(repository, "head", break_clients(contract()))
    done = repository.diff("base", "head", "--first")
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr == "mcp-parity diff: there is a contract at base: leave out --first\n"


def test_first_needs_an_inventory_too(repository: Repository) -> None:
    write(repository, "head", {"README.md": "Nothing here.\n"})
    for given in (("base",), ("head", "--first")):
        done = repository.diff(*given)
        assert (done.stdout, done.returncode) == ("", 2)
        assert "there is no inventory at HEAD: nothing was compared" in done.stderr


def test_an_inventory_without_rows_is_a_contract_of_a_server_without_resources(repository: Repository) -> None:
    write(repository, "empty", {CSV: [], TOOLS: [], RESOURCES: []})
    done = repository.diff("empty", "base", "--exact")
    assert (done.stderr, done.returncode) == ("", 0)
    assert find_lines(done.stdout).count("- *compatible*: the resource is new") == 3
    assert find_lines(done.stdout).count("- *compatible*: the tool is new") == 2
    done = repository.diff("base", "empty")
    assert done.returncode == 1
    assert find_lines(done.stdout).count("- *breaking*: the resource is gone") == 3


UNREADABLE: list[tuple[Files, str]] = [
    ({"pyproject.toml": "[tool.pytest"}, "pyproject.toml at bad cannot be read: "),
    ({"pyproject.toml": "tool = 5"}, "pyproject.toml at bad cannot be read: tool is not a table"),
    ({"pytest.ini": "[pytest]\nmcp_golden\n"}, "pytest.ini at bad cannot be read: "),
    ({"pyproject.toml": MOVED.replace("contract", "../contract")}, "git cannot read 'bad': "),
]


@pytest.mark.parametrize(("configuration", "message"), UNREADABLE)
def test_a_configuration_that_cannot_be_read_is_reported_in_one_line(
    repository: Repository, configuration: Files, message: str
) -> None:
    write(repository, "bad", {**break_clients(contract()), **configuration})
    for given in (("bad", "base"), ("base", "bad")):
        done = repository.diff(*given, "--exact")
        assert (done.stdout, done.returncode) == ("", 2)
        assert message in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    done = repository.diff("base", "bad", "--golden", "golden", "--inventory", CSV)
    assert (find_lines(done.stdout), done.returncode) == (BROKEN, 1)


def test_a_number_is_the_name_of_a_folder() -> None:
    """As in pytest."""
    assert find_places({"pyproject.toml": MOVED.replace('"contract"', "3")}, AS_CONFIGURED, "main").golden == "3"
