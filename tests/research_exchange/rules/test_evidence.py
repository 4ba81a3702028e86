"""Which files a run may retain (contract §14)."""

import time
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.credentials import find_credential
from research_exchange.documents import EvidenceFile
from research_exchange.evidence import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_RUN_BYTES,
    Admission,
    admit,
    checkpoint_problems,
    inline_files,
    source_url_problems,
)
from tests.research_exchange.rules.support import file_of, vectors

EVIDENCE = vectors("evidence")


def offer(
    name: str = "run.py",
    content: bytes = b"print(1)\n",
    kind: str = "script",
    declared: str | None = None,
    existing: tuple[EvidenceFile, ...] = (),
) -> Admission:
    return admit(name, kind, content, declared_sha256=declared, existing=existing)


def sized(name: str, size: int) -> EvidenceFile:
    return EvidenceFile(name, "log", "0" * 64, size, None, lambda: b"")


def rules(admission: Admission) -> list[str]:
    return [problem.rule for problem in admission.problems]


@pytest.mark.parametrize("case", EVIDENCE["names"], ids=str)
def test_a_plain_name_is_admitted(case: dict[str, str]) -> None:
    admission = offer(case["name"])
    assert (admission.status, admission.problems) == ("accepted", ())
    assert admission.sha256 == sha256(b"print(1)\n").hexdigest()


@pytest.mark.parametrize("case", EVIDENCE["refused_names"], ids=str)
def test_a_name_that_is_none_is_refused(case: dict[str, str]) -> None:
    """R-164, R-169"""
    admission = offer(case["name"])
    assert admission.status == "rejected"
    assert case["rule"] in rules(admission)


@pytest.mark.parametrize("case", EVIDENCE["credentials"], ids=str)
def test_a_credential_is_refused_and_never_repeated(case: dict[str, str]) -> None:
    """R-169, R-243"""
    value = case["text"]
    admission = offer(content=b"import os\n\n" + value.encode() + b"\n")
    assert admission.status == "rejected"
    assert rules(admission) == ["R-169"]
    sentence = str(admission.problems[0])
    assert "in line 3" in sentence
    assert not any(part in sentence for part in value.replace("=", " ").replace('"', " ").split() if len(part) > 12)


@pytest.mark.parametrize("case", EVIDENCE["no_credentials"], ids=str)
def test_reading_the_environment_is_no_credential(case: dict[str, str]) -> None:
    """R-169, R-243"""
    assert offer(content=case["text"].encode()).status == "accepted"


def test_the_environment_variable_next_to_a_real_value_does_not_hide_it() -> None:
    content = b'key = os.environ["TINKER_API_KEY"]\nkey = "tml-AbCdEfGhIjKl1234"\n'
    assert offer(content=content).status == "rejected"


