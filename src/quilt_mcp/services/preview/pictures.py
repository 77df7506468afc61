"""What a picture is, by its first bytes: its type and its size in pixels, without decoding it."""

import struct
from collections.abc import Callable
from typing import NamedTuple

LARGEST_PICTURE = 1_048_576
MOST_PIXELS = 50_000_000
"""A client decodes a picture: a file of some KB can need gigabytes."""
JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
"""The markers of JPEG after which the size stands."""


class Picture(NamedTuple):
    """The type and the size of a picture in pixels."""

    mime_type: str
    width: int
    height: int


def identify(raw: bytes) -> Picture | None:
    """Return what the picture is that starts with these bytes; None if they start none, or end before its size."""
    for start, find_size, mime_type in FORMATS:
        if raw.startswith(start):
            try:
                size = find_size(raw)
            except (struct.error, IndexError):
                return None
            return Picture(mime_type, *size) if size and all(size) else None
    return None


def _find_png_size(raw: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from(">II", raw, 16)
    return (width, height) if raw[12:16] == b"IHDR" else None


def _find_gif_size(raw: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from("<HH", raw, 6)
    return width, height


def _find_jpeg_size(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while raw[at] == 0xFF:  # noqa: PLR2004 - each segment starts with this byte
        marker, length = struct.unpack_from(">BH", raw, at + 1)
        if marker in JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return width, height
        at += 2 + length
    return None


def _find_webp_size(raw: bytes) -> tuple[int, int] | None:
    kind = raw[12:16] if raw[8:12] == b"WEBP" else b""
    if kind == b"VP8X":
        return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", raw, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", raw, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


FORMATS: tuple[tuple[bytes, Callable[[bytes], tuple[int, int] | None], str], ...] = (
    (b"\x89PNG\r\n\x1a\n", _find_png_size, "image/png"),
    (b"\xff\xd8\xff", _find_jpeg_size, "image/jpeg"),
    (b"GIF87a", _find_gif_size, "image/gif"),
    (b"GIF89a", _find_gif_size, "image/gif"),
    (b"RIFF", _find_webp_size, "image/webp"),
)
