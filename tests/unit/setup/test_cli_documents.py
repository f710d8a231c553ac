"""What `init`, `add` and `check` make of an OpenAPI document or a card: whatever it says, the file means what was
proposed."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.a2a_agents import CARD
from tests.world.tool_lists import HOSTILE_TEXTS

from accredit.asking.reaching import read_reach
from accredit.base.standard import printing_json
from accredit.errors import ConfigurationError
from accredit.http_api.openapi import Operation
from accredit.http_api.proposals import propose
from accredit.setup import documents
from accredit.setup.check_documents import check_document
from accredit.setup.config_text import Agent, Api, added_tables, configuration
from accredit.setup.documents import Document, check_served, find_described, named_document, read_openapi

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Mail"},
    "servers": [{"url": "https://api.example/v1/"}],
    "paths": {
        "/messages": {"get": {"operationId": "list"}},
        "/messages/{id}": {"get": {}, "delete": {"operationId": "drop"}},
        "/messages/{id}/send": {"post": {"operationId": "send"}},
    },
}
YAML = """\
openapi: 3.1.0
info: {title: Mail}
servers:
  - url: https://api.example/v1/
paths:
  /messages:
    get: {operationId: list, deprecated: true, responses: {200: {description: ok}}}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(DOCUMENT))
    return file


def api(where: Path | str, url: str | None = None, proxy: str | None = None, **more: Any) -> Api:
    found = described(where, None, url, proxy, **more)
    assert isinstance(found, Api)
    return found


def agent(where: Path | str, url: str | None = None, **more: Any) -> Agent:
    found = described(None, where, url, None, **more)
    assert isinstance(found, Agent)
    return found


def described(*where: Any, **more: Any) -> Api | Agent:
    openapi, card, url, proxy = where
    document = named_document(openapi, card)
    assert document is not None
    reach = read_reach(**more)
    return find_described("mail", document, url, proxy, reach)


def refusal(where: Path | str, **more: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        api(where, **more)
    return str(caught.value)


def put(folder: Path, text: str, name: str = "d.yaml") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder / name


def test_the_api_is_where_the_document_says__or_where_a_person_does(document: Path, tmp_path: Path) -> None:
    assert api(document).url == "https://api.example/v1"
    assert api(document, "http://127.0.0.1:9/x/").url == "http://127.0.0.1:9/x"
    relative = put(tmp_path, json.dumps({**DOCUMENT, "servers": [{"url": "/v2"}]}), "r.json")
    assert "name its URL" in refusal(relative)
    assert api(relative, "http://127.0.0.1:9").url == "http://127.0.0.1:9"
    behind = api(relative, proxy="nginx")
    assert behind.proposals.routes[0].route.text == "GET /v2/messages"
    there = api(document, "https://x/v9", "envoy")
    assert there.proposals.routes[0].route.text == "GET /v9/messages"


@pytest.mark.holds("setup/documents", "credentials")
def test_a_token_never_goes_to_where_a_document_says(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "secret")
    assert "could name anybody's" in refusal(document, token_env="MAIL_TOKEN")
    assert "could name anybody's" in refusal(document, header=["X-Key=env:MAIL_TOKEN"])
    assert "the proxy calls" in refusal(document, url="https://x", proxy="nginx", token_env="MAIL_TOKEN")
    text = configuration(api(document, "https://mine.example", token_env="MAIL_TOKEN"))
    assert "secret" not in text
    assert tomllib.loads(text)["servers"]["mail"]["headers"] == {
        "Authorization": {"env": "MAIL_TOKEN", "scheme": "Bearer"}
    }


@pytest.mark.holds("setup/documents", "named-only")
@pytest.mark.parametrize("url", ["http://example.org/openapi.json", "https://user:pw@example.org/x", "ftp://x/y"])
def test_a_document_is_not_fetched_in_the_clear(url: str) -> None:
    told = refusal(url)
    assert "--openapi" in told
    assert "pw" not in told


@pytest.mark.holds("setup/documents", "yaml")
def test_yaml_is_read_as_json_is(tmp_path: Path) -> None:
    (found,) = read_openapi(put(tmp_path, YAML)).operations
    assert (found.method, found.path, found.name, found.deprecated) == ("GET", "/messages", "list", True)


@pytest.mark.holds("setup/documents", "yaml")
def test_yaml_needs_an_extra_that_the_error_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, extra: str, what: str) -> None:
        raise ConfigurationError(what, f"accredit[{extra}]")

    monkeypatch.setattr(documents, "require_extra", missing)
    assert "accredit[hosts]" in refusal(put(tmp_path, YAML))


