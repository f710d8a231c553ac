"""Which tokens are good."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives import serialization
from jwt.algorithms import ECAlgorithm
from msgspec.structs import replace
from tests.world.issuer import AUDIENCE, NOW, IssuerKey, claims, key_set_text

from accredit.errors import ConfigurationError, InsufficientScope, InvalidToken
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.claims import VerifiedToken, take_apart
from accredit.tokens.key_sets import ALGORITHMS, is_signed_by, read_key_set, read_public_key
from accredit.tokens.verify import TOKEN_LEEWAY_SECONDS, Issuer, TokenVerifier

pytestmark = pytest.mark.holds("tokens/claims")

KEY = IssuerKey()
KEYS = read_key_set(key_set_text(KEY))
ISSUER = Issuer("https://issuer.example", AUDIENCE)
BUNDLED = {algorithm: IssuerKey(algorithm, algorithm) for algorithm in sorted(ALGORITHMS)}


def verify(text: str, *, issuer: Issuer = ISSUER, now: int = NOW) -> VerifiedToken:
    verifier = TokenVerifier([issuer])
    return verifier.verify(verifier.read(text), KEYS, now)


def refusal_of(call: Callable[[], object]) -> InvalidToken:
    with pytest.raises(InvalidToken) as refused:
        call()
    return refused.value


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_good_token_says_what_it_says() -> None:
    text = KEY.sign(
        claims(
            scope="mail:read mail:send",
            allowed_tools=["send", "list"],
            denied_tools=["list"],
            policy_digest="ab",
            session="session-1",
            name="ignored",
        )
    )
    assert verify(text) == VerifiedToken(
        issuer="https://issuer.example",
        subject="agent-7",
        expires_at=NOW + 600,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        jti="token-1",
        kid="key-1",
        scopes=frozenset({"mail:read", "mail:send"}),
        allowed_tools=frozenset({"send", "list"}),
        denied_tools=frozenset({"list"}),
        policy_digest="ab",
        session="session-1",
    )


@pytest.mark.parametrize("algorithm", BUNDLED)
def test_each_algorithm_is_verified(algorithm: str) -> None:
    key = BUNDLED[algorithm]
    verifier = TokenVerifier([Issuer(ISSUER.issuer, AUDIENCE, (algorithm,))])
    text = key.sign(claims())
    assert verifier.verify(verifier.read(text), read_key_set(key_set_text(*BUNDLED.values())), NOW).kid == algorithm


def test_a_little_is_enough() -> None:
    token = verify(KEY.sign(claims(iat=None, jti=None)))
    assert (token.jti, token.scopes, token.allowed_tools, token.denied_tools) == (None, set(), None, set())


@pytest.mark.parametrize(
    ("found", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": ["a", "b c"]}, {"a", "b c"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a"]}, {"a"}),
        ({"scope": "a", "scp": ["b"]}, {"a"}),
        ({"scope": "", "scp": ["b"]}, set[str]()),
    ],
)
def test_scopes_are_in_scope_or_else_in_scp(found: dict[str, object], scopes: set[str]) -> None:
    assert verify(KEY.sign(claims(**found))).scopes == scopes


@pytest.mark.holds("tokens/verify", "claims")
@pytest.mark.parametrize(
    "changes",
    [
        *({name: None} for name in ("sub", "aud", "exp")),
        *({name: 7} for name in ("sub", "aud", "jti", "scope", "scp", "policy_digest", "allowed_tools")),
        *({name: ""} for name in ("sub", "aud")),
        *({name: "soon"} for name in ("exp", "nbf", "iat")),
        {"exp": -1},
        {"exp": 2**53},
        {"exp": 10**400},
        {"exp": True},
        {"aud": [7]},
        {"aud": {}},
        {"allowed_tools": "send"},
        {"allowed_tools": [7]},
        {"denied_tools": {"send": True}},
        {"scope": ["a", 7]},
    ],
)
def test_a_claim_that_is_missing_or_of_another_type_is_refused(changes: dict[str, object]) -> None:
    refused = refusal_of(lambda: verify(sign_raw({**claims(), **changes})))
    assert refused.reason.startswith("claims: ")
    assert str(refused) == "the token is not valid"


def sign_raw(found: dict[str, object]) -> str:
    """Signs what PyJWT's own encoder would refuse to."""
    text = json.dumps({name: value for name, value in found.items() if value is not None}).encode()
    return sign_text(text)


