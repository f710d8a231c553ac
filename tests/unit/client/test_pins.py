"""Which gateway is signed for: the one that was named, or the first that was met, and no other."""

import json
import logging
from pathlib import Path

import pytest

from accredit.client.pins import GATEWAY_CHANGED, GatewayPin
from accredit.errors import ConfigurationError, ProofRefused

URL = "http://127.0.0.1:8484/mcp"


def pin(file: Path, id: str = "", url: str = URL) -> GatewayPin:
    return GatewayPin(id, url=url, file=file)


def test_the_first_id_is_remembered_for_its_url_only(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file).meet("mail")
    assert pin(file).id == "mail"
    assert pin(file, url="http://elsewhere.example/mcp").id == ""
    assert json.loads(file.read_text("utf-8")) == {URL: "mail"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_another_id_later_is_refused_with_both_named(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    pin(file).meet("mail")
    with pytest.raises(ProofRefused, match="was mail, and now says that it is evil") as caught:
        pin(file).meet("evil")
    assert (caught.value.code, caught.value.error) == (GATEWAY_CHANGED, "gateway_changed")
    assert caught.value.data == {"error": "gateway_changed", "pinned": "mail", "found": "evil"}
    assert pin(file).id == "mail"


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


def test_without_a_url_the_first_id_holds_for_the_connection() -> None:
    found = GatewayPin()
    found.meet("mail")
    with pytest.raises(ProofRefused):
        found.meet("evil")


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
