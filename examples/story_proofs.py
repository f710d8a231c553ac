"""The chapter about authorization: a principal, an agent, a sub-agent, a thief, and a host that knows nothing of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from accredit.base.clock import unix_seconds
from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused
from accredit.policy.guarded_call import guarded_call_from_values
from stage import ACCREDIT, HERE, NO, YES, accredit, raw_call, say

GATEWAY_ID = "mail-gateway"
CONFIGURATION = """\
[gateway]
id = "mail-gateway"
[upstream]
url = "{upstream}"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.list_inbox]
scope = "email:read"
[tools.search]
scope = "email:read"
[tools.send_email]
scope = "email:send"
sensitive = true
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""


async def sign(folder: Path, upstream: str) -> None:
    """Makes the keys, and signs what each agent may do."""
    for name, kind in (("owner", "human"), ("agent", "agent"), ("helper", "agent"), ("gateway", "gateway")):
        protection = ("--no-passphrase",) if kind == "human" else ()
        await accredit(folder, "keys", "new", f"{name}.key", "--kind", kind, "--name", name.capitalize(), *protection)
    grant = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--scope", "email:read")
    rest = ("--scope", "email:send", "--scope", "identity:delegate", "--expires", "7d", "--yes", "--out", "agent.json")
    await accredit(folder, *grant, *rest)
    part = ("--parent", "agent.json", "--scope", "email:read", "--expires", "1d", "--out", "helper.json")
    await accredit(folder, "grant", "--issuer", "agent.key", "--agent", "helper.key.pub", *part)
    await accredit(folder, *grant, "--expires", "1s", "--out", "brief.json")
    (folder / "accredit.toml").write_text(CONFIGURATION.format(upstream=upstream), "utf-8")


def presenter(folder: Path, who: str) -> ProofPresenter:
    """The key of an agent, with what it may do."""
    return ProofPresenter(folder / f"{who}.key", [folder / f"{who}.json"], gateway_id=GATEWAY_ID)


def careless(folder: Path) -> tuple[ProofPresenter, int]:
    """The agent with its brief delegation, and its end in unix seconds: the agent's clock stops there, unnoticed."""
    file = folder / "brief.json"
    end = int(json.loads(file.read_text("utf-8"))["delegations"][0]["expires_at"])
    agent = ProofPresenter(folder / "agent.key", [file], gateway_id=GATEWAY_ID, clock=lambda: min(unix_seconds(), end))
    return agent, end


def refusal(answer: str) -> str:
    """The word of a refusal; "" for a result."""
    return json.loads(answer).get("error", {}).get("data", {}).get("error", "")


async def told(what: str, call: Awaitable[object], expected: str = "") -> bool:
    """Makes a call and shows what came of it; says whether that was expected."""
    try:
        result, word = str(await call), ""
    except ProofRefused as error:
        result, word = error.message, error.error
    say(f"    {NO if word else YES} {what:<44} {result.partition('; a host')[0][:150]}")
    return word == expected


async def text_of(client: AccreditedClient, tool: str, **arguments: Any) -> str:
    """What a tool answers."""
    return answer(await client.call_tool(tool, arguments))


def answer(result: CallToolResult) -> str:
    """What a tool has answered."""
    structured = cast("dict[str, object]", result.structured_content or {})
    return str(structured.get("result"))


async def calls(url: str, folder: Path) -> list[bool]:
    """What agents do by themselves."""
    good: list[bool] = []
    mail = {"to": "ada@example.org", "subject": "Hello"}
    async with AccreditedClient(url) as nobody:
        good.append(await told("no proof", text_of(nobody, "list_inbox"), "missing_ratify_proof"))
    async with AccreditedClient(url, presenter=presenter(folder, "agent")) as agent:
        tools = [tool.name for tool in (await agent.list_tools()).tools]
        say(f"    {YES} {'the agent lists tools':<44} {', '.join(tools)}")
        good.append(tools == ["list_inbox", "search", "send_email"])
        good.append(await told("the agent reads the inbox", text_of(agent, "list_inbox")))
        good.append(await told("sends: a challenge comes back, and is signed", text_of(agent, "send_email", **mail)))
    async with AccreditedClient(url, presenter=presenter(folder, "helper")) as helper:
        tools = [tool.name for tool in (await helper.list_tools()).tools]
        say(f"    {YES} {'the sub-agent sees less':<44} {', '.join(tools)}")
        good.append(tools == ["list_inbox", "search"])
        good.append(await told("it searches", text_of(helper, "search", word="case")))
        good.append(await told("it sends: out of scope", text_of(helper, "send_email", **mail), "ratify_scope_denied"))
    return good


