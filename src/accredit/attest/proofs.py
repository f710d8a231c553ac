"""Proofs as they are kept: what an agent signed for one call. No I/O.

A proof's text is its RFC 8785 form, and a record names it by the SHA-256 of that text. The text contains the agent's
key, so it can be verified on its own. A store keeps the proof packed: without base64, and without the agent's key,
which is also in the leaf of the call's certificate chain. A proof that is not bound to a call has no `session_context`
and no `context`. Of a request that is not MCP's, the context has the path's SHA-256 in place of the path.

A proof is shown to nobody before `held_until` (unix seconds, packed with it). By then it is useless to a thief: no
gateway accepts a challenge of that age, and the session id in the proof is no longer valid.

Whether a proof is valid is not judged here; `policy.evidence` does that.
"""

from binascii import b2a_base64
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.attest.canonical import canonical
from accredit.attest.statements import RecordedAuthority
from accredit.errors import AttestationError
from accredit.limits import MAX_SAFE_INTEGER

WORKSPACES: Mapping[str | None, str] = {
    None: "",
    "http": "accredit/http/v1",
    "authorize": "accredit/authorize/v1",
}
"""The labels to which proofs are bound, by a record's `protocol`: none for MCP's calls."""
PATH_DIGEST = "sha256:"
"""What precedes the SHA-256 of a requested path, which stands in place of it: it may hold what belongs in no record."""

_Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Time = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]


# Members are in the order of RFC 8785, as they are written.
class Halves(Struct, frozen=True, forbid_unknown_fields=True):
    """The two halves of a hybrid key, or of a hybrid signature: Ed25519 and ML-DSA-65."""

    ed25519: bytes
    ml_dsa_65: bytes


class SignedContext(Struct, frozen=True, forbid_unknown_fields=True):
    """The parts of a call that a bound proof covers, by Ratify's names; "" for one that is absent. `payload_digest` has
    32 bytes, or none if absent."""

    agent_id: str
    invocation_id: str
    operation: str
    payload_digest: bytes
    requested_path: str
    required_scope: str
    resource_id: str
    session_id: str
    verifier_id: str
    workspace_id: str


class KeptProof(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A proof without its certificates. `challenge_at` is in unix seconds."""

    agent_pub_key: Halves
    challenge: _Bytes32
    challenge_at: _Time
    challenge_sig: Halves
    context: SignedContext | None = None
    session_context: bytes = b""

    def text(self) -> bytes:
        """Return the proof's text. It is written member by member for speed, as every recorded call needs one."""
        said = self.context
        context = b"" if said is None else b',"context":%b' % _context(said)
        session = b',"session_context":%b' % _base64(self.session_context) if self.session_context else b""
        return b'{"agent_pub_key":%b,"challenge":%b,"challenge_at":%d,"challenge_sig":%b%b%b}' % (
            _halves(self.agent_pub_key),
            _base64(self.challenge),
            self.challenge_at,
            _halves(self.challenge_sig),
            context,
            session,
        )

    def packed(self, held_until: int) -> bytes:
        """Return the proof in the packed form in which a store keeps it."""
        signed = self.challenge, self.challenge_at, self.challenge_sig, self.context, self.session_context
        return _pack(_Packed(held_until, *signed))


def _base64(data: bytes) -> bytes:
    return b'"%b"' % b2a_base64(data, newline=False)


def _halves(both: Halves) -> bytes:
    return b'{"ed25519":%b,"ml_dsa_65":%b}' % (_base64(both.ed25519), _base64(both.ml_dsa_65))


def _context(said: SignedContext) -> bytes:
    first = f'"agent_id":{_quoted(said.agent_id)},"invocation_id":{_quoted(said.invocation_id)}'
    operation = f'"operation":{_quoted(said.operation)},"payload_digest":'
    rest = (
        f'"requested_path":{_quoted(said.requested_path)},"required_scope":{_quoted(said.required_scope)}'
        f',"resource_id":{_quoted(said.resource_id)},"session_id":{_quoted(said.session_id)}'
        f',"verifier_id":{_quoted(said.verifier_id)},"workspace_id":{_quoted(said.workspace_id)}'
    )
    return b"{%b,%b%b,%b}" % (first.encode(), operation.encode(), _base64(said.payload_digest), rest.encode())


class _Packed(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    held_until: int
    challenge: _Bytes32
    challenge_at: _Time
    challenge_sig: Halves
    context: SignedContext | None
    session_context: bytes


class _Leaf(Struct, frozen=True):
    subject_pub_key: Halves


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Packed).decode
_read_leaf = msgspec.json.Decoder(list[Raw]).decode
_read_key = msgspec.json.Decoder(_Leaf).decode
_decode = msgspec.json.Decoder(KeptProof).decode


def decode_proof(text: bytes) -> KeptProof:
    """Read a proof's text. Members and white space may be in any order and number. Raises `AttestationError`."""
    try:
        proof = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a proof of a call") from None
    if proof.text() != canonical(text):  # base64 that others decode differently, or a repeated member
        raise AttestationError("a proof that is not written as it was signed")
    return proof


def kept_proof(
    authority: RecordedAuthority, packed: bytes | None, certificates: bytes | None
) -> KeptProof | Literal[b""] | None:
    """Return a call's proof, unpacked with the call's certificate chain. Return None if the record says that no proof
    was kept, and b"" if one should be there but is missing or unreadable."""
    if authority.proof != "kept":
        return None
    try:
        kept, key = _unpack(packed or b""), _leaf_key(certificates or b"[]")
    except (ValueError, RecursionError):  # msgspec's errors, of what is empty, and of what is no text
        return b""
    return KeptProof(key, kept.challenge, kept.challenge_at, kept.challenge_sig, kept.context, kept.session_context)


@lru_cache(16)
def _leaf_key(certificates: bytes) -> Halves:
    leaf, *_ = _read_leaf(certificates)
    return _read_key(leaf).subject_pub_key


def hold_left(packed: bytes | None, now: int) -> int:
    """Return for how many seconds a stored proof is still withheld at the time `now` (unix seconds); 0 if it is not."""
    try:
        return 0 if packed is None else max(0, _unpack(packed).held_until + 1 - now)
    except (ValueError, RecursionError):
        return 0  # damaged bytes reveal nothing
