"""The keys of `accredit.toml`: names, types, defaults and what each means. No I/O.

Rules that need two keys, a file or the environment are in `build`; here is what one value can say by itself.
Each description finishes the sentence "KEY is ...": errors and `accredit config schema` show it.
"""

from collections.abc import Mapping
from typing import Literal

from accredit.config.fields import Field
from accredit.config.tables import Section
from accredit.config.values import (
    Bytes,
    Command,
    Endpoint,
    Environment,
    Facts,
    Forwarded,
    Headers,
    IdentityHeader,
    Method,
    Name,
    OptionalScope,
    Path,
    Scope,
    StoreText,
    TokenScope,
    UriPrefix,
    Url,
)
from accredit.limits import (
    CHALLENGE_WINDOW_SECONDS,
    DRAIN_SECONDS,
    GRACE_SECONDS,
    MAX_BOOTSTRAP_TTL_SECONDS,
    MAX_ENDING_SECONDS,
    MAX_STATE_SECONDS,
)


class Gateway(Section):
    """`[gateway]`: where it listens, and its bounds."""

    host: Name = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8484, ge=0, le=65535, description="the TCP port to listen on; 0 picks a free one")
    path: Endpoint = Field(default="/mcp", description="the path of the MCP endpoint")
    id: Name | None = Field(
        default=None, description="this gateway's name in proofs and records; else the id of the key in gateway.key"
    )
    allowed_origins: list[Name] = Field(
        default=[], description="a list of Origin header values that pass beside same-origin loopback"
    )
    allowed_hosts: list[Name] = Field(
        default=["127.0.0.1", "localhost", "[::1]"], description="a list of Host header values that pass"
    )
    passthrough: list[Path] = Field(default=[], description="a list of other paths that are forwarded unread")
    forward_headers: list[Forwarded] = Field(
        default=[], description="a list of headers that go on as well where proofs or tokens are required"
    )
    methods: list[Method] = Field(
        default=[], description="a list of methods beyond MCP's that pass where proofs or tokens are required"
    )
    max_request_bytes: Bytes = Field(default=4_194_304, description="the largest request body, in bytes")
    max_response_bytes: Bytes = Field(default=104_857_600, description="the largest answer of the upstream, in bytes")
    max_event_bytes: Bytes = Field(default=16_777_216, description="the largest SSE event or stdio line, in bytes")
    upstream_timeout_seconds: float = Field(
        default=60.0,
        gt=0,
        allow_inf_nan=False,
        description="the number of seconds for which the upstream may be silent about a request (a command: 3600 where"
        " nothing is said)",
    )
    drain_seconds: int = Field(
        default=DRAIN_SECONDS,
        ge=0,
        le=MAX_ENDING_SECONDS,
        description="for how many seconds it still accepts connections after SIGTERM, with /readyz at 503",
    )
    grace_seconds: int = Field(
        default=GRACE_SECONDS,
        ge=0,
        le=MAX_ENDING_SECONDS,
        description="for how many seconds open calls may go on after that",
    )
    tls_cert_file: Name | None = Field(default=None, description="a PEM file with the endpoint's certificate chain")
    tls_key_file: Name | None = Field(default=None, description="a PEM file with its private key, mode 0600")


class Upstream(Section):
    """`[upstream]`: the server behind the gateway, as a URL or as a command."""

    url: Url | None = Field(default=None, description="the http(s) URL of the MCP server")
    command: Command | None = Field(default=None, description="a stdio server's program and its arguments, as a list")
    env: Environment = Field(default={}, description="a table of environment variables for the command")
    cwd: Name | None = Field(default=None, description="the folder that the command runs in; else that of the file")
    headers: Headers = Field(
        default={}, description='a table of headers for the url, each a string or { env = "NAME" }'
    )
    identity: Literal["none", "meta", "jwt"] = Field(
        default="meta",
        description='how the server is told on whose word an allowed call comes: "meta", "jwt" (a header), or "none"',
    )
    identity_header: IdentityHeader = Field(
        default="Accredit-Identity", description='the name of the header that identity = "jwt" is told in'
    )


