"""The demo's stack answers GraphQL queries as strictly as a real one of the same age."""

import ast
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import get_args

import pytest
import quilt3
import quilt3.admin
import quilt3.util
import requests
from graphql import (
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    OperationDefinitionNode,
    assert_valid_schema,
    get_named_type,
    is_non_null_type,
    parse,
    validate,
)
from pydantic import BaseModel

from quilt_mcp.demo.company import ADMIN, MEMBER
from quilt_mcp.demo.graphql import Age, Endpoint, load_schema
from quilt_mcp.demo.world import World
from quilt_mcp.services.stack import graphql as ours
from tests.demo.test_demo_stack import post, seen_world
from tests.demo.test_demo_world import try_call
from tests.support.worlds import enter_stopped
from tests.worlds.table import NEWCOMER, WORLDS

__all__ = ["seen_world"]
# private, because quilt3 has no public name for its queries
CLIENT = Path(str(import_module("quilt3._graphql_client.client").__file__))

AGES: tuple[Age, ...] = get_args(Age)
# this project does not send them
NOT_SERVED = {"apiKeysList", "apiKeyGet", "adminApiKeysList", "adminApiKeyGet", "usersGet", "roleGet"}
NOT_SERVED |= {"defaultRoleGet", "policiesList", "policyGet"}
FROM: dict[str, Age] = {
    "rolesList": "2023",
    "usersList": "2024-06",
    "ssoConfigGet": "2024-10",
    "bucketTabulatorTablesList": "2024-10",
    "tabulatorGetOpenQuery": "2024-12",
    "bucketGet": "2026-06",
    "bucketsList": "2026-06",
}
"""For each query of quilt3, the first of our ages with a stack that accepts it."""
FIELDS: dict[str, tuple[Age, ...]] = {
    "{ bucketConfigs { name title description tags } }": AGES,
    "{ bucketConfigs { collaborators { collaborator { username email } permissionLevel } } }": AGES[:-2],
    "{ bucketConfigs { name tabulatorTables { name config } } }": AGES[3:],
    "{ admin { ssoConfig { text timestamp uploader { name } } } }": AGES[3:],
    "{ bucketConfigs { prefixes } }": AGES[-2:],
    "{ bucketConfigs { lastIndexed overviewUrl } }": AGES,
    "{ bucketConfigs { associatedRoles { role { __typename } level } } }": AGES[1:],
    '{ bucket(name: "b") { title } }': AGES[-2:],
    '{ bucketAccessCounts(bucket: "b", window: 1) { byExt(groups: 1) { ext } combined { total } } }': AGES[4:],
    '{ objectAccessCounts(bucket: "b", key: "k", window: 1) { total counts { date value } } }': AGES[4:],
    '{ package(bucket: "b", name: "a/b") { bucket accessCounts { total } } }': AGES,
    '{ package(bucket: "b", name: "a/b") { revision { contentsFlatMap(max: 1) } } }': AGES,
    "{ searchObjects { ... on InvalidInput { errors { message } } } }": AGES[1:],
    "{ searchPackages { ... on OperationError { message } } }": AGES[-2:],
    "{ searchPackages { ... on PackagesSearchResultSet { firstPage { cursor } } } }": AGES[1:-1],
}
"""For each query, the ages with a stack that accepts it."""


def read_operations(file: Path) -> dict[str, str]:
    """Return the GraphQL queries in a Python file, by their names."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    texts = [node.value.strip() for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {text.split("{")[0].split("(")[0].split()[1]: text for text in texts if text.startswith("query ")}


OURS = ours.read_operations()
AT_AGES: dict[tuple[Age, ...], str] = {
    AGES: "known stackBucketNames bucketConfigTitles packages package packageRevisions packageContents packageNewest "
    "packageChanges",
    AGES[1:]: "rolesList searchMorePackagesUntil2025 searchMoreObjects",
    AGES[2:]: "me meWithoutRole usersList",
    AGES[3:]: "tabulatorBuckets bucketTabulatorTablesList ssoConfigGet",
    AGES[4:]: "tabulatorGetOpenQuery",
    AGES[4:5]: "bucketOverviewUntil2026",
    AGES[-2:]: "stackBuckets stackRoleBuckets bucketTitles bucketOverview searchPackages searchMorePackages "
    "searchObjects apiKeysList",
    AGES[:-2]: "stackBucketConfigs bucketOverviewUntil2022",
    AGES[1:5]: "bucketOverviewUntil2024 searchPackagesUntil2025 searchObjectsUntil2025",
}
"""For each of our operations, the ages with a stack that accepts it."""
QUILT3 = {name: text for name, text in read_operations(CLIENT).items() if name not in NOT_SERVED}


def accepts(schema: GraphQLSchema, text: str) -> bool:
    return not validate(schema, parse(text))


def find_models(annotation: object) -> list[type[BaseModel]]:
    """Return the models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in find_models(argument)]


