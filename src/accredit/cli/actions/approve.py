"""Implements `accredit asked`, `approve` and `deny`, which talk to the running desk. `approve` shows an ask in the
terminal, and signs what the person chooses:

- The desk returns the ask as the agent signed it. It is verified again here, so the desk can't substitute another.
- Everything that the desk's page shows is shown (`ask_screen`). Values that are folded must be unfolded before the
  person can allow the ask.
- The menu's default is no. `--once` and `--like` replace the menu, and unfold everything.
- The key is always unlocked here, with the passphrase, even if the desk's key is already unlocked.
- The desk gets only the certificate, and passes it on.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from accredit.base.clock import unix_seconds
from accredit.cli.actions.ask_screen import AskScreen
from accredit.cli.actions.desk import ask_desk
from accredit.consent.answers import Answer, chain_allowed
from accredit.consent.asks import Ask, check_ask, read_ask
from accredit.consent.offers import Offer, choices
from accredit.consent.shown import in_one_line, in_quotes, one_word
from accredit.console.desk import Choice, signed_certificate
from accredit.console.names import known_names
from accredit.console.settings import find_key, read_settings
from accredit.console.views import Circumstances, Described, describe, preview
from accredit.errors import AccreditError, ConfigurationError, ConsentError, DeskError
from accredit.keys import AskPassphrase, load_signing_key
from accredit.keys.places import config_folder
from accredit.pins.shown import visible_text
from accredit.terminal import wording as words
from accredit.terminal.output import QUIET, print_result, print_table, say, tell

_MENU = {"d": None, "o": "once", "l": "like", "s": "show"}


def run_approve(*, code: str, once: bool, like: bool, passphrase: AskPassphrase) -> int:
    """Run `accredit approve`: show an ask, and sign if the person agrees; return the exit code. Raises
    `ConfigurationError`."""
    if once and like:
        raise ConfigurationError("--once and --like are two choices", "name one of them")
    key = "once" if once else "like" if like else None
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigurationError("`accredit approve` needs a terminal, where a person reads", "run it in a terminal")
    ask, known, state = _read_answer(ask_desk({"show": code}))
    if state != "pending":
        tell(f"error: this ask does not wait any more: it is {state}")
        return 1
    described, offers = describe(ask, known), choices(ask, is_new=known.is_new)
    screen = AskScreen()
    screen.ask(described, unfolded=key is not None)
    offer = _choose_offer(screen, described, offers, key)
    if offer is None:
        tell("nothing was signed")
        return _deny(code) if key is None and offers else 1
    screen.say("")
    screen.say("What you will sign", QUIET)
    screen.facts(preview(offer, ask, known, unix_seconds()))
    return _sign(ask, offer, passphrase)


def _read_answer(answer: Mapping[str, Any]) -> tuple[Ask, Circumstances, str]:
    """Read what the desk says about an ask, and verify the ask. Raises `DeskError`."""
    try:
        ask = read_ask(json.dumps(answer["ask"], ensure_ascii=False).encode("utf-8", "surrogatepass"))
        known = msgspec.convert(answer["known"], Circumstances)
        if answer["state"] == "pending":
            now = unix_seconds()
            check_ask(ask, min(now, ask.expires_at) if known.until > ask.expires_at else now)  # kept open, or not
    except (ConsentError, KeyError, msgspec.ValidationError) as error:
        raise DeskError("unknown", f"the desk shows no good ask: {error}") from None
    return ask, known, str(answer["state"])


def _choose_offer(screen: AskScreen, described: Described, offers: tuple[Offer, ...], key: str | None) -> Offer | None:
    """Return the chosen offer, or None. Raises `ConfigurationError` if this ask has no such offer."""
    by_key = {each.key: each for each in offers}
    if not offers:
        return None
    if key is not None:
        if key not in by_key:
            raise ConfigurationError("calls like it can't be allowed here: only this one", "say --once")
        return by_key["once" if key == "once" else "like"]
    is_folded, lines = described.folded, [f"[{each.key[0]}] {_words(each)}" for each in offers]
    while True:
        menu = (
            "[d]eny  " + ("" if is_folded else "[o]nce  " + ("[l]ike it  " if "like" in by_key else "")) + "[s]how all"
        )
        screen.menu(described, lines, menu)
        typed = click.prompt(menu, default="d", show_default=False, err=True).strip().lower()[:1]
        found = _MENU.get(typed)
        if found == "show":
            is_folded = False
            screen.fields(described, unfolded=True)
        elif found is None and typed == "d":
            return None
        elif found is not None and not is_folded and found in by_key:
            return by_key["once" if found == "once" else "like"]
        elif is_folded:
            screen.say("show all of it first: s")


def _words(offer: Offer) -> str:
    if offer.key == "once":
        return offer.words
    return f"{offer.words}, at most {offer.max_calls} calls in {offer.seconds // 60} minutes"


def _deny(code: str) -> int:
    ask_desk({"deny": code})
    say("denied")
    return 1


def _sign(ask: Ask, offer: Offer, passphrase: AskPassphrase) -> int:
    key = load_signing_key(find_key(read_settings(os.environ)), passphrase)
    now = unix_seconds()
    try:
        cert = signed_certificate(key.signer, ask, offer, Choice(offer.key), now)
        answer = Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,))
        chain_allowed(answer, ask, now)
        ask_desk({"deliver": answer.to_dict()})
    except DeskError:
        raise
    except AccreditError as error:
        tell(f"error: nothing was signed: {error}")
        return 1
    print_result({"state": "allowed", "code": ask.code, "certificate": cert.cert_id})
    say(f"allowed {ask.code}: the agent has the certificate {cert.cert_id}")
    return 0


def list_asks() -> int:
    """Print the pending asks; return the exit code. Raises `ConfigurationError`."""
    asks = ask_desk({"list": True})["asks"]
    print_result({"asks": asks})
    if not asks:
        say("Nobody is asking.")
    else:
        names = known_names(config_folder(os.environ))
        print_table(("code", "agent", "asks for", "gateway", "ends"), (_row(each, names) for each in asks))
    return 0


def deny_ask(code: str) -> int:
    """Deny an ask. Raises `ConfigurationError`, and `DeskError` if it doesn't exist."""
    denied = ask_desk({"deny": code})
    print_result(denied)
    say(f"denied {denied['code']}; the same call is denied for an hour")
    return 0


def _row(ask: dict[str, Any], names: Mapping[str, str]) -> list[str]:
    """Return an ask's row. A name that the person has not given is quoted."""
    if ask.get("kind") == "client":
        client, ends = ask["client"], words.relative(int(ask["expires"]), unix_seconds())
        called = f"“{in_quotes(client['name'])}” ({one_word(client['host']) or 'registered'})"
        return [ask["code"], called, f"{len(ask['tools'])} tools", one_word(ask["endpoint"]), ends]
    until, agent = int(ask["expires_at"]), ask["agent"]
    called = visible_text(names[agent["id"]]) if agent["id"] in names else f"“{in_quotes(agent['name'])}”"
    return [
        ask["code"],
        f"{called} ({agent['id'][:8]}…)",
        in_one_line(ask["method"], ask["target"], ask["params"]),
        one_word(ask["gateway"]["url"] or ask["gateway"]["id"]),
        words.relative(until, unix_seconds()),
    ]
