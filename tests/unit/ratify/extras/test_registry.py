"""A registry's answer about a key: which keys it replaced, and every doubt about that."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from accredit.errors import WireError
from accredit.keys import make_key
from accredit.ratify.extras.registry import MAX_ROTATIONS, RegistryAnswer, succession
from accredit.ratify.extras.statements import KeyRotationStatement, issue_key_rotation
from accredit.ratify.hybrid import HybridSigner

pytestmark = pytest.mark.holds("ratify/extras/registry")


def signer_of(name: str) -> HybridSigner:
    return make_key("human", name, 1).signer()


A, B, C, THIEF = (signer_of(name) for name in "ABCT")


def rotation(old: int, new: int, at: int = 0) -> KeyRotationStatement:
    return issue_key_rotation((A, B, C)[old], (A, B, C)[new], "routine", at)


ANSWER = RegistryAnswer(C.id, C.public_key, (rotation(0, 1, 10), rotation(1, 2, 20)), None, 30)


@pytest.mark.holds("ratify/extras/registry", "pinned", "signed", "in-order", "asked")
def test_a_key_descends_from_the_first_pinned_one() -> None:
    answer = RegistryAnswer.decode(ANSWER.encode())
    assert succession(answer, C.public_key, {A.public_key}) == (A.public_key, B.public_key, C.public_key)
    assert succession(answer, C.public_key, {B.public_key}) == (B.public_key, C.public_key)
    assert succession(answer, C.public_key, {C.public_key}) == (C.public_key,)
    current = replace(ANSWER, human_id=A.id, public_key=A.public_key, rotations=())
    assert succession(current, A.public_key, {A.public_key}) == (A.public_key,)


def _forged(statement: KeyRotationStatement, name: str) -> KeyRotationStatement:
    return replace(statement, **{name: THIEF.sign(b"something else")})


DOUBTS: dict[str, Callable[[], RegistryAnswer]] = {
    "about another key": lambda: replace(ANSWER, human_id=A.id),
    "about another key ": lambda: replace(ANSWER, human_id=B.id, public_key=B.public_key),
    "not in order": lambda: replace(ANSWER, rotations=(rotation(0, 1, 21), rotation(1, 2, 20))),
    "not in order ": lambda: replace(ANSWER, rotations=(rotation(0, 1), rotation(0, 2))),
    "not in order  ": lambda: replace(ANSWER, rotations=ANSWER.rotations[::-1]),
    "they end with another key": lambda: replace(ANSWER, rotations=ANSWER.rotations[:1]),
    "comes back": lambda: replace(ANSWER, rotations=(rotation(2, 0), rotation(0, 2))),
    "they begin with no pinned key": lambda: replace(ANSWER, rotations=(rotation(1, 2),)),
    "they begin with no pinned key ": lambda: replace(ANSWER, rotations=()),
    "old signature invalid": lambda: replace(
        ANSWER, rotations=(_forged(ANSWER.rotations[0], "signature_old"), ANSWER.rotations[1])
    ),
    "new signature invalid": lambda: replace(
        ANSWER, rotations=(ANSWER.rotations[0], _forged(ANSWER.rotations[1], "signature_new"))
    ),
}


@pytest.mark.holds("ratify/extras/registry", "asked", "in-order", "pinned", "signed")
@pytest.mark.parametrize("doubt", DOUBTS)
def test_every_doubt_is_an_error(doubt: str) -> None:
    with pytest.raises(WireError, match=doubt.strip()):
        succession(DOUBTS[doubt](), C.public_key, {A.public_key})


def test_an_answer_is_read_strictly_and_is_bounded() -> None:
    text = replace(ANSWER, rotations=()).encode()
    for other in (text[:-1] + b',"more":1}', text.replace(b'"rotations":[],', b""), b"{}", b"[]", b""):
        with pytest.raises(WireError):
            RegistryAnswer.decode(other)
    many = replace(ANSWER, rotations=(ANSWER.rotations[0],) * (MAX_ROTATIONS + 1))
    with pytest.raises(WireError):
        RegistryAnswer.decode(many.text())
    assert RegistryAnswer.decode(text.replace(b'"anchor":null', b'"anchor":{"kind":"x"}')).anchor == {"kind": "x"}
