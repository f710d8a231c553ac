"""The state of one consent, which the person's browser carries from page to page, and the client's code at its end.
Only the last step asks the store.

- [own-browser] The state is sealed for the cookie of the browser that began, and for the one parameter that carries it.
  So a page that was forwarded to another browser can't be answered there, and another site can't send a form of its
  own.
- [known-again] Codes and the names of logins have a tag that only the gateways of one store can make. So an invented
  one is refused without asking the store.
- [new-key] A second consent to the same client makes a new key, and ends what was granted to the old one.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.base.values import decodable
from accredit.canonical import decode_base64url, encode_base64url
from accredit.errors import OAuthError, SealError
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.oauth.answers import code_redirect, error_redirect
from accredit.oauth.forms import MAX_FORM_BYTES, Parameters
from accredit.oauth.requests import Authorization
from accredit.ports import AuthorizationCode, Change, DoorStore
from accredit.ratify import DelegationCert, HybridPrivateKey, encode_delegation_cert
from accredit.ratify.hybrid import SEED_BYTES
from accredit.ratify.scopes import intersect
from accredit.rounds.sealing import NONCE_BYTES, KeyRing

CODE_SECONDS = 60
"""How long an authorization code is valid. A browser brings it to its client within a second or two."""
SECRET_BYTES = 32
"""Random bytes of a code, and of each half of a refresh token: nobody guesses them."""
SECRET_CHARS = 43
"""The characters of so many bytes in base64url."""
_DRAWN_BYTES = 16
"""Of a code, or a login's name: what is drawn. Nobody guesses 128 bits; the rest is the tag."""
BEGUN_SECONDS = 600
"""How long a key waits in the store for the consent that it was made for."""

_LABEL, _VERSION = b"accredit front door forms 1", "f1."
_TAGS = b"accredit front door tags 1"
_FORM_ROOM = 2_048
"""What a form has beside its sealed text: a button, digits, ticks."""


@decodable
class Flow(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The state that a page's form carries. `request` is the client's request; `ends` is in unix seconds.

    At a desk, `ask` is the key of the held ask, and `seeds` are the agent's; both are b"" until *Continue* was pressed.
    Where people log in, `secret` belongs to the login. After the login, `subject` and `name` say who the person is,
    `offered` which scopes they may pass on, and `checked` when their groups were read.
    """

    request: Authorization
    ends: int
    ask: bytes = b""
    seeds: bytes = b""
    secret: str = ""
    subject: str = ""
    name: str = ""
    offered: tuple[str, ...] = ()
    checked: int = 0


class SubmittedForm(NamedTuple):
    """A form that a browser sent: its parameters, the state that it carries, and the browser's address (`peer`)."""

    form: Parameters
    flow: Flow
    peer: str = ""

    @property
    def do(self) -> str:
        """The button that was pressed."""
        return self.form.get("do")


class Flows:
    """Seals and opens the state of consents. `browser` is the random value of a browser's cookie. `clock` returns unix
    seconds, `draw(n)` n random bytes."""

    def __init__(
        self,
        settings: OAuthSettings,
        door: DoorStore,
        ring: KeyRing,
        clock: Callable[[], int] = unix_seconds,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._settings = settings
        self.door = door
        self._ring = ring.derived(_LABEL)
        self._tags = ring.derived(_TAGS)
        self.clock = clock
        self.draw = draw

    def seal(self, flow: Flow, browser: str, field: str = "flow", *, most: int = MAX_FORM_BYTES - _FORM_ROOM) -> str:
        """Return the sealed flow as a parameter's value. Raises `OAuthError` if it has more than `most` characters."""
        sealed = self._ring.lock(
            _VERSION, msgspec.msgpack.encode(flow), _binding(browser, field), self.draw(NONCE_BYTES)
        )
        if len(sealed) > most:
            raise OAuthError("invalid_request", "the request is too long for a form")
        return sealed

    def read(self, form: Parameters, browser: str, field: str = "flow") -> SubmittedForm:
        """Open the state that a form carries ([own-browser]). Raises `OAuthError`."""
        try:
            data = self._ring.unlock(_VERSION, form.require(field), _binding(browser, field))
            flow = msgspec.msgpack.decode(data, type=Flow)
        except (SealError, msgspec.MsgspecError):
            raise OAuthError("access_denied", "this page was begun in another browser, or its cookie is gone") from None
        if flow.ends < self.clock():
            raise OAuthError("access_denied", "this page was open for too long: begin again in your app")
        return SubmittedForm(form, flow)

    def draw_tagged(self, kind: bytes) -> str:
        """Return a secret of `SECRET_CHARS` that `has_tagged` recognizes ([known-again])."""
        drawn = self.draw(_DRAWN_BYTES)
        return encode_base64url(drawn + self._tags.tag(kind + drawn)).decode()

    def has_tagged(self, kind: bytes, secret: str) -> bool:
        """Return whether a gateway of this store has drawn a secret of this kind."""
        try:
            decoded = decode_base64url(secret)
        except ValueError:
            return False
        drawn, tag = decoded[:_DRAWN_BYTES], decoded[_DRAWN_BYTES:]
        return self._tags.has_tagged(tag, kind + drawn)

    async def give_code(
        self, flow: Flow, subject: str, seeds: bytes, chain: Sequence[DelegationCert], change: Change
    ) -> str:
        """Store the certificates that were signed for the key of `seeds`; `change` may alter the grant further. Return
        the URL to which the browser is redirected, with the client's code ([new-key])."""
        now, door, request = self.clock(), self.door, flow.request
        text = b"[%b]" % b",".join(map(encode_delegation_cert, chain))
        ends = min(each.expires_at for each in chain)
        granted = {*intersect(each.scope for each in chain)}
        code = self.draw_tagged(b"code")
        begun = (request.client_id, subject, request.resource, seeds)
        grant = await door.begin(*begun, ends=now + BEGUN_SECONDS, now=now)
        if grant.seeds != seeds:
            await door.end_grant(grant)
            grant = await door.begin(*begun, ends=now + BEGUN_SECONDS, now=now)
        given = AuthorizationCode(
            request.client_id,
            request.redirect_uri,
            request.challenge,
            request.resource,
            tuple(each for each in request.scopes if each in granted),
        )
        digest = hashlib.sha256(code.encode()).digest()
        kept = await door.approve(
            grant,
            lambda one: msgspec.structs.replace(change(one), chain=text, ends=ends),
            digest,
            given,
            ends=now + CODE_SECONDS,
            now=now,
        )
        if not kept:  # somebody consented to the same client at the same moment
            return self.refusal(flow, "another consent to this client came between")
        return code_redirect(request.redirect_uri, self._settings.public_url, request.state, code)

    def refusal(self, flow: Flow, why: str) -> str:
        """Return the URL at which the client learns that nothing was granted."""
        error = OAuthError("access_denied", why)
        return error_redirect(flow.request.redirect_uri, self._settings.public_url, flow.request.state, error)


def key_of(seeds: bytes) -> HybridPrivateKey:
    """Return an agent's key from its two seeds."""
    return HybridPrivateKey(seeds[:SEED_BYTES], seeds[SEED_BYTES:])


def _binding(browser: str, field: str) -> bytes:
    return hashlib.sha256(f"{field} {browser}".encode()).digest()
