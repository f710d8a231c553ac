"""What `accredit grants list|show` and `accredit names set` run: they read the desk's journal, and write its names."""

import os
import re
from typing import Any

from accredit.base.clock import unix_seconds
from accredit.cli.actions import wording as words
from accredit.cli.actions.output import find_by_prefix, print_facts, print_json, print_table, say
from accredit.consent import this_call_only
from accredit.console.journal import Entry, read_journal
from accredit.console.names import known_names, set_name
from accredit.keys.places import config_folder, state_folder
from accredit.pins.shown import shown
from accredit.ratify.constraints import read_constraint

_NEGATIVE = 1
_BEGINNING = re.compile("[0-9a-f]{8,31}")


def list_grants(*, as_json: bool) -> int:
    """Print the certificates of the journal, the latest first; return the exit code. Raises `ConfigurationError`."""
    grants = _grants()
    if as_json:
        print_json({"grants": [_members(each) for each in grants.values()]})
    elif not grants:
        say("Nothing was allowed at this desk yet.")
    else:
        names = known_names(config_folder(os.environ))
        print_table(
            ("certificate", "agent", "may", "at gateway", "ends"), [_row(each, names) for each in grants.values()]
        )
    return 0


def show_grant(cert_id: str, *, as_json: bool) -> int:
    """Print one of them. Raises `ConfigurationError`."""
    grants = _grants()
    described = {key: str(each.get("target")) for key, each in grants.items()}
    found = find_by_prefix(cert_id, described, "certificate", "`accredit grants list` shows those of this desk")
    if found is None:
        return _NEGATIVE
    grant = grants[found]
    if as_json:
        print_json(_members(grant))
        return 0
    names = known_names(config_folder(os.environ))
    now, times = unix_seconds(), (("signed", grant["at"]), ("ends", grant["ends_at"]))
    print_facts(
        [
            ("certificate", found),
            ("to", _name(grant.get("agent"), names)),
            ("at gateway", _name(grant.get("gateway"), names)),
            ("for", f"{shown(str(grant.get('method')))} {shown(str(grant.get('target')))}"),
            ("scopes", words.scopes(map(shown, grant.get("scope", ())))),
            ("constraints", words.constraints(map(read_constraint, grant.get("constraints", ())))),
            ("code", str(grant.get("code"))),
            *((name, f"{words.relative(at, now)} ({words.timestamp(at)})") for name, at in times),
        ]
    )
    return 0


def name_holder(holder_id: str, name: str, *, as_json: bool) -> int:
    """Give a key or gateway a name. The beginning of an agent's id will do, if the agent has asked here; exit code 1 if
    several have such an id. Raises `ConfigurationError`."""
    agents = {str(each["agent"]): "agent" for each in read_journal(state_folder(os.environ)) if each.get("agent")}
    if _BEGINNING.fullmatch(holder_id) and any(each.startswith(holder_id) for each in agents):
        found = find_by_prefix(holder_id, agents, "agent", "`accredit grants list --json` shows whole ids")
        if found is None:
            return _NEGATIVE
        holder_id = found
    set_name(config_folder(os.environ), holder_id, name)
    if as_json:
        print_json({"id": holder_id, "name": name or None})
    else:
        say(f"{holder_id} is called {name}" if name else f"{holder_id} has no name any more")
    return 0


def _grants() -> dict[str, Entry]:
    entries = [each for each in read_journal(state_folder(os.environ)) if each["event"] == "allowed"]
    whole = [each for each in entries if isinstance(each.get("cert"), str) and isinstance(each.get("ends_at"), int)]
    return {each["cert"]: each for each in reversed(whole)}


def _members(grant: Entry) -> dict[str, Any]:
    named = ("cert", "code", "agent", "gateway", "method", "target", "scope", "constraints")
    times = {"signed_at": words.timestamp(grant["at"]), "ends_at": words.timestamp(grant["ends_at"])}
    return {name: grant.get(name) for name in named} | times


def _row(grant: Entry, names: Any) -> list[str]:
    ends = words.relative(grant["ends_at"], unix_seconds())
    agent, gateway = (_name(grant.get(each), names) for each in ("agent", "gateway"))
    is_once = this_call_only([read_constraint(each) for each in grant.get("constraints", ())])
    may = shown(str(grant.get("target"))) + (", this call only" if is_once else "")
    return [grant["cert"][:8], agent, may, gateway, ends]


def _name(holder: object, names: Any) -> str:
    text = str(holder)
    return f"{shown(names[text])} ({shown(text[:8])}…)" if text in names else shown(text[:12])
