"""Implements `accredit keys rotate`: a person's statement, signed with both keys, that a new key replaces the old one.

- [people] Both keys are a human's, and they differ.
- [statement] The statement is verified before it is written, and no file is overwritten.
- [grants] Wherever the statement is accepted, every delegation that the old key signed ends. Those that the desk's
  journal on this machine knows, and that have not expired, are named: they have to be signed again.
"""

import os
from pathlib import Path

from accredit.base.clock import unix_seconds
from accredit.base.standard import STDOUT, is_for_programs
from accredit.console.journal import read_journal
from accredit.console.past import PastDecisions
from accredit.errors import ConfigurationError
from accredit.keys import AskPassphrase, load_signing_key
from accredit.keys.places import state_folder
from accredit.ratify import HybridPublicKey
from accredit.ratify.extras.statements import issue_key_rotation, key_rotation_fault
from accredit.terminal import wording as words
from accredit.terminal.output import check_out, print_json, say, tell, write_out


def run_rotate(*, old: Path, to: Path, out: Path, reason: str, passphrase: AskPassphrase) -> int:
    """Run `accredit keys rotate`; return the exit code. Raises `ConfigurationError`."""
    check_out(out)
    before, after = load_signing_key(old, passphrase), load_signing_key(to, passphrase)
    for path, key in ((old, before), (to, after)):
        if key.about.kind != "human":
            raise ConfigurationError(
                f"{path} is the key of {key.about.name}, which is of kind {key.about.kind}", "name a human's two keys"
            )
    statement = issue_key_rotation(before.signer, after.signer, reason, unix_seconds())
    fault = key_rotation_fault(statement)
    if fault is not None:
        raise ConfigurationError(f"{to} can't replace {old}: {fault}", "make another key with `accredit keys new`")
    again = _grants_of(before.about.public_key)
    write_out(out, statement.encode())
    if is_for_programs():
        print_json({"old": statement.old_id, "new": statement.new_id, "reason": reason, "sign_again": again})
        return 0
    tell(f"{statement.new_id} ({after.about.name}) replaces {statement.old_id}")
    tell("every delegation that the old key signed ends where this counts")
    put = tell if out == STDOUT else say
    for each in again:
        put(f"sign again: {each['certificate']} to {each['agent']}, until {each['ends']}")
    if not again:
        tell("the desk's journal on this machine knows of none that has not expired")
    return 0


def _grants_of(key: HybridPublicKey) -> list[dict[str, str]]:
    now = unix_seconds()
    entries = [each for each in read_journal(state_folder(os.environ)) if each["event"] == "allowed"]
    signed = [
        each
        for each in PastDecisions(entries, key).signed
        if isinstance(each["ends_at"], int) and each["ends_at"] > now
    ]
    return [
        {
            "certificate": str(each["cert"]),
            "agent": str(each.get("agent")),
            "ends": words.date_time(int(str(each["ends_at"]))),
        }
        for each in signed
    ]
