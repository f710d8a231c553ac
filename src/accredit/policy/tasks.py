"""The owner of a task, and the stored facts about the call that created it. No I/O.

Only digests of the call's params are kept: one of all params, and one of each argument that a certificate of the call's
chain names. An agent's texts must not stay in the store for a day just because a server is slow.

A task belongs to the principal, the agent and the token's subject of the call that created it, all three together. Its
owner knows it by the server's own id. If there are several servers, an owner's tasks are counted separately at each. So
a server that turns each call into a task does not use up an owner's room at another server.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from accredit.consent.call import named_arguments
from accredit.errors import StoreUnavailable
from accredit.policy.facts import CONTEXT_NAMES
from accredit.policy.merging import member_of_name
from accredit.ports import Task
from accredit.ratify import CallFacts, DelegationCert
from accredit.tokens.claims import VerifiedToken

MAX_TASK_FACTS_BYTES = 4_096
"""The most bytes stored of the call that created a task, as JSON: its facts, and a digest of each argument that a
constraint names (some 100 bytes each). If there would be more, only the digest of its params is kept, and constraints
on the rest can't be verified."""


class CreatingCall(Struct, frozen=True, kw_only=True):
    """The data for evaluating constraints of later requests about a task: the `facts` of the call that created it, the
    digest of that call's `params`, and the digests of the arguments that constraints name, by their JSON Pointers.
    Digests are lower-case hex. `also` are the other skills by which messages continued the task."""

    facts: dict[str, str | float] = {}
    params: str = ""
    args: dict[str, str] = {}
    also: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(CreatingCall).decode


class TaskScope(NamedTuple):
    """The scope of a server's task ids. `name` distinguishes servers. `server` is the server's name if there are
    several, else "". At the merged endpoint (`merged`) it is not used: there, the name of a tool or task shows which
    server it is from. With `by_token`, tasks belong to tokens' subjects, and proofs are ignored. With `apart`, a text
    that no earlier process has used, each session has tasks of its own."""

    name: str = ""
    server: str = ""
    merged: bool = False
    by_token: bool = False
    apart: str = ""

    def key(self, id: str, session_id: str = "") -> bytes:
        """Return the 32 bytes under which a task of a client in this session is stored."""
        return task_key(f"{self.name}{self.apart}/{session_id}" if self.apart else self.name, id)

    def server_of(self, named: str) -> str:
        """Return the name of the server that a tool or a task belongs to."""
        member = member_of_name(named) if self.merged else None
        return member.server if member is not None else self.server

    def owner(self, principal_id: str, agent_id: str, token: VerifiedToken | None) -> "Owner":
        """Return who owns the tasks of this principal, agent and token."""
        return Owner(token=token) if self.by_token else Owner(principal_id, agent_id, token)


ONE_SERVER = TaskScope()


class Owner(NamedTuple):
    """An owner of tasks. Without a proof, `principal_id` and `agent_id` are ""."""

    principal_id: str = ""
    agent_id: str = ""
    token: VerifiedToken | None = None

    def at(self, server: str) -> bytes:
        """Return 32 bytes that identify this owner at one of several servers, or at a single one ("")."""
        token = self.token
        subject = ("token", token.issuer, token.subject) if token is not None else ()
        there = ("server", server) if server else ()
        return _digest("accredit task owner 1", self.principal_id, self.agent_id, *subject, *there)

    def has(self, task: Task, server: str) -> bool:
        """Return whether this owner has a task at that server. Older versions did not count tasks by server: they
        stored an owner as if there were only one server, named "". Such a row matches here for any server; the task's
        key shows which one it is for."""
        return any(hmac.compare_digest(task.owner, self.at(each)) for each in {server, ""})


def task_key(place: str, id: str) -> bytes:
    """Return the 32 bytes under which a task is stored."""
    return _digest("accredit task 1", place, id)


def encode_task_facts(
    facts: Mapping[str, str | float], params: bytes, arguments: object, chain: Sequence[DelegationCert]
) -> bytes:
    """Return the facts of a call to store, as JSON. `params` is the digest of its params.

    If that exceeds `MAX_TASK_FACTS_BYTES`, only `params` is kept: constraints on the rest then can't be verified.
    """
    args = named_arguments((each for cert in chain for each in cert.constraints), arguments)
    text = msgspec.json.encode(CreatingCall(facts=dict(facts), params=params.hex(), args=args))
    return text if len(text) <= MAX_TASK_FACTS_BYTES else msgspec.json.encode(CreatingCall(params=params.hex()))


def read_made_by(task: Task) -> CreatingCall:
    """Read the stored facts of the call that created a task. Raises `StoreUnavailable`."""
    try:
        made = _decode(task.facts)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise StoreUnavailable("what is remembered of a task can't be read") from None
    facts = {name: value for name, value in made.facts.items() if name in CONTEXT_NAMES}
    return replace(made, facts=facts)


def with_skill(task: Task, skill: str) -> Task:
    """Return the task as it is after a message for this skill has continued it. Raises `StoreUnavailable`."""
    made = read_made_by(task)
    if skill in (task.target, *made.also):
        return task
    text = msgspec.json.encode(replace(made, also=(*made.also, skill)))
    if len(text) > MAX_TASK_FACTS_BYTES:
        raise StoreUnavailable("no room to remember one more skill of a task")
    return replace(task, facts=text)


def facts_of_call_that_made(task: Task, verifier_id: str) -> CallFacts:
    """Return the facts of the call that created a task. Constraints are evaluated against them for later requests about
    it.

    Raises `StoreUnavailable`.
    """
    made = read_made_by(task)
    return CallFacts(
        verifier_id=verifier_id,
        method=task.method,
        target=task.target,
        arguments=None,
        argument_digests=made.args,
        params_digest=partial(bytes.fromhex, made.params),
    )


def same_call(one: Task, other: Task) -> bool:
    """Return whether two tasks have the same owner and come from the same call, even if the chains differ. Raises
    `StoreUnavailable`."""
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
