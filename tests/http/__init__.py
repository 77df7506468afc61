# noqa: A005 - the tests of `quilt_mcp.http`
