import socket

import pytest


@pytest.fixture(params=["unknown_host", "refused"])
def mcp_world(request, monkeypatch):
    errors = {"unknown_host": socket.gaierror(-2, "Name or service not known"), "refused": ConnectionRefusedError()}

    def fail(*args, **kwargs):
        raise errors[request.param]

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the client waits between its retries
    return request.param
