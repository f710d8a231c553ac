"""What may be a credential is kept apart from the rest, whatever its place; what surely is none is not."""

import pytest

from accredit.hosts.credentials import (
    header_is_plain,
    secret_parts,
    url_holds_secret,
    variable_is_plain,
    without_secrets,
)

pytestmark = pytest.mark.holds("hosts/credentials")
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"
GITHUB = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PATH", "/usr/bin:/bin"), ("NODE_ENV", "production"), ("ANY", "true"), ("ANY", "8080"), ("ANY", ""),
     ("LOG_LEVEL", "verbose"), ("LC_ALL", "de_DE.UTF-8"), ("PYTHONPATH", "/home/ada/src")],
)  # fmt: skip
def test_a_variable_that_everybody_sets_is_none(name: str, value: str) -> None:
    assert variable_is_plain(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("GITHUB_TOKEN", GITHUB), ("TOKEN", "x"), ("WORKSPACE", "acme"), ("PATH", GITHUB), ("DEBUG", JWT),
     ("DOCKER_HOST", "tcp://ada:pw@host"), ("PIN", "12345678"), ("path", "hunter2"), ("ANY", "True\n")],
)  # fmt: skip
def test_every_other_variable_may_be_one(name: str, value: str) -> None:
    assert not variable_is_plain(name, value)


def test_a_header_that_says_how_messages_are_read_is_none__and_others_may_be() -> None:
    assert header_is_plain("Accept", "application/json, text/event-stream")
    assert header_is_plain("user-agent", "cursor/1.0 (linux; x64)")
    assert not header_is_plain("User-Agent", GITHUB)
    for name in ("Authorization", "X-Api-Key", "Cookie", "X-Anything"):
        assert not header_is_plain(name, "x")


@pytest.mark.parametrize(
    ("words", "secrets"),
    [
        (["-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/home/ada/docs 2024"], []),
        (["run", "-i", "--rm", "mcp/github", "--port", "8080", "--verbose", "-p", "8080:80"], []),
        (["--directory", "/srv/x12345678901234567890", "run", "main.py", "--log-level=debug"], []),
        (["--api-key", "hunter2"], ["hunter2"]),
        (["--api-key=hunter2", "--port=80"], ["hunter2"]),
        (["--access-token", "true"], []),
        (["postgresql://ada:hunter2@db/x"], ["postgresql://ada:hunter2@db/x"]),
        (["mcp-remote", "https://x.example/mcp?key=1"], ["https://x.example/mcp?key=1"]),
        (["mcp-remote", "https://x.example/mcp", "--header", "Authorization: Bearer x"], ["Authorization: Bearer x"]),
        (["-H", "X: y"], ["X: y"]),
        (["run", "-e", "GITHUB_TOKEN=x", "-e", "NODE_ENV=test", "-e", "NAME"], ["x"]),
        (["run", "--env=TOKEN=x", "--env=LOG_LEVEL=debug"], ["x"]),
        ([GITHUB], [GITHUB]),
        ([JWT], [JWT]),
        (["--x", "a9F3kQ77bC21xZ00pL45"], ["a9F3kQ77bC21xZ00pL45"]),
        (["--connection-string", "Server=db;Password=x"], ["Server=db;Password=x"]),
        (["--password", "--other"], []),
    ],
)  # fmt: skip
def test_in_a_command_s_words_it_is_found_wherever_it_stands(words: list[str], secrets: list[str]) -> None:
    parts = secret_parts(words)
    assert ["".join(part) for part in parts] == words
    assert [secret for _, secret in parts if secret] == secrets


def test_of_a_url_the_query_and_what_looks_like_one_in_the_path_are_not_shown() -> None:
    assert not url_holds_secret("https://mcp.example/v1/mcp")
    for url, shown in (
        ("https://mcp.example/mcp?exaApiKey=x", "https://mcp.example/mcp?***"),
        ("https://mcp.example/s/a9F3kQ77bC21xZ00pL45/mcp", "https://mcp.example/s/***/mcp"),
    ):
        assert url_holds_secret(url)
        assert without_secrets(url) == shown


@pytest.mark.parametrize(
    "secret", ["sk-proj-abcdefghijkl", "xoxb-1234567890-abcdef", "AKIAIOSFODNN7EXAMPLE", JWT, GITHUB]
)
def test_what_issuers_give_out_is_seen_by_its_form(secret: str) -> None:
    assert secret_parts(["--name", secret]) == [("--name", ""), ("", secret)]
    assert not variable_is_plain("LANG", secret)