def sign_text(text: bytes, header: object = None) -> str:
    encoded = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
    signed = f"{part(header or {'alg': 'ES256', 'kid': 'key-1'})}.{encoded}"
    from_peer = ECAlgorithm(ECAlgorithm.SHA256).sign(signed.encode(), KEY.private)
    return f"{signed}.{base64.urlsafe_b64encode(from_peer).rstrip(b'=').decode()}"


def test_a_text_that_no_bytes_could_have_been_is_refused() -> None:
    refusal_of(lambda: TokenVerifier([ISSUER]).read("\ud800"))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 5_000, b'{"iss":NaN}', b'{"iss":7}', b"{}"])
def test_claims_without_an_issuer_are_refused_before_any_key_is_asked_for(text: bytes) -> None:
    refused = refusal_of(lambda: TokenVerifier([ISSUER]).read(sign_text(text or b" ")))
    assert refused.reason == "no issuer"


@pytest.mark.holds("tokens/verify", "audience")
@pytest.mark.parametrize("member", ['"cnf"', '"cn\\u0066"'])
@pytest.mark.parametrize(
    "cnf", ['{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}', '{"x5t#S256":"x"}', "{}", "null", "7"]
)
def test_who_has_stolen_a_token_that_is_bound_to_a_key_can_not_use_it_as_a_bearer_token(cnf: str, member: str) -> None:
    text = json.dumps(claims())[:-1] + f",{member}:{cnf}}}"
    refused = refusal_of(lambda: verify(sign_text(text.encode())))
    assert "bound to a key" in refused.reason
    assert "bound to a key" in str(refused)
    assert verify(sign_text(json.dumps(claims(cnF="x")).encode())).subject == "agent-7"


def test_infinity_is_no_time__such_a_token_would_never_expire() -> None:
    text = json.dumps(claims()).replace(str(NOW + 600), "Infinity").encode()
    refusal_of(lambda: verify(sign_text(text)))
    text = json.dumps(claims()).replace(str(NOW + 600), "1e999").encode()
    refusal_of(lambda: verify(sign_text(text)))


@pytest.mark.holds("tokens/verify", "compact")
@pytest.mark.parametrize("subject", [b"\xff", b"\\ud800"])
def test_a_text_that_is_none_is_refused(subject: bytes) -> None:
    text = json.dumps(claims(sub="SUB")).encode().replace(b"SUB", subject)
    assert refusal_of(lambda: verify(sign_text(text))).reason in ("the claims are not JSON", "no issuer")


@pytest.mark.holds("tokens/verify", "audience")
@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"aud": "http://127.0.0.1:8484/other"}, "the token is not for this server"),
        ({"aud": []}, "the token is not for this server"),
        ({"aud": AUDIENCE + "/"}, "the token is not for this server"),
        ({"exp": NOW - TOKEN_LEEWAY_SECONDS}, "the token has expired"),
        ({"exp": 0}, "the token has expired"),
        ({"nbf": NOW + TOKEN_LEEWAY_SECONDS + 1}, "the token is not valid yet"),
        ({"iat": NOW + TOKEN_LEEWAY_SECONDS + 1}, "the token is not valid yet"),
    ],
)
def test_a_token_for_another_audience_or_time_is_refused(changes: dict[str, object], detail: str) -> None:
    refused = refusal_of(lambda: verify(KEY.sign(claims(**changes))))
    assert str(refused) == detail
    assert refused.reason in detail or "audience" in refused.reason


