"""The answers of `get_resource`. Promised to Python callers at this place."""

from quilt_mcp.core.answers import DictAccessibleModel, GetResourceError, GetResourceSuccess, ResourceMetadata

__all__ = ["DictAccessibleModel", "GetResourceError", "GetResourceSuccess", "ResourceMetadata"]
