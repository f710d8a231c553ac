"""The keys of `accredit.toml`: names, types, defaults and what each means. No I/O.

The rules here concern one value each. Rules that need two keys, a file or the environment are in `build`. Each
description finishes the sentence "KEY is ...": errors and `accredit config schema` show it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, get_type_hints

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from accredit.base.addresses import without_slash
from accredit.base.values import decodable
from accredit.config.oauth_schema import OAuth
from accredit.config.section import Section
from accredit.config.values import (
    AbsoluteUri,
    Bytes,
    Command,
    Endpoint,
    Environment,
    Facts,
    FileName,
    FolderName,
    Forwarded,
    ForwardedToApi,
    Headers,
    IdentityHeader,
    Method,
    Name,
    OptionalScope,
    Path,
    PolicyFile,
    ProxyNetwork,
    QuotaNumber,
    RouteFacts,
    RouteText,
    Scope,
    Seconds,
    Secret,
    SecretFile,
    ServerName,
    SignerUri,
    SkillId,
    StoreText,
    TokenScope,
    TokenScopes,
    TokenUrl,
    ToolName,
    ToolNames,
    TrustedKeyFile,
    UriPrefix,
    Url,
    Window,
    WrittenSecretFile,
)
from accredit.limits import CHALLENGE_WINDOW_SECONDS, DEFAULT_RESPONSE_BYTES, GRACE_SECONDS, MAX_STATE_SECONDS
from accredit.tokens.access import GrantType

MAX_RESPONSE_BYTES = 104_857_600
"""The most that `gateway.max_response_bytes` can be set to: an answer is held in memory as a whole before it is
forwarded."""
MAX_REPLICAS = 32
"""How many URLs one server may have. Each has its own connections, and each request compares all URLs. For more, use a
load balancer."""
MAX_TRUSTED_PROXIES = 64
"""How many networks of proxies may be trusted: each request is compared with all of them."""
DRAIN_SECONDS = 0
"""The default of `gateway.drain_seconds`: how long a gateway that is told to stop still accepts requests. Waiting helps
only if a load balancer learns meanwhile that the gateway is stopping."""
MAX_ENDING_SECONDS = 3600
"""The most that `gateway.drain_seconds` and `gateway.grace_seconds` can be set to. No call may take longer than an hour
either. A greater number was probably meant in another unit."""
MAX_PINS_FRESH_SECONDS = 3600
"""The most that `pins.fresh_seconds` can be set to. For so long a comparison with the pins stays valid, and later
changes by the server go unnoticed."""
QUOTA_MOST = 1_000_000_000
"""The greatest number of calls, or sum of a fact, that a quota may allow. Sums are stored in millionths, and a
database's integers have 19 digits."""
MAX_BOOTSTRAP_TTL_SECONDS = 86_400
"""The longest lifetime of the bootstrap token: a day, as it can't be revoked individually."""


