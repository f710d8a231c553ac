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
from collections.abc import Iterator, Sequence
from os import environ
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from accredit.asking.reaching import Reach, endpoint_of, read_reach
from accredit.config import load
from accredit.config.attest import gateway_id
from accredit.config.listen import url_here
from accredit.config.load import Loaded
from accredit.config.proofs import build_proofs
from accredit.config.servers import view, views
from accredit.config.tokens import build_key_sources, build_tokens, signs_for
from accredit.errors import ConfigurationError
from accredit.gateway.headers import host_allowed
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.methods import Era
from accredit.keys import AskPassphrase, SigningKey, load_signing_key, load_token_key, read_key
from accredit.ops.drill_agents import Agent, TokenMaker
from accredit.ops.drill_calls import Drill, Endpoint, ExpectedOutcome, Parties, Tried
from accredit.terminal.output import BAD, GOOD, Words, print_json, print_table, say, tell
from accredit.terminal.passphrases import passphrase_source
from accredit.tokens import KeySet, Source

DRILL_ANSWER_SECONDS = 10.0
"""How many seconds `accredit drill` waits for one answer. The gateway answers by itself, without asking a server."""


_NEGATIVE = 1
_SOURCES: tuple[Source, ...] = ("header", "meta", "argument")
_OFF = 'this gateway enforces nothing: proofs.mode is "off", and every call passes without one'
_OBSERVES = 'this gateway enforces nothing: proofs.mode is "observe", and what would be refused passes'
_REQUIRE = 'set proofs.mode = "required", and have it reloaded: accredit reload'


class DrillOptions(Struct, frozen=True, kw_only=True):
    """The options of one `accredit drill`."""

    issuer: Path
    config: Path | None
    url: str | None
    server: str | None
    token_key: Path | None
    reach: Reach
    passphrase: AskPassphrase


class _At(NamedTuple):
    """The calls made at one endpoint, in one era."""

    server: str
    era: Era
    tried: list[Tried]


class _Untried(NamedTuple):
    call: str
    why: str


def run_drill(
    *,
    issuer: Path,
    config: Path | None,
    url: str | None,
    server: str | None,
    token_key: Path | None,
    token_env: str | None,
    header: Sequence[str],
    timeout: float | None,
    passphrase_file: Path | None,
    as_json: bool,
) -> int:
    """Run `accredit drill`; return the exit code. Raises `ConfigurationError`."""
    request = DrillOptions(
        issuer=issuer,
        config=config,
        url=url,
        server=server,
        token_key=token_key,
        reach=read_reach(header, token_env, timeout),
        passphrase=passphrase_source(passphrase_file),
    )
    return drill(request, as_json=as_json)


def drill(request: DrillOptions, *, as_json: bool) -> int:
    """Make the calls and print the results; return the exit code. Raises `ConfigurationError`."""
    loaded = load(request.config, environ, {})
    mode = loaded.config.proofs.mode
    if mode == "off" and loaded.file is None:
        raise ConfigurationError("there is no configuration here", "name the gateway's with --config")
    if mode == "off":
        if as_json:
            print_json({"ok": False, "enforced": False, "problem": _OFF, "calls": [], "not_tried": []})
        tell(f"error: {_OFF}")
        tell(f"help: {_REQUIRE}")
        return _NEGATIVE
    if request.url is not None and not _is_url(request.url):
        raise ConfigurationError(
            "--url is not an http or https URL without a user name", "name the endpoint that `accredit serve` prints"
        )
    if any(name.lower() == "authorization" for name in request.reach.headers):
        raise ConfigurationError(
            "--header Authorization would go with each call, also with those that must have no token",
            "name the variable that holds the token: --token-env NAME",
        )
    tokens = build_tokens(loaded, os.environ)
    endpoints = list(_endpoints(loaded, request, tokens))
    maker = _maker(loaded, request, tokens)
    issuer = load_signing_key(request.issuer, request.passphrase)
    parties = _parties(issuer, maker, request.reach.token if tokens is not None else "")
    found = asyncio.run(_run_calls(endpoints, parties, request.reach, loaded.file))
    return _print_report(
        found, list(_list_untried(endpoints[0], parties)), enforced=mode == "required", as_json=as_json
    )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False


async def _run_calls(endpoints: Sequence[Endpoint], parties: Parties, reach: Reach, file: Path | None) -> list[_At]:
    found: list[_At] = []
    async with httpx2.AsyncClient(
        headers={"accept": "application/json, text/event-stream", **reach.headers},
        limits=httpx2.Limits(max_keepalive_connections=0),
        timeout=reach.timeout or DRILL_ANSWER_SECONDS,
        trust_env=False,
        verify=httpx2.create_ssl_context(),
    ) as client:
        await _check_running(client, endpoints[0].url, file)
        for endpoint in endpoints:
            for era in (Era.MODERN, Era.LEGACY):
                calls = Drill(client, endpoint, era, parties)
                await calls.run()
                found.append(_At(endpoint.server, era, calls.tried))
    return found


