"""Analysis of Python code: resources, tools and prompts, and the sandbox that runs the analyses."""