@pytest.mark.holds("setup/documents", "yaml")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &x [1]\nb: *x\n", "anchors"),
        ("a: !!python/object/apply:os.system ['true']\n", "tags"),
        ("[" * 200, "nested deeper"),
        ("a: [", "in line"),
        ("\x00", "neither JSON nor YAML"),
        ("? [a]\n: 1\n", "neither JSON nor YAML"),
        ('openapi: "\\ud800"\n', "neither JSON nor YAML"),
        ("", "can't be read"),
        ("<html><body>Not found</body></html>", "can't be read"),
        ("openapi: 3.0.0\npaths: 7\n", "can't be read"),
    ],
)
def test_what_is_no_document_or_could_grow_is_refused(text: str, why: str, tmp_path: Path) -> None:
    assert why in refusal(put(tmp_path, text))


@pytest.mark.holds("setup/documents", "yaml")
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_whatever_a_file_holds__it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: str | bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
    try:
        read_openapi(file)
    except ConfigurationError:
        return


def test_a_document_without_operations_makes_no_file(tmp_path: Path) -> None:
    assert "no operation" in refusal(put(tmp_path, json.dumps({**DOCUMENT, "paths": {}}), "e.json"))


@given(
    title=st.sampled_from(HOSTILE_TEXTS) | st.text(),
    summary=st.sampled_from(HOSTILE_TEXTS) | st.text(),
    name=st.sampled_from(HOSTILE_TEXTS) | st.text(),
    path=st.sampled_from(['/a"]\n[proofs]', "/a/{x}", "/é", "/a\\", "/a{x}#\n", "/'"])
    | st.text().map(lambda each: f"/{each}"),
    proxy=st.sampled_from([None, "nginx"]),
)
def test_whatever_a_document_says_the_file_means_the_routes_that_were_proposed(
    title: str, summary: str, name: str, path: str, proxy: str | None
) -> None:
    given = [Operation("POST", path, name, summary, True, ""), Operation("GET", "/ok", name, summary, False, "")]
    found = Api("mail", title, "https://api.example", proxy, {}, propose(given, "mail"))
    for text in (configuration(found), added_tables(found)):
        assert all(char.isprintable() or char == "\n" for char in text)
        means = tomllib.loads(text)
        assert {
            route: (table["scope"], table.get("sensitive", False))
            for route, table in means["servers"]["mail"]["routes"].items()
        } == {each.route.text: each.needs for each in found.proposals.routes}
        assert {*means["servers"]["mail"]} == {"protocol", "routes", *(("proxy",) if proxy else ("path", "url"))}
        assert means["servers"].keys() == {"mail"}
    assert means.keys() == {"servers"}
    check_served(configuration(found).encode(), Path("accredit.toml"), "mail")


def written(folder: Path, where: Path, proxy: str | None = None, url: str | None = None) -> Path:
    return put(folder, configuration(api(where, url, proxy)), "accredit.toml")


def checked(
    file: Path, where: Path, capsys: pytest.CaptureFixture[str], *, fix: bool = False
) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    with printing_json():
        code = check_document(file, None, Document("--openapi", where), fix=fix, timeout=None)
    return code, json.loads(capsys.readouterr().out)


def changed(folder: Path, **paths: Any) -> Path:
    kept = {path: item for path, item in {**DOCUMENT["paths"], **paths}.items() if item is not None}
    return put(folder, json.dumps({**DOCUMENT, "paths": kept}), "new.json")


