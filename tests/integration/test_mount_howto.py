"""The how-to for those who mount the gateway is executed as it is written, with servers where its examples have any."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.world.calls import post
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, RawServer
from tests.world.running import RunningGateway
from tests.world.tasks_server import TasksServer
from tests.world.warm import python

from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/how-to/mount.md").read_text("utf-8")
CHILD = [python(), str(Path(__file__).parents[1] / "conformance" / "everything_server.py"), "--stdio"]
LISTING = post(Era.MODERN, "tools/list", {})


async def sent(app: Any, path: str, host: str = "127.0.0.1") -> RawAnswer:
    async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
        await client.ask("POST", path, [("Host", host), *LISTING.headers], LISTING.body)
        return await client.answer()


def names(answer: RawAnswer) -> list[str]:
    return [each["name"] for each in json.loads(answer.body)["result"]["tools"]]


async def test_what_the_page_mounts_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.merged.answers.MERGED_ASK_SECONDS", PATIENCE)

    async with RawServer(TasksServer()) as server:
        code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
        code = code.replace("http://127.0.0.1:9000/mcp", server.url)
        code = re.sub(r'[(\[]"python", "\w+\.py"[)\]]', repr(CHILD), code)
        page: dict[str, Any] = {}
        exec(compile(code, "mount.md", "exec"), page)
        own = names(await sent(page["simple"], "/mcp"))
        assert own
        assert names(await sent(page["child"], "/mcp"))
        assert names(await sent(page["app"], "/tools/mcp", "mcp.example.org")) == own
        merged = names(await sent(page["several"], "/mcp"))
        assert {each.partition("__")[0] for each in merged} == {"mail", "files"}
        assert set(own) <= {each.removeprefix("mail__") for each in merged if each.startswith("mail__")}
