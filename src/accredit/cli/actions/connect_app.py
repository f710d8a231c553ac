"""Implements `accredit connect-app`: lets in an app that speaks only OAuth, by the code that its page shows.

- The ask is fetched from the gateways that --at or desk.toml names, signed with the person's key: so it takes the
  passphrase first. A gateway that has no such code tells nobody anything.
- What the app is called is its own word, and is quoted. Hosts are those of the URLs that were checked.
- A signature is good at whichever gateway has the id that the ask names. So that id is pinned to the app's endpoint, as
  `connect` pins it (`client.pins`). One that the person or their agents on this machine know under another URL is
  refused before anything is signed, unless --gateway-id names it. Not checked: whether a gateway that is met first has
  the id that it claims.
- The default is no. A no is sent, too: the page then ends.
- The six digits appear here alone. Whoever began the page has to type them there.
"""

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from accredit.base.clock import unix_seconds
from accredit.client.pins import GatewayPin, PinsInUse, read_known
from accredit.consent.answers import Answer
from accredit.consent.asks import read_code
from accredit.consent.held import ClientAsk, chain_of, client_grant
from accredit.consent.shown import in_quotes, one_word
from accredit.console.elsewhere import GatewayElsewhere, read_addresses
from accredit.console.settings import find_key, read_settings
from accredit.console.unlock import KeyInFile
from accredit.errors import AccreditError, ConfigurationError, ConsentError, DeskError
from accredit.keys.places import KNOWN_GATEWAYS, agent_folders
from accredit.ratify import HybridSigner, issue_delegation
from accredit.terminal import wording as words
from accredit.terminal.layout import fact_rows
from accredit.terminal.output import print_json, say, show, tell
from accredit.terminal.passphrases import passphrase_source

_NEGATIVE = 1


def run_connect_app(
    *, code: str, at: Sequence[str], gateway_id: str, passphrase_file: Path | None, as_json: bool
) -> int:
    """Run `accredit connect-app`; return the exit code: 1 for a no. Raises `ConfigurationError`."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigurationError("`accredit connect-app` needs a terminal, where a person reads", "run it in one")
    settings = read_settings(os.environ)
    addresses = read_addresses(at or settings.at)
    if not addresses:
        raise ConfigurationError("no gateway is named", "name it: --at URL, or at = [URL] under [desk] in desk.toml")
    key = KeyInFile.read(find_key(settings))
    try:
        plain = read_code(code)
    except ConsentError as error:
        raise ConfigurationError(str(error), "type it as the page shows it") from None
    signer = key.open(passphrase_source(passphrase_file)(key.person).decode() if key.is_encrypted else None)
    gateways = [GatewayElsewhere(url, key.person.id, unix_seconds) for url in addresses]
    check = partial(check_gateway, settings.folder, named=gateway_id)
    try:
        return asyncio.run(_connect(gateways, plain, signer, check, as_json=as_json))
    except DeskError as error:
        tell(f"error: {error.reason}")
    except AccreditError as error:
        tell(f"error: {error}")
    return _NEGATIVE


async def _connect(
    gateways: Sequence[GatewayElsewhere],
    code: str,
    signer: HybridSigner,
    check: Callable[[ClientAsk], None],
    *,
    as_json: bool,
) -> int:
    gateway, ask = await find_app(gateways, code, signer)
    draft = client_grant(ask, secrets.token_hex(16), unix_seconds())
    show(fact_rows(app_facts(ask, gateway.url), None), err=True)
    if not click.confirm("Let it in", default=False, err=True):
        await gateway.ask("answer", signer, code=code, answer=Answer(ask=ask.digest.hex(), decision="deny"))
        tell("nothing was signed")
        return _NEGATIVE
    check(ask)
    cert = issue_delegation(signer, draft, vocabulary=ask.scopes)
    answer = Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,))
    chain_of(answer, ask, unix_seconds())
    told = await gateway.ask("answer", signer, code=code, answer=answer)
    if told is None or not isinstance(digits := told.get("digits"), str):
        raise DeskError("elsewhere", f"{gateway.url} did not take the answer: the page has ended, or was answered")
    if as_json:
        print_json({"code": code, "certificate": cert.cert_id, "digits": digits, **ask.json()})
    else:
        say(f"signed {cert.cert_id}. Type these digits into the page that shows {code}: {one_word(digits)}")
    return 0


async def find_app(
    gateways: Sequence[GatewayElsewhere], code: str, signer: HybridSigner
) -> tuple[GatewayElsewhere, ClientAsk]:
    """Return the app's ask with this code, and the gateway that has it. Raises `DeskError`."""
    problems: list[DeskError] = []
    for each in gateways:
        try:
            ask = await each.fetch(code, signer)
        except DeskError as error:
            problems.append(error)
            continue
        if isinstance(ask, ClientAsk):
            return each, ask
        problems.append(DeskError("unknown", "this is the code of a call: `accredit approve` answers it"))
    raise problems[0]


def check_gateway(folder: Path, ask: ClientAsk, *, named: str = "") -> None:
    """Pin the id of the gateway that asks to the app's endpoint. `named` is the id that the person names, "" for none.
    Raises `ProofRefused` for another id than is pinned there, and for one that is known under another URL; `DeskError`
    and `ConfigurationError` where the known gateways can't be looked at."""
    met = read_known(each / KNOWN_GATEWAYS for each in agent_folders(folder))
    try:
        GatewayPin(named, url=ask.endpoint, file=folder / KNOWN_GATEWAYS, met=met).meet(ask.gateway.id)
    except PinsInUse as error:
        raise DeskError("busy", str(error)) from None


def app_facts(ask: ClientAsk, gateway: str) -> list[tuple[str, str]]:
    """Return what a person has to know of an app before they let it in: names with their values."""
    client = ask.client
    goes = one_word(client.redirect_host)
    if client.returns_here:
        goes += " - a program on this computer: any program here can claim this name"
    return [
        ("app", f"calls itself “{in_quotes(client.name)}”"),
        ("known by", one_word(client.host) or "an id that this gateway gave out: anybody can have one"),
        ("your browser goes to", goes),
        ("gateway", one_word(gateway)),
        ("which calls itself", f"{one_word(ask.gateway.id)} - what you sign is good at whichever gateway has this id"),
        ("endpoint", one_word(ask.endpoint)),
        *((f"tool {number}", _tool(each.name, each.title)) for number, each in enumerate(ask.tools, 1)),
        ("scopes", ", ".join(map(one_word, ask.scopes))),
        ("ends", words.relative(ask.until, unix_seconds())),
    ]


def _tool(name: str, title: str) -> str:
    return f"{one_word(name)} - the server calls it “{in_quotes(title)}”" if title else one_word(name)
