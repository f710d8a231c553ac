"""Implements `accredit grants list|show` and `accredit names set`: reads the desk's journal, and writes names.

Whether a certificate is revoked is looked up in the person's signed lists that `desk.toml` names. It is unknown if no
list is named, or one can't be read. The journal is a plain file, so only entries signed by the person's key are shown.
"""

import os
import re
from contextlib import suppress
from typing import Any, cast

from accredit.base.clock import unix_seconds
from accredit.consent.call import this_call_only
from accredit.console.journal import Entry, read_journal
from accredit.console.lists import list_places, people_in, revoked_ids, see_lists
from accredit.console.names import known_names, set_name
from accredit.console.past import PastDecisions
from accredit.console.settings import find_key, read_settings
from accredit.errors import ConfigurationError, WireError
from accredit.keys import read_key
from accredit.keys.places import config_folder, state_folder
from accredit.pins.shown import visible_text
from accredit.ratify.constraints import Constraint, read_constraint
from accredit.terminal import wording as words
from accredit.terminal.output import find_by_prefix, print_facts, print_result, print_table, say, tell

_ODD = "conditions that can't be read here"
_BEGINNING = re.compile("[0-9a-f]{8,31}")
_NAMED = ("agent", "gateway")


def list_grants() -> int:
    """Print the journal's certificates, newest first; return the exit code. Raises `ConfigurationError`."""
    grants, lists = _grants(), _Lists()
    print_result({"grants": [_members(each, lists) for each in grants.values()]})
    if not grants:
        say("Nothing was allowed at this desk yet.")
    else:
        names = known_names(config_folder(os.environ))
        rows = [_row(each, names, lists) for each in grants.values()]
        print_table(("certificate", "agent", "may", "at gateway", "ends"), rows)
    return 0


def show_grant(cert_id: str) -> int:
    """Print one certificate. Raises `ConfigurationError`."""
    grants, lists = _grants(), _Lists()
    described = {key: str(each.get("target")) for key, each in grants.items()}
    found = find_by_prefix(cert_id, described, "certificate", "`accredit grants list` shows those of this desk")
    if found is None:
        return 1
    grant = grants[found]
    print_result(_members(grant, lists))
    names = known_names(config_folder(os.environ))
    now, times = unix_seconds(), (("signed", grant["at"]), ("ends", grant["ends_at"]))
    print_facts(
        [
            ("certificate", found),
            ("to", _name(grant.get("agent"), names)),
            ("at gateway", _name(grant.get("gateway"), names)),
            ("for", f"{visible_text(str(grant.get('method')))} {visible_text(str(grant.get('target')))}"),
            ("scopes", words.scopes(map(visible_text, map(str, _get_list(grant, "scope"))))),
            ("constraints", words.constraints(conditions) if (conditions := _conditions(grant)) is not None else _ODD),
            ("code", visible_text(str(grant.get("code")))),
            *((name, f"{words.relative(at, now)} ({words.date_time(at)})") for name, at in times),
            ("taken back", lists.words(found)),
        ]
    )
    return 0


def name_holder(holder_id: str, name: str) -> int:
    """Name a key or gateway. For an agent that has asked here, and for the gateway that it asked about, a prefix of the
    id is enough; the exit code is 1 if it is ambiguous. Raises `ConfigurationError`."""
    entries = read_journal(state_folder(os.environ))
    met = {str(each[kind]).partition("/")[0]: kind for kind in _NAMED for each in entries if each.get(kind)}
    if _BEGINNING.fullmatch(holder_id) and any(each.startswith(holder_id) for each in met):
        found = find_by_prefix(holder_id, met, "key", "`accredit grants list --json` shows whole ids")
        if found is None:
            return 1
        holder_id = found
    set_name(config_folder(os.environ), holder_id, name)
    print_result({"id": holder_id, "name": name or None})
    say(f"{holder_id} is called {name}" if name else f"{holder_id} has no name any more")
    return 0


def _grants() -> dict[str, Entry]:
    """Return the journal's entries that the person's key has signed, newest first. Raises `ConfigurationError`, also if
    there is no key."""
    entries = [each for each in read_journal(state_folder(os.environ)) if each["event"] == "allowed"]
    if not entries:
        return {}
    person = read_key(find_key(read_settings(os.environ))).public()
    past = PastDecisions(entries, person.public_key)
    if past.unsigned:
        many = "1 entry has" if past.unsigned == 1 else f"{past.unsigned} entries have"
        tell(f"note: {many} no certificate that {person.name}'s key signed: what they say is not shown")
    return {each["cert"]: each for each in reversed(past.signed)}


class _Lists:
    """The person's revocation lists, as far as they can be read. A note on stderr names those that can't."""

    def __init__(self) -> None:
        settings = read_settings(os.environ)
        places, keys = list_places(settings), people_in(settings.folder)
        with suppress(ConfigurationError):  # a key that is named elsewhere, or none
            person = read_key(find_key(settings)).public()
            keys[person.id] = person.public_key
        self._seen = see_lists(places, keys.get)
        unread = [each for each in self._seen if each.fault and each.issuer_id in ("", *keys)]  # others' are not these
        self._is_whole = bool(places) and not unread
        for each in unread:
            tell(f"note: the revocation list in {each.where}: {each.fault}")

    def has(self, cert_id: str) -> bool | None:
        """Return whether a certificate is revoked; None if that is unknown."""
        return True if cert_id in revoked_ids(self._seen) else False if self._is_whole else None

    def words(self, cert_id: str) -> str:
        """Return in words whether a certificate is revoked."""
        found = next((each for each in self._seen if not each.fault and cert_id in each.revoked), None)
        if found is not None:
            return f"yes, by the list in {found.where} (as of {words.date_time(found.updated_at)})"
        return "no" if self._is_whole else "not known: desk.toml names no revocation list that can be read"


def _members(grant: Entry, lists: _Lists) -> dict[str, Any]:
    named = ("cert", "code", "agent", "gateway", "method", "target", "scope", "constraints")
    times = {"signed_at": words.date_time(grant["at"]), "ends_at": words.date_time(grant["ends_at"])}
    return {name: grant.get(name) for name in named} | times | {"taken_back": lists.has(grant["cert"])}


def _row(grant: Entry, names: Any, lists: _Lists) -> list[str]:
    ends = "taken back" if lists.has(grant["cert"]) else words.relative(grant["ends_at"], unix_seconds())
    agent, gateway = (_name(grant.get(each), names) for each in ("agent", "gateway"))
    is_once = this_call_only(_conditions(grant) or ())
    may = visible_text(str(grant.get("target"))) + (", this call only" if is_once else "")
    return [visible_text(grant["cert"][:8]), agent, may, gateway, ends]


def _get_list(grant: Entry, name: str) -> list[object]:
    found: object = grant.get(name)
    return cast("list[object]", found) if isinstance(found, list) else []


def _conditions(grant: Entry) -> list[Constraint] | None:
    """Return the constraints of a certificate; None if they can't be read."""
    try:
        return [read_constraint(each) for each in grant.get("constraints", ())]
    except (WireError, TypeError, ValueError, RecursionError):
        return None


def _name(holder: object, names: Any) -> str:
    text = str(holder)
    return f"{visible_text(names[text])} ({visible_text(text[:8])}…)" if text in names else visible_text(text[:12])
