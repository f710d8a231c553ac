"""Roots from a registry over real sockets and TLS: when it is asked, when not, and what counts meanwhile."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import mcp_types as types
import pytest
from tests.unit.ratify.world import certificate
from tests.unit.server.test_server_gate import UNBOUND, code_of, connected
from tests.unit.server.test_server_lowlevel import TOOLS, LowLevel
from tests.world.authorization import Trust
from tests.world.certificates import write_certificate
from tests.world.decisions import Known, call, with_proof
from tests.world.raw_server import Connection, RawServer, until

from accredit.config.load import load
from accredit.config.proofs import build_proofs
from accredit.errors import ConfigurationError
from accredit.keys import make_key, write_key
from accredit.net.registries import (
    MAX_REGISTRY_QUESTIONS,
    REGISTRY_RETRY_SECONDS,
    REGISTRY_SECONDS,
    RESERVED_REGISTRY_QUESTIONS,
    UNKNOWN_ROOTS,
    Registries,
    Registry,
)
from accredit.policy.decide import decide
from accredit.policy.decision import drive
from accredit.ratify import HybridPrivateKey, HybridPublicKey, present
from accredit.ratify.extras.registry import MAX_REGISTRY_BYTES, RegistryAnswer
from accredit.ratify.extras.statements import issue_key_rotation
from accredit.server import ProofGuard
from accredit.stores import MemoryStore

pytestmark = pytest.mark.holds("net/registries")

OLD_FILE, NEW_FILE = make_key("human", "Owner", 1), make_key("human", "Next", 1)
OLD, NEW = OLD_FILE.signer(), NEW_FILE.signer()
STATEMENT = issue_key_rotation(OLD, NEW, "routine", 1)
CURRENT = RegistryAnswer(OLD.id, OLD.public_key, (), None, 1).encode()
REPLACED = RegistryAnswer(NEW.id, NEW.public_key, (STATEMENT,), None, 2).encode()


def stranger(number: int) -> HybridPublicKey:
    return HybridPublicKey(number.to_bytes(32, "big"), bytes(1952))


class World:
    """A registry behind TLS, what it is asked, and the gateway's clock."""

    def __init__(self, folder: Path) -> None:
        write_certificate(folder)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.server = RawServer(self._serve, tls=context)
        self.trust = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        self.now = 1_000.0
        self.asked: list[str] = []
        self.answers: dict[str, bytes] = {OLD.id: CURRENT}
        self.status = b"200 OK"
        self.more = b""
        self.held: asyncio.Event | None = None

    def start(self) -> None:
        self.url = f"https://{urlsplit(self.server.url).netloc}"
        self.registries = self.of({OLD.public_key: "Owner"})

    def of(self, pins: dict[HybridPublicKey, str], trust: ssl.SSLContext | None = None) -> Registries:
        return Registries([Registry(self.url, pins, trust or self.trust)], lambda: self.now)

    async def name(self, key: HybridPublicKey) -> str | None:
        return await self.registries.name(key)

    async def _serve(self, connection: Connection) -> None:
        request = await connection.request()
        if request is None:
            return
        self.asked.append(request.target)
        if self.held is not None:
            await self.held.wait()
        body = self.answers.get(request.target.rpartition("/")[2])
        status = b"404 Not Found" if body is None else self.status
        body = b"{}" if body is None else body
        await connection.send(
            b"HTTP/1.1 " + status + b"\r\n" + self.more + b"content-length: %d\r\n\r\n" % len(body) + body
        )


@contextlib.asynccontextmanager
async def world(folder: Path) -> AsyncGenerator[World]:
    found = World(folder)
    async with found.server:
        found.start()
        yield found
        if found.held is not None:
            found.held.set()
        await found.registries.aclose()


@pytest.mark.holds("net/registries", "replaced", "remembered", "question")
async def test_a_key_that_replaced_a_pinned_one_is_that_root__and_the_older_one_no_longer_is(tmp_path: Path) -> None:
    async with world(tmp_path) as at:
        assert [await at.name(OLD.public_key) for _ in range(3)] == ["Owner"] * 3
        assert at.asked == [f"/v1/registry/principals/{OLD.id}"]
        assert await at.name(NEW.public_key) is None
        at.answers[NEW.id] = REPLACED
        at.now += REGISTRY_RETRY_SECONDS
        assert await at.name(NEW.public_key) == "Owner"
        assert await at.name(OLD.public_key) is None  # at once, and although the registry still says otherwise
        at.now += REGISTRY_SECONDS
        assert await at.name(OLD.public_key) is None
        assert await at.name(NEW.public_key) == "Owner"
        assert len(at.asked) == 4


@pytest.mark.holds("server/assemble")
async def test_a_guarded_server_takes_the_key_that_replaced_a_pinned_one__and_not_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as at:
        monkeypatch.setattr("accredit.net.fetch.trust", lambda: at.trust)  # as where the machine trusts that authority
        at.answers |= {NEW.id: REPLACED, OLD.id: REPLACED}
        url = at.url
        low = LowLevel(protect=False)
        with pytest.raises(ConfigurationError, match="is in registries and in roots"):
            ProofGuard([OLD.public_key], "mail-gateway", registries={url: [OLD.public_key]})
        with pytest.raises(ConfigurationError, match="nothing would be judged"):
            ProofGuard(None, "mail-gateway", registries={url: [OLD.public_key]})
        ProofGuard([], "mail-gateway", registries={url: [OLD.public_key]}).protect(low.server, tools=TOOLS)
        async with connected(low.server, "2026-07-28") as client:
            for owner, refused in ((OLD_FILE, -31004), (NEW_FILE, None)):
                trust = Trust()
                trust.owner = owner
                params = {"name": "list_inbox", "arguments": {}}
                proof = trust.proof(trust.chain("email:read"), "tools/call", params, UNBOUND)
                called = client.call_tool("list_inbox", {}, meta=types.RequestParamsMeta(ratify_proof=proof))
                if refused is None:
                    await called
                else:
                    assert await code_of(called) == refused
        assert low.ran == ["list_inbox"]


