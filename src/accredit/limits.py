"""Bounds on size, count and time that several files use: name, unit, reason, source. No I/O."""

# --- JSON-RPC frames --------------------------------------------------------------------------------

MAX_DEPTH = 128
"""The most levels of nested JSON arrays and objects. Real MCP traffic stays under 30; parsers that recurse crash near
1,000 (docs/reference/validation.md)."""

MAX_QUOTED = 100
"""The most characters of a peer's text that an error may quote (docs/reference/validation.md)."""

MAX_VALUES = 131_072
"""The most values in a request: elements of arrays and members of objects, at every depth. Reading or digesting them
takes up to 70 ms (measured), and meanwhile nobody else is served. Eighty embeddings of 1,536 numbers have 122,880."""

MAX_META_MEMBERS = 256
"""Members of a request's `_meta`: clients send up to ten."""

SHORT_MESSAGE_BYTES = 65_536
"""The longest client's message, in bytes, that is processed without a pause: that takes some milliseconds. Between the
steps of a longer one, and between the members of such a batch, others are served."""

LONG_ANSWER_BYTES = 1_048_576
"""The longest answer, in bytes, that is opened without a pause: that takes up to 40 ms, if it is all brackets. A longer
one is opened in steps, which costs up to three times as much, but lets others be served."""

DEFAULT_RESPONSE_BYTES = 16_777_216
"""The most bytes of an answer if `max_response_bytes` is not set. Real ones have some 100,000, images some millions."""

MAX_SPLIT_BYTES = 16_777_216
"""The longest part of an answer, in bytes, that is split into its members without a pause, in up to 90 ms: a batch, an
error, a list to be edited. It is the default bound for an event; real ones have some 100,000."""

ITEMS_AT_ONCE = 100
"""Items of a list that are handled in one step, in some 3 ms; between the steps others are served."""

MAX_SESSION_ID_BYTES = 4_096
"""The most bytes of `Mcp-Session-Id`, as a server gives it. A UUID has 36; ids that hold a sealed state have some
500."""

SESSION_ID_SECONDS = 2_592_000
"""How long a sealed session id is valid: 30 days. Few clients run as long, and one that does initializes anew. A stolen
id must not be valid for ever."""

LINE_END_BYTES = 2_048
"""How many bytes at each end of an overlong line are searched for its id: `MAX_ID_CHARS`, and room for other short
members. Programs write the id first, or last."""

MAX_TOOL_LIST_BYTES = 4_194_304
"""The longest `tools/list` result, in bytes, in which header declarations are looked for; a hundred tools make some
200,000. For a longer one, only the upstream checks the headers."""

# --- the gateway's endpoint -------------------------------------------------------------------------

DISCONNECT_WATCH_SECONDS = 0.05
"""The age of an open call at which the gateway begins to watch whether its client is still connected. Shorter calls end
sooner than a cancellation could matter."""

KEEP_ALIVE_SECONDS = 15.0
"""The silence of a stream to a client after which it gets a comment, so that proxies and clients with an idle timeout
(30 s and up are common) keep it open."""

CLIENT_STALL_SECONDS = 30.0
"""How long a client may take to read 256 KiB of its answer, or an event; after that it counts as gone. Its unread data
is in memory, and holds a connection to the upstream, or its session's child."""

ANSWER_PIECE_BYTES = 262_144
"""Bytes of a whole answer that are written at once. Of a larger one, each piece is written only when the client has
read the one before."""

MAX_REMEMBERED_SESSIONS = 10_000
"""The most legacy sessions of an HTTP upstream whose revision a worker remembers (about 200 bytes each). A forgotten
one only loses the right to send batches without `MCP-Protocol-Version`."""

EVENTS_AT_ONCE_BYTES = 8_192
"""Bytes of a stream's events that are passed on before others get a turn. Answers and news of a call are smaller."""

# --- room that callers share ------------------------------------------------------------------------

