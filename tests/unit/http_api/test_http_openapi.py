"""An OpenAPI document gives its operations, or is refused; it can neither hide one by its form nor cost much."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.http_api import openapi
from accredit.http_api.openapi import MAX_REFS, MAX_SERVER_CHARS, ApiDocument, read_document
from accredit.http_api.proposals import propose
from accredit.http_api.routes import MAX_ROUTES

METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]


def document(paths: object, **more: object) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "Mail"}, "paths": paths, **more}


def read(found: object) -> ApiDocument:
    return read_document(json.dumps(found).encode())


def texts(found: object) -> list[str]:
    return [f"{each.method} {each.path}" for each in read(found).operations]


def refusal(found: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(found)
    return caught.value.what


def test_each_method_of_each_path_is_an_operation__also_a_deprecated_one() -> None:
    item: dict[str, Any] = {method: {} for method in METHODS}
    item |= {"summary": "x", "parameters": [{"name": "id"}], "x-own": 7}
    item["get"] = {"operationId": "readOne", "summary": "Reads", "deprecated": True, "responses": {"200": {}}}
    found = read(document({"/messages/{id}": item, "x-own": "no path"}))
    assert {each.method for each in found.operations} == {method.upper() for method in METHODS}
    assert found.title == "Mail"
    first = found.operations[0]
    assert (first.method, first.path, first.name) == ("GET", "/messages/{id}", "readOne")
    assert (first.summary, first.deprecated, first.server) == ("Reads", True, "")


def test_a_document_with_nulls_a_mark_or_without_paths_is_read() -> None:
    marked = b"\xef\xbb\xbf" + json.dumps(document(None, servers=None, components=None)).encode()
    assert read_document(marked).operations == ()
    assert texts(
        document({"/a": {"get": {"operationId": None, "deprecated": None, "servers": None}, "put": None}})
    ) == ["GET /a"]


def test_an_operation_at_another_server_says_so__one_at_the_same_does_not() -> None:
    servers = [{"url": "https://{region}.example/v1", "variables": {"region": {"default": "eu", "enum": ["eu"]}}}]
    elsewhere = [{"url": "https://uploads.example"}]
    found = read(
        document(
            {
                "/a": {"get": {}, "post": {"servers": elsewhere}},
                "/b": {"servers": elsewhere, "get": {}, "post": {"servers": servers}},
            },
            servers=servers,
        )
    )
    assert found.server == "https://eu.example/v1"
    assert [each.server for each in found.operations] == ["", elsewhere[0]["url"], elsewhere[0]["url"], ""]


@pytest.mark.holds("http_api/openapi", "local-refs")
def test_a_path_elsewhere_in_the_document_has_its_operations__nearer_ones_first() -> None:
    there = {"get": {"operationId": "far"}, "delete": {}}
    found = document(
        {
            "/a": {"$ref": "#/components/pathItems/one", "get": {"operationId": "near"}},
            "/b/{id}": {"$ref": "#/paths/~1a"},
            "/c": {"$ref": "#/paths/~1b~1%7Bid%7D"},
        },
        components={"pathItems": {"one": there}},
    )
    assert texts(found) == ["GET /a", "DELETE /a", "GET /b/{id}", "DELETE /b/{id}", "GET /c", "DELETE /c"]
    assert {each.name for each in read(found).operations if each.method == "GET"} == {"near"}


@pytest.mark.holds("http_api/openapi", "local-refs")
@pytest.mark.parametrize(
    ("ref", "why"),
    [
        ("other.json#/paths/~1a", "elsewhere"),
        ("https://example.org/x.json", "elsewhere"),
        ("file:///etc/passwd", "elsewhere"),
        ("#/paths/a/get", "elsewhere"),
        ("#/x-mine/a", "elsewhere"),
        ("#", "elsewhere"),
        ("#/components/pathItems/none", "does not have"),
        ("#/paths/~1self", "in a row"),
    ],
)
def test_a_reference_whose_operations_nobody_sees_is_refused(ref: str, why: str) -> None:
    assert why in refusal(document({"/self": {"$ref": ref}}))


@pytest.mark.holds("http_api/openapi", "local-refs", "bounded")
def test_references_end__and_a_large_target_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chain: dict[str, Any] = {str(n): {"$ref": f"#/components/pathItems/{n + 1}"} for n in range(MAX_REFS)}
    long = {"pathItems": chain | {str(MAX_REFS): {"get": {}}}}
    assert texts(document({"/a": {"$ref": "#/components/pathItems/1"}}, components=long)) == ["GET /a"]
    assert "in a row" in refusal(document({"/a": {"$ref": "#/components/pathItems/0"}}, components=long))
    decoded: list[object] = []
    real = openapi._decode

    def decode(text: Any, kind: type[Any]) -> Any:
        decoded.append(kind)
        return real(text, kind)

    monkeypatch.setattr(openapi, "_decode", decode)
    read(
        document({f"/{n}": {"$ref": "#/components/pathItems/x"} for n in range(9)}, components={"pathItems": {"x": {}}})
    )
    assert len(decoded) == 1 + 9 + 1


@pytest.mark.holds("http_api/openapi", "bounded")
def test_a_document_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "operations" in refusal(document({f"/{number}": {"get": {}} for number in range(MAX_ROUTES + 1)}))
    growing = {"url": "{a}" * 600, "variables": {"a": {"default": "x" * MAX_SERVER_CHARS}}}
    assert "URL" in refusal(document({}, servers=[growing]))
    assert "URL" in refusal(document({"/a": {"get": {"servers": [growing]}}}))
    many = {"url": "/", "variables": {f"v{number}": {} for number in range(101)}}
    assert "variables" in refusal(document({}, servers=[many]))
    monkeypatch.setattr(openapi, "MAX_OPENAPI_BYTES", 10)
    assert "bytes" in refusal(document({}))


@pytest.mark.holds("http_api/openapi", "all-paths")
@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"swagger": "2.0", "paths": {}}, "version 2.0"),
        ({"openapi": "3.2.0", "paths": {}}, "version 3.2.0"),
        ({"paths": {}}, "version"),
        ([], "can't be read"),
        (document({"/a": {"get": "x"}}), "can't be read"),
        (document({"/a": ["get"]}), "can't be read"),
        (document({"/a": {"get": {"operationId": {}}}}), "can't be read"),
        (document([]), "can't be read"),
        (document({"a": {"get": {}}}), "without a slash"),
    ],
)
def test_what_is_no_such_document_is_refused(found: object, why: str) -> None:
    assert why in refusal(found)


def test_an_error_quotes_nothing_that_a_terminal_would_obey() -> None:
    assert refusal(document({"\x1b[2J\n": {}})).isprintable()
    assert refusal({"openapi": "\x1b]0;x\x07"}).isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(["/a", "/a/{x}", "/a/{y}", "/A", "/a/", "/{x}/b", "/a/{x}:go", "/a?b", "/%zz", "/é", "//", "/"])
OPERATIONS = JSON | st.fixed_dictionaries({}, optional={"operationId": JSON, "summary": st.text(), "servers": JSON})
ITEMS = JSON | st.dictionaries(st.sampled_from([*METHODS, "$ref", "servers"]), OPERATIONS, max_size=4)
DOCUMENTS = st.fixed_dictionaries(
    {"openapi": st.sampled_from(["3.0.3", "3.1.0"]), "paths": st.dictionaries(PATHS | st.text(max_size=5), ITEMS)},
    optional={"info": JSON, "servers": JSON, "components": JSON | st.fixed_dictionaries({"pathItems": JSON})},
)


@given(st.binary(max_size=64) | DOCUMENTS.map(lambda found: json.dumps(found).encode()))
def test_whatever_a_document_is__it_is_read_or_refused(data: bytes) -> None:
    try:
        found = read_document(data)
    except ConfigurationError:
        return
    made = propose(found.operations, "mail")
    assert len(made.routes) + len(made.left_out) == len(found.operations)


@pytest.mark.parametrize("data", [b'{"a":' * 100_000, b"[" * 100_000, b'{"openapi":"3.0.0","x":' + b"[" * 100_000])
def test_a_deep_document_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError):
        read_document(data)