@pytest.mark.holds("net/registries", "remembered", "away")
async def test_an_answer_counts_for_300_seconds__and_without_a_new_one_no_key_is_a_root(tmp_path: Path) -> None:
    async with world(tmp_path) as at:
        await at.name(OLD.public_key)
        at.answers.clear()
        at.now += REGISTRY_SECONDS - 1
        assert await at.name(OLD.public_key) == "Owner"
        at.now += 1
        assert await at.name(OLD.public_key) is None
        at.answers[OLD.id] = CURRENT
        assert await at.name(OLD.public_key) is None
        at.now += REGISTRY_RETRY_SECONDS
        assert await at.name(OLD.public_key) == "Owner"


@pytest.mark.holds("net/registries", "question")
@pytest.mark.parametrize("doubt", ["redirect", "status", "large", "other", "no object", "untrusted"])
async def test_every_doubt_means_that_it_is_no_root(doubt: str, tmp_path: Path) -> None:
    async with world(tmp_path) as at:
        match doubt:
            case "redirect":
                at.status, at.more = b"302 Found", b"location: /elsewhere\r\n"
            case "status":
                at.status = b"500 Oops"
            case "large":
                at.answers[OLD.id] = CURRENT + b" " * MAX_REGISTRY_BYTES
            case "other":
                at.answers[OLD.id] = REPLACED
            case "no object":
                at.answers[OLD.id] = b"[]"
            case _:
                at.registries = at.of({OLD.public_key: "Owner"}, ssl.create_default_context())
        assert await at.name(OLD.public_key) is None
        assert len(at.asked) == (doubt != "untrusted")


@pytest.mark.holds("net/registries", "strangers", "bound", "one-question")
async def test_a_flood_of_invented_keys_neither_floods_the_registry_nor_keeps_it_from_the_owner(tmp_path: Path) -> None:
    async with world(tmp_path) as at:
        at.held = asyncio.Event()
        strangers = [asyncio.create_task(at.name(stranger(number))) for number in range(200)]
        room = MAX_REGISTRY_QUESTIONS - RESERVED_REGISTRY_QUESTIONS
        await until(lambda: len(at.asked) == room)
        owners = [asyncio.create_task(at.name(OLD.public_key)) for _ in range(20)]
        await until(lambda: len(at.asked) == room + 1)
        owners.pop().cancel()
        at.held.set()
        assert set(await asyncio.gather(*owners)) == {"Owner"}
        assert set(await asyncio.gather(*strangers)) == {None}
        for number in range(200, 300):
            assert await at.name(stranger(number)) is None
        assert len(at.asked) == UNKNOWN_ROOTS + 1


@pytest.mark.parametrize("host", ["registry.example", "127.0.0.1:9"])
def test_a_registry_in_the_clear_is_an_error__on_loopback_as_well(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"proofs\.registries\[0\]\.url"):
        Registries([Registry(f"http://{host}", {OLD.public_key: "Owner"})])


@pytest.mark.holds("policy/decision", "pinned", "registry")
async def test_a_stolen_key_that_was_replaced_is_refused_where_the_registry_says_so(tmp_path: Path) -> None:
    """From the configuration to the decision: the old key's delegations end, and the new key's count."""
    agent = make_key("agent", "Agent", 1)
    for name, owner in (("owner", OLD_FILE), ("next", NEW_FILE), ("agent", agent)):
        write_key(tmp_path / f"{name}.key", owner)
    async with world(tmp_path) as at:
        text = f"""[gateway]
id = "gate"
[proofs]
mode = "required"
[tools.look]
scope = "email:read"
[[proofs.registries]]
url = "{at.url}"
pins = ["owner.key.pub"]
ca_file = "cert.pem"
"""
        (tmp_path / "accredit.toml").write_text(text, "utf-8")
        settings = build_proofs(load(tmp_path / "accredit.toml", {}, {}), vocabulary=frozenset())
        assert settings is not None
        store = MemoryStore()

        async def error(owner: HybridPrivateKey, draw: bytes) -> str | None:
            now, public = int(time.time()), agent.public_key
            members = {"issued_at": now - 1, "expires_at": now + 60, "cert_id": owner.id, "subject_id": public.id}
            chain = [certificate(owner, public, scope=("email:read",), **members)]
            proof = present(chain, agent.signer(), draw * 32, now)
            asked = with_proof(call("look"), proof)
            decision = await drive(decide(asked, settings.policy, now), store, Known(), now)
            return decision.refusal.error if decision.refusal is not None else None

        assert await error(OLD, b"1") is None
        at.answers[NEW.id] = REPLACED
        assert await error(NEW, b"2") is None
        assert await error(OLD, b"3") == "ratify_untrusted_root"
