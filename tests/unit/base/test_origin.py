"""Where this copy was installed from, and how it is installed again with an extra."""

import json
from importlib.metadata import PackageNotFoundError

import pytest

from accredit.base import origin
from accredit.base.deferred import install_extra


class _Installed:
    def __init__(self, said: object) -> None:
        self.said = said

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.said if self.said is None or isinstance(self.said, str) else json.dumps(self.said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, '"accredit[hosts]"'),
        ({"url": "file:///src/accredit", "dir_info": {"editable": True}}, "-e '/src/accredit[hosts]'"),
        ({"url": "file:///my%20src", "dir_info": {}}, "'/my src[hosts]'"),
        ({"url": "file:///dist/a.whl", "archive_info": {}}, "'accredit[hosts] @ file:///dist/a.whl'"),
        ({"url": "https://example.com/a.whl", "archive_info": {}}, "'accredit[hosts] @ https://example.com/a.whl'"),
        (
            {"url": "https://example.com/a.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "'accredit[hosts] @ git+https://example.com/a.git@c0ffee'",
        ),
        # what may hold a secret, or is no record of an installer's
        ({"url": "https://me:secret@example.com/a.whl", "archive_info": {}}, '"accredit[hosts]"'),
        ({"url": "https://example.com/a.whl?token=secret", "archive_info": {}}, '"accredit[hosts]"'),
        ({"url": "file:///a\x1b[2J", "dir_info": {}}, '"accredit[hosts]"'),
        ({"url": 7}, '"accredit[hosts]"'),
        ({}, '"accredit[hosts]"'),
        ("[", '"accredit[hosts]"'),
        ("[]", '"accredit[hosts]"'),
    ],
)
def test_an_extra_is_named_as_it_can_be_installed_from_where_this_copy_came(
    said: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(_name: str) -> _Installed:
        return _Installed(said)

    monkeypatch.setattr(origin, "distribution", found)
    assert install_extra("hosts") == f'install "accredit[hosts]", for example with pip: pip install {words}'


def test_a_copy_that_was_not_installed_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(_name: str) -> _Installed:
        raise PackageNotFoundError

    monkeypatch.setattr(origin, "distribution", found)
    assert origin.requirement_of("hosts") == '"accredit[hosts]"'
