"""An HTTP API behind the gateway: what is decided is what it gets, byte for byte, and its answers come back."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.world.authorization import GATEWAY, Trust
from tests.world.decisions import Known
from tests.world.http_apis import (
    ENTRIES,
    KNOWN,
    NAME,
    SCOPES,
    EchoApi,
    api_settings,
    presenter_of,
    proof_for,
    raw_request,
)
from tests.world.logs import Log, records_in, verified
from tests.world.running import RunningGateway, run
from tests.world.spellings import SPELLINGS, lenient

from accredit.attest import Outcome
from accredit.client import AccreditedHttp, ProofPresenter
from accredit.errors import ProofRefused, StoreUnavailable
from accredit.gateway import create_app
from accredit.gateway.settings import ApiUpstream, HttpUpstream, RecordSettings
from accredit.http_api.routes import RouteTable
from accredit.jsonrpc.objects import MAX_MEMBERS
from accredit.keys import write_key
from accredit.policy.catalog import Catalog
from accredit.policy.suggesting import Deployment, Suggester
from accredit.ratify.constraints import MaxAmount
from accredit.stores import MemoryStore

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/front/api_relay", "prefix", "problem")]
TRUST = Trust()
PATH = "/api/mail"


class Scene(NamedTuple):
    api: EchoApi
    port: int

    async def send(
        self,
        method: str,
        target: str,
        *headers: tuple[str, str],
        scope: str = "email:read",
        body: bytes = b"",
        **how: Any,
    ) -> tuple[int, str]:
        """A request below the API's path, with a proof for it."""
        asked = PATH + target
        proof = proof_for(TRUST, method, asked, scope, body=how.pop("signed", body), protocol="http", **how)
        return await self.raw(f"{method} {asked}", ("Ratify-Proof", proof), *headers, body=body)

    async def raw(self, line: str, *headers: tuple[str, str], body: bytes = b"") -> tuple[int, str]:
        return await asyncio.to_thread(raw_request, self.port, line, headers, body)


@asynccontextmanager
async def scene(
    *, named: tuple[str, ...] = (), policy: dict[str, Any] | None = None, **more: Any
) -> AsyncGenerator[Scene]:
    given: dict[str, Any] = {"store": MemoryStore(), "revocations": Known()}
    given |= {name: more.pop(name) for name in ("store", "records") if name in more}
    more |= {"records": more.pop("record")} if "record" in more else {}
    with EchoApi() as echo:
        behind = HttpUpstream(f"http://127.0.0.1:{echo.port}/base")
        api = ApiUpstream("http", RouteTable(ENTRIES), None, behind, named)
        settings = api_settings(TRUST, api, policy, **more, path=PATH)
        async with RunningGateway(create_app([settings], **given)) as gateway:
            yield Scene(echo, gateway.port)


def problem(told: str) -> dict[str, Any]:
    head, _, body = told.partition("\r\n\r\n")
    assert "content-type: application/problem+json" in head
    assert "cache-control: no-store" in head
    return json.loads(body)


@pytest.mark.holds("gateway/front/api_relay", "whole-body", "headers", "private")
async def test_what_was_decided_reaches_the_api_byte_for_byte__and_its_answer_comes_back() -> None:
    async with scene() as at:
        body = b'{"to": "a\\u0062c",  "x":1.0}\r\n'
        status, told = await at.send(
            *("POST", "/messages/a%20b/send?x=%2F&y"),
            *(("Content-Type", "application/json"), ("X-Own", "1"), ("Cookie", "c=1"), ("If-Match", "x")),
            *(
                ("Range", "bytes=0-"),
                ("X-Forwarded-For", "1.2.3.4"),
                ("Accredit-Identity", "forged"),
                ("TE", "trailers"),
            ),
            scope="email:send",
            body=body,
        )
        assert status == 200
        assert told.encode("latin-1").endswith(body)
        assert "cache-control: private" in told
        ((line, headers),) = at.api.seen
        assert line.startswith("POST /base/messages/a%20b/send?x=%2F&y HTTP/1.1")
        assert (headers["content-type"], headers["x-own"]) == ("application/json", "1")
        left = {"ratify-proof", "cookie", "if-match", "range", "x-forwarded-for", "accredit-identity", "te"}
        assert not left & headers.keys()