MAX_CALLS = 2_000
"""The most clients' requests under way to the upstream at once, without streams: each holds a connection on both sides,
or a place with a child. A process on one core answers some 2,000 a second."""

MAX_STREAMS = 1_000
"""The most long-lived streams at once (GET, `subscriptions/listen`, HTTP+SSE sessions). Their room is separate, so that
calls don't wait for it."""

BODY_ROOM_SECONDS = 5.0
"""How long a request waits for room for its body. Clients give a call about a minute, and should see a refusal
sooner."""

BUSY_RETRY_SECONDS = 1
"""How long a client that was refused for lack of room is told to wait before it retries."""

# --- the upstream HTTP client -----------------------------------------------------------------------

MAX_PORT = 65_535
"""The highest port of TCP (RFC 9293 section 3.1). A socket raises `OverflowError` for a higher one."""

MAX_INTERIM_ANSWERS = 8
"""How many answers with a status below 200 may come before the real one. One or two are usual (100, 103). All else that
is fetched has the same bound."""

CONNECT_SECONDS = 10.0
"""The time to resolve the upstream's name, connect to one of its addresses and finish TLS. A reachable peer needs well
under a second; most of a call's own timeout, perhaps a minute, should be left for its answer."""

LARGE_ANSWER_BYTES = 1_048_576
"""The most bytes of an answer, or of an event, that needs none of the room that callers share: few are larger."""

EVENT_TIMES = 2
"""How many copies of an event are in memory: its raw bytes, and its data."""

ASKED_TIMES = 3
"""How many copies of a list that the gateway itself requests are in memory until it was read: its raw bytes, its items,
and their decoded form."""

MAX_HEADERS = 200
"""The most header fields of an answer, trailers included, or of a request. Servers themselves stop at about 100."""

# --- stdio upstreams --------------------------------------------------------------------------------

STOP_GRACE_SECONDS = 2.0
"""How long a child may take to end after its stdin was closed, and again after SIGTERM, before SIGKILL. The official
SDK's client waits as long (2025-11-25, basic/lifecycle, "Shutdown" sets no time)."""

PIPE_BUFFER_BYTES = 262_144
"""The most bytes that wait in memory on one of a child's pipes. If there are more, its output is not read, or nothing
more is written to it."""

MAX_OPEN_REQUESTS = 1_000
"""The most open requests to one session's child, or to the upstream of one HTTP+SSE session; and the most open requests
of a child to clients. Each takes little memory, but nothing else bounds their number."""

BACKOFF_FIRST_SECONDS = 0.5
"""The wait before the second consecutive restart of a shared child that never answered (the first is immediate). It
doubles with each further restart."""

BACKOFF_MAX_SECONDS = 30.0
"""The longest wait before such a restart."""

# --- the endpoint's HTTP server ---------------------------------------------------------------------

LISTEN_BACKLOG = 2_048
"""Connections that the kernel holds until they are accepted. It lowers this to its own bound (4096 on Linux)."""

MAX_REMEMBERED_HEAD_BYTES = 4_096
"""The longest head (a message's header lines), in bytes, that is cached, so that it need not be parsed again. Heads
have up to 1 KiB, with a token some 2 KiB, and rarely change. A request's is held twice, on each connection."""

MAX_REMEMBERED_SESSION_BYTES = 1_024
"""The most bytes of a session's id for which something is remembered. A UUID has 36, sealed 170; ids that hold a sealed
state have some 500, sealed 900. A longer id works as well, without that memory."""

GRACE_SECONDS = 10
"""The time for open calls to finish when the gateway stops, by default. Orchestrators commonly kill after 30 s."""

RESTART_SECONDS = 1
"""The wait before a dead worker is replaced: one that dies at once must not use up a core."""

# --- Mcp-Param-* ------------------------------------------------------------------------------------

MAX_KNOWN_TOOLS = 4_096
"""The most tools whose declared headers are remembered; the one named longest ago is forgotten first."""

