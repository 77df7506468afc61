"""Files of every form have goldens: both surfaces give the same answer, with the same bytes of pictures."""

from urllib.parse import quote

import pytest
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.demo.world import World
from tests.contract.cases import HOME
from tests.contract.scrub import scrub
from tests.contract.surfaces import AnyClient, ask
from tests.support.worlds import in_world

LIVER = "quilt://buckets/acme-analysis-results/packages/rnaseq/liver/contents"
FILES = {
    "text": "README.md",
    "gzip": "logs/align.log.gz",
    "csv": "samples.csv",
    "json-lines": "metrics.jsonl",
    "parquet": "counts/liver.parquet",
    "notebook": "notebooks/explore.ipynb",
    "pdf": "report.pdf",
    "picture": "figures/pca.png",
    "archived": "raw/L01.fastq.gz",
}


@in_world(HOME)
@pytest.mark.parametrize("form", FILES)
async def test_a_file_of_each_form_has_the_answer_of_its_golden(
    form: str, world: World, client: AnyClient, mcp_golden: SnapshotAssertion
) -> None:
    answer = await ask(client, f"{LIVER}?path={quote(FILES[form], safe='')}")
    assert scrub(answer.to_golden(), world) == mcp_golden(name=f"files/{form}")
