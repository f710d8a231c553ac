"""Lets in an app that speaks only OAuth, by the code that its gateway's page shows: on the page *Connect an app*, and
by `accredit connect-app`. I/O: the gateway elsewhere, and files in the person's folder.

- [by-code] An app is found at the gateways elsewhere by its code alone, with the person's signature. So nobody can make
  an app appear on another person's desk.
- [one] All these gateways are asked. Codes are short, so a false gateway can make up an app with the code that it is
  asked for. So if two gateways have an app with this code, none is shown.
- [told] The app has chosen its name itself, so the name is quoted. The hosts shown are those of URLs that were checked.
- [pinned] A signature is valid at any gateway that has the id named in the ask. So that id is pinned to the app's
  endpoint, as `connect` pins it (`client.pins`). An id that the person or their agents on this machine know under
  another URL is refused before anything is signed. Not checked: whether a gateway that is met first has the id that it
  claims.
- [nonce] On the page, an answer needs the nonce that came with the app. It works once. A yes needs the passphrase, as a
  delegation for days does.
- [kept] What is signed is written to a file (on the page: to the journal) before the gateway gets it. So it can be
  revoked, whatever happens to the answer.
- [digits] The six digits appear here alone, and the person who began on the gateway's page has to type them there. A
  gateway's answer that is not six digits is not shown.
"""

import asyncio
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from accredit.base.caching import RecentlyUsed
from accredit.base.files import make_folder
from accredit.consent.answers import Answer
from accredit.consent.asks import read_code
from accredit.consent.held import ClientAsk, chain_of, client_grant
from accredit.consent.shown import in_quotes, one_word
from accredit.console.api import Said, Work, text_in
from accredit.console.desk import Desk
from accredit.console.elsewhere import GatewayElsewhere
from accredit.console.names import set_name
from accredit.errors import AccreditError, ConfigurationError, DeskError
from accredit.keys import DelegationFile, write_file
from accredit.keys.places import APPS
from accredit.limits import SHORT_ID_CHARS
from accredit.ratify import DelegationCert, HybridSigner, issue_delegation

MAX_FOUND_APPS = 16
"""How many apps a desk has found that wait for an answer on its pages. A person answers one at a time."""

_DIGITS = re.compile("[0-9]{6}")
_NONCE_BYTES = 16


async def find_app(
    gateways: Sequence[GatewayElsewhere], code: str, signer: HybridSigner
) -> tuple[GatewayElsewhere, ClientAsk]:
    """Return the app's ask with this code, and the gateway that has it ([one]). Raises `DeskError`."""
    asked = await asyncio.gather(*(each.fetch(code, signer) for each in gateways), return_exceptions=True)
    found: list[tuple[GatewayElsewhere, ClientAsk]] = []
    problems: list[DeskError] = []
    for gateway, ask in zip(gateways, asked, strict=True):
        match ask:
            case ClientAsk():
                found.append((gateway, ask))
            case DeskError():
                problems.append(ask)
            case BaseException():
                raise ask
            case _:
                problems.append(DeskError("unknown", "this is the code of a call: `accredit approve` answers it"))
    if len(found) > 1:
        shown = " and ".join(gateway.url for gateway, _ in found)
        raise DeskError("bad_ask", f"{shown} show an app with this code, and one of them made it up: begin anew")
    if found:
        return found[0]
    raise problems[0]


def app_facts(ask: ClientAsk, gateway: str) -> list[tuple[str, str]]:
    """Return what a person has to know of an app before they let it in (but not for how long): names with their values
    ([told])."""
    client = ask.client
    goes = one_word(client.redirect_host)
    if client.returns_here:
        goes += " - a program on this computer: any program on this computer can claim this name"
    return [
        ("app", f"calls itself “{in_quotes(client.name)}”"),
        ("known by", one_word(client.host) or "an id that this gateway gave out: anybody can have one"),
        ("your browser goes to", goes),
        ("gateway", one_word(gateway)),
        ("which calls itself", f"{one_word(ask.gateway.id)} - what you sign is good at whichever gateway has this id"),
        ("endpoint", one_word(ask.endpoint)),
        *((f"tool {number}", _tool(each.name, each.title)) for number, each in enumerate(ask.tools, 1)),
        ("scopes", ", ".join(map(one_word, ask.scopes))),
    ]


def sign_for_app(ask: ClientAsk, signer: HybridSigner, folder: Path, now: int) -> DelegationCert:
    """Sign what lets an app in, and keep it in the person's folder ([kept]). `now` is in unix seconds. Raises
    `AccreditError`."""
    cert = issue_delegation(signer, client_grant(ask, secrets.token_hex(16), now), vocabulary=ask.scopes)
    chain_of(Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,)), ask, now)
    make_folder(folder / APPS)
    write_file(folder / APPS / f"{cert.cert_id}.json", DelegationFile((cert,)).encode() + b"\n", private=True)
    with suppress(ConfigurationError):  # as well as nobody's: the page shows the key's id then
        host, id = one_word(ask.client.host), cert.subject_id[:SHORT_ID_CHARS]
        set_name(folder, cert.subject_id, f"app of {host}, {id}" if host else f"registered app, {id}")
    return cert


