"""The data of a decided call in the form in which it is recorded or stored: params, results, certificates and proofs in
canonical JSON (RFC 8785), and their digests. No I/O.

`jsonrpc` has already accepted the text. It is decoded and written again by `accredit.canonical`. If a member is
repeated, the last one counts, as in most readers. Integers beyond 2^53 are treated as doubles. So two texts have the
same form if they differ only in such integers that are equal as doubles.

A proof holds what an agent signed for one call. Its text is its canonical form, and a record names it by the SHA-256 of
that text. The text contains the agent's key, so it can be verified on its own. A store keeps the proof packed: without
base64, and without the agent's key, which is also in the leaf of the call's certificate chain. A proof that is not
bound to a call has no `session_context` and no `context`. For a request that is not MCP's, the context has the path's
SHA-256 in place of the path.

A proof is shown to nobody before `held_until` (unix seconds, packed with it). By then it is useless to a thief: no
gateway accepts a challenge of that age, and the session id in the proof is no longer valid. Whether a proof is valid is
not judged here; `policy.evidence` does that.
"""

import hashlib
from binascii import b2a_base64
from collections.abc import Iterable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Annotated, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from accredit.attest.statements import Call, RecordedAuthority, RecordedDecision, RecordedToken
from accredit.base.steps import Steps, at_one_go
from accredit.canonical import canonical as canonical_form
from accredit.errors import AttestationError
from accredit.limits import MAX_SAFE_INTEGER

MAX_CANONICAL_RESULT_BYTES = 262_144
"""The most bytes of a result whose digest is that of its canonical form, which takes up to 0.1 s if the result is all
fractions. For a longer result, the digest is that of its original bytes."""


_Params = bytes | Raw | Mapping[str, Raw] | None
"""A request's `params`: their text, or their members if already split; None if absent."""


class RecordedParams(NamedTuple):
    """A request's params as recorded: the SHA-256 of their canonical form, without `_meta` and tokens. If full
    arguments are recorded, also that form itself."""

    sha256: str
    text: bytes | None = None


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes: 64 lower-case hex characters."""
    return hashlib.sha256(data).hexdigest()


def canonical(text: bytes | Raw) -> bytes:
    """Return the RFC 8785 form of a JSON text. Raises `AttestationError` if it has none (a lone surrogate)."""
    return _canonical(_parse(text))


def recorded_params(params: _Params, *, token_argument: bool, full: bool = False) -> RecordedParams:
    """Return a request's `params` as recorded: without `_meta` and, with `token_argument`, without `arguments._token`.
    Raises `AttestationError` for a text without a canonical form."""
    return at_one_go(record_params(params, token_argument=token_argument, full=full))


def record_params(params: _Params, *, token_argument: bool, full: bool = False) -> Steps[RecordedParams]:
    """Do as `recorded_params`, but in steps: between them, the caller can do other work."""
    if isinstance(params, Mapping):
        tree: object = {name: _parse(value) for name, value in params.items()}
    else:
        tree = _parse(b"{}" if params is None else params)
    yield
    _members(tree).pop("_meta", None)
    if token_argument:
        _members(_members(tree).get("arguments")).pop("_token", None)
    form = _canonical(tree)
    yield
    return RecordedParams(sha256_hex(form), form if full else None)


class RecordedChain(NamedTuple):
    """A proof's certificate chain as recorded: the canonical form of its certificates (a JSON array, leaf first), and
    the SHA-256 of that form."""

    sha256: str
    text: bytes


def recorded_chain(certificates: Iterable[bytes]) -> RecordedChain:
    """Return a proof's chain as recorded. `certificates` are JSON texts, leaf first."""
    form = canonical(b"[%b]" % b",".join(certificates))
    return RecordedChain(sha256_hex(form), form)


