"""Evidence by the address of an attachment: fetched, retained, and its signed address nowhere (R-166)."""

from hashlib import sha256
from pathlib import Path

import httpx

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
