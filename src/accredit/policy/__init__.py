"""The decision of a call: who may do what, and on whose authority. Pure: it does no I/O. Questions to the outside are
yielded (needs, in `decision`).

- `decide`: the steps of a decision, in their order; `decision` has their settings, their questions to the outside and
  how these are answered, and their result
- `guarded_call`: one call, and the hash that binds a proof to it
- `catalog`: the scope that a target needs
- `facts`: the values that constraints check; `evaluators`: for constraints that the protocol does not define
- `uses`, `quotas`: how often a certificate may be used, and how many calls anybody may make
- `refusals`: the errors that clients get
- `passing`: removes members from a message, and adds others
- `lists`: filters lists; `merging`: names at the endpoint of several servers
- `tasks`: the owners of tasks
- `within`: calls that a running call makes by itself
- `drill`: the gateway's own tools, and what they answer
- `evidence`, `replaying`, `suggesting`: what recorded calls prove, how they would be decided now, and which grants they
  need
"""

import typing

from accredit.base.deferred import names_of as _names_of

if typing.TYPE_CHECKING:
    from accredit.policy.guarded_call import guarded_call_from_values

__all__ = ["guarded_call_from_values"]

# Imported on first use: who verifies records needs neither calls nor the JSON-RPC that they are about.
__getattr__ = _names_of(__name__, {"guarded_call_from_values": "guarded_call"})
