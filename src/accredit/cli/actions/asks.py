"""Implements `accredit asked` and `accredit deny`, which talk to the running desk."""

import os
from collections.abc import Mapping
from typing import Any

from accredit.base.clock import unix_seconds
from accredit.cli.actions.desk import ask_desk, print_desk_refusal
from accredit.consent.shown import in_quotes, one_word
from accredit.console.names import known_names
from accredit.errors import DeskError
from accredit.keys.places import config_folder
from accredit.pins.shown import visible_text
from accredit.terminal import wording as words
from accredit.terminal.output import print_json, print_table, say


def list_asks(*, as_json: bool) -> int:
    """Print the pending asks; return the exit code. Raises `ConfigurationError`."""
    asks = ask_desk({"list": True})["asks"]
    if as_json:
        print_json({"asks": asks})
    elif not asks:
        say("Nobody is asking.")
    else:
        names = known_names(config_folder(os.environ))
        print_table(("code", "agent", "asks for", "gateway", "ends"), (_row(each, names) for each in asks))
    return 0


def deny_ask(code: str, *, as_json: bool) -> int:
    """Deny an ask; exit code 1 if it doesn't exist. Raises `ConfigurationError`."""
    try:
        denied = ask_desk({"deny": code})
    except DeskError as error:
        return print_desk_refusal(error)
    if as_json:
        print_json(denied)
    else:
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
        one_word(ask["target"]),
        one_word(ask["gateway"]["url"] or ask["gateway"]["id"]),
        words.relative(until, unix_seconds()),
    ]
