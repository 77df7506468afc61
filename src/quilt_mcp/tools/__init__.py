"""`get_resource` for Python code. Promised to Python callers at this place."""
