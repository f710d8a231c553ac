"""What is remembered of the call that made a task."""

import hashlib

import pytest
import rfc8785
from tests.world.authorization import GATEWAY, Trust

from accredit.consent.call import CallTerms
from accredit.errors import StoreUnavailable
from accredit.policy.tasks import MAX_TASK_FACTS_BYTES, encode_task_facts, read_made_by, same_call
from accredit.ports import Task

pytestmark = pytest.mark.holds("policy/tasks")

PARAMS = bytes(range(32))
ARGUMENTS = {"to": "ada@example.org", "body": "nobody else's business"}


def task(facts: bytes, owner: bytes = b"o" * 32) -> Task:
    return Task(owner, "tools/call", "send_email", facts, "")


def digest(value: object) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()  # pyright: ignore[reportArgumentType]


def test_of_the_arguments_only_the_digests_of_those_that_the_chain_names_are_remembered() -> None:
    terms = CallTerms(
        gateway=GATEWAY, method="tools/call", target=("send_email",), args={"/to": (digest("x"),), "/cc": (digest(1),)}
    )
    text = encode_task_facts(
        {"amount": 5}, PARAMS, ARGUMENTS, Trust().chain("email:send", constraints=(terms.constraint(),))
    )
    assert b"ada" not in text
    assert b"business" not in text
    found = read_made_by(task(text))
    assert (found.facts, found.params, found.args) == ({"amount": 5}, PARAMS.hex(), {"/to": digest("ada@example.org")})


def test_of_too_much_the_digest_of_the_params_is_left() -> None:
    found = read_made_by(task(encode_task_facts({"resource_id": "x" * MAX_TASK_FACTS_BYTES}, PARAMS, None, ())))
    assert (found.facts, found.params) == ({}, PARAMS.hex())


def test_a_call_is_the_same_by_its_owner_and_its_params() -> None:
    one = task(encode_task_facts({}, PARAMS, ARGUMENTS, ()))
    assert same_call(one, one)
    assert not same_call(one, task(encode_task_facts({}, bytes(32), ARGUMENTS, ())))
    assert not same_call(one, task(one.facts, owner=b"p" * 32))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"args":{"/to":5}}', b"\xff", b'{"params":"\xff"}', b'{"x":' + b"[" * 3_000 + b"]" * 3_000 + b"}"],
)
def test_what_can_not_be_read_is_no_answer_of_the_store(text: bytes) -> None:
    with pytest.raises(StoreUnavailable):
        read_made_by(task(text))
