"""The tables of the company's databases in the Glue data catalog."""

from quilt_mcp.commands.demo.records import Column, Table

READS = (
    Column("sample_id", "string", "Sample, as on the sample sheet"),
    Column("lane", "int"),
    Column("read_count", "bigint", "Reads after demultiplexing"),
    Column("q30", "double", "Share of bases with a quality of 30 or more, 0 to 1"),
    Column("tags", "map<string,string>"),
)

SEQUENCING_TABLES = (
    Table(
        "run_metrics",
        "2023-01-16T09:12:00Z",
        READS,
        (Column("run", "string", "Date of the run, YYMMDD"),),
        "s3://acme-raw-sequencing/warehouse/run_metrics/",
        "Quality metrics of each sample and lane",
        format="parquet",
        parameters={"classification": "parquet", "projection.enabled": "false"},
    ),
    Table(
        "sample_sheets",
        "2023-01-16T09:14:00Z",
        (Column("sample_id", "string"), Column("project", "string")),
        location="s3://acme-raw-sequencing/warehouse/sample_sheets/",
        format="csv",
        parameters={"classification": "csv", "skip.header.line.count": "1"},
    ),
    Table(
        "runs_below_q30",
        "2024-02-05T16:40:00Z",
        (Column("run", "string"), Column("samples", "bigint")),
        description="Runs with samples below Q30",
        type="VIRTUAL_VIEW",
        parameters={"presto_view": "true", "comment": "Presto View"},
    ),
)

ICEBERG = {"table_type": "ICEBERG"}
PACKAGE_TABLES = tuple(
    Table(
        f"{bucket}_package_{kind}",
        "2026-07-01T00:00:00Z",
        columns,
        location=f"s3://acme-iceberg/{bucket}/{kind}",
        parameters=ICEBERG,
    )
    for bucket in ("acme-analysis-results", "acme-raw-sequencing")
    for kind, columns in {
        "revision": (Column("pkg_name", "string"), Column("timestamp", "timestamp"), Column("top_hash", "string")),
        "tag": (Column("pkg_name", "string"), Column("tag_name", "string"), Column("top_hash", "string")),
        "manifest": (Column("top_hash", "string"), Column("message", "string"), Column("metadata", "string")),
        "entry": (Column("top_hash", "string"), Column("logical_key", "string"), Column("physical_key", "string")),
    }.items()
)
"""What the stack keeps about the packages of two buckets."""

CLINICAL_TABLES = (
    Table(
        "visits",
        "2023-04-17T13:35:00Z",
        (
            Column("subject_id", "string", "Pseudonym"),
            Column("visit_date", "date"),
            Column("measurements", "array<struct<name:string,value:double,unit:string>>"),
        ),
        (Column("trial", "string"), Column("site", "string")),
        "s3://acme-clinical-trials/warehouse/visits/",
        format="parquet",
        parameters={"classification": "parquet"},
    ),
)
