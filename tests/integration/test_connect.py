"""Hosts that know nothing of proofs, `accredit connect`, and a gateway that wants them: real processes."""

import asyncio
import base64
import json
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.integration.test_wrap import SlowHost
from tests.world.agents import AgentFiles, agent_files, save_delegation
from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import compact, meta
from tests.world.command import Serving, accredit, environment, wait_until
from tests.world.connected import Connected
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.sdk import text_of
from tests.world.warm import python

from accredit.client import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("client/connect"),
    pytest.mark.holds("cli/commands/running"),
    pytest.mark.holds("cli/actions/connect"),
]

ERAS = ["legacy", "auto"]


@pytest.fixture(scope="module")
def shared(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> AgentFiles:
    return agent_files(tmp_path_factory.mktemp("gateway"), trust)


@pytest.fixture(scope="module")
def gateway(shared: AgentFiles) -> Generator[Serving]:
    with Serving("--config", "accredit.toml", folder=shared.folder) as serving:
        yield serving


@pytest.fixture
def files(trust: Trust, tmp_path: Path) -> AgentFiles:
    """The same agent's files, with no gateway known."""
    return agent_files(tmp_path, trust)


@asynccontextmanager
async def host(url: str, folder: Path, *options: str, mode: str = "auto", **env: str) -> AsyncGenerator[Client]:
    """A host: the official SDK's client, which starts `accredit connect` and knows nothing of proofs."""
    command = StdioServerParameters(
        command=python(), args=["-m", "accredit", "connect", url, *options], env=environment(env), cwd=folder
    )
    with (folder / "host.stderr").open("a") as stderr:
        async with Client(stdio_client(command, errlog=stderr), mode=mode, read_timeout_seconds=PATIENCE) as client:
            yield client


def names(found: types.ListToolsResult) -> list[str]:
    return sorted(tool.name for tool in found.tools)


# --- with the official SDK's client as the host -----------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_an_unmodified_host_calls_what_the_delegation_covers(
    mode: str, gateway: Serving, files: AgentFiles
) -> None:
    async with host(gateway.url, files.folder, *files.options, mode=mode) as client:
        assert names(await client.list_tools()) == ["list_inbox", "send_email"]
        assert "ada@example.org" in text_of(await client.call_tool("list_inbox"))
        sent = await client.call_tool("send_email", {"to": "ada", "subject": "proofs"})
        assert text_of(sent) == "sent to ada: proofs"
        (read,) = (await client.read_resource("mail://inbox/first")).contents
        assert isinstance(read, types.TextResourceContents)
        assert read.text.startswith("It might act")
        told = await asyncio.gather(*[client.call_tool("list_inbox") for _ in range(8)])
        assert not [result for result in told if result.is_error]
    assert json.loads(files.known_gateways.read_text("utf-8")) == {gateway.url: GATEWAY}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_before_any_list_is_proved_too(mode: str, gateway: Serving, files: AgentFiles) -> None:
    async with host(gateway.url, files.folder, *files.options, mode=mode) as client:
        sent = await client.call_tool("send_email", {"to": "ada", "subject": "first"})
        assert text_of(sent) == "sent to ada: first"


@pytest.mark.holds("client/connect", "result-kinds")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_refusal_is_a_result_that_says_what_would_allow_it(
    mode: str, gateway: Serving, files: AgentFiles
) -> None:
    async with host(gateway.url, files.folder, *files.options, mode=mode) as client:
        result = await client.call_tool("search", {"word": "bug"})
        assert result.is_error
        assert "nobody has allowed this agent search" in text_of(result)
        assert "covers email:read, email:send, mcp:resource." in text_of(result)
        assert f"--agent {files.key}.pub --scope email:search" in text_of(result)
        with pytest.raises(MCPError, match="mcp:prompt") as caught:
            await client.get_prompt("any")
        assert caught.value.error.data["error"] == "ratify_scope_denied"
        assert "_meta" not in caught.value.error.data


