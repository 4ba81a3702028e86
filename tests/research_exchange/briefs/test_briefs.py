"""What a brief contains, and what decides it (contract §4)."""

import json
import re
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.briefs import PROFILE_NAMES, SECTIONS, render_brief, service_profile
from research_exchange.documents.evidence import KINDS
from research_exchange.documents.idea import IdeaContext
from research_exchange.documents.json import DocumentError
from research_exchange.documents.launch import LaunchMode
from research_exchange.judgment import judge
from research_exchange.lint import Level, lint
from tests.research_exchange.briefs.cases import (
    CASES,
    CONTEXT,
    GOLDEN,
    NOT_MEASURED,
    changed,
    declared,
    legacy,
    original,
)
from tests.research_exchange.briefs.reading import blocks, prose, sections
from tests.research_exchange.rules.support import updates_of

PROBE, TUNING, RESTORATION, OFFLINE = (
    "Probe every arm first",
    "Tune all arms alike",
    "Restoration preflight",
    "goes on, offline",
)
BATCHES = "Paired arms and batch order"
NO_CONTEXT = "**Context:** unknown"


@pytest.mark.parametrize("name", CASES)
def test_a_brief_is_the_golden_file_of_its_case(name: str) -> None:
    text = render_brief(CASES[name]())
    assert text == (GOLDEN / name).read_text(encoding="utf-8"), (
        "If the change is meant, write the files again: python -m tests.research_exchange.briefs.cases"
    )


@pytest.mark.parametrize("name", CASES)
def test_the_same_input_gives_the_same_bytes(name: str) -> None:
    """R-051"""
    assert render_brief(CASES[name]()).encode() == render_brief(CASES[name]()).encode()


