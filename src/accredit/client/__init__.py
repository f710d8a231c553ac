"""For the agent's side: proofs with every call, a gateway's challenges answered, and `accredit connect`.

`presenter` the key and the delegations · `pins` which gateway is signed for · `proving` what goes with a request ·
`streams`, `http` the transports · `session` the official SDK's client on top · `refusals` what people are told ·
`connect` the same for hosts that know nothing of proofs.
"""

from accredit.client.presenter import ProofPresenter
from accredit.client.session import AccreditedClient

__all__ = ["AccreditedClient", "ProofPresenter"]