MAX_LIST_PAGES = 50
"""The most pages of a tool list that are fetched. A server whose cursors never end must not hold up a call."""

# --- pinned definitions -----------------------------------------------------------------------------

MERGED_ASK_SECONDS = 5.0
"""At the merged endpoint, how long one server may take for its part of a request to all, such as its list of tools.
Measured servers take under a second. If one hangs, the others' answers wait for this time."""

MAX_MERGED_ITEMS = 10_000
"""The most tools, resources or prompts of one server in a merged list, or that one subscription there may name. Each
takes some 25 microseconds on its way to a client. A model, which sees those of all servers, can't use more than a few
hundred."""

MAX_DEFINITIONS = 4_096
"""The most tools of one server that are read from its lists, or from the lock file: as many as are remembered
elsewhere. A client that is offered more than a few hundred chooses badly among them."""

MAX_LISTED_BYTES = 16_777_216
"""The most bytes of all pages of one list of tools that the gateway asks for itself. A hundred tools make some
200,000."""

MAX_LOCK_BYTES = 67_108_864
"""The most bytes of `accredit.lock`: several servers whose lists are as long as they may be."""

DEFAULT_TERMINAL = (80, 24)
"""Columns and rows of a terminal that does not say how large it is."""

MAX_LOOK_ALIKE_CHARS = 256
"""How many characters of a tool's name are compared with other names. Without this bound, a name of a megabyte would
take a second. The specification asks for names of at most 128."""

# --- the Ratify protocol ----------------------------------------------------------------------------

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader holds exactly (Ratify section 1)."""

MAX_PROOF_BUNDLE_BYTES = 131_072
"""The most bytes of a proof bundle's or certificate's text, checked before it is parsed (Ratify section 1)."""

MAX_STATEMENT_BYTES = 4_194_304
"""The most bytes of a revocation list's, receipt's or other signed statement's text (Ratify section 12)."""

MAX_DELEGATION_CHAIN_DEPTH = 8
"""The most certificates in a chain that a verifier accepts (Ratify section 1)."""

MAX_SCOPES_PER_CERT = 128
"""The most scopes of one certificate (Ratify section 1)."""

MAX_SCOPE_LENGTH_BYTES = 256
"""The most UTF-8 bytes of one scope (Ratify section 1)."""

MAX_IDENTIFIER_LENGTH_BYTES = 512
"""The most UTF-8 bytes of a constraint's `resource_id` (Ratify section 1)."""

MAX_AGENT_NAME_LENGTH_BYTES = 256
"""The most UTF-8 bytes of a key's name (Ratify section 1)."""

MAX_KEY_FILE_BYTES = 16_384
"""The most bytes of a key file. One with both seeds and the longest name has some 3,500."""

MAX_DELEGATION_FILE_BYTES = 122_880
"""The most bytes of a delegation file: the 131,072 of a proof, without its agent's key and signature (some 7,500)."""

CHALLENGE_WINDOW_SECONDS = 300
"""The age, in seconds, up to which a signed challenge is accepted, inclusive (Ratify section 1)."""

# --- tokens -----------------------------------------------------------------------------------------

MAX_TOKEN_BYTES = 16_384
"""The most characters of a bearer token. Large ones (group claims of big directories) have some 8 KiB; servers commonly
stop at 8 to 64 KiB for all headers."""

MAX_CACHED_TOKENS = 4_096
"""The most verified tokens that are remembered with their claims: about 1 KiB each, at most 40 KiB each."""

MAX_KEY_SET_BYTES = 262_144
"""The most bytes of an issuer's key set. A large one (ten RSA keys with their certificate chains) has 60 KB."""

ACCESS_TOKEN_REQUEST_SECONDS = 10.0
"""The time for one request for an access token, waiting for room included. Authorization servers answer well within a
second."""

MAX_VALUE_FILE_BYTES = 65_536
"""The most bytes of a file with a header's value or a variable for a command: a service account's key has 2,500. Linux
takes at most 131,072 of a variable."""