@pytest.mark.parametrize("mode", ERAS)
async def test_what_no_delegation_covers_is_listed_with_a_note_on_demand(
    mode: str, trust: Trust, gateway: Serving, files: AgentFiles
) -> None:
    more = save_delegation(files.folder / "search.json", trust.chain("custom:other"))
    options = (*files.options, "--delegation", str(more), "--show-uncovered", "--gateway-id", GATEWAY)
    async with host(gateway.url, files.folder, *options, mode=mode) as client:
        tools = {tool.name: tool.description for tool in (await client.list_tools()).tools}
        assert set(tools) == {"list_inbox", "send_email", "search"}
        assert str(tools["search"]).startswith("[Not covered by this agent's delegation: needs email:search]")
        assert not (await client.call_tool("list_inbox")).is_error
    assert not files.known_gateways.exists()


@pytest.mark.parametrize("mode", ERAS)
async def test_without_a_key_it_is_a_mirror__and_says_how_to_get_one(
    mode: str, gateway: Serving, files: AgentFiles
) -> None:
    async with host(gateway.url, files.folder, mode=mode) as client:
        assert names(await client.list_tools()) == ["list_inbox", "search", "send_email"]
        result = await client.call_tool("list_inbox")
        assert result.is_error
        assert "accredit keys new agent-2.key --kind agent" in text_of(result)  # there is an agent.key already


@pytest.mark.parametrize("mode", ERAS)
async def test_for_another_gateway_than_the_known_one_nothing_is_signed(
    mode: str, gateway: Serving, files: AgentFiles
) -> None:
    files.known_gateways.write_text(json.dumps({gateway.url: "the-old-one"}), "utf-8")

    async with host(gateway.url, files.folder, *files.options, mode=mode) as client:
        with pytest.raises(MCPError, match="was the-old-one, and now says that it is mail-gateway"):
            await client.list_tools()
        for tool in ("list_inbox", "send_email"):
            result = await client.call_tool(tool, {})
            assert result.is_error
            assert "known_gateways.json" in text_of(result)


async def test_a_delegation_from_nobody_that_the_gateway_trusts_is_explained(
    trust: Trust, gateway: Serving, tmp_path: Path
) -> None:
    other = agent_files(tmp_path, Trust())

    async with host(gateway.url, tmp_path, *other.options, "--gateway-id", GATEWAY) as client:
        assert names(await client.list_tools()) == ["list_inbox", "send_email"]
        result = await client.call_tool("list_inbox")
        assert result.is_error
        assert "Only a delegation from a principal whose key this gateway has as a root" in text_of(result)


# --- line by line -----------------------------------------------------------------------------------


def secrets_of(files: AgentFiles) -> list[str]:
    """What must stay with the agent, as it would be written."""
    key = json.loads(files.key.read_text("utf-8"))
    certificate = json.loads(files.delegation.read_text("utf-8"))["delegations"][0]
    return [key["seed"]["ed25519"], key["seed"]["ml_dsa_65"], certificate["signature"]["ed25519"], "ratify_proof"]


@pytest.mark.holds("client/connect", "result-kinds")
def test_key_proof_challenge_and_token_are_seen_neither_by_the_host_nor_in_the_log(
    gateway: Serving, files: AgentFiles
) -> None:
    secret = base64.b64encode(b"marked-secret-token").decode()
    options = (*files.options, "--token-env", "MAIL_TOKEN", "--log-level", "debug")
    with Connected(files.folder, gateway.url, *options, MAIL_TOKEN=secret) as connected:
        connected.initialize()
        connected.ask("tools/list")
        for name in ("list_inbox", "send_email", "search", "unknown"):
            connected.ask("tools/call", {"name": name, "arguments": {}})
        connected.ask("prompts/get", {"name": "any"})
        connected.close_input()
        assert connected.wait() == 0
        seen = connected.read.decode() + connected.stderr
    assert "Not allowed" in seen
    for marked in [*secrets_of(files), 'ratify_challenge"', secret, "marked-secret"]:
        assert marked not in seen


def test_a_modern_host_that_names_no_headers_is_understood(gateway: Serving, files: AgentFiles) -> None:
    with Connected(files.folder, gateway.url, *files.options) as connected:
        told = connected.ask("tools/call", {"name": "list_inbox", "arguments": {}, "_meta": meta()})
        assert "ada@example.org" in told["result"]["content"][0]["text"]
        told = connected.ask("tools/call", {"name": "search", "arguments": {}, "_meta": meta()})
        assert told["result"]["resultType"] == "complete"
        assert told["result"]["isError"] is True


