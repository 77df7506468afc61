"""A package with files of many kinds, and three revisions that differ in every way in which revisions can differ.

The content of its files is in `files/`, in one folder for each push.
"""

from pathlib import Path

from quilt_mcp.demo.records import Package, Revision, Version

FILES = Path(__file__).with_name("files")
ROOT = "rnaseq/liver"
PUSHED = (1_746_439_200, 1_747_044_000, 1_747_490_400)
"""When the revisions were pushed, in seconds since 1970."""

FIRST = ("README.md", "samples.csv", "counts/liver.parquet", "code/normalize.R", "drafts/notes.txt")
SECOND = ("README.md", "samples.csv", "figures/pca.png", "notebooks/explore.ipynb", "logs/align.log.gz")
THIRD = ("LICENSE", "counts/liver.parquet", "metrics.jsonl", "quilt_summarize.json", "report.pdf", "tables/genes.tsv")
ODD_NAME = "figures/QC 100% + #2.png"
"""A name that a physical key has percent-encoded."""


def make_liver() -> tuple[Package, tuple[Version, ...]]:
    """Return the package, and the versions of its objects in the order in which they were stored.

    One file is archived. One was removed from the package, and its object was deleted, which left a delete marker.
    The last revision has one file at another place with the same content.
    """
    first = {path: _store(1, path) for path in FIRST}
    first["raw/L01.fastq.gz"] = _store(1, "raw/L01.fastq.gz", storage_class="GLACIER")
    second = {path: _store(2, path) for path in SECOND}
    third = {path: _store(3, path) for path in THIRD}
    third[ODD_NAME] = _store(3, "figures/quality.png", f"{ROOT}/{ODD_NAME}")
    third["code/normalize.R"] = first["code/normalize.R"]._replace(key=f"{ROOT}/scripts/normalize.R", stored=PUSHED[2])
    in_second = {**first, **second}
    in_third = {**in_second, **third}
    del in_third["drafts/notes.txt"]
    marker = Version(f"{ROOT}/drafts/notes.txt", PUSHED[2] + 60, None)
    meta = {"tissue": "liver", "genome": "GRCh38"}
    revisions = (
        Revision(PUSHED[0], "Counts of five biopsies", first, {**meta, "biopsies": 5, "draft": True}),
        Revision(PUSHED[1], "A sixth biopsy, and a first look", in_second, {**meta, "biopsies": 6, "draft": True}),
        Revision(
            PUSHED[2], "Counts per biopsy, and the report", in_third, {**meta, "biopsies": 6, "reviewer": "wei_zhang"}
        ),
    )
    return Package(ROOT, revisions, reads=12), (*first.values(), *second.values(), *third.values(), marker)


def _store(push: int, path: str, key: str | None = None, storage_class: str = "STANDARD") -> Version:
    content = (FILES / str(push) / path).read_bytes()
    return Version(key or f"{ROOT}/{path}", PUSHED[push - 1], content, storage_class)
