"""The server of the TypeScript SDK. Its packages are installed with npm once, and kept."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.bench.peer_servers import DATA

PACKAGES = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2", "zod@4.6.7")
SECONDS = 300
_SERVER = Path(__file__).with_name("typescript_server.mjs")


class NotInstalledError(Exception):
    """The server cannot run, for this reason."""


def typescript_server(folder: Path) -> tuple[str, ...]:
    """Return the command of the server. Install its packages into the folder, if they are not there.

    Raises:
        NotInstalledError: node, npm or the packages are missing.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        raise NotInstalledError("node and npm are not installed")
    installed, wanted = folder / "installed.json", json.dumps(PACKAGES)
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}", encoding="utf-8")
        command = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES)
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS, check=True)
        except subprocess.SubprocessError as error:
            raise NotInstalledError(f"npm cannot install {PACKAGES[0]}") from error
        installed.write_text(wanted, encoding="utf-8")
    shutil.copy(_SERVER, folder)
    (folder / "data.json").write_text(json.dumps(DATA), encoding="utf-8")
    return (node, str(folder / _SERVER.name), str(folder / "data.json"))
