"""Every bound on size, count and time that is not configuration: name, unit, reason, source. No I/O."""

# --- JSON-RPC frames --------------------------------------------------------------------------------

MAX_DEPTH = 128
"""Levels of nested JSON arrays and objects. Real MCP traffic stays under 30; parsers that recurse crash near
1,000 (validation brief, "What a valid frame is")."""

MAX_BATCH_MEMBERS = 100
"""Messages in one JSON-RPC batch (revision 2025-03-26 only). The revision names no bound; each member is an
exchange of its own, so this bounds how many one POST can start."""

MAX_QUOTED = 100
"""Characters of a peer's text that an error may quote (contract, section 3)."""

MAX_ENVELOPE_BYTES = 65_536
"""Bytes of a message beside its largest member, where the message is not written compactly: such an envelope
is read by the slow reader, and this bounds the time that a peer can make it take."""

# --- server-sent events -----------------------------------------------------------------------------

MAX_RETRY_DIGITS = 9
"""Digits of an SSE `retry` field (milliseconds): eleven days, more than any client should wait."""

# --- logs -------------------------------------------------------------------------------------------

MAX_LOG_TEXT = 8_192
"""Characters of one text in a log line: a traceback of some 80 frames. A peer must not fill a disk with it."""

# --- the gateway's endpoint -------------------------------------------------------------------------

DISCONNECT_WATCH_SECONDS = 0.05
"""After so long an open call, the gateway begins to watch whether its client is still there. Shorter calls end
sooner than a cancellation could matter."""

KEEP_ALIVE_SECONDS = 15.0
"""A stream to a client that has been silent for so long gets a comment, so that proxies and clients with an idle
timeout (30 s and up are common) keep it open."""

MAX_REMEMBERED_SESSIONS = 10_000
"""Legacy sessions of an HTTP upstream whose revision a worker remembers (about 200 bytes each). A forgotten one
only loses the right to send batches without `MCP-Protocol-Version`."""

AFTERMATH_SECONDS = 0.25
"""After the response of an event stream, the time in which the upstream may end its body properly. Its connection
is reused then, and closed otherwise; the client has had its answer either way."""

MAX_SSE_SESSIONS = 1_000
"""Open HTTP+SSE sessions (revision 2024-11-05). Each holds a connection on both sides, and its open requests."""

# --- the Ratify protocol ----------------------------------------------------------------------------

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader holds exactly (Ratify section 1)."""

MAX_PROOF_BUNDLE_BYTES = 131_072
"""Bytes of a proof bundle's or certificate's text, checked before it is parsed (Ratify section 1)."""

MAX_STATEMENT_BYTES = 4_194_304
"""Bytes of a revocation list's, receipt's or other signed statement's text (Ratify section 12)."""

MAX_JSON_NESTING_DEPTH = 16
"""Levels of a wire object, its own counted as 1; parameters of an extension may nest as deep (Ratify section 1)."""

MAX_DELEGATION_CHAIN_DEPTH = 8
"""Certificates in a chain that a verifier accepts (Ratify section 1)."""

MAX_SCOPES_PER_CERT = 128
"""Scopes of one certificate (Ratify section 1)."""

MAX_CONSTRAINTS_PER_CERT = 32
"""Constraints of one certificate (Ratify section 1)."""

MAX_SCOPE_LENGTH_BYTES = 256
"""UTF-8 bytes of one scope (Ratify section 1)."""

MAX_IDENTIFIER_LENGTH_BYTES = 512
"""UTF-8 bytes of a constraint's `resource_id` (Ratify section 1)."""

MAX_AGENT_NAME_LENGTH_BYTES = 256
"""UTF-8 bytes of a key's name (Ratify section 1)."""

CHALLENGE_WINDOW_SECONDS = 300
"""Age at which a signed challenge is still accepted, in seconds, inclusive (Ratify section 1)."""

MAX_PENDING_CHALLENGES = 10_000
"""Challenges of the memory store that were issued and not yet used (Ratify section 9), some 200 bytes each."""

MAX_CACHED_CERTIFICATES = 65_536
"""Digests of verified certificates that a cache remembers (contract, section 8): about 8 MiB."""

MAX_LOADED_KEYS = 256
"""Public keys that stay loaded, some 11 KiB each (measured): those of agents that call again and again."""

MIN_SIGNED_MAGNITUDE = 1e-4
"""Numbers nearer to zero than this, and not zero, print differently in other implementations: an issuer refuses
them (Ratify section 3)."""
