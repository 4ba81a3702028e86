"""A report says what a bundle holds, in HTML and in Markdown alike, the same bytes each time, and stays text."""

import re
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from research_exchange.bundles.record import Loss
from research_exchange.reports import Report, html, markdown
from tests.research_exchange.bundles.exported import Exported, export
from tests.research_exchange.reports.cases import (
    ARMS,
    FILES,
    File,
    bundled,
    jsonl,
    report_on,
    training_rows,
    with_bytes,
)
from tests.research_exchange.server import scenarios

ATTACK = "</p></script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>\"'{{7*7}}<b>|`*_[x](https://a.example)"
CONTROLS = "\x00\x1b[31m\u202egnp.exe\x07"


@pytest.fixture(scope="module")
def report() -> Report:
    return report_on(bundled(*FILES))


class Page(HTMLParser):
    """What a page is made of: its text, its tags, and every address in it."""

    def __init__(self, source: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.names: list[str] = []
        self.pieces: list[str] = []
        self.feed(source.decode())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names += [name for name, _ in attrs]
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")]

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


def rendered(text: bytes) -> Page:
    """Markdown as a reader of it shows it, with HTML let through and addresses made links."""
    made = MarkdownIt("commonmark", {"html": True}).enable("table").render(text.decode())
    return Page(made.encode())


SAID = (
    "Supported",
    "Recomputed from 400 retained rows",
    "+0.75, 95% interval +0.5579 to +0.9421",
    "The whole interval lies above the margin: the criterion is met.",
    "Stability signals",
    "Norm of the gradient, as the service reports it.",
    "None: the runner states that it ran the spec as written.",
    "19.5 min",
    "rx verify run_0123456789.zip",
    "Activation gate",
    "What was reported, and what the rows give",
    "Values behind them",
)


@pytest.mark.parametrize("sentence", SAID)
def test_both_forms_say_it(report: Report, sentence: str) -> None:
    assert sentence in Page(html(report)).text
    assert sentence in rendered(markdown(report)).text


def test_wins_losses_and_ties_stand_beside_the_interval(report: Report) -> None:
    (row,) = re.findall(r"^\| primary\\_gain .*$", markdown(report).decode(), re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3:] == ["+0.75", "+0.5579", "+0.9421", "+0.25", "150", "0", "50", "pass"]


def test_every_file_stands_with_its_hash(report: Report) -> None:
    for text in (html(report).decode(), markdown(report).decode()):
        assert [each.sha256 in text for each in report.record.evidence] == [True] * len(FILES)


def test_every_metric_arm_and_seed_has_its_curve(report: Report) -> None:
    names = [picture.name for picture in report.pictures]
    assert names == [
        "interval-01.svg",
        "curve-01-accuracy.svg",
        "curve-02-reward-mean.svg",
        "curve-03-grad-norm.svg",
        "curve-04-logprob-gap-mean.svg",
        "curve-05-entropy-estimate.svg",
    ]
    for picture in report.pictures[1:]:
        lines = re.findall(r'class="(\w+) series-(\d)" points', picture.figure.body)
        assert lines == [("single", arm) if n < 3 else ("mean", arm) for arm in "12" for n in range(4)]
        assert f"]({picture.name})" in markdown(report).decode()
    assert Page(html(report)).tags.count("svg") == len(names)


def test_an_arm_of_the_spec_looks_alike_whatever_was_logged_first(report: Report) -> None:
    other = report_on(bundled(File("training.jsonl", jsonl([*training_rows(ARMS[::-1])])), *FILES[1:]))
    legend = re.findall(r'series-(\d)".*\n<text class="legend".*>(\w+)</text>', other.pictures[2].figure.body)
    assert legend == [("1", "trained"), ("2", "untrained")]


def test_the_same_bundle_gives_the_same_bytes(report: Report) -> None:
    again = report_on(bundled(*FILES))
    assert (html(again), markdown(again)) == (html(report), markdown(report))
    assert [each.figure.file() for each in again.pictures] == [each.figure.file() for each in report.pictures]


def test_the_hash_is_the_one_of_the_bundle(report: Report) -> None:
    assert sha256(bundled(*FILES).packed()).hexdigest() in markdown(report).decode()


def test_the_page_needs_nothing_else(report: Report) -> None:
    page = Page(html(report))
    assert {address for address in page.addresses if not address.startswith("#")} == {"data:,"}
    assert {"script", "img", "iframe", "object", "form"} & set(page.tags) == set()
    assert [name for name in page.names if name.startswith("on") or name == "style"] == []


def hostile_spec() -> dict[str, Any]:
    criterion = {**scenarios.spec()["decision_rule"]["criteria"][0], "id": ATTACK}
    return scenarios.spec(
        ATTACK + CONTROLS,
        hypothesis=ATTACK,
        success_criterion=f"# {ATTACK}\n\n- {ATTACK}",
        decision_rule={**scenarios.spec()["decision_rule"], "criteria": [criterion]},
        arms=[{"name": "trained", ATTACK: ATTACK}, {"name": "untrained"}, {"name": ATTACK, "role": ATTACK}],
        **{ATTACK: ATTACK},
    )


def hostile() -> Report:
    rows = [{"step": step, "arm": arm, "seed": ATTACK, ATTACK: step} for arm in (ATTACK, CONTROLS) for step in (1, 2)]
    deviation = {"field": ATTACK, "original": ATTACK, "effective": ATTACK + "2", "reason": ATTACK}
    return report_on(
        bundled(
            File(ATTACK.replace("/", "|"), jsonl([*rows, {"arm": ATTACK}])),
            File(f"{CONTROLS}.jsonl", ATTACK.encode()),
            File("observations.jsonl", scenarios.observations(150)),
            spec=hostile_spec(),
            updates=[
                scenarios.calibration(),
                {"status": "running", "deviations": [deviation], "completed_arms": [ATTACK]},
                scenarios.final(150, outcome_reason=ATTACK, summary=f"- {ATTACK}\n\n# {ATTACK}"),
            ],
        )
    )


def test_whatever_a_run_says_stays_text() -> None:
    found = hostile()
    quiet = report_on(bundled(*FILES))
    for page, plain in ((Page(html(found)), Page(html(quiet))), (rendered(markdown(found)), rendered(markdown(quiet)))):
        assert set(page.tags) <= {*plain.tags, "del", "ul", "li"}
        assert page.text.count("window.hacked=1") >= 15, "the attack reaches the report in many places"
        assert not any("example" in address or address == "x" for address in page.addresses)
        assert [name for name in page.names if name.startswith("on")] == []
        assert not re.search("[\x00\x07\x1b\u202e]", page.text)
    titles = [line for line in markdown(found).decode().splitlines() if line.startswith("# ")]
    assert len(titles) == 1, "a heading inside a text is none"


def test_figures_of_hostile_names_are_well_formed() -> None:
    figures = [picture.figure for picture in hostile().pictures]
    assert len(figures) >= 2
    for figure in figures:
        root = ElementTree.fromstring(figure.file())
        assert {each.tag.rpartition("}")[2] for each in root.iter()} <= {
            *("svg", "title", "style", "rect", "line", "text", "polyline", "circle")
        }
    assert [picture.name for picture in hostile().pictures][1:] == [
        "curve-01-p-script-script-window-hacked-1-sc.svg",
    ]


def test_a_run_that_goes_on_is_told_as_it_stands() -> None:
    going_on = report_on(bundled(updates=[scenarios.progress(step, step / 10) for step in (1, 2)]))
    assert (going_on.banner.headline, going_on.banner.label) == ("Running", "No verdict yet")
    text = rendered(markdown(going_on)).text
    assert "It had posted 2 updates when this was written." in text
    assert "No metrics are retained in a file" in text
    not_started = report_on(bundled(updates=[]))
    assert not_started.banner.headline == "Not started"
    assert "Nothing was logged step by step." in Page(html(not_started)).text


def test_an_arm_is_told_with_its_settings_and_whether_it_is_completed() -> None:
    spec = scenarios.spec(arms=[{"name": "trained", "role": "treatment", "steps": 12}, {"name": "untrained"}])
    started = {"status": "running", "completed_arms": ["base", "untrained", "other"]}
    text = markdown(report_on(bundled(spec=spec, updates=[started]))).decode()
    assert "| trained | treatment | not completed | steps 12 |" in text
    assert "| untrained |  | in update 1 |  |" in text
    assert "| base |  | in update 1 | The model before any training. |" in text
    assert "| other |  | no arm of the spec |  |" in text


def test_a_record_that_does_not_follow_any_more_is_said_so() -> None:
    """The bundle is whole, and its recorded judgment is a lie."""
    exported = bundled(*FILES)
    member = exported.record.outcomes[-1].member
    lie = exported.members[member].replace(b'"recorded_verdict":"supported"', b'"recorded_verdict":"refuted"')
    lying = report_on(with_bytes(exported, member, lie))
    assert lying.banner.tone == "contradicted"
    text = rendered(markdown(lying)).text
    assert "no longer borne out: Refuted." in text and "Judged again for this report, the verdict is supported." in text
    assert "judgments/0001.json: " in text
    nonsense = report_on(with_bytes(exported, member, b'{"recorded_verdict": "supported"}'))
    assert nonsense.banner.headline == "Supported"


def test_a_redo_that_was_cancelled_and_lost_a_file_is_told_with_all_of_it() -> None:
    exported = export()
    lost = exported.record.evidence[0].member
    members = {name: content for name, content in exported.members.items() if name != lost}
    record = replace(exported.record, lost=(Loss(lost, "nothing"),))
    text = rendered(markdown(report_on(Exported(record, members)))).text
    assert "redo of run_9876543210" in text
    assert "Cancelled at 2026-01-01 12:30:00 by admin: It had ended anyway." in text
    assert f"{lost} was lost: nothing" in text
    assert "run.sh was refused: R-169" in text
