"""The error of a command that cannot run."""


class Misuse(Exception):
    """A command cannot run with these arguments or settings. The message says what to change."""
