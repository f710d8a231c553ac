"""Checks of the configuration and its files. No I/O.

Each check is a function of the facts. Its name is that of its line in the checklist: `production.NAME`. Its docstring
says what must hold.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from accredit.base.addresses import is_loopback_host
from accredit.base.text import several
from accredit.config.load import Loaded
from accredit.config.servers import every_view
from accredit.errors import ConfigurationError
from accredit.ops.doctor.engine import NotKnown, Result, Unknown, command_line, need, no, ok, unknown
from accredit.ops.doctor.production.facts import Facts
from accredit.policy.merging import merged_name

PRODUCTION_CERTIFICATE_DAYS = 14
"""For how many days the endpoint's certificate must still be valid. Certificates of 90 days are usually renewed after
60."""
PRODUCTION_KILLED_SECONDS = 30
"""After how many seconds a process that was asked to end is killed: Kubernetes' default. systemd's is 90."""


_DAY = 86_400
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on


def configuration(facts: Facts) -> Result:
    """A gateway would accept the configuration on this machine, with all files that it names."""
    if isinstance(facts.settings, Unknown):
        command = command_line("accredit", "config", "check", "--config", str(facts.loaded.file))
        return no(facts.settings.why, "mend that first: what follows from it is not known", command)
    return ok(f"a gateway takes {facts.loaded.file}")


def files(facts: Facts) -> Result:
    """Only the gateway's user and root can write the files that decide who may do what."""
    return _rights(facts, "who writes there decides", secret=False)


def keys(facts: Facts) -> Result:
    """Nobody else can read or replace secrets, and no key that allows calls is on this machine."""
    return _rights(facts, "take that away, and think of it as known to whoever could get at it", secret=True)


def _rights(facts: Facts, remedy: str, *, secret: bool) -> Result:
    found = [each for each in need(facts.files) if each.is_secret == secret]
    wrong = [each for each in found if each.fault and not each.is_others]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return no(f"{first.what}: {first.fault}{more}", remedy if first.is_there else "put it there", first.command)
    others = next((each for each in found if each.is_others), None)
    if others is not None:
        return unknown(f"{others.what}: {others.fault}", "ask again as the gateway's own user")
    return ok(several(len(found), "file"))


def tls(facts: Facts) -> Result:
    """Traffic is encrypted with a certificate that does not expire soon, or only this machine can connect."""
    gateway, until = facts.loaded.config.gateway, facts.certificate_until
    if isinstance(until, Unknown):
        return no(until.why, "give a PEM certificate chain in gateway.tls_cert_file")
    if until is None:
        if need(facts.listens_outside):
            what = f"what listens on port {gateway.port} is reached from outside, whatever gateway.host says"
            return no(what, "start it without --host; if that is a proxy on the same port: --except production.tls")
        if is_loopback_host(gateway.host):
            return ok(f"it listens on {gateway.host} alone, for a proxy of this machine")
        remedy = "set gateway.tls_cert_file and tls_key_file; behind a proxy that does TLS: --except production.tls"
        return no(f"it listens on {gateway.host} without TLS", remedy)
    left = (until - facts.now) // _DAY
    if left < PRODUCTION_CERTIFICATE_DAYS:
        return no(f"the certificate ends in {left} days", "renew it, and `accredit reload`")
    return ok(f"the certificate is good for {left} days")


def outgoing(facts: Facts) -> Result:
    """Outgoing connections and the URLs that clients are given use TLS, or stay on this machine. No stranger can make
    the gateway connect to hosts of its own network."""
    if facts.loaded.config.oauth.private_documents:
        what = "oauth.private_documents lets any stranger have the gateway ask for URLs of its own network"
        return no(what, "take it out: it is for tests")
    plain = [*_plain(facts, _servers(facts))]
    if not plain:
        need(facts.store)
        return ok("over TLS, or on this machine")
    more = f" (and {len(plain) - 1} more)" if len(plain) > 1 else ""
    remedy = "use TLS there; where nobody else can listen (a mesh that encrypts): --except production.outgoing"
    return no(f"{plain[0]}: whoever is on the way reads and changes it{more}", remedy)


def _servers(facts: Facts) -> Sequence[Loaded]:
    """Return the configuration of each server, even if a gateway would reject some of it. Raises `NotKnown`."""
    try:
        return every_view(facts.loaded)
    except ConfigurationError as error:
        raise NotKnown(error.what) from None


