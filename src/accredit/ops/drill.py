"""Implements `accredit drill`: calls the user's own gateway as an attacker would. I/O: HTTP; the configuration's files.

- What the gateway must do is read from its configuration, and tested on the running gateway. Any difference fails.
- The issuer's key must be one of the roots. It signs short-lived delegations for the gateway's own tools, to agents
  that exist only for this drill (`drill_agents`). No server is called (`policy.drill`). The drill changes only the
  audit log, which records each call.
- A refusal for the wrong reason fails: the check under test was never reached.
- What is not tested is listed, with the reason.
"""

import asyncio
import os
import shlex
from collections.abc import Iterator, Sequence
from os import environ
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2

from accredit.asking.reaching import Reach, endpoint_of
from accredit.config.attest import gateway_id
from accredit.config.listen import url_here
from accredit.config.load import Loaded, load
from accredit.config.proofs import build_proofs, vocabulary_of
from accredit.config.schema import Server
from accredit.config.servers import every_view, view
from accredit.config.tokens import build_key_sources, build_tokens, signs_for
from accredit.errors import ConfigurationError
from accredit.gateway.headers import host_allowed
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.methods import Era
from accredit.keys import AskPassphrase, SigningKey, load_signing_key, load_token_key, read_key
from accredit.ops.drill_agents import Agent, TokenMaker
from accredit.ops.drill_calls import Drill, DrilledCall, DrillParties, ExpectedOutcome
from accredit.ops.drill_roads import AgentRoad, ApiRoad, Endpoint, McpRoad, Road
from accredit.terminal.output import BAD, GOOD, Words, print_result, print_table, say, tell
from accredit.tokens.carried import Source
from accredit.tokens.key_sets import KeySet

DRILL_ANSWER_SECONDS = 10.0
"""How many seconds `accredit drill` waits for one answer. The gateway answers by itself, without asking a server."""


_SOURCES: tuple[Source, ...] = ("header", "meta", "argument")
_OFF = 'this gateway enforces nothing: proofs.mode is "off", and every call passes without one'
_OBSERVES = 'this gateway enforces nothing: proofs.mode is "observe", and what would be refused passes'
_REQUIRE = 'set proofs.mode = "required", and have it reloaded: accredit reload'


class DrillOptions(NamedTuple):
    """The options of one `accredit drill`."""

    issuer: Path
    config: Path | None
    url: str | None
    server: str | None
    token_key: Path | None
    reach: Reach
    passphrase: AskPassphrase


class _At(NamedTuple):
    """The calls made at one endpoint, in one era; `era` is the protocol's name for an HTTP API or an agent."""

    server: str
    era: str
    tried: list[DrilledCall]


class _Place(NamedTuple):
    """An endpoint to call, and who calls it. For an HTTP API or an agent, `api` are its settings."""

    endpoint: Endpoint
    parties: DrillParties
    api: Server | None


class _Untried(NamedTuple):
    call: str
    why: str


def drill(request: DrillOptions) -> int:
    """Make the calls and print the results; return the exit code. Raises `ConfigurationError`."""
    loaded = load(request.config, environ, {})
    mode = loaded.config.proofs.mode
    if mode == "off" and loaded.file is None:
        raise ConfigurationError("there is no configuration here", "name the gateway's with --config")
    if mode == "off":
        print_result({"ok": False, "enforced": False, "problem": _OFF, "calls": [], "not_tried": []})
        tell(f"error: {_OFF}")
        tell(f"help: {_REQUIRE}")
        return 1
    if request.url is not None and not _is_url(request.url):
        raise ConfigurationError(
            "--url is not an http or https URL without a user name", "name the endpoint that `accredit serve` prints"
        )
    if any(name.lower() == "authorization" for name in request.reach.headers):
        raise ConfigurationError(
            "--header Authorization would go with each call, also with those that must have no token",
            "name the variable that holds the token: --token-env NAME",
        )
    chosen = [(each, build_tokens(each, os.environ)) for each in _choose(loaded, request)]
    makers = [_maker(each, request, tokens) for each, tokens in chosen]
    signer = load_signing_key(request.issuer, request.passphrase)
    places = [
        _Place(
            _endpoint(each, loaded, request, tokens),
            _parties(signer, maker, request.reach.token if tokens is not None else ""),
            each.api,
        )
        for (each, tokens), maker in zip(chosen, makers, strict=True)
    ]
    found = asyncio.run(_run_calls(places, request.reach, loaded.file))
    return _print_report(found, list(_list_untried(places[0])), enforced=mode == "required")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False


