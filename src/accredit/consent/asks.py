"""An agent's ask: one call that a gateway refused, for a person to allow, signed by the agent. No I/O.

A call is one of MCP's, a request to an HTTP API, or a message to an agent (A2A): its `method` says which.

An ask is decoded and checked in these steps. Any bytes at all lead either to an ask or to one `AskError`.

- [members] It is at most `MAX_ASK_BYTES` of strict JSON with the members of `Ask` and no others, each within its bound
  (`ratify.wire`).
- [params] Its `params` are those common to all legs of a call (one leg is one request with its answer):
  - `_meta`, `inputResponses` and `requestState` are not among them;
  - `target` is the target that they name;
  - no two member names in them could be taken for the same name;
  - they nest at most `MAX_DEPTH` deep, and have at most `MAX_ASKED_PARAMS_BYTES` in the form of RFC 8785.
- [request] The `params` of a request to an HTTP API are its target, its body and the body's digest. If the body is
  shown, it has this digest. A body that is no text is not shown; only its digest and, by the agent's word, its size.
- [validity] It is valid now, and for no longer than `ASK_SECONDS` in all.
- [signature] The agent has signed it. Both signatures are over `accredit/ask/v1`, NUL, and the RFC 8785 form of the ask
  without `signature`.

`read_ask` checks [members] to [request], `check_ask` checks [validity] and [signature]. Not checked: whether the
gateway refused such a call, whether `refusal` and `server_says` are true, and whether a request is of the route that
is its `target`. The agent could have made them up, but only the person's key allows a call.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, cast
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from accredit.base.caching import CachedProperty
from accredit.base.values import decodable
from accredit.canonical import canonical
from accredit.consent.call import Digest, request_digest
from accredit.errors import AskError, FrameError, WireError
from accredit.jsonrpc.methods import AGENT_MESSAGES, AGENT_SKILL, TARGET_MEMBER
from accredit.jsonrpc.objects import check_same_names
from accredit.limits import (
    ASK_SECONDS,
    CLOCK_LEAD_SECONDS,
    MAX_AGENT_NAME_LENGTH_BYTES,
    MAX_DEPTH,
    MAX_IDENTIFIER_LENGTH_BYTES,
    MAX_PRINCIPALS,
    MAX_SCOPE_LENGTH_BYTES,
    MAX_SCOPES_PER_CERT,
    MAX_SERVER_WORDS_BYTES,
    MAX_TOLD_REASON_CHARS,
    MAX_URI_LENGTH,
)
from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, signature_fault
from accredit.ratify.strict_json import parse
from accredit.ratify.wire import Integer, Positive, WireObject, tree

MAX_ASK_BYTES = 98_304
"""The most bytes of an ask (96 KiB): its params, and some 10 KiB for a key, two signatures and texts about the call."""
MAX_ASKED_PARAMS_BYTES = 65_536
"""How many bytes of params a call may have for a person to be asked about it. People read a few pages, not a book."""


ASKABLE = ("tools/call", "resources/read", "prompts/get")
"""The methods of MCP's calls that an ask may be about."""

LEG_MEMBERS = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of `params` that belong to one leg of a call only, and so are not part of an ask."""

_TAG = b"accredit/ask/v1\0"
_CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_CHARS = 6
_MISREAD = str.maketrans("OIL", "011", " -\u2010\u2011\u2012\u2013\u2014")

_METHOD = rf"^(?:{'|'.join((*ASKABLE, *sorted(AGENT_MESSAGES)))}|[A-Z]{{1,32}})\Z"
"""The methods of calls that an ask may be about: those of MCP and A2A, and any of HTTP."""

_Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_Identifier = Annotated[str, Meta(min_length=1, max_length=MAX_IDENTIFIER_LENGTH_BYTES)]
_Scope = Annotated[str, Meta(max_length=MAX_SCOPE_LENGTH_BYTES)]


class Asker(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent that asks: the name that it gives itself, and its key."""

    name: Annotated[str, Meta(max_length=MAX_AGENT_NAME_LENGTH_BYTES)]
    public_key: HybridPublicKey


