"""The analysis of Python code: what `config://` and `info://` tell, the tools, and the sandbox that they run in."""
