"""A desk's request to a gateway on another machine, signed by its person or with a key that they certified. No I/O.

A request is decoded and checked in these steps. Any bytes at all lead either to a request or to one `DeskRequestError`.

- [members] It is at most `MAX_DESK_REQUEST_BYTES` of strict JSON with the members of `DeskRequest` and no others, each
  within its bound, and has what its `op` needs.
- [gateway] It names this gateway by its public URL. So no other gateway that got it can use it here.
- [time] Its time (by the desk's clock) is at most `DESK_REQUEST_SECONDS` from the gateway's time.
- [session] A key for a session was certified by the person, for `DESK_SESSION_SECONDS` at most, and is still good. It
  is good for `list` and `fetch` alone: a desk whose key is locked can wait for asks, and answers none.
- [signature] The person's key, or that of the session, has signed it: `accredit/desk/v1`, NUL, and the RFC 8785 form of
  the request without `signature`.

`read_desk_request` checks [members]; `check_place` checks [gateway] and [time], which cost nothing; `check_signed`
checks the rest, for the key of a person that the gateway knows. Not checked: whether the nonce was used before.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from accredit.base.ed25519 import is_signed
from accredit.base.values import decodable
from accredit.canonical import canonical
from accredit.consent.answers import Answer
from accredit.errors import DeskRequestError, WireError
from accredit.limits import MAX_CONSENT_ANSWER_BYTES, MAX_URI_LENGTH
from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, signature_fault
from accredit.ratify.wire import Integer, WireObject, tree

ASKS_PATH = "/.well-known/accredit/asks"
"""Where a gateway takes such requests."""
MAX_DESK_REQUEST_BYTES = MAX_CONSENT_ANSWER_BYTES + 32_768
"""Bytes of a desk's request: an answer, and 32 KiB for two keys, four signatures and the codes that a desk has."""
DESK_REQUEST_SECONDS = 30
"""How old a desk's request may be, or how far ahead its clock. Clocks of people's machines differ by some seconds."""
DESK_SESSION_SECONDS = 43_200
"""The longest time for which a person certifies a session's key: 12 hours, a working day."""
MAX_KNOWN_CODES = 100
"""The most codes that a desk says it has: more than anybody has waiting."""

_TAG, _SESSION_TAG = b"accredit/desk/v1\0", b"accredit/desk-session/v1\0"
_BY_SESSION = ("list", "fetch")
_NEEDED = {"list": set[str](), "fetch": {"code"}, "answer": {"code", "answer"}, "revoke": {"certificate"}}
_OPTIONAL = {"list": {"known"}}
_MEMBERS = ("code", "known", "answer", "certificate")
_LEVEL_OF_ANSWER = 2

_Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_Code = Annotated[str, Meta(pattern=r"^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{2}\Z")]


class DeskSession(Struct, frozen=True, forbid_unknown_fields=True):
    """A key that a person has certified until `until` (unix seconds) for lists and fetches of their desk."""

    public_key: HybridPublicKey
    until: Integer
    signature: HybridSignature = UNSIGNED

    def signed(self, person: HybridSigner) -> "DeskSession":
        """Return the session with the person's signature."""
        return replace(self, signature=person.sign(_session_bytes(self, person.id)))