async def let_in(gateway: GatewayElsewhere, ask: ClientAsk, cert: DelegationCert, signer: HybridSigner) -> str:
    """Bring a yes to the gateway; return the digits ([digits]). Raises `DeskError`."""
    answer = Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,))
    told = await gateway.ask("answer", signer, code=ask.code, answer=answer)
    digits = None if told is None else told.get("digits")
    if not isinstance(digits, str) or not _DIGITS.fullmatch(digits):
        raise DeskError("elsewhere", f"{gateway.url} did not take the answer: the page has ended, or was answered")
    return digits


async def turn_away(gateway: GatewayElsewhere, ask: ClientAsk, signer: HybridSigner) -> None:
    """Bring a no to the gateway: its page ends. Raises `DeskError`."""
    await gateway.ask("answer", signer, code=ask.code, answer=Answer(ask=ask.digest.hex(), decision="deny"))


class _Found(NamedTuple):
    gateway: GatewayElsewhere
    ask: ClientAsk
    nonce: str


class AppsPart:
    """The section of apps: finds one by its code, and lets it in or turns it away. `folder` is the person's. `check`
    raises an `AccreditError` unless the gateway of an app may be signed for ([pinned])."""

    def __init__(
        self, desk: Desk, gateways: Sequence[GatewayElsewhere], folder: Path, check: Callable[[ClientAsk], None]
    ) -> None:
        self._desk = desk
        self._gateways = gateways
        self._folder = folder
        self._check = check
        self._found = RecentlyUsed[str, _Found](MAX_FOUND_APPS)

    def routes(self) -> Mapping[str, Work]:
        """Return the routes."""
        return {"POST /api/apps": self._find, "POST /api/apps/{code}": self._decide} if self._gateways else {}

    def waiting(self) -> list[dict[str, Any]]:
        """Return the apps that were found, and wait for an answer."""
        found = (each.ask for each in self._found.values())
        return [{"code": ask.code, **ask.json()} for ask in found if ask.expires_at >= self._desk.now()]

    async def _find(self, said: Said) -> Said:
        try:
            code = read_code(text_in(said, "code"))
        except AccreditError as error:
            raise DeskError("unknown", str(error)) from None
        signer = await self._desk.keys.signer(f"Passphrase to look for the app with code {code}", each=False)
        gateway, ask = await find_app(self._gateways, code, signer)
        try:
            client_grant(ask, "", self._desk.now())
        except AccreditError as error:
            raise DeskError("refused", str(error)) from None
        found = _Found(gateway, ask, secrets.token_hex(_NONCE_BYTES))
        self._found.put(code, found)
        facts = app_facts(ask, gateway.url)
        return {"code": code, "ask": ask.digest.hex(), "nonce": found.nonce, "facts": facts, "until": ask.until}

    async def _decide(self, said: Said, code: str) -> Said:
        found = self._found.get(code)
        if found is None or text_in(said, "ask") != found.ask.digest.hex():
            raise DeskError("over", "this app was answered, or does not wait any more: type its code again")
        if not hmac.compare_digest(found.nonce.encode(), text_in(said, "nonce").encode("utf-8", "surrogatepass")):
            raise DeskError("nonce", "this page is not the one that shows the app")
        is_yes = said.get("decision") == "allow"
        if not is_yes and said.get("decision") != "deny":
            raise DeskError("decision", "a decision is allow or deny")
        self._found.forget(code)
        try:
            return await (self._allow(found) if is_yes else self._deny(found))
        except DeskError:
            self._found.put(code, found)
            raise

    async def _allow(self, found: _Found) -> Said:
        gateway, ask, _ = found
        text = f"Passphrase to let in {ask.code}: an app of {one_word(ask.client.host) or 'this gateway'}"
        signer = await self._desk.keys.signer(text, each=True)
        try:
            await asyncio.to_thread(self._check, ask)
            cert = await asyncio.to_thread(sign_for_app, ask, signer, self._folder, self._desk.now())
        except DeskError:
            raise
        except AccreditError as error:
            raise DeskError("not_signed", f"nothing was given out: {error}") from None
        self._desk.note("allowed", code=ask.code, ask=ask.digest.hex(), id=ask.id, certificate=cert.to_dict())
        return {"digits": await let_in(gateway, ask, cert, signer), "certificate": cert.cert_id}

    async def _deny(self, found: _Found) -> Said:
        if self._desk.keys.state in ("open", "unlocked"):  # else the page runs out by itself
            signer = await self._desk.keys.signer(f"Passphrase to turn away {found.ask.code}", each=False)
            await turn_away(found.gateway, found.ask, signer)
        return {}


def _tool(name: str, title: str) -> str:
    return f"{one_word(name)} - the server calls it “{in_quotes(title)}”" if title else one_word(name)
