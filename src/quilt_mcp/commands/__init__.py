"""The commands of `quilt-mcp`, one per module, and what they share."""
