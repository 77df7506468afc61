"""Secrets in places that the sandbox must not reach, and the forms in which they could leak."""

import base64
from urllib.parse import quote

ENVIRONMENT = "canary-in-the-environment-5b1e"
MEMORY = "canary-in-the-memory-of-the-server-90d2"
FILE = "canary-in-a-file-c7f4"
OTHER_REQUEST = "canary-in-another-request-3aa8"
ALL = (ENVIRONMENT, MEMORY, FILE, OTHER_REQUEST)


def leaks(text: str) -> list[str]:
    """Return the forms of the secrets that the text contains."""
    return [form for secret in ALL for form in _forms(secret) if form in text]


def _forms(secret: str) -> set[str]:
    raw = secret.encode()
    middle = len(secret) // 2
    return {
        secret,
        secret[::-1],
        secret[:middle],
        secret[middle:],
        quote(secret, safe="").replace("-", "%2D"),
        raw.hex(),
        base64.b64encode(raw).decode().rstrip("=")[:-1],
        base64.b32encode(raw).decode().rstrip("=")[:-1],
        "".join(chr(byte ^ 1) for byte in raw),
        str(list(raw))[1:-1],
    }