async def _run_calls(places: Sequence[_Place], reach: Reach, file: Path | None) -> list[_At]:
    found: list[_At] = []
    async with httpx2.AsyncClient(
        headers={"accept": "application/json, text/event-stream", **reach.headers},
        limits=httpx2.Limits(max_keepalive_connections=0),
        timeout=reach.timeout or DRILL_ANSWER_SECONDS,
        trust_env=False,
        verify=httpx2.create_ssl_context(),
    ) as client:
        await _check_running(client, places[0].endpoint.url, file)
        for place in places:
            for road in _roads(client, place):
                calls = Drill(road, place.parties)
                await calls.run()
                found.append(_At(place.endpoint.server, road.name, calls.tried))
    return found


def _roads(client: httpx2.AsyncClient, place: _Place) -> list[Road]:
    if place.api is not None and place.api.protocol == "a2a":
        return [AgentRoad(client, place.endpoint)]
    if place.api is not None:
        return [ApiRoad(client, place.endpoint, place.api.path or "", place.api.proxy)]
    return [McpRoad(client, place.endpoint, era) for era in (Era.MODERN, Era.LEGACY)]


async def _check_running(client: httpx2.AsyncClient, url: str, file: Path | None) -> None:
    parts = urlsplit(url)
    try:
        async with client.stream("GET", f"{parts.scheme}://{parts.netloc}/healthz"):
            pass  # whatever it says
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        untrusted = "CERTIFICATE" in str(error)
        why = "its certificate is not trusted" if untrusted else type(error).__name__
        start = f"accredit serve --config {shlex.quote(str(file))}" if file is not None else "accredit serve"
        remedy = f"start it with `{start}`, or name its endpoint with --url"
        raise ConfigurationError(
            f"no gateway answers at {url} ({why})",
            "name the file of the authority that signed it: SSL_CERT_FILE" if untrusted else remedy,
        ) from None


def _choose(loaded: Loaded, request: DrillOptions) -> list[Loaded]:
    """Return the views to call, and the configuration itself for the merged endpoint. Raises `ConfigurationError`, also
    if the issuer is not a root."""
    chosen = [each for each in every_view(loaded) if request.server in (None, each.server)]
    chosen = chosen or [view(loaded, request.server or "")]
    proofs, issuer = build_proofs(chosen[0], vocabulary=vocabulary_of(loaded)), read_key(request.issuer).public()
    if proofs is None or issuer.public_key not in {*proofs.policy.roots, *proofs.policy.pins}:
        raise ConfigurationError(
            f"{request.issuer} ({issuer.id}) is no root of this gateway: it would refuse all that it signs",
            "name the key of one of proofs.roots with --issuer",
        )
    return [*chosen, loaded] if loaded.config.gateway.merge and request.server is None else chosen


def _endpoint(each: Loaded, loaded: Loaded, request: DrillOptions, tokens: TokenSettings | None) -> Endpoint:
    """Return the endpoint of a view. Raises `ConfigurationError`."""
    proofs, api = build_proofs(each, vocabulary=vocabulary_of(loaded)), each.api
    gateway, admin = loaded.config.gateway, loaded.config.admin
    base = request.url or url_here(gateway)
    here = urlsplit(base)
    known = request.url is not None or host_allowed(here.netloc.encode(), tuple(gateway.allowed_hosts))
    if api is None:
        url = endpoint_of(base, each.server or None)
    elif api.protocol != "authorize":
        url = f"{here.scheme}://{here.netloc}{api.path}"
    else:
        url = f"http://{admin.host}:{admin.port}{each.config.gateway.path}"
    id = gateway_id(each)
    return Endpoint(
        server=each.server,
        url=url,
        host="" if known else next(iter(gateway.allowed_hosts), ""),
        gateway_id=f"{id}/{each.server}" if each.server else id,
        binding_required=api is not None or (proofs is not None and proofs.policy.binding_required),
        tokens=next((source for source in _SOURCES if source in tokens.sources), None) if tokens is not None else None,
        token_required=tokens is not None and tokens.required,
        bind_agent=proofs is not None and proofs.policy.bind_agent,
    )


def _maker(loaded: Loaded, request: DrillOptions, tokens: TokenSettings | None) -> TokenMaker | None:
    """Return a token maker, or None if none is needed. Raises `ConfigurationError` if the gateway requires tokens and
    there is neither a key nor a token."""
    if tokens is None:
        return None
    if request.token_key is None:
        if loaded.config.tokens.bind_agent:
            raise ConfigurationError(
                "tokens.bind_agent ties tokens to agents, and those of a drill are new",
                "name the key that signs session tokens: --token-key KEY",
            )
        if tokens.required and not request.reach.token:
            raise ConfigurationError(
                "the gateway asks for tokens",
                "name the key that signs session tokens (--token-key KEY), or where one is (--token-env NAME)",
            )
        return None
    key, sources = load_token_key(request.token_key), build_key_sources(loaded)
    for issuer in tokens.issuers:
        keys = sources.get(issuer.issuer)
        if isinstance(keys, KeySet) and signs_for(issuer, key, keys):
            return TokenMaker(key, issuer.issuer, issuer.audience)
    raise ConfigurationError(
        f"{request.token_key} signs for none of tokens.issuers",
        "name the key whose public half is a public_key_file there",
    )


