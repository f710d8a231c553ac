"""An issuer of tokens for trying things out, in place of an identity provider. It gives a token to whoever asks.

python local_issuer.py [--port 9100]

GET  /.well-known/oauth-authorization-server   where its keys are
GET  /jwks.json   its public keys, made anew at each start
POST /token       {"sub": "...", "resource": "...", "scope": "..."}: a token for that resource, good for ten minutes
"""

import argparse
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from jwt.algorithms import ECAlgorithm

KEY = generate_private_key(SECP256R1())
KID = secrets.token_hex(8)
LIFETIME_SECONDS = 600


class Issuer(BaseHTTPRequestHandler):
    """Answers one request."""

    def do_GET(self) -> None:
        """The metadata, or the key set."""
        if self.path == "/.well-known/oauth-authorization-server":
            url = f"http://{self.headers['Host']}"
            self._answer(200, {"issuer": url, "jwks_uri": f"{url}/jwks.json"})
            return
        jwk = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": KID, "alg": "ES256", "use": "sig"}
        self._answer(200 if self.path == "/jwks.json" else 404, {"keys": [jwk]})

    def do_POST(self) -> None:
        """A token."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        now = int(time.time())  # noqa: TID251 - a program of its own
        claims = {
            "iss": f"http://{self.headers['Host']}",
            "sub": asked["sub"],
            "aud": asked["resource"],
            "scope": asked.get("scope", ""),
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
        }
        token = jwt.encode(claims, KEY, "ES256", {"kid": KID})
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": LIFETIME_SECONDS})

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=9100)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Issuer).serve_forever()
