"""The agent's side: proofs with every call, answers to a gateway's challenges, and `accredit connect`.

`presenter` the key and the delegations · `pins` which gateway is signed for · `proving` which proof a request carries,
and `streams` adding it · `gateways` the whole connection: `http`, the `ways` over it, and `renewing` for sessions that
end (`legacy_session` restores one, `server_requests` tracks the server's requests) · `session` the official SDK's
client on top · `rounds`, `legs` its calls, while a server asks for input · `messages`, `budgets` bounds on what a
server sends · `refusals` messages for people · `connect` the same for hosts that know nothing of proofs, with a
`bridge` for those that know nothing of rounds either · `sdk` the SDK's internals that are used here.
"""

import typing

from accredit.base.deferred import names_of as _names_of

if typing.TYPE_CHECKING:
    from accredit.client.presenter import ProofPresenter
    from accredit.client.session import AccreditedClient

__all__ = ["AccreditedClient", "ProofPresenter"]

# Imported on first use: `accredit connect` does not need the SDK's client, which takes longer to load than all else.
__getattr__ = _names_of(__name__, {"AccreditedClient": "session", "ProofPresenter": "presenter"})