@pytest.mark.holds("gateway/front/api_relay", "private")
async def test_no_shared_cache_is_told_to_keep_an_answer__it_would_give_it_to_who_has_no_proof() -> None:
    async with scene() as at:
        at.api.says = (
            200,
            {
                "Cache-Control": "public, s-maxage=60, max-age=5, no-transform",
                "CDN-Cache-Control": "max-age=60",
                "Cloudflare-CDN-Cache-Control": "max-age=60",
                "Surrogate-Control": "max-age=60",
                "Edge-Control": "max-age=60",
                "X-Accel-Expires": "60",
                "ETag": "x",
            },
        )
        _, told = await at.send("GET", "/messages")
        head = told.lower()
        assert "cache-control: private, max-age=5, no-transform\r\n" in head
        assert head.count("-control:") == 1
        assert ("x-accel-expires" in head, "etag: x" in head) == (False, True)


async def test_headers_that_are_named_go_on() -> None:
    async with scene(named=("Cookie", "If-Match")) as at:
        await at.send("GET", "/messages", ("Cookie", "c=1"), ("If-Match", "x"), ("Range", "bytes=0-"))
        ((_, headers),) = at.api.seen
        assert (headers["cookie"], headers["if-match"], "range" in headers) == ("c=1", "x", False)


@pytest.mark.holds("http_api/call", "binding", "protocol")
async def test_a_proof_for_another_body_path_or_protocol_is_refused__and_nothing_reaches_the_api() -> None:
    async with scene() as at:
        sent = ("POST", "/messages/5/send")
        others: list[dict[str, Any]] = [
            {"signed": b"other"},
            {"signed": b""},
            {"verifier": "mail-gateway"},
            {"scope": "email:read"},
        ]
        for how in others:
            more: dict[str, Any] = {"scope": "email:send", "body": b"x", **how}
            status, told = await at.send(*sent, **more)
            assert (status, problem(told)["error"]) == (403, "ratify_invalid")
        of_proxy = proof_for(TRUST, "GET", f"{PATH}/messages", "email:read", protocol="authorize")
        below = proof_for(TRUST, "GET", "/messages", "email:read", protocol="http")
        for proof in (of_proxy, below):
            status, told = await at.raw(f"GET {PATH}/messages", ("Ratify-Proof", proof))
            assert (status, problem(told)["error"]) == (403, "ratify_invalid")
        assert at.api.seen == []


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (f"GET {PATH}/messages", 401),
        (f"GET {PATH}/nothing", 403),
        (f"GET {PATH}/Messages", 400),
        (f"GET {PATH}//messages", 400),
        (f"GET {PATH}/messages/..%2fadmin", 400),
        (f"GET {PATH}/messages?_method=DELETE", 400),
        (f"GET {PATH}/messages?X-HTTP-Method-Override=DELETE", 400),
        (f"GET {PATH}/../admin", 400),
        (f"GET {PATH}/", 403),
        ("GET /api/mail2/messages", 404),
        ("GET /api%2fmail/messages", 404),
        ("GET /API/mail/messages", 404),
        (f"TRACE {PATH}/messages", 405),
    ],
)
async def test_what_is_refused_before_a_proof_is_looked_at_has_its_status(line: str, status: int) -> None:
    async with scene() as at:
        found, told = await at.raw(line)
        assert found == status, told
        assert at.api.seen == []


@pytest.mark.holds("http_api/targets", "origin-form", "segments", "encoding", "unicode")
async def test_no_spelling_of_a_path_leads_past_the_gateway__whatever_the_api_makes_of_it() -> None:
    async with scene() as at:
        for each in SPELLINGS[::3]:
            if "://" not in each:
                await at.send("GET", each, chain=TRUST.chain("email:read"))
        for line, _ in at.api.seen:
            read = lenient(line.split(" ")[1])
            assert (read[:2], len(read) <= 3) == (["base", "messages"], True), line


