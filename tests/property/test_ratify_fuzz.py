"""The fuzz target of the Ratify core: its corpus runs clean."""

import pytest
from tests.fuzz.fuzz_ratify_target import corpus, one_input

CORPUS = corpus()


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_runs_clean(name: str) -> None:
    one_input(CORPUS[name])
