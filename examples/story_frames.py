"""The chapter about a hostile server: what it answers, and what a client gets through the gateway."""

import asyncio
import json

from hostile_server import ANSWERS
from stage import NO, YES, gateway, raw_call, say, server


async def nothing_malformed_passes() -> bool:
    """Each bad answer as a client gets it without and with the gateway; says whether all were stopped."""
    all_stopped = True
    async with server("hostile_server.py") as direct, gateway(direct) as guarded:
        for tool in ANSWERS:
            _, before = await asyncio.to_thread(raw_call, direct, tool)
            status, after = await asyncio.to_thread(raw_call, guarded, tool)
            error = json.loads(after).get("error")
            shown = f"HTTP {status}  {error['message']}: {error['data']}" if error else "passes unchanged"
            say(f"    {NO if error else YES} {tool:<12} {before[:38]!r:<42} -> {shown}")
            all_stopped = all_stopped and (error is None) == (tool == "sound")
    return all_stopped
