"""Asks that gateways hold, among them those of clients that want to act for a person; and when an answer allows one. No
I/O.

A client's ask is not signed. It is the gateway's word about a client that speaks only OAuth, and about a key that the
gateway has made for it. The person allows it by a certificate for that key, which is valid at that gateway alone.

An answer is used only if all of these hold (`chain_of`):

- [answer] it is an answer to this very ask, and allows it;
- [call] if the ask is about a call, the answer allows that call (`answers.chain_allowed`);
- [client] if the ask is a client's, the certificates are a chain for its key, with signatures that are valid now, and
  grant no scope that was not asked for. The leaf is only for tools that were asked for, at this gateway, and ends no
  later than was asked for.

Not checked: whether the person is a root of the gateway, and whether a certificate was revoked. Each call is judged for
that again.
"""

import hashlib
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from accredit.base.addresses import is_loopback_host
from accredit.base.caching import CachedProperty
from accredit.base.values import decodable
from accredit.consent.answers import Answer, chain_allowed
from accredit.consent.asks import MAX_ASK_BYTES, Ask, AskedGateway, Asker, code_of, read_ask
from accredit.consent.call import CALL, CallTerms
from accredit.errors import AskError, NotOffered, UnusableAnswer, WireError
from accredit.limits import MAX_IDENTIFIER_LENGTH_BYTES, MAX_SCOPE_LENGTH_BYTES, MAX_SCOPES_PER_CERT, MAX_URI_LENGTH
from accredit.ratify import DelegationCert, Extension, Grant, verify_chain
from accredit.ratify.scopes import DELEGATE, is_sensitive
from accredit.ratify.wire import Integer, WireObject, tree

MAX_CLIENT_TOOLS = 200
"""The most tools that a person lets a client call with one answer. Nobody reads more, and servers have some 20."""

MAX_CLIENT_SECONDS = 7_776_000
"""The longest time for which a client is let in: 90 days."""

_Url = Annotated[str, Meta(min_length=1, max_length=MAX_URI_LENGTH)]
_Text = Annotated[str, Meta(max_length=MAX_IDENTIFIER_LENGTH_BYTES)]


class AskingClient(Struct, frozen=True, forbid_unknown_fields=True):
    """A client of OAuth: its id, the name that it gives itself, and where the browser goes after the person's yes."""

    id: _Url
    name: _Text
    redirect_uri: _Url

    @property
    def host(self) -> str:
        """The host of the client's id, proved by the metadata document at that URL; "" for a registered client."""
        return _host(self.id)

    @property
    def redirect_host(self) -> str:
        """The host to which the browser goes, or the scheme of a program on the person's computer."""
        return _host(self.redirect_uri) or self.redirect_uri.partition(":")[0]

    @property
    def returns_here(self) -> bool:
        """Whether the browser goes to a program on the person's computer: any program there can claim to be it."""
        return not _host(self.redirect_uri) or is_loopback_host(_host(self.redirect_uri))


class AskedTool(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool: its name at the endpoint, and its title in the server's words."""

    name: Annotated[_Text, Meta(min_length=1)]
    title: _Text = ""


@decodable
class ClientAsk(WireObject, frozen=True, dict=True):
    """A client that asks to act for a person: to call `tools` at `endpoint` with `scopes`, until `until`. `agent` is
    the key that the gateway has made for it. Times are unix seconds; after `expires_at` nobody can answer."""

    max_bytes: ClassVar[int] = MAX_ASK_BYTES

    accredit_client_ask: Literal[1]
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    asked_at: Integer
    expires_at: Integer
    agent: Asker
    gateway: AskedGateway
    client: AskingClient
    endpoint: _Url
    tools: Annotated[tuple[AskedTool, ...], Meta(min_length=1, max_length=MAX_CLIENT_TOOLS)]
    scopes: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=MAX_SCOPE_LENGTH_BYTES)], ...],
        Meta(min_length=1, max_length=MAX_SCOPES_PER_CERT),
    ]
    until: Integer

    @CachedProperty
    def digest(self) -> bytes:
        """The SHA-256 of the ask in the form of RFC 8785. An answer names it."""
        return hashlib.sha256(self.text()).digest()

    @property
    def code(self) -> str:
        """The code that the page shows, and the person types at the desk."""
        return code_of(self.digest)

    @property
    def principals(self) -> tuple[str, ...]:
        """No principals: the ask is shown to whoever types its code."""
        return ()

    def json(self) -> dict[str, Any]:
        """Return the ask as a person, or a program in their place, is shown it."""
        client = self.client
        return {
            "kind": "client",
            "client": {
                "id": client.id,
                "name": client.name,
                "host": client.host,
                "redirect_host": client.redirect_host,
            },
            "endpoint": self.endpoint,
            "tools": [tree(each) for each in self.tools],
            "scopes": list(self.scopes),
            "expires": self.expires_at,
            "until": self.until,
        }


