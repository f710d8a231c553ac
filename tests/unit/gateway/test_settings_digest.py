"""Where no configuration says by which policy calls are decided, the gateway's own settings do."""

import asyncio
from dataclasses import fields, replace
from typing import Any

import pytest
from tests.world.recorded import MemoryRecords

from accredit.attest import CallDecision
from accredit.errors import ConfigurationError
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.settings import (
    GatewaySettings,
    HttpUpstream,
    ProofSettings,
    RecordSettings,
    RoundsSettings,
    StdioUpstream,
    TokenSettings,
)
from accredit.gateway.settings_digest import settings_digest
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.requests import decode_request
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decision import Policy
from accredit.ratify import CertificateCache, HybridPublicKey
from accredit.tokens.verify import Issuer

pytestmark = pytest.mark.holds("gateway/settings")

CATALOG = Catalog(tools={"pay": Entry(scope="payments:send", accepts=("payments:all",))})


def key(byte: int) -> HybridPublicKey:
    return HybridPublicKey(bytes([byte]) * 32, bytes([byte]) * 1952)


def policy(**changed: Any) -> Policy:
    told: dict[str, Any] = {"verifier_id": "gate", "roots": {key(1): "Owner"}, "catalog": CATALOG}
    told |= {"vocabulary": CATALOG.vocabulary(), "cert_cache": CertificateCache()}
    return Policy(**(told | changed))


def tokens(**changed: Any) -> TokenSettings:
    return replace(TokenSettings((Issuer("https://i", "aud"),), "http://127.0.0.1/mcp"), **changed)


SETTINGS = GatewaySettings(
    HttpUpstream("http://127.0.0.1:1/mcp?key=swordfish", {"X-Api-Key": "swordfish"}),
    proofs=ProofSettings(policy(), required=True),
    tokens=tokens(),
    records=RecordSettings("gate"),
)

OTHER: dict[str, Any] = {
    "upstream": StdioUpstream(("python", "server.py")),
    "path": "/other",
    "allowed_origins": ("https://a.example",),
    "allowed_hosts": ("a.example",),
    "passthrough": ("/robots.txt",),
    "max_request_bytes": 1,
    "max_response_bytes": 1,
    "max_event_bytes": 1,
    "upstream_timeout_seconds": 1.5,
    "enforce": False,
    "proofs": None,
    "records": RecordSettings("gate", full=True),
    "tokens": None,
    "rounds": RoundsSettings(state_seconds=1),
}


@pytest.mark.holds("gateway/settings_digest", "left-out")
def test_each_setting_counts_but_those_that_decide_on_no_call() -> None:
    before = settings_digest(SETTINGS)
    known = {field.name for field in fields(GatewaySettings)}
    assert set(OTHER) | {"workers"} <= known
    for name in OTHER:
        assert settings_digest(replace(SETTINGS, **{name: OTHER[name]})) != before, name
    assert settings_digest(replace(SETTINGS, workers=4)) == before


@pytest.mark.parametrize(
    "changed",
    [
        {"roots": {key(2): "Owner"}},
        {"roots": {key(1): "Boss"}},
        {"catalog": Catalog()},
        {"freshness_seconds": 29},
        {"binding_required": True},
        {"bind_agent": True},
    ],
)
def test_each_part_of_the_policy_counts(changed: dict[str, Any]) -> None:
    other = replace(SETTINGS, proofs=ProofSettings(policy(**changed), required=True))
    assert settings_digest(other) != settings_digest(SETTINGS)


@pytest.mark.holds("gateway/settings_digest", "secrets", "ids", "left-out")
def test_secrets_count_by_their_names_alone__a_digest_that_held_one_could_be_guessed_at() -> None:
    told = replace(SETTINGS, upstream=HttpUpstream("http://127.0.0.1:1/mcp?key=other", {"X-Api-Key": "other"}))
    assert settings_digest(told) == settings_digest(SETTINGS)
    named = replace(SETTINGS, upstream=HttpUpstream("http://127.0.0.1:1/mcp", {"X-Other-Key": "swordfish"}))
    assert settings_digest(named) != settings_digest(SETTINGS)
    one, two = (replace(SETTINGS, upstream=StdioUpstream(("x",), {"KEY": each})) for each in ("a", "b"))
    assert settings_digest(one) == settings_digest(two)
    drawn = replace(SETTINGS, rounds=RoundsSettings(shared=True))
    assert settings_digest(drawn) == settings_digest(SETTINGS)


class Kept(MemoryRecords):
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.decided: list[CallDecision] = []

    async def begin(self, decided: CallDecision) -> None:
        self.decided.append(decided)


@pytest.mark.parametrize("told", ["", "ab" * 32])
def test_the_record_says_the_configurations_digest__else_that_of_the_settings(told: str) -> None:
    kept, settings = Kept(), replace(SETTINGS, records=RecordSettings("gate", policy_digest=told))
    recorder = recorder_of(settings, Counters(), kept)
    assert recorder is not None
    request = decode_request(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}')
    assert isinstance(request, Request)
    asyncio.run(recorder.begin(request, Call(), ConfigurationError("x", "y")))
    assert [each.policy_digest for each in kept.decided] == [told or settings_digest(settings)]
