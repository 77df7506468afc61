"""Foreign clients against the demo: `make test-clients`. They come from npm and PyPI, and need no account.

`python -m tests.clients` tries all clients, or those that are named. It prints a row for each, with its version, its
checks, and how many of them passed, and fails if one did not pass.
"""
