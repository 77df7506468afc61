"""The package of the demo that has files of many kinds: what they contain, and that quilt3 can fetch them."""

import csv
import gzip
import hashlib
import json
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import quilt3
from botocore.exceptions import ClientError

from quilt_mcp.demo.liver import FILES, ODD_NAME, ROOT
from quilt_mcp.demo.packages import compute_hash
from quilt_mcp.demo.records import Revision
from quilt_mcp.demo.world import World
from tests.support import demo_files
from tests.support.worlds import in_world

RESULTS = "acme-analysis-results"
REGISTRY = f"s3://{RESULTS}"
ARCHIVED, REMOVED, MOVED = "raw/L01.fastq.gz", "drafts/notes.txt", "code/normalize.R"
MOST_BYTES = 6_000


def read_revisions(world: World) -> tuple[Revision, ...]:
    bucket = next(one for one in world.company.buckets if one.name == RESULTS)
    return next(one for one in bucket.packages if one.name == ROOT).revisions


def browse(world: World, number: int) -> quilt3.Package:
    """Return a revision, as quilt3 reads it from S3."""
    bucket = next(one for one in world.company.buckets if one.name == RESULTS)
    return quilt3.Package.browse(ROOT, REGISTRY, compute_hash(bucket, read_revisions(world)[number]))


def test_the_binary_files_are_what_the_script_makes(tmp_path: Path) -> None:
    """The compressed bytes may differ between versions of zlib and pyarrow. What is in them may not."""
    assert demo_files.main(tmp_path) == 0
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) == 7
    for path in made:
        place = path.relative_to(tmp_path)
        assert read_content(FILES / place) == read_content(path), f"{place}: run `make demo-data`"


def read_content(file: Path) -> object:
    content = file.read_bytes()
    match file.suffix:
        case ".parquet":
            table = pq.read_table(BytesIO(content))
            return table.schema, table.to_pylist(), pq.ParquetFile(BytesIO(content)).num_row_groups
        case ".gz":
            return gzip.decompress(content)
        case ".png":
            return read_png(content)
    return content


def read_png(content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the chunks of a PNG, with the pixels decompressed. Their checksums are checked."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = list[tuple[bytes, bytes]](), 8
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4], "big")
        kind, data = content[at + 4 : at + 8], content[at + 8 : end]
        assert zlib.crc32(kind + data) == int.from_bytes(content[end : end + 4], "big")
        chunks.append((kind, zlib.decompress(data) if kind == b"IDAT" else data))
        at = end + 4
    return chunks


def test_the_files_are_small_and_of_many_kinds() -> None:
    files = [path for path in FILES.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {"", ".csv", ".gz", ".ipynb", ".json", ".jsonl", ".md", ".parquet"}
    assert {path.suffix for path in files} >= {".pdf", ".png", ".tsv", ".txt"}
    assert max(path.stat().st_size for path in files) < MOST_BYTES
    assert len(gzip.decompress((FILES / "2/logs/align.log.gz").read_bytes())) > 20_000
    lines = (FILES / "3/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert {type(json.loads(line)) for line in lines} == {dict}
    for path in (one for one in files if one.suffix in {".csv", ".tsv"}):
        with path.open(encoding="utf-8", newline="") as opened:
            rows = list(csv.reader(opened, delimiter="\t" if path.suffix == ".tsv" else ","))
        assert len({len(row) for row in rows}) == 1, path
    outputs = [
        one
        for cell in json.loads((FILES / "2/notebooks/explore.ipynb").read_bytes())["cells"][1:]
        for one in cell["outputs"]
    ]
    assert {one["output_type"] for one in outputs} == {"execute_result", "stream", "error"}
    # the table that changes: one column goes, and others come
    old, new = (pq.read_schema(FILES / f"{push}/counts/liver.parquet").names for push in (1, 3))
    assert (set(old) - set(new), set(new) - set(old)) == ({"annotation"}, {"sample_id", "tpm", "collected"})


def test_the_xref_table_of_the_pdf_leads_to_its_objects() -> None:
    content = (FILES / "3/report.pdf").read_bytes()
    start = int(content.rpartition(b"startxref\n")[2].split()[0])
    lines = content[start:].splitlines()
    assert lines[0] == b"xref"
    places = [int(line.split()[0]) for line in lines[3 : 2 + int(lines[1].split()[1])]]
    assert len(places) == 7
    for number, place in enumerate(places, 1):
        assert content[place:].startswith(b"%d 0 obj\n" % number)


@in_world("admin")
def test_revisions_differ_in_every_way(world: World) -> None:
    first, second, third = (dict(browse(world, number).walk()) for number in range(3))
    assert third.keys() - second.keys() >= {"LICENSE", "report.pdf", ODD_NAME}
    assert second.keys() - third.keys() == {REMOVED}
    assert second.keys() > first.keys()
    assert {path for path in first if first[path].hash != second[path].hash} == {"README.md", "samples.csv"}
    assert {path for path in second.keys() & third.keys() if second[path].hash != third[path].hash} == {
        "counts/liver.parquet"
    }
    assert first["samples.csv"].size != second["samples.csv"].size
    assert second[MOVED].hash == third[MOVED].hash
    assert second[MOVED].physical_key.path != third[MOVED].physical_key.path
    metas = [browse(world, number).meta for number in range(3)]
    assert len({json.dumps(meta, sort_keys=True) for meta in metas}) == 3


@pytest.mark.filterwarnings("ignore:pathlib.PurePath.is_reserved:DeprecationWarning")  # in quilt3, since Python 3.13
@in_world("admin", "member")
def test_quilt3_fetches_what_the_manifest_says(world: World, tmp_path: Path) -> None:
    for number, revision in enumerate(read_revisions(world)):
        package = browse(world, number)
        assert package.keys()
        for path, entry in package.walk():
            place = revision.entries[path]
            assert not isinstance(place, str)
            assert str(entry.physical_key).endswith(f"?versionId={place.id}")
            if path == ARCHIVED:
                with pytest.raises(ClientError, match="InvalidObjectState"):
                    entry.get_bytes()
                continue
            content = entry.get_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (entry.size, entry.hash["value"]), path
        package.delete(ARCHIVED)
        package.fetch(dest=str(tmp_path / str(number)))
        assert (tmp_path / str(number) / "README.md").read_bytes() == package["README.md"].get_bytes()
    assert "figures/QC%20100%25%20%2B%20%232.png?versionId=" in str(package[ODD_NAME].physical_key)


@in_world("admin")
def test_the_object_of_the_removed_file_is_deleted_but_its_version_is_there(world: World) -> None:
    s3: Any = quilt3.get_boto3_session().client("s3")
    key = f"{ROOT}/{REMOVED}"
    listed = s3.list_objects_v2(Bucket=RESULTS, Prefix=key)
    assert listed["KeyCount"] == 0
    place = read_revisions(world)[0].entries[REMOVED]
    assert not isinstance(place, str)
    assert s3.get_object(Bucket=RESULTS, Key=key, VersionId=place.id)["Body"].read() == place.content
