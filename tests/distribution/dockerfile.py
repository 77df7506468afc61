"""Runs the Dockerfile without a container engine: in namespaces, with an empty /srv, as an unprivileged user.

What differs from an engine: the rest of the file system, and so Python, is that of this machine, the user has another
number, and COPY runs outside.
"""

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

import pytest

from tests.support.server_process import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--net")
BUILD_NAMESPACES = NAMESPACES[:-1]  # a build installs packages from the network
SECONDS = 1800
PYTHONS = (Path(sys.base_prefix) / "bin" / "python3", Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))


@dataclass
class Stage:
    """The instructions of a stage, after FROM."""

    image: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        """Return the arguments of the last instruction of this kind."""
        return [rest for found, rest in self.instructions if found == instruction][-1]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of ENV and the defaults of ARG."""
        words = [word for found, rest in self.instructions if found in {"ENV", "ARG"} for word in shlex.split(rest)]
        return dict(word.split("=", 1) for word in words)

    @property
    def command(self) -> list[str]:
        """What the image runs."""
        return [*json.loads(self.last("ENTRYPOINT")), *json.loads(self.last("CMD"))]

    @property
    def health_check(self) -> list[str]:
        """The command of the health check."""
        found: list[str] = json.loads(self.last("HEALTHCHECK").partition(" CMD ")[2])
        return found


def stages() -> list[Stage]:
    """Return the stages of the Dockerfile."""
    found: list[Stage] = []
    lines = [line for line in TEXT.splitlines() if not line.startswith("#")]
    for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            image, _, name = rest.partition(" AS ")
            found.append(Stage(image, name))
        elif instruction:
            found[-1].instructions.append((instruction, rest))
    return found


def is_sent(path: str) -> bool:
    """Return whether .dockerignore lets the engine see a path of this repository."""
    result = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if any(fnmatch(part, pattern) for part in (path, *map(str, Path(path).parents))):
            result = line.startswith("!")
    return result


@dataclass
class Machine:
    """A place for images, and the user that builds and runs them.

    Attributes:
        place: a directory that this user can write.
    """

    place: Path

    @cached_property
    def user(self) -> str | None:
        """The name of an unprivileged user; None if this process has no privileges."""
        return None if os.geteuid() else "nobody"

    @cached_property
    def python(self) -> Path:
        """A Python that this user may run."""
        program = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
        for path in PYTHONS:
            if self.run(["sh", "-c", 'exec "$@"', "sh", path, "-c", program]).returncode == 0:
                return path
        pytest.skip("no Python 3.11 or newer that an unprivileged user may run")

    def run(
        self, command: list[str | Path], environment: dict[str, str] | None = None, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as this user."""
        return subprocess.run(
            [str(word) for word in command],
            input=text,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | (environment or {}),
            cwd="/",
            user=self.user,
            group=pwd.getpwnam(self.user).pw_gid if self.user else None,
            extra_groups=[] if self.user else None,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def check(self) -> None:
        """Skip the test if this machine has no namespaces for unprivileged users."""
        done = self.run([*NAMESPACES, "sh", "-ec", "mount --bind /srv /srv; ip link set lo up"])
        if done.returncode:
            pytest.skip(f"no namespaces for unprivileged users: {done.stderr.strip()}")

    def make(self, name: str) -> Path:
        """Create a directory of this user."""
        path = self.place / name
        path.mkdir()
        if self.user:
            shutil.chown(path, self.user)
        return path


@contextmanager
def machine() -> Iterator[Machine]:
    """Return an empty place."""
    with tempfile.TemporaryDirectory(prefix="image-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)  # the user that builds must be able to enter it
        yield Machine(Path(directory))


def build(stage: Stage, on: Machine) -> Path:
    """Run the instructions of a stage that has all its files in /srv. Return the directory that is its /srv."""
    srv, commands = on.make(f"srv-{stage.name}"), on.make("commands")
    python = commands / "python"
    python.write_text(f'#!/bin/sh\nexec {on.python} "$@"\n', encoding="utf-8")  # venv would link to a symbolic link
    python.chmod(0o755)
    packages = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment = packages | {"PATH": f"{commands}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}
    directory = "/"
    for instruction, rest in stage.instructions:
        match instruction:
            case "ARG":
                environment[rest.partition("=")[0]] = rest.partition("=")[2]
            case "WORKDIR":
                directory = rest
                on.run(["mkdir", "-p", _outside(rest, srv)])
            case "COPY":
                *sources, target = rest.split()
                for source in sources:
                    _copy(source, _outside(str(Path(directory, target)), srv), on)
            case "RUN":
                script = f"mount --bind {srv} /srv; cd {directory}; {rest}"
                done = on.run([*BUILD_NAMESPACES, "sh", "-ec", script], environment)
                if done.returncode and "pip" in rest and "No matching distribution" in done.stderr:
                    pytest.skip(f"the package index: {done.stderr.strip().splitlines()[-1]}")
                assert done.returncode == 0, f"{rest}: {done.stdout}{done.stderr}"
            case _:
                pytest.fail(f"nothing runs {instruction}")
    return srv


def _copy(source: str, target: Path, on: Machine) -> None:
    assert is_sent(source), source
    if (ROOT / source).is_dir():
        shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(ROOT / source, target)
    if on.user:
        for path in (target, *target.rglob("*")):
            shutil.chown(path, on.user)


def _outside(path: str, srv: Path) -> Path:
    assert Path(path).is_relative_to("/srv"), path
    return srv / Path(path).relative_to("/srv")


def run_image(stage: Stage, srv: Path, on: Machine, driver: str, environment: dict[str, str]) -> str:
    """Run a Python program on a read-only file system with a network of its own, and return what it prints.

    Only /tmp and the volume can be written. `IMAGE_COMMAND` and `IMAGE_HEALTH_CHECK` contain what the image runs.
    """
    volume = stage.last("VOLUME")
    data = on.make("data")
    script = (
        f"mount --bind {srv} /srv; mount -o remount,bind,ro /srv; mount --bind {data} {volume}; ip link set lo up; "
        "mount -t tmpfs tmpfs /tmp; mount -o remount,bind,ro /; exec python -"
    )
    given = stage.environment | environment
    given |= {"IMAGE_COMMAND": json.dumps(stage.command), "IMAGE_HEALTH_CHECK": json.dumps(stage.health_check)}
    given["PATH"] += ":/usr/sbin:/sbin"  # for ip and mount, which are not in /usr/bin everywhere
    done = on.run([*NAMESPACES, "sh", "-ec", script], given, driver)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
