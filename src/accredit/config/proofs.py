"""Builds the policy that decides calls, from `[proofs]` and the catalog's sections. Reads key files.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- the catalog is valid. It is used even with proofs off, since lists always show the scopes;
- there are no roots if `proofs.mode` is not set: otherwise people would believe that the gateway requires proofs;
- if proofs are judged (required or observed), there is time zone data, which constraints need;
- the roots: at least one where proofs are required, each a human's public key, none twice;
- the registries: each has an https URL and pinned keys of humans. No key is pinned twice, and none is also a root: a
  root would stay valid after the registry has replaced it;
- if proofs are judged and there is more than one worker, all share a store;
- the gateway's id: `[gateway] id`, else that of its key (`attest`);
- the evaluators of constraints, if proofs are judged.

Not checked: whether a tool of that name exists (`accredit check`), and whether anybody can grant a scope.

The evaluators of constraints that `[proofs] evaluators` names:

- Each name belongs to exactly one entry point of the group `accredit.constraints`. The name is also the type of
  constraint that the entry point evaluates.
- The entry point can be loaded, and called.
- Its type is not evaluated already: it is neither one of Ratify's types nor one of ours.

Installed evaluators that are not named are not loaded.
"""

import shlex
import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from accredit.base.deferred import Deferred
from accredit.base.text import one_line
from accredit.config.apis import api_catalog
from accredit.config.attest import verifier_id
from accredit.config.load import Loaded
from accredit.config.quotas import build_quotas
from accredit.config.schema import Config, Resource, Tool
from accredit.config.schema import Registry as RegistryTable
from accredit.config.servers import every_view
from accredit.config.store import check_workers_share
from accredit.errors import ConfigurationError, named_key
from accredit.gateway.settings import ProofSettings
from accredit.keys import KeyFile, is_there, load_public_key, read_file
from accredit.limits import MAX_KEY_SET_BYTES
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decision import Policy, RootFinder
from accredit.policy.evaluators import with_own
from accredit.policy.facts import Facts
from accredit.ratify import CertificateCache, Evaluator, HybridPublicKey, zone_names

if TYPE_CHECKING:
    from accredit.net.registries import Registry


def build_proofs(loaded: Loaded, *, vocabulary: frozenset[str], workers: int = 1) -> ProofSettings | None:
    """Return how calls are decided, or None if proofs are off and the catalog is empty. Raises `ConfigurationError`.

    `vocabulary` has the scopes of all servers of the gateway (`vocabulary_of`), beside those of this one's catalog.
    """
    proofs = loaded.config.proofs
    catalog = catalog_of(loaded)
    required, observes = proofs.mode == "required", proofs.mode == "observe"
    judged = required or observes
    named = "roots" if proofs.roots else "registries" if proofs.registries else ""
    if named and ("proofs", "mode") not in loaded.origins:
        raise ConfigurationError(
            f"proofs.{named} is set and proofs.mode is not: no proof would be asked for",
            'set proofs.mode to "required", or to "off" if that is meant',
        )
    if not judged and not catalog.says_something:
        return None
    if judged:
        zone_names()
    registries = registries_of(loaded) if judged else []
    roots = roots_of(loaded, needed=required and not registries) if judged else {}
    pins = pins_of(registries, roots)
    if judged:
        check_workers_share(loaded, workers, "accept a proof")
    policy = Policy(
        verifier_id=verifier_id(loaded) if judged else "",
        server=loaded.server,
        roots=roots,
        catalog=catalog,
        vocabulary=vocabulary | catalog.vocabulary(),
        binding_required=proofs.binding == "required" or loaded.api is not None,
        freshness_seconds=proofs.freshness_seconds,
        challenge_seconds=proofs.challenge_seconds,
        bind_agent=loaded.config.tokens.bind_agent == "sub",
        cert_cache=CertificateCache(),
        constraint_evaluators=load_evaluators(proofs.evaluators),
        observes=observes,
        quotas=build_quotas(loaded, of_proofs=True, workers=workers),
        pins=pins,
        find_root=_root_finder(registries),
    )
    return ProofSettings(policy, required=required, filter_tools=proofs.filter_tools)


