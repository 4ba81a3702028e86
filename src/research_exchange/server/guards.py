"""Who may pass to a route (R-241): dependencies that turn a request away before its body is read.

`may_use` stands before everything under `/api`: it asks for a token wherever something is written, and for reading too
unless the door stands open. What a route then does takes one of the others besides. A browser's cookie is as good as
its token for reading; what it writes goes through the forms of our own pages alone.

They are asynchronous and go to a thread for the database alone: one that has nothing to ask must not wait for a thread.
"""

import re
from typing import Annotated, cast
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from research_exchange.server.access import ADMIN, FIRST_ADMIN, Caller, same_secret
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.door import Door
from research_exchange.server.errors import ApiError, unknown_run
from research_exchange.server.exchange import Exchange
from research_exchange.server.limits import read_body
from research_exchange.server.sign_in import COOKIE, Session, SignIns, is_own_form, proves
from research_exchange.store import Role, TokenRecord

READING = frozenset({"GET", "HEAD"})
MAX_FORM_BYTES = 64 * 1024

_NAME = re.compile(r"(?:run|exp|idea)_[0-9a-f]{10}")
"""Of a run, a spec version or an idea."""


def door_of(request: Request) -> Door:
    return cast("Door", request.app.state.door)


def sign_ins_of(request: Request) -> SignIns:
    return cast("SignIns", request.app.state.sign_ins)


def is_still_good(exchange: Exchange, who: Caller) -> bool:
    """Whether the token that somebody came in with has neither ended nor been revoked since."""
    if who.actor == ADMIN:
        return True
    with exchange.store.reading() as reader:
        token = reader.token_with_id(who.actor)
    return token is not None and not token.why_refused(exchange.clock())


async def session_of(request: Request, exchange: ExchangeService) -> Session | None:
    """The browser session of a request, while the token that it began with is still good."""
    cookie = request.cookies.get(COOKIE)
    session = sign_ins_of(request).session(cookie) if cookie else None
    if session is None or not await run_in_threadpool(is_still_good, exchange, session.caller):
        return None
    return session


BrowserSession = Annotated[Session | None, Depends(session_of)]


async def optional_caller(request: Request, exchange: ExchangeService, session: BrowserSession) -> Caller | None:
    """Whose token the request carries, in its header or, for reading, by its cookie; None when it carries none.

    Raises:
        ApiError: 401 for a token that nobody was given, or that is no good any more.
    """
    header = request.headers.get("authorization")
    if header is None:
        return session.caller if session is not None and request.method in READING else None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise _no_token()
    return await run_in_threadpool(holder, request, exchange, secret.strip())


def holder(request: Request, exchange: Exchange, secret: str) -> Caller:
    """Whose secret this is.

    Raises:
        ApiError: 401 for one that nobody was given, or that is no good any more.
    """
    if same_secret(secret, request.app.state.admin_token):
        return FIRST_ADMIN
    with exchange.store.reading() as reader:
        token = reader.any_token(secret)
    if token is None:
        raise ApiError(401, "This token is not known here; it may belong to another Exchange.")
    if refused := token.why_refused(exchange.clock()):
        raise ApiError(401, f"This token is no good any more: {refused}. Ask for a new one.")
    return caller_with(token)


def caller_with(token: TokenRecord) -> Caller:
    return Caller(token.role, token.id, token.name, token.run_id)


PerhapsCaller = Annotated[Caller | None, Depends(optional_caller)]


async def caller(who: PerhapsCaller) -> Caller:
    """Whose token the request carries.

    Raises:
        ApiError: 401 when it carries none.
    """
    if who is None:
        raise _no_token()
    return who


WhoAsks = Annotated[Caller, Depends(caller)]


async def may_use(request: Request, exchange: ExchangeService, who: PerhapsCaller) -> None:
    """What every route under `/api` asks for. What is open to a reader at the door is open to anybody with a token too.

    Raises:
        ApiError: 401 without a token where one is needed, 403 with the wrong one.
    """
    if request.method not in READING:
        if who is None:
            raise _no_token()
        if who.role is Role.REVIEWER:
            raise ApiError(403, "A reviewer's token reads, and changes nothing; ask for a researcher's.")
    elif not door_of(request).open_reads:
        if who is None:
            raise _no_token()
        await run_in_threadpool(_require_readable, request, exchange, who)


