"""An agent on the official A2A SDK: `python a2a_agent.py PORT`. It does what it is told, or asks for more."""

import sys

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from starlette.applications import Starlette


class Helper(AgentExecutor):
    """Answers `chat` with a message, asks for more after `wait`, and does anything else at once."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        if text == "chat":
            said = new_text_message("hello", role=Role.ROLE_AGENT, context_id=context.context_id)
            await event_queue.enqueue_event(said)
            return
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text == "wait":
            await updater.requires_input(updater.new_agent_message([new_text_part("more?")]))
            return
        await updater.add_artifact([new_text_part(f"did: {text}")], name="result")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def main() -> None:
    """Serves the agent."""
    port = int(sys.argv[1])
    at = AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="Helper",
        description="Helps",
        version="1",
        supported_interfaces=[at],
        capabilities=AgentCapabilities(streaming=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id=id, name=id, description=id, tags=["mail"]) for id in ("summarize", "wipe")],
    )
    handler = DefaultRequestHandler(
        agent_executor=Helper(), task_store=InMemoryTaskStore(), agent_card=card, extended_agent_card=card
    )
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
