"""The company's data in S3, in the Glue data catalog with the tables of its databases, and in Athena."""

from datetime import date

from quilt_mcp.demo.liver import make_liver
from quilt_mcp.demo.packages import CREATED
from quilt_mcp.demo.records import Bucket, Column, Database, Package, Query, Revision, Table, WorkGroup

RUNS = ("250428", "250505", "250512", "250519")
LAST_SAMPLE = 3
RUN_ROWS = tuple(
    (f"S{sample}", lane, 18_400_210 - 310_007 * number - 41_003 * lane + 250_031 * sample, q30, tags, run)
    for number, run in enumerate(RUNS)
    for sample in range(1, LAST_SAMPLE + 1)
    for lane in (1, 2)
    for q30 in [round(0.93 - 0.04 * number * (sample == LAST_SAMPLE) - 0.005 * lane, 3)]
    for tags in [None if sample == LAST_SAMPLE else {"flowcell": f"HX{number:02}", "operator": "jonas_lindqvist"}]
)
"""Four runs with three samples on two lanes."""
VISIT_ROWS: tuple[tuple[object, ...], ...] = (
    ("P-001", date(2024, 3, 4), [{"name": "ALT", "value": 31.0, "unit": "U/L"}], "trial-07", "basel"),
    ("P-001", date(2024, 6, 3), [{"name": "ALT", "value": 28.5, "unit": "U/L"}], "trial-07", "basel"),
    ("P-002", date(2024, 3, 11), [{"name": "ALT", "value": float("nan"), "unit": "U/L"}], "trial-07", "lyon"),
    ("P-003", date(2025, 1, 20), None, "trial-11", "lyon"),
)
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
        rows=RUN_ROWS,
    ),
    Table(
        "sample_sheets",
        "2023-01-16T09:14:00Z",
        (Column("sample_id", "string"), Column("project", "string")),
        location="s3://acme-raw-sequencing/warehouse/sample_sheets/",
        format="csv",
        parameters={"classification": "csv", "skip.header.line.count": "1"},
        rows=(("S1", "atlas"), ("S2", "atlas"), ("S3", "liver")),
    ),
    Table(
        "runs_below_q30",
        "2024-02-05T16:40:00Z",
        (Column("run", "string"), Column("samples", "bigint")),
        description="Runs with samples below Q30",
        type="VIRTUAL_VIEW",
        parameters={"presto_view": "true", "comment": "Presto View"},
        sql="SELECT run, count(DISTINCT sample_id) AS samples FROM run_metrics WHERE q30 < 0.9 GROUP BY run",
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
        rows=VISIT_ROWS,
    ),
)


RUN_METRICS = """\
schema:
- {name: sample_id, type: STRING}
- {name: read_count, type: BIGINT}
- {name: q30, type: DOUBLE}
source:
  type: quilt-packages
  package_name: ^runs/(?P<run>[0-9]{6})$
  logical_key: ^metrics/.*[.]csv$
parser: {format: csv, header: true}
"""
SAMPLE_SHEETS = """\
schema:
- {name: sample_id, type: STRING}
- {name: project, type: STRING}
source:
  type: quilt-packages
  package_name: ^runs/[0-9]{6}$
  logical_key: ^samples[.]tsv$
parser: {format: csv, delimiter: "\\t", header: true}
"""
GENE_COUNTS = """\
schema:
- {name: gene_id, type: STRING}
- {name: counts, type: BIGINT}
source:
  type: quilt-packages
  package_name: ^rnaseq/liver$
  logical_key: ^counts/.*[.]parquet$
parser: {format: parquet}
"""

WORKFLOWS = """\
version: "1"
is_workflow_required: true
default_workflow: run
workflows:
  run:
    name: Sequencing run
    description: One run of an instrument
    handle_pattern: ^runs/[0-9]{6}$
    metadata_schema: run
    is_message_required: true
  free:
    name: Anything else
schemas:
  run:
    url: s3://acme-raw-sequencing/.quilt/workflows/run.json
"""
RUN_SCHEMA = """\
{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["instrument", "operator"],
 "properties": {"instrument": {"type": "string"}, "operator": {"type": "string"}, "lanes": {"type": "integer"}}}
"""