def test_the_parts_stand_in_the_order_of_the_contract() -> None:
    """R-050"""
    text = render_brief(legacy())
    order = [
        f"# {original('score_centering').title}",
        "Research Exchange",
        "**Goal.**",
        "**Selected version:** `exp_0123456789`",
        "It alone defines the hypothesis",
        NO_CONTEXT,
        "**Launch mode:** redo.",
        *(f"## {section.heading}" for section in SECTIONS),
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    with_context = render_brief(declared())
    after = [with_context.index(part) for part in (CONTEXT.summary, "**Goal.**", "**Source:**", "**Triage:**", "## ")]
    assert after == sorted(after)


def test_an_unknown_context_is_said_and_a_known_one_is_printed() -> None:
    """D1, D2 and D4"""
    assert NO_CONTEXT in render_brief(legacy())
    assert "**Source:**" not in render_brief(legacy())
    text = render_brief(declared())
    assert NO_CONTEXT not in text
    assert f"# {CONTEXT.title}\n" in text
    assert f"> {CONTEXT.summary}\n" in text
    assert f"**Source:** {CONTEXT.source}\n" in text
    assert f"> {CONTEXT.triage}\n" in text
    bare = render_brief(declared(context=IdeaContext("A title")))
    assert not {"**Source:**", "**Triage:**", NO_CONTEXT, "> "} & set(
        re.findall(r"\*\*\w+:\*\*|^> ", sections(bare)[""])
    )


def test_the_launch_mode_says_what_the_run_is_for() -> None:
    """D3 and R-005"""
    redo, ordinary = sections(render_brief(legacy()))[""], sections(render_brief(declared()))[""]
    assert "**Launch mode:** redo. **Purpose:** repeat the selected version" in redo
    assert "that version's hypothesis" in redo
    assert "**Launch mode:** ordinary. **Purpose:** carry out the selected version" in ordinary
    assert "repeat" not in ordinary


def test_the_spec_is_printed_as_saved_with_the_computed_check_at_its_end() -> None:
    """D5, R-020 and R-022"""
    spec = original("score_centering")
    (printed,) = blocks(sections(render_brief(legacy()))["Experiment spec"], "json")
    assert list(json.loads(printed).items()) == list(spec.value.items())
    assert printed.isascii()
    assert '"lr": 0.0001' in printed
    (printed,) = blocks(sections(render_brief(declared()))["Experiment spec"], "json")
    document = json.loads(printed)
    assert list(document)[-1] == "feasibility_check"
    assert document["feasibility_check"] == NOT_MEASURED


def test_a_feasibility_check_that_a_spec_brings_along_is_not_taken_for_a_computed_one() -> None:
    """R-022"""
    forged = {"status": "fits", "problems": []}
    (printed,) = blocks(
        render_brief(legacy(spec=changed(original("score_centering"), feasibility_check=forged))), "json"
    )[:1]
    assert "feasibility_check" not in json.loads(printed)
    (printed,) = blocks(
        render_brief(declared(spec=changed(original("gs1_vs_grpo"), feasibility_check=forged))), "json"
    )[:1]
    assert json.loads(printed)["feasibility_check"] == NOT_MEASURED
    with pytest.raises(ValueError, match="feasibility_check"):
        declared(feasibility_check=None)
    undecided = changed(original("gs1_vs_grpo"), feasibility_required="yes")
    assert "feasibility_check" not in json.loads(blocks(render_brief(declared(spec=undecided)), "json")[0])


def features(**values: Any) -> dict[str, Any]:
    return {**original("gs1_vs_grpo").value["experiment_features"], **values}  # type: ignore[dict-item]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in features().items() if key != name}


NOTHING_PAIRED = features(paired_training_arms=False, checkpoint_restore=False, paired_comparison=False)


@pytest.mark.parametrize(
    ("fields", "present", "absent"),
    [
        ({}, [RESTORATION], [PROBE, TUNING, OFFLINE, BATCHES]),
        ({"experiment_features": None}, [PROBE, TUNING, RESTORATION, BATCHES], [OFFLINE]),
        ({"experiment_features": "all false"}, [PROBE, TUNING, RESTORATION, BATCHES], []),
        ({"experiment_features": features(warmup_adaptation=True)}, [BATCHES], [PROBE]),
        ({"experiment_features": features(warmup_adaptation="false")}, [BATCHES], []),
        ({"experiment_features": without("warmup_adaptation")}, [BATCHES], []),
        ({"experiment_features": features(custom_optimizer=None)}, [PROBE], [TUNING]),
        ({"experiment_features": features(custom_optimizer=True)}, [PROBE], [TUNING]),
        ({"experiment_features": features(custom_optimizer=0)}, [PROBE], []),
        ({"experiment_features": features(adaptive_selection=None)}, [TUNING], [PROBE]),
        ({"arms": [{"name": "grpo", "lr_grid": [1e-5, 4e-5, 1e-4]}]}, [TUNING], [PROBE]),
        ({"experiment_features": NOTHING_PAIRED}, [RESTORATION], []),
        ({"experiment_features": NOTHING_PAIRED, "restoration_preflight": None}, [], [RESTORATION]),
        ({"experiment_features": NOTHING_PAIRED, "restoration_preflight": {"applicable": False}}, [], [RESTORATION]),
        ({"experiment_features": NOTHING_PAIRED, "restoration_preflight": {}}, [RESTORATION], []),
        ({"experiment_features": NOTHING_PAIRED, "restoration_preflight": "no"}, [RESTORATION], []),
        (
            {"experiment_features": {**NOTHING_PAIRED, "paired_comparison": None}, "restoration_preflight": None},
            [RESTORATION],
            [],
        ),
        ({"restoration_preflight": {"applicable": False}}, [RESTORATION], []),
        ({"activation_gate": None}, [OFFLINE], []),
        ({"activation_gate": {"applicable": "yes"}}, [OFFLINE], []),
        ({"activation_gate": {"applicable": False}}, [], [OFFLINE]),
    ],
)
def test_only_what_is_explicitly_false_is_left_out(
    fields: dict[str, Any], present: list[str], absent: list[str]
) -> None:
    """R-054, with D6, D7, D8, D10 and D12"""
    text = render_brief(declared(spec=changed(original("gs1_vs_grpo"), **fields)))
    assert [part for part in (*present, *absent) if part in text] == present


def test_a_legacy_spec_gets_every_cautious_text() -> None:
    """D6, D7, D8, D10 and D12"""
    text = render_brief(legacy())
    assert [part for part in (PROBE, TUNING, RESTORATION, OFFLINE, BATCHES) if part not in text] == []


def test_a_legacy_version_stays_without_context_whatever_its_idea_says_today() -> None:
    """R-003: what was not saved with the version is not looked up."""
    assert NO_CONTEXT in render_brief(legacy(context=None))


def test_a_calibration_is_reported_alike_and_apart_from_metrics() -> None:
    """D11"""
    examples = [
        [block for block in blocks(sections(render_brief(brief))["Activation gate"], "json") if "values" in block]
        for brief in (legacy(), declared())
    ]
    assert examples[0] == examples[1]
    assert [block.split('"')[1] for block in examples[0]] == ["activation_calibration"]
    assert "before any full training" in prose(sections(render_brief(declared()))["Activation gate"])


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_what_every_brief_has(profile: str) -> None:
    """D9, D13 and D14: some sections stand whatever the spec says."""
    everything_false = changed(
        original("gs1_vs_grpo"), experiment_features=dict.fromkeys(features(), False), restoration_preflight=None
    )
    found = list(sections(render_brief(declared(profile, spec=everything_false))))[1:]
    assert found == [section.heading for section in SECTIONS if section.heading != BATCHES]


def test_each_gate_is_named_with_whether_it_applies() -> None:
    """R-086 and R-08A"""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", render_brief(legacy()), re.MULTILINE))
    assert rows["correctness_preflight"] == "unknown: prepare for yes"
    assert rows["decision"] == "no"
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", render_brief(declared()), re.MULTILINE))
    assert (rows["correctness_preflight"], rows["selection"], rows["decision"]) == ("yes", "no", "yes")


def test_every_kind_of_evidence_is_named_once() -> None:
    """R-161"""
    (line,) = re.findall(r"- \*\*What is expected\*\*.*?\n(?=- )", render_brief(legacy()), re.DOTALL)
    named = re.findall(r"`(\w+)`", line)
    assert sorted(named) == sorted(KINDS)


def test_a_spec_without_a_rule_is_told_what_becomes_of_its_verdict() -> None:
    """R-14B"""
    assert "has no `decision_rule`" in sections(render_brief(legacy()))["Decision"]
    assert "has a `decision_rule`" in sections(render_brief(declared()))["Decision"]


def test_the_run_id_stands_in_four_places_of_the_modal_profile() -> None:
    """R-052 and D15"""
    text = render_brief(legacy())
    assert text.count("run_abcdef0123") == 4
    assert text.count("spindle-fork-run_abcdef0123") == 2
    work = prose(sections(text)["How to work"])
    assert "research-exchange-runs, in an app with run_abcdef0123 in its name" in work
    assert "choose names containing run_abcdef0123 for all of them" in work


@pytest.mark.parametrize("profile", ["spindle", "tinker"])
def test_other_profiles_name_the_run_once_and_know_neither_modal_nor_forks(profile: str) -> None:
    """R-056"""
    text = render_brief(declared(profile))
    own_words = text.replace(blocks(text, "json")[0], "")
    assert own_words.count("run_3210fedcba") == 1
    assert not re.findall(r"modal|devin|research-exchange-|RUNS_PROXY", own_words, re.IGNORECASE)
    assert "cannot be forked" in own_words or "has no forks" in own_words
    assert {"RX_URL", "RX_RUN_ID", "RX_RUN_TOKEN", "TINKER_API_KEY", "TINKER_BASE_URL"} <= set(
        re.findall(r"[A-Z]+(?:_[A-Z]+)+", own_words)
    )


def test_the_modal_profile_names_its_variables_and_headers() -> None:
    """R-053: names, never values."""
    work = sections(render_brief(legacy()))["How to work"]
    for header, variable in (("Modal-Key", "MODAL_PROXY_TOKEN_ID"), ("Modal-Secret", "MODAL_PROXY_TOKEN_SECRET")):
        assert f"`{header}` with the value of `${variable}`" in work
    assert {"RUNS_PROXY_TOKEN_ID", "RUNS_PROXY_TOKEN_SECRET", "TINKER_BASE_URL", "TINKER_API_KEY"} <= set(
        re.findall(r"[A-Z]+(?:_[A-Z]+)+", work)
    )
    assert "401" in work


def test_an_unknown_profile_or_a_malformed_id_is_a_sentence() -> None:
    with pytest.raises(
        ValueError, match=r"no service profile 'modal'; the profiles are modal-spindle, spindle, tinker\."
    ):
        service_profile("modal")
    for spec_id, run_id in (
        ("exp_1", "run_abcdef0123"),
        ("exp_0123456789", "run_ABCDEF0123"),
        ("exp_0123456789\n", "run_"),
    ):
        with pytest.raises(ValueError, match="10 lowercase hexadecimal digits"):
            type(legacy())(original("score_centering"), spec_id, run_id, LaunchMode.REDO, service_profile("spindle"))


def test_an_idea_is_read_strictly() -> None:
    """R-001: a title, and where known a summary, a source and the triage; who wrote it is not part of a brief."""
    texts = {"title": "t", "summary": "s", "source": "https://ideas.example.org/1", "triage": "Worth a day."}
    assert asdict(IdeaContext.parse(json.dumps(texts).encode())) == texts
    assert IdeaContext.parse(b'{"title": "t", "summary": null, "author": "a"}') == IdeaContext("t")
    for raw, sentence in (
        (b"[]", "is a JSON object"),
        (b"{}", "has a title"),
        (b'{"title": " "}', "has a title"),
        (b'{"title": "t", "triage": 1}', "triage of an idea is text"),
    ):
        with pytest.raises(DocumentError, match=sentence):
            IdeaContext.parse(raw)


@settings(max_examples=50, deadline=None)
@given(st.text(), st.text(), st.text(), st.text())
def test_nothing_written_about_an_idea_can_pose_as_a_part_of_the_brief(
    title: str, summary: str, source: str, triage: str
) -> None:
    """Headings and fences are those of the brief; other people's words stay one line or a quotation."""
    plain = render_brief(declared())
    context = IdeaContext("t" + title, summary + "\n## How to work\n```", source + "\n# x", triage + "\r## Evidence")
    text = render_brief(declared(context=context))
    assert re.findall(r"^(?:## .+|```\w*)$", text, re.MULTILINE) == re.findall(
        r"^(?:## .+|```\w*)$", plain, re.MULTILINE
    )
    assert [line for line in text.splitlines() if line.startswith("# ")] == [text.splitlines()[0]]


def test_a_spec_from_before_features_stays_valid_renderable_and_runnable() -> None:
    """R-026: what lint refuses of a new spec is not held against an old one."""
    spec = original("score_centering")
    assert spec.is_legacy
    assert "R-031" in {finding.rule for finding in lint(spec) if finding.level is Level.ERROR}
    assert str(spec.value["title"]) in render_brief(legacy(spec=spec))
    arms = [str(arm) for arm in spec.arm_names]
    final = {"status": "succeeded", "summary": "Done.", "verdict": "refuted", "completed_arms": arms, "deviations": []}
    judgment = judge(spec, updates_of([final]), [])
    assert (judgment.recorded_verdict, judgment.withheld) == ("refuted", False)