@pytest.mark.holds("tokens/verify", "audience")
def test_at_one_of_several_servers_a_token_is_for_all_of_them_or_for_that_one__and_for_no_other() -> None:
    mail = replace(ISSUER, server_audience="https://mail.example")
    for audience in (AUDIENCE, mail.server_audience):
        assert verify(KEY.sign(claims(aud=audience)), issuer=mail).subject == "agent-7"
    files = KEY.sign(claims(aud="https://files.example"))
    assert refusal_of(lambda: verify(files, issuer=mail)).reason == "for another audience"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["https://other.example", AUDIENCE]},
        {"exp": NOW - TOKEN_LEEWAY_SECONDS + 1},
        {"nbf": NOW + TOKEN_LEEWAY_SECONDS},
        {"iat": NOW + TOKEN_LEEWAY_SECONDS},
        {"exp": NOW + 0.5},
    ],
)
def test_a_clock_that_is_a_little_off_is_no_reason(changes: dict[str, object]) -> None:
    assert verify(KEY.sign(claims(**changes))).subject == "agent-7"


@pytest.mark.holds("tokens/verify", "issuer")
def test_another_issuer_is_refused_before_its_keys_are_asked_for() -> None:
    text = KEY.sign(claims("https://evil.example"))
    assert refusal_of(lambda: TokenVerifier([ISSUER]).read(text)).reason == "an issuer that is not configured"


@pytest.mark.holds("tokens/verify", "signature")
def test_a_token_of_full_length_is_known_again_by_its_last_letter_too__a_forged_one_would_be_taken_for_it() -> None:
    key = IssuerKey("key-12")
    letters = (MAX_TOKEN_BYTES - len(key.sign(claims(name="")))) * 3 // 4
    good = next(
        text for more in range(3) if len(text := key.sign(claims(name="n" * (letters + more)))) == MAX_TOKEN_BYTES
    )
    keys, verifier = read_key_set(key_set_text(key)), TokenVerifier([ISSUER])
    assert verifier.verify(verifier.read(good), keys, NOW).kid == "key-12"
    forged = good[:-1] + ("Q" if good[-1] == "A" else "A")
    refusal_of(lambda: verifier.verify(verifier.read(forged), keys, NOW))


def test_each_issuer_has_its_own_audience_and_keys() -> None:
    other = IssuerKey()
    verifier = TokenVerifier([ISSUER, Issuer("https://two.example", "two")])
    presented = verifier.read(other.sign(claims("https://two.example", aud="two")))
    assert presented.issuer.issuer == "https://two.example"
    assert refusal_of(lambda: verifier.verify(presented, KEYS, NOW)).reason == "the signature is not good"
    token = verifier.verify(presented, read_key_set(key_set_text(other)), NOW)
    assert token.issuer == "https://two.example"
    crossed = verifier.read(other.sign(claims("https://two.example")))
    refusal_of(lambda: verifier.verify(crossed, read_key_set(key_set_text(other)), NOW))


def public_pem() -> bytes:
    return KEY.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@pytest.mark.holds("tokens/verify", "algorithm")
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "HS512", "es256", "ES256K", "A" * 500])
def test_no_algorithm_but_those_of_the_issuer(algorithm: str) -> None:
    signed = f"{part({'alg': algorithm, 'kid': 'key-1'})}.{part(claims())}"
    mac = hmac.new(public_pem(), signed.encode(), hashlib.sha256).digest()
    text = f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    reason = refusal_of(lambda: verify(text)).reason
    assert reason.startswith("an algorithm that is not allowed")
    assert len(reason) < 200


def test_an_algorithm_that_is_allowed_takes_no_key_of_another_type() -> None:
    issuer = Issuer(ISSUER.issuer, AUDIENCE, ("ES256", "RS256"))
    text = BUNDLED["RS256"].sign(claims(), {"kid": "key-1"})
    assert "no key of the issuer fits" in refusal_of(lambda: verify(text, issuer=issuer)).reason


