"""Makes the binary files of the demo's packages: Parquet, PNG, PDF and gzip. The other files are written by hand.

They are in src/quilt_mcp/demo/files/. `make demo-data` writes them; a test compares what is in them.
"""

import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping
from datetime import date
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quilt_mcp.demo.liver import FILES

GENES = ("ALB", "APOA1", "FGA", "CYP3A4", "COL1A1", "ACTA2")
BASES = (812_044, 402_118, 268_905, 31_770, 9_412, 4_038)
COLLECTED = (date(2025, 2, 3), date(2025, 2, 4), date(2025, 2, 4), date(2025, 2, 11), date(2025, 2, 12))
READS = b"@L01.%d\nACGTTGCAAGCT\n+\nFFFFFFFFFFFF\n"
PALETTE = bytes((255, 255, 255, 60, 60, 70, 38, 110, 190, 214, 96, 60))
BLANK, AXIS, MILD, SEVERE = range(4)


def make_old_counts() -> pa.Table:
    """Return the counts of the first revision: one row per gene."""
    return pa.table(
        {
            "gene_id": pa.array(GENES),
            "counts": pa.array(BASES, pa.int64()),
            "annotation": pa.array(["44"] * len(GENES)),
        }
    )


def make_counts() -> pa.Table:
    """Return the counts of the last revision: one row per gene and biopsy."""
    pairs = [(gene, sample) for gene in range(len(GENES)) for sample in range(len(COLLECTED))]
    counts = [BASES[gene] * (20 - 3 * sample) // 20 for gene, sample in pairs]
    return pa.table(
        {
            "gene_id": pa.array([GENES[gene] for gene, _ in pairs]),
            "sample_id": pa.array([f"L{sample + 1:02}" for _, sample in pairs]),
            "counts": pa.array(counts, pa.int64()),
            "tpm": pa.array(
                [None if sample == 4 else count / 1.6 for (_, sample), count in zip(pairs, counts, strict=True)]
            ),
            "collected": pa.array([COLLECTED[sample] for _, sample in pairs], pa.date32()),
        }
    )


def _write_parquet(table: pa.Table, rows_per_group: int) -> bytes:
    buffer = BytesIO()
    pq.write_table(table, buffer, row_group_size=rows_per_group, compression="snappy")
    return buffer.getvalue()


def make_pixels(width: int, height: int, points: Mapping[tuple[int, int], int]) -> list[bytes]:
    """Return the rows of a scatter plot, one byte per pixel, each an index of the palette."""
    rows = [bytearray(width) for _ in range(height)]
    for x in range(8, width - 4):
        rows[height - 8][x] = AXIS
    for y in range(4, height - 8):
        rows[y][8] = AXIS
    for (column, row), color in points.items():
        for y in range(row - 2, row + 3):
            rows[y][column - 2 : column + 3] = bytes([color] * 5)
    return [bytes(row) for row in rows]


def _write_png(rows: list[bytes]) -> bytes:
    header = len(rows[0]).to_bytes(4, "big") + len(rows).to_bytes(4, "big") + bytes((8, 3, 0, 0, 0))
    lines = b"".join(b"\0" + row for row in rows)
    chunks = ((b"IHDR", header), (b"PLTE", PALETTE), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big") for kind, data in chunks
    )


PCA = {(40, 70): MILD, (52, 84): MILD, (61, 60): MILD, (110, 40): SEVERE, (124, 33): SEVERE, (131, 90): SEVERE}
QUALITY = {(20 + 12 * number, 60 - 3 * number): MILD for number in range(5)}
PAGES = (
    ("Liver cohort: report", "Six biopsies, six genes.", "Counts of collagen rise with the stage of fibrosis."),
    ("Methods", "Reads were aligned to GRCh38 and counted with Salmon.", "Biopsy L06 was left out: it has few reads."),
)


def _write_pdf() -> bytes:
    """Return a PDF file with one object per page, and one per content of a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(PAGES)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(PAGES)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(PAGES):
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] {resources} /Contents {5 + 2 * number} 0 R >>"
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        content = f"BT /F1 14 Tf 20 TL 72 770 Td {shown} ET".encode()
        objects += [page.encode(), b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)]
    written, places = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count, start = len(objects) + 1, len(written)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % count
    return written + head + table + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, start)


def _make_log() -> bytes:
    """Return a log that is too long for one page of text, and is small when it is compressed."""
    lines = [
        f"2025-05-12T{8 + at // 60:02}:{at % 60:02}:00Z INFO  L{at % 5 + 1:02} aligned {80_000 * at} reads\n"
        for at in range(1, 721)
    ]
    return "".join(lines).encode()


def make_files() -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file."""
    yield "1/counts/liver.parquet", _write_parquet(make_old_counts(), 100)
    yield "3/counts/liver.parquet", _write_parquet(make_counts(), 20)
    yield "1/raw/L01.fastq.gz", gzip.compress(b"".join(READS % number for number in range(1, 9)), mtime=0)
    yield "2/logs/align.log.gz", gzip.compress(_make_log(), mtime=0)
    yield "2/figures/pca.png", _write_png(make_pixels(160, 120, PCA))
    yield "3/figures/quality.png", _write_png(make_pixels(96, 72, QUALITY))
    yield "3/report.pdf", _write_pdf()


def main(folder: Path = FILES) -> int:
    """Write the files that the package contains."""
    for path, content in make_files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