OTHER_JSON = (
    b'{"_method": "DELETE", "a": NaN}',  # Python's reader takes NaN
    b'\xef\xbb\xbf{"_method": "DELETE"}',  # Node's drops the mark
    b'{"_method": "DELETE", "a": "\\ud800"}',
    b'{"_method": "DELETE",}',
    b"{_method: 'DELETE'}",
    b"{'_\\x6dethod': 'DELETE'}",
    '{"_method": "DELETE"}'.encode("utf-16"),  # Python's reader guesses it
)
"""JSON that the gateway does not read, and some API does."""
PARTS = (
    (True, 'form-data; name="_method"'),
    (True, 'form-data; name="\\_met\\hod"'),  # Rack drops backslashes
    (True, 'form-data; name=".method"'),  # PHP makes a _ of it
    (True, 'form-data; name="x_http_method_override"'),
    (True, 'form-data;\r\n name=\r\n "_method"'),
    (True, "form-data; name*=utf-8''%5Fmethod"),
    (True, 'form-data; name*0="_met"; name*1="hod"'),
    (True, 'form-data; name="=?utf-8?q?=5Fmethod?="'),
    (False, "form-data\r\nContent-ID: <_method>"),  # where there is no name, Rack takes this
    (True, f'form-data; a="{"a" * 4096}"; name="_method"'),
    # Readers differ in where a line ends, and in which ones go on.
    (True, 'form-data\r\n; name="_method"'),
    (True, 'form-data\r; name="_method"'),
    (True, 'form-data\n\x0b; name="_method"'),
    (True, 'form-data\r\nContent-Disposition\x0b: form-data; name=\x1c"_method"\r\nContent-Type: text/plain'),
    (True, 'form-data; file name="_method"'),
)


def part(head: str) -> bytes:
    return f"--x\r\nContent-Disposition: {head}\r\n\r\nDELETE\r\n--x--\r\n".encode()


@pytest.mark.holds("gateway/admission/api_gate", "override")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"a=1&_method=DELETE"),
        ("application/x-www-form-urlencoded", b"%5Fmethod=DELETE"),
        ("text/plain", b"_method=DELETE"),
        ("application/x-www-form-urlencoded", b"%58-HTTP-Method%2dOverride=DELETE"),
        ("application/json", b'{"_method": "DELETE"}'),
        ("application/json", b'{"a": 1, "\\u005FMethod": "DELETE"}'),
        ("application/vnd.api+json", b'{"X-HTTP-Method-Override": "DELETE"}'),
        ("application/x-www-form-urlencoded", b"X_HTTP_Method_Override=DELETE"),
        ("application/x-www-form-urlencoded; charset=ibm037", "_method=DELETE".encode("cp037")),
        ("application/x-www-form-urlencoded; charset=utf-8; charset=ibm037", "_method=DELETE".encode("cp037")),
        *(("application/json", each) for each in OTHER_JSON),
        ("application/json; charset=utf-16", '{"_method": "DELETE"}'.encode("utf-16-le")),
        ("application/vnd.api+json", b'{"_method": "DELETE", "a": NaN}'),
        *((f"multipart/{'form-data' if form else 'mixed'}; boundary=x", part(head)) for form, head in PARTS),
        ("multipart/form-data; boundary=x, boundary=y", part('form-data; name="a"')),
        ("multipart/form-data; boundary=x,y", part('form-data; name="a"')),
        ("multipart/form-data; boundary*=utf-8''x", part('form-data; name="a"')),
    ],
)
async def test_a_body_that_names_another_method_is_refused(kind: str, body: bytes) -> None:
    async with scene() as at:
        sent = ("POST", "/messages/5/send", ("Content-Type", kind))
        assert (await at.send(*sent, scope="email:send", body=body))[0] == 400
        coded = (*sent, ("Content-Encoding", "gzip"))
        assert (await at.send(*coded, scope="email:send", body=gzip.compress(body)))[0] == 415
        for header in (("Content-Type", kind), ("Content-Encoding", "identity")):
            twice = (*sent[:2], ("Content-Type", kind), ("Content-Encoding", "identity"), header)
            assert (await at.send(*twice, scope="email:send", body=b"{}"))[0] == 400


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json; charset=UTF-8", b'{"method": "card", "a": {"_method": 1}}'),
        ("application/json", b'["_method"]'),
        ("application/json", b'{"a": NaN}'),
        ("text/plain", b'{"a": "_method"}'),
        ("text/xml; charset=utf-16", "<method/>".encode("utf-16")),
        ("application/x-www-form-urlencoded; charset=utf8", b"a=_method&payment_method=card"),
        ("multipart/form-data; boundary=x", part('form-data; name="method"')),
        ("multipart/form-data; boundary=x", part('form-data; name="a"; filename="C:\\a"; filename*=UTF-8\'\'a')),
        ("multipart/form-data; boundary=x", 100 * part('form-data; name="payment_method"')),
        ('multipart/form-data; charset=ascii; boundary="x"', part('form-data; name="a"\r\nContent-Type: text/plain')),
        ("multipart/form-data; boundary=----=_Part_1/2.3", part('form-data; name="a"')),
        ("text/plain", b"Content-Disposition: form-data\n" * 4096),
        ('multipart/related; type="application/json"; boundary=x', part("inline") + b"method \0 --x--\r\n"),
        ("multipart/form-data; boundary=x", part('form-data; name="a"\r\n\r\nContent-ID: a; name*0=b' + "a" * 8192)),
    ],
)
async def test_a_body_that_names_none_goes_on(kind: str, body: bytes) -> None:
    async with scene() as at:
        sent = ("POST", "/messages/5/send", ("Content-Type", kind))
        assert (await at.send(*sent, scope="email:send", body=body))[0] == 200