@pytest.mark.holds("client/connect", "lines")
async def test_a_host_that_does_not_read_what_is_wrong_with_its_lines_is_not_read_either__it_would_pile_up() -> None:
    host, nothing = SlowHost(), cast(Any, None)
    connection: Any = cast(Any, connect)._Connection(nothing, nothing, host, nothing)
    await host.is_told_once_until_it_reads(asyncio.create_task(connection._from_host()))


@pytest.mark.holds("client/connect", "lines")
@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"nonsense", -32700, None),
        (b'{"jsonrpc":"2.0","id":3}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","id":4}', -32600, None),
        (b'[{"jsonrpc":"2.0","id":3,"method":"ping"}]', -32600, None),
        (b"\xff", -32700, None),
    ],
)
def test_a_line_that_is_no_message_gets_an_error__and_nothing_else_suffers(
    line: bytes, code: int, id: int | None, gateway: Serving, files: AgentFiles
) -> None:
    with Connected(files.folder, gateway.url) as connected:
        connected.write(line)
        told = connected.hear()
        assert (told["error"]["code"], told["id"]) == (code, id)
        connected.initialize()


def test_a_batch_is_proved_member_by_member(gateway: Serving, files: AgentFiles) -> None:
    with Connected(files.folder, gateway.url, *files.options) as connected:
        connected.initialize("2025-03-26")
        calls = [
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}}}
            for id, name in (("a", "list_inbox"), ("b", "search"))
        ]
        connected.write(json.dumps(calls).encode())
        told = {
            message["id"]: message["result"].get("isError", False) for message in (connected.hear(), connected.hear())
        }
        assert told == {"a": False, "b": True}


def test_an_id_that_is_in_use_is_refused__its_answer_could_be_either(gateway: Serving, files: AgentFiles) -> None:
    with Connected(files.folder, gateway.url, *files.options) as connected:
        connected.initialize()
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "list_inbox", "arguments": {}}}
        connected.write(b"\n".join([compact(call)] * 2))  # in one piece: the first is not answered before the second
        told = [connected.hear(), connected.hear()]
        assert sorted("error" in message for message in told) == [False, True]


# --- beginnings and ends ----------------------------------------------------------------------------


@pytest.mark.holds("client/connect", "ends")
def test_when_the_host_closes_its_side_what_is_open_is_answered_first(gateway: Serving, files: AgentFiles) -> None:
    with Connected(files.folder, gateway.url, *files.options) as connected:
        connected.say(id=1, method="tools/call", params={"name": "list_inbox", "arguments": {}, "_meta": meta()})
        connected.close_input()
        assert "ada@example.org" in json.loads(connected.rest())["result"]["content"][0]["text"]
        assert connected.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_cleanly(number: signal.Signals, gateway: Serving, files: AgentFiles) -> None:
    with Connected(files.folder, gateway.url, *files.options) as connected:
        connected.initialize()
        connected.stop(number)
        assert connected.wait() == 0
        assert connected.rest() == b""
        assert "Traceback" not in connected.stderr


