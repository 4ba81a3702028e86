"""R-240: whatever a runner writes is text on the page, never markup, wherever it shows up."""

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import Served, get, post
from tests.web.conftest import Browser, Reporter

ATTACK = "</p></script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>\"'{{7*7}}<b class=hacked>"
BIDI = "\u202egnp.exe"


def _hostile_spec() -> dict[str, object]:
    criterion = scenarios.spec()["decision_rule"]["criteria"][0]
    rule = {**scenarios.spec()["decision_rule"], "criteria": [{**criterion, "id": ATTACK}], "estimand": ATTACK}
    check = {"metric": ATTACK, "measures": ATTACK, "min": 0, "max": 1}
    return scenarios.spec(
        title=ATTACK,
        hypothesis=ATTACK,
        success_criterion=ATTACK,
        decision_rule=rule,
        activation_gate={"applicable": True, "reason": ATTACK, "checks": [check]},
        arms=[{"name": "trained"}, {"name": "untrained"}, {"name": ATTACK}],
    )


def _hostile_parts() -> dict[str, object]:
    """Every structured part, with the attack wherever a text may stand."""
    check = {"after_restore": 0, "source": "server_response", "actual": ATTACK, "actual_config": {ATTACK: ATTACK}}
    start = {"base_checkpoint": ATTACK, "checkpoint_uri": ATTACK, "loaded_checkpoint_uri": ATTACK, "source": ATTACK}
    arm = {"arm": "trained", "initialization": start, "restore_count": 0, "optimizer_checks": [check]}
    score = {"arm": ATTACK, "metric": ATTACK, "value": 1, "evaluator_id": ATTACK, "predictions_ref": ATTACK, "seed": 0}
    timed = {"seconds": 1, "units": 1, "planned_units": 1, "samples": 1, "gpu_count": 1, "allocation_source": ATTACK}
    return {
        "initialization_provenance": {"version": 1, "arms": [arm]},
        "evaluation": {"version": 1, "evaluators": {ATTACK: {ATTACK: ATTACK, "parser": ATTACK}}, "scores": [score]},
        "adaptation_manifests": [
            {
                "arm": "trained",
                "pair": ATTACK,
                "warmup_batches": 0,
                "adaptation_batch_ids": [ATTACK],
                "adaptation_batch_hash": "0" * 64,
            }
        ],
        "feasibility": {"source": ATTACK, "effective_config": {ATTACK: ATTACK}, "measurements": {ATTACK: timed}},
        "generation_audit": {"version": 1, "dataset_file": ATTACK, "counts": {"generated": 1}},
        "cleanup": {"stopped": [ATTACK], "remaining": [ATTACK]},
        "capacity_block": {"error": ATTACK, "comparison_steps_completed": 0, "released_clients": True},
    }


def _report(reporter: Reporter) -> None:
    session = reporter.session()
    reporter.update({"status": "running", "activation_calibration": {"values": {ATTACK: ATTACK}, "note": ATTACK}})
    deviation = {"field": ATTACK, "original": ATTACK, "effective": ATTACK + "2", "reason": ATTACK}
    reporter.update({"status": "running", "deviations": [deviation], "tested_instead": ATTACK, ATTACK: ATTACK})
    for value in (1, 2, 3):
        arms = {ATTACK: {ATTACK: value}, "unknown " + ATTACK: {ATTACK: value}}
        reporter.update({"status": "running", "summary": ATTACK, "metrics": {ATTACK: value, "arms": arms}})
    reporter.update({"status": ATTACK, "verdict": ATTACK, "completed_arms": [ATTACK, "made up " + ATTACK]})
    reporter.update({"status": "running", **_hostile_parts()})
    reporter.raw_update(f'{{"{ATTACK}'.encode())
    for name in (ATTACK.replace("/", "|"), BIDI, "plain.html"):
        reporter.upload(name, ATTACK.encode(), ATTACK)
    reporter.upload(ATTACK, ATTACK.encode(), "log")
    files = [{"name": ATTACK, "kind": ATTACK, "content": ATTACK}]
    reporter.update({"status": "running", "evidence": {"version": 1, "files": files}})
    reporter.end_session(session, ATTACK)


def report_attacks(server: Served) -> Reporter:
    """A run that says everything that it can say in words that would be markup."""
    reporter = Reporter(server, _hostile_spec())
    _report(reporter)
    final = scenarios.final(150, outcome_reason=ATTACK, summary=ATTACK, original_hypothesis_tested=False)
    reporter.session()
    reporter.upload("observations.jsonl", scenarios.observations(150))
    reporter.update(final)
    return reporter


def test_nothing_that_a_runner_writes_becomes_markup(browser: Browser, server: Served) -> None:
    reporter = report_attacks(server)
    spec_page = f"{reporter.page}/spec"
    for url in (reporter.page, server.url, f"{reporter.page}/updates/2", spec_page, f"{reporter.page}/brief"):
        browser.open(url)
        assert browser.run("return window.hacked") is None
        assert browser.all("img, b.hacked, main script, main style") == []
        assert browser.complaints() == []
        assert " ".join(ATTACK.split()) in browser.text("body"), "shown as it was written, {{7*7}} included"
    page = get(reporter.page).text
    assert page.count("window.hacked=1") >= 20, "the fixture reaches the page in many places"
    assert "<script>window" not in page


def test_hostile_names_in_addresses_are_text(browser: Browser, server: Served) -> None:
    browser.open(f"{server.url}/runs/%3Cscript%3Ewindow.hacked=1%3C%2Fscript%3E")
    assert browser.run("return window.hacked") is None
    browser.open(f"{server.url}/runs/%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    assert browser.run("return window.hacked") is None
    assert "<img src=x" in browser.text()


def test_raw_documents_do_not_run_in_the_browser(browser: Browser, server: Served) -> None:
    """An update, a spec or a file is shown or downloaded as data, whatever it looks like."""
    reporter = Reporter(server)
    reporter.raw_update(b"<html><script>window.hacked=1</script></html>")
    reporter.update({"status": "running", "html": "<script>window.hacked=1</script>"})
    spec_id = get(f"{server.url}/api/runs/{reporter.id}").json()["spec_id"]
    for path in (f"runs/{reporter.id}/updates/1", f"runs/{reporter.id}/updates/2", f"specs/{spec_id}"):
        answer = get(f"{server.url}/api/{path}")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert not answer.headers["content-type"].startswith("text/html")
    browser.open(f"{server.url}/api/runs/{reporter.id}/updates/2")
    assert browser.run("return window.hacked") is None


def test_tokens_never_reach_a_page(server: Served) -> None:
    reporter = Reporter(server)
    reporter.train(1)
    for path in ("/", f"/runs/{reporter.id}", f"/runs/{reporter.id}.json", f"/api/runs/{reporter.id}"):
        text = get(server.url + path).text
        assert "rxr_" not in text and "rxa_" not in text
    assert post(f"{server.url}/api/specs", "rxa_wrong", b"{}").status_code == 401
