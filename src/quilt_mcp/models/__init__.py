"""The shapes of what `get_resource` returns."""