class AskedGateway(Struct, frozen=True, forbid_unknown_fields=True):
    """The gateway that refused the call: its verifier id, and its URL as the agent knows it."""

    id: _Identifier
    url: Annotated[str, Meta(max_length=MAX_URI_LENGTH)]


class AskedRefusal(Struct, frozen=True, forbid_unknown_fields=True):
    """Why the call was refused, in the gateway's words. `error` is the code for programs. `definition` is the pinned
    digest of the tool's definition, in lower-case hex. `required_scopes` are there if the call needs several scopes."""

    error: Annotated[str, Meta(max_length=64)]
    required_scope: Annotated[_Scope, Meta(min_length=1)]
    granted_scope: Annotated[tuple[_Scope, ...], Meta(max_length=MAX_SCOPES_PER_CERT)] = ()
    reason: Annotated[str, Meta(max_length=MAX_TOLD_REASON_CHARS)] = ""
    definition: Digest | UnsetType = UNSET
    required_scopes: Annotated[
        tuple[Annotated[_Scope, Meta(min_length=1)], ...], Meta(max_length=MAX_SCOPES_PER_CERT)
    ] = ()

    @property
    def scopes(self) -> tuple[str, ...]:
        """Every scope that the call needs."""
        return self.required_scopes or (self.required_scope,)


class ServerWords(Struct, frozen=True, forbid_unknown_fields=True):
    """The server's words about the tool. They are unverified: they may make a person more cautious, never less."""

    title: str = ""
    description: str = ""
    annotations: Annotated[dict[str, bool], Meta(max_length=8)] = {}


