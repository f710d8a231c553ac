"""Requests of a person's desk to a gateway elsewhere, made by the real code. No I/O."""

import secrets
from typing import Any

from tests.world.asked import URL, WORLD
from tests.world.delegations import NOW

from accredit.consent.desk_requests import DeskRequest, DeskSession
from accredit.keys import PrivateKeyFile, make_key

SESSION = make_key("agent", "session", NOW)


def a_session(person: PrivateKeyFile = WORLD.owner, until: int = NOW + 3_600) -> DeskSession:
    """A session's key, certified by the person."""
    return DeskSession(SESSION.public_key, until).signed(person.signer())


def a_request(op: str = "list", *, by: PrivateKeyFile = WORLD.owner, **changes: Any) -> DeskRequest:
    """A request that the person has signed; with `session=` that session's key has."""
    members: dict[str, Any] = {
        "gateway": URL,
        "nonce": secrets.token_hex(16),
        "at": NOW,
        "op": op,
        "person": WORLD.owner.id,
    }
    signer = SESSION if "session" in changes else by
    return DeskRequest(**members | changes).signed(signer.signer())
