"""Benchmarks: `make bench`."""

print("There is no benchmark yet.")  # noqa: T201 - it is what the command says
