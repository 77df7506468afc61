"""Collects the secrets of a world, and finds them in texts: unchanged and in common encodings."""

import base64
import json
import os
from collections.abc import Iterator
from urllib.parse import quote

import quilt3.session

from quilt_mcp.demo.world import World

PLANTED = "canary-in-the-environment-7f3a"


def secrets_of(world: World) -> set[str]:
    """Return tokens, the stored AWS credentials, and a value that is put into the environment."""
    os.environ["SOME_API_KEY"] = PLANTED  # the world restores the environment at its end
    found = {PLANTED, *world.stack.grants, *world.stack.refresh_tokens}
    for path in (quilt3.session.AUTH_PATH, quilt3.session.CREDENTIALS_PATH):
        if path.exists():
            found |= set(_strings(json.loads(path.read_text(encoding="utf-8"))))
    return {secret for secret in found if not secret.startswith("20")}  # no dates


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, str):
        yield value


def leaks(text: str, secrets: set[str]) -> list[str]:
    """Return the forms of secrets that the text contains."""
    return [form for secret in secrets for form in _forms(secret) if form in text]


def _forms(secret: str) -> set[str]:
    raw = secret.encode()
    return {
        secret,
        quote(secret, safe=""),
        raw.hex(),
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
        json.dumps(secret)[1:-1],
    }
