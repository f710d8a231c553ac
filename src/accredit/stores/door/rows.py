"""The table of the front door (the gateway's OAuth server), and its sealed rows. No I/O.

A row has a kind, a key, the key of the row that it belongs to (`parent`), its last second, and a sealed value. Keys are
digests: a reader of the table learns no client, no person and no token.

- [sealed] A value opens only with a key of the gateways' (`[cluster] keys_file`), and only in its own row: it is sealed
  for kind, key and parent. The key of a grant's row is derived from client, person and endpoint. So the agent's private
  key in it opens for these alone.
- [ends] An expired row is ignored. Its end is in a column and in the sealed value, and both are checked.
- [length] A value that is longer than a gateway writes is not read.

Not detected: a row that was restored to an earlier state. Somebody who does that still lacks the code or the token for
it.
"""

import hashlib
from enum import IntEnum
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from accredit.base.values import decodable
from accredit.errors import SealError
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.ports import AuthorizationCode, Grant
from accredit.rounds.sealing import KeyRing

MAX_DOOR_ROW_BYTES = 2 * MAX_PROOF_BUNDLE_BYTES
"""The most bytes of a sealed row: a chain as long as a proof may be, its key, and the data that the person was shown,
in base64. A longer one was not written by a gateway, and is not read."""

TABLE = (
    "CREATE TABLE door (kind {small}, key {bytes}, parent {bytes} NOT NULL, value {bytes} NOT NULL,"
    " ends {big} NOT NULL, PRIMARY KEY (kind, key))",
    "CREATE INDEX door_ends ON door (ends)",
    "CREATE INDEX door_parents ON door (kind, parent, ends)",
)
"""The table, with placeholders for the names of types."""

_VERSION = "d1."
_LABEL = b"accredit/door/v1"
_T = TypeVar("_T", bound=Struct)


class Kind(IntEnum):
    """The kind of a row."""

    CLIENT = 1
    GRANT = 2
    CODE = 3
    LOGIN = 4
    CHAIN = 5


@decodable
class KeptClient(Struct, frozen=True):
    """A client that registered."""

    document: bytes
    ends: int


@decodable
class KeptCode(Struct, frozen=True):
    """A code. `login` is the login that it gave, or b"" if it was not used yet."""

    given: AuthorizationCode
    ends: int
    login: bytes = b""


@decodable
class KeptLogin(Struct, frozen=True):
    """A login. `token` is the digest of its newest refresh token."""

    token: bytes
    code: bytes
    scopes: tuple[str, ...]
    ends: int


@decodable
class KeptChain(Struct, frozen=True):
    """A chain that was added to a grant."""

    chain: bytes
    ends: int


class Place(NamedTuple):
    """The place of a row: its kind, its key, and the key of the row that it belongs to."""

    kind: Kind
    key: bytes
    parent: bytes


class Seals:
    """Seals rows, and opens them."""

    def __init__(self, ring: KeyRing) -> None:
        """Take the gateways' keys; other keys are derived from them."""
        self._ring = ring.derived(_LABEL)

    def seal(self, place: Place, kept: Struct, nonce: bytes) -> bytes:
        """Return a row's sealed value. `nonce` is 12 bytes that were never used before."""
        return self._ring.lock(_VERSION, msgspec.msgpack.encode(kept), _binding(place), nonce).encode()

    def open(self, place: Place, value: object, of: type[_T], now: int) -> _T | None:
        """Return the content of a row; None if it was not sealed by these keys, or not for this place, or has
        expired."""
        if not isinstance(value, bytes):
            return None
        try:
            opened = self._ring.unlock(_VERSION, value.decode("ascii"), _binding(place))
            kept = msgspec.msgpack.decode(opened, type=of)
        except (SealError, UnicodeDecodeError, msgspec.MsgspecError, TypeError):
            return None  # TypeError: somebody has written a text where the key is
        return kept if kept.ends >= now else None  # type: ignore[attr-defined]


def client_key(client_id: str) -> bytes:
    """Return the key of a client's row."""
    return digest(b"client", client_id)


def person_key(subject: str) -> bytes:
    """Return the key of a person, to whom all their grants belong."""
    return digest(b"person", subject)


def grant_place(grant: Grant) -> Place:
    """Return the place of a grant."""
    return place_of(grant.client_id, grant.subject, grant.resource)


def place_of(client_id: str, subject: str, resource: str) -> Place:
    """Return the place of the grant of a client, a person and an endpoint."""
    return Place(Kind.GRANT, digest(b"grant", client_id, subject, resource), person_key(subject))


def digest(what: bytes, *texts: str) -> bytes:
    """Return 32 bytes that identify these texts in this order."""
    found = hashlib.sha256(_LABEL + b"\0" + what)
    for text in (text.encode("utf-8", "surrogatepass") for text in texts):
        found.update(len(text).to_bytes(8, "big") + text)
    return found.digest()


def _binding(place: Place) -> bytes:
    return hashlib.sha256(b"%b\0%d\0%d\0%b%b" % (_LABEL, place.kind, len(place.key), place.key, place.parent)).digest()