@decodable
class DeskRequest(WireObject, frozen=True):
    """A request of a person's desk. `person` is the id of their key. Times are unix seconds.

    - `list` asks for the codes of the asks that wait for the person, once these differ from `known`.
    - `fetch` asks for the ask with a `code`.
    - `answer` brings the person's `answer` to the ask with a `code`.
    - `revoke` takes back the `certificate` with this id.
    """

    max_bytes: ClassVar[int] = MAX_DESK_REQUEST_BYTES

    gateway: Annotated[str, Meta(min_length=1, max_length=MAX_URI_LENGTH)]
    nonce: _Hex
    at: Integer
    op: Literal["list", "fetch", "answer", "revoke"]
    person: _Hex
    code: _Code | UnsetType = UNSET
    known: Annotated[tuple[_Code, ...], Meta(max_length=MAX_KNOWN_CODES)] | UnsetType = UNSET
    answer: Answer | UnsetType = UNSET
    certificate: _Hex | UnsetType = UNSET
    session: DeskSession | UnsetType = UNSET
    signature: HybridSignature = UNSIGNED

    def check(self, path: str, level: int) -> None:
        """Check that the members are those of this `op`, and the answer. Raises `WireError`."""
        given = {name for name in _MEMBERS if getattr(self, name) is not UNSET}
        if not _NEEDED[self.op] <= given or not given <= _NEEDED[self.op] | _OPTIONAL.get(self.op, set()):
            raise WireError(path, f"not the members of {self.op}")
        if self.op not in _BY_SESSION and self.session is not UNSET:
            raise WireError(f"{path}.session", f"good for {' and '.join(_BY_SESSION)} alone")
        if self.answer is not UNSET:
            self.answer.check(f"{path}.answer", level + _LEVEL_OF_ANSWER - 1)

    def signed(self, signer: HybridSigner) -> "DeskRequest":
        """Return the request, signed by the person's key or that of its session."""
        return replace(self, signature=signer.sign(_request_bytes(self)))


def read_desk_request(data: bytes) -> DeskRequest:
    """Decode a request ([members]). Raises `DeskRequestError`."""
    try:
        return DeskRequest.decode(data)
    except WireError as error:
        what = f"{error.path.removeprefix('DeskRequest.')}: {error.reason}"
        raise DeskRequestError(f"not a desk's request: {what}") from None


def check_place(request: DeskRequest, gateway: str, now: int) -> None:
    """Check that a request is for the gateway of this URL, and from now ([gateway] and [time]). Raises
    `DeskRequestError`."""
    if request.gateway != gateway:
        raise DeskRequestError("for another gateway")
    if abs(request.at - now) > DESK_REQUEST_SECONDS:
        raise DeskRequestError("not from now: compare the clocks")
    if request.session is not UNSET and not now <= request.session.until <= now + DESK_SESSION_SECONDS:
        raise DeskRequestError("the session is over, or longer than one may be")


def is_likely(request: DeskRequest, person: HybridPublicKey) -> bool:
    """Return whether the Ed25519 parts of a request's signatures are valid. This takes a third of the time of
    `check_signed`, which is called only for requests that pass this check."""
    signed = _signed_parts(request, person)
    return all(is_signed(each.message, each.signature.ed25519, each.key.ed25519) for each in signed)


def check_signed(request: DeskRequest, person: HybridPublicKey) -> None:
    """Check who has signed a request ([session] and [signature]); `person` is the key that its id names. Raises
    `DeskRequestError`."""
    for each in _signed_parts(request, person):
        fault = signature_fault(each.message, each.signature, each.key)
        if fault is not None:
            raise DeskRequestError(f"{each.otherwise}: {fault}")


class _Signed(NamedTuple):
    message: bytes
    signature: HybridSignature
    key: HybridPublicKey
    otherwise: str


def _signed_parts(request: DeskRequest, person: HybridPublicKey) -> Iterator[_Signed]:
    key, session = person, request.session
    if session is not UNSET:
        key, message = session.public_key, _session_bytes(session, person.id)
        yield _Signed(message, session.signature, person, "the person did not certify the session")
    yield _Signed(_request_bytes(request), request.signature, key, "not signed")


def _session_bytes(session: DeskSession, person: str) -> bytes:
    return _SESSION_TAG + canonical({"person": person, "public_key": tree(session.public_key), "until": session.until})


def _request_bytes(request: DeskRequest) -> bytes:
    members = cast("dict[str, Any]", tree(request))
    members.pop("signature", None)
    return _TAG + canonical(members)
