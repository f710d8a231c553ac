"""One request to an authorization server: for an access token, or about a caller's token. I/O: the network.

The request carries the client's secret, and maybe a caller's token. These must reach the authorization server only:

- [https] Only https is used, or http to loopback, where nobody listens in (`fetch.check_url`).
- [environment] No proxy, credential or certificate is taken from the environment.
- [redirects] No redirect is followed, wherever it leads.
- [response] The status must be 200, and the body JSON without a content coding, at most `MAX_TOKEN_ANSWER_BYTES`.
- [secrecy] Errors say what is wrong without quoting the answer or an exception's text. Only an error code that the
  specification names is quoted.

The caller limits the time; `tokens.access` and `tokens.introspection` read what the answer says.
"""

import httpx2

from accredit.errors import AccessTokenError, KeySetError
from accredit.net.fetch import Resolve, place_of, plain_client, read_body
from accredit.tokens.access import AccessGrant, AccessToken, SubjectToken, error_word, read_access_token

MAX_TOKEN_ANSWER_BYTES = 65_536
"""The most bytes of an answer with an access token. That is enough for the longest token, with an id token and a
refresh token that nobody asked for."""


_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "cache-control": "no-store",
    "content-type": "application/x-www-form-urlencoded",
    "user-agent": "accredit",
}


class Unreachable(AccessTokenError):
    """The authorization server could not be reached. Other requests would fail, too."""


async def request_token(grant: AccessGrant, subject: SubjectToken | None) -> AccessToken:
    """Ask for a token and return it. Raises `AccessTokenError`."""
    return read_access_token(await post_form(grant.token_url, grant.authorization, grant.form(subject)), subject)


async def post_form(url: str, authorization: str, form: bytes, resolve: Resolve | None = None) -> bytes:
    """Post a form, with the credentials of the gateway, and return the JSON of the answer. If `resolve` is given,
    connect to the address that it returns. Raises `AccessTokenError`."""
    try:
        # Its own timeouts would interfere with the caller's.
        client = plain_client(MAX_TOKEN_ANSWER_BYTES, timeout=None)
        place, host, names = await place_of(httpx2.URL(url), resolve)
        headers = {**_HEADERS, **host, "authorization": authorization}
        async with client, client.stream("POST", place, content=form, headers=headers, extensions=names) as response:
            return await _read(response)
    except (httpx2.ConnectError, OSError, KeySetError):
        raise Unreachable("not reached") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError) as error:
        raise AccessTokenError(type(error).__name__) from None  # its text may quote the other side


async def _read(response: httpx2.Response) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AccessTokenError("a Content-Encoding that was not asked for")
    body = await read_body(response, MAX_TOKEN_ANSWER_BYTES)
    if body is None:
        raise AccessTokenError(f"more than {MAX_TOKEN_ANSWER_BYTES} bytes")
    if response.status_code != 200:
        word = error_word(body)
        raise AccessTokenError(f"status {response.status_code}{f': {word}' if word else ''}", word)
    if response.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise AccessTokenError("the answer is not JSON")
    return body
