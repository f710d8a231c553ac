"""Bodies of strangers within all bounds, of which each held the loop for more than 100 ms in one step: as in
`test_loop_steps`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Raw
from tests.integration.test_loop_steps import FACTOR, PROMISED, headers, longest, small_heap
from tests.world.asgi import Told
from tests.world.heavy_bodies import MARKS, STRUCTURES, VALUES, call, filled

from accredit.jsonrpc.objects import check_same_names_in_steps
from accredit.limits import SHORT_MESSAGE_BYTES

pytestmark = pytest.mark.slow

__all__ = ["small_heap"]

NULS = chr(92) + "u0000"
BODIES: dict[str, Callable[[], str]] = {
    "a dotted capital i": lambda: call(f'{{"a":"{filled("İ")}","b":0}}'),
    "a dotted capital i, of a tool that is not sensitive": lambda: call(
        f'{{"a":"{filled("İ")}","b":0}}', name="list_inbox"
    ),
    "an iota with two marks": lambda: call(f'{{"a":"{filled("ΐ")}","b":0}}'),
    "names beyond 16 bits": lambda: call(
        "{" + ",".join(f'"\U00010000{number:x}":0' for number in range(STRUCTURES // 2)) + "}"
    ),
    "objects with such names": lambda: call('{"a":[' + ",".join(['{"\U00010000":0}'] * (STRUCTURES // 2)) + "]}"),
    "integers": lambda: call('{"a":[' + "9007199254740991," * VALUES + '0],"b":0}'),
    "NULs": lambda: call(f'{{"a":"{filled(NULS)}","b":0}}'),
    "combining marks": lambda: call(f'{{"a":"{filled(MARKS)}","b":0}}'),
    "ligatures": lambda: call(f'{{"a":"{filled("ﬃ")}","b":0}}'),
}


@pytest.mark.parametrize("name", BODIES)
def test_no_body_of_a_stranger_blocks_the_loop_by_what_it_is_full_of(name: str, tmp_path: Path) -> None:
    told = Told("POST", headers(None), BODIES[name]().encode())
    steps = longest("proofs", tmp_path / "log.db", {name: [told]})
    assert b"missing_ratify_proof" in told.body
    assert steps[name] < FACTOR * PROMISED


@pytest.mark.holds("jsonrpc/objects", "case")
def test_a_long_text_is_folded_in_steps__two_million_dotted_capital_letters_took_120_ms() -> None:
    steps = [*check_same_names_in_steps(Raw(f'{{"a":"{filled("İ")}","b":0}}'.encode()))]
    assert len(steps) > len(filled("İ")) // SHORT_MESSAGE_BYTES
