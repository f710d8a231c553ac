"""`--header`, `--token-env` and `--timeout`: what they mean, and what is refused without being quoted."""

import pytest

from accredit.asking.reaching import MAX_TIMEOUT_SECONDS, add_headers, read_reach
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream
from accredit.tokens.access import AccessGrant

SECRET = "s3cr3t-value"


def refused(*headers: str, token_env: str | None = None, timeout: float | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_reach(header=headers, token_env=token_env, timeout=timeout)
    told = f"{caught.value.what}: {caught.value.remedy}"
    assert SECRET not in told
    return told


def test_headers_are_sent_as_they_are_named__and_credentials_as_the_environment_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAIL_KEY", SECRET)
    monkeypatch.setenv("TOKEN", "abc")
    reach = read_reach(header=["X-Team=mail=box", "X-Api-Key=env:MAIL_KEY"], token_env="TOKEN", timeout=2.5)
    assert reach.headers == {"X-Team": "mail=box", "X-Api-Key": SECRET}
    assert reach.all_headers["Authorization"] == "Bearer abc"
    assert (reach.token, reach.timeout) == ("abc", 2.5)
    assert SECRET not in repr(reach)
    basic = read_reach(header=["authorization=env:MAIL_KEY"])
    assert basic.all_headers == {"authorization": SECRET}


@pytest.mark.parametrize(
    "name",
    ["Authorization", "proxy-authorization", "X-Api-Key", "apikey", "X-SECRET", "x-access-token", "Cookie", "X-Passwd"],
)
def test_what_may_be_a_credential_is_no_word_of_a_command_line(name: str) -> None:
    assert "env" in refused(f"{name}={SECRET}") or "how a request is read" in refused(f"{name}={SECRET}")


@pytest.mark.parametrize(
    "name",
    ["Host", "Content-Length", "content-type", "Transfer-Encoding", "Connection", "Mcp-Session-Id", "Mcp-Method",
     "MCP-Protocol-Version", "Last-Event-ID", "Accept", "X-HTTP-Method-Override"],
)  # fmt: skip
def test_no_header_says_how_a_request_is_read(name: str) -> None:
    assert "how a request is read" in refused(f"{name}=1")


@pytest.mark.parametrize(
    "option",
    ["", "X-Team", "=mail", "X Team=mail", "X-Team=", "X-Team= mail", "X-Team=a\r\nb: c", "X-Tëam=mail", "X-Team=ü"],
)
def test_a_header_that_could_not_be_sent_is_refused(option: str) -> None:
    assert refused(option)


def test_a_variable_that_is_not_set_or_can_not_be_sent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    assert "NOWHERE" in refused("X-Api-Key=env:NOWHERE")
    assert "(no name)" in refused("X-Api-Key=env:")
    assert "NOWHERE" in refused(token_env="NOWHERE")
    monkeypatch.setenv("BROKEN", f"{SECRET}\nX-Other: 1")
    assert "BROKEN" in refused("X-Api-Key=env:BROKEN")
    assert "BROKEN" in refused(token_env="BROKEN")


def test_a_header_is_named_once__and_one_of_them_authorizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    assert "twice" in refused("X-Team=a", "x-team=b")
    assert "keep one" in refused("Authorization=env:TOKEN", token_env="TOKEN")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), MAX_TIMEOUT_SECONDS + 1])
def test_a_time_that_nobody_could_wait_for_is_refused(seconds: float) -> None:
    assert "--timeout" in refused(timeout=seconds)


def test_a_header_of_the_command_line_takes_nothing_else_of_a_server_away__but_a_token_its_own_way_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", "abc")
    grant = AccessGrant("client_credentials", "https://idp.example/token", "gw", SECRET)
    server = HttpUpstream("https://a.example/mcp", {"X-Team": "a"}, ("https://b.example/mcp",), 7, grant)
    with_header = add_headers(server, read_reach(header=["x-team=b"]))
    assert with_header == HttpUpstream(server.url, {"x-team": "b"}, server.others, 7, grant)
    with_token = add_headers(server, read_reach(token_env="TOKEN"))
    assert isinstance(with_token, HttpUpstream)
    assert (with_token.auth, with_token.headers["Authorization"], with_token.others) == (
        None,
        "Bearer abc",
        server.others,
    )