async def theft(url: str, folder: Path) -> list[bool]:
    """What a thief does who has seen a proof in transit."""
    agent = presenter(folder, "agent")
    expired, end = careless(folder)
    search = {"word": "case"}

    def proof(who: ProofPresenter = agent) -> dict[str, object]:
        call = guarded_call_from_values("tools/call", {"name": "search", "arguments": search}, "", None)
        return who.prove(call, "email:read", GATEWAY_ID)

    async def attempt(tool: str, arguments: dict[str, Any], using: object) -> str:
        return refusal((await asyncio.to_thread(raw_call, url, tool, arguments, using))[1])

    stolen = proof()
    attempts: list[tuple[str, Callable[[], Awaitable[str]], str]] = [
        ("swaps the arguments on the way", lambda: attempt("search", {"word": "*"}, stolen), "ratify_invalid"),
        ("uses it for another tool", lambda: attempt("list_inbox", {}, stolen), "ratify_invalid"),
        ("(the true call is not hurt by that)", lambda: attempt("search", search, stolen), ""),
        ("uses the proof again", lambda: attempt("search", search, stolen), "ratify_replayed"),
        ("uses a delegation that has expired", lambda: attempt("search", search, proof(expired)), "ratify_expired"),
    ]
    good: list[bool] = []
    await asyncio.sleep(max(0, end + 1 - unix_seconds()))  # it holds to the end of its last second
    for what, act, expected in attempts:
        word = await act()
        say(f"    {NO if word else YES} {what:<44} {word or 'allowed'}")
        good.append(word == expected)
    return good


async def unmodified_host(url: str, folder: Path) -> list[bool]:
    """A host that speaks plain MCP over stdio, with `accredit connect` as its server."""
    words = (
        "connect",
        url,
        "--log-level",
        "error",
        "--key",
        str(folder / "helper.key"),
        "--delegation",
        str(folder / "helper.json"),
        "--ask",
        "off",
    )
    command = StdioServerParameters(command=ACCREDIT[0], args=[*ACCREDIT[1:], *words], cwd=str(HERE))
    async with Client(stdio_client(command)) as host:
        tools = [tool.name for tool in (await host.list_tools()).tools]
        say(f"    {YES} {'the host sees':<44} {', '.join(tools)}")
        inbox = await host.call_tool("list_inbox", {})
        say(f"    {YES} {'it reads the inbox':<44} {answer(inbox)}")
        sent = await host.call_tool("send_email", {"to": "ada@example.org", "subject": "Hello"})
        lines = [getattr(block, "text", "") for block in sent.content]
        say(f"    {NO} {'it sends, and a person can read why not':<44}")
        say("\n".join(f"        {line}" for text in lines for line in text.splitlines()))
        return [tools == ["list_inbox", "search"], not inbox.is_error, sent.is_error is True]


async def revocation(url: str, folder: Path) -> list[bool]:
    """The principal takes its word back while everything runs."""
    certificate = json.loads((folder / "agent.json").read_text("utf-8"))["delegations"][0]["cert_id"]
    async with AccreditedClient(url, presenter=presenter(folder, "helper")) as helper:
        before = await told("before: the sub-agent reads the inbox", text_of(helper, "list_inbox"))
        await accredit(folder, "revoke", certificate, "--issuer", "owner.key", "--store", "sqlite:///accredit.db")
        async with asyncio.timeout(10):
            try:
                while await text_of(helper, "list_inbox"):  # the gateway looks twice a second
                    pass
            except ProofRefused as error:
                say(f"    {NO} {'after: its chain rests on what was revoked':<44} {error.message}")
                return [before, error.error == "ratify_revoked"]
    return [False]


async def only_who_may(url: str, folder: Path) -> bool:
    """The chapter; says whether everything went as it should."""
    say("  Agents, with the client of this package")
    good = await calls(url, folder)
    say("  A thief, who has seen a proof in transit")
    good += await theft(url, folder)
    say("  A host that knows nothing of proofs, through `accredit connect`")
    good += await unmodified_host(url, folder)
    say("  The principal takes back what it said")
    good += await revocation(url, folder)
    return all(good)