def test_a_key_of_another_type_signs_nothing__whoever_chose_it() -> None:
    found = take_apart(BUNDLED["EdDSA"].sign(claims()))
    assert not is_signed_by(BUNDLED["RS256"].private.public_key(), found)


@pytest.mark.parametrize("algorithm", [(), ("none",), ("HS256",), ("ES256", "HS256"), ("ES256K",), ("es256",)])
def test_an_issuer_can_not_be_configured_with_what_is_not_safe(algorithm: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match=f"algorithms of .*: {'|'.join(algorithm) or 'none are named'}"):
        Issuer("https://issuer.example", AUDIENCE, algorithm)


@pytest.mark.parametrize(("name", "audience"), [("", AUDIENCE), ("https://issuer.example", "")])
def test_an_issuer_has_a_name_and_an_audience(name: str, audience: str) -> None:
    with pytest.raises(ConfigurationError, match="empty"):
        Issuer(name, audience)


def test_an_issuer_is_named_once() -> None:
    with pytest.raises(ConfigurationError, match="twice"):
        TokenVerifier([ISSUER, Issuer(ISSUER.issuer, "other")])


@pytest.mark.holds("tokens/verify", "signature")
@pytest.mark.parametrize("at", range(3))
def test_a_token_that_was_changed_is_refused(at: int) -> None:
    parts = KEY.sign(claims()).split(".")
    other = KEY.sign(claims(sub="root", jti="2"), {"typ": "at+jwt"}).split(".")
    parts[at] = other[at]
    assert refusal_of(lambda: verify(".".join(parts))).reason == "the signature is not good"


@pytest.mark.parametrize("signature", [b"\x00", b"\x00" * 64, b"\xff" * 64, b"\x00" * 63, b"\x01" * 1_000])
def test_a_signature_of_any_shape_is_only_not_good(signature: bytes) -> None:
    head, _, _ = KEY.sign(claims()).rpartition(".")
    text = f"{head}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    assert refusal_of(lambda: verify(text)).reason == "the signature is not good"


def test_a_key_that_the_issuer_does_not_have_is_named_in_the_log() -> None:
    text = IssuerKey("n" * 1_000).sign(claims())
    refused = refusal_of(lambda: verify(text))
    assert "no key of the issuer fits: kid 'nnn" in refused.reason
    assert len(refused.reason) < 200
    assert "(none)" in refusal_of(lambda: verify_with_no_keys(IssuerKey(None).sign(claims()))).reason


def verify_with_no_keys(text: str) -> VerifiedToken:
    verifier = TokenVerifier([ISSUER])
    return verifier.verify(verifier.read(text), read_key_set(b'{"keys":[]}'), NOW)


def test_a_token_without_a_key_id_is_held_against_each_key() -> None:
    old, new = IssuerKey("old"), IssuerKey("new")
    keys = read_key_set(key_set_text(old, new))
    verifier = TokenVerifier([ISSUER])
    for key in (old, new):
        key.kid = None
        assert verifier.verify(verifier.read(key.sign(claims())), keys, NOW).kid is None


def test_a_key_from_a_file_is_good_for_any_key_id() -> None:
    verifier = TokenVerifier([ISSUER])
    assert verifier.verify(verifier.read(KEY.sign(claims())), read_public_key(public_pem()), NOW).kid == "key-1"


@pytest.mark.holds("tokens/verify", "scopes")
def test_a_scope_that_the_issuer_requires_is_a_403() -> None:
    issuer = Issuer(ISSUER.issuer, AUDIENCE, required_scopes=("a", "b"))
    assert verify(KEY.sign(claims(scope="c b a")), issuer=issuer).scopes == {"a", "b", "c"}
    for scope in ("a", "", None, "a:b"):
        with pytest.raises(InsufficientScope) as refused:
            verify(KEY.sign(claims(scope=scope)), issuer=issuer)
        assert (refused.value.status, refused.value.scopes) == (403, ("a", "b"))
        assert "lacks a scope" in str(refused.value)


