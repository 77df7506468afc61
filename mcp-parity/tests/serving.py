"""A server over HTTP, for tests that need one."""

import runpy
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import Response


@contextmanager
def serve(file: Path, token: str = "") -> Iterator[str]:
    """Serve the `mcp` of a file, and yield its URL. With a token, requests without it are refused."""
    app = runpy.run_path(str(file))["mcp"].http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        allowed = (b"authorization", f"Bearer {token}".encode()) in scope.get("headers", [])
        if scope["type"] == "http" and token and not allowed:
            await Response("no token", status_code=401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(guarded, log_level="error", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()
