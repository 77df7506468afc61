"""Serving over HTTP: who may ask, what is refused unread, the routes beside MCP's, and processes."""
