"""`[[quotas]]`: a limit that could not be kept, or that nobody could stay within, stops the start."""

from pathlib import Path

import pytest

from accredit.config.build import build_all_settings
from accredit.config.load import load
from accredit.config.values import MAX_QUOTAS
from accredit.errors import ConfigurationError
from accredit.gateway.settings import GatewaySettings
from accredit.keys import make_key, write_key

pytestmark = pytest.mark.holds("config/quotas")

URL = '[upstream]\nurl = "http://127.0.0.1:9000/mcp"\n'
CALLS = '[[quotas]]\nby = "server"\nwindow = "1h"\ncalls = 100\n'
STORE = '[store]\nurl = "sqlite:///store.db"\n'
PROOFS = (
    '[gateway]\nid = "g"\n[proofs]\nmode = "MODE"\n[[proofs.roots]]\nname = "O"\npublic_key_file = "owner.key.pub"\n'
)
TOKENS = (
    '[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "https://id.example.org"\naudience = "a"\n'
    'jwks_url = "https://id.example.org/keys"\n'
)


def built(folder: Path, text: str, workers: int = 1) -> list[GatewaySettings]:
    (folder / "accredit.toml").write_text(text, "utf-8")
    if not (folder / "owner.key").exists():
        write_key(folder / "owner.key", make_key("human", "Owner", 0))
    return build_all_settings(load(folder / "accredit.toml", {}, {}), {}, workers=workers)


def test_a_quota_is_what_it_says(tmp_path: Path) -> None:
    (settings,) = built(tmp_path, URL + CALLS)
    (quota,) = settings.quotas.entries
    assert (quota.by, quota.tools, quota.window_s, quota.most, quota.fact) == ("server", {"*"}, 3600, 100, "")
    text = '[[quotas]]\nby = "server"\nwindow = "7d"\nsum = "amount"\nlimit = 0.7\ntools = ["pay"]\n'
    (settings,) = built(
        tmp_path, f'{URL}{text}[tools.pay]\nscope = "payments:send"\nfacts = {{ amount = "/amount" }}\n'
    )
    (quota,) = settings.quotas.entries
    assert (quota.tools, quota.window_s, quota.most, quota.fact) == ({"pay"}, 7 * 86_400, 700_000, "amount")


@pytest.mark.parametrize(
    ("mode", "of_proofs", "whatever"),
    [("required", ["agent", "subject", "server"], []), ("observe", ["agent"], ["subject", "server"])],
)
def test_what_proofs_decide_is_counted_with_them__and_while_they_are_observed_the_rest_holds(
    mode: str, of_proofs: list[str], whatever: list[str], tmp_path: Path
) -> None:
    quotas = "".join(CALLS.replace("server", by) for by in ("agent", "subject", "server"))
    (settings,) = built(tmp_path, URL + PROOFS.replace("MODE", mode) + TOKENS + quotas)
    assert settings.proofs is not None
    assert [each.by for each in settings.proofs.policy.quotas.entries] == of_proofs
    assert [each.by for each in settings.quotas.entries] == whatever


def test_each_of_several_servers_is_counted__and_all_as_one_count_as_they_do(tmp_path: Path) -> None:
    servers = "".join(f'[servers.{name}]\nurl = "http://127.0.0.1:9000/{name}"\n' for name in ("mail", "crm"))
    *several, merged = built(tmp_path, '[gateway]\nid = "g"\nmerge = true\n' + servers + CALLS)
    assert [each.quotas.server for each in several] == ["mail", "crm"]
    assert (merged.quotas.merged, merged.quotas.entries) == ({"mail", "crm"}, several[0].quotas.entries)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("calls = 100", ""), r"quotas\[0\] says how much in no way"),
        (("calls = 100", 'calls = 1\nsum = "amount"\nlimit = 1'), r"quotas\[0\] says how much in no way, or in two"),
        (("calls = 100", "calls = 1\nlimit = 1"), r"quotas\[0\] says how much"),
        (("calls = 100", 'sum = "amount"'), r"quotas\[0\] says how much"),
        (("calls = 100", "calls = 0"), r"quotas\[0\].calls"),
        (("calls = 100", "calls = 1000000001"), r"quotas\[0\].calls"),
        (("calls = 100", 'sum = "amount"\nlimit = 0'), r"quotas\[0\].limit"),
        (("calls = 100", 'sum = "amount"\nlimit = inf'), r"quotas\[0\].limit"),
        (("calls = 100", 'sum = "lat"\nlimit = 5'), r"quotas\[0\].sum"),
        (('"1h"', '"32d"'), r"quotas\[0\].window .*should be like 60s"),
        (('"server"', '"agent"'), r"quotas\[0\].by is agent, and with proofs.mode off"),
        (('"server"', '"subject"'), r"quotas\[0\].by is subject, and with tokens.mode off"),
        (('"server"', '"everybody"'), r"quotas\[0\].by"),
        (("calls", 'tools = ["*", "pay"]\ncalls'), r"quotas\[0\].tools"),
        (("calls", "tools = []\ncalls"), r"quotas\[0\].tools"),
        (("calls", 'colour = "red"\ncalls'), r"quotas\[0\].colour .*no such key"),
        (("[[quotas]]", "[quotas]"), r"quotas .*should be a list of tables"),
    ],
)  # fmt: skip
def test_a_quota_that_could_not_be_kept_stops_the_start(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=said):
        built(tmp_path, URL + CALLS.replace(*change))


def test_a_sum_of_what_a_tool_does_not_have_stops_the_start(tmp_path: Path) -> None:
    quota = '[[quotas]]\nby = "server"\nwindow = "1h"\nsum = "amount"\nlimit = 5\ntools = ["pay"]\n'
    with pytest.raises(ConfigurationError, match="pay has no such fact"):
        built(tmp_path, f'{URL}{quota}[tools.pay]\nscope = "payments:send"\n')


def test_workers_that_share_no_store_would_allow_more(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="2 workers"):
        built(tmp_path, URL + CALLS, workers=2)
    built(tmp_path, URL + CALLS + STORE, workers=2)


def test_the_number_of_quotas_is_bounded__each_costs_every_call(tmp_path: Path) -> None:
    built(tmp_path, URL + CALLS * MAX_QUOTAS)
    with pytest.raises(ConfigurationError, match="one too many"):
        built(tmp_path, URL + CALLS * (MAX_QUOTAS + 1))


def test_no_quota_comes_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text(URL, "utf-8")
    with pytest.raises(ConfigurationError, match=r"ACCREDIT_QUOTAS__0 .*list"):
        load(tmp_path / "accredit.toml", {"ACCREDIT_QUOTAS__0": "{}"}, {})
