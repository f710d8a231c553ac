"""Issuing: what may not be granted is refused with the reason, before anything is signed."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import (
    AGENT,
    CHALLENGE,
    HOUR,
    HUMAN,
    NOW,
    STRANGER,
    SUB_AGENT,
    certificate,
    chain,
    constraint,
    judged,
    proof,
)

from accredit.errors import IssueError
from accredit.ratify import (
    DelegationCert,
    Extension,
    Grant,
    HybridPrivateKey,
    HybridPublicKey,
    HybridSignature,
    issue_delegation,
    present,
)


def grant(subject: HybridPrivateKey = AGENT, **change: Any) -> Grant:
    members: dict[str, Any] = {
        "subject": subject.public_key,
        "cert_id": "grant-1",
        "scope": ("files:read", "identity:delegate"),
        "issued_at": NOW,
        "expires_at": NOW + HOUR,
    }
    return Grant(**(members | change))


class Careful:
    """A signer that must not be asked to sign."""

    def __init__(self, key: HybridPrivateKey) -> None:
        self.id = key.id
        self.public_key: HybridPublicKey = key.public_key

    def sign(self, message: bytes) -> HybridSignature:
        raise AssertionError(f"signed {message!r}")


def refusal(found: Grant, issuer: HybridPrivateKey = HUMAN, **options: Any) -> str:
    with pytest.raises(IssueError) as caught:
        issue_delegation(Careful(issuer), found, **options)
    return str(caught.value)


def test_a_delegation_and_a_sub_delegation() -> None:
    parent = issue_delegation(HUMAN, grant())
    child = issue_delegation(AGENT, grant(SUB_AGENT, scope=("files:read",)), parents=[parent])
    result = judged(proof([child, parent], SUB_AGENT), roots=[HUMAN.public_key], required_scope="files:read")
    assert (result.valid, result.human_id, result.agent_id) == (True, HUMAN.id, SUB_AGENT.id)


def test_the_deployments_own_scopes_are_passed_on() -> None:
    words = {"email:send"}
    parent = issue_delegation(HUMAN, grant(scope=("email:send", "identity:delegate")), vocabulary=words)
    child = issue_delegation(AGENT, grant(SUB_AGENT, scope=("email:send",)), parents=[parent], vocabulary=words)
    assert judged(proof([child, parent], SUB_AGENT), vocabulary=words).granted_scope == ["email:send"]


@pytest.mark.holds("ratify/issue", "bounds", "portability")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scope": ("email:send",)}, 'unknown scope "email:send"'),
        ({"expires_at": NOW - 1}, "would end before it begins"),
        ({"scope": tuple(f"custom:{n}" for n in range(129))}, "MAX_SCOPES_PER_CERT"),
        ({"scope": ("custom:" + "x" * 250,)}, "MAX_SCOPE_LENGTH_BYTES"),
        ({"expires_at": 2**53}, "safe-integer range"),
        ({"cert_id": "\ud800"}, "lone surrogate"),
        ({"constraints": (Extension("x"),) * 33}, "MAX_CONSTRAINTS_PER_CERT"),
        ({"constraints": (Extension("max_amount", {"a": 1}),)}, 'unknown field "params"'),
        ({"constraints": (Extension("x", {"a": 1.5}),)}, "expected null"),
        ({"constraints": (Extension("x", {"\ue000": 1, "\U0001f600": 2}),)}, "sort differently"),
        ({"constraints": (Extension("x", {"a": ["<b>"]}),)}, "escape"),
        ({"constraints": (Extension("x", {"a&b": 1}),)}, "escape"),
        ({"constraints": (Extension("x>y"),)}, "escape"),
        ({"constraints": (constraint(type="max_speed_mps", max_mps=0.00001),)}, "nearer to zero"),
        ({"constraints": (constraint(type="max_speed_mps", max_mps=0.000001),)}, "nearer to zero"),
        ({"constraints": (constraint(type="geo_circle", lat=-1e-9, lon=0, radius_m=1),)}, "nearer to zero"),
        ({"constraints": (constraint(type="geo_polygon", points=[[0, 1e-9]]),)}, "nearer to zero"),
    ],
)
def test_refusals(change: dict[str, Any], text: str) -> None:
    assert text in refusal(grant(**change))


def test_parameters_nest_no_deeper_than_a_bundle_allows() -> None:
    deep: dict[str, object] = {}
    for _ in range(10):
        deep = {"a": deep}
    issue_delegation(HUMAN, grant(constraints=(Extension("x", deep),)))
    assert "nested more than 16 deep" in refusal(grant(constraints=(Extension("x", {"a": deep}),)))


def resource(prefix: str = "", name: str = "repo") -> Any:
    members = {"type": "resource_path", "resource_id": name}
    return constraint(**(members | ({"path_prefix": prefix} if prefix else {})))


@pytest.mark.holds("ratify/issue", "resource")
@pytest.mark.parametrize(
    ("prefixes", "good"),
    [
        (("/src", "/src/a"), True),
        (("/src/a", "/"), True),
        (("", "/src"), True),
        (("/src", "/src/"), True),
        (("/src", "/docs"), False),
        (("/src", "/srcx"), False),
        (("", "/a", "/b"), False),
    ],
)
def test_prefixes_of_one_resource_nest(prefixes: tuple[str, ...], good: bool) -> None:
    found = grant(constraints=tuple(map(resource, prefixes)))
    if good:
        issue_delegation(HUMAN, found)
    else:
        assert "nothing would be allowed" in refusal(found)


@pytest.mark.holds("ratify/issue", "resource")
def test_one_delegation_names_one_resource() -> None:
    assert "one resource" in refusal(grant(constraints=(resource(), resource(name="other"))))


@pytest.mark.holds("ratify/issue", "resource")
@pytest.mark.parametrize("prefix", ["src", "/a//b", "/a/..", "/a\\b"])
def test_a_prefix_is_a_path(prefix: str) -> None:
    assert "resource_path: path " in refusal(grant(constraints=(resource(prefix),)))


class TestParents:
    def test_for_another_key(self) -> None:
        assert "not for this issuer's key" in refusal(grant(SUB_AGENT), STRANGER, parents=chain(1))

    @pytest.mark.holds("ratify/issue", "parent")
    def test_expired(self) -> None:
        parent = certificate(expires_at=NOW - 1, scope=("files:read", "identity:delegate"))
        text = refusal(grant(SUB_AGENT), AGENT, parents=[parent])
        assert text == "the parent delegation is not good: delegation certificate has expired"

    def test_forged(self) -> None:
        parent = replace(chain(1)[0], signature=STRANGER.sign(b"x"))
        assert "bad_signature" in refusal(grant(SUB_AGENT), AGENT, parents=[parent])

    @pytest.mark.holds("ratify/issue", "parent")
    def test_without_the_right_to_delegate(self) -> None:
        found = grant(SUB_AGENT, scope=("files:read",))
        assert "identity:delegate" in refusal(found, AGENT, parents=chain(1, scope=("files:read",)))

    @pytest.mark.holds("ratify/issue", "parent")
    def test_a_scope_that_the_parent_does_not_hold(self) -> None:
        found = grant(SUB_AGENT, scope=("files:read", "files:write", "meeting:*"))
        text = refusal(found, AGENT, parents=chain(1))
        assert text.startswith("the parent delegation does not grant files:write, meeting:attend, ")

    def test_a_wildcard_may_be_narrowed(self) -> None:
        parents = chain(1, scope=("meeting:*", "identity:delegate"))
        found = grant(SUB_AGENT, scope=("meeting:chat", "meeting:speak"))
        issue_delegation(AGENT, found, parents=parents)

    def test_a_chain_that_would_be_too_long(self) -> None:
        certs = chain(8)
        assert "longer than 8" in refusal(grant(STRANGER), AGENT, parents=certs)


class TestPresent:
    @pytest.mark.parametrize("certs", [(), chain(2)])
    def test_the_delegation_is_for_this_agent(self, certs: tuple[DelegationCert, ...]) -> None:
        with pytest.raises(IssueError, match="not for this agent"):
            present(certs, AGENT, CHALLENGE, NOW)
