"""Key files and delegation files: what is one, and what is not."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.delegations import World

from accredit.errors import WireError
from accredit.keys import DelegationFile, KeyFile, PrivateKeyFile, make_key
from accredit.limits import MAX_KEY_FILE_BYTES
from accredit.ratify import derive_id

pytestmark = pytest.mark.holds("keys/formats")

KEY = make_key("human", "Owner", 1_800_000_000)


def test_a_private_key_file_has_exactly_the_members_of_the_contract() -> None:
    members = json.loads(KEY.encode())
    assert set(members) == {"accredit_key", "kind", "name", "id", "created_at", "public_key", "seed"}
    assert set(members["seed"]) == set(members["public_key"]) == {"ed25519", "ml_dsa_65"}
    assert (members["accredit_key"], members["kind"], members["name"]) == (1, "human", "Owner")
    assert members["id"] == derive_id(KEY.public_key)


def test_the_public_half_is_the_same_without_the_seeds() -> None:
    members = json.loads(KEY.encode())
    del members["seed"]
    assert json.loads(KEY.public().encode()) == members


def test_what_is_written_is_read_back() -> None:
    assert PrivateKeyFile.decode(KEY.encode()) == KEY
    assert KeyFile.decode(KEY.public().encode()) == KEY.public()


def test_its_signer_has_its_id_and_signs() -> None:
    signer = KEY.signer()
    assert (signer.id, signer.public_key) == (KEY.id, KEY.public_key)


def test_two_keys_differ() -> None:
    other = make_key("human", "Owner", 1_800_000_000)
    assert other.id != KEY.id
    assert other.seed.ed25519 != other.seed.ml_dsa_65


def test_seeds_do_not_show_themselves() -> None:
    for secret in (KEY.seed.ed25519, KEY.seed.ml_dsa_65):
        assert repr(secret)[2:-1] not in repr(KEY)
    assert KEY.seed.__rich_repr__() == []


@pytest.mark.holds("keys/formats", "version", "name", "id")
@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"accredit_key": 2}, "accredit_key"),
        ({"accredit_key": True}, "accredit_key"),
        ({"kind": "robot"}, "kind"),
        ({"name": ""}, "name"),
        ({"name": "a\x1b[31m"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "ä" * 129}, "name"),
        ({"id": "0" * 32}, "id"),
        ({"id": KEY.id.upper()}, "id"),
        ({"created_at": 1.5}, "created_at"),
        ({"public_key": {"ed25519": "AAAA"}}, "public_key.ed25519"),
        ({"note": "x"}, ""),
    ],
)
def test_another_file_is_no_key_file(changes: dict[str, object], where: str) -> None:
    members = json.loads(KEY.public().encode()) | changes
    with pytest.raises(WireError) as caught:
        KeyFile.decode(json.dumps(members))
    assert caught.value.path == (f"KeyFile.{where}" if where else "KeyFile")


@pytest.mark.holds("keys/formats", "seeds")
def test_seeds_of_another_key_are_refused() -> None:
    other = make_key("human", "Other", 0)
    with pytest.raises(WireError) as caught:
        PrivateKeyFile.decode(replace(KEY, seed=other.seed).text())
    assert caught.value.path == "PrivateKeyFile.seed"


def test_a_missing_member_is_named() -> None:
    members: dict[str, Any] = json.loads(KEY.encode())
    del members["seed"]["ml_dsa_65"]
    with pytest.raises(WireError, match="ml_dsa_65"):
        PrivateKeyFile.decode(json.dumps(members))


def test_a_longer_file_is_not_parsed() -> None:
    with pytest.raises(WireError, match=str(MAX_KEY_FILE_BYTES)):
        KeyFile.decode(b" " * (MAX_KEY_FILE_BYTES + 1))


def test_the_longest_name_fits() -> None:
    key = make_key("agent", "\U0001d4d0" * 64, 2**53 - 1)
    assert PrivateKeyFile.decode(key.encode()) == key
    assert len(key.encode()) < MAX_KEY_FILE_BYTES


def test_a_delegation_file_holds_a_chain_and_nothing_else() -> None:
    chain = World().chain()
    data = DelegationFile(chain).encode()
    assert DelegationFile.decode(data).delegations == chain
    assert list(json.loads(data)) == ["delegations"]


@pytest.mark.parametrize("text", ['{"delegations": []}', "{}", "[]", '{"delegations": [], "note": 1}', "{"])
def test_another_file_is_no_delegation_file(text: str) -> None:
    with pytest.raises(WireError):
        DelegationFile.decode(text)


def test_the_bounds_of_each_certificate_hold_in_a_file() -> None:
    leaf, parent = World().chain()
    with pytest.raises(WireError) as caught:
        DelegationFile.decode(DelegationFile((leaf, replace(parent, scope=("custom:x",) * 129))).text())
    assert caught.value.path == "DelegationFile.delegations[1]"
