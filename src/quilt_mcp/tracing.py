"""Spans of OpenTelemetry, beside those that FastMCP makes of each request.

Without an SDK of OpenTelemetry they do nothing; and as FastMCP's, they are off where FASTMCP_TELEMETRY_MODE says so.
Nothing that a client sent, and no text of an exception, becomes part of one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fastmcp.telemetry import native_spans_enabled
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode, get_tracer

_tracer = get_tracer("quilt_mcp")


@contextmanager
def span(
    name: str, attributes: Mapping[str, str] | None = None, *, kind: SpanKind = SpanKind.INTERNAL
) -> Iterator[Span]:
    """A span below the current one, which it is for as long as the context lasts; an exception makes it an error."""
    if not native_spans_enabled():
        yield INVALID_SPAN
        return
    with _tracer.start_as_current_span(
        name, attributes=attributes, kind=kind, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except Exception as error:
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(StatusCode.ERROR)
            raise
