"""Whatever a file holds, the commands answer: with words, a refusal or a negative answer; never with a traceback."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.delegations import NOW, World, prove

from accredit.cli import main
from accredit.keys import DelegationFile, write_key
from accredit.ratify import issue_revocation_list
from accredit.ratify.constraints import Extension, GeoBox, GeoCircle, MaxAmount, MaxRate, ResourcePath, TimeWindow

pytestmark = pytest.mark.holds("signing/documents")

WORLD = World()
CHAIN = WORLD.chain()
CONSTRAINED = WORLD.grant(
    "comms:*",
    constraints=(
        MaxAmount(currency="USD", max_amount=500),
        MaxRate(count=1, window_s=60),
        TimeWindow(start="09:00", end="17:00", tz="UTC"),
        ResourcePath(resource_id="a", path_prefix="/b"),
        GeoCircle(lat=1, lon=2, radius_m=3),
        GeoBox(min_lat=1, max_lat=2, min_lon=3, max_lon=4),
        Extension("com.example.x", {"a": [1, None]}),
    ),
)
VALID: list[dict[str, Any]] = [
    DelegationFile(CHAIN).to_dict(),
    DelegationFile((CONSTRAINED,)).to_dict(),
    prove(CHAIN, WORLD.sub).to_dict(),
    prove((CONSTRAINED,), WORLD.agent, session_context=bytes(32), stream_id=bytes(32), stream_seq=1).to_dict(),
    issue_revocation_list(WORLD.owner.signer(), ["one"], NOW).to_dict(),
    WORLD.owner.public().to_dict(),
    WORLD.owner.to_dict(),
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(),
    st.text(),
    st.sampled_from(["", "\ud800", "\x1b[0m", "identity:delegate", "../../etc/passwd", "/", "24:00", "AAAA"]),
    st.just([]),
    st.just({}),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    for name, key in (("owner", WORLD.owner), ("agent", WORLD.agent), ("sub", WORLD.sub)):
        write_key(folder / f"{name}.key", key)
    with contextlib.chdir(folder):
        yield folder


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where something can be changed, from the whole down to the leaves."""
    if isinstance(value, dict):
        return [path, *(inner for name, each in value.items() for inner in places(each, (*path, name)))]
    if isinstance(value, list):
        return [path, *(inner for index, each in enumerate(value) for inner in places(each, (*path, index)))]
    return [path]


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A valid document in which one or two values were replaced by others, or left out."""
    document = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    for _ in range(draw(st.integers(0, 2))):
        found = [path for path in places(document) if path]
        if not found:
            break
        *way, last = draw(st.sampled_from(found))
        parent: Any = document
        for step in way:
            parent = parent[step]
        if draw(st.booleans()):
            parent[last] = draw(VALUES)
        else:
            del parent[last]
    return json.dumps(document).encode()


def answer(*arguments: str) -> None:
    """Runs a command; what it prints can be printed, and its code is one of the three."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["accredit", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main()
    finally:
        sys.argv = before
    assert code in (0, 1, 2)
    assert (code == 2) == err.getvalue().startswith("error: ")
    assert all(char.isprintable() or char == "\n" for char in out.getvalue() + err.getvalue())


MANY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MANY
@given(data=st.one_of(documents(), st.binary()))
def test_any_file_can_be_inspected(data: bytes, place: Path) -> None:
    file = place / "file"
    file.write_bytes(data)
    file.chmod(0o600)
    answer("inspect", "file", "--key", "owner.key.pub")
    answer("inspect", "file", "--json")
    answer("keys", "show", "file")


@MANY
@given(data=st.one_of(documents(), st.binary()))
def test_any_file_can_be_verified(data: bytes, place: Path) -> None:
    (place / "file").write_bytes(data)
    root = ("--root", "owner.key.pub", "--now", str(NOW))
    answer("verify", "file", *root)
    answer("verify", "file", *root, "--json", "--revoked", "file")


@MANY
@given(data=st.one_of(documents(), st.binary()))
def test_any_file_can_be_named_as_a_parent_or_a_list(data: bytes, place: Path) -> None:
    (place / "file").write_bytes(data)
    (place / "list").write_bytes(data)
    answer("grant", "--issuer", "agent.key", "--agent", "sub.key.pub", "--parent", "file", "--scope", "custom:x",
           "--out", "out")  # fmt: skip
    answer("revoke", "id", "--issuer", "owner.key", "--list", "list")