class Gateway(Section, frozen=True):
    """`[gateway]`: where the gateway listens, and its bounds."""

    host: Annotated[Name, "the address to listen on"] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535), "the TCP port to listen on; 0 picks a free one"] = 8484
    path: Annotated[Endpoint, "the path of the MCP endpoint"] = "/mcp"
    id: Annotated[Name | None, "this gateway's name in proofs and records; else the id of the key in gateway.key"] = (
        None
    )
    allowed_origins: Annotated[list[Name], "a list of Origin header values that pass beside same-origin loopback"] = []
    allowed_hosts: Annotated[list[Name], "a list of Host header values that pass"] = field(
        default_factory=lambda: ["127.0.0.1", "localhost", "[::1]"]
    )
    trusted_proxies: Annotated[
        list[ProxyNetwork],
        Meta(max_length=MAX_TRUSTED_PROXIES),
        "a list of networks whose proxies are believed about where a request comes from (X-Forwarded-For)",
    ] = []
    merge: Annotated[bool, "whether gateway.path is all of [servers] as one, with tools named SERVER__TOOL"] = False
    passthrough: Annotated[list[Path], "a list of other paths that are forwarded unread"] = []
    forward_headers: Annotated[
        list[Forwarded], "a list of headers that go on as well where proofs or tokens are required"
    ] = []
    methods: Annotated[
        list[Method], "a list of methods beyond MCP's that pass where proofs or tokens are required"
    ] = []
    max_request_bytes: Annotated[Bytes, "the largest request body, in bytes"] = 4_194_304
    max_response_bytes: Annotated[
        int, Meta(ge=1, le=MAX_RESPONSE_BYTES), "the largest answer of the upstream, in bytes, up to 100 MiB"
    ] = DEFAULT_RESPONSE_BYTES
    max_event_bytes: Annotated[Bytes, "the largest SSE event or stdio line, in bytes"] = 16_777_216
    upstream_timeout_seconds: Annotated[
        Seconds,
        "the number of seconds for which the upstream may be silent about a request (a command: 3600 where"
        " nothing is said)",
    ] = 60.0
    drain_seconds: Annotated[
        int,
        Meta(ge=0, le=MAX_ENDING_SECONDS),
        "for how many seconds it still accepts connections after SIGTERM, with /readyz at 503",
    ] = DRAIN_SECONDS
    grace_seconds: Annotated[
        int, Meta(ge=0, le=MAX_ENDING_SECONDS), "for how many seconds open calls may go on after that"
    ] = GRACE_SECONDS
    tls_cert_file: Annotated[FileName | None, "a PEM file with the endpoint's certificate chain"] = None
    tls_key_file: Annotated[SecretFile | None, "a PEM file with its private key, mode 0600"] = None

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        force_setattr(self, "path", without_slash(self.path))


class Auth(Section, frozen=True):
    """`[upstream.auth]`: how the gateway gets the token that it authenticates itself to the server with."""

    type: Annotated[
        GrantType,
        '"client_credentials", or "token_exchange": the caller\'s verified token for one that the server takes',
    ]
    token_url: Annotated[TokenUrl, "the token endpoint of the authorization server: https, or http on loopback"]
    client_id: Annotated[Name, "what the gateway is called there"]
    client_secret: Annotated[Secret, 'the gateway\'s secret there: { env = "NAME" }, or { file = "NAME" } of mode 0600']
    audience: Annotated[Name | None, "whom the token is to be for"] = None
    resource: Annotated[AbsoluteUri | None, "the URI of the resource that the token is to be for (RFC 8707)"] = None
    scope: Annotated[TokenScopes | None, "the scopes that the token is to have, with spaces between them"] = None


class Upstream(Section, frozen=True):
    """`[upstream]`: the server behind the gateway, as a URL or as a command."""

    url: Annotated[Url | None, "the http(s) URL of the MCP server"] = None
    urls: Annotated[list[Url], Meta(max_length=MAX_REPLICAS), "a list of URLs of the MCP server's replicas"] = []
    max_in_flight: Annotated[
        Annotated[int, Meta(ge=1)] | None, "how many requests may be under way to the url or urls at once"
    ] = None
    command: Annotated[Command | None, "a stdio server's program and its arguments, as a list"] = None
    env: Annotated[
        Environment, 'a table of variables for the command, each a string, { env = "NAME" } or { file = "NAME" }'
    ] = {}
    cwd: Annotated[FolderName | None, "the folder that the command runs in; else that of the file"] = None
    headers: Annotated[
        Headers, 'a table of headers for the url, each a string, { env = "NAME" } or { file = "NAME" }'
    ] = {}
    auth: Annotated[Auth | None, "a table: how the gateway authenticates itself to the url"] = None
    identity: Annotated[
        Literal["none", "meta", "jwt"],
        'how the server is told on whose word an allowed call comes: "meta", "jwt" (a header), or "none"',
    ] = "meta"
    identity_header: Annotated[IdentityHeader, 'the name of the header that identity = "jwt" is told in'] = (
        "Accredit-Identity"
    )

    @property
    def addresses(self) -> list[str]:
        """The URLs of the server, whichever of the two keys has them."""
        return self.urls or ([self.url] if self.url else [])


class Validation(Section, frozen=True):
    """`[validation]`: what happens to frames that are not valid."""

    responses: Annotated[
        Literal["enforce", "observe"], '"enforce", or "observe" to log and count but forward as it is'
    ] = "enforce"


