"""The companies of the demo worlds: one that uses Quilt every day, and one that has just installed it."""

from quilt_mcp.demo.data_lake import BUCKETS, DATABASES, NON_MANAGED, PRIMARY, QUERIES, RESEARCHER, WORK_GROUPS
from quilt_mcp.demo.records import APIKey, Company, Policy, Role, User

ADMIN = "amara_osei"
MEMBER = "jonas_lindqvist"

SEQUENCING = Policy("Sequencing", {"acme-raw-sequencing": "READ_WRITE", "acme-analysis-results": "READ_WRITE"})
SEQUENCING_READERS = Policy("Sequencing readers", {"acme-raw-sequencing": "READ"})
RESULTS = Policy("Analysis results", {"acme-analysis-results": "READ_WRITE"})
PARTNERS = Policy("Partner data", {"acme-imaging-eu": "READ", "acme-partner-exchange": "READ"})
CLINICAL = Policy("Clinical data", {"acme-clinical-trials": "READ_WRITE"})
FINANCE = Policy("Finance archive", {"acme-finance-archive": "READ"})
QUERY_RESULTS = Policy("Athena query results", {"acme-athena-results": "READ_WRITE"}, managed=False)

ROLES = (
    Role(
        "DataPlatform",
        (SEQUENCING, PARTNERS, QUERY_RESULTS),
        list_only=("acme-clinical-trials",),
        runs_queries_in=("*",),
        lists_account=True,
    ),
    Role(
        "Researcher",
        (SEQUENCING_READERS, RESULTS, QUERY_RESULTS),
        list_only=("acme-imaging-eu",),
        runs_queries_in=(NON_MANAGED, RESEARCHER),
        describes=("analytics-adhoc",),
    ),
    Role("ClinicalOperations", (CLINICAL, SEQUENCING_READERS), runs_queries_in=(RESEARCHER,)),
    Role("FinanceAudit", (FINANCE,)),
    Role("PartnerExchange", external_arn="arn:aws:iam::210987654321:role/PartnerExchange"),
    Role("LegacyPipeline", external_arn="arn:aws:iam::123456789012:role/acme-legacy-pipeline"),
)

USERS = (
    User(
        "amara_osei", "2023-01-09T08:30:00Z", "2025-05-28T07:58:12Z", "DataPlatform", ("FinanceAudit",), is_admin=True
    ),
    User("jonas_lindqvist", "2023-02-14T09:05:41Z", "2025-05-27T13:20:05Z", "Researcher"),
    User("priya_raman", "2023-01-09T08:42:17Z", "2025-05-26T16:44:50Z", "DataPlatform", is_admin=True),
    User("tomas_novak", "2023-03-01T10:00:00Z", "2025-05-28T06:12:33Z", "Researcher", ("ClinicalOperations",)),
    User("wei_zhang", "2023-03-20T02:15:09Z", "2025-05-28T01:40:27Z", "Researcher", is_sso_only=True),
    User("fatima_al_amin", "2023-04-03T07:31:52Z", "2025-05-23T11:09:46Z", "ClinicalOperations", is_sso_only=True),
    User("lucia_ferrari", "2023-04-17T12:48:30Z", "2025-05-19T15:27:08Z", "ClinicalOperations", is_sso_only=True),
    User("daniel_okonkwo", "2023-05-08T09:22:44Z", "2025-05-28T08:03:59Z", "Researcher", is_sso_only=True),
    User("sofia_petrova", "2023-06-12T08:10:00Z", "2024-11-29T17:30:21Z", "Researcher", is_active=False),
    User("marcus_hale", "2023-06-12T08:11:00Z", "2024-02-02T09:14:37Z", None, is_active=False),
    User("hana_kobayashi", "2023-08-21T00:55:13Z", "2025-05-27T23:51:40Z", "Researcher", is_sso_only=True),
    User("peter_van_dijk", "2023-09-04T11:19:26Z", "2025-05-12T10:36:54Z", "FinanceAudit", is_sso_only=True),
    User(
        "grace_mwangi",
        "2023-10-02T06:47:05Z",
        "2025-05-28T05:29:18Z",
        "Researcher",
        ("ClinicalOperations", "DataPlatform"),
        is_sso_only=True,
    ),
    User("oscar_delgado", "2024-01-15T14:03:38Z", "2025-05-22T19:12:02Z", "Researcher", is_sso_only=True),
    User("ingrid_solberg", "2024-02-26T08:59:10Z", "2025-05-27T12:00:45Z", "DataPlatform", is_sso_only=True),
    User("yusuf_demir", "2024-04-08T07:25:51Z", "2025-05-16T08:48:29Z", "Researcher", is_sso_only=True),
    User("chloe_martin", "2024-05-13T09:37:14Z", "2025-05-27T14:55:03Z", "ClinicalOperations", is_sso_only=True),
    User("rahul_desai", "2024-07-01T05:12:40Z", "2025-04-30T10:21:16Z", "Researcher", is_sso_only=True),
    User("emma_johansson", "2024-09-16T08:04:22Z", "2025-05-28T07:16:39Z", "Researcher", is_sso_only=True),
    # invited, signed in once
    User("nikolai_volkov", "2025-01-20T13:33:07Z", "2025-01-20T13:33:07Z", None, is_sso_only=True),
    User("partner_helix", "2024-03-11T15:45:00Z", "2025-05-06T18:02:57Z", "PartnerExchange"),
    User("svc_ingest", "2023-01-10T00:00:00Z", "2025-05-28T08:15:00Z", "LegacyPipeline", is_service=True),
    User("svc_catalog_sync", "2023-01-10T00:00:01Z", "2025-05-28T08:10:00Z", "DataPlatform", is_service=True),
    User("svc_retired_etl", "2023-01-10T00:00:02Z", "2024-06-30T23:59:59Z", None, is_active=False, is_service=True),
)

SSO = """\
version: "1.0"
default_role: Researcher
mappings:
  - schema:
      type: object
      properties:
        groups:
          type: array
          contains: {const: quilt-administrators}
      required: [groups]
    roles: [DataPlatform, FinanceAudit]
    admin: true
  - schema:
      type: object
      properties:
        department: {const: clinical-operations}
      required: [department]
    roles: [ClinicalOperations]
"""


API_KEYS = (
    APIKey("ingest", "svc_ingest", "qk_7f3a", "2025-03-03T08:00:00Z", "2026-03-03T08:00:00Z", "2025-05-28T08:15:02Z"),
    APIKey("notebooks", ADMIN, "qk_b210", "2025-04-22T09:14:55Z", "2025-07-21T09:14:55Z", "2025-05-27T16:40:11Z"),
    APIKey("laptop", MEMBER, "qk_09ce", "2025-05-19T07:02:31Z", "2025-08-17T07:02:31Z", None),
    APIKey(
        name="etl",
        owner="svc_retired_etl",
        fingerprint="qk_d4e8",
        created="2024-01-15T00:00:00Z",
        expires="2024-07-13T00:00:00Z",
        last_used="2024-06-30T23:58:40Z",
        status="EXPIRED",
    ),
)

ACME = Company(
    "acme",
    USERS,
    ROLES,
    BUCKETS,
    DATABASES,
    WORK_GROUPS,
    QUERIES,
    sso=SSO,
    open_query=True,
    api_keys=API_KEYS,
)

EMPTY = Company(
    "acme",
    (User(ADMIN, "2023-01-09T08:30:00Z", "2023-01-09T08:30:00Z", "Administrators", is_admin=True),),
    (Role("Administrators", runs_queries_in=("primary",), lists_account=True),),
    work_groups=(PRIMARY,),
)
