"""Strict JSON, canonical bytes, and the documents read with them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import DocumentError, EvidenceFile, EvidenceLost, Spec, canonical, parse
from research_exchange.documents import json as json_module
from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.json import parse_lines
from tests.research_exchange.rules.support import file_of, updates_of, vectors

DOCUMENTS = vectors("json_documents")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


def raw(case: dict[str, str]) -> bytes:
    return bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()


@pytest.mark.parametrize("case", DOCUMENTS["accept"], ids=lambda case: str(case)[:40])
def test_json_is_read_as_every_reader_reads_it(case: dict[str, str]) -> None:
    assert parse(raw(case)) == json.loads(raw(case))


@pytest.mark.parametrize("case", DOCUMENTS["refuse"], ids=lambda case: str(case)[:40])
def test_json_that_readers_disagree_on_is_refused_with_one_sentence(case: dict[str, str]) -> None:
    """R-240"""
    with pytest.raises(DocumentError) as refused:
        parse(raw(case))
    sentence = str(refused.value)
    assert case["says"] in sentence
    assert sentence.endswith(".")
    assert len(sentence) < 300


def test_many_equal_keys_are_refused_quickly() -> None:
    keys = ",".join(f'"k{index}":1' for index in range(200_000))
    with pytest.raises(DocumentError, match='"k199999" stands twice'):
        parse(f'{{{keys},"k199999":2}}'.encode())


def read_line_by_line(content: bytes) -> tuple[list[Any], str | None]:
    """What `parse` makes of each line, up to the first that it refuses."""
    values: list[Any] = []
    for number, line in enumerate(content.rstrip(b" \t\r\n").split(b"\n"), start=1):
        try:
            values.append(parse(line))
        except DocumentError as refused:
            return values, f"Line {number}: {refused}"
    return values, None


def read_lines(content: bytes) -> tuple[list[Any], str | None]:
    values: list[Any] = []
    try:
        values.extend(parse_lines(content))
    except DocumentError as refused:
        return values, str(refused)
    return values, None


ODD_LINES = [
    b"",
    b" ",
    b' {"a": 1} ',
    b'{"a": 1}\r',
    b'{"a":1},{"b":2}',
    b'{"a":[{}',
    b"{}]}",
    b'"\\ud800"',
    b"{},NaN,{}",
]
ODD_LINES += [b"NaN", b'"NaN"', b'{"a":[1', b"1]}", b"1,NaN", b"[-Infinity]", b"[" * 65 + b"]" * 65]
CASE_LINES = [raw(case) for case in (*DOCUMENTS["accept"], *DOCUMENTS["refuse"]) if b"\n" not in raw(case)]


@given(st.lists(st.sampled_from(ODD_LINES + CASE_LINES) | json_values.map(canonical), max_size=6))
@settings(max_examples=150)
def test_lines_are_read_as_strictly_as_one_by_one(lines: list[bytes]) -> None:
    """R-240: in the same values up to the same sentence, whatever is read at once."""
    content = b"\n".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_module, "_BLOCK", 3)
        assert repr(read_lines(content)) == repr(read_line_by_line(content))


def test_lines_that_would_make_up_for_one_another_are_refused() -> None:
    with pytest.raises(DocumentError, match=r"^Line 1: "):
        list(parse_lines(b'{"a":[1\n1]}\n1,2,3'))


def test_a_deep_line_among_plain_ones_is_refused() -> None:
    for plain in (b"1", b"{}", b"[]"):
        deep = b'{"a":' * 65 + b"1" + b"}" * 65
        with pytest.raises(DocumentError, match=r"^Line 501: .* nested deeper than 64"):
            list(parse_lines(b"\n".join([plain] * 500 + [deep])))


@given(json_values)
def test_canonical_bytes_come_back_as_the_same_value(value: Any) -> None:
    assert parse(canonical(value)) == value
    assert canonical(parse(canonical(value))) == canonical(value)


@given(st.dictionaries(st.text(), json_values, min_size=2))
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_has_no_canonical_bytes(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": value})


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        parse(content)
    except DocumentError as refused:
        assert str(refused)


def test_a_spec_keeps_its_bytes_and_the_order_of_its_keys() -> None:
    """R-020, R-025"""
    source = b'{"zeta": 1.0, "title": "T", "alpha": {"b": 1, "a": 2}}'
    spec = Spec.parse(source)
    assert spec.raw == source
    assert list(spec.value) == ["zeta", "title", "alpha"]
    assert spec.is_legacy
    assert spec.arm_names == ()


@pytest.mark.parametrize(
    ("source", "says"), [(b"[]", "object"), (b"{}", "title"), (b'{"title": " "}', "title"), (b"{", "Not JSON")]
)
def test_what_is_no_spec_is_refused(source: bytes, says: str) -> None:
    with pytest.raises(DocumentError, match=says):
        Spec.parse(source)


def test_arms_without_a_name_or_with_a_name_taken_are_left_out() -> None:
    spec = Spec.parse(
        b'{"title":"t","arms":[{"name":"a","role":"treatment"},{"name":"a"},{"name":""},7,{"role":"x"},{"name":"b","role":3}]}'
    )
    assert [(arm.name, arm.role) for arm in spec.arms] == [("a", "treatment"), ("b", None)]


def test_a_malformed_update_keeps_its_bytes_and_says_why() -> None:
    """R-06A"""
    torn, listed, good = updates_of([b"{", [1], {"status": "running"}])
    assert (torn.body, listed.body, good.malformed) == (None, None, None)
    assert torn.malformed == ("Not JSON at line 1, column 2: Expecting property name enclosed in double quotes.")
    assert listed.malformed == "An update is a JSON object; this is a list of 1."
    assert good.body == {"status": "running"}
    assert torn.raw == b"{"


def test_changed_or_missing_bytes_are_lost_evidence() -> None:
    """R-16C"""
    kept = file_of("a.txt", "log", "kept")
    assert kept.read() == b"kept"
    changed = EvidenceFile("a.txt", "log", kept.sha256, kept.size, None, lambda: b"changed")
    with pytest.raises(EvidenceLost, match="without the hash they were accepted with"):
        changed.read()

    def missing() -> bytes:
        raise FileNotFoundError("/secret/path")

    with pytest.raises(EvidenceLost, match=r"b\.txt that cannot be read \(FileNotFoundError\)") as lost:
        EvidenceFile("b.txt", "log", kept.sha256, 4, None, missing).read()
    assert "/secret/path" not in str(lost.value)


def test_a_shelf_reads_each_file_once() -> None:
    reads = []
    file = file_of("a.txt", "log", "x")

    def content() -> bytes:
        reads.append(1)
        return b"x"

    shelf = EvidenceShelf([EvidenceFile("a.txt", "log", file.sha256, 1, None, content)])
    assert [shelf.read("a.txt"), shelf.read("a.txt"), len(reads)] == [b"x", b"x", 1]
    with pytest.raises(EvidenceLost, match="no file of that name"):
        shelf.read("b.txt")
