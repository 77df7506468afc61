"""The shapes of what `get_resource` returns. Promised to Python callers at this place."""