def find_differences(model: type[BaseModel], kind: GraphQLObjectType) -> Iterator[str]:
    """Yield the fields of a model that are nullable where those of the schema are not, or the reverse."""
    for name, field in model.model_fields.items():
        alias = field.alias or name
        if alias == "__typename":
            continue
        found = kind.fields[alias].type
        if (NoneType in get_args(field.annotation)) is is_non_null_type(found):
            yield f"{kind.name}.{alias}"
        named = get_named_type(found)
        kinds = named.types if isinstance(named, GraphQLUnionType) else [named]
        for nested in find_models(field.annotation):
            [inner] = [one for one in kinds if len(kinds) == 1 or nested.__name__.endswith(one.name)]
            assert isinstance(inner, GraphQLObjectType)
            yield from find_differences(nested, inner)


class TestSchema:
    @pytest.mark.parametrize("age", AGES)
    def test_each_age_has_a_valid_schema(self, age: Age) -> None:
        assert_valid_schema(load_schema(age))

    def test_quilt3_has_no_other_queries(self) -> None:
        assert QUILT3.keys() == FROM.keys()

    @pytest.mark.parametrize("age", AGES)
    def test_quilt3s_queries_are_valid_from_their_age_on(self, age: Age) -> None:
        accepted = {name for name, text in QUILT3.items() if accepts(load_schema(age), text)}
        assert accepted == {name for name, first in FROM.items() if AGES.index(first) <= AGES.index(age)}

    @pytest.mark.parametrize("text", FIELDS)
    def test_fields_exist_at_their_ages_only(self, text: str) -> None:
        assert tuple(age for age in AGES if accepts(load_schema(age), text)) == FIELDS[text]

    @pytest.mark.parametrize("ages", AT_AGES, ids=str)
    def test_our_operations_are_valid_at_their_ages_only(self, ages: tuple[Age, ...]) -> None:
        for name in AT_AGES[ages].split():
            assert tuple(age for age in AGES if accepts(load_schema(age), OURS[name])) == ages, name

    def test_no_operation_is_lost(self) -> None:
        text = Path(ours.__file__).with_name("operations.graphql").read_text(encoding="utf-8")
        operations = [one for one in parse(text).definitions if isinstance(one, OperationDefinitionNode)]
        assert [one.name.value for one in operations if one.name] == list(OURS)
        assert sorted(OURS) == sorted(" ".join(AT_AGES.values()).split())

    @pytest.mark.parametrize("name", QUILT3)
    def test_the_same_fields_are_nullable_as_in_quilt3s_models(self, name: str) -> None:
        # private, as above
        model = getattr(import_module("quilt3._graphql_client"), name[0].upper() + name[1:])
        query_type = load_schema("today").query_type
        assert query_type is not None
        assert list(find_differences(model, query_type)) == []


def list_names(rows: list[dict[str, str]]) -> set[str]:
    return {row["name"] for row in rows}


