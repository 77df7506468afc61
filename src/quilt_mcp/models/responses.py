"""The answers of `get_resource`, at the place promised to Python callers."""

from quilt_mcp.core.answers import DictAccessibleModel, GetResourceError, GetResourceSuccess, ResourceMetadata

__all__ = ["DictAccessibleModel", "GetResourceError", "GetResourceSuccess", "ResourceMetadata"]
