"""ReqIF files in ZIP archives (.reqifz), as most tools export them. Nothing is unpacked under a name of the archive."""

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_END
from tempfile import TemporaryFile
from typing import BinaryIO

from quilt_mcp.requirements.transfer.records import shorten
from quilt_mcp.requirements.transfer.reqif.elements import UnreadableXML

MOST_BYTES = 4_000_000_000
"""Maximum size of the ReqIF file in an archive: that of about a million objects."""
MOST_FILES = 100_000
_START = b"PK\x03\x04"
_CHUNK = 1_000_000
_MOST_RATIO = 1000
"""Deflate cannot make text smaller than this, so that a file that is larger is none of a tool."""


@contextmanager
def open_reqif(file: BinaryIO, skipped: Counter[str], most_bytes: int = MOST_BYTES) -> Iterator[tuple[BinaryIO, float]]:
    """Yield the ReqIF file of an archive, or the file itself if it is no archive. The file can be read several times.

    Yield also how much of the archive a byte of its file is.

    Raises:
        UnreadableXML: the archive cannot be read, or has no ReqIF file or several.
    """
    start = file.read(len(_START))
    file.seek(0)
    if start != _START:
        yield file, 1.0
        return
    try:
        with zipfile.ZipFile(file) as archive, TemporaryFile() as unpacked:
            member = _choose_member(archive, skipped)
            done = 0
            with archive.open(member) as packed:
                while chunk := packed.read(_CHUNK):
                    done += len(chunk)
                    if done > most_bytes:
                        raise UnreadableXML(1, f"The ReqIF file has more than {most_bytes:,} bytes. Split it.")
                    unpacked.write(chunk)
            unpacked.seek(0)
            yield unpacked, file.seek(0, SEEK_END) / max(done, 1)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise UnreadableXML(1, "The ZIP archive is damaged. Export or copy it again.") from None
    except (NotImplementedError, RuntimeError):  # RuntimeError: it has a password
        raise UnreadableXML(1, "The ZIP archive is encrypted or has another compression. Unpack it.") from None


def _choose_member(archive: zipfile.ZipFile, skipped: Counter[str]) -> zipfile.ZipInfo:
    members = [one for one in archive.infolist() if not one.is_dir()]
    if len(members) > MOST_FILES:
        raise UnreadableXML(1, f"The ZIP archive has more than {MOST_FILES:,} files. Unpack it.")
    found = [one for one in members if one.filename.lower().endswith(".reqif")]
    names = ", ".join(shorten(one.filename) for one in found[:5])
    if len(found) > 1:
        raise UnreadableXML(1, f"The archive has {len(found)} ReqIF files: {names}. Unpack it and import one by one.")
    if not found:
        raise UnreadableXML(1, "The ZIP archive has no file that ends in .reqif. Export it again as ReqIF.")
    if found[0].file_size > _MOST_RATIO * max(found[0].compress_size, 1) or found[0].file_size > MOST_BYTES:
        raise UnreadableXML(
            0, f"{names} would have {found[0].file_size:,} bytes, which is too large. Unpack and split it."
        )
    if rest := len(members) - 1:
        skipped["file in the archive that is not ReqIF"] += rest
    return found[0]