MAX_POLICY_BYTES = 1_048_576
"""The most bytes of a configuration whose digest a session token names. One with 500 tools has 60 KB."""

MAX_PEM_BYTES = 16_384
"""The most bytes of a file with one key, in PEM or as JSON of securesystemslib. An RSA key of 8,192 bits has 6.4 KB."""

# --- the decision -----------------------------------------------------------------------------------

CLOCK_LEAD_SECONDS = 2
"""How far the clock may be ahead of a client that made its own challenge. Synchronised clocks differ by less; some
clients round. Our client dates its challenges back by this time, since some verifiers accept no challenge from the
future."""

MAX_URI_LENGTH = 8_192
"""The most characters of a resource's URI, where prefixes decide its scope: servers differ in how they read longer
ones."""

# --- stores -----------------------------------------------------------------------------------------

USE_MARKS = 1_000
"""Parts of a rate limit's window that are counted separately: thousandths of it, but never less than a second."""

MAX_USE_MARKS = 1_048_576
"""The most such parts that have at least one use, of all certificates and quotas together, some 100 bytes each
(measured). They are enough for quotas of 20,000 busy callers."""

USE_TOTAL_TURN = 1 << 61
"""When the uses of a series (one certificate, one window) add up to this, they are counted anew: a database's integers
end at 2**63. It is more than a thousand windows of the largest quota."""

STORE_SWEEP_ROWS = 2_000
"""Expired rows of a table that a process deletes per second, in some 20 ms (measured); it can't add as many."""

CLOCK_BACK_SECONDS = 10
"""How far the machine's clock may be set back without refusals: uses and tasks are kept that much longer than they
count. A synchronised clock is set back by less than a second."""

STORE_WAIT_SECONDS = 2.0
"""The time for a store's answer, whatever delays it; then the call is refused."""

STORE_LOCK_SECONDS = 1.5
"""The time to wait for another process's lock on an SQLite file: a commit holds it for less than a millisecond. It is
shorter than the whole wait, so that the log says what the delay was."""

MAX_STORE_JOBS = 10_000
"""The most jobs that wait for an SQLite file; more are refused at once. A hanging disk must not fill the memory."""

STORE_BATCH_JOBS = 256
"""Jobs that are committed together, in some milliseconds, for which other processes wait for the lock."""

CLOCK_SKEW_WARN_SECONDS = 2.0
"""A difference between the clocks of a gateway and its database from which it is logged. Synchronised: milliseconds."""

MAX_PASSWORD_BYTES = 4_096
"""The most bytes of a file with a database's password. Tokens of cloud services, which serve as one, have some
1,500."""

MAX_SPENT_IN_DATABASE = 10_000_000
"""The most spent challenges in a database, unless `store.max_spent` says otherwise: 33,000 a second for the whole
fleet, and some 2 GB."""

REVOCATION_CHECK_SECONDS = 0.5
"""The interval between checks whether a revocation list has changed. A change takes effect within 2 s."""

# --- the agent's side -------------------------------------------------------------------------------

MAX_KNOWN_TARGETS = 4_096
"""The most tools, resources and prompts whose scopes a client remembers. The one learned longest ago is forgotten
first; its next call is then refused once."""

MAX_TOLD_REASON_CHARS = 500
"""The most characters of a gateway's reason for a refusal that a person is shown. Ours have some 200, except for lists
of scopes; what matters about a constraint stands at the end."""

MAX_TOLD_URL_CHARS = 200
"""The most characters of a gateway's URL that a person is shown: enough to distinguish URLs, and two fit into a
refusal."""

MAX_ANSWER_BYTES = 16_777_216
"""The most bytes of a server's message that a client reads: an answer, a server-sent event, a line. As many as a
gateway passes by default. With one rare character among them they take 64 MiB, as text."""

MAX_ANSWER_VALUES = 131_072
"""The most values of such a message, at any depth, as of a request: 25 MiB, and 40 ms."""