@pytest.mark.holds("gateway/admission/api_gate", "override")
async def test_a_stranger_s_body_with_members_without_end_is_not_read_to_its_end() -> None:
    """Each member is an object in memory, and no token was checked yet."""
    members = b",".join(b'"%d":0' % number for number in range(MAX_MEMBERS))

    async with scene() as at:
        sent = ("POST", "/messages/5/send", ("Content-Type", "application/json"))
        for first, status in ((b'"other":0,', 200), (b'"method":0,', 413)):
            body = b"{" + first + members + b"}"
            assert (await at.send(*sent, scope="email:send", body=body))[0] == status


@pytest.mark.holds("gateway/admission/api_gate", "override")
async def test_a_stranger_s_body_of_blanks_is_searched_in_one_pass__it_held_the_loop_for_hours() -> None:
    blanks = b" " * 1_000_000

    async with scene() as at:
        for body in (b"name=" + blanks + b"x", b"name" + blanks + b"=" + blanks, b"&" + b"+" * 1_000_000):
            assert (await at.raw(f"POST {PATH}/messages/5/send", body=body))[0] == 401
        for start in (b"a=", b"a=&", b"a=b;" + b"+" * 200_000, b"a=" + b"b" * 131_072 + b"&", b"&%20" * 100_000):
            for name, status in ((b"_method=DELETE", 400), (b"_methods=DELETE", 401)):
                named = start.endswith((b"&", b";", b"+", b"%20")) and status == 400
                found = await at.raw(f"POST {PATH}/messages/5/send", body=start + name)
                assert found[0] == (400 if named else 401), (start[:8], name)


async def test_no_form_says_what_the_query_has_said__constraints_would_be_held_against_another_amount() -> None:
    chain = TRUST.chain("payments:send", known=KNOWN, constraints=(MaxAmount(max_amount=10.0, currency="EUR"),))
    form = part('form-data; name="amount"').replace(b"DELETE", b"50")
    async with scene() as at:
        for kind, body, status in (
            ("application/x-www-form-urlencoded", b"amount=50", 403),
            ("multipart/form-data; boundary=x", form, 403),
            ("", b"amount=50", 403),
            ("application/json", b'{"amount": 50}', 403),
            ("application/json", b'{"note": 50}', 200),
            ("text/csv", b"amount;50", 200),
            ("application/x-www-form-urlencoded", b"", 200),
        ):
            headers = (("Content-Type", kind),) if kind else ()
            sent = await at.send("POST", "/pay?amount=5", *headers, scope="payments:send", chain=chain, body=body)
            assert (sent[0], kind, body) == (status, kind, body), sent[1]


