"""Constraints of extensions in a decision: who judges them, and that nothing but a yes is one."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.ratify.world import NOW
from tests.world.decisions import VERIFIER, Deployment, call, granted, proven

from accredit.consent.call import CALL
from accredit.errors import ConfigurationError
from accredit.policy.evaluators import with_own
from accredit.ratify import Extension, VerifierContext

HOURS = Extension(name="com.example.hours", params={"from": 9})


def deciding(evaluator: Callable[..., Any]) -> Deployment:
    return Deployment(constraint_evaluators=with_own({"com.example.hours": evaluator}))


@pytest.mark.parametrize("answer", [False, 1, 0, "", "closed", [], object()])
def test_an_evaluator_that_fails_or_says_anything_else_than_yes_denies(answer: object) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the secret of the calendar")

    asked = proven(call(), granted(constraints=[HOURS]))
    assert deciding(lambda *_: answer).error(asked) == "ratify_constraint_denied"
    refusal = deciding(fails).decides(asked).refusal
    assert refusal is not None
    assert refusal.error == "ratify_constraint_denied"
    assert "secret" not in str(refusal.data) + str(refusal)


@pytest.mark.parametrize("answer", [None, True])
def test_a_yes_is_one__and_the_evaluator_sees_the_whole_call(answer: object) -> None:
    seen: list[Any] = []

    def judge(constraint: Extension, cert_id: str, context: VerifierContext, now: int) -> object:
        seen.append((constraint, context.call, now))
        return answer

    asked = proven(call("list_inbox", {"limit": 3}, requestState="x"), granted(constraints=[HOURS]))
    assert deciding(judge).error(asked) == ""
    ((constraint, facts, now),) = seen
    assert (constraint, now) == (HOURS, NOW)
    assert (facts.verifier_id, facts.method, facts.target) == (VERIFIER, "tools/call", "list_inbox")
    assert (facts.arguments, facts.definition) == ({"limit": 3}, None)
    text = b'{"arguments":{"limit":3},"name":"list_inbox"}'
    assert facts.params_digest() == hashlib.sha256(text).digest()


def test_without_an_evaluator_a_constraint_is_unknown_and_no_call_passes() -> None:
    assert Deployment().error(proven(call(), granted(constraints=[HOURS]))) == "ratify_constraint_unknown"


@pytest.mark.parametrize("name", [CALL, "max_rate", "time_window"])
def test_no_deployment_replaces_a_judge_that_there_is(name: str) -> None:
    def judge(*_: object) -> bool:
        return True

    with pytest.raises(ConfigurationError, match="judged already"):
        with_own({name: judge})


def test_what_can_t_be_called_is_no_evaluator() -> None:
    with pytest.raises(ConfigurationError, match="can't be called"):
        with_own({"com.example.hours": 3})  # pyright: ignore[reportArgumentType]