class CallDecision(Struct, frozen=True, kw_only=True):
    """A call that was decided. `call.params` is left empty. `received_ms` is in unix milliseconds.

    `policy_digest` identifies the configuration: the SHA-256 of its effective values (`config.digest`). `certificates`
    is the proof's chain, a JSON array, leaf first; its SHA-256 is `authority.chain_sha256`. `proof` is the packed proof
    (`KeptProof.packed`). `resume`, 32 bytes, is the key by which another process finds the call, if the call's answer
    arrives there. It is not in the record.
    """

    gateway: str
    call: Call
    params: RecordedParams
    decision: RecordedDecision
    received_ms: int
    policy_digest: str
    authority: RecordedAuthority | None = None
    token: RecordedToken | None = None
    certificates: bytes | None = None
    resume: bytes | None = None
    proof: bytes | None = None


def in_short(decided: CallDecision) -> CallDecision:
    """Return only the parts of a decision that the outcome's record needs, so that long arguments need not be kept."""
    return replace(decided, params=RecordedParams(decided.params.sha256), certificates=None, resume=None, proof=None)


def result_digest(result: bytes | Raw) -> dict[str, str]:
    """Return a result's digest as recorded: `{"rfc8785-sha256": hex}`. If the result is longer than
    `MAX_CANONICAL_RESULT_BYTES`, or has no canonical form, return `{"sha256": hex}` of its bytes."""
    if len(result) <= MAX_CANONICAL_RESULT_BYTES:
        try:
            return {"rfc8785-sha256": sha256_hex(canonical(bytes(result)))}
        except AttestationError:
            pass
    return {"sha256": hashlib.sha256(memoryview(result)).hexdigest()}


def _members(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _parse(text: bytes | Raw) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a JSON text with a canonical form") from None


def _canonical(tree: object) -> bytes:
    try:
        return canonical_form(tree, wide_integers="as doubles")
    except ValueError:
        raise AttestationError("not a JSON text with a canonical form") from None


WORKSPACES: Mapping[str | None, str] = {
    None: "",
    "http": "accredit/http/v1",
    "authorize": "accredit/authorize/v1",
    "a2a": "accredit/a2a/v1",
}
"""The labels to which proofs are bound, by a record's `protocol`: none for MCP's calls."""
PROTOCOLS_WITH_PATH = frozenset({"http", "authorize"})
"""Those of them whose proofs cover a path, in place of a target."""
PATH_DIGEST = "sha256:"
"""The prefix of the SHA-256 that replaces a requested path. The path may hold data that belongs in no record."""

_Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Time = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]


# Members are in the order of RFC 8785, as they are written.
class HybridPair(Struct, frozen=True, forbid_unknown_fields=True):
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

    agent_pub_key: HybridPair
    challenge: _Bytes32
    challenge_at: _Time
    challenge_sig: HybridPair
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


class RecordedProof(NamedTuple):
    """A proof as recorded: the SHA-256 of its text, and, if it is kept, the proof in its packed form."""

    sha256: str
    packed: bytes | None


def recorded_proof(proof: KeptProof, held_until: int | None) -> RecordedProof:
    """Return a proof as recorded. It is kept if `held_until` is given."""
    return RecordedProof(sha256_hex(proof.text()), None if held_until is None else proof.packed(held_until))


def _base64(data: bytes) -> bytes:
    return b'"%b"' % b2a_base64(data, newline=False)


def _halves(both: HybridPair) -> bytes:
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
    challenge_sig: HybridPair
    context: SignedContext | None
    session_context: bytes


class _Leaf(Struct, frozen=True):
    subject_pub_key: HybridPair


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
def _leaf_key(certificates: bytes) -> HybridPair:
    leaf, *_ = _read_leaf(certificates)
    return _read_key(leaf).subject_pub_key


def hold_left(packed: bytes | None, now: int) -> int:
    """Return for how many seconds a stored proof is still withheld at the time `now` (unix seconds); 0 if it is not."""
    try:
        return 0 if packed is None else max(0, _unpack(packed).held_until + 1 - now)
    except (ValueError, RecursionError):
        return 0  # damaged bytes reveal nothing
