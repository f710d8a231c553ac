"""`python -m bench.tokens [--quick]`: what verifying a bearer token costs a call, with and without its memory.

CPU time of the thread per token, medians. "First time" is a text that was never seen: decoded, its signature and its
claims verified. "Again" is the same text with the same keys. Beside them PyJWT's own `decode` of the same tokens, which
does less (it knows one key and does not bound what it reads) and remembers nothing.
"""

import argparse
import json
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import Issuer, TokenVerifier

FULL_SAMPLES, QUICK_SAMPLES = 1_000, 200
ISSUER, AUDIENCE, KID = "https://issuer.example", "http://127.0.0.1:8484/mcp", "key-1"
ALGORITHMS = ("ES256", "EdDSA", "RS256")


def key_for(algorithm: str) -> tuple[Any, dict[str, Any]]:
    """A new private key, and its public half as a JWK."""
    if algorithm == "ES256":
        private = ec.generate_private_key(ec.SECP256R1())
        jwk = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    elif algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
        jwk = OKPAlgorithm.to_jwk(private.public_key(), as_dict=True)
    else:
        private = rsa.generate_private_key(65_537, 2_048)
        jwk = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
        jwk.pop("key_ops", None)
    return private, {**jwk, "kid": KID}


def token(algorithm: str, private: Any, now: int) -> str:
    """A token like those of a directory: some 700 characters."""
    claims = {
        "iss": ISSUER,
        "sub": secrets.token_hex(16),
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + 600,
        "jti": secrets.token_hex(16),
        "scope": "mcp:tools mcp:resources",
        "groups": ["staff", "mail"] * 8,
    }
    return jwt.encode(claims, private, algorithm, {"kid": KID})


def cpu_us(calls: Sequence[Callable[[], object]]) -> float:
    """The median of their CPU times, in microseconds."""
    spent: list[int] = []
    for call in calls:
        before = time.thread_time_ns()
        call()
        spent.append(time.thread_time_ns() - before)
    return median(spent) / 1_000


def row(algorithm: str, samples: int) -> str:
    """A line of the table."""
    now = int(time.time())
    private, jwk = key_for(algorithm)
    keys = read_key_set(json.dumps({"keys": [jwk]}).encode())
    verifier = TokenVerifier([Issuer(ISSUER, AUDIENCE, (algorithm,))])
    texts = [token(algorithm, private, now) for _ in range(samples)]

    def ours(text: str) -> Callable[[], object]:
        return lambda: verifier.verify(verifier.read(text), keys, now)

    def theirs(text: str) -> Callable[[], object]:
        public = private.public_key()
        return lambda: jwt.decode(text, public, [algorithm], audience=AUDIENCE, issuer=ISSUER)

    peer = cpu_us([theirs(text) for text in texts])
    first = cpu_us([ours(text) for text in texts])
    again = cpu_us([ours(text) for text in texts])
    return f"| {algorithm} | {len(texts[0])} | {peer:.0f} | {first:.0f} | {again:.1f} |"


def main(arguments: list[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.tokens", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples: a second")
    samples = QUICK_SAMPLES if parser.parse_args(arguments).quick else FULL_SAMPLES
    print("| algorithm | characters | PyJWT, µs | first time, µs | again, µs |\n|---|---|---|---|---|")
    for algorithm in ALGORITHMS:
        print(row(algorithm, samples))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