def test_a_token_never_shows_itself() -> None:
    text = KEY.sign(claims())
    presented = TokenVerifier([ISSUER]).read(text)
    shown = f"{presented!r} {presented.__rich_repr__()} {verify(text)!r}"
    assert not any(piece in shown for piece in text.split("."))
    assert "issuer.example" in shown


def test_what_was_verified_once_is_not_verified_again_with_the_same_keys() -> None:
    verifier = TokenVerifier([ISSUER])
    text = KEY.sign(claims())
    presented = verifier.read(text)
    first = verifier.verify(presented, KEYS, NOW)
    assert verifier.verify(verifier.read(text), KEYS, NOW) is first
    assert presented.kid == verifier.read(text).kid == "key-1"
    again = read_key_set(key_set_text(KEY) + b" ")
    assert verifier.verify(verifier.read(text), again, NOW) == first
    assert verifier.verify(verifier.read(text), again, NOW) is not first


def test_a_token_that_is_known_expires_all_the_same() -> None:
    verifier = TokenVerifier([ISSUER])
    text = KEY.sign(claims())
    verifier.verify(verifier.read(text), KEYS, NOW)
    verifier.verify(verifier.read(text), KEYS, NOW + 600 + TOKEN_LEEWAY_SECONDS - 1)
    refused = refusal_of(lambda: verifier.verify(verifier.read(text), KEYS, NOW + 600 + TOKEN_LEEWAY_SECONDS))
    assert str(refused) == "the token has expired"


def test_a_token_that_is_known_is_no_good_when_its_key_is_taken_back() -> None:
    verifier = TokenVerifier([ISSUER])
    text = KEY.sign(claims())
    verifier.verify(verifier.read(text), KEYS, NOW)
    for keys in (read_key_set(b'{"keys":[]}'), read_key_set(key_set_text(IssuerKey()))):
        refusal_of(lambda keys=keys: verifier.verify(verifier.read(text), keys, NOW))


def test_what_is_known_of_a_token_is_looked_for_once__as_it_is_read() -> None:
    verifier = TokenVerifier([ISSUER], max_cached=1)
    text = KEY.sign(claims())
    first = verifier.verify(verifier.read(text), KEYS, NOW)
    presented = verifier.read(text)
    verifier.verify(verifier.read(KEY.sign(claims(sub="another"))), KEYS, NOW)  # the memory holds only this one now
    assert verifier.verify(presented, KEYS, NOW) is first


def test_a_bad_token_is_not_remembered() -> None:
    verifier = TokenVerifier([ISSUER])
    text = IssuerKey().sign(claims())
    for _ in range(2):
        assert refusal_of(lambda: verifier.verify(verifier.read(text), KEYS, NOW)).reason == "the signature is not good"


def test_the_memory_is_bounded_and_may_be_none() -> None:
    none = TokenVerifier([ISSUER], max_cached=0)
    text = KEY.sign(claims())
    first = none.verify(none.read(text), KEYS, NOW)
    assert none.verify(none.read(text), KEYS, NOW) is not first


def test_the_least_recently_used_goes_first() -> None:
    verifier = TokenVerifier([ISSUER], max_cached=2)
    texts = {name: KEY.sign(claims(sub=name)) for name in "abc"}
    first = {name: verifier.verify(verifier.read(texts[name]), KEYS, NOW) for name in "ab"}
    for name in "ac":  # a is used again, so c takes the place of b
        verifier.verify(verifier.read(texts[name]), KEYS, NOW)
    again = {name: verifier.verify(verifier.read(texts[name]), KEYS, NOW) for name in "ab"}
    assert [again[name] is first[name] for name in "ab"] == [True, False]
