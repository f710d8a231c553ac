"""`[attest]`: what is recorded, and with whose key; what can't work stops the start."""

from pathlib import Path

import pytest
from tests.world.running import run

from accredit.app.assemble import assemble
from accredit.config.attest import build_log_signer, build_records, trusted_log_keys
from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RecordSettings
from accredit.keys import make_key, write_key
from accredit.ops.log_place import public_keys

pytestmark = pytest.mark.holds("config/attest")

STORE = '[store]\nurl = "sqlite:///accredit.db"\n'


def built(folder: Path, text: str) -> RecordSettings | None:
    (folder / "accredit.toml").write_text(text, "utf-8")
    return build_records(load(folder / "accredit.toml", {}, {}))


def attest(mode: str = "durable", key: str = "gateway.key", more: str = "") -> str:
    return f'[attest]\nmode = "{mode}"\nkey_file = "{key}"\n{more}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("gateway", "human"):
        write_key(tmp_path / f"{kind}.key", make_key(kind, kind, 0))  # type: ignore[arg-type]
    monkeypatch.chdir("/")
    return tmp_path


def test_records_bear_the_id_of_the_key_or_the_gateways_own(folder: Path) -> None:
    found = built(folder, attest() + STORE)
    assert found is not None
    assert (len(found.gateway_id), found.full) == (32, False)
    named = built(folder, '[gateway]\nid = "gate"\n' + attest(more='arguments = "full"\n') + STORE)
    assert named is not None
    assert (named.gateway_id, named.full) == ("gate", True)
    without = built(folder, attest(more='proofs = "digest"\n') + STORE)
    assert without is not None
    assert (found.keeps_proofs, without.keeps_proofs) == (True, False)
    assert built(folder, "") is None
    assert built(folder, attest(mode="off", key="none.key")) is None


def test_a_gateway_key_beside_the_file_needs_no_name(folder: Path) -> None:
    text = '[attest]\nmode = "record"\n' + STORE
    beside, named = built(folder, text), built(folder, attest() + STORE)
    assert beside is not None
    assert named is not None
    assert beside.gateway_id == named.gateway_id
    (folder / "gateway.key").unlink()
    with pytest.raises(ConfigurationError, match=r"attest\.key_file is not set") as refused:
        built(folder, text)
    assert refused.value.remedy


def test_who_signs_the_same_log_is_a_gateway__a_persons_key_vouches_for_no_record(folder: Path) -> None:
    text = attest(more='public_key_files = ["human.key.pub"]\n') + STORE
    with pytest.raises(ConfigurationError, match="a human") as refused:
        built(folder, text)
    assert refused.value.remedy
    write_key(folder / "old.key", make_key("gateway", "old", 0))
    text = text.replace("human", "old")
    assert built(folder, text) is not None
    loaded = load(folder / "accredit.toml", {}, {})
    (key,) = trusted_log_keys(loaded)
    assert {each.id for each in public_keys([], folder / "accredit.toml")} == {key.id, build_log_signer(loaded).id}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (attest(key="none.key") + STORE, "none.key"),
        (attest(key="human.key") + STORE, "a human"),
        (attest(key="gateway.key.pub") + STORE, "public key"),
        (attest(), "memory:"),
        (attest(more='public_key_files = ["none.pub"]\n') + STORE, "none.pub"),
        (attest(more='public_key_files = ["gateway.key"]\n') + STORE, "private key"),
    ],
)
def test_a_log_that_nobody_could_sign_or_keep_stops_the_start(folder: Path, text: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word) as refused:
        built(folder, text)
    assert refused.value.remedy


@pytest.mark.parametrize("mode", ["off", "record", "durable"])
def test_a_key_that_others_can_read_stops_the_start(folder: Path, mode: str) -> None:
    (folder / "gateway.key").chmod(0o644)
    with pytest.raises(ConfigurationError, match="others can read"):
        built(folder, attest(mode) + STORE)
    (folder / "gateway.key").chmod(0o400)
    built(folder, attest(mode) + STORE)


@pytest.mark.parametrize("mode", ["record", "durable"])
def test_nothing_is_open_before_the_first_record(folder: Path, mode: str) -> None:
    (folder / "accredit.toml").write_text(attest(mode) + STORE, "utf-8")
    ports = assemble(load(folder / "accredit.toml", {}, {}), None)
    assert ports.records is not None
    assert ports.store is None
    assert sorted(path.name for path in folder.iterdir() if "accredit.db" in path.name) == []
    run(ports.records.aclose())
    assert not (folder / "accredit.db").exists()
