"""Why a file cannot be shown, or not as what it is."""


class Refused(Exception):
    """The file cannot be shown. The message says why."""


class TooMuch(OSError):
    """More of the file would have to be read than is allowed."""
