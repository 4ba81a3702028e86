from hypothesis import given
from hypothesis import strategies as st

from research_exchange.web.wording import KEPT_WORDS, MOST_WORDS, Passage, changed_passages

words = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=20).map(" ".join)


def test_only_what_changed_is_shown_with_the_words_around_it() -> None:
    before = " ".join(str(n) for n in range(100))
    found = changed_passages(before, before.replace("50", "fifty"))
    assert found is not None
    kept, removed, added, rest = found
    assert (removed, added) == (Passage("removed", "50 "), Passage("added", "fifty "))
    assert kept.text == "… " + " ".join(str(n) for n in range(50 - KEPT_WORDS, 50)) + " "
    assert rest.text.startswith("51 ") and rest.text.endswith("… ")


@given(words, words)
def test_nothing_that_changed_is_left_out(before: str, after: str) -> None:
    found = changed_passages(before, after)
    assert found is not None
    shown = {kind: " ".join(p.text for p in found if p.kind in ("kept", kind)).split() for kind in ("removed", "added")}
    if "…" not in " ".join(shown["removed"]):
        assert shown == {"removed": before.split(), "added": after.split()}


def test_texts_too_long_to_compare_are_not_compared() -> None:
    assert changed_passages("word " * MOST_WORDS, "word") is None
