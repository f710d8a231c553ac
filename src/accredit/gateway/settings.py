"""The gateway's settings, fixed at the start: small frozen values. No I/O, except that keys are made here."""

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from accredit.base.addresses import without_slash
from accredit.errors import ConfigurationError
from accredit.gateway.forwarding import can_be_added
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.http_api.call import Protocol
from accredit.http_api.routes import RouteTable
from accredit.limits import DEFAULT_RESPONSE_BYTES
from accredit.pins.definitions import Pins
from accredit.policy.decision import Policy
from accredit.policy.drill import DRILLS
from accredit.policy.merging import SERVER_NAME, merged_name
from accredit.policy.quotas import Quotas
from accredit.rounds.sealing import KEY_BYTES, KeyRing
from accredit.tokens.access import AccessGrant
from accredit.tokens.carried import Source
from accredit.tokens.verify import Issuer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

UPSTREAM_SILENCE_SECONDS = 60.0
"""How long a server behind HTTP may be silent by default, before the first byte of its answer and between events. Event
streams send a comment every 15 s or so, unless the connection is cut off."""
CHILD_SILENCE_SECONDS = 3_600.0
"""How long a child may be silent about a request, by default. The gateway can see that the process is alive, and tools
that build, search or wait for people are silent for many minutes."""


_REPLICA_HEX = 16

AUTHORIZE_PATH = "/v1/ratify/authorize/"
"""The path on the admin listener for a proxy's questions about requests. The API's name follows it."""
Proxy = Literal["nginx", "envoy", "traefik", "caddy"]
"""The kind of a proxy that asks. It determines where the request's method and target are read."""


@dataclass(frozen=True, slots=True)
class HttpUpstream:
    """A server behind streamable HTTP (or HTTP+SSE of 2024-11-05). `headers` are added to each request. So is a token
    that the gateway fetches, if `auth` says how.

    `others` are the URLs of further replicas. All replicas together have at most `max_in_flight` requests in progress
    (None: any number).
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    others: tuple[str, ...] = ()
    max_in_flight: int | None = None
    auth: AccessGrant | None = None

    @property
    def exchanges(self) -> bool:
        """Whether each caller's token is exchanged for a token for this server."""
        return self.auth is not None and self.auth.exchanges

    @property
    def replicas(self) -> dict[str, str]:
        """The URLs of all replicas, by the names that sealed session ids use. A name is a digest, so that gateways
        agree on it even if their configurations list the replicas in another order. A single replica is called ""."""
        urls = (self.url, *self.others)
        return {_replica_name(url): url for url in urls} if self.others else {"": self.url}

    @property
    def homes(self) -> dict[str, str]:
        """The names in `replicas`, each under a second name that is unique among the replicas of all servers."""
        return {_replica_name(url): name for name, url in self.replicas.items()}

    @property
    def looked_after(self) -> bool:
        """Whether the gateway ejects failing replicas, and bounds the requests in progress."""
        return bool(self.others) or self.max_in_flight is not None


def _replica_name(url: str) -> str:
    return hashlib.sha256(url.partition("?")[0].encode()).hexdigest()[:_REPLICA_HEX]


@dataclass(frozen=True, slots=True)
class StdioUpstream:
    """A server that is a child process. `env` is added to the gateway's own environment, of which `ACCREDIT_*` is left
    out.

    `cwd` is the child's working folder: that of the configuration file, or None for the gateway's own. `on_stray_line`
    gets each line of the child's stdout that is dropped because it is not a valid message. It is set only to ask what a
    server offers: in calls, such a line may hold part of a result.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    on_stray_line: Callable[[bytes], None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MergedUpstream:
    """Several servers as one (`[gateway] merge`): the settings of each, by name. Raises `ConfigurationError` for a
    server's name that could not be recognized within a tool's merged name (`policy.merging`)."""

    members: Mapping[str, "GatewaySettings"]

    def __post_init__(self) -> None:
        for name in self.members:
            if not SERVER_NAME.fullmatch(name):
                raise ConfigurationError(
                    f"{name!a} can't be merged with others", "name servers in a-z, 0-9 and -, in at most 32 characters"
                )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent, without its skills. `card_path` is the card's path on the agent's host. `public_url` is
    the agent's URL for clients; if it is "", the URL is built from the scheme (`tls`) and the host that a client names.
    `push_urls` are the addresses to which it may push. With `client_contexts`, a client may make up the id of a
    conversation."""

    card_path: str = "/.well-known/agent-card.json"
    public_url: str = ""
    tls: bool = False
    push_urls: tuple[str, ...] = ()
    client_contexts: bool = False


