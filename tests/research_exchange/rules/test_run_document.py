"""Run documents: what is read is what was written, and what is none is refused with one sentence."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents.json import DocumentError
from research_exchange.documents.run_document import RunDocument
from research_exchange.judgment import judge
from tests.research_exchange.rules.support import judge_bundle, vectors

CASES = vectors("run_documents")["cases"]
_KEYS = st.sampled_from(["spec", "updates", "evidence", "ended", "title", "name", "kind", "content", "update", "after"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=5) | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_document(case: Any) -> None:
    raw = case["document"].encode()
    if "refused" in case:
        with pytest.raises(DocumentError) as refused:
            RunDocument.parse(raw)
        assert case["refused"] in str(refused.value)
    else:
        document = RunDocument.parse(raw)
        assert len(document.updates) == case["updates"]
        assert [[file.name, file.update, file.after, file.sha256] for file in document.evidence] == case["files"]


def test_the_same_run_gives_the_same_judgment_however_it_is_handed_over() -> None:
    base = vectors("runs")["base"]
    document = RunDocument.parse(json.dumps(base).encode())
    judged = judge(document.spec, document.updates, document.evidence)
    assert judged.to_json() | {"spec_sha256": ""} == judge_bundle(base).to_json() | {"spec_sha256": ""}


def test_bytes_that_stand_as_a_string_keep_their_hash() -> None:
    spec = '{ "title" : "é" }'
    document = RunDocument.parse(json.dumps({"spec": spec, "updates": ["{"]}).encode())
    assert document.spec.raw == spec.encode()
    assert document.updates[0].malformed is not None


@settings(max_examples=50)
@given(JSON)
def test_whatever_is_handed_in_is_read_or_refused(value: Any) -> None:
    for document in (value, {"spec": {"title": "x"}, "updates": [value], "evidence": value}):
        try:
            read = RunDocument.parse(json.dumps(document).encode())
        except DocumentError as refused:
            assert str(refused).endswith(".")
        else:
            judge(read.spec, read.updates, read.evidence, ended=read.ended)