async def test_facts_of_the_body_are_held_against_constraints() -> None:
    chain = TRUST.chain("payments:send", known=KNOWN, constraints=(MaxAmount(max_amount=10.0, currency="EUR"),))
    async with scene() as at:
        for amount, status in (("5", 200), ("50", 403), ("5&AMOUNT=50", 403)):
            found = await at.send("POST", f"/pay?amount={amount}", scope="payments:send", chain=chain)
            assert found[0] == status


async def test_bodies_and_heads_are_bounded__and_a_proof_may_be_long() -> None:
    async with scene(max_request_bytes=1000) as at:
        assert (await at.send("POST", "/messages/5/send", scope="email:send", body=bytes(1001)))[0] == 413
        long = ("Ratify-Proof", "a" * 150_000)
        status, told = await at.raw(f"GET {PATH}/messages", long)
        assert (status, problem(told)["error"]) == (403, "ratify_invalid")
        assert (await at.raw("GET /other", long))[0] in (0, 400)
        assert (await at.raw(f"GET {PATH}/messages", ("Ratify-Proof", "a" * 250_000)))[0] in (0, 431)


@pytest.mark.holds("gateway/front/api_relay", "outcome")
async def test_an_answer_that_says_that_it_is_too_large_is_refused__and_that_is_on_record(tmp_path: Path) -> None:
    given: dict[str, Any] = {"record": RecordSettings("mail-gateway"), "max_response_bytes": 100}
    async with Log(tmp_path / "log.db") as log, scene(records=log.port, **given) as at:
        for size, status in ((100, 200), (101, 502)):
            got, text = await at.send("POST", "/messages/7/send", scope="email:send", body=b"a" * size)
            assert got == status
        assert "application/problem+json" in text
        assert problem(text)["detail"] == "Invalid upstream response"
        assert problem(text)["data"] == "the answer is larger than 100 bytes"
        assert "aaa" not in text
        assert len(at.api.seen) == 2
    outcomes = [each.outcome for each in records_in(tmp_path / "log.db") if each.outcome is not None]
    assert [each.status for each in outcomes] == ["ok", "upstream_invalid"]


@pytest.mark.holds("gateway/front/api_relay", "outcome")
async def test_a_request_has_a_decision_and_an_outcome_on_record(tmp_path: Path) -> None:
    recorded = RecordSettings("mail-gateway")
    async with Log(tmp_path / "log.db") as log, scene(records=log.port, record=recorded) as at:
        assert (await at.send("GET", "/messages/secret?q=secret"))[0] == 200
        assert (await at.raw(f"GET {PATH}/messages"))[0] == 401
    records = records_in(tmp_path / "log.db")
    assert [(each.phase, each.call.protocol, each.call.target) for each in records] == [
        ("decision", "http", "GET /messages/{id}"),
        ("outcome", "http", "GET /messages/{id}"),
        ("decision", "http", "GET /messages"),
    ]
    assert records[1].outcome == Outcome(status="ok", detail="HTTP 200")
    assert verified(tmp_path / "log.db").valid