class TokenIssuer(Section, frozen=True):
    """A table of `[[tokens.issuers]]`: an issuer whose tokens are accepted. Its keys come from one of three keys of
    this table, else from the URL in its metadata."""

    issuer: Annotated[Name, "who issues the tokens, exactly as in their iss"]
    audience: Annotated[Name, "whom the tokens must be for (aud): the URL of the MCP endpoint"]
    jwks_url: Annotated[Url | None, "the URL of its JWK set: https, or http on loopback"] = None
    jwks_file: Annotated[PolicyFile | None, "a file with its JWK set"] = None
    public_key_file: Annotated[PolicyFile | None, "a file with its public key, in PEM"] = None
    algorithms: Annotated[list[Name], "a list of the algorithms that it may sign with"] = field(
        default_factory=lambda: ["ES256"]
    )
    required_scopes: Annotated[list[Name], "a list of scopes that its tokens must have"] = []
    introspection_url: Annotated[TokenUrl | None, "where it is asked about tokens that are no JWTs (RFC 7662)"] = None
    introspection_client_id: Annotated[Name | None, "what the gateway is called there"] = None
    introspection_client_secret: Annotated[
        Secret | None, 'the gateway\'s secret there: { env = "NAME" }, or { file = "NAME" } of mode 0600'
    ] = None


class Bootstrap(Section, frozen=True):
    """`[tokens.bootstrap]`: one session token for a local agent, which gets it by `POST /token`."""

    key_file: Annotated[SecretFile, "a private key that `accredit token keygen` made"]
    secret_file: Annotated[WrittenSecretFile, "a file that the gateway writes the one-time secret to, mode 0600"]
    issuer: Annotated[Name, "the issuer of [[tokens.issuers]] that has its public key"] = "accredit"
    ttl_seconds: Annotated[
        int, Meta(ge=1, le=MAX_BOOTSTRAP_TTL_SECONDS), "the number of seconds that the token is good for"
    ] = 3600


class Tokens(Section, frozen=True):
    """`[tokens]`: whether clients need a bearer token, and whose."""

    mode: Annotated[Literal["off", "optional", "required"], '"off", "optional", or "required": no token, no answer'] = (
        "off"
    )
    sources: Annotated[
        list[Literal["header", "argument", "meta"]], Meta(min_length=1), "a list of the places where tokens count"
    ] = field(default_factory=lambda: list[Literal["header", "argument", "meta"]](["header", "argument", "meta"]))
    bind_agent: Annotated[Literal["", "sub"], '"sub": the token\'s subject has to be the agent of the proof'] = ""
    issuers: Annotated[list[TokenIssuer], "a list of tables: whose tokens count"] = []
    bootstrap: Annotated[Bootstrap | None, "a table: a local agent's first session token"] = None


class Root(Section, frozen=True):
    """A table of `[[proofs.roots]]`: a human whose delegations are accepted."""

    name: Annotated[Name, "what this human is called in answers to clients and to the upstream"]
    public_key_file: Annotated[TrustedKeyFile, "a file that `accredit keys new --kind human` made, ending in .pub"]


class Registry(Section, frozen=True):
    """A table of `[[proofs.registries]]`: a registry that knows which keys have replaced these humans' keys."""

    url: Annotated[Url, "its base URL, of https"]
    pins: Annotated[
        list[TrustedKeyFile],
        Meta(min_length=1),
        "a list of files of humans' public keys: they, or what replaced them, are roots",
    ]
    ca_file: Annotated[PolicyFile | None, "a file of the authorities (PEM) that alone may vouch for it"] = None


class Revocation(Section, frozen=True):
    """`[proofs.revocation]`: which certificates are revoked."""

    files: Annotated[list[FileName], "a list of signed revocation lists, re-read when they change"] = []
    public_key_files: Annotated[
        list[TrustedKeyFile], "a list of public keys, beside those of the roots, whose revocation lists count"
    ] = []


