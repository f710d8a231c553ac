"""Gateways that take tokens, and marked tokens to look for where none may surface. No I/O."""

import time
from typing import Any

from tests.world.issuer import AUDIENCE, IssuerKey, claims, key_set_text

from accredit.gateway.settings import TokenSettings
from accredit.net import IssuerKeys
from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import Issuer

ISSUER = "https://issuer.example"


class Tokened:
    """One issuer with one key, known to the gateway."""

    def __init__(self, **issuer: Any) -> None:
        self.key = IssuerKey()
        self.issuer = Issuer(ISSUER, AUDIENCE, **issuer)

    @property
    def key_sets(self) -> IssuerKeys:
        """Who has its public key."""
        return IssuerKeys({ISSUER: read_key_set(key_set_text(self.key))})

    def settings(self, **changes: Any) -> TokenSettings:
        """The gateway's settings."""
        return TokenSettings((self.issuer,), AUDIENCE, **changes)

    def token(self, key: IssuerKey | None = None, **changes: object) -> str:
        """A good token of this moment, with changes."""
        return (key or self.key).sign(claims(ISSUER, int(time.time()), **changes))

    def mark(self, token: str) -> bytes:
        """What is looked for: the signature alone gives a token away as well."""
        return token.rpartition(".")[2].encode("ascii")
