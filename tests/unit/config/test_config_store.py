"""From `[store]` to a store: what has to be said of a database, and that its password is never shown."""

from pathlib import Path

import pytest

from accredit.config.digest import policy_digest
from accredit.config.load import load
from accredit.config.show import list_settings
from accredit.config.store import build_rounds, store_of
from accredit.errors import ConfigurationError
from accredit.limits import MAX_SPENT_IN_DATABASE
from accredit.stores import InMemory, PostgresDatabase, StoreUrl

pytestmark = pytest.mark.holds("config/store")

URL = 'url = "postgresql://gw@h1:5433,h2/db"\n'


def built(folder: Path, store: str, more: str = "") -> StoreUrl:
    file = folder / "accredit.toml"
    file.write_text(f"[store]\n{store}\n{more}", "utf-8")
    return store_of(load(file, {}, {}))


def test_a_database_is_what_the_file_says_of_it(tmp_path: Path) -> None:
    found = built(tmp_path, URL + 'replicas = "required"\nmax_spent = 7')
    assert isinstance(found, PostgresDatabase)
    assert (found.replicas, found.max_spent, found.user, len(found.hosts)) == ("required", 7, "gw", 2)
    other = built(tmp_path, URL + 'replicas = "none"')
    assert isinstance(other, PostgresDatabase)
    assert (other.replicas, other.max_spent) == ("none", MAX_SPENT_IN_DATABASE)
    assert built(tmp_path, "") == InMemory()


@pytest.mark.parametrize(
    ("store", "names"),
    [
        (URL, "store.replicas"),
        ('url = "memory:"\nreplicas = "none"', "store.replicas"),
        ("max_spent = 9", "store.max_spent"),
        ('password = { file = "p" }', "store.password"),
        (URL + 'replicas = "some"', "store.replicas"),
        (URL + 'replicas = "none"\nmax_spent = 0', "store.max_spent"),
        (URL + 'replicas = "none"\npassword = "hunter2"', "store.password"),
    ],
)
def test_what_a_failover_may_lose_has_to_be_said__and_only_of_a_database(
    store: str, names: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        built(tmp_path, store)
    assert names in refused.value.what
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("mode", "good"), [(0o600, True), (0o400, True), (0o640, False), (0o604, False)])
def test_a_password_is_in_a_file_that_nobody_else_reads(mode: int, good: bool, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    file.chmod(mode)
    store = URL + 'replicas = "none"\npassword = { file = "password" }'
    if good:
        found = built(tmp_path, store)
        assert isinstance(found, PostgresDatabase)
        assert found.password_file == file
        assert "hunter2" not in repr(found)
        assert len(policy_digest(load(tmp_path / "accredit.toml", {}, {}))) == 64
        return
    with pytest.raises(ConfigurationError, match=r"store\.password: others can read"):
        built(tmp_path, store)
    with pytest.raises(ConfigurationError, match=r"store\.password: "):
        built(tmp_path, store.replace('"password"', '"nothing"'))


@pytest.mark.parametrize("url", ["gw:hunter2@h/db", "h/db?password=hunter2"])
def test_a_url_with_a_password_is_refused_before_it_is_shown(url: str, tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text(f'[store]\nurl = "postgresql://{url}"\n')
    for environ in ({}, {"ACCREDIT_STORE__URL": f"postgresql://{url}"}):
        with pytest.raises(ConfigurationError, match=r"store\.url") as refused:
            list_settings(load(None if environ else file, environ, {}, look_here=False))
        assert "hunter2" not in str(refused.value)


def test_gateways_that_share_a_database_share_the_keys_of_flows(tmp_path: Path) -> None:
    keys = tmp_path / "cluster.keys"
    keys.write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
    keys.chmod(0o600)
    store = f'[store]\n{URL}replicas = "none"\n'

    def build(text: str) -> None:
        file = tmp_path / "accredit.toml"
        file.write_text(text)
        build_rounds(load(file, {}, {}))

    with pytest.raises(ConfigurationError, match=r"cluster\.keys_file is not set"):
        build(store)
    build(store + '[cluster]\nkeys_file = "cluster.keys"\n')
    build(store + '[rounds]\nkeys_file = "cluster.keys"\n')
    with pytest.raises(ConfigurationError, match="both set"):
        build(store + '[cluster]\nkeys_file = "cluster.keys"\n[rounds]\nkeys_file = "cluster.keys"\n')
    keys.chmod(0o644)
    with pytest.raises(ConfigurationError, match=r"cluster\.keys_file: others can read"):
        build('[cluster]\nkeys_file = "cluster.keys"\n')
    keys.chmod(0o600)
    keys.write_text("short\n")
    with pytest.raises(ConfigurationError, match=r"cluster\.keys_file: line 1"):
        build('[cluster]\nkeys_file = "cluster.keys"\n')