@decodable
class AskedRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request to an HTTP API: its target (path and query, as sent), its body if that is text, and the SHA-256 of the
    body. If the body is not text, the agent says how many bytes it has."""

    target: Annotated[str, Meta(pattern=r"^/[!-~]*\Z", max_length=MAX_URI_LENGTH)]
    body_sha256: Digest
    body: str | UnsetType = UNSET
    body_size: Positive | UnsetType = UNSET

    @property
    def fault(self) -> str | None:
        """What is wrong with it ([request]), or None."""
        if (self.body is UNSET) is (self.body_size is UNSET):
            return "has either a body or its size"
        if self.body is UNSET:
            return None
        is_same = hashlib.sha256(self.body.encode("utf-8", "replace")).hexdigest() == self.body_sha256
        return None if is_same else "the body has another digest"


@decodable
class Ask(WireObject, frozen=True, dict=True):
    """A call that an agent asks a person to allow. Times are unix seconds. `principals` are the ids of the people
    asked; if there are none, anyone with a key may answer. `params` are those common to all legs of the call.

    For a request to an HTTP API, `method` is its method, `target` its route (`GET /messages/{id}`), and `params` are an
    `AskedRequest`. For a message to an agent, `target` is the skill that it names, "" if it names none.
    """

    max_bytes: ClassVar[int] = MAX_ASK_BYTES

    accredit_ask: Literal[1]
    id: _Id
    asked_at: Integer
    expires_at: Integer
    agent: Asker
    gateway: AskedGateway
    principals: Annotated[tuple[_Id, ...], Meta(max_length=MAX_PRINCIPALS)]
    method: Annotated[str, Meta(pattern=_METHOD)]
    target: str
    params: dict[str, Any]
    refusal: AskedRefusal
    server_says: ServerWords | UnsetType = UNSET
    signature: HybridSignature = UNSIGNED

    def text(self) -> bytes:
        """Return the ask in the form of RFC 8785. Raises `WireError` if it has none."""
        try:
            return canonical(tree(self))
        except ValueError as error:
            raise WireError("Ask", str(error)) from None

    def check(self, path: str, level: int) -> None:
        """Check [params], and that the server's words are within their bound. Raises `WireError`."""
        _check_depth(self.params, f"{path}.params")
        if not LEG_MEMBERS.isdisjoint(self.params):
            raise WireError(f"{path}.params", "holds a member of a single leg")
        scopes = self.refusal.required_scopes
        if scopes and not (self.is_message and self.refusal.required_scope in scopes):
            raise WireError(f"{path}.refusal.required_scopes", "not those of a message")
        if self.is_request:
            self._check_request(path)
        elif self._named_target() != self.target:
            raise WireError(f"{path}.target", "not the one that params name")
        try:
            form = canonical(self.params)
            if len(form) > MAX_ASKED_PARAMS_BYTES:
                raise WireError(f"{path}.params", f"more than {MAX_ASKED_PARAMS_BYTES} bytes")
            check_same_names(Raw(form))
        except FrameError as error:
            raise WireError(f"{path}.params", error.detail) from None
        except ValueError as error:
            raise WireError(f"{path}.params", str(error)) from None
        if self.server_says is not UNSET and len(canonical(tree(self.server_says))) > MAX_SERVER_WORDS_BYTES:
            raise WireError(f"{path}.server_says", f"more than {MAX_SERVER_WORDS_BYTES} bytes")

    def _check_request(self, path: str) -> None:
        """Check [request], and that the route has the method. Raises `WireError`."""
        try:
            fault = msgspec.convert(self.params, AskedRequest).fault
        except msgspec.ValidationError:
            fault = "not those of a request"
        if fault is not None:
            raise WireError(f"{path}.params", fault)
        if not self.target.startswith(f"{self.method} /"):
            raise WireError(f"{path}.target", "not a route of this method")

    def _named_target(self) -> object:
        """Return the target that the params of a call of MCP, or of a message, name. Return None if they name none
        where they have to."""
        if self.is_message:
            metadata = self.params.get("metadata")
            return cast("dict[str, Any]", metadata).get(AGENT_SKILL, "") if isinstance(metadata, dict) else ""
        return self.params.get(TARGET_MEMBER[self.method]) or None

    @property
    def is_message(self) -> bool:
        """Whether the call is a message to an agent (A2A)."""
        return self.method in AGENT_MESSAGES

    @property
    def is_request(self) -> bool:
        """Whether the call is a request to an HTTP API."""
        return is_of_http(self.method)

    @CachedProperty
    def request(self) -> AskedRequest:
        """The request to an HTTP API. Only for an ask that `is_request`."""
        return msgspec.convert(self.params, AskedRequest)

    @CachedProperty
    def body(self) -> dict[str, Any] | list[Any] | None:
        """The body of a request as JSON, if it is an object or a list that all readers read alike, and without loss;
        else None. Only for an ask that `is_request`."""
        text = self.request.body
        if text is UNSET or not text.startswith(("{", "[")):
            return None
        with suppress(WireError, FrameError, ValueError, ArithmeticError, RecursionError):
            value = parse(text.encode(), MAX_ASKED_PARAMS_BYTES)
            _check_depth(value, "")
            check_same_names(Raw(text.encode()))
            json.loads(text, parse_float=_check_exact)
            return cast("dict[str, Any] | list[Any]", value)
        return None

    @CachedProperty
    def digest(self) -> bytes:
        """The SHA-256 of the ask in the form of RFC 8785. An answer names it."""
        return hashlib.sha256(self.text()).digest()

    @CachedProperty
    def params_sha256(self) -> str:
        """The digest of the call's params, in lower-case hex. A certificate for exactly this call names it."""
        if self.is_request:
            return request_digest(self.request.target, self.request.body_sha256).hex()
        return params_digest(self.params).hex()

    @property
    def content(self) -> list[Any]:
        """The data of the call, for a search by the names in it: arguments, a message's params, or the query and the
        body of a request. The API may read a body that is JSON as a form, so names of a form count, too."""
        if self.is_request:
            query = parse_qsl(self.request.target.partition("?")[2], keep_blank_values=True)
            form = parse_qsl(self.request.body, keep_blank_values=True)[1:] if self.request.body else []
            return [*(dict([pair]) for pair in (*query, *form)), self.body]
        return [self.params if self.is_message else self.arguments]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a call of MCP, by name; empty if the params hold no object of arguments."""
        arguments = self.params.get("arguments")
        return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}

    @property
    def code(self) -> str:
        """The ask's code for people, such as `7KQ4-M2`. It only identifies the ask: it is not a secret, and grants
        nothing."""
        return code_of(self.digest)

    @property
    def agent_id(self) -> str:
        """The id of the agent's key."""
        return self.agent.public_key.id

    @property
    def same_call(self) -> tuple[str, str, str, str, str]:
        """A key that is equal for two asks if they are for the same call: agent, gateway, method, target, digest of the
        params."""
        return (self.agent_id, self.gateway.id, self.method, self.target, self.params_sha256)

    def signed(self, signer: HybridSigner) -> "Ask":
        """Return the ask with the agent's signature. Raises `AskError` if it would be invalid."""
        signed = replace(self, signature=signer.sign(_sign_bytes(self)))
        read_ask(signed.text())
        return signed