@dataclass(frozen=True, slots=True)
class ApiUpstream:
    """An HTTP API in place of an MCP server: its routes, and how requests arrive. Either the API is `behind` the
    gateway, and gets the client's `forward_headers` in addition to the usual ones; or another `proxy` asks about
    requests. With `agent` it is an agent that speaks A2A, which has no routes."""

    protocol: Protocol | Literal["a2a"]
    routes: RouteTable = field(repr=False)
    proxy: Proxy | None = None
    behind: HttpUpstream | None = None
    forward_headers: tuple[str, ...] = ()
    agent: AgentSettings | None = None


@dataclass(frozen=True, slots=True)
class ProofSettings:
    """The sections `[proofs]`, `[tools]`, `[resources]` and `[prompts]`.

    If proofs are not `required`, the last three restrict nothing, but the scopes in them are listed. Proofs are not
    required where the policy observes (`mode = "observe"`): decisions are then only recorded.
    """

    policy: Policy
    required: bool
    filter_tools: bool = True

    @property
    def judged(self) -> bool:
        """Whether each call's proof is judged. The result may be enforced, or only observed."""
        return self.required or self.policy.observes

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` if proofs are both required and only observed."""
        if self.required and self.policy.observes:
            raise ConfigurationError("proofs are required, and only observed", "give ProofSettings one of both")


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """`[upstream] identity = "jwt"`: the signing key, the issuer's id, and the header's name.

    `audience` is the server's name in `[servers]`. If it is "", tokens name the server's URL.
    """

    key: "EllipticCurvePrivateKey" = field(repr=False)
    gateway_id: str
    header: str = "Accredit-Identity"
    audience: str = ""


def check_reads_headers(
    upstream: HttpUpstream | StdioUpstream | MergedUpstream | ApiUpstream, place: str = "upstream"
) -> None:
    """Raise `ConfigurationError` for a server that reads no headers."""
    if isinstance(upstream, StdioUpstream):
        raise ConfigurationError(
            f'{place}.identity is "jwt", a header of HTTP requests, and {place}.command reads none',
            f'set {place}.identity = "meta", or run the server behind a URL',
        )


def _key_of_this_process() -> KeyRing:
    return KeyRing([secrets.token_bytes(KEY_BYTES)])


@dataclass(frozen=True, slots=True)
class RoundsSettings:
    """The sections `[rounds]` and `[cluster]`. Without a `ring` of keys, one is made, whose seals can be opened only
    while these settings are in memory. `shared` says that other gateways have the same ring."""

    ring: KeyRing = field(default_factory=_key_of_this_process, compare=False)
    state_seconds: int = 600
    shared: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """The section `[tokens.bootstrap]`. The program that starts the gateway writes `secret` to `file`. `used` deletes
    the file."""

    secret: str = field(repr=False)
    file: Path
    key: "EllipticCurvePrivateKey" = field(repr=False)
    issuer: str
    audience: str
    ttl_seconds: int
    policy_digest: str
    used: Callable[[], None]


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The section `[tokens]`, and what tools require of tokens.

    `resource` is the URL of the MCP endpoint as clients know it. `tool_scopes` maps a tool to the scope that a token
    must have. `policy_digest` is the digest of the current configuration. `servers` are those whose tools the endpoint
    offers under merged names.
    """

    issuers: tuple[Issuer, ...]
    resource: str
    required: bool = True
    sources: Collection[Source] = ("header", "argument", "meta")
    tool_scopes: Mapping[str, str] = field(default_factory=dict[str, str])
    policy_digest: str = ""
    bootstrap: BootstrapSettings | None = None
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """The section `[attest]`, except for the log itself. `gateway_id` is the gateway's name in records. With `full`,
    records hold the arguments, not only their digest. With `keeps_proofs`, the bound proof of an allowed call is kept
    with its record. `policy_digest` identifies the configuration; if it is "", `settings_digest` is used."""

    gateway_id: str
    full: bool = False
    policy_digest: str = ""
    keeps_proofs: bool = True


_SEVERAL = ("allowed_origins", "allowed_hosts", "trusted_proxies", "passthrough", "methods", "forward_headers")


def _check_several(settings: "GatewaySettings") -> None:
    for name in _SEVERAL:
        if isinstance(getattr(settings, name), str):
            raise ConfigurationError(f"{name} is one text, and several are asked for", f'write {name}=("...",)')


def _constant() -> Any:
    """Declare a member that is computed from the others. It is not an argument, and comparisons, `repr` and the
    settings' digest ignore it."""
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The sections `[gateway]`, `[upstream]` and `[validation]` of the configuration, for one server.

    Processes that are forked after the settings were made share the keys in `rounds`, and so can open each other's
    sealed states and session ids.
    """

    upstream: HttpUpstream | StdioUpstream | MergedUpstream | ApiUpstream
    server: str = ""
    """The server's name in `[servers]`; "" for the server of `[upstream]`, and for the merged one."""
    path: str = "/mcp"
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    trusted_proxies: tuple[str, ...] = field(default=(), repr=False)  # they affect no call, so no digest names them
    """The networks of proxies that are believed about where a request comes from (`X-Forwarded-For`)."""
    passthrough: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    """Methods that are allowed where proofs or tokens are required, although they are not in the table
    (`jsonrpc.methods`)."""
    forward_headers: tuple[str, ...] = ()
    max_request_bytes: int = 4_194_304
    max_response_bytes: int = DEFAULT_RESPONSE_BYTES
    max_event_bytes: int = 16_777_216
    upstream_timeout_seconds: float | None = None
    """How long the server may be silent about a request. If None, `patience` has the default."""
    tells_identity: bool = True
    """`[upstream] identity`: True is "meta". Then `_meta` of an allowed call says on whose authority it is made."""
    identity: IdentitySettings | None = None
    """`[upstream] identity = "jwt"`: a header of an allowed call says on whose authority it is made."""
    enforce: bool = True
    """`[validation] responses`. True is "enforce". False is "observe": an invalid response is logged, counted, and
    forwarded as it is."""
    proofs: ProofSettings | None = None
    records: RecordSettings | None = None
    tokens: TokenSettings | None = None
    oauth: OAuthSettings | None = None
    rounds: RoundsSettings = field(default_factory=RoundsSettings)
    quotas: Quotas = field(default_factory=Quotas)
    """The `[[quotas]]` that don't depend on a call's proof. Those that do are in the policy."""
    pins: Pins | None = None
    """The section `[pins]`, with this server's pins from the lock file."""
    ratify_http: str = field(default="", repr=False)  # it affects no call, so no digest names it
    """`[ratify_http]`: which listener serves Ratify's HTTP binding, "admin" or "public"; "" for none."""
    workers: int = 1
    """The number of processes that serve together. If there are several, settings that keep state in the memory of one
    process are refused."""

    # What follows from the above, computed once: every message asks for some of it.
    members: Collection["GatewaySettings"] = _constant()
    """The settings of the servers that are merged here."""
    patience: float = _constant()
    """How many seconds the server may be silent about a request before the gateway stops expecting an answer."""
    lives_here: bool = _constant()
    """Whether the server's sessions live in this process."""
    exchanges: bool = _constant()
    """Whether a caller's token is exchanged for one for the server."""
    signs_identity: bool = _constant()
    """Whether a header tells the server on whose authority a call is made."""
    one_caller: bool = _constant()
    """Whether each request must be forwarded in an HTTP request of its own, because that names the caller or goes to
    one of several servers. Then batches are refused."""
    observes: bool = _constant()
    """Whether proofs are judged but no call is refused for its proof."""
    guards: bool = _constant()
    """Whether callers must authenticate. If so, unknown methods are refused."""
    proving: bool = _constant()
    """Whether callers can authenticate at all: tokens are on, or proofs are required."""
    seals_sessions: bool = _constant()
    """Whether clients get sealed ids for legacy sessions. They do if sessions have owners, if a session belongs to one
    of several replicas or servers, or if several gateways serve it."""

    @property
    def place(self) -> str:
        """The server's table in the configuration: `upstream` or `servers.NAME`."""
        return f"servers.{self.server}" if self.server else "upstream"

    @property
    def key_of_url(self) -> str:
        """The configuration key of the server's URL."""
        several = isinstance(self.upstream, HttpUpstream) and bool(self.upstream.others)
        return f"{self.place}.url{'s' if several else ''}"

    @property
    def named_tools(self) -> list[str]:
        """The tools that the configuration names, by the names that clients know, and the gateway's own tools."""
        return [*self._in_catalog, *sorted(DRILLS)]

    @property
    def _in_catalog(self) -> list[str]:
        if self.members:
            return [merged_name(each.server, tool) for each in self.members for tool in each._in_catalog]
        return list(self.proofs.policy.catalog.tools) if self.proofs is not None else []

    @property
    def homes(self) -> Mapping[str, str]:
        """Where sessions may live (`HttpUpstream.homes`)."""
        return self.upstream.homes if isinstance(self.upstream, HttpUpstream) else {"": ""}

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` for a passthrough pattern or a header that would let MCP messages bypass the
        checks, and for one text in the place of several."""
        _check_several(self)
        for name, value in self._constants():
            object.__setattr__(self, name, value)
        for name in self.forward_headers:
            if not can_be_added(name):
                what = f"gateway.forward_headers: {name!a} can't be added"
                raise ConfigurationError(what, "name headers that say neither how a message is read nor where it goes")
        if self.identity is not None:
            check_reads_headers(self.upstream, self.place)
        if self.exchanges and (self.tokens is None or not self.tokens.required):
            what = f"{self.place}.auth exchanges the caller's token, and a caller may come without one"
            remedy = f'set tokens.mode = "required", or {self.place}.auth.type = "client_credentials"'
            raise ConfigurationError(what, remedy)
        served = [self.path]
        if isinstance(self.upstream, HttpUpstream):
            served.append(urlsplit(self.upstream.url).path)
        for pattern in self.passthrough:
            base = pattern.removesuffix("/*").rstrip("/").lower()  # some servers ignore case
            for path in served:
                mcp = path.rstrip("/").lower()
                if base == mcp or (pattern.endswith("/*") and mcp.startswith(f"{base}/")):
                    what = f"gateway.passthrough: {pattern!a} covers {path!a}, where MCP is served"
                    raise ConfigurationError(what, "name the other paths one by one: MCP would pass unread there")

    def _constants(self) -> Iterator[tuple[str, object]]:
        """Yield the members that are computed once, each after those that it is computed from."""
        upstream, proofs, tokens = self.upstream, self.proofs, self.tokens
        members = tuple(upstream.members.values()) if isinstance(upstream, MergedUpstream) else ()
        yield "path", without_slash(self.path)
        yield "members", members
        yield "patience", self._patience(members)
        yield "lives_here", isinstance(upstream, StdioUpstream) or any(each.lives_here for each in members)
        own = isinstance(upstream, HttpUpstream) and upstream.exchanges
        yield "exchanges", own or any(each.exchanges for each in members)
        yield "signs_identity", self.identity is not None or any(each.signs_identity for each in members)
        yield "one_caller", self.signs_identity or self.exchanges or bool(members)
        yield "observes", proofs is not None and proofs.policy.observes
        proven = proofs is not None and proofs.required
        yield "guards", proven or (tokens is not None and tokens.required)
        yield "proving", proven or tokens is not None
        several = bool(upstream.others) if isinstance(upstream, HttpUpstream) else bool(members)
        yield "seals_sessions", tokens is not None or self.oauth is not None or self.rounds.shared or several

    def _patience(self, members: "Collection[GatewaySettings]") -> float:
        if self.upstream_timeout_seconds is not None:
            return self.upstream_timeout_seconds
        if members:
            return max(each.patience for each in members)
        return CHILD_SILENCE_SECONDS if isinstance(self.upstream, StdioUpstream) else UPSTREAM_SILENCE_SECONDS


def check_apart(behind: Mapping[str, str], served: Mapping[str, str], *, ratify_http: bool, oauth: bool) -> None:
    """Refuse an HTTP API or agent that would get the requests of another server, or those that the gateway itself
    answers. `behind` and `served` are the paths of these, and of MCP servers, by place. Raises `ConfigurationError`."""
    own = {"ratify_http": AUTHORIZE_PATH.removesuffix("/authorize/")} if ratify_http else {}
    own |= {"oauth": "/oauth"} if oauth else {}
    for (one, prefix), (other, path) in product(behind.items(), {**served, **behind, **own}.items()):
        if one != other and f"{path.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/"):
            raise ConfigurationError(
                f"{one}.path {prefix.rstrip('/') or '/'} covers {path}, where {other} is served",
                "give each a path that is not below another's",
            )
