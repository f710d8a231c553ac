"""Which gateway is signed for: the one that was named, or the first that was met, and no other."""

import fcntl
import json
import logging
from pathlib import Path

import pytest

from accredit.client.pins import GATEWAY_CHANGED, GatewayPin, PinsInUse, check_name
from accredit.errors import ConfigurationError, ProofRefused

URL = "http://127.0.0.1:8484/mcp"


def pin(file: Path, id: str = "", url: str = URL) -> GatewayPin:
    return GatewayPin(id, url=url, file=file)


@pytest.mark.holds("client/pins", "remembered", "first-use")
def test_the_first_id_is_remembered_for_its_url_only(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file).meet("mail")
    assert pin(file).id == "mail"
    assert pin(file, url="http://elsewhere.example/mcp").id == ""
    assert json.loads(file.read_text("utf-8")) == {URL: "mail"}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.holds("client/pins", "remembered")
def test_another_id_later_is_refused_with_both_named(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file).meet("mail")
    with pytest.raises(ProofRefused, match="was mail, and now says that it is evil") as caught:
        pin(file).meet("evil")
    assert (caught.value.code, caught.value.error) == (GATEWAY_CHANGED, "gateway_changed")
    assert caught.value.data == {"error": "gateway_changed", "pinned": "mail", "found": "evil"}
    assert pin(file).id == "mail"


@pytest.mark.holds("client/pins", "named")
def test_an_id_that_is_named_wins_and_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    named = pin(file, "mail")
    named.meet("mail")
    with pytest.raises(ProofRefused):
        named.meet("evil")
    assert not file.exists()


def test_two_gateways_are_remembered_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    other = "http://127.0.0.1:9/mcp"
    one, two = pin(file), pin(file, url=other)
    one.meet("mail")
    two.meet("files")
    assert json.loads(file.read_text("utf-8")) == {URL: "mail", other: "files"}


def test_what_is_no_id_is_not_remembered__the_file_could_not_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file).meet("")
    for no_id in ("x" * 2_000_000, "\ud800", "mail\n"):
        with pytest.raises(ProofRefused) as caught:
            pin(file).meet(no_id)
        assert len(str(caught.value)) < 300
    assert not file.exists()


@pytest.mark.holds("client/pins", "no-address")
def test_without_a_url_or_a_name_nobody_is_believed__unless_nothing_need_be_bound(tmp_path: Path) -> None:
    found = GatewayPin(file=tmp_path / "known.json")
    found.meet("mail")
    assert (found.id, found.unbound) == ("", False)
    unbound = GatewayPin(unbound=True)
    unbound.meet("mail")
    assert unbound.id == "mail"
    with pytest.raises(ProofRefused):
        unbound.meet("evil")
    assert not GatewayPin(url=URL, unbound=True).unbound


@pytest.mark.holds("client/pins", "remembered", "first-use")
def test_a_name_in_the_place_of_a_url_is_pinned_as_one__and_compared_with_urls(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file, url="mail").meet("mail-gateway")
    assert json.loads(file.read_text("utf-8")) == {"mail": "mail-gateway"}
    assert pin(file, url="mail").id == "mail-gateway"
    assert pin(file, url="Mail").id == ""
    with pytest.raises(ProofRefused, match=r"gateway_changed"):
        pin(file, url="mail").meet("evil")
    with pytest.raises(ProofRefused, match=r"gateway_mismatch: bridge says .* known as the gateway at mail;"):
        pin(file, url="bridge").meet("mail-gateway")
    with pytest.raises(ProofRefused, match=r"gateway_mismatch"):
        pin(file).meet("mail-gateway")


@pytest.mark.parametrize("name", [URL, "host:8484", "", "a/b", "x" * 2_000, "mail\n", "a?b", "\\\\host"])
def test_what_could_be_a_url_or_can_not_be_shown_is_no_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="known_as can't be"):
        check_name(name)
    check_name("my mail")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"u": 1}', '{"u": ""}', '{"u": "a", "u": "b"}', "null"])
def test_a_file_that_says_something_else_stops_the_start__an_emptied_pin_would_trust_anybody(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / "known.json"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=r"known\.json is not"):
        pin(file)


def test_a_folder_that_takes_no_file_does_not_stop_a_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = pin(tmp_path / "missing" / "known.json")
    with caplog.at_level(logging.WARNING, "accredit.client"):
        found.meet("mail")
    assert found.id == "mail"
    assert "for this process only" in caplog.text


ELSEWHERE = "http://evil.example/mcp"