class TestAnswers:
    def test_an_administrator_reads_everything_with_quilt3(self, seen_world: World) -> None:
        assert len(quilt3.admin.users.list()) == len(seen_world.company.users)
        roles = {role.name: role for role in quilt3.admin.roles.list()}
        assert {one.title for one in roles["ClinicalOperations"].policies} == {"Clinical data", "Sequencing readers"}
        assert quilt3.admin.buckets.get("acme-raw-sequencing").title
        assert quilt3.admin.sso_config.get().uploader.name == ADMIN

    @pytest.mark.parametrize(
        ("query", "path", "data"),
        [
            ("{ admin { tabulatorOpenQuery } }", ["admin"], None),
            ("{ roles { __typename } }", ["roles"], None),
            ("{ bucketConfigs { name prefixes } }", ["bucketConfigs", 0, "prefixes"], None),
        ],
    )
    def test_a_refusal_has_the_path_of_the_marked_field(
        self, seen_world: World, query: str, path: list[object], data: object
    ) -> None:
        answer = post(seen_world, query, MEMBER)
        assert answer.status_code == HTTPStatus.OK
        assert answer.json()["errors"][0]["path"] == path
        assert answer.json()["data"] == data

    def test_a_nullable_marked_field_is_null_and_the_rest_is_data(self, seen_world: World) -> None:
        answer = post(seen_world, "{ bucketConfigs { name indexContentBytes } }", MEMBER).json()
        assert len(answer["errors"]) == len(answer["data"]["bucketConfigs"]) == 2
        assert answer["data"]["bucketConfigs"][0] == {"name": "acme-raw-sequencing", "indexContentBytes": None}

    def test_buckets_are_those_of_the_role_and_bucket_configs_are_all_for_administrators(
        self, seen_world: World
    ) -> None:
        seen = {}
        for user in (ADMIN, MEMBER, "partner_helix", NEWCOMER):
            data = post(seen_world, "{ buckets { name } bucketConfigs { name } }", user).json()["data"]
            seen[user] = list_names(data["buckets"]), list_names(data["bucketConfigs"])
        stack = {bucket.name for bucket in seen_world.company.buckets if bucket.in_stack}
        own = {"acme-raw-sequencing", "acme-analysis-results"}
        assert seen == {
            ADMIN: (own | {"acme-imaging-eu", "acme-partner-exchange"}, stack),
            MEMBER: (own, own),
            "partner_helix": (stack, stack),  # a role that Quilt does not manage
            NEWCOMER: (set(), set()),
        }
        hidden = post(seen_world, '{ bucketConfig(name: "acme-clinical-trials") { name } }', MEMBER).json()
        assert hidden == {"data": {"bucketConfig": None}}

    def test_collaborators_have_the_level_of_their_role(self, seen_world: World) -> None:
        query = "{ buckets { name collaborators { collaborator { username } permissionLevel } } }"
        data = post(seen_world, query, MEMBER).json()["data"]
        [rows] = [one["collaborators"] for one in data["buckets"] if one["name"] == "acme-raw-sequencing"]
        levels = {row["collaborator"]["username"]: row["permissionLevel"] for row in rows}
        assert (levels[ADMIN], levels[MEMBER]) == ("READ_WRITE", "READ")
        assert not {"partner_helix", "sofia_petrova", NEWCOMER} & levels.keys()

    def test_a_user_without_a_role_is_null_with_an_error(self, seen_world: World) -> None:
        answer = post(seen_world, "{ me { name role { name } } }", NEWCOMER).json()
        assert answer["data"] == {"me": None}
        assert answer["errors"][0]["path"] == ["me", "role"]

    def test_the_contents_of_a_revision_are_its_manifest_and_null_above_the_maximum(self, seen_world: World) -> None:
        query = """query ($max: Int!) { package(bucket: "acme-analysis-results", name: "rnaseq/liver") {
            revision { hash totalEntries contentsFlatMap(max: $max) ofDefault: contentsFlatMap } } }"""
        found = post(seen_world, query, MEMBER, max=14).json()["data"]["package"]["revision"]
        package = quilt3.Package.browse("rnaseq/liver", "s3://acme-analysis-results", found["hash"])
        assert (
            found["contentsFlatMap"]
            == found["ofDefault"]
            == {
                path: {
                    "physicalKey": str(entry.physical_key),
                    "size": entry.size,
                    "hash": dict(entry.hash),
                    "meta": entry._meta,  # noqa: SLF001 - quilt3 has no public name for the whole of it
                }
                for path, entry in package.walk()
            }
        )
        assert len(found["ofDefault"]) == found["totalEntries"] == 14
        found = post(seen_world, query, MEMBER, max=13).json()["data"]["package"]["revision"]
        assert (found["contentsFlatMap"], found["ofDefault"] is None) == (None, False)

    def test_accesses_are_counted_until_yesterday_for_those_who_see_the_bucket(self, seen_world: World) -> None:
        query = """query ($bucket: String!) {
            bucketAccessCounts(bucket: $bucket, window: 7) {
              byExt(groups: 2) { ext counts { total } } combined { total counts { date value } } }
            objectAccessCounts(bucket: $bucket, key: "README.md", window: 7) { total }
            package(bucket: $bucket, name: "rnaseq/liver") { bucket accessCounts(window: 7) { total } } }"""
        data = post(seen_world, query, MEMBER, bucket="acme-analysis-results").json()["data"]
        counts = data["bucketAccessCounts"]
        assert [(one["ext"], one["counts"]["total"]) for one in counts["byExt"]] == [
            ("html", 155),
            ("parquet", 90),
            ("", 90),
        ]
        assert (counts["combined"]["total"], len(counts["combined"]["counts"])) == (335, 7)
        assert counts["combined"]["counts"][-1] == {"date": "2026-01-14T00:00:00+00:00", "value": 67}
        assert data["objectAccessCounts"] == {"total": 45}
        assert data["package"] == {"bucket": "acme-analysis-results", "accessCounts": {"total": 60}}
        hidden = post(seen_world, query, MEMBER, bucket="acme-clinical-trials").json()["data"]
        assert set(hidden.values()) == {None}

    def test_a_bucket_has_its_roles_and_policies_for_administrators(self, seen_world: World) -> None:
        query = """{ bucketConfig(name: "acme-raw-sequencing") { lastIndexed
            associatedRoles {
              role { ... on ManagedRole { name permissions { role { __typename } } } } level bucket { name } }
            associatedPolicies { policy { title permissions { policy { title } } } level } } }"""
        found = post(seen_world, query).json()["data"]["bucketConfig"]
        assert found["lastIndexed"] == "2025-05-28T04:00:00Z"
        assert {one["role"]["name"]: one["level"] for one in found["associatedRoles"]} == {
            "DataPlatform": "READ_WRITE",
            "Researcher": "READ",
            "ClinicalOperations": "READ",
        }
        assert {one["policy"]["title"]: one["level"] for one in found["associatedPolicies"]} == {
            "Sequencing": "READ_WRITE",
            "Sequencing readers": "READ",
        }
        assert {one["bucket"]["name"] for one in found["associatedRoles"]} == {"acme-raw-sequencing"}
        refused = post(seen_world, query, MEMBER).json()
        assert (refused["data"], len(refused["errors"])) == ({"bucketConfig": None}, 1)
        bucket = '{ bucket(name: "acme-clinical-trials") { title } }'
        assert post(seen_world, bucket).json()["data"] == {"bucket": None}  # no role of the administrator includes it

    def test_wrong_variables_are_refused(self, seen_world: World) -> None:
        query = "query ($name: String!) { bucketConfig(name: $name) { name } }"
        for given in ({}, {"name": None}, {"name": 3}):
            answer = post(seen_world, query, **given)
            assert "$name" in answer.json()["errors"][0]["message"]


