"""The sample of the page about Ratify that reads a parsed proof, as it stands there."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.ratify.world import CHALLENGE, CONTEXT, HUMAN, NOW, chain, proof

from accredit.errors import WireError
from accredit.ratify import DelegationCert, MemoryChallengeStore, decode_delegation_cert, encode_delegation_cert

PAGE = (Path(__file__).parents[3] / "docs/reference/ratify.md").read_text("utf-8")
(SAMPLE,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "from_dict" in each]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr("accredit.ratify.callbacks.unix_seconds", lambda: NOW)
    store = MemoryChallengeStore(lambda size: CHALLENGE[:size])
    store.issue(CONTEXT, 60, NOW)
    found: dict[str, Any] = {"owner_key": HUMAN.public_key, "revoked": set[str](), "store": store}
    exec(SAMPLE, found)
    return found


def test_the_sample_tells_who_allowed_a_call__once(names: dict[str, Any]) -> None:
    bundle = proof(chain(1, ("email:send",)), session_context=CONTEXT)
    meta = {"ratify_proof": bundle.to_dict()}
    with pytest.raises(WireError):
        names["principal_of"]("send_email", {"ratify_proof": {**bundle.to_dict(), "note": 1}}, CONTEXT)
    assert names["principal_of"]("send_email", meta, CONTEXT) == HUMAN.id
    with pytest.raises(PermissionError):
        names["principal_of"]("send_email", meta, CONTEXT)


def test_the_sample_refuses_what_was_not_allowed(names: dict[str, Any]) -> None:
    bundle = proof(chain(1, ("email:send",)), session_context=CONTEXT)
    with pytest.raises(PermissionError, match="email:read"):
        names["principal_of"]("list_inbox", {"ratify_proof": bundle.to_dict()}, CONTEXT)


def test_the_page_names_modules_that_are_there() -> None:
    table = PAGE.partition("## Clause by clause")[2].partition("\n## ")[0]
    cells = [line.rsplit("|", 2)[1] for line in table.splitlines() if line.startswith("|")]
    named = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}
    assert len(named) > 10
    for name in named:
        assert importlib.util.find_spec(name if name.startswith("accredit.") else f"accredit.ratify.{name}"), name


def test_a_certificate_is_read_by_the_same_names() -> None:
    (cert,) = chain(1)
    assert DelegationCert.from_dict(cert.to_dict()) == decode_delegation_cert(encode_delegation_cert(cert)) == cert
