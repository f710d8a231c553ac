"""Builds the policy that decides calls, from `[proofs]` and the catalog's sections. Reads key files.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- the catalog. It counts with proofs off, too: then lists still say which scopes there are;
- there are no roots if `proofs.mode` is not set: nobody should take the gateway for one that requires proofs;
- if proofs are judged (required or observed), there is time zone data, which constraints need;
- the roots: at least one where proofs are required, each a human's public key, none twice;
- if proofs are judged and there is more than one worker, all share a store;
- the gateway's id: `[gateway] id`, else that of its key (`attest`);
- the evaluators of constraints, if proofs are judged (`evaluators`).

Not checked: whether a tool of that name exists (`accredit check`), and whether anybody can grant a scope.
"""

import shlex
from pathlib import Path

from accredit.base.text import one_line
from accredit.config.apis import api_catalog
from accredit.config.attest import verifier_id
from accredit.config.evaluators import load_evaluators
from accredit.config.load import Loaded, folder_of
from accredit.config.quotas import build_quotas
from accredit.config.schema import Config, Resource, Tool
from accredit.config.store import store_of
from accredit.errors import ConfigurationError
from accredit.gateway.settings import ProofSettings
from accredit.keys import KeyFile, is_there, load_public_key
from accredit.policy import Catalog, Entry, Facts, Policy
from accredit.ratify import CertificateCache, HybridPublicKey, zone_names


def build_proofs(loaded: Loaded, *, workers: int = 1) -> ProofSettings | None:
    """Return how calls are decided, or None if proofs are off and the catalog says nothing. Raises
    `ConfigurationError`."""
    proofs = loaded.config.proofs
    catalog = build_catalog(loaded.config) if loaded.api is None else api_catalog(loaded.api)
    required, observes = proofs.mode == "required", proofs.mode == "observe"
    judged = required or observes
    if proofs.roots and ("proofs", "mode") not in loaded.origins:
        raise ConfigurationError(
            "proofs.roots is set and proofs.mode is not: no proof would be asked for",
            'set proofs.mode to "required", or to "off" if that is meant',
        )
    if not judged and not catalog.says_something:
        return None
    if judged:
        zone_names()
    roots = roots_of(loaded, needed=required) if judged else {}
    if judged and workers > 1 and store_of(loaded).lasting is None:
        raise ConfigurationError(
            f"store.url is memory:, and {workers} workers with one each would accept a proof {workers} times",
            'set store.url = "sqlite:///accredit.db", or leave out --workers',
        )
    policy = Policy(
        verifier_id=verifier_id(loaded) if judged else "",
        server=loaded.server,
        roots=roots,
        catalog=catalog,
        vocabulary=catalog.vocabulary(),
        binding_required=proofs.binding == "required" or loaded.api is not None,
        freshness_seconds=proofs.freshness_seconds,
        challenge_seconds=proofs.challenge_seconds,
        bind_agent=loaded.config.tokens.bind_agent == "sub",
        cert_cache=CertificateCache(),
        constraint_evaluators=load_evaluators(proofs.evaluators),
        observes=observes,
        quotas=build_quotas(loaded, of_proofs=True, workers=workers),
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
    try:
        return load_public_key(path)
    except ConfigurationError as error:
        raise ConfigurationError(one_line(f"{key}: {error.what}"), one_line(error.remedy)) from None


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
    roots, folder = loaded.config.proofs.roots, folder_of(loaded, ("proofs", "roots"))
    if needed and not roots:
        raise ConfigurationError(
            'proofs.mode is "required" and there is no root: nobody\'s delegations would count',
            "name the owner's public key: [[proofs.roots]] name = ..., public_key_file = ...",
        )
    names: dict[HybridPublicKey, str] = {}
    for index, root in enumerate(roots):
        name = f"proofs.roots[{index}].public_key_file"
        path = folder / root.public_key_file
        if not is_there(path):
            private = shlex.quote(str(path).removesuffix(".pub"))
            raise ConfigurationError(
                one_line(f"{name}: there is no {path}"), one_line(f"accredit keys new {private} --kind human makes it")
            )
        key = read_public_key(path, name)
        if key.kind != "human":
            raise ConfigurationError(
                one_line(f"{name}: {path} is the key of {key.name}, which is of kind {key.kind}"),
                "a chain of delegations begins with a human: make a key with `accredit keys new --kind human`",
            )
        if key.public_key in names:
            raise ConfigurationError(
                one_line(f"{name}: {key.name} ({key.id}) is a root already"), "keep one [[proofs.roots]] for each key"
            )
        names[key.public_key] = root.name
    return names
