"""The chapter about a tool that asks a person before it acts."""

from mcp.types import ElicitRequestParams, ElicitResult

from accredit.client import AccreditedClient
from accredit.rounds import InputContext
from stage import NO, YES, gateway, say, server


async def a_tool_asks_first() -> bool:
    """Calls a tool that asks first: once a person says yes, once no. Says whether that decided."""

    def answering(action: str) -> AccreditedClient:
        async def on_elicit(_context: InputContext, params: ElicitRequestParams) -> ElicitResult:
            say(f"    ? {params.message!r}, and a person says {'yes' if action == 'accept' else 'no'}")
            content = {"sure": True} if action == "accept" else None
            return ElicitResult.model_validate({"action": action, "content": content})

        return AccreditedClient(guarded, elicitation=on_elicit)

    good: list[bool] = []
    async with server("confirming_server.py") as office, gateway(office) as guarded:
        for action, mark in (("accept", YES), ("decline", NO)):
            async with answering(action) as client:
                told = await client.call_tool("delete", {"path": "report.txt"}, max_total_timeout=60)
                say(f"    {mark} {'delete report.txt':<44} {told.structured_content}")
                good.append("deleted" in str(told.structured_content).lower())
    return good == [True, False]
