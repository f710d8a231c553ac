"""An agent's table means one thing, or the configuration is refused with what to do."""

from pathlib import Path

import pytest

from accredit.config.build import build_all_settings
from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.gateway.settings import ApiUpstream
from accredit.keys import make_key, write_key

pytestmark = pytest.mark.holds("config/agents")

AGENT = """
[gateway]
id = "mail-gateway"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[servers.helper]
protocol = "a2a"
url = "http://127.0.0.1:9000/rpc"
path = "/agents/helper"
scope = "agent:ask"
"""
SKILL = '[servers.helper.skills.wipe]\nscope = "email:send"\nsensitive = true\n'


def built(tmp_path: Path, text: str) -> ApiUpstream:
    file = tmp_path / "accredit.toml"
    if not file.exists():
        write_key(tmp_path / "owner.key", make_key("human", "Owner", 0))
    file.write_text(text)
    (settings,) = build_all_settings(load(file, {}, {}), {})
    assert isinstance(settings.upstream, ApiUpstream)
    assert settings.proofs is not None
    assert settings.proofs.policy.binding_required
    routes = settings.proofs.policy.catalog.routes
    both = ("agent:ask", "email:send")
    wanted = {"": both, "wipe": both} if SKILL in text else {"": ("agent:ask",)}
    assert {name: entry.needed for name, entry in routes.items()} == wanted
    assert routes[""].sensitive is (SKILL in text)
    return settings.upstream


def test_a_table_becomes_an_agent(tmp_path: Path) -> None:
    more = 'push_urls = ["https://a.example/hook"]\npublic_url = "https://gate.example/agents/helper"\n'
    found = built(tmp_path, AGENT + more + SKILL)
    assert found.agent is not None
    assert found.agent.push_urls == ("https://a.example/hook",)
    assert found.agent.public_url == "https://gate.example/agents/helper"
    assert found.agent.card_path == "/.well-known/agent-card.json"
    assert built(tmp_path, AGENT).protocol == "a2a"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (('scope = "agent:ask"', ""), "scope is not set"),
        (('url = "http://127.0.0.1:9000/rpc"', ""), "url is not set"),
        (('url = "http://127.0.0.1:9000/rpc"', 'urls = ["http://127.0.0.1:1", "http://127.0.0.1:2"]'), "names several"),
        (("9000/rpc", "9000/rpc?key=1"), "no query"),
        (('path = "/agents/helper"', ""), "path is not set"),
        (('mode = "required"', 'mode = "off"'), 'proofs.mode is "off"'),
        (('scope = "agent:ask"', 'scope = "agent:ask"\nproxy = "nginx"'), "would mean nothing"),
        (('scope = "agent:ask"', 'scope = "agent:ask"\nforward_headers = ["Cookie"]'), "would mean nothing"),
        (('scope = "agent:ask"', 'scope = "agent:ask"\n[servers.helper.tools.x]\nscope = "a:b"'), "would mean nothing"),
        (('protocol = "a2a"', 'protocol = "mcp"'), "protocol"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, change: tuple[str, str], what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        built(tmp_path, AGENT.replace(*change))
    assert what in caught.value.what