AnyAsk = Ask | ClientAsk


def read_held(data: bytes) -> AnyAsk:
    """Decode an ask about a call, or a client's. Raises `AskError`."""
    try:
        return ClientAsk.decode(data)
    except WireError as error:
        if b'"accredit_client_ask"' in data[:64]:
            raise AskError(f"not an ask: {error.path.removeprefix('ClientAsk.')}: {error.reason}") from None
    return read_ask(data)


def chain_of(answer: Answer, ask: AnyAsk, now: int) -> tuple[DelegationCert, ...]:
    """Return the certificates, leaf first, by which an answer allows an ask of either kind. `now` is in unix seconds.
    Raises `UnusableAnswer`."""
    if isinstance(ask, Ask):
        return chain_allowed(answer, ask, now)
    if answer.ask != ask.digest.hex():
        raise UnusableAnswer("the answer is to another ask")
    if answer.decision != "allow":
        raise UnusableAnswer("the answer does not allow the client to act")
    chain = answer.certificates
    if chain[0].subject_pub_key != ask.agent.public_key:
        raise UnusableAnswer("the delegation is for another key")
    result = verify_chain(chain, now=now, vocabulary=frozenset(ask.scopes))
    if not result.valid:
        raise UnusableAnswer(f"the delegation proves nothing: {result.error_reason}")
    if not set(chain[0].scope) <= set(ask.scopes) or chain[0].expires_at > ask.until:
        raise UnusableAnswer("the delegation is for more than was asked for")
    if not _is_within(chain[0], ask):
        raise UnusableAnswer("the delegation is not for certain calls at the gateway that asks")
    return chain


def client_grant(ask: ClientAsk, cert_id: str, now: int) -> Grant:
    """Return what a person signs to let a client in: these tools at this gateway, with these scopes, until the end
    that was asked for. Raises `NotOffered` if a gateway asks for more than a standing delegation may hold: a wildcard,
    the right to delegate, a scope that the vocabulary calls sensitive, or more than `MAX_CLIENT_SECONDS`."""
    if any(each.endswith("*") or each == DELEGATE or is_sensitive(each) for each in ask.scopes):
        raise NotOffered("the gateway asks for scopes that no app is given for days: nothing can be signed here")
    if not now < ask.until <= now + MAX_CLIENT_SECONDS:
        raise NotOffered("the gateway asks for longer than an app is let in: nothing can be signed here")
    terms = CallTerms(
        gateway=ask.gateway.id, method="tools/call", target=tuple(dict.fromkeys(each.name for each in ask.tools))
    )
    return Grant(
        subject=ask.agent.public_key,
        cert_id=cert_id,
        scope=ask.scopes,
        issued_at=now,
        expires_at=ask.until,
        constraints=(terms.constraint(),),
    )


def _is_within(leaf: DelegationCert, ask: ClientAsk) -> bool:
    """Return whether one of the leaf's constraints is for calls of asked tools at the gateway that asks."""
    names = {each.name for each in ask.tools}
    for each in leaf.constraints:
        if isinstance(each, Extension) and each.name == CALL:
            try:
                terms = CallTerms.read(each)
            except WireError:
                return False
            if terms.gateway == ask.gateway.id and terms.method == "tools/call" and names.issuperset(terms.target):
                return True
    return False


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