@pytest.mark.holds("client/connect", "ends")
def test_a_gateway_that_is_down_is_an_error_for_each_request__and_is_found_when_it_is_up(
    trust: Trust, files: AgentFiles
) -> None:
    call = {"name": "list_inbox", "arguments": {}, "_meta": meta()}
    with (
        reserved_port() as port,
        Connected(files.folder, f"http://127.0.0.1:{port}/mcp", *files.options) as connected,
    ):
        hint = (
            f"the gateway at 127.0.0.1:{port} can't be reached: is it running, and is the URL right? If it is not,"
            " start it with `accredit up`, or `accredit serve --config FILE`, which print its URL"
        )
        for _ in range(2):
            told = connected.ask("tools/call", call)
            assert told["error"] == {"code": -32000, "message": f"Upstream unavailable: {hint}", "data": hint}
            wait_until(lambda: hint in connected.stderr)
        with Serving("--config", "accredit.toml", "--port", str(port), folder=files.folder):
            assert "ada@example.org" in connected.ask("tools/call", call)["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(
            ((url,), f"{url} is not an http or https URL")
            for url in ("ftp://x", "http://", "http://127.0.0.1:x/mcp", "http://127.0.0.1:99999/mcp", "http://[::1/mcp")
        ),
        (
            ("http://127.0.0.1:1/mcp", "--key", "agent.key"),
            "--key is of no use without --delegation, as no desk has run",
        ),
        (("http://127.0.0.1:1/mcp", "--delegation", "delegation.json"), "no use without --key"),
        (("http://127.0.0.1:1/mcp", "--token-env", "UNSET_TOKEN"), "UNSET_TOKEN holds no token"),
    ],
)
def test_what_can_not_work_is_said_at_once__on_stderr_and_not_to_the_host(
    options: tuple[str, ...], says: str, files: AgentFiles
) -> None:
    done = accredit("connect", *options, folder=files.folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "help: " in done.stderr


NO_DELEGATIONS = {
    "expired.json": "): ask its principal for a new one: `accredit grant --issuer PATH"
    " --agent agent.key.pub --scope email:read --expires 30d --out expired.json --force`",
    "missing.json": "there is no delegation missing.json",
    "foreign.json": "foreign.json is not for agent.key (agent ",
    "changed.json": "changed.json proves nothing: bad_signature",
    "agent.key.pub": "agent.key.pub is not a delegation: ",
}


@pytest.mark.parametrize("file", NO_DELEGATIONS)
@pytest.mark.holds("client/connect", "useless-proof")
def test_with_a_delegation_that_is_none_it_starts__and_answers_calls_with_what_is_wrong_and_the_command(
    file: str, gateway: Serving, trust: Trust, files: AgentFiles
) -> None:
    whole = files.delegation.read_text("utf-8")
    save_delegation(files.folder / "expired.json", trust.chain("email:read", ends=-1))
    other = Trust()
    save_delegation(files.folder / "foreign.json", other.chain("email:read"))
    (files.folder / "changed.json").write_text(whole.replace("email:read", "email:send"), "utf-8")
    options = ("--key", "agent.key", "--delegation", file)
    with Connected(files.folder, gateway.url, *options) as connected:
        listed = connected.ask("tools/list", {"_meta": meta()})["result"]["tools"]
        assert "list_inbox" in {each["name"] for each in listed}
        call = {"name": "list_inbox", "arguments": {}, "_meta": meta()}
        told = connected.ask("tools/call", call)["result"]
        text = told["content"][0]["text"]
        assert told["isError"] is True
        assert text.startswith("Not allowed: ")
        assert NO_DELEGATIONS[file] in text
        assert "accredit grant --issuer PATH --agent agent.key.pub --scope email:read" in text
        assert NO_DELEGATIONS[file] in connected.stderr
        if file == "agent.key.pub":
            return
        (files.folder / "good.json").write_text(whole, "utf-8")
        (files.folder / "good.json").replace(files.folder / file)
        again = connected.ask("tools/call", call)["result"]
        assert "ada@example.org" in again["content"][0]["text"], again


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (0o644, "{key} is a private key that others can read (mode 0644): chmod 600 {key}"),
        (None, "there is no key {key}: `accredit keys new {key} --kind agent` makes one"),
    ],
)
def test_a_key_that_can_not_be_used_is_not_used__and_the_host_reads_why_instead_of_connection_closed(
    mode: int | None, says: str, gateway: Serving, files: AgentFiles
) -> None:
    if mode is None:
        files.key.unlink()
    else:
        files.key.chmod(mode)
    with Connected(files.folder, gateway.url, *files.options) as connected:
        call = {"name": "list_inbox", "arguments": {}, "_meta": meta()}
        told = connected.ask("tools/call", call)["result"]
        text = told["content"][0]["text"]
        assert told["isError"] is True
        assert text.startswith("Not allowed: ")
        assert says.format(key=files.key) in text
        assert "Then restart the host." in text
        assert "accredit grant" not in text  # no delegation helps a key that can't be used
        assert says.format(key=files.key) in connected.stderr
