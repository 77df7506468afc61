"""The texts in a PDF file, opened by pypdf. Only the process in `child.py` imports this."""

import io

from pypdf import PdfReader

from quilt_mcp.services.preview.asked import Asked
from quilt_mcp.services.preview.block_file import BlockFile
from quilt_mcp.services.preview.refused import Refused


def read_pdf(file: BlockFile, asked: Asked) -> dict[str, object]:
    """Return the texts of the pages from one on, as many as fit and at least one."""
    reader = PdfReader(io.BufferedReader(file))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("It is protected by a password.")
    room, pages = asked.room, list[dict[str, object]]()
    for number in range(asked.first, len(reader.pages) + 1):
        text = reader.pages[number - 1].extract_text()
        if pages and len(text) > room:
            break
        pages.append({"number": number, "text": text[:room], "is_cut": len(text) > room})
        room -= len(text)
        if room <= 0:
            break
    return {"page_count": len(reader.pages), "pages": pages}
