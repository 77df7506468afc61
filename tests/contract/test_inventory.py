"""What mcp-parity does not check in the files of golden/: characters, and the goldens of bad input."""

from tests.contract.test_bad_input import BAD_ARGUMENTS, BAD_URIS
from tests.contract.test_files import FILES
from tests.support.golden import GOLDEN


def test_every_golden_of_bad_input_has_a_case() -> None:
    found = {path.stem for path in (GOLDEN / "errors" / "bad-input").iterdir()}
    assert found == {*BAD_URIS, *(f"argument-{name}" for name in BAD_ARGUMENTS)}


def test_every_golden_of_a_file_has_a_case() -> None:
    assert {path.stem for path in (GOLDEN / "files").iterdir()} == set(FILES)


def test_goldens_contain_no_invisible_characters() -> None:
    hidden = {
        f"{path.name}: {one!r}"
        for path in GOLDEN.rglob("*.json")
        for one in path.read_text(encoding="utf-8")
        if not one.isprintable() and one != "\n"
    }
    assert hidden == set()
