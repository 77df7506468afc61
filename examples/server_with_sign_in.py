"""An HTTP server for people who sign in with tokens of an issuer, and send their Quilt token in X-Quilt-Token."""

import uvicorn
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from starlette.applications import Starlette

from quilt_mcp.http.app import create_application
from quilt_mcp.server import create_server, read_settings

ISSUER, AUDIENCE = "https://id.example.com", "quilt-mcp"


def create_app(public_key: str) -> Starlette:
    settings = read_settings(jwt_public_key=public_key, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
    mcp = create_server(settings)
    return create_application(mcp, settings, transport="http", host="127.0.0.1", checks={}, direct=mcp.manager)


if __name__ == "__main__":
    keys = RSAKeyPair.generate()  # your issuer has these, and publishes the public one
    print("Authorization: Bearer", keys.create_token("ada", issuer=ISSUER, audience=AUDIENCE))
    uvicorn.run(create_app(keys.public_key), host="127.0.0.1", port=8000)
