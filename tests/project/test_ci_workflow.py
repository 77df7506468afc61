"""The workflows: minimal rights, pinned actions, no expression in a shell. In CI, a last job waits for all others."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from quilt_mcp.commands.cli import complete_demo, list_commands
from quilt_mcp.commands.install import executable
from quilt_mcp.console.parser import create_app

ROOT = Path(__file__).parent.parent.parent
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
yaml = importlib.import_module("yaml")  # it has no type information
WORKFLOWS: dict[str, dict[Any, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS: dict[str, dict[str, Any]] = WORKFLOWS["ci"]["jobs"]
NIGHTLY: dict[str, dict[str, Any]] = WORKFLOWS["nightly"]["jobs"]
CLOSING = "all-succeeded"
RELEASE: dict[str, dict[str, Any]] = WORKFLOWS["release"]["jobs"]
WITHOUT_CODE = {CLOSING, "attest", "publish", "release", "deploy"}
"""Jobs that do not check out the code. Those of a release get the files that an earlier job built and attested."""
RIGHTS: dict[str, dict[str, str]] = {
    CLOSING: {},
    "attest": {"id-token": "write", "attestations": "write"},
    "publish": {"id-token": "write"},
    "release": {"contents": "write"},
    "deploy": {"pages": "write", "id-token": "write"},
}
"""Jobs that need other rights than reading the code."""
ACTIONLINT = shutil.which("actionlint")
CHECKED = [("workflows", f".github/workflows/{name}.yml") for name in WORKFLOWS] + [
    ("actions", "mcp-parity/action.yml")
]
CLASSIFIERS = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))


def steps(workflow: str) -> Iterator[dict[str, Any]]:
    for job in WORKFLOWS[workflow]["jobs"].values():
        yield from job["steps"]


def scripts() -> list[str]:
    return [step["run"] for workflow in WORKFLOWS for step in steps(workflow) if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_no_job_may_do_more_than_read_the_code(workflow: str) -> None:
    assert WORKFLOWS[workflow]["permissions"] == {}
    rights = {name: job["permissions"] for name, job in WORKFLOWS[workflow]["jobs"].items()}
    assert rights == {name: RIGHTS.get(name, {"contents": "read"}) for name in rights}


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_no_checkout_leaves_the_token_behind(workflow: str) -> None:
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(WORKFLOWS[workflow]["jobs"].keys() - WITHOUT_CODE)
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_every_action_is_pinned_to_a_commit_with_its_version_beside(workflow: str) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step and not step["uses"].startswith("./")]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)] == []
    assert len(re.findall(r"uses: [^.\s]\S+ # v\d+\.\d+\.\d+$", TEXTS[workflow], re.MULTILINE)) == len(used)


def test_the_changes_for_clients_are_judged_by_the_copy_of_the_base(tmp_path: Path) -> None:
    """The steps before the action run in a repository whose pull request changes mcp-parity."""

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet", "--template=")
    (tmp_path / "mcp-parity").mkdir()
    commits = []
    for text in ("base", "head"):
        (tmp_path / "mcp-parity" / "action.yml").write_text(text, encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", text)
        commits.append(git("rev-parse", "HEAD"))
    [action] = [step for step in JOBS["golden-summary"]["steps"] if step.get("uses", "").startswith("./")]
    for step in JOBS["golden-summary"]["steps"]:
        if step is action:
            break
        if "run" in step:
            assert step["env"] == {"BASE": "${{ github.event.pull_request.base.sha }}"}
            environment = os.environ | {"BASE": commits[0]}
            command = ["bash", "--noprofile", "--norc", "-e", "-c", step["run"]]
            subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert (tmp_path / action["uses"] / "action.yml").read_text(encoding="utf-8") == "base"
    assert git("rev-parse", "HEAD") == commits[1]


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("check-jsonschema") is None, reason="check-jsonschema is not installed")
@pytest.mark.parametrize(("kind", "path"), CHECKED)
def test_the_files_have_the_form_that_github_documents(kind: str, path: str) -> None:
    command = ["check-jsonschema", "--builtin-schema", f"vendor.github-{kind}", str(ROOT / path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.soak
@pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not installed")
def test_actionlint_accepts_the_workflows() -> None:
    done = subprocess.run([str(ACTIONLINT)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_expression_is_written_into_a_shell() -> None:
    assert [script for script in scripts() if "${{" in script] == []


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = [
        call.split() for script in scripts() for call in re.findall(r"\bmake ((?:--?)?[a-z][a-z -]*[a-z])", script)
    ]
    targets = {word for words in called for word in words if not word.startswith("-")}
    assert targets >= {"check", "test", "contract", "setup", "golden", "mcp-list", "bench-compare", "soak"}
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_make_refuses_an_extra_that_does_not_exist() -> None:
    command = ["make", "install", "EXTRAS=nope"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pyproject.toml has no extra nope." in done.stdout
    assert not (ROOT / ".venv" / ".installed-nope").exists()


def test_the_tests_run_on_every_python_that_the_package_supports() -> None:
    for job in (JOBS["test"], NIGHTLY["newest"]):
        assert job["strategy"]["matrix"]["python-version"] == CLASSIFIERS


def test_the_script_for_new_machines_runs_what_a_pull_request_runs() -> None:
    assert JOBS["test"]["steps"][-1] == {"run": "make test"}
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("\nexec make test\n")


def test_the_commands_of_the_server_that_workflows_run_exist() -> None:
    calls = re.findall(r"^quilt-mcp (.+)", "\n".join(scripts()), re.MULTILINE)
    assert calls
    for call in calls:
        create_app(list_commands()).parse_args(list(complete_demo(call.split())))


def test_the_files_and_folders_that_workflows_name_exist() -> None:
    named = {word for script in scripts() for word in script.split() if word.startswith(("tests/", ".github/"))}
    named |= {path.removesuffix("/**") for path in WORKFLOWS["nightly"][True]["pull_request"]["paths"]}
    assert len(named) > 3
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_job_that_attests_runs_no_code() -> None:
    assert [step for step in RELEASE["attest"]["steps"] if "run" in step] == []
    assert {"attest", "build"} <= set(RELEASE["publish"]["needs"])


def test_everything_that_ages_is_renewed() -> None:
    rows = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert {row["package-ecosystem"] for row in rows} == {"pip", "github-actions", "docker", "docker-compose", "npm"}
    folders = [folder for row in rows for folder in row.get("directories", [row.get("directory")])]
    assert [folder for folder in folders if not (ROOT / folder.strip("/")).is_dir()] == []


def test_the_closing_job_always_runs_and_looks_at_every_other_job() -> None:
    closing = JOBS[CLOSING]
    assert closing["if"] == "always()"
    assert closing["needs"] == [name for name in JOBS if name != CLOSING]
    results = closing["steps"][0]["env"]["RESULTS"]
    assert re.findall(r"\$\{\{ needs\.([\w-]+)\.result \}\}", results) == closing["needs"]


@pytest.mark.parametrize(
    ("event", "results", "passes"),
    [
        ("pull_request", "success success success success success success success success success", True),
        ("push", "success success success success success success success skipped skipped", True),
        ("pull_request", "success success success success success success success skipped success", False),
        ("pull_request", "success success success success success success success failure success", False),
        ("pull_request", "success success success success success success success success failure", False),
        ("push", "success success success failure success success success skipped skipped", False),
        ("push", "success success success success success failure success skipped skipped", False),
        ("push", "success success success success success success failure skipped skipped", False),
        ("push", "success cancelled success success success success success skipped skipped", False),
        ("push", "success success success skipped success success success skipped skipped", False),
    ],
)
def test_the_closing_job_fails_unless_all_succeeded(event: str, results: str, passes: bool) -> None:  # noqa: FBT001 - a case
    step = JOBS[CLOSING]["steps"][0]
    given = iter(results.split())
    choice = "${{ github.event_name == 'pull_request' && 'success' || 'skipped' }}"
    assert choice in step["env"]["WANTED"]
    environment = {
        "RESULTS": re.sub(r"\$\{\{.*?\}\}", lambda _: next(given), step["env"]["RESULTS"]),
        "WANTED": step["env"]["WANTED"].replace(choice, "success" if event == "pull_request" else "skipped"),
    }
    done = subprocess.run(["/bin/sh", "-ec", step["run"]], env=environment, check=False)
    assert (done.returncode == 0) is passes


def test_a_tag_releases_what_was_tested_built_and_attested() -> None:
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}
    assert {name: job.get("needs", []) for name, job in RELEASE.items()} == {
        "test": [],
        "build": ["test"],
        "attest": ["build"],
        "publish": ["build", "attest"],
        "release": ["build", "publish"],
    }
    assert RELEASE["test"]["steps"][-1] == {"run": "make check test-parity coverage test-install"}


@pytest.mark.parametrize(("tag", "passes"), [("v1.2.3", True), ("v1.2.4", False)])
def test_a_release_writes_the_checksums_and_refuses_a_tag_of_another_version(
    tag: str,
    passes: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
) -> None:
    """The step runs with built files, and with a Python that only records its arguments."""
    names = ("quilt_mcp-1.2.3-py3-none-any.whl", "mcp_parity-0.1.0-py3-none-any.whl", "quilt.mcpb")
    (tmp_path / "dist").mkdir()
    for name in names:
        (tmp_path / "dist" / name).write_text(name, encoding="utf-8")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" > dist/server.json\n', encoding="utf-8")
    python.chmod(0o755)
    step = next(step for step in RELEASE["build"]["steps"] if "TAG" in step.get("env", {}))
    environment = {"TAG": tag, "REPOSITORY": "someone/quilt-mcp", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh", "-ec", step["run"]], cwd=tmp_path, env=environment, check=False)
    assert (done.returncode == 0) is passes
    if passes:
        written = (tmp_path / "dist" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        assert {line.split()[1] for line in written} == {*names, "server.json"}
        check = ["/bin/sh", "-c", "sha256sum --check SHA256SUMS"]
        assert subprocess.run(check, cwd=tmp_path / "dist", check=False).returncode == 0
        script, *arguments = (tmp_path / "dist" / "server.json").read_text(encoding="utf-8").split()
        assert (ROOT / script).is_file()
        assert " ".join(arguments) == ("entry dist/server.json --repository someone/quilt-mcp --bundle dist/quilt.mcpb")


def test_each_distribution_is_published_without_a_token_and_alone() -> None:
    job = RELEASE["publish"]
    assert job["environment"] == "release"
    projects = [ROOT / "pyproject.toml", ROOT / "mcp-parity" / "pyproject.toml"]
    names = [re.findall(r'^name = "(.+)"', path.read_text("utf-8"), re.MULTILINE)[0] for path in projects]
    assert job["strategy"]["matrix"]["distribution"] == [name.replace("-", "_") for name in names]
    publishing = job["steps"][-1]
    assert publishing["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publishing["with"] == {"packages-dir": "wheels", "skip-existing": True}
    assert publishing["if"] == "contains(vars.PUBLISHED, matrix.distribution)"
    assert "secrets." not in TEXTS["release"]


def test_the_profiles_of_hypothesis_that_make_names_exist_and_a_thorough_run_tries_more() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    profiles = {name: settings.get_profile(name) for name in re.findall(r"--hypothesis-profile=(\w+)", makefile)}
    assert profiles["thorough"].max_examples == 2 * profiles["ci"].max_examples
    assert profiles["ci"].derandomize
    assert {profile.deadline for profile in profiles.values()} == {None}


@pytest.mark.soak
def test_the_script_that_asks_over_stdio_reads_a_resource(tmp_path: Path) -> None:
    script = ROOT / ".github" / "scripts" / "ask_over_stdio.py"
    environment = os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    for command, succeeds in (([executable(), "serve"], True), ([sys.executable, "-c", ""], False)):
        done = subprocess.run([sys.executable, script, *command], env=environment, capture_output=True, check=False)
        assert (done.returncode == 0) is succeeds, done.stderr.decode()
