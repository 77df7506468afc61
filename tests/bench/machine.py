"""Describes the machine, the software and the time of a run."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.bench.processes import ROOT


def describe() -> dict[str, str]:
    """The date, the machine and the software."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "revision": revision(),
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "software": f"Python {platform.python_version()}, FastMCP {version('fastmcp')}, mcp {version('mcp')}",
    }


def revision() -> str:
    """The commit, and whether files differ from it."""
    commit = git("rev-parse", "--short", "HEAD")
    return f"{commit}{' with changes' if git('status', '--porcelain') else ''}" if commit else "unknown"


def git(*arguments: str) -> str:
    """Return the output of git, or an empty text without a clone or git."""
    try:
        done = subprocess.run(
            ("git", *arguments),  # noqa: S607 - from the user's PATH
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
