"""Implements `accredit connect-app`: lets in an app that speaks only OAuth, by the code that its page shows.

- The ask is fetched from the gateways that --at or desk.toml names, by a request that the person's key signs. So the
  passphrase is needed first. A gateway without an ask for this code gives everybody the same answer, which reveals
  nothing.
- It shows, signs and keeps the same things as the desk's page (`console.apps`).
- The gateway's id is pinned to the app's endpoint, as `connect` pins it (`client.pins`), here and for that page. An
  id that the person or their agents on this machine know under another URL is refused, unless --gateway-id names it.
- The default is no. A no is sent, too: the page then ends.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from accredit.base.clock import unix_seconds
from accredit.client.pins import GatewayPin, PinsInUse, gateways_met
from accredit.consent.asks import read_code
from accredit.consent.held import ClientAsk, client_grant
from accredit.console.apps import app_facts, find_app, let_in, sign_for_app, turn_away
from accredit.console.elsewhere import GatewayElsewhere, read_addresses
from accredit.console.settings import find_key, read_settings
from accredit.errors import AccreditError, ConfigurationError, ConsentError, DeskError
from accredit.keys import AskPassphrase, load_signing_key
from accredit.keys.places import KNOWN_GATEWAYS
from accredit.ratify import HybridSigner
from accredit.terminal import wording as words
from accredit.terminal.layout import fact_rows
from accredit.terminal.output import print_result, say, show, tell


def run_connect_app(*, code: str, at: Sequence[str], gateway_id: str, passphrase: AskPassphrase) -> int:
    """Run `accredit connect-app`; return the exit code: 1 for a no. Raises `ConfigurationError`."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigurationError("`accredit connect-app` needs a terminal, where a person reads", "run it in one")
    settings = read_settings(os.environ)
    addresses = read_addresses(at or settings.at)
    if not addresses:
        raise ConfigurationError("no gateway is named", "name it: --at URL, or at = [URL] under [desk] in desk.toml")
    path = find_key(settings)
    try:
        plain = read_code(code)
    except ConsentError as error:
        raise ConfigurationError(str(error), "type it as the page shows it") from None
    key = load_signing_key(path, passphrase)
    gateways = [GatewayElsewhere(url, key.about.id, unix_seconds) for url in addresses]
    check = partial(check_gateway, settings.folder, named=gateway_id)
    try:
        return asyncio.run(_connect(gateways, plain, key.signer, check, settings.folder))
    except DeskError:
        raise
    except AccreditError as error:
        tell(f"error: {error}")
    return 1


async def _connect(
    gateways: Sequence[GatewayElsewhere],
    code: str,
    signer: HybridSigner,
    check: Callable[[ClientAsk], None],
    folder: Path,
) -> int:
    gateway, ask = await find_app(gateways, code, signer)
    client_grant(ask, "", unix_seconds())
    facts = [*app_facts(ask, gateway.url), ("ends", words.relative(ask.until, unix_seconds()))]
    show(fact_rows(facts, None), err=True)
    if not click.confirm("Let it in", default=False, err=True):
        await turn_away(gateway, ask, signer)
        tell("nothing was signed")
        return 1
    check(ask)
    cert = sign_for_app(ask, signer, folder, unix_seconds())
    digits = await let_in(gateway, ask, cert, signer)
    print_result({"code": code, "certificate": cert.cert_id, "digits": digits, **ask.json()})
    say(f"signed {cert.cert_id}. Type these digits into the page that shows {code}: {digits}")
    return 0


def check_gateway(folder: Path, ask: ClientAsk, *, named: str = "") -> None:
    """Pin, for the app's endpoint, the id of the gateway that asks. `named` is the id that the person names, "" for
    none. Raises `ProofRefused` for an id other than the pinned one, and for an id that is known under another URL.
    Raises `DeskError` and `ConfigurationError` if the known gateways can't be read."""
    pin = GatewayPin(named, url=ask.endpoint, file=folder / KNOWN_GATEWAYS, met=gateways_met(folder))
    try:
        pin.meet(ask.gateway.id)
    except PinsInUse as error:
        raise DeskError("busy", str(error)) from None