def _plain(facts: Facts, servers: Sequence[Loaded]) -> Iterator[str]:
    """Yield the settings that lead to plain http or to optional TLS. Their URLs are not quoted: they may contain a
    key."""
    config = facts.loaded.config
    urls: list[tuple[str, str | None]] = [("telemetry.endpoint", config.telemetry.endpoint)]
    for each in servers:
        upstream, place = each.config.upstream, each.place("upstream")
        urls += [(f"{place}.url", upstream.url), *((f"{place}.urls", url) for url in upstream.urls)]
    for number, issuer in enumerate(config.tokens.issuers):
        urls += [(f"tokens.issuers[{number}].{key}", getattr(issuer, key)) for key in ("issuer", "jwks_url")]
    urls += [(f"proofs.registries[{number}].url", each.url) for number, each in enumerate(config.proofs.registries)]
    for place, url in urls:
        if url is not None and _is_plain(url):
            yield f"{place} is plain http to {urlsplit(url).hostname}"
    store = facts.store
    if not isinstance(store, Unknown) and store.unencrypted_host is not None:
        yield f"store.url goes to {store.unencrypted_host} without sslmode=verify-full, so perhaps without TLS"


def _is_plain(url: str) -> bool:
    """Return whether a URL is plain http to another machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False  # the name of an issuer, which need be no URL
    return parts.scheme == "http" and not is_loopback_host(parts.hostname or "")


def hosts(facts: Facts) -> Result:
    """`allowed_hosts` names the hosts that clients use (against DNS rebinding), and no allowed origin is plain http."""
    gateway = facts.loaded.config.gateway
    plain = next((each for each in gateway.allowed_origins if _is_plain(each)), None)
    if plain is not None:
        what = f"gateway.allowed_origins lets pages of {plain} in, and whoever is on their way can change them"
        return no(what, "write its https:// origin, or take it out")
    if is_loopback_host(gateway.host) or not all(map(is_loopback_host, gateway.allowed_hosts)):
        return ok(f"allowed_hosts: {', '.join(gateway.allowed_hosts)}")
    return no("gateway.allowed_hosts has only this machine's own names", "name what clients put into Host")


def admin(facts: Facts) -> Result:
    """Only those who should read metrics can reach the admin listener."""
    found = facts.loaded.config.admin
    if found.port is None:
        return ok("there is no listener for metrics")
    if is_loopback_host(found.host):
        return ok(f"metrics are told on {found.host} alone")
    where = "all addresses of this machine" if found.host.strip("[]") in _ANY else found.host
    remedy = "have a firewall or a NetworkPolicy let only who reads metrics in; then --except production.admin"
    return unknown(f"metrics are told at {where}, port {found.port}: who reaches that can't be seen from here", remedy)


def proofs(facts: Facts) -> Result:
    """Every call needs a proof, and each proof is bound to its call."""
    found = facts.loaded.config.proofs
    if found.mode != "required":
        return no(f'proofs.mode is "{found.mode}": calls pass without a proof', 'set proofs.mode = "required"')
    if found.binding != "required":
        return no(
            'proofs.binding is "optional": a proof that is bound to nothing is good for another call as well',
            'set proofs.binding = "required"',
        )
    if found.default_tool_scope:
        what = f"proofs.default_tool_scope is {found.default_tool_scope}: it allows tools that no table names"
        return no(what, "name each tool that may be called under [tools], and take it out")
    if not found.filter_tools:
        what = "proofs.filter_tools is false: who may call one tool is shown what all the others are"
        return no(what, "take it out")
    count = len(found.roots) + sum(len(each.pins) for each in found.registries)
    return ok(f"required and bound, by {several(count, 'root')}")


def scopes(facts: Facts) -> Result:
    """Tools have different scopes, so that a delegation for one tool does not cover all. Harmful tools are marked
    sensitive."""
    tools = [tool for view in _servers(facts) for tool in view.config.tools.by_name.values()]
    found = {tool.scope for tool in tools}
    sensitive = sum(tool.sensitive for tool in tools)
    if len(tools) > 1 and len(found) == 1 and not sensitive:
        what = f"all {len(tools)} tools are of the scope {min(found)}, none is sensitive: who may call one may call all"
        remedy = "give what does harm another scope, and sensitive = true; if none does: --except production.scopes"
        return unknown(what, remedy)
    return ok(f"tools: {len(tools)}; their scopes: {len(found)}; sensitive: {sensitive}")


def definitions(facts: Facts) -> Result:
    """Each server's tool definitions are pinned, so that they stay as somebody has reviewed them."""
    settings = need(facts.settings)
    pinned = list(zip(settings, every_view(facts.loaded), strict=False))  # without what is merged of them
    loose = [each for each, _ in pinned if each.pins is None]
    pin = command_line("accredit", "pin", "--config", str(facts.loaded.file))
    if loose:
        which = loose[0].server or "the server"
        if facts.loaded.config.pins.mode == "off":
            return no('pins.mode is "off"', 'take it out, or set pins.mode = "enforce"')
        return no(f"nothing is pinned of {which}: it may change what its tools say", "pin what it says now", pin)
    warned = next((each for each in settings if each.pins is not None and not each.pins.enforced), None)
    if warned is not None:
        return no('pins.mode is "warn": what differs is logged, and passes', 'set pins.mode = "enforce"')
    missing = [
        name
        for each, view in pinned
        for name in view.config.tools.by_name
        if each.pins is not None and name not in each.pins.tools
    ]
    if missing:
        return no(f"{missing[0]} has a table in the configuration, and is not pinned", "pin what it says now", pin)
    return ok("each tool of the configuration is pinned, and held to that")