async def test_where_the_api_or_the_store_is_away_a_client_is_told_so() -> None:
    class Broken(MemoryStore):
        async def look(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailable("gone")

    async with scene(store=Broken()) as at:
        status, told = await at.send("GET", "/messages")
        assert (status, problem(told)["code"]) == (503, -31003)
    async with scene() as at:
        at.api.__exit__(None, None, None)
        status, told = await at.send("GET", "/messages")
        assert (status, problem(told)["code"]) == (502, -32000)


@pytest.mark.holds("gateway/api_server")
async def test_after_a_reload_an_api_that_is_reached_as_before_keeps_its_connections__and_others_end() -> None:
    with EchoApi() as api:
        behind = HttpUpstream(f"http://127.0.0.1:{api.port}/base")
        other = HttpUpstream(f"http://127.0.0.1:{api.port}/other")

        def settings(at: HttpUpstream) -> list[Any]:
            return [api_settings(TRUST, ApiUpstream("http", RouteTable(ENTRIES), None, at), path=PATH)]

        app = create_app(settings(behind), store=MemoryStore(), revocations=Known())
        first = app.routes.apis[NAME]
        app.swap(app.prepare(settings(behind), app.routes.shared), 0)
        second = app.routes.apis[NAME]
        assert first.goes_on_in(second)
        app.swap(app.prepare(settings(other), app.routes.shared), 0)
        assert not second.goes_on_in(app.routes.apis[NAME])
        async with RunningGateway(app) as gateway:
            at = Scene(api, gateway.port)
            assert (await at.send("GET", "/messages"))[0] == 200
            assert api.seen[0][0].startswith("GET /other/messages ")


OWN = f"{GATEWAY}/{NAME}"
BELOW = {f"{route.split(' ')[0]} {PATH}{route.split(' ')[1]}": scope for route, scope in SCOPES.items()}


@pytest.mark.holds("client/http_apis", "assumed-scope", "challenge", "whole-body")
@pytest.mark.parametrize("routes", [None, BELOW])
async def test_an_agent_s_client_proves_each_request__and_signs_a_challenge_where_one_is_asked_for(
    tmp_path: Path, routes: dict[str, str] | None
) -> None:
    presenter = presenter_of(TRUST, tmp_path, "email:read", "email:send", *KNOWN)
    async with scene() as at, httpx2.AsyncClient(auth=AccreditedHttp(presenter, OWN, routes=routes)) as client:
        url = f"http://127.0.0.1:{at.port}{PATH}"
        assert (await client.get(f"{url}/messages?x=1")).status_code == 200
        assert (await client.get(f"{url}/messages?x=2")).status_code == 200
        sent = await client.post(f"{url}/messages/5/send", content=b"hello")
        assert (sent.status_code, sent.content) == (200, b"hello")
        assert (await client.delete(f"{url}/messages/5")).status_code == 200
        assert (await client.get(f"{url}/nothing")).status_code == 403
        assert [line.split(" ")[0] for line, _ in at.api.seen] == ["GET", "GET", "POST", "DELETE"]


@pytest.mark.holds("gateway/front/api_relay", "own-word")
@pytest.mark.parametrize("before", ["", 'Basic realm="x", '])
async def test_an_api_does_not_pass_for_the_gateway_that_refuses__so_that_a_request_is_made_again(
    tmp_path: Path, before: str
) -> None:
    presenter = presenter_of(TRUST, tmp_path, "email:read", "email:send")
    said = f'error="ratify_challenge_required", challenge="{"A" * 43}=", verifier="{OWN}", scope="email:send"'
    told = f'{before}rATIFY {said}, workspace="accredit/http/v1"'
    async with scene() as at, httpx2.AsyncClient(auth=AccreditedHttp(presenter, OWN, routes=BELOW)) as client:
        url = f"http://127.0.0.1:{at.port}{PATH}/messages"
        at.api.says = (401, {"WWW-Authenticate": told})
        answer = await client.get(url)
        assert (answer.status_code, "www-authenticate" in answer.headers, len(at.api.seen)) == (401, False, 1)
        at.api.says = (401, {"WWW-Authenticate": 'Basic realm="x"'})  # the API's own word passes
        assert (await client.get(url)).headers["www-authenticate"] == 'Basic realm="x"'


@pytest.mark.holds("client/http_apis", "next-delegation")
async def test_a_delegation_that_does_not_allow_a_request_does_not_keep_the_next_one_from_it(tmp_path: Path) -> None:
    write_key(tmp_path / "agent.key", TRUST.agent)
    scopes = ("payments:send", "custom:delete")
    little = TRUST.chain(*scopes, known=KNOWN, constraints=(MaxAmount(max_amount=10.0, currency="EUR"),))
    presenter = ProofPresenter(tmp_path / "agent.key", [little, TRUST.chain(*scopes, known=KNOWN)])
    async with scene() as at, httpx2.AsyncClient(auth=AccreditedHttp(presenter, OWN)) as client:
        url = f"http://127.0.0.1:{at.port}{PATH}"
        for made, (method, target) in enumerate(
            (("POST", "/pay?amount=50"), ("DELETE", "/messages/5"), ("POST", "/pay?amount=5")), 1
        ):
            answer = await client.request(method, url + target)
            assert answer.status_code == 200, answer.text
            assert len(at.api.seen) == made
    assert presenter.calls_proved == 2 + 2 + 1
    only = ProofPresenter(tmp_path / "agent.key", [little])
    async with scene() as at, httpx2.AsyncClient(auth=AccreditedHttp(only, OWN)) as client:
        refused = await client.post(f"http://127.0.0.1:{at.port}{PATH}/pay?amount=50")
        assert (refused.status_code, refused.json()["error"]) == (403, "ratify_constraint_denied")


@pytest.mark.holds("client/http_apis", "pinned")
async def test_nothing_is_signed_for_an_api_that_says_it_is_another(tmp_path: Path) -> None:
    presenter = presenter_of(TRUST, tmp_path, "email:read")
    async with scene() as at, httpx2.AsyncClient(auth=AccreditedHttp(presenter, "gateway/other")) as client:
        with pytest.raises(ProofRefused, match="nothing was signed"):
            await client.get(f"http://127.0.0.1:{at.port}{PATH}/messages")


@pytest.mark.holds("client/http_apis", "tries", "one-scope")
def test_an_api_that_asks_for_more_and_more_gets_a_few_proofs_of_one_scope(
    tmp_path: Path,
) -> None:
    proofs: list[bool] = []
    asks: list[tuple[str, str]] = []

    def hostile(request: httpx2.Request) -> httpx2.Response:
        proofs.append("ratify-proof" in request.headers)
        error, scope = asks[len(proofs) - 1]
        said = f'Ratify error="{error}", challenge="{"A" * 43}=", verifier="{OWN}", workspace="accredit/http/v1"'
        return httpx2.Response(401, headers={"WWW-Authenticate": f'Basic realm="x", {said}, scope="{scope}"'})

    write_key(tmp_path / "agent.key", TRUST.agent)
    presenter = ProofPresenter(tmp_path / "agent.key", [TRUST.chain("email:read", "email:send") for _ in range(3)])
    for given, found in (
        ([("missing_ratify_proof", "email:read"), ("ratify_scope_denied", "email:send")], [False, True]),
        ([("ratify_challenge_required", "email:read")] * 9, [False, True]),
        ([("missing_ratify_proof", "email:read"), *[("ratify_revoked", "email:read")] * 9], [False, *[True] * 3]),
        ([("missing_ratify_proof", "email:read"), *[("ratify_revoked", "email:send")] * 9], [False, True]),
        ([("ratify_challenge_required", "email:read"), ("ratify_revoked", "email:read")] * 9, [False, True] * 3),
        ([("missing_ratify_proof", "email:read")] * 9, [False, True]),
        ([("unknown_route", "email:read")], [False]),
    ):
        asks, proofs[:] = given, []
        with httpx2.Client(auth=AccreditedHttp(presenter, OWN), transport=httpx2.MockTransport(hostile)) as client:
            assert client.get("http://api.example/messages").status_code == 401
        assert proofs == found


def test_what_was_observed_leads_to_grants_that_are_enough_and_no_more__and_shows_what_nobody_named(
    tmp_path: Path,
) -> None:
    async def observed() -> None:
        recorded = RecordSettings(GATEWAY)
        reads = TRUST.chain("email:read")
        async with (
            Log(tmp_path / "log.db") as log,
            scene(policy={"observes": True}, records=log.port, record=recorded) as at,
        ):
            assert (await at.send("POST", "/messages/5/send", scope="email:send", chain=reads))[0] == 200
            assert (await at.send("GET", "/nobody/named/this", chain=reads))[0] == 200
            assert (await at.raw(f"PUT {PATH}/nor/this"))[0] == 200

    run(observed())
    suggester = Suggester(Deployment(GATEWAY, {NAME: Catalog(routes=ENTRIES)}))
    for each in records_in(tmp_path / "log.db"):
        suggester.add(each)
    found = suggester.suggestion()
    assert {word: each.targets for word, each in found.refused.items()} == {
        "route": {(NAME, "GET"): 1, (NAME, "PUT"): 1}
    }
    (grant,) = found.grants

    async def required() -> None:
        async with scene() as at:
            chain = TRUST.chain(*grant.scopes, "email:read", constraints=(grant.constraint,))
            assert (await at.send("POST", "/messages/5/send", scope="email:send", chain=chain))[0] == 200
            assert (await at.send("GET", "/messages", chain=chain))[0] == 403

    run(required())