async def _check_running(client: httpx2.AsyncClient, url: str, file: Path | None) -> None:
    parts = urlsplit(url)
    try:
        async with client.stream("GET", f"{parts.scheme}://{parts.netloc}/healthz"):
            pass  # whatever it says
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        untrusted = "CERTIFICATE" in str(error)
        why = "its certificate is not trusted" if untrusted else type(error).__name__
        start = f"accredit serve --config {file}" if file is not None else "accredit serve"
        remedy = f"start it with `{start}`, or name its endpoint with --url"
        raise ConfigurationError(
            f"no gateway answers at {url} ({why})",
            "name the file of the authority that signed it: SSL_CERT_FILE" if untrusted else remedy,
        ) from None


def _endpoints(loaded: Loaded, request: DrillOptions, tokens: TokenSettings | None) -> Iterator[Endpoint]:
    """Yield the endpoints to call. Raises `ConfigurationError`, also if the issuer is not a root."""
    chosen = views(loaded) if request.server is None else [view(loaded, request.server)]
    proofs, issuer = build_proofs(chosen[0]), read_key(request.issuer).public()
    if proofs is None or issuer.public_key not in {*proofs.policy.roots, *proofs.policy.pins}:
        raise ConfigurationError(
            f"{request.issuer} ({issuer.id}) is no root of this gateway: it would refuse all that it signs",
            "name the key of one of proofs.roots with --issuer",
        )
    bases = [(each.server, gateway_id(each)) for each in chosen]
    if loaded.config.gateway.merge and request.server is None:
        bases.append(("", gateway_id(loaded)))
    gateway = loaded.config.gateway
    base = request.url or url_here(gateway)
    here = urlsplit(base).netloc
    known = request.url is not None or host_allowed(here.encode(), tuple(gateway.allowed_hosts))
    for server, id in bases:
        yield Endpoint(
            server=server,
            url=endpoint_of(base, server or None),
            host="" if known else next(iter(gateway.allowed_hosts), ""),
            gateway_id=f"{id}/{server}" if server else id,
            binding_required=proofs.policy.binding_required,
            tokens=next((each for each in _SOURCES if each in tokens.sources), None) if tokens is not None else None,
            token_required=tokens is not None and tokens.required,
            bind_agent=proofs.policy.bind_agent,
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


def _parties(issuer: SigningKey, maker: TokenMaker | None, token: str) -> Parties:
    agent, other = Agent(), Agent()
    for each in (agent, other):
        each.token = maker.token(each) if maker is not None else token
    return Parties(issuer=issuer.signer, agent=agent, other=other, maker=maker)


def _list_untried(endpoint: Endpoint, parties: Parties) -> Iterator[_Untried]:
    """Yield what is not tested."""
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


def _print_report(found: Sequence[_At], untried: Sequence[_Untried], *, enforced: bool, as_json: bool) -> int:
    """Print the results; return the exit code."""
    bad = [(at, each) for at in found for each in at.tried if each.verdict != "ok"]
    ok = enforced and not bad
    if as_json:
        calls = [_members(at, each) for at in found for each in at.tried]
        problem = {} if enforced else {"problem": _OBSERVES}
        not_tried = [each._asdict() for each in untried]
        print_json({"ok": ok, "enforced": enforced, **problem, "calls": calls, "not_tried": not_tried})
    else:
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
    return 0 if ok else _NEGATIVE


_WRONG = {
    "got_through": "got through",
    "refused": "refused, and must pass",
    "other_refusal": "refused for another reason, so that what it was to try was not tried",
    "no_answer": "no answer that could be understood",
}


def _members(at: _At, tried: Tried) -> dict[str, object]:
    answer = tried.answer
    return {
        "server": at.server or None,
        "era": at.era.value,
        "call": tried.name,
        "what": tried.what,
        "expected": {"passes": tried.expected.code is None, **tried.expected._asdict()},
        "happened": {
            "passed": answer.result is not None, "code": answer.code, "error": answer.error, "status": answer.status
        },
        "verdict": tried.verdict,
    }  # fmt: skip


def _cells(at: _At, tried: Tried, *, several: bool) -> tuple[Words | str, ...]:
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
    return (*server, at.era.value, tried.what, _in_words(tried.expected), Words(was, _style(ok)))


def _in_words(expected: ExpectedOutcome) -> str:
    return "passed" if expected.code is None else f"{expected.code} {expected.error}".rstrip()


def _style(ok: bool) -> str:
    return GOOD if ok else BAD
