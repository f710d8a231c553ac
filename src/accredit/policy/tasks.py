"""Whose a task is, and what is remembered of the call that made it. No I/O.

Of the call's params only digests are remembered, of all of them and of each argument that a certificate of the call's
chain names: what an agent writes is not kept for a day because a server took its time.

A task belongs to the principal, the agent and the token's subject of the call that made it, all of them. What the
server calls it is its name for its owner as well; `place` tells servers apart whose ids mean nothing elsewhere.
"""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from accredit.consent import named_arguments
from accredit.errors import StoreUnavailable
from accredit.limits import MAX_TASK_FACTS_BYTES
from accredit.policy.facts import CONTEXT_NAMES
from accredit.ports import Task
from accredit.ratify import DelegationCert
from accredit.tokens import VerifiedToken


class MadeBy(Struct, frozen=True, kw_only=True):
    """What constraints are held against: the `facts` of the call that made a task, the digest of its `params`, and
    those of its arguments by their JSON Pointers, in lower-case hex."""

    facts: dict[str, str | float] = {}
    params: str = ""
    args: dict[str, str] = {}


_decode = msgspec.json.Decoder(MadeBy).decode


def owner_of(principal_id: str, agent_id: str, token: VerifiedToken | None) -> bytes:
    """What stands for an owner: 32 bytes. Without a proof, `principal_id` and `agent_id` are ""."""
    subject = ("token", token.issuer, token.subject) if token is not None else ()
    return _digest("accredit task owner 1", principal_id, agent_id, *subject)


def task_key(place: str, id: str) -> bytes:
    """What a task is remembered under: 32 bytes."""
    return _digest("accredit task 1", place, id)


def made_by(
    facts: Mapping[str, str | float], params: bytes, arguments: object, chain: Sequence[DelegationCert]
) -> bytes:
    """What is remembered of a call; `params` is the digest of them. Of too much only that is."""
    args = named_arguments((each for cert in chain for each in cert.constraints), arguments)
    text = msgspec.json.encode(MadeBy(facts=dict(facts), params=params.hex(), args=args))
    return text if len(text) <= MAX_TASK_FACTS_BYTES else msgspec.json.encode(MadeBy(params=params.hex()))


def read_made_by(task: Task) -> MadeBy:
    """What is remembered of the call that made a task. Raises `StoreUnavailable`."""
    try:
        found = _decode(task.facts)
    except msgspec.MsgspecError:
        raise StoreUnavailable("what is remembered of a task can't be read") from None
    facts = {name: value for name, value in found.facts.items() if name in CONTEXT_NAMES}
    return MadeBy(facts=facts, params=found.params, args=found.args)


def same_call(one: Task, other: Task) -> bool:
    """Whether two tasks are of one owner and one call, on whatever chains. Raises `StoreUnavailable`."""
    if (one.owner, one.method, one.target) != (other.owner, other.method, other.target):
        return False
    first, second = read_made_by(one), read_made_by(other)
    return (first.facts, first.params) == (second.facts, second.params)


def _digest(*parts: str) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