RUN_FILES = {
    "samples.tsv": "runs/250519/samples.tsv",
    "metrics/lane1.csv": "runs/250519/metrics/lane1.csv",
    "instrument.json": "instruments/novaseq-01.json",
}
RAW_PACKAGES = (
    Package(
        "runs/250519",
        (
            Revision(CREATED - 86_400, "Sample sheet", {"samples.tsv": "runs/250519/samples.tsv"}, workflow="free"),
            Revision(
                CREATED,
                "Metrics of lane 1",
                RUN_FILES,
                {"instrument": "novaseq-01", "operator": "jonas_lindqvist", "lanes": 4},
                "run",
            ),
        ),
    ),
)
LIVER, LIVER_VERSIONS = make_liver()
RESULT_PACKAGES = (
    Package(
        "rnaseq/atlas",
        (Revision(CREATED + 3600, "Gene counts", {"counts/S1.parquet": "rnaseq/atlas/counts/S1.parquet"}),),
    ),
    Package(
        "reports/2025-q1",
        (Revision(CREATED - 3600, "First quarter", {"index.html": "reports/2025-q1.html"}, {"quarter": "2025-Q1"}),),
    ),
    LIVER,
)

BUCKETS = (
    Bucket(
        "acme-raw-sequencing",
        "Raw sequencing runs",
        "2023-01-09T08:00:00Z",
        {
            "README.md": "# Raw sequencing runs\n",
            "instruments/novaseq-01.json": "{}\n",
            "runs/250519/samples.tsv": "sample_id\tproject\nS1\tatlas\n",
            "runs/250519/metrics/lane1.csv": "sample_id,read_count,q30\nS1,18400210,0.93\n",
            ".quilt/workflows/config.yml": WORKFLOWS,
            ".quilt/workflows/run.json": RUN_SCHEMA,
        },
        packages=RAW_PACKAGES,
        tables={"run_metrics": RUN_METRICS, "sample_sheets": SAMPLE_SHEETS},
        description="Runs of all instruments, as they were measured",
        last_indexed="2025-05-28T04:00:00Z",
        reads={"README.md": 6, "runs/250519/samples.tsv": 14, "runs/250519/metrics/lane1.csv": 22},
        tags=("sequencing", "raw"),
    ),
    Bucket(
        "acme-analysis-results",
        "Analysis results",
        "2023-01-09T08:05:00Z",
        {
            "README.md": "# Analysis results\n",
            "reports/2025-q1.html": "<title>First quarter</title>\n",
            "rnaseq/atlas/counts/S1.parquet": "PAR1",
            "scratch/jonas/notes.txt": "try k=31\n",
        },
        packages=RESULT_PACKAGES,
        versions=LIVER_VERSIONS,
        tables={"gene_counts": GENE_COUNTS},
        tags=("rnaseq",),
        last_indexed="2025-05-27T22:15:00Z",
        reads={
            "README.md": 9,
            "reports/2025-q1.html": 31,
            "rnaseq/liver/README.md": 8,
            "rnaseq/liver/counts/liver.parquet": 18,
            "rnaseq/liver/LICENSE": 1,
        },
    ),
    Bucket(
        "acme-clinical-trials",
        "Clinical trials",
        "2023-04-03T07:00:00Z",
        {"trial-07/protocol.md": "# Trial 07\n", "trial-11/protocol.md": "# Trial 11\n"},
        description="Protocols and measurements, without names",
        last_indexed="2025-05-24T03:30:00Z",
    ),
    Bucket(
        "acme-imaging-eu",
        "Imaging (EU)",
        "2023-08-21T06:00:00Z",
        {"README.md": "# Imaging\n", "slides/0001.tiff": "II*"},
        region="eu-west-1",
    ),
    Bucket(
        "acme-partner-exchange",
        "Partner exchange",
        "2024-03-11T15:00:00Z",
        {"helix/manifest.json": "{}\n"},
        account="210987654321",
    ),
    Bucket("acme-finance-archive", "Finance archive", "2023-09-04T11:00:00Z", {"2024/ledger.csv": "month,total\n"}),
    Bucket("acme-athena-results", "Athena query results", "2023-01-09T08:10:00Z", in_stack=False),
)

