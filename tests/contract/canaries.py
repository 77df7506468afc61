"""The secrets of a world, and looking for them: as they are, and in the encodings in which they might slip out."""

import base64
import json
import os
from collections.abc import Iterator
from urllib.parse import quote

import quilt3.session

from quilt_mcp.demo.world import World

PLANTED = "canary-in-the-environment-7f3a"


def secrets_of(world: World) -> set[str]:
    """Tokens, the AWS credentials that are stored, and a value that is planted in the environment."""
    os.environ["SOME_API_KEY"] = PLANTED  # the world puts the environment back at its end
    found = {PLANTED, *world.stack.grants, *world.stack.refresh_tokens}
    for path in (quilt3.session.AUTH_PATH, quilt3.session.CREDENTIALS_PATH):
        if path.exists():
            found |= set(_strings(json.loads(path.read_text(encoding="utf-8"))))
    return {secret for secret in found if secret != world.url and not secret.startswith("20")}  # no dates


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, str):
        yield value


def leaks(text: str, secrets: set[str]) -> list[str]:
    """The forms of secrets that stand in the text."""
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