@pytest.mark.parametrize(
    "text",
    [
        b"lorem ipsum dolor sit amet, ",
        b"sk-,",
        b"secret=",
        b"://a",
        b"eyJ",
        b"authorization: bearer ",
        b"password='",
        b"-----begin",
    ],
)
def test_ten_mebibytes_are_scanned_in_seconds(text: bytes) -> None:
    """Ordinary text takes a fraction of a second; text made to slow the scan down stays bounded."""
    content = (text * (MAX_FILE_BYTES // len(text) + 1))[:MAX_FILE_BYTES]
    started = time.process_time()
    assert find_credential(content) is None
    assert time.process_time() - started < 15


@given(
    st.binary(max_size=60),
    st.binary(max_size=60),
    st.sampled_from(EVIDENCE["credentials"]),
    st.sampled_from([b"", b"one of many lines\n" * 500]),
)
def test_whatever_stands_around_a_credential_it_is_found(
    before: bytes, after: bytes, case: dict[str, str], lines: bytes
) -> None:
    """What is asked first, which words a file has, keeps no pattern from being tried, in a short file or a long one."""
    assert find_credential(b" ".join((lines, before, case["text"].encode(), after, lines))) is not None


def test_same_name_same_bytes_is_nothing_to_do() -> None:
    """R-164"""
    held = file_of("run.py", "script", b"print(1)\n")
    assert offer(existing=(held,)).status == "unchanged"
    full = (held, *(sized(f"f{index}", 1) for index in range(MAX_FILES - 1)))
    assert offer(existing=full).status == "unchanged", "a file that is held costs nothing"


def test_same_name_other_bytes_is_refused() -> None:
    """R-164"""
    admission = offer(content=b"print(2)\n", existing=(file_of("run.py", "script", b"print(1)\n"),))
    assert (admission.status, rules(admission)) == ("rejected", ["R-164"])


def test_names_that_differ_by_case_are_kept_and_noted() -> None:
    admission = offer("RUN.py", existing=(file_of("run.py", "script", b"print(1)\n"),))
    assert (admission.status, rules(admission)) == ("accepted", ["R-164"])


@pytest.mark.parametrize(("size", "status"), [(MAX_FILE_BYTES, "accepted"), (MAX_FILE_BYTES + 1, "rejected")])
def test_a_file_holds_ten_mebibytes(size: int, status: str) -> None:
    """R-163"""
    assert MAX_FILE_BYTES == 10_485_760
    assert offer(content=b"a" * size).status == status


def test_a_run_holds_sixty_four_files() -> None:
    """R-163"""
    files = tuple(sized(f"f{index}", 1) for index in range(64))
    assert offer(existing=files[:63]).status == "accepted"
    assert rules(offer(existing=files)) == ["R-163"]


@pytest.mark.parametrize(("size", "status"), [(MAX_RUN_BYTES - 9, "accepted"), (MAX_RUN_BYTES - 8, "rejected")])
def test_a_run_holds_forty_mebibytes(size: int, status: str) -> None:
    """R-163"""
    assert MAX_RUN_BYTES == 41_943_040
    assert offer(existing=(sized("big", size),)).status == status


def test_a_declared_hash_is_that_of_the_bytes() -> None:
    """R-165"""
    digest = sha256(b"print(1)\n").hexdigest()
    assert offer(declared=digest).status == "accepted"
    for wrong in (digest.upper(), "0" * 64, digest[:63], ""):
        assert rules(offer(declared=wrong)) == ["R-165"]


def test_an_unknown_kind_is_stored_as_other_and_noted() -> None:
    """R-161"""
    admission = offer(kind="notebook")
    assert (admission.status, admission.kind, rules(admission)) == ("accepted", "other", ["R-161"])


@pytest.mark.parametrize("case", EVIDENCE["source_urls"], ids=lambda case: str(case["url"]))
def test_source_url(case: dict[str, Any]) -> None:
    """R-166"""
    problems = source_url_problems(case["url"], EVIDENCE["attachments"]["hosts"])
    assert (problems == ()) == case["accept"]
    assert {problem.rule for problem in problems} <= {"R-166"}


@pytest.mark.parametrize("case", EVIDENCE["checkpoints"], ids=str)
def test_checkpoint(case: dict[str, Any]) -> None:
    """R-16A"""
    assert (checkpoint_problems(case["checkpoint"], ("a", "b"), "evidence.checkpoints[0]") == ()) == case["accept"]


def test_files_of_an_update_are_taken_one_by_one() -> None:
    """R-160, R-165"""
    good = {"name": "é.txt", "kind": "log", "content": "é", "sha256": "x"}
    files = inline_files({"evidence": {"version": 1, "files": [good, {"name": "b", "kind": "log"}, 7]}})
    assert [(file.name, file.content, file.declared_sha256) for file in files] == [
        ("é.txt", "é".encode(), "x"),
        ("b", None, None),
        ("", None, None),
    ]
    assert files[0].problems == ()
    assert [problem.path for problem in files[1].problems] == ["evidence.files[1]"]


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({"name": "a", "kind": "log", "content": "x", "source_url": "https://h/attachments/x"}, "R-165"),
        ({"name": "a", "kind": "log", "source_url": "https://h/attachments/x"}, "R-166"),
        ({"name": "a", "kind": "log", "content": 3}, "R-165"),
        ({"name": "a", "kind": "log", "content": "x", "sha256": 3}, "R-165"),
        ({"name": 3, "kind": "log", "content": "x"}, "R-160"),
        ({"name": "a", "kind": None, "content": "x"}, "R-161"),
    ],
)
def test_a_file_entry_that_cannot_be_taken_says_why(entry: dict[str, Any], rule: str) -> None:
    (file,) = inline_files({"evidence": {"files": [entry]}})
    assert file.content is None
    assert [problem.rule for problem in file.problems] == [rule]


def test_a_file_list_that_is_none_says_so() -> None:
    (file,) = inline_files({"evidence": {"files": {"name": "a"}}})
    assert (file.content, file.problems[0].path) == (None, "evidence.files")
    assert inline_files({}) == inline_files({"evidence": None}) == ()
