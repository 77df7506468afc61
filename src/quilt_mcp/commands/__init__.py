"""The commands of `quilt-mcp`, one per module, and the modules that they share."""