def answers(facts: Facts) -> Result:
    """Invalid messages are refused in both directions."""
    if facts.loaded.config.validation.responses != "enforce":
        return no("answers that are not valid are forwarded as they are", 'set validation.responses = "enforce"')
    unread = [each for each in facts.loaded.config.gateway.passthrough if not each.startswith(_OPEN_TO_ALL)]
    if unread:
        what = f"gateway.passthrough: what goes to {unread[0]} passes unread, whoever sends it"
        return unknown(what, "see that nothing is called or told there; then --except production.answers")
    if facts.loaded.config.gateway.methods:
        what = f"gateway.methods: {facts.loaded.config.gateway.methods[0]} passes without a proof, and unread"
        return unknown(what, "see that nothing is called or told by it; then --except production.answers")
    return ok("answers that are not valid are withheld")


_OPEN_TO_ALL = "/.well-known/"
"""The prefix of paths that are public by definition (RFC 8615)."""


def tokens(facts: Facts) -> Result:
    """If bearer tokens are used, every call needs one, and the bootstrap token is not offered over the network."""
    found = facts.loaded.config.tokens
    if found.mode == "off":
        return ok("none are asked for: who calls is known by proofs")
    if found.mode == "optional":
        return no('tokens.mode is "optional": who has none comes in as well', 'set tokens.mode = "required"')
    if found.bootstrap is not None and not is_loopback_host(facts.loaded.config.gateway.host):
        return no("tokens.bootstrap gives a local agent its token, and others reach this gateway", "take it out")
    return ok(f"required, of {several(len(found.issuers), 'issuer')}")


def revocation(facts: Facts) -> Result:
    """Delegations can be revoked, and the existing revocation lists are valid."""
    store = need(facts.store)
    if isinstance(facts.lists, Unknown):
        return no(facts.lists.why, RESTORE_LIST)
    if store.lasting is None and not facts.loaded.config.proofs.revocation.files:
        return no("nothing can be taken back: no list is named, and a store in memory has none", _FILE_STORE)
    lists, certificates = facts.lists
    if not lists:
        return ok("nothing was taken back yet")
    return ok(f"lists: {lists}; delegations that were taken back: {certificates}")


RESTORE_LIST = (
    "restore the list; where there was none yet, `accredit revoke --list FILE --empty --issuer KEY` makes a signed one"
)
_FILE_STORE = 'set store.url = "sqlite:///accredit.db"'