MAX_TYPED_VALUES = 16_384
"""The most values of such a message that the SDK's models check (not those in structured content or schemas). A wrong
one makes five errors, of some 900 bytes each: 75 MiB in all. 2,000 tools have as many values."""

MAX_REFUSAL_BYTES = 1_048_576
"""The most bytes of an HTTP error's body that a client reads: a gateway's has a line or two."""

RENEW_SECONDS = 30.0
"""The time for a server to begin a new session, and for each step that sets it up again: the same as for a
connection."""

# --- accredit init, accredit check --------------------------------------------------------------------

SERVER_LISTS_SECONDS = 60.0
"""The time for a server to start and to list all its tools. One that is installed when it is first run takes half of
that."""

MAX_SAID_CHARS = 200
"""The most characters of a tool's description that a configuration quotes: a sentence or two."""

# --- attestations and their log ---------------------------------------------------------------------

MAX_ATTESTATION_BYTES = 67_108_864
"""The most bytes of one envelope that are read. A record with full arguments of 4 MiB has some 6 MB."""

MAX_RECORDED_TEXT = 1_000
"""The most characters of a reason, a detail, a session's id or a revision that a record keeps; those of our own errors
have some 200, ids some 40. The latter two come in headers, which may be as long as a head."""

RECORDS_OF_A_CALL = 16
"""How many records are read to find out whether an open call has an outcome. A call has two at most. Another call whose
random id begins with the same 64 bits is not there by accident."""

MAX_LEFT_WRITERS = 1_000
"""How many dead writers of a log a process leaves open and remembers, because the log's entries of them do not verify.
Once there are as many, it examines no further ones."""

MAX_RECORDED_CHAINS = 64
"""For how many certificate chains the recorded form is cached for the next call: 11 KB a certificate, and at most eight
certificates each."""

MAX_RECORDED_TARGET = 2_048
"""The most characters of a call's target that its record keeps; the digest of its params covers all of it. A refused
caller must not be able to fill the disk with a name."""

RECORDS_A_TURN = 256
"""Records that are written at a time (some 20 ms), before others get their turn."""

FOLLOW_SECONDS = 0.25
"""The interval at which `log list -f` looks at the log."""

SHORT_ID_CHARS = 12
"""Hex digits of an id that tables on a terminal show, 48 bits: two of a million are the same once in 500 logs."""

MAX_KEY_FILES = 1_000
"""The most public keys beside a configuration that are searched for names: a tenth of a second or so."""

# --- multi-round-trip requests ----------------------------------------------------------------------

MAX_ROUNDS = 10
"""How often one call is repeated with input, by default. The official SDK has the same limit."""

MAX_DIALOGS = 16
"""The most requests for input from one server that are open at once in a client. In the legacy era, a call may make
this many for each of its rounds, as a call with rounds could."""

LEG_SECONDS = 60.0
"""The time for one leg of a call, by default: what the gateway gives an upstream."""

MAX_STATE_SECONDS = 86_400
"""The longest time for which a sealed `requestState` opens: a day, as it waits for a person's answer."""

# --- tasks --------------------------------------------------------------------------------------------

MAX_TASKS_PER_OWNER = 1_000
"""The most tasks of one owner at one server, so that nobody uses up the room of others. A list of tasks is filtered by
up to so many names for each server."""

TASK_SECONDS = 86_400
"""How long a task without a `ttl` is remembered: a day, so that its owner may sleep."""

MAX_TOLD_TASKS = 1_000
"""The most tasks whose notifications one session or subscription receives: as many as an owner can have at one
server."""

# --- agents (A2A) -----------------------------------------------------------------------------------

MAX_AGENT_ID_CHARS = 1_024
"""The most characters of an id of a task, a context, a message or a skill. The SDKs make UUIDs, of 36."""

# --- consent ------------------------------------------------------------------------------------------

