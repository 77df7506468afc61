"""Answers about things that are as large as AWS and the stack allow."""

import json
import re
from collections.abc import Iterator

import pytest

from quilt_mcp.core.cuts import LARGEST_ANSWER, PAGE_CHARACTERS
from quilt_mcp.core.registry import parameters_of
from quilt_mcp.demo.world import Plan, World
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.contract.cases import OF_QUILT, RESOURCES
from tests.contract.large_company import BUCKET, DATABASE, LARGE_COMPANY, PACKAGE, TABLE
from tests.support.python_caller import read
from tests.support.worlds import demo_world

REST = 4_000
"""What an answer has beside its rows."""
LARGE = {
    "bucket": BUCKET,
    "database": DATABASE,
    "table": TABLE,
    "namespace": PACKAGE.split("/")[0],
    "name": PACKAGE.split("/")[1],
    "execution_id": "00000000-0000-4000-8000-000000000000",
    "query": "p",
}
"""For each variable, what is large in the large company."""
FILES = {"/object": "key=README.md", "/contents": f"path={'p' * 200}/"}


@pytest.fixture(scope="module")
def large_world() -> Iterator[World]:
    with demo_world("large", plans={"large": Plan(company=LARGE_COMPANY)}) as world:
        yield world


def name_large(uri: str) -> str:
    """Return the URI of what is large, for a template."""
    path = re.sub(r"{(\w+)}", lambda found: LARGE[found[1]], uri.partition("{?")[0])
    file = next((parameter for end, parameter in FILES.items() if path.endswith(end)), None)
    return f"{path}?{file}" if file else path


@pytest.mark.usefixtures("large_world")
@pytest.mark.parametrize(
    "template",
    [
        row.uri
        for row in RESOURCES
        if row.category in OF_QUILT | {"metadata"}
        and LARGE.keys() >= {*re.findall(r"{(\w+)}", row.uri.partition("{?")[0])}
    ],
)
async def test_no_answer_about_large_things_is_larger_than_clients_show(template: str) -> None:
    uri = name_large(template)
    pages = [uri]
    if "limit" in parameters_of(RESOURCE_REGISTRY[template]):
        pages.append(f"{uri}{'&' if '?' in uri else '?'}limit=100")
    for page in pages:
        answer = await read(page)
        assert len(json.dumps(answer, ensure_ascii=False)) <= PAGE_CHARACTERS + REST < LARGEST_ANSWER, page