async def page_reader(request: Request, exchange: ExchangeService, who: PerhapsCaller) -> Caller | None:
    """Who reads a page: None where the door stands open and nobody has signed in.

    Raises:
        HTTPException: 303 to the sign-in page, where a page is asked for that takes a token.
    """
    if door_of(request).open_reads:
        return who
    if who is None:
        if request.url.path.endswith(".json"):
            raise _no_token()
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        raise HTTPException(303, "Sign in first.", {"Location": f"/sign-in?next={quote(asked, safe='')}"})
    await run_in_threadpool(_require_readable, request, exchange, who)
    return who


async def overview_reader(request: Request, who: PerhapsCaller) -> None:
    """Stands, besides `may_use` or `page_reader`, before what shows further runs beside the one that is named.

    Raises:
        ApiError: 403 for a runner, where reading takes a token.
    """
    if who is not None and who.role is Role.RUNNER and not door_of(request).open_reads:
        raise _not_its_own()


async def admin_only(who: WhoAsks) -> None:
    if who.role is not Role.ADMIN:
        raise ApiError(403, "This takes an administrator's token.")


async def researcher_only(who: WhoAsks) -> None:
    """Lets researchers and administrators pass."""
    if not who.may_research:
        raise ApiError(
            403, "This takes a researcher's or an administrator's token; a runner's is good for reporting to its run."
        )


async def runner_only(run_id: str, who: WhoAsks, exchange: ExchangeService) -> None:
    """Lets the run's own runner pass, whose token is for a run that there is."""
    if not who.runs(run_id):
        await run_in_threadpool(_require_run, exchange, run_id)
        raise ApiError(403, f"This takes the token of the runner of {run_id}, given out when that run was created.")


async def runner_or_researcher(run_id: str, who: WhoAsks, exchange: ExchangeService) -> None:
    if who.runs(run_id):
        return
    await run_in_threadpool(_require_run, exchange, run_id)
    if not who.may_research:
        raise ApiError(403, f"This takes the token of the runner of {run_id}, or a researcher's or an administrator's.")


async def form_of(request: Request, session: BrowserSession) -> dict[str, str]:
    """The fields of a form that a page of ours sent, from a browser that is signed in.

    Raises:
        ApiError: 401 when it is not signed in, 403 when the form cannot have come from our page.
    """
    if session is None:
        raise ApiError(401, "Nobody is signed in here any more; sign in and send the form again.")
    fields = await form_fields(request)
    if not proves(session, fields.get("csrf", "")):
        raise _foreign_form()
    return fields


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form that came from this origin, before anybody is signed in.

    Raises:
        ApiError: 403 when the browser says that another site sent it, 413 and 422 when it is no form.
    """
    if not is_own_form(request.headers):
        raise _foreign_form()
    body = await read_body(request, MAX_FORM_BYTES)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise ApiError(422, "The body must be a form (application/x-www-form-urlencoded).") from None


SignedForm = Annotated[dict[str, str], Depends(form_of)]
OwnForm = Annotated[dict[str, str], Depends(form_fields)]


def _no_token() -> ApiError:
    return ApiError(401, "This needs a token: send the header `Authorization: Bearer <token>`.")


def _not_its_own() -> ApiError:
    return ApiError(403, "A runner's token reads its own run and that run's spec, and nothing else.")


def _foreign_form() -> ApiError:
    return ApiError(403, "This form did not come from a page of this Exchange; open the page anew and send it again.")


def _require_readable(request: Request, exchange: Exchange, who: Caller) -> None:
    """A runner reads its own run, and the spec that it runs, wherever in an address another one could be named."""
    if who.role is not Role.RUNNER:
        return
    in_path = {value for name, value in request.path_params.items() if name.endswith("_id")}
    in_query = {value for value in request.query_params.values() if _NAME.fullmatch(value)}
    with exchange.store.reading() as reader:
        run = reader.run(who.run_id or "")
    if run is None or not in_path or not in_path | in_query <= {run.id, run.spec_id}:
        raise _not_its_own()


def _require_run(exchange: Exchange, run_id: str) -> None:
    with exchange.store.reading() as reader:
        if reader.run(run_id) is None:
            raise unknown_run(run_id)
