"""The agent's side: proofs with every call, answers to a gateway's challenges, and `accredit connect`.

- `presenter`: the agent's key and delegations. `pins`: the gateway that proofs may be signed for.
- `proving` decides which proof a request carries. `streams` adds it to the request. `http_apis` adds proofs to requests
  to HTTP APIs, `agents` to those to agents (A2A).
- `gateways`: the whole connection. `http` and the transports over it (`ways`); `renewing`, which replaces sessions that
  end. `legacy_session` restores a session, and tracks the server's own requests.
- `session`: the official SDK's client on top of that. `rounds`, `legs`: its calls, while a server asks for input.
- `messages`, `budgets`: bounds on what a server sends.
- `refusals`: messages for people about refusals.
- `connect`: the same as a program, for hosts that can't make proofs. `bridge`: for legacy hosts in front of modern
  servers.
- `sdk`: the SDK's internals that are used here.
"""

import typing

from accredit.base.deferred import names_of as _names_of

if typing.TYPE_CHECKING:
    from accredit.client.agents import AccreditedA2A
    from accredit.client.http_apis import AccreditedHttp
    from accredit.client.presenter import ProofPresenter
    from accredit.client.session import AccreditedClient

__all__ = ["AccreditedA2A", "AccreditedClient", "AccreditedHttp", "ProofPresenter"]

# Imported on first use: `accredit connect` does not need the SDK's client, which takes longer to load than all else.
__getattr__ = _names_of(
    __name__,
    {
        "AccreditedA2A": "agents",
        "AccreditedClient": "session",
        "AccreditedHttp": "http_apis",
        "ProofPresenter": "presenter",
    },
)