@pytest.mark.parametrize(("proxy", "url"), [(None, None), ("nginx", None), ("caddy", "https://elsewhere/other")])
def test_a_new_file_has_a_route_for_each_operation(
    proxy: str | None, url: str | None, document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = checked(written(tmp_path, document, proxy, url), document, capsys)
    assert (code, told["ok"], told["operations"], told["findings"]) == (0, True, 4, [])


@pytest.mark.holds("setup/check_documents")
def test_drift_is_told_in_both_directions(document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, document)
    new = changed(
        tmp_path,
        **{
            "/messages/{id}": {"get": {}, "put": {}},
            "/messages/{id}/send": None,
            "/messages/{number}": {"head": {}},
            "/messages/keys": {"get": {"operationId": "deleteKeys"}},
            "/x/{id}:go": {"get": {}},
        },
    )
    code, told = checked(file, new, capsys)
    assert code == 1
    assert {(each["route"], each["problem"]) for each in told["findings"]} == {
        ("GET /messages/keys", "no_route"),
        ("PUT /messages/{id}", "no_route"),
        ("HEAD /messages/{number}", "no_route"),
        ("DELETE /messages/{id}", "no_operation"),
        ("POST /messages/{id}/send", "no_operation"),
    }
    by_route = {each["route"]: each for each in told["findings"]}
    assert by_route["GET /messages/keys"]["counts_as"] == ["GET /messages/{id}"]
    assert "count as GET /messages/{id}" in by_route["GET /messages/keys"]["text"]
    assert "which has GET, HEAD, PUT there" in by_route["DELETE /messages/{id}"]["text"]
    assert [each["route"] for each in told["left_out"]] == ["GET /x/{id}:go"]


@pytest.mark.holds("setup/check_documents")
def test_fix_adds_the_routes_that_are_missing_and_nothing_else(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, document)
    old = file.read_bytes().replace(b"\n", b"\r\n").replace(b"custom:mail:read", b"email:read")
    file.write_bytes(old)
    new = changed(tmp_path, **{"/messages/keys": {"get": {}, "delete": {"operationId": "drop"}}})
    code, told = checked(file, new, capsys, fix=True)
    assert (code, told["findings"]) == (0, [])
    assert file.read_bytes().startswith(old)
    added = tomllib.loads(file.read_bytes()[len(old) :].decode())["servers"]["mail"]["routes"]
    assert added["GET /messages/keys"] == {"scope": "custom:mail:read"}
    assert added["DELETE /messages/keys"]["sensitive"] is True
    assert added["DELETE /messages/keys"]["scope"] != "custom:mail:drop"
    assert b"\n" not in file.read_bytes().replace(b"\r\n", b"")


def test_fix_leaves_a_file_alone_whose_routes_are_one_value(document: Path, tmp_path: Path) -> None:
    text = '[servers.mail]\nprotocol = "http"\npath = "/m"\nurl = "http://127.0.0.1:9"\n'
    file = put(tmp_path, text + 'routes = { "GET /messages" = { scope = "email:read" } }\n', "accredit.toml")
    with pytest.raises(ConfigurationError, match="in a form"):
        check_document(file, "mail", Document("--openapi", document), fix=True, timeout=None)
    assert file.read_text() == text + 'routes = { "GET /messages" = { scope = "email:read" } }\n'


@pytest.mark.parametrize("name", ["other", "server", None])
def test_an_api_that_is_not_there_is_named_in_the_error(name: str | None, document: Path, tmp_path: Path) -> None:
    file = put(tmp_path, '[servers.server]\nurl = "http://127.0.0.1:9/mcp"\n', "accredit.toml")
    with pytest.raises(ConfigurationError, match="--openapi"):
        check_document(file, name, Document("--openapi", document), fix=False, timeout=None)


@pytest.fixture
def card(tmp_path: Path) -> Path:
    return put(tmp_path, json.dumps(CARD), "card.json")


def carded(folder: Path, *ids: str, **more: Any) -> Path:
    skills = [{"id": id, "name": id, "description": "Helps", "tags": []} for id in ids]
    return put(folder, json.dumps({**CARD, "skills": skills, **more}), "card.json")


def agent_checked(file: Path, where: Path, capsys: pytest.CaptureFixture[str], *, fix: bool = False) -> dict[str, Any]:
    capsys.readouterr()
    with printing_json():
        code = check_document(file, None, Document("--agent-card", where), fix=fix, timeout=None)
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0)
    return told


