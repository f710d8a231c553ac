"""Which URLs are those of a gateway, and whose certificates are trusted on the way: never more than the system's."""

import ssl

import pytest

from accredit.client import AccreditedClient
from accredit.client.gateways import _ssl_context
from accredit.errors import ConfigurationError

pytestmark = pytest.mark.holds("client/gateways")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_where_there_is_no_tls_nobody_is_trusted() -> None:
    trusted = _ssl_context("http://127.0.0.1:8484/mcp")
    assert trusted is not None
    assert (trusted.verify_mode, trusted.check_hostname, trusted.get_ca_certs()) == (ssl.CERT_REQUIRED, True, [])


@pytest.mark.parametrize("url", ["https://gateway.example/mcp", "HTTPS://gateway.example/mcp"])
def test_with_tls_the_system_says_who_is_trusted(url: str) -> None:
    assert _ssl_context(url) is None


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "ALL_PROXY"])
def test_a_proxy_may_have_tls_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "https://proxy.example:3128")
    assert _ssl_context("http://gateway.example/mcp") is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/mcp",
        "x",
        "http://",
        "http://h:x/mcp",
        "http://h:99999/mcp",
        "http://h:0/mcp",
        "http://[/mcp",
        "http://[::1/mcp",
        "http://h/\n",
        "http://h/\udcff",  # a byte of the command line that is no UTF-8
        "http://\udcff/",
    ],
)
def test_a_url_that_leads_to_no_gateway_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an http or https URL"):
        AccreditedClient(url)


@pytest.mark.parametrize("url", ["http://user:se?cret@h:99999/mcp", "http://h:99999/mcp?token=se@cret"])
def test_its_refusal_does_not_quote_what_may_be_secret(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        AccreditedClient(url)
    assert refused.value.what == "what is given is not an http or https URL"