class Proofs(Section, frozen=True):
    """`[proofs]`: whether calls need a proof, and which proofs are accepted."""

    mode: Annotated[
        Literal["off", "observe", "required"],
        '"off", "required": no proof, no call; or "observe": record what "required" would do, and let it pass',
    ] = "off"
    freshness_seconds: Annotated[
        int,
        Meta(ge=1, le=CHALLENGE_WINDOW_SECONDS),
        "the number of seconds for which a challenge that a client made is fresh",
    ] = 30
    challenge_seconds: Annotated[
        int,
        Meta(ge=1, le=CHALLENGE_WINDOW_SECONDS),
        "the number of seconds for which a challenge that the gateway issued can be answered",
    ] = 60
    binding: Annotated[
        Literal["optional", "required"], '"optional", or "required": proofs are bound to the exact call'
    ] = "optional"
    filter_tools: Annotated[
        bool, "whether a proof on a list (of tools, resources, prompts) leaves out what it does not cover"
    ] = True
    default_tool_scope: Annotated[
        OptionalScope, 'the scope of tools that [tools] does not name, or "" to refuse them'
    ] = ""
    roots: Annotated[list[Root], "a list of tables: the humans whose delegations count"] = []
    registries: Annotated[list[Registry], "a list of tables: who says which keys replaced those of humans"] = []
    revocation: Annotated[Revocation, "a table: which certificates no longer count"] = Revocation()
    evaluators: Annotated[
        list[str], "a list of types of constraints whose evaluators are installed (accredit.constraints)"
    ] = []


class Resource(Section, frozen=True):
    """`[resources."PREFIX"]`: the resources whose URIs begin with this prefix."""

    scope: Annotated[Scope, "the one concrete scope that a call needs, such as email:send"]
    accepts: Annotated[list[Scope], "a list of scopes of which any satisfies it as well"] = []
    sensitive: Annotated[bool, "whether each call needs a challenge of the gateway's"] = False


class Tool(Resource, frozen=True):
    """`[tools.NAME]`: the scope of a tool, and what else is required to call it."""

    facts: Annotated[Facts, "a table from a constraint's facts to JSON Pointers into the call's arguments"] = {}
    token_scope: Annotated[TokenScope, 'the scope that a token needs for it, or "" for none'] = ""


class Tools(Section, frozen=True):
    """`[tools]`: a table for each tool, by its name."""

    by_name: dict[ToolName, Tool] = {}


class Resources(Section, frozen=True):
    """`[resources]`: the scope of all resources, and a table for each prefix of URIs that has a scope of its own."""

    scope: Annotated[Scope, "the scope of resources without a table of their own"] = "mcp:resource"
    by_prefix: dict[UriPrefix, Resource] = {}


class Prompts(Section, frozen=True):
    """`[prompts]`: the scope of all prompts."""

    scope: Annotated[Scope, "the scope of all prompts"] = "mcp:prompt"


class ApiRoute(Resource, frozen=True):
    """`[servers.NAME.routes."METHOD /path"]`: the scope of a route of an HTTP API, and what else its requests need."""

    facts: Annotated[
        RouteFacts, 'a table from a constraint\'s facts to "path:NAME", "query:NAME", "body:/POINTER" or a constant'
    ] = {}


class ApiRoutes(Section, frozen=True):
    """`[servers.NAME.routes]`: a table for each route of an HTTP API, by its method and path."""

    by_text: dict[RouteText, ApiRoute] = {}


class AgentSkills(Section, frozen=True):
    """`[servers.NAME.skills]`: a table for each skill of an agent that has a scope of its own, by its id."""

    by_id: dict[SkillId, Resource] = {}