class Validation(Section):
    """`[validation]`: what happens to frames that are not valid."""

    responses: Literal["enforce", "observe"] = Field(
        default="enforce", description='"enforce", or "observe" to log and count but forward as it is'
    )


class TokenIssuer(Section):
    """A table of `[[tokens.issuers]]`: whose tokens count. Its keys come from one of three places."""

    issuer: Name = Field(description="who issues the tokens, exactly as in their iss")
    audience: Name = Field(description="whom the tokens must be for (aud): the URL of the MCP endpoint")
    jwks_url: Url | None = Field(default=None, description="the URL of its JWK set: https, or http on loopback")
    jwks_file: Name | None = Field(default=None, description="a file with its JWK set")
    public_key_file: Name | None = Field(default=None, description="a file with its public key, in PEM")
    algorithms: list[Name] = Field(default=["ES256"], description="a list of the algorithms that it may sign with")
    required_scopes: list[Name] = Field(default=[], description="a list of scopes that its tokens must have")


class Bootstrap(Section):
    """`[tokens.bootstrap]`: one session token for a local agent, given by `POST /token`."""

    key_file: Name = Field(description="a private key that `accredit token keygen` made")
    secret_file: Name = Field(description="a file that the gateway writes the one-time secret to, mode 0600")
    issuer: Name = Field(default="accredit", description="the issuer of [[tokens.issuers]] that has its public key")
    ttl_seconds: int = Field(
        default=3600, ge=1, le=MAX_BOOTSTRAP_TTL_SECONDS, description="the number of seconds that the token is good for"
    )


class Tokens(Section):
    """`[tokens]`: whether clients need a bearer token, and whose."""

    mode: Literal["off", "optional", "required"] = Field(
        default="off", description='"off", "optional", or "required": no token, no answer'
    )
    sources: list[Literal["header", "argument", "meta"]] = Field(
        default=["header", "argument", "meta"], min_length=1, description="a list of the places where tokens count"
    )
    bind_agent: Literal["", "sub"] = Field(
        default="", description='"sub": the token\'s subject has to be the agent of the proof'
    )
    issuers: list[TokenIssuer] = Field(default=[], description="a list of tables: whose tokens count")
    bootstrap: Bootstrap | None = Field(default=None, description="a table: a local agent's first session token")


class Root(Section):
    """A table of `[[proofs.roots]]`: a human whose delegations count."""

    name: Name = Field(description="what this human is called in answers to clients and to the upstream")
    public_key_file: Name = Field(description="a file that `accredit keys new --kind human` made, ending in .pub")


class Revocation(Section):
    """`[proofs.revocation]`: which certificates no longer count."""

    files: list[Name] = Field(default=[], description="a list of signed revocation lists, re-read when they change")
    public_key_files: list[Name] = Field(
        default=[], description="a list of public keys, beside those of the roots, whose revocation lists count"
    )


class Proofs(Section):
    """`[proofs]`: whether calls need a proof, and what one has to be like."""

    mode: Literal["off", "required"] = Field(default="off", description='"off", or "required": no proof, no call')
    freshness_seconds: int = Field(
        default=30,
        ge=1,
        le=CHALLENGE_WINDOW_SECONDS,
        description="the number of seconds for which a challenge that a client made is fresh",
    )
    challenge_seconds: int = Field(
        default=60,
        ge=1,
        le=CHALLENGE_WINDOW_SECONDS,
        description="the number of seconds for which a challenge that the gateway issued can be answered",
    )
    binding: Literal["optional", "required"] = Field(
        default="optional", description='"optional", or "required": proofs are bound to the exact call'
    )
    filter_tools: bool = Field(
        default=True,
        description="whether a proof on a list (of tools, resources, prompts) leaves out what it does not cover",
    )
    default_tool_scope: OptionalScope = Field(
        default="", description='the scope of tools that [tools] does not name, or "" to refuse them'
    )
    roots: list[Root] = Field(default=[], description="a list of tables: the humans whose delegations count")
    revocation: Revocation = Field(default=Revocation(), description="a table: which certificates no longer count")
    evaluators: list[str] = Field(
        default=[], description="a list of types of constraints whose evaluators are installed (accredit.constraints)"
    )


