"""The method table against the official schemas."""

from collections.abc import Iterator
from typing import Any, get_args

import mcp_types
from mcp_types import methods as official
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from accredit.jsonrpc.methods import (
    INPUT_REQUIRED_METHODS,
    LEGACY_REVISIONS,
    META_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_VERSION,
    METHODS,
    MODERN_REVISIONS,
    TARGET_MEMBER,
    TASK_METHODS,
    is_known,
)
from accredit.jsonrpc.requests import PARAMS_MEMBERS

CALLS = {**official.CLIENT_REQUESTS, **official.CLIENT_NOTIFICATIONS}


TASKS = {
    "tasks/get": ("2025-11-25", "2026-07-28"),
    "tasks/result": ("2025-11-25",),
    "tasks/list": ("2025-11-25",),
    "tasks/update": ("2026-07-28",),
    "tasks/cancel": ("2025-11-25", "2026-07-28"),
    "notifications/tasks/status": ("2025-11-25",),
}
"""The official package leaves them out on purpose. Source: the schema of 2025-11-25, and that of the extension."""


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models(inner)


def test_every_member_that_the_schemas_define_is_in_the_table__else_its_misspelling_would_pass() -> None:
    for (method, _), call in CALLS.items():
        params = call.model_fields.get("params")
        names = (
            {field.alias or name for model in models(params.annotation) for name, field in model.model_fields.items()}
            if params
            else set()
        )
        assert names <= PARAMS_MEMBERS[method].defined, method


def test_each_revision_knows_the_methods_of_its_schema_and_no_others() -> None:
    for method in METHODS:
        for revision in (*LEGACY_REVISIONS, *MODERN_REVISIONS):
            known = (method, revision) in CALLS or revision in TASKS.get(method, ())
            assert is_known(method, revision) == known, (method, revision)
    assert {method for method, _ in CALLS} | set(TASKS) == set(METHODS)


def test_of_a_revision_that_is_not_known_the_newest_table_of_its_era_counts() -> None:
    for revision, ping in (("2027-01-01", False), ("2026-01-01", False), ("2020-01-01", True), ("", True)):
        assert is_known("ping", revision) is ping
        assert is_known("server/discover", revision) is not ping
        assert not is_known("vendor/x", revision)
    assert is_known("ping", None)
    assert not is_known("vendor/x", None)


def test_every_revision_is_known() -> None:
    assert {revision for _, revision in CALLS} == {*LEGACY_REVISIONS, *MODERN_REVISIONS}
    assert tuple(MODERN_PROTOCOL_VERSIONS) == MODERN_REVISIONS
    assert sorted(LEGACY_REVISIONS) == list(LEGACY_REVISIONS)


def test_the_methods_of_rounds_and_targets_are_the_official_ones() -> None:
    assert set(official.INPUT_REQUIRED_METHODS) == INPUT_REQUIRED_METHODS
    assert set(TARGET_MEMBER) == INPUT_REQUIRED_METHODS | TASK_METHODS
    for method, member in TARGET_MEMBER.items():
        assert member in PARAMS_MEMBERS[method].defined


def test_the_names_in_meta_are_the_official_ones() -> None:
    assert META_VERSION == mcp_types.PROTOCOL_VERSION_META_KEY
    assert META_CLIENT_INFO == mcp_types.CLIENT_INFO_META_KEY
    assert META_CAPABILITIES == mcp_types.CLIENT_CAPABILITIES_META_KEY
    assert META_LOG_LEVEL == mcp_types.LOG_LEVEL_META_KEY
