"""Every signature at the desk is of both algorithms, Ed25519 and ML-DSA-65: half of one is none, in a real browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey
from msgspec.structs import replace
from tests.world.agents import agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit
from tests.world.connected import Connected
from tests.world.desk import CALL, Agent, Desk, Line
from tests.world.scripted_desk import ScriptedDesk, allows

from accredit.consent.answers import read_answer
from accredit.consent.asks import Ask
from accredit.console.names import set_name
from accredit.keys import DelegationFile, make_key, write_file
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature
from accredit.ratify.structures import delegation_sign_bytes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("consent/asks", "signature"),
    pytest.mark.holds("consent/answers", "chain"),
]
HALVES = ("ed25519", "ml_dsa_65")
halves = pytest.mark.parametrize("half", HALVES)


def test_what_is_allowed_in_the_browser_is_what_it_said__and_signed_by_both(desk: Desk, browser: Any) -> None:
    agent = Agent()
    ask = agent.ask()
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        page = desk.page(browser, f"/a/{ask.code}")
        page.click("summary")
        signs = page.text_content(".signs")
        page.click("button[data-allow]")
        (cert,) = read_answer(json.dumps(line.next()["answer"]).encode()).certificates
        page.close()
    write_file(desk.folder / "given.json", DelegationFile((cert,)).encode())
    inspected = accredit("inspect", str(desk.folder / "given.json"), folder=desk.folder).stdout
    (words,) = re.findall(r"only at gateway .*? at most 1 call in 10m", " ".join(inspected.split()))
    assert words in " ".join(signs.split())  # what the page said is what is in the file
    # by the library of the algorithms itself
    signed, key = delegation_sign_bytes(cert), desk.owner.public_key
    Ed25519PublicKey.from_public_bytes(key.ed25519).verify(cert.signature.ed25519, signed)
    MLDSA65PublicKey.from_public_bytes(key.ml_dsa_65).verify(cert.signature.ml_dsa_65, signed)
    assert cert.subject_pub_key == agent.key.public_key


@halves
def test_an_ask_of_which_half_is_signed_by_somebody_else_is_not_shown(half: str, desk: Desk, browser: Any) -> None:
    ask = Agent().ask()
    other = replace(ask, agent=Agent().ask().agent).signed(Agent().key.signer())
    parts = {each: getattr(other.signature if each == half else ask.signature, each) for each in HALVES}
    with Line(desk.socket) as line:
        assert line.tell({"ask": replace(ask, signature=HybridSignature(**parts)).to_dict()})["error"] == "bad_ask"
        page = desk.page(browser)
        page.wait_for_selector("text=Nobody is asking.")
        page.close()


@halves
def test_whoever_has_half_of_an_agents_key_does_not_have_its_name(half: str, desk: Desk, browser: Any) -> None:
    named, other = Agent(), Agent()
    set_name(desk.config, named.key.id, "Assistant")
    keys = {each: getattr((named if each == half else other).key.public_key, each) for each in HALVES}
    ask = other.ask()
    mixed = replace(ask, agent=replace(ask.agent, public_key=HybridPublicKey(**keys))).signed(other.key.signer())
    with Line(desk.socket) as line:
        assert line.tell({"ask": mixed.to_dict()})["error"] == "bad_ask"
        page = desk.page(browser)
        page.wait_for_selector("text=Nobody is asking.")
        page.close()


@halves
def test_an_answer_of_which_half_is_signed_by_somebody_else_allows_nothing(
    half: str, trust: Trust, gateway: Serving, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust, "email:read")

    def half_signed(ask: Ask) -> Any:
        answer: Any = allows(trust.owner)(ask)
        other: Any = allows(make_key("human", "Eve", 1))(ask)
        signature = answer["answer"]["certificates"][0]["signature"]
        signature[half] = other["answer"]["certificates"][0]["signature"][half]
        return answer

    with ScriptedDesk(tmp_path, half_signed) as desk:
        with Connected(files.folder, gateway.url, *files.options, **desk.env) as host:
            host.initialize()
            result = host.ask("tools/call", CALL)["result"]
            assert result["isError"]
            assert "accredit grant" in result["content"][0]["text"]
        assert len(desk.asks) == 1
