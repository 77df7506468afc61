"""quilt://buckets/{bucket}: what each user of each stack sees."""

from moto.s3.models import s3_backends

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.moto_gaps.cloudwatch import measure
from quilt_mcp.demo.world import World
from quilt_mcp.services.bucket_size import STORAGE_TYPES
from tests.services.stack_calls import list_calls
from tests.support.python_caller import read, read_error
from tests.support.worlds import in_world

RAW, RESULTS, CLINICAL = "acme-raw-sequencing", "acme-analysis-results", "acme-clinical-trials"
PARTNER, IMAGING = "acme-partner-exchange", "acme-imaging-eu"
README = "README.md"
LINKS = ("packages", "workflows", "access", "tables")
SIZE = ("size", "size_by_storage_type", "object_count", "measured_at")


async def show(bucket: str) -> JSONObject:
    return await read(f"quilt://buckets/{bucket}")


@in_world("admin")
async def test_an_administrator_sees_everything_with_roles(world: World) -> None:
    found = await show(RAW)
    assert (found["title"], found["tags"]) == ("Raw sequencing runs", ["sequencing", "raw"])
    assert (found["access_source"], found["access_error"]) == ("roles", None)
    assert found["readers"] == ["ClinicalOperations", "DataPlatform", "Researcher"]
    assert (found["writers"], found["writer_count"]) == (["DataPlatform"], 1)
    assert (found["last_indexed_at"], found["package_count"]) == ("2025-05-28T04:00:00Z", 1)
    counts = found["access_counts"]
    assert (counts["days"], counts["total"]) == (30, sum(row["count"] for row in counts["by_extension"]))
    assert (found["readme"], found.get("readme_truncated")) == ("# Raw sequencing runs\n", None)
    assert [(row["name"], row["kind"]) for row in found["folders"]] == [
        (".quilt", "folder"),
        (README, "file"),
        ("instruments", "folder"),
        ("runs", "folder"),
    ]
    assert (found["folders"][1]["size"], found.get("folders_truncated")) == (22, None)


@in_world("member")
async def test_a_member_sees_collaborators(world: World) -> None:
    found = await show(RAW)
    assert (found["access_source"], found["access_error"]) == ("collaborators", None)
    assert {"jonas_lindqvist", "amara_osei"} <= set(found["readers"])
    assert "jonas_lindqvist" not in found["writers"]
    assert (await read_error(f"quilt://buckets/{CLINICAL}")).error == "NotFound"


@in_world("admin")
async def test_every_link_can_be_read(world: World) -> None:
    found = await show(RAW)
    for link in LINKS:
        await read(found[link])
    assert found["objects"] == f"quilt://buckets/{RAW}/objects"
    rows = (await read("quilt://buckets"))["buckets"]
    assert {row["uri"] for row in rows} >= {f"quilt://buckets/{name}" for name in (RAW, RESULTS)}
    for row in rows:
        assert (await read(row["uri"]))["name"] == row["name"]
    for package in (await read(found["packages"]))["packages"]:
        assert (await read(package["uri"]))["name"] == package["name"]


@in_world("admin")
async def test_a_name_that_the_stack_does_not_show_is_refused(world: World) -> None:
    missing = ("nowhere", "northwind-data", "acme-athena-results", "a..b", "ABC", "x" * 64)
    invalid = ("ab", "-acme", "acme~data", "acme%20data", "x" * 129, "arn%3Aaws%3As3%3A%3A%3Aacme", "..", ".", "%2E%2E")
    for name, error in (dict.fromkeys(missing, "NotFound") | dict.fromkeys(invalid, "InvalidTemplateVariable")).items():
        found = await read_error(f"quilt://buckets/{name}")
        assert (name, found.error) == (name, error)
        assert found.suggested_actions
    same = await read_error("quilt://buckets/nowhere/packages")
    found = await read_error("quilt://buckets/nowhere")
    assert (found.message, found.details) == (same.message, same.details)
    assert (await read_error("quilt://buckets/")).error == "MissingTemplateVariable"


@in_world("admin")
async def test_of_a_bucket_outside_of_the_role_an_administrator_sees_what_the_stack_configures(world: World) -> None:
    """The role may list the bucket, and cannot read it. `bucket` and `packages` of the stack leave it out."""
    found = await show(CLINICAL)
    assert (found["title"], found["last_indexed_at"]) == ("Clinical trials", "2025-05-24T03:30:00Z")
    assert (found["access_source"], found["readers"]) == ("roles", ["ClinicalOperations"])
    for part in ("package_count", "access_counts"):
        assert found[part] is None
        assert found[f"{part}_error"] == "The Quilt stack shows this only of buckets that your role includes."
    assert [row["name"] for row in found["folders"]] == ["trial-07", "trial-11"]
    assert "s3:GetObject" in found["readme_error"]
    finance = await show("acme-finance-archive")
    assert (finance["folders"], finance.get("folders_truncated")) == (None, None)
    assert "s3:ListBucket" in finance["folders_error"]