@pytest.mark.holds("client/pins", "first-use")
def test_an_id_that_is_known_under_another_url_is_refused_with_both_urls_named(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file).meet("mail")
    posing = pin(file, url=ELSEWHERE)
    for _ in range(2):
        with pytest.raises(ProofRefused, match=r"evil\.example.*127\.0\.0\.1:8484.*--gateway-id") as caught:
            posing.meet("mail")
        data = {"error": "gateway_mismatch", "found": "mail", "url": ELSEWHERE, "known_url": URL}
        assert (caught.value.code, caught.value.data) == (GATEWAY_CHANGED, data)
    assert posing.id == ""
    assert json.loads(file.read_text("utf-8")) == {URL: "mail"}
    pin(file, "mail", url=ELSEWHERE).meet("mail")  # a person says so


def test_one_process_knows_it_too__without_a_file_or_where_none_can_be_written(tmp_path: Path) -> None:
    for file in (None, tmp_path / "missing" / "known.json"):
        met: dict[str, str] = {}
        GatewayPin(url=URL, file=file, met=met).meet("mail")
        assert GatewayPin(url=URL, file=file, met=met).id == "mail"
        with pytest.raises(ProofRefused, match="gateway_mismatch"):
            GatewayPin(url=ELSEWHERE, file=file, met=met).meet("mail")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://gw.example/mcp", "HTTPS://GW.example:443/mcp/"),
        ("http://gw.example:80/mcp", "http://gw.example/mcp"),
        ("http://localhost:8484/mcp", "http://127.0.0.1:8484/mcp"),
        ("http://[::1]:8484/mcp", "http://localhost:8484/mcp"),
    ],
)
def test_another_spelling_of_a_url_is_that_url(one: str, other: str, tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file, url=one).meet("mail")
    assert pin(file, url=other).id == "mail"
    with pytest.raises(ProofRefused, match="gateway_changed"):
        pin(file, url=other).meet("evil")


@pytest.mark.parametrize(
    "other",
    [
        "http://gw.example:8443/mcp", "http://gw.example/mcp", "https://gw.example/other", "https://gw.example/mcp?t=1",
        "https://gw.example.evil/mcp", "https://gw.example@evil.example/mcp", "https://gw.example:x/mcp",
        "https://gw.example/MCP", "https://gw.example/mcp//",
    ],
)  # fmt: skip
def test_what_leads_elsewhere_is_another_url(other: str, tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file, url="https://gw.example/mcp").meet("mail")
    assert pin(file, url=other).id == ""
    with pytest.raises(ProofRefused, match="gateway_mismatch"):
        pin(file, url=other).meet("mail")


def test_of_two_processes_that_meet_one_id_at_once_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    one, two = pin(file), pin(file, url=ELSEWHERE)  # both have read the file before either has met anybody
    one.meet("mail")
    with pytest.raises(ProofRefused, match="gateway_mismatch"):
        two.meet("mail")
    late = GatewayPin(url=URL, file=tmp_path / "other.json")
    pin(tmp_path / "other.json").meet("mail")
    with pytest.raises(ProofRefused, match="gateway_changed"):
        late.meet("evil")
    assert late.id == "mail"


def test_a_process_that_is_stopped_while_it_meets_a_gateway_does_not_stop_the_others(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    with (tmp_path / ".known.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pin(file)
        with pytest.raises(PinsInUse, match=r"gateway_unknown: another process holds .*\.known\.json\.lock"):
            waiting.meet("mail")
        assert waiting.id == ""
    waiting.meet("mail")
    assert waiting.id == "mail"


def test_without_a_lock_nobody_is_trusted__two_processes_would_lose_each_other_s_pins(tmp_path: Path) -> None:
    (tmp_path / ".known.json.lock").symlink_to(tmp_path / "elsewhere")
    met = pin(tmp_path / "known.json")
    with pytest.raises(PinsInUse, match=r"\.known\.json\.lock can't be locked"):
        met.meet("mail")
    assert met.id == ""
    pin(tmp_path / "no such folder" / "known.json").meet("mail")


def test_a_file_that_breaks_while_we_run_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    met = pin(file)
    file.write_text("{", "utf-8")
    with pytest.raises(ProofRefused, match="gateway_unknown"):
        met.meet("mail")
    assert met.id == ""


def test_no_secret_of_a_url_is_told(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file, url="https://ada:pass@gw.example/mcp?key=secret").meet("mail")
    with pytest.raises(ProofRefused) as caught:
        pin(file, url="https://evil.example/mcp?key=other").meet("mail")
    told = str(caught.value) + str(caught.value.data)
    assert "https://gw.example/mcp?***" in told
    assert not any(word in told for word in ("secret", "other", "pass"))