def quotas(facts: Facts) -> Result:
    """A caller's use is limited, regardless of its delegations."""
    need(facts.settings)
    tables = facts.loaded.config.quotas.by_number.values()
    count = len(tables)
    named = [(view.server, name) for view in every_view(facts.loaded) for name in view.config.tools.by_name]
    tools = {*(name for _, name in named), *(merged_name(server, name) for server, name in named)}
    stray = next((name for each in tables for name in each.tools if name != "*" and name not in tools), None)
    if stray is not None:
        return no(f"a quota is for {stray}, and no table names such a tool", "write its name as the server does")
    if count:
        return ok(several(count, "quota"))
    return no(
        "there is no quota: an agent in a loop ends when its delegation does", "add [[quotas]]: by, window, calls"
    )


def records(facts: Facts) -> Result:
    """Each call is on disk, signed, before it is forwarded."""
    mode = facts.loaded.config.attest.mode
    if mode == "durable":
        return ok("each call is on the disk before it goes on")
    what = "no call is recorded" if mode == "off" else "the last calls may be lost with the machine"
    return no(f'attest.mode is "{mode}": {what}', 'set attest.mode = "durable"')


def evidence(facts: Facts) -> Result:
    """Records prove who allowed a call and who signed it, so that nobody has to trust the gateway."""
    config = facts.loaded.config
    if config.attest.mode == "off":
        return no("nothing is recorded that would show anything", 'set attest.mode = "durable"')
    if config.proofs.mode != "required" or config.proofs.binding != "required":
        what = (
            "records of calls without a bound proof rest on the gateway's word: that an agent signed them is not shown"
        )
        return no(what, 'set proofs.mode = "required" and proofs.binding = "required"')
    if config.attest.proofs != "keep":
        what = f'attest.proofs is "{config.attest.proofs}": that an agent signed its calls rests on the gateway\'s word'
        return no(what, 'set attest.proofs = "keep"')
    return ok("records show by themselves who allowed a call, and who signed it")


def sealing(facts: Facts) -> Result:
    """Sessions, and calls that wait for a person's answer, survive a restart, and any gateway can continue them."""
    config = facts.loaded.config
    if config.cluster.keys_file is not None or config.rounds.keys_file is not None:
        return ok("keys are in a file")
    remedy = "(umask 077; openssl rand -base64 32 > rounds.keys), and set rounds.keys_file"
    return no("states and sessions are sealed with a key that ends with the process", remedy)


def store(facts: Facts) -> Result:
    """Used proofs are remembered across restarts, by all gateways that share the port or the name."""
    if isinstance(facts.store, Unknown):
        return no(facts.store.why, "mend store.url")
    if facts.store.lasting is None:
        return no("the store is in memory: after a restart a proof is good again", _FILE_STORE)
    if facts.store.is_shared:
        return ok(f"{facts.store.lasting.name}, for gateways on many machines")
    if facts.loaded.config.cluster.keys_file is not None:
        what = "cluster.keys_file is for gateways on many machines, and the store is a file of this one"
        return no(what, "set store.url to a postgresql:// database, or rounds.keys_file in its place")
    return ok(f"{facts.store.lasting.name}, for all workers of this machine")


def stopping(facts: Facts) -> Result:
    """The gateway has the time that its shutdown needs, and load balancers learn of the shutdown beforehand."""
    gateway = facts.loaded.config.gateway
    needed = gateway.drain_seconds + gateway.grace_seconds + 2
    if not isinstance(facts.store, Unknown) and facts.store.is_shared and gateway.drain_seconds == 0:
        what = "gateway.drain_seconds is 0: whoever spreads calls over gateways sees one only once it is gone"
        return no(what, "set gateway.drain_seconds = 10")
    if needed >= PRODUCTION_KILLED_SECONDS:
        what = f"it may take {needed} s to end, and what waits for that can't be seen from here"
        remedy = f"set TimeoutStopSec or terminationGracePeriodSeconds to more than {needed}; then --except"
        return unknown(what, f"{remedy} production.stopping")
    return ok(f"it ends within {needed} s: less than systemd (90) and Kubernetes ({PRODUCTION_KILLED_SECONDS}) wait")


def metrics(facts: Facts) -> Result:
    """There are metrics on which alerts can be based."""
    config = facts.loaded.config
    if config.admin.port is None and config.telemetry.endpoint is None:
        return no("nothing is measured", "set admin.port, or telemetry.endpoint; deploy/prometheus has the alerts")
    return ok("metrics can be had" if config.admin.port is not None else "metrics are sent to a collector")
