"""Serving over HTTP: the application, authentication, limits, metrics, readiness and worker processes."""
