"""A company in which names, texts and numbers are as large as the stack and AWS allow, or larger than any answer."""

import json
from dataclasses import replace

from quilt_mcp.demo.company import ACME, ADMIN
from quilt_mcp.demo.records import (
    Bucket,
    Column,
    Company,
    Database,
    Level,
    Package,
    Policy,
    Query,
    Revision,
    Role,
    Table,
    User,
    WorkGroup,
)

CREATED = "2024-01-01T00:00:00Z"
BUCKET, DATABASE, TABLE = "acme-large", "large", "wide"
PACKAGE = f"large/000{'n' * 60}"
TEXT = 'A "quoted" line of a long text.\n' * 1500
NUMBER = 60
"""More than a page."""

_OTHERS = tuple(
    Bucket(f"acme-{n:04}-{'b' * 40}", "T" * 900, CREATED, description=TEXT, tags=("t" * 300,) * 9, tables={"t": "x"})
    for n in range(NUMBER)
)
_COLUMNS = "".join(f"  - {{name: c{n}, type: STRING}}\n" for n in range(450))
_TABULATOR = f"schema:\n{_COLUMNS}source:\n  type: quilt-packages\n  package_name: '^a$'\n  logical_key: '^x$'\n"
_WORKFLOWS = "".join(
    f"  w{n}:\n    name: {'n' * 90}\n    description: {'d' * 90}\n    metadata_schema: s{n % 8}\n"
    for n in range(NUMBER)
)
_SCHEMAS = "".join(f"  s{n}:\n    url: s3://{BUCKET}/schema{n}.json\n" for n in range(8))
_CONFIG = f"version:\n  base: '1'\n  catalog: '1'\nworkflows:\n{_WORKFLOWS}schemas:\n{_SCHEMAS}"
_SCHEMA = json.dumps({"properties": {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(400)}})
_KEYS = {f"{'d' * 200}/{'e' * 200}/{n:04}{'k' * 500}": "x" for n in range(2 * NUMBER)}
_FILES = {f"{'p' * 200}/{n:04}{'q' * 150}": key for n, key in enumerate(_KEYS)}
_REVISIONS = tuple(
    Revision(1_700_000_000 + n, "m" * 5000, _FILES if n % 2 else {}, {f"k{n}": TEXT}) for n in range(NUMBER)
)
_LARGE = Bucket(
    BUCKET,
    "Large",
    CREATED,
    {
        **_KEYS,
        "README.md": TEXT,
        ".quilt/workflows/config.yml": _CONFIG,
        **{f"schema{n}.json": _SCHEMA for n in range(8)},
    },
    tables={f"t{n}": f"{_TABULATOR}parser: {{format: csv}}\n" for n in range(4)},
    description=TEXT,
    packages=(
        Package(PACKAGE, _REVISIONS),
        *(Package(f"large/{n:03}{'n' * 60}", _REVISIONS[:2]) for n in range(1, NUMBER)),
    ),
)

_ALL: dict[str, Level] = {bucket.name: "READ_WRITE" for bucket in (*ACME.buckets, *_OTHERS, _LARGE)}
_OWN = Role("Large", (Policy("All", _ALL),), runs_queries_in=("*",), lists_account=True, sees_stack=True)
_POLICIES = tuple(Policy(f"{n}{'P' * 900}", {bucket.name: "READ" for bucket in _OTHERS}) for n in range(30))
_ROLES = tuple(Role(f"Role{n:03}{'r' * 40}", _POLICIES) for n in range(NUMBER))
_USERS = tuple(
    User(f"user{n:03}{'u' * 50}", CREATED, CREATED, "Large", tuple(role.name for role in _ROLES)) for n in range(NUMBER)
)

_STRUCT = f"struct<{','.join(f'a{n}:string' for n in range(300))}>"
_WIDE = tuple(Column(f"c{n:04}{'x' * 200}", _STRUCT, "c" * 255) for n in range(300))
_TABLES = (
    Table(
        TABLE,
        CREATED,
        _WIDE,
        location=f"s3://{BUCKET}/x",
        description="d" * 2048,
        format="csv",
        parameters={f"p{n}": "v" * 5000 for n in range(NUMBER)},
    ),
    *(
        Table(f"t{n:03}{'t' * 200}", CREATED, _WIDE[:2], location=f"s3://{BUCKET}/{'l' * 900}", description="d" * 2048)
        for n in range(NUMBER)
    ),
)
_DATABASES = (
    Database(DATABASE, CREATED, "d" * 2048, tables=_TABLES),
    *(
        Database(f"db{n:03}{'d' * 200}", CREATED, "d" * 2048, parameters={f"p{n}": "v" * 5000 for n in range(NUMBER)})
        for n in range(NUMBER)
    ),
)
_GROUPS = tuple(WorkGroup(f"wg{n:03}{'w' * 100}", CREATED, "d" * 1024, f"s3://{BUCKET}/{'o' * 900}") for n in range(22))
_SQL = f"SELECT {'x, ' * 9000}x"
_QUERIES = tuple(
    Query(
        f"{n:08}-0000-4000-8000-000000000000", "primary", DATABASE, f"SELECT {'x, ' * 9000}x", n + 1, 1, 0, "f" * 3000
    )
    for n in range(NUMBER)
)

LARGE_COMPANY: Company = replace(
    ACME,
    users=(*(replace(user, role="Large") if user.name == ADMIN else user for user in ACME.users), *_USERS),
    roles=(*ACME.roles, _OWN, *_ROLES),
    buckets=(*ACME.buckets, *_OTHERS, _LARGE),
    databases=(*ACME.databases, *_DATABASES),
    work_groups=(*ACME.work_groups, *_GROUPS),
    queries=(*ACME.queries, *_QUERIES),
    sso=TEXT,
)
