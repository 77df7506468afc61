"""`quilt-mcp requirements`: import, export, migrate and status of the requirements database."""