def is_of_http(method: str) -> bool:
    """Return whether the method of an ask is one of HTTP."""
    return method not in TARGET_MEMBER and method not in AGENT_MESSAGES


def code_of(digest: bytes) -> str:
    """Return the code for people of an ask with this digest."""
    number = int.from_bytes(digest[:4]) >> 2
    text = "".join(_CODE_ALPHABET[number >> 5 * place & 31] for place in reversed(range(_CODE_CHARS)))
    return f"{text[:4]}-{text[4:]}"


def params_digest(params: Mapping[str, object]) -> bytes:
    """Return the digest of a call's params, without the members of a single leg. Raises `AskError` if they have no
    digest."""
    try:
        return hashlib.sha256(canonical(params)).digest()
    except ValueError as error:
        raise AskError(f"the params have no canonical form: {error}") from None


def read_ask(data: bytes) -> Ask:
    """Decode an ask ([members] and [params]). Raises `AskError`."""
    try:
        return Ask.decode(data)
    except WireError as error:
        raise AskError(f"not an ask: {error.path.removeprefix('Ask.')}: {error.reason}") from None


def check_ask(ask: Ask, now: int) -> None:
    """Check an ask's time and signature ([validity] and [signature]); `now` is in unix seconds. Raises `AskError`."""
    if not 0 < ask.expires_at - ask.asked_at <= ASK_SECONDS:
        raise AskError(f"an ask is good for {ASK_SECONDS} seconds at most")
    if ask.asked_at > now + CLOCK_LEAD_SECONDS:
        raise AskError("the ask comes from the future: compare the clocks")
    if ask.expires_at < now:
        raise AskError("the ask has expired")
    fault = signature_fault(_sign_bytes(ask), ask.signature, ask.agent.public_key)
    if fault is not None:
        raise AskError(f"the agent did not sign this ask: {fault}")


def read_code(text: str) -> str:
    """Return a code in its normal form. The text may have any case, blanks and dashes, O for 0, and I or L for 1.

    Raises `AskError` for a text that can be no code.
    """
    plain = text.upper().translate(_MISREAD) if len(text) <= 4 * _CODE_CHARS else ""
    if len(plain) != _CODE_CHARS or not set(plain) <= set(_CODE_ALPHABET):
        raise AskError("a code has six letters and digits, such as 7KQ4-M2")
    return f"{plain[:4]}-{plain[4:]}"


def _sign_bytes(ask: Ask) -> bytes:
    members = cast("dict[str, Any]", tree(ask))
    members.pop("signature", None)
    try:
        return _TAG + canonical(members)
    except ValueError as error:
        raise AskError(f"the ask has no canonical form: {error}") from None


def _check_exact(number: str) -> float:
    """Return the value of a JSON number with a fraction or an exponent. Raises `ValueError` if the float differs from
    the number as written, and `ArithmeticError` if the two can't be compared."""
    value = float(number)
    if Decimal(number) != Decimal(repr(value)):
        raise ValueError("a number with more digits than are shown")
    return value


def _check_depth(value: object, path: str) -> None:
    waiting = [value]
    for _ in range(MAX_DEPTH):
        waiting = [inner for item in waiting for inner in _inner(item)]
        if not waiting:
            return
    raise WireError(path, "nested too deep")


def _inner(item: object) -> list[Any]:
    if isinstance(item, dict):
        return list(cast("dict[str, Any]", item).values())
    return cast("list[Any]", item) if isinstance(item, list) else []
