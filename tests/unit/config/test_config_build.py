"""From a valid file to settings: what needs two keys, the environment or the machine."""

import sys
from pathlib import Path

import pytest

from accredit.config.build import build_settings
from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.gateway.settings import GatewaySettings, HttpUpstream, StdioUpstream

pytestmark = pytest.mark.holds("config/build")


def built(folder: Path, text: str, environ: dict[str, str] | None = None, *, workers: int = 1) -> GatewaySettings:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    return build_settings(load(file, environ or {}, {}), environ or {}, workers=workers)


def test_every_key_reaches_the_data_plane(tmp_path: Path) -> None:
    text = """
[gateway]
path = "/p"
allowed_origins = ["https://o"]
allowed_hosts = ["h"]
trusted_proxies = ["10.0.0.0/24", "::1"]
passthrough = ["/.well-known/*"]
forward_headers = ["X-Tenant"]
max_request_bytes = 1
max_response_bytes = 2
max_event_bytes = 3
upstream_timeout_seconds = 4
[upstream]
url = "http://u/"
headers = { A = "b", C = { env = "D" } }
[validation]
responses = "observe"
"""
    assert built(tmp_path, text, {"D": "e"}, workers=2) == GatewaySettings(
        upstream=HttpUpstream("http://u/", {"A": "b", "C": "e"}),
        path="/p",
        allowed_origins=("https://o",),
        allowed_hosts=("h",),
        trusted_proxies=("10.0.0.0/24", "::1"),
        forward_headers=("X-Tenant",),
        passthrough=("/.well-known/*",),
        max_request_bytes=1,
        max_response_bytes=2,
        max_event_bytes=3,
        upstream_timeout_seconds=4.0,
        enforce=False,
        workers=2,
    )


def test_replicas_and_the_bound_of_a_server_reach_the_data_plane__and_without_them_all_is_as_before(
    tmp_path: Path,
) -> None:
    text = '[upstream]\nurls = ["http://a:1/mcp?k=1", "https://b/mcp?k=1"]\nmax_in_flight = 7\n'
    found = built(tmp_path, text)
    assert found.upstream == HttpUpstream("http://a:1/mcp?k=1", {}, ("https://b/mcp?k=1",), 7)
    assert isinstance(found.upstream, HttpUpstream)
    assert found.upstream.looked_after
    assert found.seals_sessions
    for alone in ('url = "http://a/mcp"', 'urls = ["http://a/mcp"]'):
        only = built(tmp_path, f"[upstream]\n{alone}\n")
        assert only.upstream == HttpUpstream("http://a/mcp")
        assert isinstance(only.upstream, HttpUpstream)
        assert not only.upstream.looked_after
        assert not only.seals_sessions


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('url = "http://a/"\nurls = ["http://b/"]', "exclude each other"),
        ('urls = ["http://b/"]\ncommand = ["cat"]', "exclude each other"),
        ('urls = ["http://a/mcp", "http://b/other"]', "the same path"),
        ('urls = ["http://a/mcp", "http://b/mcp?key=1"]', "the same path"),
        ('urls = ["http://a:80/mcp", "http://A/mcp"]', "names a replica twice"),
        ('urls = ["nothing"]', "upstream.urls"),
        ('url = "http://a/"\nmax_in_flight = 0', "upstream.max_in_flight"),
        ('command = ["cat"]\nmax_in_flight = 9', "for a url"),
        ('urls = ["http://a/"]\ncwd = "."', "for a command"),
        ("urls = " + str([f"http://a:{port}/" for port in range(1, 34)]).replace("'", '"'), "upstream.urls"),
    ],
)
def test_urls_that_are_no_replicas_of_one_server_stop_the_start(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=what):
        built(tmp_path, f"[upstream]\n{text}\n")


def test_a_command_of_the_file_runs_in_the_files_folder(tmp_path: Path) -> None:
    settings = built(tmp_path, f'[upstream]\ncommand = ["{sys.executable}", "server.py"]\nenv = {{ A = "b" }}\n')
    assert settings.upstream == StdioUpstream((sys.executable, "server.py"), {"A": "b"}, str(tmp_path))


def test_a_program_beside_the_file_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "server"
    program.touch(0o700)
    monkeypatch.chdir("/")
    upstream = built(tmp_path, '[upstream]\ncommand = ["./server", "x"]\n').upstream
    assert isinstance(upstream, StdioUpstream)
    assert Path(upstream.command[0]).samefile(program)
    program.chmod(0o600)
    with pytest.raises(ConfigurationError, match="not found"):
        built(tmp_path, '[upstream]\ncommand = ["./server"]\n')


def test_a_command_of_the_environment_runs_here(tmp_path: Path) -> None:
    upstream = built(tmp_path, "", {"ACCREDIT_UPSTREAM__COMMAND": f'["{sys.executable}"]'}).upstream
    assert upstream == StdioUpstream((sys.executable,))


def test_a_program_is_looked_for_where_the_child_will_look(tmp_path: Path) -> None:
    (tmp_path / "only-here").touch(0o700)
    text = '[upstream]\ncommand = ["only-here"]\n'
    with pytest.raises(ConfigurationError, match="only-here"):
        built(tmp_path, text)
    assert built(tmp_path, text + f'env = {{ PATH = "{tmp_path}" }}\n').upstream


@pytest.mark.parametrize("value", ["hidden\nb", "hidden\r\nX: y", " hidden", "hiddenä"])
def test_a_header_from_the_environment_is_looked_at_and_not_shown(value: str, tmp_path: Path) -> None:
    text = '[upstream]\nurl = "http://u/"\nheaders = { A = { env = "B" } }\n'
    with pytest.raises(ConfigurationError) as refused:
        built(tmp_path, text, {"B": value})
    assert "hidden" not in str(refused.value)
    assert "B" in refused.value.remedy


def test_a_server_is_told_who_calls_by_a_gateway_with_an_id_only(tmp_path: Path) -> None:
    text = '[upstream]\nurl = "http://u/"\nidentity = "jwt"\n'
    with pytest.raises(ConfigurationError, match=r"gateway\.id is not set"):
        built(tmp_path, text)
    assert built(tmp_path, text + '[gateway]\nid = "gate"\n').identity is not None