MAX_SERVER_WORDS_BYTES = 1_024
"""The most bytes of a server's words about a tool that a question to a person (an ask) repeats."""

MAX_PRINCIPALS = 8
"""The most people whom an ask may name. An agent has one principal, or one for each of a few delegations."""

MAX_CONSENT_ANSWER_BYTES = 131_072
"""The most bytes of an answer: a chain of certificates, which has to fit into a proof."""

ASK_SECONDS = 600
"""How long an ask is valid: a person who is at hand answers within ten minutes. A delegation for one call is valid for
the same time."""

ASK_PROGRESS_SECONDS = 5.0
"""How often a host is told that a person's answer is awaited. Hosts give up after a silent minute, and proxies cut a
connection that is idle as long."""

MAX_ASKS = 1_000
"""The most asks that gateways hold at once, of each kind: those that a person is shown, and those that wait for their
code to be typed. Strangers can begin the latter, so one of the address that has most of them gives way to a new one.
Each has up to 260 KiB with its answer, and most have some 20."""

MAX_SEALED_ASK_BYTES = 135_168
"""Bytes of a sealed ask: 96 KiB, in base64."""

LIKE_CALLS = 5
"""How many similar calls a person is offered to allow together with the requested one, by default."""

LIKE_SECONDS = 3_600
"""For how long such similar calls are allowed, by default: an hour, the time of one errand of an agent."""

MAX_LIKE_CALLS = 100
"""The most calls that can be allowed at once without reading each. For more, a person signs a delegation (`grant`)."""

MAX_UNFOLDED_CHARS = 1_000
"""The most characters of one value of a call that are shown before it is unfolded: what fits on a screen."""

MAX_UNFOLDED_LINES = 20
"""The most lines of such a value that are shown before it is unfolded."""

HOLD_SECONDS = 50.0
"""How long `connect` holds a call while a person decides, by default. Hosts give up after a minute or more."""

# --- the desk -----------------------------------------------------------------------------------------

LOGIN_LINK_SECONDS = 60
"""How long a link to the desk's page is valid. It works once."""

MAX_PASSPHRASE_BYTES = 1_024
"""The most bytes of a passphrase."""

# --- reload -------------------------------------------------------------------------------------------

MAX_PEM_CHAIN_BYTES = 1_048_576
"""The most bytes of the server's certificates, and of their key. A chain has some 10 KiB."""

RELOAD_LOOK_SECONDS = 0.02
"""During a reload, the interval at which the parent of the workers reads what they report."""

MAX_RELOAD_TEXT = 4_096
"""The most bytes of a report on one reload: it is sent in one datagram, and kept in one file."""

MAX_CALL_FILTER_CHARS = 500
"""The most characters of a filter of calls: it is in the page's address."""

# --- hosts' files -------------------------------------------------------------------------------------

MAX_HOST_TEXT_CHARS = 131_072
"""The most characters of a host's YAML or TOML file: to edit so many takes some seconds. Real ones have some 10,000."""

HEALTH_SECONDS = 3.0
"""How long the desk waits for a gateway's `/readyz`."""

MAX_HEALTH_BYTES = 65_536
"""The most bytes of a gateway's `/readyz` that a desk reads."""

MAX_ASKED_LISTS = 4
"""The most revocation lists about which one request of `/readyz` asks: a person has one in a store, and one in a
file."""

MAX_FINDING_CHARS = 2_000
"""The most characters that `accredit doctor` prints on one thing. It may quote texts that are longer."""

DOCTOR_SECONDS = 8.0
"""How long each check of `accredit doctor` may take; all are made at the same time. A gateway has `HEALTH_SECONDS`."""

DOCTOR_DATABASE_SECONDS = 4.0
"""How long a connected database may take to report its condition. Each statement reads only the database's catalog."""

# --- watching it run ---------------------------------------------------------------------------------

EXPORT_SECONDS = 10.0
"""How long the collector may take for one request in all; it is the protocol's default. No call waits for it."""
