"""Audits the requests that never reach the application: not HTTP, too slow, too long, or too many connections."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol, cast

from starlette.types import Scope

from quilt_mcp.http.audit_log import RECORD, AuditLog, AuditRecord
from quilt_mcp.http.audit_requests import AUDIT_LOG, HTTP_METHODS, find_address
from quilt_mcp.http.connection_limits import Limited, LimitedProtocol


class _ScopedCycle(Protocol):
    scope: Scope


class Audited(Limited):
    """Adds lines of the audit log to one of uvicorn's protocols, as a mixin.

    Attributes:
        app_state: the state of the application. Set by uvicorn.
        client: the address of the connection, which can be a proxy's. Set by uvicorn.
    """

    app_state: Mapping[str, object]
    client: tuple[str, int] | None

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP."""
        super().send_400_response(msg)  # type: ignore[misc]  # uvicorn's protocols have it
        self._audit(HTTPStatus.BAD_REQUEST, "error")

    def on_response_complete(self) -> None:
        """Audit a request that uvicorn answered itself, because there are too many connections."""
        super().on_response_complete()  # type: ignore[misc]  # uvicorn's protocols have it
        scope = cast(_ScopedCycle, self.cycle).scope
        if RECORD not in scope:
            scope[RECORD] = None  # with pipelined requests, several answers can be for the same cycle
            method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
            self._audit(HTTPStatus.SERVICE_UNAVAILABLE, "limit", method)

    def _close(self, status: HTTPStatus) -> None:
        is_request = self._head_size and not (
            self.transport.is_closing() or self._is_answering() or self._is_discarding()
        )
        super()._close(status)
        if is_request:
            self._audit(status, "limit")

    def _audit(self, status: HTTPStatus, outcome: str, method: str | None = None) -> None:
        log = self.app_state.get(AUDIT_LOG)
        if isinstance(log, AuditLog):
            record = AuditRecord("http", find_address(self.client), http_method=method, status=status.value)
            record.note_failure(outcome, f"HTTP {status.value}")
            log.write(record)


class AuditedProtocol(Audited, LimitedProtocol):
    """The protocol of a server with an audit log."""
