"""`quilt-mcp workflows`: back up and restore the workflow file."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from quilt_mcp.commands.output import show, waiting
from quilt_mcp.commands.running import run_or_complain
from quilt_mcp.settings import Settings

if TYPE_CHECKING:
    from quilt_mcp.workflows.backup import Copied

Flag = Annotated[bool, Parameter(negative=())]

app = App(name="workflows", help="Back up and restore the workflow file.")


@app.command
def backup(file: Path, /, *, overwrite: Flag = False) -> int:
    """Copy the workflows of all callers to a file, also while servers write. PostgreSQL: use pg_dump.

    Args:
        file: the file to write. Only you can read it.
        overwrite: replace an existing backup, or an empty file.
    """
    work = _import_work()
    with waiting("Copying"):
        done: Copied | None = run_or_complain(lambda: work.backup(Settings(), file.absolute(), overwrite=overwrite))
    if done is None:
        return 1
    show(f"Copied {done.number} workflows to {file}.")
    return 0


@app.command
def restore(file: Path, /, *, replace: Flag = False) -> int:
    """Replace the workflows by those of a backup. Running servers use them at once.

    Args:
        file: a file that `backup` wrote.
        replace: replace existing workflows. They are kept beside the workflow file, in a new file with .before-restore
            in its name.
    """
    work = _import_work()
    with waiting("Restoring"):
        done: Copied | None = run_or_complain(lambda: work.restore(Settings(), file.absolute(), replace=replace))
    if done is None:
        return 1
    show(f"Restored {done.number} workflows.")
    if done.before is not None:
        show(f"What was there before is in {done.before}.")
    return 0


def _import_work() -> ModuleType:
    """Import the module that copies. It is not imported at the top because it imports SQLAlchemy."""
    return import_module("quilt_mcp.workflows.backup")
