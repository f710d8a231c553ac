"""What each value can say by itself."""

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from accredit.config.conversion import convert_tables
from accredit.config.load import load
from accredit.config.schema import Config, Gateway, Upstream
from accredit.config.values import SecretFrom, WrongValue
from accredit.errors import ConfigurationError
from accredit.gateway.settings import GatewaySettings

pytestmark = [pytest.mark.holds("config/schema"), pytest.mark.holds("config/values")]


def test_the_defaults_are_those_of_the_data_plane() -> None:
    """It can be mounted without a configuration, and must not behave differently then."""
    gateway = Gateway().members()
    for field in fields(GatewaySettings):
        if field.name == "upstream_timeout_seconds":
            assert field.default is None  # what a server is given then depends on how it is reached
        elif field.name in gateway:
            assert field.default is not MISSING
            default: object = list(field.default) if isinstance(field.default, tuple) else field.default
            assert gateway[field.name] == default, field.name
    assert Config().validation.responses == "enforce"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/mcp",
        "https://example.com",
        "http://[::1]:1/mcp?key=a%20b",
        "http://host/path@2",
        "HTTP://HOST/",
    ],
)
def test_urls_that_name_a_server(url: str) -> None:
    assert Upstream(url=url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:80/mcp",
        "//host/mcp",
        "http://",
        "http:///mcp",
        "http://:80/",
        "file:///etc/passwd",
        "ws://host/",
        "http://user@host/",
        "http://user:pass@host/",
        "http://user:pa/ss@host/",
        "http://host/#part",
        "http://host/#",
        "http://host:0/",
        "http://host:65536/",
        "http://host:port/",
        "http://[::1/",
        "http://host/a b",
        "http://host/\n",
        "ht\ttp://host/",
        "http://hôst/",
    ],
)
def test_urls_that_do_not(url: str) -> None:
    with pytest.raises(WrongValue) as refused:
        Upstream(url=url)
    assert "pass" not in refused.value.text.replace("password", "")


def test_a_slash_at_the_end_of_the_endpoint_s_path_is_none__whatever_names_it_says_the_same() -> None:
    assert Gateway(path="/mcp/").path == "/mcp"
    assert Gateway(path="/").path == "/"


TAKEN = ("/healthz", "/readyz", "/healthz/")


@pytest.mark.parametrize("path", ["", "mcp", "/a b", "/a?b", "/a#b", "/ä", "/a\n", "/mcp//", *TAKEN])
def test_paths_that_no_request_has_or_that_are_taken(path: str) -> None:
    with pytest.raises(WrongValue):
        Gateway(path=path)


@pytest.mark.parametrize(
    "headers",
    [
        {"": "a"},
        {"a b": "a"},
        {"a:": "a"},
        {"A": "a\r\nB: c"},
        {"A": " a"},
        {"A": "ä"},
        {"A": "a", "a": "b"},
        {"X-Key": "a", "X_Key": "b"},
        {"Transfer-Encoding": "chunked"},
        {"content-length": "1"},
        {"Content-Type": "text/plain"},
        {"Content_Encoding": "gzip"},
        {"Mcp-Session-Id": "one-for-all"},
        {"MCP-Protocol-Version": "2024-11-05"},
        {"mcp-param-region": "eu"},
        {"A": {"env": ""}},
        {"A": {"env": "B", "x": "C"}},
        {"A": {"env": 1}},
        {"A": None},
        {"A": ["a"]},
    ],
)
def test_headers_that_can_not_be_sent(headers: dict[str, object]) -> None:
    with pytest.raises(WrongValue):
        convert_tables({"upstream": {"headers": headers}}, strict=True)


@pytest.mark.parametrize("env", [{"": "a"}, {"A=B": "a"}, {"A": "\0"}, {"A\0": "a"}])
def test_variables_that_no_process_can_have(env: dict[str, str | SecretFrom]) -> None:
    with pytest.raises(WrongValue):
        Upstream(env=env)


@pytest.mark.parametrize("command", [[], [""], ["a", "\0"]])
def test_commands_that_can_not_be_run(command: list[str]) -> None:
    with pytest.raises(WrongValue):
        Upstream(command=command)


@pytest.mark.parametrize(
    "method",
    [
        "tools/call",
        "Tools/Call",
        "TOOLS/LIST",
        "resources/read",
        "prompts/get",
        "",
        "vendor x",
        "vendor\n",
        "v\u00e9ndor",
    ],
)
def test_methods_that_are_decided_can_t_be_named__nor_what_a_server_could_take_for_them(method: str) -> None:
    with pytest.raises(WrongValue):
        Gateway(methods=[method])
    assert Gateway(methods=["vendor/x", "tools/Call/All"]).methods


@pytest.mark.parametrize("name", ["Content-Type", "content_encoding", "X-Original-URL", "Host", "Authorization", "a b"])
def test_no_header_is_added_by_which_a_message_could_be_read_or_sent_otherwise(name: str) -> None:
    with pytest.raises(WrongValue, match="neither how a message is read nor where it goes"):
        Gateway(forward_headers=[name])
    assert Gateway(forward_headers=["X-Api-Key", "cookie"]).forward_headers


def test_one_answer_takes_no_more_memory_than_the_bounds_were_made_for(tmp_path: Path) -> None:
    """One of 100 MiB is the largest whose steps and copies were measured."""
    file = tmp_path / "accredit.toml"
    text = "[upstream]\nurl = 'http://127.0.0.1:9/mcp'\n[gateway]\nmax_response_bytes = {}\n"
    file.write_text(text.format(104_857_600), "utf-8")
    assert load(file, {}, {}).config.gateway.max_response_bytes == 104_857_600
    file.write_text(text.format(104_857_601), "utf-8")
    with pytest.raises(ConfigurationError, match=r"gateway\.max_response_bytes"):
        load(file, {}, {})