@in_world("custom_role")
async def test_the_size_is_that_of_all_storage_types(world: World) -> None:
    found = await show(RESULTS)
    measured = measure(s3_backends[ACCOUNT_ID]["aws"].get_bucket(RESULTS))
    sizes = {kind: size for (name, kind), size in measured.items() if name == "BucketSizeBytes"}
    assert {"StandardStorage", "GlacierStorage", "GlacierObjectOverhead", "GlacierS3ObjectOverhead"} <= sizes.keys()
    assert sizes.keys() <= set(STORAGE_TYPES)
    assert found["size_by_storage_type"] == sizes
    assert found["size"] == sum(sizes.values())
    assert found["object_count"] == measured["NumberOfObjects", "AllStorageTypes"]
    assert (found["measured_at"], found["size_region"]) == ("2026-01-14T00:00:00Z", "us-east-1")
    assert (found["size_error"], found["aws_endpoint"]) == (None, None)


@in_world("custom_role")
async def test_a_size_that_cloudwatch_does_not_know_is_null_with_the_reason(world: World) -> None:
    other_account, other_region = await show(PARTNER), await show(IMAGING)
    for found in (other_account, other_region):
        assert [found[name] for name in SIZE] == [None] * 4
        assert found["size_region"] == "us-east-1"
        assert found["folders"]
    assert "no values of the last 14 days" in other_account["size_error"]
    assert "in another account" in other_account["size_error"]
    expected = "The bucket is in eu-west-1. CloudWatch was asked in us-east-1, which does not know its size."
    assert other_region["size_error"] == expected


@in_world("admin")
async def test_without_the_right_the_reason_names_it(world: World) -> None:
    found = await show(RESULTS)
    assert [found[name] for name in (*SIZE, "size_region")] == [None] * 5
    assert "cloudwatch:GetMetricData (AccessDenied: no identity-based policy allows it)" in found["size_error"]
    assert found["readme_error"] is found["folders_error"] is None


@in_world("aws_denied", "aws_throttled", "aws_broken", "aws_unreachable", "no_region")
async def test_without_aws_the_stack_still_answers(world: World) -> None:
    found = await show(RESULTS)
    assert (found["title"], found["package_count"]) == ("Analysis results", 3)
    if world.name != "no_region":  # S3 needs none
        for part in ("readme", "folders"):
            assert found[part] is None, part
            assert found[f"{part}_error"], part
    assert (found["size"], bool(found["size_error"])) == (None, True)


STACKS = {
    "stack_2022": ["bucketOverview", "bucketOverviewUntil2026", "bucketOverviewUntil2024", "bucketOverviewUntil2022"],
    "stack_2023": ["bucketOverview", "bucketOverviewUntil2026", "bucketOverviewUntil2024"],
    "stack_2024_06": ["bucketOverview", "bucketOverviewUntil2026", "bucketOverviewUntil2024"],
    "stack_2024_10": ["bucketOverview", "bucketOverviewUntil2026", "bucketOverviewUntil2024"],
    "stack_2024_12": ["bucketOverview", "bucketOverviewUntil2026"],
    "stack_2026_06": ["bucketOverview"],
    "stack_2022_400": [
        "bucketOverview",
        "bucketOverviewUntil2026",
        "bucketOverviewUntil2024",
        "bucketOverviewUntil2022",
    ],
}


@in_world(*STACKS)
async def test_older_stacks_say_what_they_know(world: World) -> None:
    world.stack.calls.clear()
    found = await show(RESULTS)
    assert [call for call in list_calls(world) if call.startswith("bucketOverview")] == STACKS[world.name]
    year = world.name.removeprefix("stack_")
    assert found["access_source"] == ("collaborators" if year.startswith("2022") else "roles")
    assert found["readers"]
    assert (found["last_indexed_at"], found["package_count"]) == ("2025-05-27T22:15:00Z", 3)
    if year >= "2024_12":
        assert found["access_counts"]["total"] > 0
    else:
        assert found["access_counts"] is None
        assert "before November 2024" in found["access_counts_error"]
    assert (await read_error("quilt://buckets/nowhere")).error == "NotFound"


@in_world("new_role_type")
async def test_a_role_of_an_unknown_type_is_named_by_its_type(world: World) -> None:
    assert "a role of the type FederatedRole" in (await show(RAW))["writers"]
