"""A request of A2A as the decision sees it: what it is about, and what a proof for it is bound to. No I/O.

- [binding] A proof covers the method, the skill or the task that it is about, the params in the form of RFC 8785
  without the proof, the scope, the gateway with the agent's name, and the protocol. It is valid for this request alone.
- [label] A proof for A2A signs a label that only A2A has. So it is not valid for MCP or an HTTP API, and theirs are not
  valid for A2A.
- [one-proof] A proof is in the header `Ratify-Proof`, or in `params.metadata`. Two whose texts differ are an invalid
  proof. So is text that is not base64url without padding.
- [skill] A message that names a skill needs the agent's scope and the skill's. One that names none needs those of all
  skills, since no request of A2A says which skill it is for. An unknown skill is refused.
- [continued] A message that continues a task needs what that task's earlier messages needed, too.
- [own] Each task that a message names must be the caller's.
"""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Raw

from accredit.a2a.requests import A2aRequest
from accredit.a2a.shapes import ListParams, PushCreateParams, SendParams
from accredit.http_api.wire import decode_proof_header
from accredit.policy.agent_call import GET_CARD, AgentCall
from accredit.policy.catalog import Entry
from accredit.policy.guarded_call import payload_digest


def call_of(asked: A2aRequest, headers: Sequence[bytes] = ()) -> AgentCall:
    """Return the call that a request makes. `headers` are the values of its proof headers."""
    params = asked.params
    proof, differ = _proof([*headers, *([asked.proof] if asked.proof is not None else [])])
    continued, named, context, push_url = "", (), "", None
    if isinstance(params, SendParams):
        message = params.message
        continued, context = message.task_id or "", message.context_id or ""
        push = params.configuration.task_push_notification_config if params.configuration else UNSET
        named = tuple(dict.fromkeys(message.reference_task_ids or ()))
        if push:
            push_url, named = push.url, (*named, *([push.task_id] if push.task_id else []))
    elif isinstance(params, ListParams):
        context = params.context_id or ""
    elif isinstance(params, PushCreateParams):
        push_url = params.url
    return AgentCall(
        method=asked.method,
        target=asked.target,
        session_id="",
        digest=asked.digest,
        arguments=asked.plain,
        proof=proof,
        two_proofs=differ,
        subscribed=named,
        covered=asked.plain,
        continued=continued,
        context=context,
        push_url=push_url,
    )


def card_call(headers: Sequence[bytes]) -> AgentCall:
    """Return the call for the public card. Its proof covers params without members."""
    proof, differ = _proof(headers)
    return AgentCall(GET_CARD, "", "", payload_digest({}), None, proof, differ)


def skill_entries(entry: Entry, skills: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return what messages need, by the skill that they name; "" for those that name none ([skill])."""
    named = {name: entry.with_also(skill) for name, skill in skills.items()}
    return {"": entry.with_also(*skills.values()), **named}


def _proof(values: Sequence[bytes]) -> tuple[Raw | None, bool]:
    """Return the proof (an empty text if it can't be decoded), and whether there are two that differ ([one-proof])."""
    texts = [decode_proof_header(value) or b"" for value in values]
    return (Raw(texts[0]) if texts else None), len(set(texts)) > 1
