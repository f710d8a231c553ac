"""From `[upstream.auth]` to how tokens are got: what stops the start, and what is never shown."""

import json
from pathlib import Path

import pytest
from tests.world.issuer import IssuerKey, key_set_text

from accredit.config.build import build_settings, build_upstream
from accredit.config.digest import policy_digest
from accredit.config.load import load
from accredit.config.show import list_settings
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream
from accredit.tokens.access import AccessGrant

pytestmark = pytest.mark.holds("config/http_upstream")

UPSTREAM = '[upstream]\nurl = "https://mail.example/mcp"\n'
BASE = {
    "type": '"client_credentials"',
    "token_url": '"https://idp.example/token?tenant=hidden"',
    "client_id": '"gw"',
    "client_secret": '{ env = "GW_SECRET" }',
}
TOKENS = """
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "https://idp.example"
audience = "https://gw.example/mcp"
jwks_file = "keys.json"
"""


def text_of(more: str = "", upstream: str = UPSTREAM, **changes: str) -> str:
    lines = "".join(f"{key} = {value}\n" for key, value in {**BASE, **changes}.items() if value)
    return f"{upstream}[upstream.auth]\n{lines}{more}"


def grant(folder: Path, text: str, **environ: str) -> AccessGrant:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    (folder / "keys.json").write_bytes(key_set_text(IssuerKey()))
    loaded = load(file, environ, {})
    upstream = build_settings(loaded, environ).upstream
    assert upstream == build_upstream(loaded, environ)
    assert isinstance(upstream, HttpUpstream)
    assert upstream.auth is not None
    return upstream.auth


def refused(folder: Path, text: str, **environ: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        grant(folder, text, **environ)
    return f"{error.value.what}\n{error.value.remedy}"


def test_the_grant_is_what_the_file_says(tmp_path: Path) -> None:
    found = grant(tmp_path, text_of(scope='"a b"', resource='"https://r.example"'), GW_SECRET="s3cret")
    assert found == AccessGrant(
        "client_credentials", "https://idp.example/token?tenant=hidden", "gw", "s3cret", "", "https://r.example", "a b"
    )
    (tmp_path / "secret").write_text("of a file\n")
    (tmp_path / "secret").chmod(0o600)
    exchange = {"type": '"token_exchange"', "client_secret": '{ file = "secret" }', "audience": '"mail"'}
    found = grant(tmp_path, text_of(TOKENS, **exchange))
    assert (found.type, found.client_secret, found.audience) == ("token_exchange", "of a file", "mail")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"type": '"password"'}, "upstream.auth.type"),
        ({"type": ""}, "upstream.auth.type"),
        ({"token_url": '"http://idp.example/token"'}, "upstream.auth.token_url"),
        ({"token_url": '"ftp://idp.example/token"'}, "upstream.auth.token_url"),
        ({"token_url": '"https://gw:marked@idp.example/token"'}, "upstream.auth.token_url"),
        ({"token_url": ""}, "upstream.auth.token_url"),
        ({"client_id": '""'}, "upstream.auth.client_id"),
        ({"client_secret": '"marked"'}, "upstream.auth.client_secret"),
        ({"client_secret": "{}"}, "upstream.auth.client_secret"),
        ({"client_secret": '{ env = "A", file = "marked" }'}, "upstream.auth.client_secret"),
        ({"client_secret": '{ evn = "A" }'}, "upstream.auth.client_secret.evn"),
        ({"client_secret": ""}, "upstream.auth.client_secret"),
        ({"client_secret": '{ env = "UNSET" }'}, "UNSET"),
        ({"client_secret": '{ env = "BROKEN" }'}, "BROKEN"),
        ({"client_secret": '{ file = "missing" }'}, "upstream.auth.client_secret"),
        ({"client_secret": '{ file = "open" }'}, "chmod 600"),
        ({"client_secret": '{ file = "empty" }'}, "should not be empty"),
        ({"scope": '"a  b"'}, "upstream.auth.scope"),
        ({"scope": '"a\\\\b"'}, "upstream.auth.scope"),
        ({"resource": '"mail"'}, "upstream.auth.resource"),
        ({"resource": '"https://mail.example#x"'}, "upstream.auth.resource"),
        ({"audience": '""'}, "upstream.auth.audience"),
        ({"secret": '"marked"'}, "upstream.auth.secret"),
        ({"type": '"token_exchange"', "audience": '"mail"'}, "tokens.mode"),
    ],
)
def test_what_could_not_work_stops_the_start__and_nothing_secret_is_quoted(
    changes: dict[str, str], names: str, tmp_path: Path
) -> None:
    for name, mode, text in (("open", 0o640, "marked"), ("empty", 0o600, "\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    said = refused(tmp_path, text_of(**changes), GW_SECRET="marked", BROKEN="marked\r\nX: y")
    assert names in said
    assert "marked" not in said.replace('"marked"', "") or "file" in names


def test_two_credentials__a_command__and_tokens_for_nobody_in_particular_stop_it_too(tmp_path: Path) -> None:
    both = UPSTREAM + 'headers = { authorization = { env = "A" } }\n'
    assert "upstream.headers holds Authorization" in refused(tmp_path, text_of(upstream=both), GW_SECRET="s", A="x")
    command = '[upstream]\ncommand = ["cat"]\n'
    assert "upstream.auth is for a url" in refused(tmp_path, text_of(upstream=command), GW_SECRET="s")
    said = refused(tmp_path, text_of(TOKENS, type='"token_exchange"'), GW_SECRET="s")
    assert "upstream.auth.audience" in said
    optional = TOKENS.replace("required", "optional")
    said = refused(tmp_path, text_of(optional, type='"token_exchange"', audience='"mail"'), GW_SECRET="s")
    assert 'tokens.mode is "optional"' in said


def test_the_configuration_is_shown_and_named_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"

    def digest(text: str, **environ: str) -> str:
        file.write_text(text)
        return policy_digest(load(file, environ, {}))

    one = digest(text_of(), GW_SECRET="one")
    (row,) = [
        row
        for row in list_settings(load(file, {"GW_SECRET": "one"}, {}))
        if (row.section, row.key) == ("upstream", "auth")
    ]
    told = json.dumps(row.value)
    assert '"client_secret": {"env": "GW_SECRET"}' in told
    assert "hidden" not in told
    assert one == digest(text_of(), GW_SECRET="two")
    for changes in ({"client_secret": '{ env = "OTHER" }'}, {"audience": '"mail"'}, {"client_id": '"other"'}):
        assert one != digest(text_of(**changes))
