"""From `[[tokens.issuers]]` to where keys are and who is asked: what stops the start, and what is never shown."""

import json
from pathlib import Path

import pytest
from tests.world.issuer import IssuerKey, key_set_text

from accredit.config.build import build_settings
from accredit.config.load import load
from accredit.config.show import list_settings
from accredit.config.tokens import build_key_sources
from accredit.errors import ConfigurationError
from accredit.gateway.settings import TokenSettings
from accredit.gateway.settings_digest import settings_digest
from accredit.tokens.introspection import Introspection
from accredit.tokens.key_sets import KeySet

BASE = {
    "issuer": '"https://idp.example"',
    "audience": '"https://gw.example/mcp"',
    "introspection_url": '"https://idp.example/introspect?tenant=hidden"',
    "introspection_client_id": '"gw"',
    "introspection_client_secret": '{ env = "GW_SECRET" }',
}


def issuer(**changes: str) -> str:
    lines = "".join(f"{key} = {value}\n" for key, value in {**BASE, **changes}.items() if value)
    return f"[[tokens.issuers]]\n{lines}"


def written(folder: Path, *issuers: str) -> Path:
    file = folder / "accredit.toml"
    head = '[upstream]\nurl = "https://mail.example/mcp"\n[tokens]\nmode = "required"\n'
    file.write_text(head + "".join(issuers), "utf-8")
    (folder / "keys.json").write_bytes(key_set_text(IssuerKey()))
    return file


def built(folder: Path, *issuers: str, **environ: str) -> TokenSettings:
    found = build_settings(load(written(folder, *issuers), environ, {}), environ).tokens
    assert found is not None
    return found


def refused(folder: Path, *issuers: str, **environ: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        built(folder, *issuers, **environ)
    assert error.value.remedy
    return f"{error.value.what}\n{error.value.remedy}"


def test_an_issuer_is_asked_where_the_file_says_and_as_whom(tmp_path: Path) -> None:
    asked = Introspection("https://idp.example/introspect?tenant=hidden", "gw", "s3cret")
    assert built(tmp_path, issuer(), GW_SECRET="s3cret").issuers[0].introspection == asked
    secret = tmp_path / "gw.secret"
    secret.touch(0o600)
    secret.write_text("s3cret\n")
    from_file = issuer(introspection_client_secret='{ file = "gw.secret" }')
    assert built(tmp_path, from_file).issuers[0].introspection == asked
    secret.chmod(0o644)
    assert "others can read" in refused(tmp_path, from_file)


@pytest.mark.parametrize("name", ["introspection_url", "introspection_client_id", "introspection_client_secret"])
def test_who_asks_says_who_asks(name: str, tmp_path: Path) -> None:
    assert f"tokens.issuers[0].{name}" in refused(tmp_path, issuer(**{name: ""}), GW_SECRET="s3cret")


def test_a_secret_that_is_not_there_or_goes_out_in_the_clear_stops_the_start(tmp_path: Path) -> None:
    assert "GW_SECRET" in refused(tmp_path, issuer())
    clear = issuer(introspection_url='"http://idp.example/introspect"')
    assert "introspection_url" in refused(tmp_path, clear, GW_SECRET="s3cret")
    literal = issuer(introspection_client_secret='"s3cret"')
    assert "s3cret" not in refused(tmp_path, literal)


def test_two_issuers_are_not_shown_each_others_tokens(tmp_path: Path) -> None:
    second = issuer(issuer='"https://second.example"')
    assert "each would be shown the other's tokens" in refused(tmp_path, issuer(), second, GW_SECRET="s3cret")


OFF = dict.fromkeys(("introspection_url", "introspection_client_id", "introspection_client_secret"), "")


def test_keys_that_nobody_named_are_found_from_an_issuer_that_is_a_url_and_from_no_other(tmp_path: Path) -> None:
    built(tmp_path, issuer(**OFF))
    assert build_key_sources(load(tmp_path / "accredit.toml", {}, {})) == {"https://idp.example": None}
    for name in ('"accredit"', '"http://idp.example"', '"https://idp.example?a"'):
        assert "no keys are named" in refused(tmp_path, issuer(**OFF, issuer=name))
    built(tmp_path, issuer(issuer='"idp"'), GW_SECRET="s3cret")  # it is asked about each token
    sources = build_key_sources(load(tmp_path / "accredit.toml", {}, {}))
    assert sources == {"idp": KeySet((), b"")}
    named = issuer(**OFF, jwks_file='"keys.json"')
    assert isinstance(build_key_sources(load(written(tmp_path, named), {}, {}))["https://idp.example"], KeySet)


def test_the_secret_is_in_nothing_that_is_shown_or_digested(tmp_path: Path) -> None:
    environ = {"GW_SECRET": "s3cret"}
    loaded = load(written(tmp_path, issuer()), environ, {})
    settings = build_settings(loaded, environ)
    assert "s3cret" not in f"{settings!r} {json.dumps([str(row) for row in list_settings(loaded)])}"
    other = build_settings(loaded, {"GW_SECRET": "another"})
    assert settings_digest(settings) == settings_digest(other)
    elsewhere = load(written(tmp_path, issuer(introspection_client_id='"other"')), environ, {})
    assert settings_digest(settings) != settings_digest(build_settings(elsewhere, environ))