class Server(Upstream, frozen=True):
    """`[servers.NAME]`: one of several servers, with the keys of `[upstream]` and a catalog of its own."""

    protocol: Annotated[
        Literal["mcp", "http", "authorize", "a2a"],
        '"mcp", "http" for an HTTP API, "authorize" for one behind a proxy that asks, or "a2a" for an agent',
    ] = "mcp"
    path: Annotated[Path | None, 'with protocol = "http" or "a2a" its path on the gateway, which is taken off'] = None
    forward_headers: Annotated[list[ForwardedToApi], "a list of Cookie, Range and If-... headers that an API gets"] = []
    proxy: Annotated[
        Literal["nginx", "envoy", "traefik", "caddy"] | None, 'with protocol = "authorize" the proxy that asks'
    ] = None
    routes: Annotated[ApiRoutes, "a table of an HTTP API's routes, each with its scope"] = ApiRoutes()
    scope: Annotated[OptionalScope, 'with protocol = "a2a" the scope that each message to the agent needs'] = ""
    skills: Annotated[AgentSkills, "a table of an agent's skills that need a scope besides"] = AgentSkills()
    push_urls: Annotated[list[Url], "a list of the addresses to which an agent may be asked to push"] = []
    client_contexts: Annotated[bool, "whether clients of an agent may make up ids of conversations"] = False
    card_path: Annotated[Path, "where an agent's card is on its host"] = "/.well-known/agent-card.json"
    public_url: Annotated[Url | None, "the URL that an agent's card names"] = None
    timeout_seconds: Annotated[Seconds | None, "as gateway.upstream_timeout_seconds, for this server alone"] = None
    tools: Annotated[Tools, "a table of its tools, as [tools]"] = Tools()
    resources: Annotated[Resources, "a table of its resources, as [resources]"] = Resources()
    prompts: Annotated[Prompts, "a table of its prompts, as [prompts]"] = Prompts()


class Servers(Section, frozen=True):
    """`[servers]`: a table for each server, by its name."""

    by_name: dict[ServerName, Server] = {}


class Quota(Section, frozen=True):
    """A table of `[[quotas]]`: how many calls may be made in a window, or how much a number in them may add up to."""

    by: Annotated[
        Literal["principal", "agent", "subject", "server"],
        'whom it counts for: each "principal" or "agent" of a proof, each "subject" of a token, or each "server"',
    ]
    window: Annotated[Window, "the time in which it counts, such as 60s, 15m, 12h or 7d; at most 31d"]
    tools: Annotated[ToolNames, 'a list of names of tools, or ["*"] for all'] = field(default_factory=lambda: ["*"])
    calls: Annotated[
        Annotated[int, Meta(ge=1, le=QUOTA_MOST)] | None, "the number of calls that there may be in the window"
    ] = None
    sum: Annotated[Literal["amount"] | None, 'in place of calls the fact to add up: "amount"'] = None
    limit: Annotated[
        Annotated[float, Meta(gt=0, le=QUOTA_MOST)] | None, "with sum what it may come to in the window, inclusive"
    ] = None


class QuotaList(Section, frozen=True):
    """`[[quotas]]`: a list of tables, kept here by their numbers."""

    by_number: dict[QuotaNumber, Quota] = {}


class Attest(Section, frozen=True):
    """`[attest]`: whether guarded calls are recorded in a signed log, and how."""

    mode: Annotated[
        Literal["off", "record", "durable"],
        '"off", "record", or "durable": on the disk before the call or its answer goes on',
    ] = "off"
    key_file: Annotated[
        SecretFile | None,
        "the gateway's private key, made by `accredit keys new --kind gateway`; else gateway.key is taken",
    ] = None
    signer: Annotated[
        SignerUri | None, "who signs records in place of key_file: a URI of securesystemslib, such as file2:records.pem"
    ] = None
    signer_public_key_file: Annotated[
        PolicyFile | None, "a file with the signer's public key: PEM, or JSON of securesystemslib with a keyid"
    ] = None
    public_key_files: Annotated[
        list[TrustedKeyFile],
        "a list of public keys that sign the same log: of the other gateways, and of this one before",
    ] = []
    arguments: Annotated[
        Literal["digest", "full"], '"digest", or "full": records hold the arguments of calls, without tokens'
    ] = "digest"
    proofs: Annotated[
        Literal["keep", "digest"], '"keep": an allowed call\'s bound proof is kept with its record, or "digest" of it'
    ] = "keep"


class Rounds(Section, frozen=True):
    """`[rounds]`: the keys with which `requestState` is sealed for the client. If a file of keys is set, session ids
    are sealed with these keys, too."""

    keys_file: Annotated[
        SecretFile | None, "a file with a base64 32-byte key a line, mode 0600: the first seals, all open"
    ] = None
    state_seconds: Annotated[
        int, Meta(ge=1, le=MAX_STATE_SECONDS), "the number of seconds for which a sealed state opens"
    ] = 600


