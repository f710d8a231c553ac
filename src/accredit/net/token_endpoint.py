"""One request for an access token. I/O: the network.

The client's secret, and maybe a caller's token, go there and come to nobody else:

- [https] https, or http to loopback, where nobody listens in (`fetch.check_url`);
- [environment] no proxy, credential or certificate from the environment;
- [redirects] no redirect is followed, whoever it leads to;
- [response] status 200, JSON, no content coding, at most `MAX_TOKEN_ANSWER_BYTES`;
- [secrecy] what is wrong is told without a word of the answer or of an exception's text, but an error of the
  specification.

How long it takes is the caller's to bound; what the answer says is read by `tokens.access`.
"""

import httpx2

from accredit.errors import AccessTokenError
from accredit.net.fetch import trust
from accredit.tokens import AccessGrant, AccessToken, SubjectToken, error_word, read_access_token

MAX_TOKEN_ANSWER_BYTES = 65_536
"""Bytes of an answer with an access token: the longest token, and an id token and a refresh token that nobody asked
for."""


_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "cache-control": "no-store",
    "content-type": "application/x-www-form-urlencoded",
    "user-agent": "accredit",
}


class Unreachable(AccessTokenError):
    """The authorization server was not reached: other requests would fail, too."""


async def request_token(grant: AccessGrant, subject: SubjectToken | None) -> AccessToken:
    """Ask for a token and return it. Raises `AccessTokenError`."""
    headers = {**_HEADERS, "authorization": grant.authorization}
    try:
        # Its own timeouts would interfere with the caller's.
        client = httpx2.AsyncClient(verify=trust(), trust_env=False, follow_redirects=False, timeout=None)
        async with (
            client,
            client.stream("POST", grant.token_url, content=grant.form(subject), headers=headers) as response,
        ):
            return await _read(response, subject)
    except (httpx2.ConnectError, OSError):
        raise Unreachable("not reached") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
        raise AccessTokenError(type(error).__name__) from None  # its text may quote the other side


async def _read(response: httpx2.Response, subject: SubjectToken | None) -> AccessToken:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AccessTokenError("a Content-Encoding that was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_TOKEN_ANSWER_BYTES:
            raise AccessTokenError(f"more than {MAX_TOKEN_ANSWER_BYTES} bytes")
    if response.status_code != 200:
        word = error_word(bytes(body))
        raise AccessTokenError(f"status {response.status_code}{f': {word}' if word else ''}")
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise AccessTokenError("the answer is not JSON")
    return read_access_token(bytes(body), subject)