DATABASES = (
    Database(
        "acme_sequencing",
        "2023-01-16T09:00:00Z",
        "Sequencing runs, samples and their quality metrics",
        "s3://acme-raw-sequencing/warehouse/",
        {"owner": "data-platform", "classification": "internal"},
        SEQUENCING_TABLES,
    ),
    Database(
        "acme_clinical",
        "2023-04-17T13:30:00Z",
        "Trials, visits and measurements, without names",
        "s3://acme-clinical-trials/warehouse/",
        {"owner": "clinical-operations", "classification": "restricted", "retention": "15y"},
        CLINICAL_TABLES,
    ),
    Database("acme-imaging-eu", "2023-08-28T07:45:00Z", location="s3://acme-imaging-eu/warehouse/"),
    Database("default", "2023-01-09T08:00:00Z", "Default Hive database"),
    Database("quilt-acme-icebergdatabase", "2026-07-01T00:00:00Z", tables=PACKAGE_TABLES),
)

NON_MANAGED = "QuiltUserAthena-acme-NonManagedRoleWorkgroup"
PLATFORM = "QuiltUserAthena-acme-DataPlatform"
RESEARCHER = "QuiltUserAthena-acme-Researcher"

PRIMARY = WorkGroup("primary", "2023-01-09T08:00:00Z", enforced=False)

WORK_GROUPS = (
    PRIMARY,
    WorkGroup(
        NON_MANAGED,
        "2023-01-09T08:20:00Z",
        "Queries of users with an unmanaged role",
        "s3://acme-athena-results/non-managed/",
    ),
    WorkGroup(
        PLATFORM, "2023-01-09T08:21:00Z", "Queries of the role DataPlatform", "s3://acme-athena-results/platform/"
    ),
    WorkGroup(
        RESEARCHER, "2023-01-09T08:21:00Z", "Queries of the role Researcher", "s3://acme-athena-results/researcher/"
    ),
    WorkGroup(
        "analytics-adhoc",
        "2023-11-06T10:15:00Z",
        "One-off questions of the analytics team",
        "s3://acme-athena-results/adhoc/",
        enforced=False,
        scan_limit_bytes=1_099_511_627_776,
    ),
    WorkGroup("legacy-etl", "2023-01-23T16:40:00Z", "Nightly jobs, until 2024", enabled=False),
)

QUERIES = (
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c001",
        RESEARCHER,
        "acme_sequencing",
        "SELECT run, avg(q30) AS q30 FROM run_metrics GROUP BY run ORDER BY run DESC LIMIT 20",
        minutes_ago=12,
        seconds=4,
        scanned_bytes=18_874_368,
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c002",
        RESEARCHER,
        "acme_sequencing",
        "SELECT sample_id, read_count FROM run_metrics WHERE run = '250519'",
        minutes_ago=3,
        seconds=None,
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c003",
        RESEARCHER,
        "acme_sequencing",
        "SELECT * FROM run_metricz LIMIT 10",
        minutes_ago=25,
        seconds=1,
        failure="TABLE_NOT_FOUND: line 1:15: Table 'awsdatacatalog.acme_sequencing.run_metricz' does not exist",
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c004",
        NON_MANAGED,
        "acme_clinical",
        "SELECT trial, count(DISTINCT subject_id) AS subjects\nFROM visits\nGROUP BY trial",
        minutes_ago=190,
        seconds=9,
        scanned_bytes=402_653_184,
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c005",
        NON_MANAGED,
        "acme-imaging-eu",
        "SHOW TABLES IN `acme-imaging-eu`",
        minutes_ago=1500,
        seconds=1,
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c006",
        "primary",
        "default",
        "SELECT 1",
        minutes_ago=2900,
        seconds=1,
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c007",
        "analytics-adhoc",
        "acme_sequencing",
        "SELECT project, count(*) AS samples FROM sample_sheets GROUP BY project",
        minutes_ago=4400,
        seconds=3,
        scanned_bytes=1_048_576,
    ),
    Query(
        "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c008",
        "legacy-etl",
        "acme_sequencing",
        "MSCK REPAIR TABLE run_metrics",
        minutes_ago=10_060,
        seconds=47,
    ),
)