class Cluster(Section, frozen=True):
    """`[cluster]`: what all gateways of a cluster have in common."""

    keys_file: Annotated[
        SecretFile | None,
        "a file of keys, in place of rounds.keys_file: any gateway that has it goes on with any session",
    ] = None


class Pins(Section, frozen=True):
    """`[pins]`: whether tools must have the definitions in `accredit.lock`."""

    mode: Annotated[
        Literal["enforce", "warn", "off"] | None,
        '"enforce", "warn" to log what differs and let it pass, or "off"; else "enforce" where there is an'
        " accredit.lock",
    ] = None
    fresh_seconds: Annotated[
        int,
        Meta(ge=0, le=MAX_PINS_FRESH_SECONDS),
        "the number of seconds for which a look at the server's tools counts for a caller's next calls; 0: each call"
        " is looked at",
    ] = 60


class Password(Section, frozen=True):
    """`[store.password]`: where the database's password is."""

    file: Annotated[SecretFile, "a file with the password, mode 0600"]


class Store(Section, frozen=True):
    """`[store]`: where used challenges are remembered, and where the log is."""

    url: Annotated[
        StoreText,
        '"memory:", for one process, "sqlite:///FILE", for all of this machine, or "postgresql://USER@HOST/DATABASE",'
        " for many machines",
    ] = "memory:"
    replicas: Annotated[
        Literal["required", "none"] | None,
        'of a postgresql:// store "required", where what is committed has to be on another machine, or "none"',
    ] = None
    max_spent: Annotated[
        Annotated[int, Meta(ge=1)] | None, "of a postgresql:// store the most spent challenges (10,000,000)"
    ] = None
    password: Annotated[Password | None, 'of a postgresql:// store { file = "NAME" } with its password, mode 0600'] = (
        None
    )


class Admin(Section, frozen=True):
    """`[admin]`: a listener for the operator of the gateway: metrics and health."""

    host: Annotated[Name, "the address to listen on for /metrics, /healthz and /readyz"] = "127.0.0.1"
    port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None, "the TCP port to listen on for them; 0 picks a free one"
    ] = None


class RatifyHttp(Section, frozen=True):
    """`[ratify_http]`: Ratify's HTTP binding, for programs that verify proofs here."""

    enabled: Annotated[bool, "whether /v1/ratify/ answers"] = False
    listener: Annotated[Literal["admin", "public"], '"admin", or "public": where the MCP endpoint is'] = "admin"


class Telemetry(Section, frozen=True):
    """`[telemetry]`: where traces and metrics are sent."""

    endpoint: Annotated[Url | None, "the base URL of a collector that takes OTLP over HTTP"] = None
    sample: Annotated[
        float, Meta(ge=0, le=1), "which part of the calls is traced, from 0 to 1, beside those whose callers trace them"
    ] = 0.01
    service_name: Annotated[Name, "what traces and metrics call this gateway (service.name)"] = "accredit"


@decodable
class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The file `accredit.toml`."""

    gateway: Gateway = Gateway()
    upstream: Upstream = Upstream()
    servers: Servers = Servers()
    validation: Validation = Validation()
    tokens: Tokens = Tokens()
    oauth: OAuth = OAuth()
    proofs: Proofs = Proofs()
    tools: Tools = Tools()
    resources: Resources = Resources()
    prompts: Prompts = Prompts()
    attest: Attest = Attest()
    rounds: Rounds = Rounds()
    cluster: Cluster = Cluster()
    pins: Pins = Pins()
    quotas: QuotaList = QuotaList()
    store: Store = Store()
    admin: Admin = Admin()
    telemetry: Telemetry = Telemetry()
    ratify_http: RatifyHttp = RatifyHttp()


SECTIONS: Mapping[str, type[Section]] = get_type_hints(Config)
LISTED = frozenset({"quotas"})
"""Sections that are lists of tables in the file. Here each table has its number, from 0, as its name."""
SECRETS = (("upstream", "env"), ("upstream", "headers"))
"""Tables whose values are never shown."""