def build_ratify_http(loaded: Loaded) -> str:
    """Return which listener serves Ratify's HTTP binding, or "". Raises `ConfigurationError`."""
    found = loaded.config.ratify_http
    if not found.enabled:
        return ""
    if loaded.config.proofs.mode != "required":
        raise ConfigurationError(
            "ratify_http.enabled is set, and proofs are not required: there is nothing to verify them by",
            'set proofs.mode = "required"',
        )
    if found.listener == "admin" and loaded.config.admin.port is None:
        raise ConfigurationError(
            'ratify_http.listener is "admin", and there is no such listener',
            'set admin.port, or ratify_http.listener = "public"',
        )
    return found.listener


def read_public_key(path: Path, key: str) -> KeyFile:
    """Return the public key in the file that the configuration's `key` names. Raises `ConfigurationError`."""
    with named_key(key):
        return load_public_key(path)


def read_human_key(path: Path, key: str) -> KeyFile:
    """Return a human's public key, like `read_public_key`."""
    found = read_public_key(path, key)
    if found.kind != "human":
        raise ConfigurationError(
            f"{key}: {path} is the key of {found.name}, which is of kind {found.kind}",
            "a chain of delegations begins with a human: make a key with `accredit keys new --kind human`",
        )
    return found


def catalog_of(loaded: Loaded) -> Catalog:
    """Return the catalog of a view. Raises `ConfigurationError`."""
    return build_catalog(loaded.config) if loaded.api is None else api_catalog(loaded.api)


def vocabulary_of(loaded: Loaded) -> frozenset[str]:
    """Return the scopes that the catalogs of all servers add to the canonical ones. Each server accepts them all, since
    one delegation may be for several servers. Raises `ConfigurationError`."""
    return frozenset[str]().union(*(catalog_of(each).vocabulary() for each in every_view(loaded)))


def build_catalog(config: Config) -> Catalog:
    """Return the catalog of `[tools]`, `[resources]` and `[prompts]`."""
    default_scope = config.proofs.default_tool_scope
    return Catalog(
        tools={name: _entry(tool) for name, tool in config.tools.by_name.items()},
        default_tool=Entry(scope=default_scope) if default_scope else None,
        resource=Entry(scope=config.resources.scope),
        resource_prefixes={prefix: _entry(found) for prefix, found in config.resources.by_prefix.items()},
        prompt=Entry(scope=config.prompts.scope),
    )


def _entry(table: Resource) -> Entry:
    facts = Facts(table.facts) if isinstance(table, Tool) else Facts()
    return Entry(scope=table.scope, accepts=tuple(table.accepts), marked_sensitive=table.sensitive, facts=facts)


def roots_of(loaded: Loaded, *, needed: bool = False) -> dict[HybridPublicKey, str]:
    """Return the keys of the roots, with their names. If `needed`, there must be at least one. Raises
    `ConfigurationError`."""
    roots = loaded.config.proofs.roots
    if needed and not roots:
        raise ConfigurationError(
            'proofs.mode is "required" and there is no root: nobody\'s delegations would count',
            "name the owner's public key: [[proofs.roots]] name = ..., public_key_file = ...",
        )
    names: dict[HybridPublicKey, str] = {}
    for index, root in enumerate(roots):
        name = f"proofs.roots[{index}].public_key_file"
        path = Path(root.public_key_file)
        if not is_there(path):
            private = shlex.quote(str(path).removesuffix(".pub"))
            raise ConfigurationError(
                f"{name}: there is no {path}", f"accredit keys new {private} --kind human makes it"
            )
        key = read_human_key(path, name)
        if key.public_key in names:
            raise ConfigurationError(
                f"{name}: {key.name} ({key.id}) is a root already", "keep one [[proofs.roots]] for each key"
            )
        names[key.public_key] = root.name
    return names


