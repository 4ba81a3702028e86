"""Evidence by the address of an attachment: fetched, retained, and its signed address nowhere (R-166)."""

from hashlib import sha256
from pathlib import Path

import httpx

from research_exchange.evidence import MAX_FILES
from research_exchange.server.fetching import Fetcher
from research_exchange.server.outside import Outside
from research_exchange.web import create_app
from tests.research_exchange.access.tls_service import Reply, Request, service
from tests.research_exchange.server.conftest import Caller, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread

SIGNED = "X-Amz-Signature=5ecretandlong"
CONTENT = b"step,reward\n1,0.5\n"


def redirecting(request: Request) -> Reply:
    if request.host == "files.example":
        return Reply(307, headers={"Location": f"https://signed.example/bucket/1?{SIGNED}"})
    return Reply(content=CONTENT)


def test_an_attachment_is_retained_and_its_signed_address_is_not(data: Path) -> None:
    with service(redirecting, "files.example", "signed.example") as served:
        outside = Outside(fetcher=Fetcher({"files.example"}, {"signed.example"}, "its-token", served.network))
        app = create_app(data, outside=outside)
        with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
            runner = start_run(Caller(http, (data / "admin-token").read_text().strip()))
            entry = {
                "name": "curve.csv",
                "kind": "metrics",
                "source_url": "https://files.example/v1/attachments/1/curve",
            }

            def offer(**changes: str) -> httpx.Response:
                headers = {"Authorization": f"Bearer {runner.token}"}
                return http.post(f"{runner.path}/evidence", json={**entry, **changes}, headers=headers)

            assert offer(sha256=sha256(b"other").hexdigest()).status_code == 422
            assert offer(sha256=sha256(CONTENT).hexdigest()).status_code == 201
            assert runner.get(f"{runner.path}/evidence/curve.csv").content == CONTENT
            for name, address in (
                ("a", "https://169.254.169.254/attachments/a"),
                ("b", "https://elsewhere.example/attachments/b"),
            ):
                refused = offer(name=name, source_url=f"{address}?{SIGNED}")
                assert refused.status_code == 422
                assert SIGNED not in refused.text
            assert len(served.requests) == 4
            shown = runner.get(runner.path).text
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert SIGNED not in shown
    assert SIGNED.encode() not in kept and b"its-token" not in kept


def test_no_more_is_fetched_for_an_update_than_a_run_may_have(data: Path) -> None:
    """R-163: an update that names thousands of addresses must not keep the Exchange asking for hours."""
    with service(lambda request: Reply(content=request.path.encode()), "files.example") as served:
        app = create_app(data, outside=Outside(fetcher=Fetcher({"files.example"}, network=served.network)))
        with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
            runner = start_run(Caller(http, (data / "admin-token").read_text().strip()))
            address = "https://files.example/attachments"
            files = [{"name": f"{n}.txt", "kind": "log", "source_url": f"{address}/{n}"} for n in range(MAX_FILES + 2)]
            answer = runner.update({"status": "running", "evidence": {"version": 1, "files": files}})
        statuses = [each["status"] for each in answer.json()["evidence"]]
        assert statuses == ["accepted"] * MAX_FILES + ["rejected"] * 2
        assert len(served.requests) == MAX_FILES
