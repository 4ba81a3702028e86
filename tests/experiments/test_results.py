"""The results on record: each bundle verifies here, and says what the page says of it."""

import re
import zipfile
from pathlib import Path

import pytest

from research_exchange.bundles import VerificationStatus, open_members, read_record, verify

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "README.md").read_text()
BUNDLES = sorted(RESULTS.glob("*/bundle.zip"))


def test_every_result_is_on_the_page_with_its_report() -> None:
    assert len(BUNDLES) == 3
    for bundle in BUNDLES:
        name = bundle.parent.name
        assert f"({name}/report.md)" in PAGE
        assert {path.name for path in bundle.parent.iterdir()} >= {"report.html", "report.md"}


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.parent.name)
def test_a_bundle_is_recomputed_byte_for_byte_to_the_verdict_on_the_page(bundle: Path) -> None:
    found = verify(bundle)
    assert (found.status, found.problems) == (VerificationStatus.VERIFIED, ())
    with open_members(bundle) as members:
        record = read_record(members)
    [row] = re.findall(rf"^\| \[`{bundle.parent.name}`\].*$", PAGE, re.MULTILINE)
    assert f"`{record.run.id}`" in row
    assert f"`{found.sha256}`"[:17] in row.replace("…", "")


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.parent.name)
def test_what_ran_is_the_laptop_spec_that_lies_there(bundle: Path) -> None:
    experiment = bundle.parent.name.removesuffix("_again")
    spec = RESULTS.parents[1] / "experiments" / experiment / "laptop.spec.json"
    with zipfile.ZipFile(bundle) as archive:
        assert archive.read("spec.json") == spec.read_bytes()