@pytest.mark.holds("setup/documents", "credentials")
def test_a_card_says_where_its_agent_is__but_not_where_a_token_goes(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "secret")
    assert agent(card).url == "http://10.0.0.5"
    assert agent(card, "https://mine.example/a").url == "https://mine.example/a"
    with pytest.raises(ConfigurationError, match="anybody's"):
        agent(card, token_env="MAIL_TOKEN")
    with pytest.raises(ConfigurationError, match="no JSON-RPC interface"):
        agent(carded(tmp_path, supportedInterfaces=[]))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "x"}', "openapi: 3.0.0", "[" * 2000])
def test_what_is_no_card_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="card"):
        agent(put(tmp_path, text))


@given(
    ids=st.lists(st.text(min_size=1, max_size=30).filter(str.isprintable) | st.sampled_from(["a\nb", "x.y", '"', "]"])),
    said=st.text(max_size=60) | st.sampled_from(HOSTILE_TEXTS),
)
def test_whatever_a_card_says__the_file_means_the_proposed_skills(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], said: str
) -> None:
    try:
        text = json.dumps(
            {"skills": [{"id": id, "name": said, "description": said, "tags": []} for id in ids]}
        ).encode()
        found = agent(put(tmp_path_factory.getbasetemp(), json.dumps({**CARD, "name": said, **json.loads(text)}), "c"))
    except (ConfigurationError, UnicodeEncodeError):
        return
    for written_text in (configuration(found), added_tables(found)):
        server = tomllib.loads(written_text)["servers"]["mail"]
        skills = {each.skill.id: each.scope for each in found.proposals.skills}
        assert {id: table["scope"] for id, table in server.get("skills", {}).items()} == skills
        assert (server["scope"], server["path"], server["url"]) == ("custom:mail:ask", "/agents/mail", found.url)
    check_served(configuration(found).encode(), Path("accredit.toml"), "mail")


@pytest.mark.holds("setup/check_documents")
def test_a_card_that_drifts_is_told__and_fix_adds_the_skills_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = carded(tmp_path, "summarize", "send")
    file = put(tmp_path, configuration(agent(card)), "accredit.toml")
    assert agent_checked(file, card, capsys)["skills"] == 2
    new = carded(tmp_path, "summarize", "translate", "delete", supportedInterfaces=[
        {"url": "https://elsewhere.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ])  # fmt: skip
    told = agent_checked(file, new, capsys)
    assert [(each["problem"], each["skill"]) for each in told["findings"]] == [
        ("other_url", ""),
        ("no_table", "translate"),
        ("no_table", "delete"),
        ("no_skill", "send"),
    ]
    old = file.read_bytes()
    told = agent_checked(file, new, capsys, fix=True)
    assert [each["problem"] for each in told["findings"]] == ["other_url", "no_skill"]
    assert file.read_bytes().startswith(old)
    skills = tomllib.loads(file.read_text())["servers"]["mail"]["skills"]
    assert skills["translate"] == {"scope": "custom:mail:translate"}
    assert skills["delete"] == {"scope": "custom:mail:delete", "sensitive": True}


def test_an_agent_is_no_api(card: Path, document: Path, tmp_path: Path) -> None:
    file = put(tmp_path, configuration(agent(card)), "accredit.toml")
    with pytest.raises(ConfigurationError, match="no HTTP API is called 'mail'"):
        check_document(file, "mail", Document("--openapi", document), fix=False, timeout=None)
    api_file = put(tmp_path, configuration(api(document)), "api.toml")
    with pytest.raises(ConfigurationError, match="no agent is called 'mail'"):
        check_document(api_file, "mail", Document("--agent-card", card), fix=False, timeout=None)
