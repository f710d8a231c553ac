"""Requests and answers of A2A, as text: what a client sends, and what an agent says. No I/O."""

from collections.abc import Sequence
from typing import Any

import msgspec

from accredit.a2a.call import call_of, skill_entries
from accredit.a2a.requests import A2aRequest, read_request
from accredit.base.steps import at_one_go
from accredit.policy.agent_call import AgentCall
from accredit.policy.catalog import Catalog, Entry

VERSIONS = (b"1.0",)
SCOPE = "email:read"
SKILLS = {
    "summarize": Entry(scope="email:send"),
    "wipe": Entry(scope="comms:email:delete"),
}
CATALOG = Catalog(routes=skill_entries(Entry(scope=SCOPE), SKILLS))
"""An agent with a skill that sends, and a sensitive one that deletes."""


def message(text: str = "hello", **more: object) -> dict[str, object]:
    """A message of a client."""
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}


def send(text: str = "hello", skill: str = "", *, metadata: dict[str, object] | None = None, **more: object) -> Any:
    """Params that send a message, which may name a skill."""
    free = {**(metadata or {}), **({"dev.accredit/skill": skill} if skill else {})}
    return {"message": message(text, **more), **({"metadata": free} if free or metadata is not None else {})}


def request(method: str = "SendMessage", params: object = None, id: object = 1) -> bytes:
    """The text of a request."""
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": id, "method": method, "params": send() if params is None else params}
    )


def asked(method: str = "SendMessage", params: object = None) -> A2aRequest:
    """A request as it is read."""
    return at_one_go(read_request(request(method, params), VERSIONS))


def a2a_call(method: str = "SendMessage", params: object = None, proofs: Sequence[bytes] = ()) -> AgentCall:
    """A request as the decision sees it."""
    return call_of(asked(method, params), proofs)


def task(
    id: str = "t-1", context: str = "c-1", state: object = "TASK_STATE_WORKING", **more: object
) -> dict[str, object]:
    """A task of an agent."""
    return {"id": id, "contextId": context, "status": {"state": state}, **more}


def said(text: str = "done", **more: object) -> dict[str, object]:
    """A message of an agent."""
    return {"messageId": "a-1", "role": "ROLE_AGENT", "parts": [{"text": text}], **more}


def update(id: str = "t-1", context: str = "c-1", state: str = "TASK_STATE_COMPLETED") -> dict[str, object]:
    """An event that says how a task is."""
    return {"statusUpdate": {"taskId": id, "contextId": context, "status": {"state": state}}}


def answer(result: object, id: object = 1) -> bytes:
    """The text of a response with a result."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": result})
