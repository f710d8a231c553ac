"""docs/reference/methods.md and the table say the same."""

import re
from pathlib import Path

from accredit.jsonrpc.methods import LEGACY_REVISIONS, METHODS, MODERN_REVISIONS
from accredit.policy.guarded_call import GUARDED, LISTS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "methods.md"
SPANS = {
    "all": LEGACY_REVISIONS + MODERN_REVISIONS,
    "2024-11-05 to 2025-11-25": LEGACY_REVISIONS,
    "2026-07-28": MODERN_REVISIONS,
    "2025-11-25": ("2025-11-25",),
    "2025-11-25; 2026-07-28 with the extension": ("2025-11-25", *MODERN_REVISIONS),
    "2026-07-28 with the extension": MODERN_REVISIONS,
}


def test_the_page_has_every_method_of_the_table__with_its_revisions_and_whether_it_is_guarded() -> None:
    rows = re.findall(r"^\| `([a-z/_]+)` \| ([^|]+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE | re.IGNORECASE)
    assert {method: SPANS[revisions] for method, revisions, _ in rows} == {
        name: method.revisions for name, method in METHODS.items()
    }
    for method, _, why in rows:
        assert why.startswith("**guarded**") == (method in GUARDED), method
        assert why.startswith("a list") == (method in LISTS), method
