"""The process that runs submitted code, and the kernel features that confine it."""