def _parties(issuer: SigningKey, maker: TokenMaker | None, token: str) -> DrillParties:
    agent, other = Agent(), Agent()
    for each in (agent, other):
        each.token = maker.token(each) if maker is not None else token
    return DrillParties(issuer=issuer.signer, agent=agent, other=other, maker=maker)


def _list_untried(place: _Place) -> Iterator[_Untried]:
    """Yield what is not tested."""
    endpoint, parties = place.endpoint, place.parties
    yield _Untried("revoked", "a delegation that was taken back: it would have to go on your revocation list")
    yield _Untried("challenge_ended", "a challenge of the gateway's after its end: that takes proofs.challenge_seconds")
    if not endpoint.binding_required:
        yield _Untried("unbound", 'a proof that is bound to no call: proofs.binding is "optional", so it is good')
    if endpoint.tokens is None:
        yield _Untried("tokens", "anything about tokens: they are off")
        return
    if not endpoint.token_required:
        yield _Untried("no_token", 'a call without a token: tokens.mode is "optional", so it passes')
    if parties.maker is None:
        yield _Untried("other_tokens", "tokens for others, of this issuer: only its key (--token-key) could sign them")
        if parties.other.token:
            yield _Untried("other_agents_state", "another agent's state: it is the token's, which both would show")
    elif not endpoint.bind_agent:
        yield _Untried("other_agents_token", "another agent's token: tokens.bind_agent is not set, so it is good")


def _print_report(found: Sequence[_At], untried: Sequence[_Untried], *, enforced: bool) -> int:
    """Print the results; return the exit code."""
    bad = [(at, each) for at in found for each in at.tried if each.verdict != "ok"]
    ok = enforced and not bad
    calls = [_members(at, each) for at in found for each in at.tried]
    problem = {} if enforced else {"problem": _OBSERVES}
    not_tried = [each._asdict() for each in untried]
    print_result({"ok": ok, "enforced": enforced, **problem, "calls": calls, "not_tried": not_tried})
    several = any(at.server for at in found)
    headings = (*(["server"] if several else []), "era", "call", "must be", "was")
    print_table(headings, (_cells(at, each, several=several) for at in found for each in at.tried))
    for each in untried:
        say(f"not tried: {each.why}")
    count = sum(len(at.tried) for at in found)
    say(f"ok: {count} calls, each as it must be" if not bad else f"BAD: {len(bad)} of {count} calls", _style(ok))
    for verdict, what in _WRONG.items():
        names = dict.fromkeys(each.name for _, each in bad if each.verdict == verdict)
        if names:
            tell(f"error: {what}: {', '.join(names)}")
    if not enforced:
        tell(f"error: {_OBSERVES}")
        tell(f"help: {_REQUIRE}")
    elif bad:
        tell("help: see whether the gateway goes by this configuration (accredit reload), and what it logs")
    return 0 if ok else 1


_WRONG = {
    "got_through": "got through",
    "refused": "refused, and must pass",
    "other_refusal": "refused for another reason, so that what it was to try was not tried",
    "no_answer": "no answer that could be understood",
}


def _members(at: _At, tried: DrilledCall) -> dict[str, object]:
    answer = tried.answer
    return {
        "server": at.server or None,
        "era": at.era,
        "call": tried.name,
        "what": tried.what,
        "expected": {"passes": tried.expected.code is None, **tried.expected._asdict()},
        "happened": {
            "passed": answer.result is not None, "code": answer.code, "error": answer.error, "status": answer.status
        },
        "verdict": tried.verdict,
    }  # fmt: skip


def _cells(at: _At, tried: DrilledCall, *, several: bool) -> tuple[Words | str, ...]:
    answer, ok = tried.answer, tried.verdict == "ok"
    if answer.result is not None:
        was = "passed"
    elif answer.code is None:
        was = f"no answer (HTTP {answer.status})" if answer.status else "no answer"
    else:
        was = _in_words(ExpectedOutcome(answer.code, answer.error))
    server = [at.server or "(all)"] if several else []
    if not ok:
        was += ": BAD"
    return (*server, at.era, tried.what, _in_words(tried.expected), Words(was, _style(ok)))


def _in_words(expected: ExpectedOutcome) -> str:
    return "passed" if expected.code is None else f"{expected.code} {expected.error}".rstrip()


def _style(ok: bool) -> str:
    return GOOD if ok else BAD