class TestAges:
    @pytest.mark.parametrize(("world", "status"), [("admin", 200), ("graphql_400", 400)])
    def test_only_invalid_queries_have_another_status(self, world: str, status: int) -> None:
        with enter_stopped(world) as entered:
            for invalid in ("{ me { nickname } }", "{ me", ""):
                answer = post(entered, invalid)
                assert answer.status_code == status
                assert answer.json().keys() == {"errors"}
            assert post(entered, "{ admin { tabulatorOpenQuery } }", MEMBER).status_code == HTTPStatus.OK

    @pytest.mark.parametrize("age", AGES[:-2])
    def test_an_old_stack_does_not_know_later_fields(self, age: Age) -> None:
        for suffix, status in (("", HTTPStatus.OK), ("_400", HTTPStatus.BAD_REQUEST)):
            name = f"stack_{age.replace('-', '_')}{suffix}"
            assert WORLDS[name].endpoint == Endpoint(age, status)
        with enter_stopped(f"stack_{age.replace('-', '_')}") as world:
            answer = post(world, "{ buckets { name } }").json()
            assert "buckets" in answer["errors"][0]["message"]
            assert "data" not in answer
            config = requests.get(f"{world.url}/config.json", timeout=60).json()
            assert config.get("stackVersion") == ("1.57.0" if age == "2024-12" else None)

    @pytest.mark.parametrize(("world", "is_typed"), [("stack_2023", False), ("stack_2024_06", True)])
    def test_the_hash_of_a_file_has_its_type_since_2024(self, world: str, is_typed: bool) -> None:  # noqa: FBT001 - a column
        """The catalog's types changed on 2024-02-08."""
        with enter_stopped(world) as entered:
            query = (
                '{ package(bucket: "acme-analysis-results", name: "rnaseq/atlas") { revision { contentsFlatMap } } }'
            )
            [file] = post(entered, query).json()["data"]["package"]["revision"]["contentsFlatMap"].values()
        value = file["hash"]["value"] if is_typed else file["hash"]
        assert len(value) == 64

    @pytest.mark.parametrize("age", AGES)
    def test_the_account_has_what_a_stack_of_this_age_keeps_in_it(self, age: Age) -> None:
        """Quilt's documents say "Quilt Platform version 1.55.0 or higher" of tabulator, and 1.70.0 of these tables."""
        with enter_stopped("admin" if age == AGES[-1] else f"stack_{age.replace('-', '_')}"):
            session = quilt3.get_boto3_session()
            databases = {one["Name"] for one in session.client("glue").get_databases()["DatabaseList"]}
            athena = session.client("athena")
            outcome = try_call(lambda: athena.get_data_catalog(Name="quilt-acme-tabulator"))
        assert ("quilt-acme-icebergdatabase" in databases) is (age == AGES[-1])
        assert (outcome == "allowed") is (age in AGES[3:])
