"""The requests to an identity provider: no redirect is followed, what does not answer lets nobody in, and only the
provider's own word ends a login."""

import asyncio
import json

import pytest
from tests.world.issuer import IssuerKey
from tests.world.raw_server import Connection, RawServer, until

from accredit.base.clock import unix_seconds
from accredit.errors import ConfigurationError, LoginUnavailable, OAuthError
from accredit.net import identity_provider
from accredit.net.identity_provider import METADATA_RETRY_SECONDS, METADATA_SECONDS, IdentityProvider


class Idp:
    """An identity provider that answers as it is told. `answers` are a status line's end, and a body, by path."""

    def __init__(self) -> None:
        self.key = IssuerKey()
        self.asked: list[str] = []
        self.answers: dict[str, tuple[str, bytes]] = {}
        self.groups = ["mail-users"]
        self.hang: asyncio.Event | None = None
        self.hangs = "/token"
        self.server = RawServer(self._serve)

    @property
    def url(self) -> str:
        return self.server.url.rpartition("/")[0]

    def metadata(self, **changes: str) -> bytes:
        ends = {"jwks_uri": "jwks", "authorization_endpoint": "authorize", "token_endpoint": "token"}
        known = {"issuer": self.url, **{name: f"{self.url}/{end}" for name, end in ends.items()}}
        return json.dumps({**known, **changes}).encode()

    def tokens(self) -> bytes:
        now = unix_seconds()
        claims = {"iss": self.url, "aud": "accredit", "sub": "ada", "iat": now, "exp": now + 60, "groups": self.groups}
        return json.dumps({"id_token": self.key.sign(claims), "refresh_token": "next"}).encode()

    async def _serve(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            path = request.target
            self.asked.append(path)
            if path == self.hangs and self.hang is not None:
                await self.hang.wait()
            own = {"/jwks": json.dumps({"keys": [self.key.jwk()]}).encode()}
            status, body = self.answers.get(path) or (
                "200 OK",
                own.get(path) or (self.tokens() if path == "/token" else self.metadata()),
            )
            headers = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            await connection.send(f"HTTP/1.1 {status}\r\n{headers}\r\n".encode(), body)


PLACE = "/.well-known/openid-configuration"


@pytest.mark.holds("net/identity_provider", "remembered", "no-redirects", "away")
async def test_metadata_are_remembered__never_redirected__and_not_asked_for_by_each_stranger() -> None:
    idp, now = Idp(), [1_000.0]
    async with idp.server:
        provider = IdentityProvider(idp.url, "accredit", "s3cret", lambda: now[0])
        idp.answers[PLACE] = (f"302 Found\r\nLocation: {idp.url}/elsewhere", b"")
        for _ in range(3):
            with pytest.raises(LoginUnavailable):
                await provider.login_url("https://mcp.example/oauth/login", "state", "s" * 43)
        assert idp.asked == [PLACE]
        del idp.answers[PLACE]
        now[0] += METADATA_RETRY_SECONDS
        for _ in range(3):
            url = await provider.login_url("https://mcp.example/oauth/login", "state", "s" * 43)
            assert url.startswith(f"{idp.url}/authorize?")
        assert idp.asked == [PLACE, PLACE, "/jwks"]
        idp.answers[PLACE] = ("200 OK", idp.metadata(issuer="https://other.example"))
        now[0] += METADATA_SECONDS
        with pytest.raises(LoginUnavailable):
            await provider.login_url("https://mcp.example/oauth/login", "state", "s" * 43)


@pytest.mark.holds("net/identity_provider", "away", "remembered")
async def test_only_the_provider_s_own_word_ends_a_login() -> None:
    idp, now = Idp(), [1_000.0]
    async with idp.server:
        provider = IdentityProvider(idp.url, "accredit", "s3cret", lambda: now[0])
        person = await provider.read_again("r", unix_seconds())
        assert (person.groups, person.refresh_token) == (frozenset({"mail-users"}), "next")
        for status, body in (
            ("500 No", b"{}"),
            ("400 No", b'{"error": "invalid_client"}'),
            ("429 No", b'{"error": "temporarily_unavailable"}'),
            (f"307 Found\r\nLocation: {idp.url}/jwks", b""),
        ):
            idp.answers["/token"] = (status, body)
            with pytest.raises(LoginUnavailable):
                await provider.read_again("r", unix_seconds())
        idp.answers["/token"] = ("400 No", b'{"error": "invalid_grant"}')
        with pytest.raises(OAuthError, match="invalid_grant"):
            await provider.read_again("r", unix_seconds())
        idp.answers["/token"] = ("200 OK", b"{}")
        with pytest.raises(OAuthError, match="access_denied"):
            await provider.read_again("r", unix_seconds())
        del idp.answers["/token"]
        idp.key = IssuerKey("key-2")
        now[0] += METADATA_RETRY_SECONDS
        assert (await provider.read_again("r", unix_seconds())).subject == person.subject


@pytest.mark.holds("net/identity_provider", "bounded")
async def test_a_provider_that_hangs_holds_up_few__and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    idp, going = Idp(), asyncio.Event()
    async with idp.server:
        provider = IdentityProvider(idp.url, "accredit", "s3cret")
        idp.hang = going
        monkeypatch.setattr(identity_provider, "MAX_LOGINS_AT_ONCE", 1)
        first = asyncio.create_task(provider.read_again("r", unix_seconds()))
        await until(lambda: "/token" in idp.asked)
        with pytest.raises(LoginUnavailable):
            await provider.read_again("r", unix_seconds())
        assert idp.asked.count("/token") == 1
        going.set()
        assert (await first).groups
        going.clear()
        monkeypatch.setattr(identity_provider, "LOGIN_SECONDS", 0.05)
        with pytest.raises(LoginUnavailable):
            await provider.read_again("r", unix_seconds())
        going.set()


@pytest.mark.holds("net/identity_provider", "remembered")
async def test_strangers_who_begin_logins_while_the_provider_hangs_make_nobody_wait_in_turn() -> None:
    idp, now = Idp(), [1_000.0]
    async with idp.server:
        provider = IdentityProvider(idp.url, "accredit", "s3cret", lambda: now[0])
        idp.hang, idp.hangs = asyncio.Event(), PLACE
        idp.answers[PLACE] = ("500 No", b"{}")
        begun = [asyncio.create_task(provider.login_url("https://mcp.example", "s", "s" * 43)) for _ in range(3)]
        await until(lambda: idp.asked == [PLACE])
        now[0] += METADATA_RETRY_SECONDS  # it takes longer than that to fail
        idp.hang.set()
        found = await asyncio.gather(*begun, return_exceptions=True)
        assert [type(each) for each in found] == [LoginUnavailable] * 3
        assert idp.asked == [PLACE]


@pytest.mark.holds("net/identity_provider", "remembered")
async def test_what_still_counts_is_used_while_newer_keys_are_asked_for_in_vain() -> None:
    idp, now = Idp(), [1_000.0]
    async with idp.server:
        provider = IdentityProvider(idp.url, "accredit", "s3cret", lambda: now[0])
        await provider.read_again("r", unix_seconds())
        idp.key, now[0] = IssuerKey("key-2"), now[0] + METADATA_RETRY_SECONDS
        idp.hang, idp.hangs = asyncio.Event(), PLACE
        idp.answers[PLACE] = ("500 No", b"{}")
        refresh = asyncio.create_task(provider.read_again("r", unix_seconds()))
        await until(lambda: idp.asked.count(PLACE) == 2)
        assert await provider.login_url("https://mcp.example", "s", "s" * 43)
        idp.hang.set()
        with pytest.raises(OAuthError, match="signature"):
            await refresh
        assert await provider.login_url("https://mcp.example", "s", "s" * 43)


@pytest.mark.holds("net/identity_provider", "elsewhere", "configured")
async def test_an_endpoint_elsewhere_is_reached_at_a_public_address_only() -> None:
    idp = Idp()
    async with idp.server:
        for name in ("token_endpoint", "jwks_uri"):
            idp.answers[PLACE] = ("200 OK", idp.metadata(**{name: "https://169.254.169.254/latest"}))
            provider = IdentityProvider(idp.url, "accredit", "s3cret")
            with pytest.raises(LoginUnavailable):
                await provider.read_again("r", unix_seconds())
    for issuer in ("http://idp.example", "ftp://idp.example", "https://u:p@idp.example"):
        with pytest.raises(ConfigurationError, match=r"oauth\.idp\.issuer"):
            IdentityProvider(issuer, "accredit", "s3cret")
