"""The section `[oauth]`: the gateway as an authorization server for its own endpoints. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from accredit.base.addresses import without_slash
from accredit.oauth.uris import is_allowed, is_client_id
from accredit.ratify import DelegationCert, HybridSigner
from accredit.tokens.issued import public_jwk
from accredit.tokens.key_sets import KeySet, read_key_set

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from accredit.ports import People

REGISTERED_SECONDS = 7_776_000
"""How long a registered client is known that nobody has consented to: 90 days. Old hosts register once, and keep it."""


@dataclass(frozen=True, slots=True)
class IdpSettings:
    """The section `[oauth.idp]`. `signer` is the agent that signs delegations, under `chain` (leaf first), which a
    person signed. `groups` maps a group's name to the scopes that such a person may pass on."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    signer: HybridSigner = field(repr=False)
    chain: tuple[DelegationCert, ...] = field(repr=False)
    groups: Mapping[str, tuple[str, ...]]
    recheck_seconds: int = 86_400


PeopleFor = Callable[[IdpSettings], "People"]
"""Makes what asks an identity provider."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """How the gateway lets OAuth clients in. `key` signs access tokens. `public_url` is the issuer: an origin, without
    a slash at its end. `gateway_id` is that of the gateway, without a server's name. `clients` is the allow-list; None
    allows any client."""

    public_url: str
    gateway_id: str
    key: "EllipticCurvePrivateKey" = field(repr=False)
    consent: Literal["desk", "idp"] = "desk"
    registration: bool = False
    clients: tuple[str, ...] | None = None
    access_seconds: int = 900
    refresh_seconds: int = 2_592_000
    hold_seconds: int = 45
    private_documents: bool = False
    idp: IdpSettings | None = None
    keys: KeySet = field(init=False, repr=False, compare=False)
    """The public half of `key`."""

    def __post_init__(self) -> None:
        keys = msgspec.json.encode({"keys": [public_jwk(self.key.public_key())]})
        object.__setattr__(self, "keys", read_key_set(keys))

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it by TLS; else it is on loopback, for tests."""
        return self.public_url.startswith("https://")

    @property
    def provider(self) -> str:
        """The issuer at which people log in, as their grants name it; "" if they consent at their desks."""
        return self.idp.issuer if self.idp is not None else ""

    def endpoint(self, path: str) -> str:
        """Return the URL of the endpoint at a path: the `resource` of requests, and the audience of tokens."""
        return self.public_url + (without_slash(path) if path != "/" else "")

    def lets_in(self, client_id: str) -> bool:
        """Return whether a client may ask a person for consent: its id is valid, and is allowed here."""
        if not is_client_id(client_id, private=self.private_documents):
            return False
        return self.clients is None or is_allowed(client_id, self.clients)