def registries_of(loaded: Loaded) -> list["Registry"]:
    """Return the registries, with the keys that are pinned for each. Raises `ConfigurationError`."""
    tables = loaded.config.proofs.registries
    return [_registry(f"proofs.registries[{index}]", table) for index, table in enumerate(tables)]


def pins_of(registries: Sequence["Registry"], roots: Mapping[HybridPublicKey, str]) -> dict[HybridPublicKey, str]:
    """Return all pinned keys, with names. Raises `ConfigurationError` for one that is pinned twice, or is a root."""
    pins: dict[HybridPublicKey, str] = {}
    for index, registry in enumerate(registries):
        for key, name in registry.pins.items():
            place = one_line(f"proofs.registries[{index}].pins: {name} ({key.id})")
            if key in roots:
                raise ConfigurationError(
                    f"{place} is in proofs.roots too: it would stay a root when another key has replaced it",
                    "take it out of proofs.roots",
                )
            if key in pins:
                raise ConfigurationError(f"{place} is pinned already", "pin each key once, for one registry")
            pins[key] = name
    return pins


def _registry(place: str, table: RegistryTable) -> "Registry":
    from accredit.net.registries import Registry  # noqa: PLC0415 - httpx2 costs 2 MiB, and only a registry needs it

    pins: dict[HybridPublicKey, str] = {}
    for index, file in enumerate(table.pins):
        key = read_human_key(Path(file), f"{place}.pins[{index}]")
        if key.public_key in pins:
            raise ConfigurationError(f"{place}.pins: {key.name} ({key.id}) is pinned already", "pin each key once")
        pins[key.public_key] = key.name
    return Registry(table.url, pins, None if table.ca_file is None else _trust(f"{place}.ca_file", Path(table.ca_file)))


def _trust(place: str, path: Path) -> ssl.SSLContext:
    """Return an SSL context that trusts only the authorities in a file."""
    with named_key(place):
        data = read_file(path, MAX_KEY_SET_BYTES).data
    try:
        return ssl.create_default_context(cadata=data.decode("ascii"))
    except (UnicodeDecodeError, ssl.SSLError, ValueError):
        raise ConfigurationError(
            f"{place}: {path} holds no certificate in PEM", "name the authority's certificate"
        ) from None


def _root_finder(registries: Sequence["Registry"]) -> RootFinder | None:
    if not registries:
        return None
    from accredit.net.registries import Registries  # noqa: PLC0415 - see `_registry`

    return Registries(registries).name


if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = Deferred("importlib.metadata")  # it loads half a megabyte that a gateway has no other use for

_GROUP = "accredit.constraints"


def load_evaluators(names: Iterable[str]) -> dict[str, Evaluator]:
    """Return the named evaluators and our own, by the type of constraints that they evaluate. Raises
    `ConfigurationError`."""
    with named_key("proofs.evaluators"):
        return with_own({name: _load_evaluator(name) for name in names})


def _load_evaluator(name: str) -> Evaluator:
    point = _point(name)
    try:
        return cast("Evaluator", point.load())
    except Exception as error:  # another package's code, which may raise anything
        raise ConfigurationError(
            f"{name!a} ({point.value}) can't be loaded: {error!a}", "repair its package, or leave it out"
        ) from None


def _point(name: str) -> "metadata.EntryPoint":
    points = list(metadata.entry_points(group=_GROUP, name=name))
    if len({point.value for point in points}) == 1:
        return points[0]
    if points:
        packages = ", ".join(sorted(point.dist.name for point in points if point.dist is not None))
        raise ConfigurationError(f"{name!a} is in several packages: {packages}", "keep one of them installed")
    installed = ", ".join(sorted({point.name for point in metadata.entry_points(group=_GROUP)})) or "none"
    raise ConfigurationError(
        f"there is no {name!a} among the installed evaluators ({installed})",
        f"install the package that has it as an entry point of the group {_GROUP}",
    )
