"""A browser signs in with a token, gets a cookie that only reads, and forms prove where they come from."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Response

from research_exchange.server import Door
from research_exchange.server.guards import SignedForm
from research_exchange.server.sign_in import SIGNED_IN_FOR, safe_next
from research_exchange.web import create_app
from tests.research_exchange.access.test_tokens import SetClock, delete, give
from tests.research_exchange.server.conftest import Caller
from tests.research_exchange.server.serving import NO_TLS, in_thread


@pytest.fixture
def set_clock() -> SetClock:
    return SetClock()


@pytest.fixture
def closed_app(data: Path, set_clock: SetClock) -> FastAPI:
    app = create_app(data, clock=set_clock, door=Door(open_reads=False))

    @app.post("/a-form-of-ours")
    async def a_form(fields: SignedForm) -> Response:
        return Response(fields["said"])

    return app


@pytest.fixture
def admin(closed_app: FastAPI, data: Path) -> Iterator[Caller]:
    with in_thread(closed_app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, (data / "admin-token").read_text().strip())


def sign_in(admin: Caller, token: str | None, there: str = "/") -> httpx.Response:
    return httpx.post(
        admin.http.base_url.join("/sign-in"), data={"token": token or "", "next": there}, verify=NO_TLS, timeout=60
    )


def cookie_of(answer: httpx.Response) -> dict[str, str]:
    """What a browser would send; httpx keeps a Secure cookie for https, a browser takes loopback for as good."""
    found = re.match("rx_session=([^;]*)", answer.headers.get("set-cookie", ""))
    assert found is not None, answer.headers
    return {"Cookie": f"rx_session={found[1]}"}


def csrf_of(app: FastAPI, cookie: dict[str, str]) -> str:
    session = app.state.sign_ins.session(cookie["Cookie"].partition("=")[2])
    csrf: str = session.csrf
    return csrf


def test_a_token_opens_the_pages_and_the_api_for_reading(admin: Caller) -> None:
    answer = sign_in(admin, admin.token, "/?offset=50")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?offset=50")
    assert str(admin.token) not in answer.headers["set-cookie"]
    for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert part in answer.headers["set-cookie"]
    cookie = cookie_of(answer)
    assert admin.http.get("/", headers=cookie).status_code == 200
    assert admin.http.get("/api/audit", headers=cookie).status_code == 200


def test_a_cookie_writes_nothing_through_the_api(admin: Caller) -> None:
    cookie = cookie_of(sign_in(admin, admin.token))
    assert admin.http.post("/api/ideas", json={"title": "x"}, headers=cookie).status_code == 401
    assert admin.get("/api/ideas").json()["total"] == 0


@pytest.mark.parametrize("token", ["", "rxa_wrong", "rxa_täuschung"])
def test_a_wrong_token_leads_back_to_the_form(admin: Caller, token: str) -> None:
    answer = sign_in(admin, token, "/ideas")
    assert answer.headers["location"] == "/sign-in?refused=1&next=%2Fideas"
    assert "set-cookie" not in answer.headers


def test_a_runner_has_no_pages_to_read(admin: Caller) -> None:
    spec = admin.post("/api/specs", {"title": "x"}, legacy="true").json()["id"]
    run = admin.post("/api/runs", {"spec_id": spec}).json()
    assert "refused" in sign_in(admin, run["token"]).headers["location"]


def test_a_session_ends_with_the_sign_out_with_time_and_with_its_token(
    admin: Caller, closed_app: FastAPI, set_clock: SetClock
) -> None:
    def is_in(cookie: dict[str, str]) -> bool:
        return admin.http.get("/api/runs", headers=cookie).status_code == 200

    given = give(admin, "reviewer")
    left, expired, revoked = (cookie_of(sign_in(admin, given["token"])) for _ in range(3))
    assert is_in(left)
    out = admin.http.post("/sign-out", data={"csrf": csrf_of(closed_app, left)}, headers=left)
    assert 'rx_session=""' in out.headers["set-cookie"]
    assert not is_in(left)
    set_clock.now += SIGNED_IN_FOR
    assert not is_in(expired)
    set_clock.now -= SIGNED_IN_FOR
    assert is_in(revoked)
    delete(admin, f"/api/tokens/{given['id']}")
    assert not is_in(revoked)


def test_a_form_needs_the_proof_of_the_browsers_own_session(admin: Caller, closed_app: FastAPI) -> None:
    own, other = (cookie_of(sign_in(admin, admin.token)) for _ in range(2))
    csrf = csrf_of(closed_app, own)
    origin = str(admin.http.base_url).rstrip("/")

    def send(cookie: dict[str, str], proof: str, **headers: str) -> int:
        form = {"csrf": proof, "said": "yes"}
        return admin.http.post("/a-form-of-ours", data=form, headers={**cookie, **headers}).status_code

    assert send(own, csrf) == 200
    assert send(own, csrf, Origin=origin, **{"Sec-Fetch-Site": "same-origin"}) == 200
    assert send(own, "") == 403
    assert send(own, csrf_of(closed_app, other)) == 403
    assert send(own, csrf, Origin="https://elsewhere.example") == 403
    assert send(own, csrf, **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert send(own, csrf, **{"Sec-Fetch-Site": "same-site"}) == 403
    assert send({}, csrf) == 401


def test_nobody_is_signed_in_by_another_site(admin: Caller) -> None:
    """Else a reader would look at somebody else's Exchange and take it for their own session."""
    answer = admin.http.post("/sign-in", data={"token": admin.token}, headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a" * 70_000, b"&".join(b"a=b" for _ in range(200))])
def test_what_is_no_form_is_refused(admin: Caller, body: bytes) -> None:
    assert admin.http.post("/sign-in", content=body).status_code in (303, 413, 422)


@pytest.mark.parametrize(
    ("asked", "goes"),
    [
        ("/runs/run_1?x=1", "/runs/run_1?x=1"),
        ("https://elsewhere.example/", "/"),
        ("//elsewhere.example/", "/"),
        ("/\\elsewhere.example", "/"),
        ("\\/elsewhere.example", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_signing_in_leads_to_a_page_of_this_exchange(asked: str, goes: str) -> None:
    assert safe_next(asked) == goes