class Resource(Section):
    """`[resources."PREFIX"]`: the resources whose URIs begin so."""

    scope: Scope = Field(description="the one concrete scope that a call needs, such as email:send")
    accepts: list[Scope] = Field(default=[], description="a list of scopes of which any satisfies it as well")
    sensitive: bool = Field(default=False, description="whether each call needs a challenge of the gateway's")


class Tool(Resource):
    """`[tools.NAME]`."""

    facts: Facts = Field(
        default={}, description="a table from a constraint's facts to JSON Pointers into the call's arguments"
    )
    token_scope: TokenScope = Field(default="", description='the scope that a token needs for it, or "" for none')


class Tools(Section, entries=(Name, Tool)):
    """`[tools]`: a table for each tool, by its name."""

    @property
    def by_name(self) -> Mapping[str, Tool]:
        """The tables."""
        return self._entries


class Resources(Section, entries=(UriPrefix, Resource)):
    """`[resources]`: the scope of all, and a table for each prefix of a URI that has another."""

    scope: Scope = Field(default="mcp:resource", description="the scope of resources without a table of their own")

    @property
    def by_prefix(self) -> Mapping[str, Resource]:
        """The tables."""
        return self._entries


class Prompts(Section):
    """`[prompts]`."""

    scope: Scope = Field(default="mcp:prompt", description="the scope of all prompts")


class Attest(Section):
    """`[attest]`: whether guarded calls are recorded, and how."""

    mode: Literal["off", "record", "durable"] = Field(
        default="off",
        description='"off", "record", or "durable": on the disk before the call or its answer goes on',
    )
    key_file: Name | None = Field(
        default=None,
        description="the gateway's private key, made by `accredit keys new --kind gateway`; else gateway.key is taken",
    )
    signer: Name | None = Field(
        default=None,
        description="who signs records in place of key_file: a URI of securesystemslib, such as file2:records.pem",
    )
    signer_public_key_file: Name | None = Field(
        default=None, description="a file with the signer's public key: PEM, or JSON of securesystemslib with a keyid"
    )
    arguments: Literal["digest", "full"] = Field(
        default="digest", description='"digest", or "full": records hold the arguments of calls, without tokens'
    )


class Rounds(Section):
    """`[rounds]`: what `requestState` is sealed with on its way to the client."""

    keys_file: Name | None = Field(
        default=None, description="a file with a base64 32-byte key a line, mode 0600: the first seals, all open"
    )
    state_seconds: int = Field(
        default=600, ge=1, le=MAX_STATE_SECONDS, description="the number of seconds for which a sealed state opens"
    )


class Store(Section):
    """`[store]`: where challenges that were spent are remembered, and where the log is."""

    url: StoreText = Field(
        default="memory:", description='"memory:", for one process, or "sqlite:///FILE", for all of this machine'
    )


class Config(Section, title="accredit.toml"):
    """The file `accredit.toml`."""

    gateway: Gateway = Gateway()
    upstream: Upstream = Upstream()
    validation: Validation = Validation()
    tokens: Tokens = Tokens()
    proofs: Proofs = Proofs()
    tools: Tools = Tools()
    resources: Resources = Resources()
    prompts: Prompts = Prompts()
    attest: Attest = Attest()
    rounds: Rounds = Rounds()
    store: Store = Store()


SECTIONS: dict[str, type[Section]] = {name: type(section) for name, section in Config()}
NESTED: Mapping[tuple[str, str], type[Section]] = {
    ("tokens", "issuers"): TokenIssuer,
    ("tokens", "bootstrap"): Bootstrap,
    ("proofs", "roots"): Root,
    ("proofs", "revocation"): Revocation,
}
"""Tables below a key of a section."""
ENTRIES: Mapping[str, type[Section]] = {"tools": Tool, "resources": Resource}
"""Sections with a table for each name that is no key of theirs."""
SECRETS = (("upstream", "env"), ("upstream", "headers"))
"""Tables whose values are never shown."""
FILES = (
    ("upstream", "cwd"),
    ("gateway", "tls_cert_file"),
    ("gateway", "tls_key_file"),
    ("attest", "key_file"),
    ("attest", "signer_public_key_file"),
    ("rounds", "keys_file"),
)
"""Keys whose values are paths of files and folders."""
