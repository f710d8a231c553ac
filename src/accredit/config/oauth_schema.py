"""The keys of `[oauth]` and `[oauth.idp]`: names, types, defaults and what each means. No I/O."""

from typing import Annotated, Literal

from msgspec import Meta

from accredit.config.section import Section
from accredit.config.values import ClientPattern, Name, PolicyFile, PublicUrl, Scope, Secret, SecretFile, TokenUrl

MAX_ACCESS_SECONDS = 3600
"""The most that `access_seconds` can be set to. Clients renew their tokens unasked, so a longer life wins
nothing."""
MAX_REFRESH_DAYS = 365
"""The most that `refresh_days` can be set to: nobody remembers for longer what they consented to."""
MAX_GUEST_HOLD_SECONDS = 300
"""The most that `hold_seconds` can be set to: hosts wait for a call for five minutes at most."""
MAX_RECHECK_HOURS = 168
"""The most that `recheck_hours` of `[oauth.idp]` can be set to: a week, in which somebody who has left keeps access."""


class OAuthIdp(Section, frozen=True):
    """`[oauth.idp]`: the identity provider where people log in, and what they may pass on."""

    issuer: Annotated[TokenUrl, "the provider, exactly as in its iss"]
    client_id: Annotated[Name, "what the gateway is called there"]
    client_secret: Annotated[Secret, 'the gateway\'s secret there: { env = "NAME" }, or { file = "NAME" } of mode 0600']
    key_file: Annotated[SecretFile, "the private key of the agent that signs delegations: never attest.key_file"]
    delegation: Annotated[
        PolicyFile, "a delegation from a person to that key, which it may pass on (identity:delegate)"
    ]
    groups: Annotated[
        dict[str, list[Scope]], "the scopes that people of a group may pass on, by the provider's names of groups"
    ] = {}
    recheck_hours: Annotated[
        int, Meta(ge=1, le=MAX_RECHECK_HOURS), "the number of hours after which a person's groups are read again"
    ] = 24


class OAuth(Section, frozen=True):
    """`[oauth]`: whether hosts that speak only OAuth are let in, and who consents to that."""

    enabled: Annotated[bool, "whether the gateway is an authorization server for its endpoints"] = False
    public_url: Annotated[PublicUrl | None, "its URL as clients know it: https, or http on loopback"] = None
    consent: Annotated[Literal["desk", "idp"], '"desk": people say yes at their desks, or "idp": they log in'] = "desk"
    registration: Annotated[bool, "whether clients without a metadata document may register"] = False
    clients: Annotated[
        list[ClientPattern] | None, "a list of clients' ids that are let in, such as https://claude.ai/*; else all are"
    ] = None
    access_seconds: Annotated[
        int, Meta(ge=60, le=MAX_ACCESS_SECONDS), "the number of seconds that an access token is good for"
    ] = 900
    refresh_days: Annotated[
        int, Meta(ge=1, le=MAX_REFRESH_DAYS), "the number of days after which a person has to consent again"
    ] = 30
    hold_seconds: Annotated[
        int, Meta(ge=0, le=MAX_GUEST_HOLD_SECONDS), "the number of seconds that a call waits for a person's answer"
    ] = 45
    private_documents: Annotated[
        bool, "whether clients' documents may be on private addresses, and over http on loopback: for tests"
    ] = False
    idp: Annotated[OAuthIdp | None, 'with consent = "idp", a table: where people log in'] = None

    @property
    def open_at(self) -> str:
        """Where hosts log in; "" if nowhere."""
        return (self.enabled and self.public_url) or ""
