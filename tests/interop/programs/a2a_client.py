"""A client on the official A2A SDK, which proves its requests: `python a2a_client.py URL`. It prints what
came, as JSON. With `ask` behind the URL it has no delegation, and a person is asked about two messages."""

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
)

from accredit.client import AccreditedA2A, ProofPresenter
from accredit.errors import ProofRefused

MESSAGES = (("x", "summarize"), ("y", "wipe"), ("z", ""), ("chat", "summarize"), ("wait", "summarize"))


async def sent(client: Any, text: str, skill: str, task: Any = None) -> tuple[list[str], Any]:
    """The kinds of what a message was answered with, and its task."""
    at = {"task_id": task.id, "context_id": task.context_id} if task is not None else {}
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER, **at))
    if skill:
        request.metadata.update({"dev.accredit/skill": skill})
    kinds: list[str] = []
    async for event in client.send_message(request):
        kinds.append(event.WhichOneof("payload"))
        task = event.task if kinds[-1] == "task" else task
    return kinds, task


async def refused(asking: Any) -> str:
    """The name of the exception by which the SDK says no."""
    try:
        await asking
    except Exception as error:
        return type(error).__name__
    return ""


async def play(client: Any, *, streaming: bool) -> dict[str, Any]:
    """What came of each request."""
    said: dict[str, Any] = {}
    waiting: Any = None
    for text, skill in MESSAGES:
        said[text], waiting = await sent(client, text, skill)
    said["get"] = (await client.get_task(GetTaskRequest(id=waiting.id))).status.state
    said["list"] = (await client.list_tasks(ListTasksRequest())).total_size
    if streaming:
        events = client.subscribe(SubscribeToTaskRequest(id=waiting.id))
        said["subscribed"] = [event.WhichOneof("payload") async for event in _first(events)]
    said["more"], _ = await sent(client, "more", "summarize", waiting)
    _, other = await sent(client, "wait", "wipe")
    said["cancel"] = (await client.cancel_task(CancelTaskRequest(id=other.id))).status.state
    said["unknown"] = await refused(client.get_task(GetTaskRequest(id="unknown")))
    card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    said["skills"] = [skill.id for skill in card.skills]
    return said


async def _first(events: Any) -> Any:
    async for event in events:
        yield event
        return


async def ask() -> None:
    """Sends two messages that no delegation covers, whole and as a stream, and looks for the first one's task."""
    url, told = sys.argv[1], []
    presenter = ProofPresenter("agent.key", [], may_ask=True)
    transport = AccreditedA2A(httpx.AsyncHTTPTransport(), presenter, "mail-gateway/helper", url, hold=30)
    async with httpx.AsyncClient(transport=transport, timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        for streaming in (False, True):
            client = ClientFactory(ClientConfig(streaming=streaming, httpx_client=http)).create(card)
            try:
                kinds, task = await sent(client, "x", "summarize")
                told.append([kinds[0], (await client.get_task(GetTaskRequest(id=task.id))).id == task.id])
            except ProofRefused as refused:
                told.append([refused.error, *refused.__notes__])
    print(json.dumps(told))


async def main() -> None:
    """Plays it without and with streams."""
    url = sys.argv[1]
    presenter = ProofPresenter("agent.key", ["delegation.json"])
    transport = AccreditedA2A(httpx.AsyncHTTPTransport(), presenter, "mail-gateway/helper", url)
    async with httpx.AsyncClient(transport=transport, timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        told: dict[str, Any] = {"url": card.supported_interfaces[0].url}
        for streaming in (False, True):
            client = ClientFactory(ClientConfig(streaming=streaming, httpx_client=http)).create(card)
            told["streams" if streaming else "whole"] = await play(client, streaming=streaming)
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(ask() if "ask" in sys.argv else main())
