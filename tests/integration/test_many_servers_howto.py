"""The how-to about many servers is done here as it is written, with servers in place of those that it names."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.world.command import Serving, accredit
from tests.world.honest_server import HonestServer
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer, until
from tests.world.warm import python

from accredit.config.pins import read_lock_file

pytestmark = pytest.mark.slow

MAIL_SERVER = Path(__file__).parents[2] / "examples/mail_server.py"
PAGE = (Path(__file__).parents[2] / "docs/how-to/many-servers.md").read_text("utf-8")
KEY = {"MAIL_KEY": "key-of-mail"}


async def test_the_how_to_does_what_it_says(tmp_path: Path) -> None:
    text, _merged = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (listening,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    lines = [each for body in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL) for each in body.split("\n")]
    commands = [each.split()[1:] for each in lines if each and "mail__list_inbox" not in each]
    check_file, serve, call, check, fix, pin_mail, pin_calendar, grant, grant_mail, add, add_first = commands
    assert serve == ["serve"]

    async def told(*arguments: str) -> tuple[int, str]:
        done = await asyncio.to_thread(accredit, *arguments, folder=tmp_path, env=KEY)
        return done.returncode, done.stdout + done.stderr

    async with RawServer(HonestServer()) as mail, RawServer(HonestServer()) as calendar:
        at = text.replace("http://127.0.0.1:9001/mcp", mail.url).replace("http://127.0.0.1:9002/mcp", calendar.url)
        (tmp_path / "accredit.toml").write_text(at, "utf-8")
        code, said = await told(*check_file)
        assert (code, "ok: the server mail is a URL" in said) == (0, True)
        gateway = Serving(folder=tmp_path, env=KEY)
        await asyncio.to_thread(gateway.__enter__)
        try:
            port = str(gateway.port)
            lines = listening.replace("8484", port).splitlines()
            await until(lambda: all(line in gateway.stderr for line in lines))
            code, said = await told(*(each.replace("8484", port) for each in call))
            assert (code, "called list_inbox" in said) == (0, True), said
            assert {dict(each.headers).get("x-api-key") for each in mail.requests if each.body} == {"key-of-mail"}
            assert [each for each in calendar.requests if b"tools/call" in each.body] == []
            async with RawClient(gateway.port) as client:
                await client.ask("GET", "/readyz")
                assert json.loads((await client.answer()).body)["servers"] == {"mail": True, "team-calendar": True}
                await client.ask("POST", "/mcp", [("Content-Type", "application/json")], b"{}")
                assert (await client.answer()).status == 404
        finally:
            await asyncio.to_thread(gateway.__exit__, None, None, None)
        stdio = f'command = ["{python()}", "{MAIL_SERVER}"]'
        real = re.sub(r'url = "[^"]+"(\nheaders = .*)?', lambda _: stdio, text)
        (tmp_path / "accredit.toml").write_text(real, "utf-8")
        code, said = await told(*check)
        assert code == 1, said  # the page's catalogs are short
        assert {line.partition(": ")[0] for line in said.splitlines()} == {"mail", "team-calendar"}
        assert (await told(*fix))[0] == 0
        for pin in (pin_mail, pin_calendar):
            assert (await told(*pin))[0] == 0
        assert {*read_lock_file(tmp_path / "accredit.lock")} == {"mail", "team-calendar"}
        for key in (("owner.key", "--kind", "human", "--no-passphrase"), ("agent.key", "--kind", "agent")):
            assert (await told("keys", "new", *key))[0] == 0
        for command, scopes in ((grant, "custom:mail:send_email, mcp:tool"), (grant_mail, "mcp:tool")):
            code, said = await told(*command)
            assert (code, scopes in said) == (0, True), said
        real_server = ["--", python(), str(MAIL_SERVER)]
        code, said = await told(*(each for each in add if "://" not in each), *real_server)
        assert (code, "whoever holds mcp:tool" in said) == (0, True), said
        assert {*read_lock_file(tmp_path / "accredit.lock")} == {"mail", "team-calendar", "files"}
        assert add_first[:-2] == add
        of_one = [["pin", "--yes"], ["wrap"], ["call", "list_inbox", "--config", "accredit.toml"]]
        for command in of_one:
            code, said = await told(*command)
            assert (code, "[servers]" in said) == (2, True), said
