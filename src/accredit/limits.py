"""Every bound on size, count and time that is not configuration: name, unit, reason, source. No I/O."""

# --- JSON-RPC frames --------------------------------------------------------------------------------

MAX_DEPTH = 128
"""Levels of nested JSON arrays and objects. Real MCP traffic stays under 30; parsers that recurse crash near
1,000 (docs/reference/validation.md)."""

MAX_BATCH_MEMBERS = 100
"""Messages in one JSON-RPC batch (revision 2025-03-26 only). The revision sets no bound; each member is an exchange of
its own, so this bounds how many one POST can start."""

MAX_QUOTED = 100
"""Characters of a peer's text that an error may quote (docs/reference/validation.md)."""

MAX_NUMBER_LENGTH = 400
"""Characters of a JSON number that is read as an integer. The largest that is finite as a double has 309 digits."""

MAX_EXTREME_NUMBERS = 10_000
"""Numbers of 1e100 and more in one body: each is converted to see whether it is finite (0.5 us). Real data has a few
sentinels such as 1.7976931348623157e308."""

MAX_MEMBERS = 65_536
"""Members of one JSON object whose names the gateway reads (a message, its params, its result). Real ones have tens; a
body of 100 MiB could hold 20 million, at some 300 bytes of memory each."""

MAX_PARAMS_MEMBERS = 1_024
"""Members of a request's `params`, whose names are read at every step. MCP defines up to six."""

MAX_VALUES = 131_072
"""Values in a request: elements of arrays and members of objects, at every depth. Reading or digesting them takes up to
70 ms (measured), during which nobody else is served. Eighty embeddings of 1,536 numbers have 122,880."""

MAX_STRUCTURES = 65_536
"""Arrays, objects and members of objects in a request, at every depth. They cost three times as much as a number, and
real requests have a few hundred; a map with 20,000 points has 40,000."""

MAX_METHOD_CHARS = 256
"""Characters of a request's method. MCP's longest has 36; extensions prefix theirs with a domain name."""

MAX_ID_CHARS = 1_024
"""Characters of a request's id that is a string. Clients count, or take a UUID of 36."""

MAX_TARGET_CHARS = 8_192
"""Characters of a call's target: a tool's or prompt's name (128, says MCP), or a resource's URI (8,000 octets, which
RFC 9110 section 4.1 asks recipients to support)."""

MAX_META_MEMBERS = 256
"""Members of a request's `_meta`: clients send up to ten."""

MAX_META_NAME_CHARS = 256
"""Characters of the name of such a member: a domain name of at most 253, and the member's own name."""

ONE_PASS_BYTES = 262_144
"""Bytes of a text that one pass of a fast parser reads (some 0.2 ms). It keeps up to 14 times as much memory for it, of
which it touches what the largest text so far has needed; longer texts are read in slices."""

MAX_PLAIN_RESULT_MEMBERS = 64
"""Members of a modern result whose names are looked at one by one as the fast parser gives them; real ones have five. A
larger result is split."""

SHORT_MESSAGE_BYTES = 65_536
"""Bytes of a message of a client that is worked on at one go: some milliseconds. Between the steps of a longer one, and
the members of such a batch, others have their turn."""

LONG_STEP_SECONDS = 0.002
"""The time of a step of long work after which others have more than one turn: the longest take 60 ms."""

TURNS_BETWEEN_LONG_STEPS = 8
"""Turns of the loop that others have then. A recorded call takes about ten, some of them waits for other processes."""

MOST_REST_SECONDS = 0.1
"""The most time that others have then: as much as the step took. A longer one is none of ours, but a machine that
stalls."""

LONG_ANSWER_BYTES = 1_048_576
"""Bytes of an answer that is opened at one go: up to some 40 ms, where it is all brackets. A longer one is opened in
steps, which costs up to three times as much and lets others have their turn."""

DEFAULT_RESPONSE_BYTES = 16_777_216
"""Bytes of an answer where `max_response_bytes` is not set. Real ones have some 100,000, images some millions."""

MAX_RESPONSE_BYTES = 104_857_600
"""The most that it may be set to: each answer is whole in memory before any of it goes on."""

MAX_SPLIT_BYTES = 16_777_216
"""Bytes of a part of an answer that is split into its members at one go, in up to 90 ms: a batch, an error, a list that
is edited. It is the default bound for an event; real ones have some 100,000."""

MAX_SPLIT_BRACKETS = 1_048_576
"""Arrays and objects in such a part, at every depth. To skip one takes as long as ten other bytes; definitions of tools
that are nothing but schemas have one in 22 bytes."""

MAX_LISTED_ITEMS = 65_536
"""Items of a list that is split: tools, tasks, blocks of content. Each takes some 80 bytes, and some 25 microseconds
on its way to a client; in 16 MiB there is room for eight million."""

SEARCHED_BYTES = 1_048_576
"""Bytes of a long value that are searched at one go, for whether a word is in it: a millisecond or two."""

ITEMS_AT_ONCE = 100
"""Items of a list that are looked at in one step, in some 3 ms; in between others have their turn."""

MAX_NUMBER_BYTES = 1_048_576
"""Bytes of a JSON number that is looked at, for whether it is finite; a longer one counts as too large. The fast parser
takes none that is longer than `ONE_PASS_BYTES`."""

MAX_SESSION_ID_BYTES = 4_096
"""Bytes of `Mcp-Session-Id`, as a server gives it. A UUID has 36; ids that hold a sealed state have some 500."""

MAX_SEALED_SESSION_ID_BYTES = 6_144
"""Bytes of a session's id as the gateway has sealed it: a server's longest in base64url, and some 200 more. That of a
UUID has some 170. Balancers take heads of 8 KiB and more."""

MAX_MERGED_EVENT_ID_BYTES = 4_096
"""Bytes of an event's id of the merged endpoint, which holds one of each server's. Official SDKs number events, or give
them UUIDs: it has room for those of 38 servers. It comes back in a header, beside others."""

MERGED_EVENT_NAME_BYTES = 40
"""Bytes of a server's name in such an id: names have 32 characters at most, and the rest is how they are packed."""

MERGED_ID_BYTES = 72
"""Bytes that a server takes in the id of a merged session beside its own id: names have 32 characters at most, replicas
16, revisions 10, and the rest is how they are packed. So there is room for the UUIDs of 37 servers."""

REOPEN_FIRST_SECONDS = 1.0
"""How long after the end of one server's part of a merged stream it is opened again; twice as long each time that this
fails. Servers' own `retry` is about as long."""

REOPEN_MAX_SECONDS = 30.0
"""The longest such wait: a server that is back is heard of within it, and one that is gone costs a try in it."""

SESSION_ID_SECONDS = 2_592_000
"""For how long a sealed session's id opens: 30 days. Few clients run for as long, and one that does initializes anew;
but an id that was found somewhere is not good for ever."""

MAX_REWRITTEN_NUMBERS = 25_000
"""Numbers of one text that its canonical form rewrites one by one (1 us each): integers beyond 2^53-1, fractions nearer
to zero than 1e-5, and those from 1e16 on. Measurements have a few; lists of large ids some thousands."""

MAX_ENVELOPE_BYTES = 65_536
"""Bytes of an invalid line in which the id that it answers is looked for, by a slow and lenient reader."""

LINE_END_BYTES = 2_048
"""Bytes at each end of an overlong line in which its id is looked for: `MAX_ID_CHARS`, and the other short members.
Programs write the id first, or last."""

MAX_TOOL_LIST_BYTES = 4_194_304
"""Bytes of a `tools/list` result in which header declarations are looked for; a hundred tools make some 200,000. In a
longer one none are found, and only the upstream checks its headers."""

MAX_SCHEMA_BYTES = 262_144
"""Bytes of one tool's `inputSchema` in which header declarations are looked for. Decoded, it takes up to 30 times as
much memory."""

MAX_PARAM_HEADERS = 64
"""Headers that one tool may declare. Servers stop at about 100 header fields of a request."""

MAX_EVENT_LINES = 100_000
"""Lines of one server-sent event. Servers write one to four; indented JSON of a megabyte makes some 40,000. Each costs
a microsecond, so that lines of a byte would cost more than any other input."""

# --- logs -------------------------------------------------------------------------------------------

MAX_LOG_TEXT = 8_192
"""Characters of one text in a log line: a traceback of some 80 frames. A peer must not fill a disk with it."""

# --- the gateway's endpoint -------------------------------------------------------------------------

DISCONNECT_WATCH_SECONDS = 0.05
"""The age of an open call from which the gateway watches whether its client is still connected. Shorter calls end
sooner than a cancellation could matter."""

KEEP_ALIVE_SECONDS = 15.0
"""The silence of a stream to a client after which it gets a comment, so that proxies and clients with an idle timeout
(30 s and up are common) keep it open."""

UNJUDGED_HEAD_SECONDS = 1.0
"""How long a stream's head waits for the first event with data to come and be judged. Until then a bad answer can still
be replaced whole; most calls are over by then. Clients and proxies wait for a head for ten seconds and more."""

BODY_GRACE_SECONDS = 10.0
"""How late a request's body may be: its first bytes, and whatever a slow or interrupted line delays."""

MIN_BODY_BYTES_PER_SECOND = 65_536
"""The minimum rate of a body after that grace: memory held for it is held from others. 0.5 Mbit/s."""

PREFLIGHT_SECONDS = 600
"""How long a browser may cache what a page may send. Chromium caches for two hours at most; a change of the
configuration should take effect sooner."""

CLIENT_STALL_SECONDS = 30.0
"""How long a client may take to read 256 KiB of its answer, or an event; after that it counts as gone. Its unread data
is in memory, and holds a connection to the upstream, or its session's child."""

ANSWER_PIECE_BYTES = 262_144
"""Bytes of a whole answer that are written at once; of a larger one each piece waits until the client has read the one
before."""

ONE_WRITE_BYTES = 65_536
"""Bytes of an answer that are held so as to leave in one write with its head; more leave at once, so that the
transport's own bound on buffered data applies."""

MAX_KNOWN_PEERS = 1_024
"""Addresses of clients of which is remembered whose they are, so that it is not worked out again for every request
(about 200 bytes each). A forgotten one is worked out again."""

MAX_REMEMBERED_SESSIONS = 10_000
"""Legacy sessions of an HTTP upstream whose revision a worker remembers (about 200 bytes each). A forgotten one only
loses the right to send batches without `MCP-Protocol-Version`."""

AFTERMATH_SECONDS = 0.25
"""How long after the response of an event stream the upstream may take to end its body properly. Its connection is then
reused, otherwise closed; the client has its answer either way."""

EVENTS_PIECE_BYTES = 16_384
"""Bytes of an event stream, or of a child's lines, that are judged at a time: of the smallest events (three bytes each)
in some 15 ms."""

EVENTS_AT_ONCE_BYTES = 8_192
"""Bytes of them that need no turn: answers, and the news of a call, are smaller, and wait for nobody who has more."""

PIECE_COSTS_BYTES = 1_024
"""Bytes that the smallest piece of a stream counts for: each is read and written by itself."""

# --- room that callers share ------------------------------------------------------------------------

MAX_CALLS = 2_000
"""Clients' requests under way to the upstream at once, without streams: each holds a connection on both sides, or a
place with a child. A process on one core answers some 2,000 a second."""

MAX_STREAMS = 1_000
"""Long-lived streams at once (GET, `subscriptions/listen`, HTTP+SSE sessions). Their room is separate, so that calls
don't wait for it."""

RESERVED_SHARE = 0.25
"""The share of each kind of room that unauthenticated callers never get, where tokens or proofs are required."""

MAX_LARGEST_BODIES = 16
"""Requests of `max_request_bytes` that are in memory at once, each until it is answered: 64 MiB as a rule. Smaller ones
share that room."""

MAX_BODIES_BYTES = 67_108_864
"""The same in bytes, where `max_request_bytes` is smaller than 4 MiB."""

SMALL_BODY_BYTES = 65_536
"""Bytes of a body that takes no such room if it arrives at once, as calls do (some 1 KiB): as many are read from each
connection anyway. A slow body counts for at least as many."""

LARGE_BLOCK_BYTES = 131_072
"""The size from which a block of memory is returned to the system as soon as it is free. Mapping one takes some
microseconds; messages of the usual size have smaller ones."""

MAX_WAITING_BODIES = 64
"""Requests that wait for such room, each with up to 320 KiB that were read already."""

BODY_ROOM_SECONDS = 5.0
"""How long they wait: clients commonly give a call a minute, and should see a refusal before they give up."""

BUSY_RETRY_SECONDS = 1
"""What a refused client is told to wait before it retries, if there was no room."""

# --- the upstream HTTP client -----------------------------------------------------------------------

UPSTREAM_SILENCE_SECONDS = 60.0
"""How long a server behind HTTP may be silent, before the first byte of its answer and between events, by default.
Servers of event streams send comments every 15 s or so; one that is cut off sends none."""

CONNECT_SECONDS = 10.0
"""The time to resolve the upstream's name, connect to one of its addresses and finish TLS. A reachable peer needs well
under a second; most of a call's own timeout, perhaps a minute, should be left for its answer."""

REACHABLE_SECONDS = 2.0
"""The same for `/readyz`, whose callers (orchestrators) commonly wait for one to five seconds."""

MAX_ADDRESSES = 8
"""Addresses of the upstream's name that are tried, each with its share of the time to connect."""

IDLE_SECONDS = 4.0
"""How long a connection is kept for the next request. Common servers (Node, uvicorn) close after five seconds of
silence, and a request that meets their FIN is lost, as it can't be sent again."""

LARGE_ANSWER_BYTES = 1_048_576
"""Bytes of an answer, or of an event, that take no room: few are larger."""

MAX_ANSWERS_BYTES = 134_217_728
"""Bytes of larger ones in memory at once, until each has gone on: eight of the default `max_response_bytes`."""

EVENT_TIMES = 2
"""How often an event is held: as it came, and its data."""

ASKED_TIMES = 3
"""How often a list is held that the gateway asks for itself, until it was read: as it came, its items, and what is made
of them."""

MAX_WAITING_ANSWERS = 64
"""Answers of one server that wait for such room, each with up to twice `HIGH_WATER_BYTES` that were read already, or
with as much as it holds."""

MAX_PREPARED_HEADS = 256
"""Heads of clients' requests for which it is remembered what goes to the server: a client sends the same each time.
Each has at most `MAX_REMEMBERED_HEAD_BYTES`, and is held twice."""

MAX_ANSWER_HEADS = 8
"""Heads of one server's answers that are remembered, so that the same need not be parsed again: the same comes for each
call, but for its length and, each second, its date. One is looked for among them in some 0.1 us each. Each has at most
`MAX_REMEMBERED_HEAD_BYTES`."""

MAX_IDLE_CONNECTIONS = 64
"""Connections kept for the next request. More calls than this at once pay for new connections."""

MAX_CONNECTIONS = 3_200
"""Connections to the upstream in all, a file descriptor each: for `MAX_CALLS`, `MAX_STREAMS`, and the gateway's own
requests, of which there are few at a time."""

MAX_ANSWER_TO_NOTHING = 65_536
"""Bytes of a body that a server sends in answer to a notification or a response, which are owed none: they are read, so
that the connection can be reused. Real ones say `{}` or `Accepted`, or are a page of HTML."""

ANSWER_TO_NOTHING_SECONDS = 5.0
"""How long such a body may take. Nobody waits for it."""

MAX_UNASKED_BODIES = 64
"""Such bodies that are read at once, each with a connection, at all servers together. Most come with their head, and
are not among them; what is saved is a new connection."""

MIN_UNASKED_BODIES = 4
"""The same at one of many servers."""

UNASKED_LOG_SECONDS = 60.0
"""The time between two lines of the log about such bodies of one server: it sends one for each notification."""

MAX_CHORES = 256
"""Messages that wait to be sent to one server, and whose answer nobody waits for: ends of sessions, cancellations. They
are a courtesy: what a server that does not take them makes too many of is left out."""

MAX_CHORES_AT_ONCE = 64
"""Those that are under way, each with a connection, at all servers; a server that answers takes some milliseconds."""

MIN_CHORES_AT_ONCE = 4
"""The same at one of many servers."""

MAX_REPLICAS = 32
"""URLs of one server. Each has connections of its own, and is looked at for each request: beyond that a balancer of its
own does it better."""

BREAKER_FAILURES = 5
"""Requests in a row that a replica fails to answer before it is left out: fewer could be chance, more make more callers
wait for nothing."""

BREAKER_SECONDS = 30.0
"""For how long a replica is left out: a restart takes seconds, and one caller may wait for the trial that follows."""

BREAKER_JITTER = 0.1
"""The share of that time by which it varies, so that workers and gateways do not all try a replica at once."""

MAX_HEAD_BYTES = 65_536
"""Bytes of an answer's header names and values, and of what an upstream may send without any body in between (an
endless status line, chunk extension or trailer). Servers themselves stop at 8 to 64 KiB."""

MAX_HEADERS = 200
"""Header fields of an answer, trailers included, or of a request. Servers themselves stop at about 100."""

MAX_INTERIM_ANSWERS = 8
"""Answers with a status below 200 before the real one; one or two are usual (100, 103)."""

HIGH_WATER_BYTES = 262_144
"""Bytes of a body that may wait for their reader; above that the connection is not read. One read of the event loop
brings at most as much again."""

MAX_PIECES = 256
"""Pieces in which these bytes may wait before they are put together: a piece costs some 50 bytes of its own."""

DECODED_PIECE_BYTES = 65_536
"""Bytes of decoded content that are in memory at once beside what their reader keeps."""

DECODED_STEP_BYTES = 1_048_576
"""Bytes of an answer that are decoded at one go: some milliseconds. Then others have their turn."""

ENCODED_STEP_BYTES = 262_144
"""Bytes of a compressed answer that are read at one go: with some 13,000 empty members in them, some 30 ms."""

MAX_GZIP_MEMBERS = 100_000
"""Members of one gzip stream, each about a microsecond of setting up for as little as 20 bytes. Writers that split
their output (bgzip) make one per 64 KiB."""

# --- stdio upstreams --------------------------------------------------------------------------------

STOP_GRACE_SECONDS = 2.0
"""How long a child may take to end after its stdin was closed, and again after SIGTERM, before SIGKILL. The official
SDK's client waits as long (2025-11-25, basic/lifecycle, "Shutdown" sets no time)."""

EXIT_SECONDS = 2.0
"""The maximum time from the end of a child's output to its exit for its clients to be told the exit code: a busy
machine may stop a process between the two."""

GROUP_POLL_SECONDS = 0.02
"""The interval between checks whether a process group is empty: the kernel has no notification for that."""

PIPE_BUFFER_BYTES = 262_144
"""Bytes that wait in memory on one of a child's pipes; above that its output is not read, or nothing more is written to
it."""

STDERR_LINE_CHARS = 1_000
"""Characters of one line of a child's stderr that reach the log; the rest of the line is left out."""

STDERR_LINES_PER_SECOND = 50
"""Lines of one child's stderr that reach the log per second; the rest are only counted."""

REFUSED_LINES_PER_SECOND = 10
"""Refused lines of a child's stdout that are logged per second; all are counted."""

MAX_SESSIONS = 128
"""Legacy sessions at once: each is a child process, of 20 to 100 MiB, and three descriptors."""

MIN_SESSIONS = 8
"""Of these, what each of many stdio servers has at least: as many clients as a person runs."""

CHILD_SILENCE_SECONDS = 3_600.0
"""How long a child may be silent about a request, by default. Its process can be seen to be alive, and tools that
build, search or wait for people take many minutes without a word."""

SESSION_IDLE_SECONDS = 1_800.0
"""How long a session may be without a request or a stream before it ends, with its child. Clients that leave without a
DELETE are common; one that comes back later gets a 404 and initializes anew (2025-11-25, basic/transports)."""

SESSION_LEFT_SECONDS = 300.0
"""The same for a session whose client had a long-lived stream and has none any more. The official SDKs keep theirs for
as long as they run, and reopen a broken one within seconds: a client that doesn't has left. Its child holds some 60
MiB."""

MAX_OPEN_REQUESTS = 1_000
"""Requests that one session's child, or the upstream of one HTTP+SSE session, has to answer at once, and as many that
clients have to answer a child: each takes little memory, but nothing else bounds their number."""

REPLAY_EVENTS = 256
"""Events of one stream that are kept for a client that lost its connection and resumes."""

REPLAY_BYTES = 1_048_576
"""Bytes of these events, not counting the newest until it was sent: it may be the response."""

REPLAY_STREAMS = 8
"""Finished streams of one session that can still be resumed; a client notices a lost connection within seconds."""

RETRY_MILLISECONDS = 1_000
"""What a client is told to wait before it resumes (2025-11-25, basic/transports, "Sending messages")."""

UNSENT_BYTES = 262_144
"""Bytes that wait for one client of a session; above that the session's child is not read until they are sent."""

SHARED_UNSENT_BYTES = 1_048_576
"""Bytes that may wait for one client of the shared child when more comes for it; above that the client is cut off,
since the others must not wait for it."""

BACKOFF_FIRST_SECONDS = 0.5
"""The wait before the second consecutive restart of a shared child that never answered (the first is immediate); it
doubles."""

BACKOFF_MAX_SECONDS = 30.0
"""The longest such wait."""

# --- the endpoint's HTTP server ---------------------------------------------------------------------

MAX_DESCRIPTORS = 8_192
"""Open files of a process: a client's connection and one to the upstream for each call under way, twice over. Many
systems start with a limit of 1,024."""

MAX_CLIENT_CONNECTIONS = 4_096
"""Connections of clients at once: half of the descriptors; the rest is for the upstream side. There can be fewer
streams, calls and slow bodies under way than this, so there is always an idle connection to close."""

MAX_TLS_HANDSHAKES = 512
"""Connections still in the TLS handshake, beside those that are past it. Honest ones take two round trips: some hundred
a second are under way at once. Above that, the oldest of the address with the most is dropped."""

TLS_HANDSHAKE_SECONDS = 10.0
"""The time for a client to finish the TLS handshake. It is two round trips, a second each on the slowest lines."""

TLS_CLOSE_SECONDS = 2.0
"""The time for a client to confirm the end of TLS before its connection is closed. Most don't confirm it."""

MAX_WORKERS = 64
"""Processes of `--workers` that share a port: more than the cores of most machines, and few enough to be one's own."""

ACCEPTS_A_TURN = 64
"""Connections accepted in one turn of the loop, at some 50 microseconds each, before others get their turn."""

ACCEPT_RETRY_SECONDS = 0.1
"""The wait before the next accept if no file descriptor was left."""

MAX_PIPELINED_REQUESTS = 16
"""Requests of one connection that wait for the answer to an earlier one. Clients and proxies send one at a time; a
read of the event loop brings some 10,000 at once, each of which costs a kilobyte and, when its turn comes, time."""

LISTEN_BACKLOG = 2_048
"""Connections that the kernel holds until they are accepted; it lowers this to its own bound (4096 on Linux)."""

MAX_REQUEST_HEAD_BYTES = 65_536
"""Bytes of a request outside its body, at a time: its head, its trailers, a chunk's extension. Clients and proxies
themselves stop at 8 to 64 KiB."""

MAX_REMEMBERED_HEAD_BYTES = 4_096
"""Bytes of a head that is remembered, so that the same need not be parsed again: clients say the same for each call,
most in less than 1 KiB, with a token in some 2 KiB; so do servers. A request's is held twice, on each connection."""

MAX_REMEMBERED_VALUE_BYTES = 256
"""Bytes of one header's name or value of which is remembered what it says, for a few hundred of them: a host's name has
up to 253. A longer one, which may fill a whole head, is read each time."""

MAX_REMEMBERED_SESSION_BYTES = 1_024
"""Bytes of a session's id of which something is remembered. A UUID has 36, sealed 170; ids that hold a sealed state
have some 500, sealed 900. A longer one only goes without."""

REQUEST_HEAD_SECONDS = 20.0
"""The time from a connection's beginning, or the first byte of its next request, to the end of that request's head. A
head is one or two packets; a connection that sends none holds a file descriptor."""

CLIENT_IDLE_SECONDS = 75
"""How long an idle connection of a client is kept: longer than common proxies keep theirs (60 s), so that they close
first, as they know when they will send."""

DRAIN_SECONDS = 0
"""For how long a gateway that is told to stop still accepts, where nothing is configured: without a load balancer
before it, nobody would learn anything meanwhile."""

GRACE_SECONDS = 10
"""The time for open calls to finish after that, where nothing is configured: orchestrators commonly give 30 s before
they kill."""

MAX_ENDING_SECONDS = 3600
"""The longest of these two that can be configured, as the longest call is an hour, too: what takes longer is more
likely another unit than meant."""

RESTART_SECONDS = 1
"""The wait before a dead worker is replaced: one that dies at once must not use up a core."""

# --- Mcp-Param-* ------------------------------------------------------------------------------------

MAX_DECLARED_CHARS = 8_192
"""Characters of the headers that one tool declares, and of the paths to their arguments: 64 of 128 each. What a tool
declares is remembered, for `MAX_KNOWN_TOOLS`: a schema's own bound would let a server fill a gigabyte."""

MAX_KNOWN_TOOLS = 4_096
"""Tools whose declared headers are remembered; the one named longest ago is forgotten first."""

MAX_KNOWN_TOOL_NAME_CHARS = 1_024
"""Characters of a tool's name that is remembered for its own `_token`. The specification asks for names of at most 128;
without a bound the names of a hostile server could fill gigabytes."""

MAX_LIST_PAGES = 50
"""Pages of a tool list that are fetched: a server whose cursors never end must not hold up a call."""

TOOL_LIST_FRESH_SECONDS = 10.0
"""The interval between requests for the tool list: calls to unknown tools must not cause as many requests."""

# --- pinned definitions -----------------------------------------------------------------------------

HONORED_TIMES = 2
"""How many times as long as the client's request what one of several servers says of it in the acknowledgement of a
subscription may be: it is a part of what was asked, perhaps spelled in another way."""

MERGED_ASK_SECONDS = 5.0
"""The time that one of several servers has for its part of what all are asked for at the merged endpoint, such as its
whole list of tools. Those that were measured take under a second; one that hangs holds the others' answers up for so
long."""

ASK_ERA_AGAIN_SECONDS = 30.0
"""How long after a server has answered neither `server/discover` nor `initialize` it may be asked for a session again:
whoever asks what the merged endpoint speaks would else cause one request more at it, or one child, each time."""

MAX_MERGED_ITEMS = 10_000
"""Tools, resources or prompts of one server in a merged list, and those of which one subscription there is told. Each
costs some 25 microseconds on its way to a client, who is shown the others' as well; more than a few hundred are no use
to a model."""

MAX_MERGED_INSTRUCTIONS_CHARS = 65_536
"""Characters of the servers' instructions at the merged endpoint, of which each has an equal part: clients put them
into a model's context."""

MANY_TOOLS = 128
"""Tools at the merged endpoint beyond which that is logged: clients with limits have them about there, and models pick
badly among more."""

MAX_DEFINITIONS = 4_096
"""Tools of one server that are read from its lists, or from the lock: as many as are remembered otherwise. A client
that is offered more than a few hundred picks badly among them."""

MAX_DEFINITION_BYTES = 1_048_576
"""Bytes of one tool's definition. Real ones have some thousand; to digest this much takes 40 ms, in which nobody
else is served."""

MAX_LISTED_BYTES = 16_777_216
"""Bytes of all pages of one list of tools that the gateway asks for itself. A hundred tools make some 200,000."""

MAX_LOCK_BYTES = 67_108_864
"""Bytes of `accredit.lock`: several servers whose lists are as long as they may be."""

MIN_TERMINAL_COLUMNS = 20
"""Columns in which texts are wrapped at least: in less there is no room for a margin, a mark and a word."""

DEFAULT_TERMINAL = (80, 24)
"""Columns and rows of a terminal that does not say how large it is."""

MAX_MARGIN_LEVELS = 4
"""Levels of values by which a row is set in; of deeper ones the row says the level. As on the desk's page."""

MAX_MARKS_IN_A_ROW = 2
"""Combining marks that are shown in a row. Vietnamese stacks two; piles of them cover what stands beside them."""

MAX_LOOK_ALIKE_CHARS = 256
"""Characters of a tool's name that are compared with other names, so that a megabyte of a name costs no second. The
specification asks for names of at most 128."""

MAX_PINS_FRESH_SECONDS = 3600
"""The longest for which a look may count: what a server says anew goes unseen for so long."""

MAX_PINNED_CALLERS = 4_096
"""Callers for whom the gateway remembers its last look at the tools; for others it looks again."""

MAX_DIFFERENCES_BYTES = 8_388_608
"""Bytes that all such looks at one server take, of what is not as it is pinned: nothing where all is. A server that
shows each caller all its tools otherwise fills them with 1 MiB a caller; who is forgotten is looked for anew."""

MAX_DIFFERENCE_BYTES = 256
"""What one tool that is not as it is pinned takes of them, beside a name that is not the lock's: a digest's text (113
bytes) and its place in a table."""

MAX_STRAY_DEFINITIONS = 16
"""Tools of one look that are not pinned, whose digests are remembered for refusals: up to 20 KB for each caller.
Servers get one or two more at a time; a hostile one lists thousands."""

MAX_LOOKS = 32
"""Lists of tools that the gateway asks for itself at the same time; further calls wait, within `LOOK_SECONDS`."""

LOOK_SECONDS = 10.0
"""The time for such a list, with all its pages. Without one there is no call, so this is how long a slow server holds a
call up; the servers that were measured list a hundred tools in under a second."""

MAX_REMEMBERED_DIGESTS = 8_192
"""Definitions whose digests are remembered by the SHA-256 of their text, at some 200 bytes each: servers list the same
text again and again, and the canonical form takes eight times as long as that hash."""

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

MAX_KEY_FILE_BYTES = 16_384
"""Bytes of a key file. One with both seeds and the longest name has some 3,500."""

ARGON2_MEMORY_KIB = 65_536
"""Memory that turning a passphrase into a key takes (RFC 9106 section 4, the second choice): each guess costs as much.
"""

ARGON2_PASSES = 3
"""How often that memory is gone through (RFC 9106): half a second in all."""

ARGON2_LANES = 4
"""Threads that do it (RFC 9106)."""

MIN_ARGON2_MEMORY_KIB = 8_192
"""The least memory that a key file may name: Argon2 with less is quick to guess at."""

MAX_ARGON2_MEMORY_KIB = 1_048_576
"""The most memory that a key file may name, 1 GiB: a hostile one must not take the machine's."""

MAX_ARGON2_PASSES = 16
"""The most passes that a key file may name: with 1 GiB, a minute."""

MAX_ARGON2_LANES = 16
"""The most threads that a key file may name."""

MAX_PASSPHRASE_FILE_BYTES = 1_024
"""Bytes of a file that holds a passphrase, with its line's end."""

ADVISED_PASSPHRASE_CHARS = 15
"""Characters below which a new passphrase is warned of: whoever copies the key's file tries the short ones in turn,
and Argon2id makes that only dearer. NIST SP 800-63B-4 (3.1.1.2) wants as many of a password that
stands alone."""

MAX_DELEGATION_FILE_BYTES = 122_880
"""Bytes of a delegation file: of the 131,072 of a proof, what its agent's key and signature (some 7,500) leave."""

CHALLENGE_WINDOW_SECONDS = 300
"""Age at which a signed challenge is still accepted, in seconds, inclusive (Ratify section 1)."""

MAX_PENDING_CHALLENGES = 10_000
"""Challenges of the memory store that were issued and not yet used (Ratify section 9), some 200 bytes each."""

MAX_CACHED_CERTIFICATES = 65_536
"""Digests of verified certificates that a cache remembers: about 8 MiB."""

MAX_GLIMPSED_TEXTS = 4_096
"""Beginnings of certificates' texts that were seen once, some 250 bytes each."""

MAX_REMEMBERED_TEXTS = 256
"""Texts of certificates that were seen again, remembered with the decoded certificate."""

MAX_REMEMBERED_TEXT_BYTES = 16_384
"""Bytes of such a text. One with a few scopes has 11 KB; with its object and two loaded keys of 11 KiB each (measured),
256 of them are at most 14 MiB."""

MIN_SIGNED_MAGNITUDE = 1e-4
"""Numbers nearer to zero than this, and not zero, print differently in other implementations: an issuer refuses
them (Ratify section 3)."""

MAX_REMEMBERED_SIGNATURES = 1_024
"""Functions of a guarded server whose parameters are remembered with what reads them, some 10 KiB each: more tools than
a model is offered."""

# --- tokens -----------------------------------------------------------------------------------------

MAX_TOKEN_BYTES = 16_384
"""Characters of a bearer token. Large ones (group claims of big directories) have some 8 KiB; servers commonly stop at
8 to 64 KiB for all headers."""

IDENTITY_SECONDS = 60
"""The lifetime of the gateway's token for the server behind it: long enough for a slow server whose clock is slightly
off, and too short to be of use to somebody who reads it in a log."""

TOKEN_LEEWAY_SECONDS = 30
"""By how much an issuer's clock may be off (RFC 7519 sections 4.1.4 and 4.1.5 allow "a few minutes" at most)."""

MAX_CACHED_TOKENS = 4_096
"""Verified tokens that are remembered with their claims: about 1 KiB each, and at most 40 KiB."""

MAX_KEY_SET_BYTES = 262_144
"""Bytes of an issuer's key set. A large one (ten RSA keys with their certificate chains) has 60 KB."""

MAX_KEYS_IN_SET = 100
"""Keys of one set. Issuers publish two to ten."""

MAX_CANDIDATE_KEYS = 4
"""Keys that one token is tried with, if its `kid` does not name exactly one: two while keys are rotated."""

MIN_RSA_BITS = 2_048
"""The smallest RSA key (RFC 7518 section 3.3)."""

MAX_RSA_BITS = 8_192
"""The largest RSA key: verifying a signature takes time that grows with the square of its size (16,384 bits: 1 ms)."""

KEYS_FRESH_SECONDS = 300.0
"""The age at which a key set is fetched again: a key that its issuer has withdrawn is accepted for so long."""

KEYS_REFETCH_SECONDS = 60.0
"""The interval between fetches of a known key set: tokens with invented key ids must not cause as many requests."""

KEYS_RETRY_SECONDS = 5.0
"""The interval between fetches of a key set that is not known yet: until it is, every token is refused."""

KEYS_STALE_SECONDS = 86_400.0
"""The age at which a key set that can't be fetched is no longer used. An issuer that is down for a night locks nobody
out."""

KEYS_FETCH_SECONDS = 10.0
"""The time for one fetch, redirects included. Issuers answer well within a second."""

MAX_KEYS_REDIRECTS = 3
"""Redirects of one fetch, all within one origin."""

ACCESS_TOKEN_REQUEST_SECONDS = 10.0
"""The time for one request for an access token, waiting for room included. Authorization servers answer well within a
second."""

ACCESS_TOKEN_RETRY_SECONDS = 2.0
"""For how long a request for an access token that failed is not repeated: an authorization server that is down is not
flooded, and calls work again soon after it is back."""

ACCESS_TOKEN_DROP_SECONDS = 5.0
"""The interval in which one token that the upstream refuses is dropped: an upstream that answers 401 to everything, or
to one tool, must not make as many requests of the authorization server."""

ACCESS_TOKEN_MARGIN_SECONDS = 10.0
"""How long before its end an access token is no longer used, or a tenth of its lifetime if that is less: clocks differ,
and the request is on its way for a while."""

ACCESS_TOKEN_RENEW_SECONDS = 60.0
"""How long before its end a token in use is renewed, while calls go on with it; or a quarter of its lifetime if that is
less."""

UNTOLD_TOKEN_SECONDS = 60
"""The lifetime of an access token of which its answer says none (RFC 6749 section 5.1 only recommends that it does)."""

MAX_ACCESS_TOKEN_SECONDS = 86_400
"""For how long an access token is used at the most, whatever its answer says: what an authorization server takes back
is out of use within a day."""

MAX_TOLD_TOKEN_SECONDS = 10_000_000_000
"""The longest lifetime that an answer may tell, some 300 years: a larger number is a mistake, such as nanoseconds."""

MAX_ACCESS_TOKENS = 4_096
"""Access tokens that are remembered for one upstream, one for each caller whose token is exchanged: some 2 KiB each,
and at most 17 KiB."""

MAX_TOKEN_REQUESTS = 32
"""Requests for access tokens at once: callers of whom nothing is known yet wait for each other, not for those who have
one."""

MAX_TOKEN_ANSWER_BYTES = 65_536
"""Bytes of an answer with an access token: the longest token, and an id token and a refresh token that nobody asked
for."""

MAX_CLIENT_SECRET_BYTES = 4_096
"""Bytes of a file with a client's secret. Generated ones have 32 to 80."""

MAX_VALUE_FILE_BYTES = 65_536
"""Bytes of a file with a header's value or a variable for a command: a service account's key has 2,500. Linux takes at
most 131,072 of a variable."""

MAX_POLICY_BYTES = 1_048_576
"""Bytes of a configuration whose digest a session token names. One with 500 tools has 60 KB."""

MAX_TOML_NAME_PARTS = 16
"""Parts of a dotted name in TOML. The deepest of a configuration has six; parsing one takes the square of its parts."""

MAX_PEM_BYTES = 16_384
"""Bytes of a file with one key, in PEM or as JSON of securesystemslib. An RSA key of 8,192 bits has 6.4 KB."""

# --- the decision -----------------------------------------------------------------------------------

CLOCK_AHEAD_SECONDS = 60
"""How far the clock of whoever signs a challenge issued here may be ahead. Its lifetime is measured by our own
clock."""

CLOCK_LEAD_SECONDS = 2
"""How far the clock of a client that made its own challenge may be ahead: synchronised clocks differ by less, and some
clients round. Our own client dates its challenges back by as much, for verifiers that accept none from their future."""

MAX_RATE_WINDOW_SECONDS = 31 * 86_400
"""The longest window in which uses are counted, as counts are kept so long. A month is the longest common billing
period."""

MAX_TOLD_TARGET_CHARS = 512
"""Characters of a call's target that its refusal repeats."""

MAX_URI_DECODINGS = 4
"""How many times over a resource's URI may be percent-encoded; nobody names a resource with more."""

MAX_MARKS = 30
"""Consecutive combining marks in a resource's URI: as many as Unicode's stream-safe format allows (UAX #15, section
13)."""

MAX_URI_LENGTH = 8_192
"""Characters of a resource's URI, where prefixes decide its scope: servers differ in how they read longer ones."""

# --- stores -----------------------------------------------------------------------------------------

MAX_SPENT_CHALLENGES = 262_144
"""Spent challenges that a store remembers, some 200 bytes each (measured): 870 a second, if each is remembered for 300
seconds. Each has cost somebody a valid proof; issued challenges are not remembered."""

USE_MARKS = 1_000
"""Parts of a rate limit's window that are counted separately: thousandths of it, but never less than a second."""

MAX_USE_MARKS = 1_048_576
"""Such parts with at least one use, of all certificates and quotas, some 100 bytes each (measured): quotas of 20,000
busy callers."""

QUOTA_MARKS = 50
"""Parts of a quota's window that are counted separately: quotas count many more callers than delegations do."""

MAX_QUOTAS = 32
"""Quotas of a configuration: each is a line that a call's transaction writes."""

QUOTA_MOST = 1_000_000_000
"""Calls, or the sum of what they are about, that a quota may allow: sums are counted in millionths, and a database's
integers have 19 digits."""

USE_TOTAL_TURN = 1 << 61
"""What the uses of a series may count for until it is counted anew, as a database's integers end at 2**63: more than a
thousand windows of the largest quota."""

STORE_SWEEP_ENTRIES = 100
"""Expired entries that one request removes from memory, in some microseconds: no request pays for a flood."""

STORE_SWEEP_ROWS = 2_000
"""Expired rows of a table that a process deletes per second, in some 20 ms (measured); it can't add as many."""

CLOCK_BACK_SECONDS = 10
"""How far the machine's clock may be set back without refusals: uses and tasks are kept for so much longer than they
count. A synchronised clock is set back by less than a second."""

STORE_WAIT_SECONDS = 2.0
"""The time for a store's answer, whatever delays it; then the call is refused."""

SIGNER_TRIAL_SECONDS = 30.0
"""The time for another signer of records to make its first signature, at the start: reaching a remote service, with all
that this needs, takes some seconds."""

STORE_LOCK_SECONDS = 1.5
"""The time to wait for another process's lock on an SQLite file: a commit holds it for less than a millisecond. It is
shorter than the whole wait, so that the log says what the delay was."""

STORE_RETRY_SECONDS = 0.0005
"""The interval between attempts to take such a lock."""

STORE_FILE_CHECK_SECONDS = 1.0
"""The interval between checks whether a store's file is still the one that is open."""

MAX_STORE_JOBS = 10_000
"""Jobs that wait for an SQLite file; more are refused at once. A hanging disk must not fill the memory."""

STORE_BATCH_JOBS = 256
"""Jobs that are committed together, in some milliseconds, for which other processes wait for the lock."""

STORE_CONNECT_SECONDS = 1.0
"""The time for a connection to one host of a database. Across a network one takes some milliseconds, of which a
password's check is the most; it leaves half of the whole wait for what was to be asked."""

STORE_SECOND_PRIMARY_SECONDS = 0.1
"""How long, once one host has said that it is the primary, the others are waited for: another one may be it by now."""

STORE_CHECK_SECONDS = 10.0
"""The interval between checks of a database's settings and clock while it is asked. They take three short questions."""

STORE_TEND_SECONDS = 1.0
"""The interval between deletions of expired rows by one process, while it asks: of `STORE_SWEEP_ROWS` each at most."""

STORE_TEND_AGAIN_SECONDS = 0.1
"""The same where so many had expired: more may have. A process deletes 20,000 rows a second, in some 50 ms (measured),
which is more than it can add."""

STORE_PAUSE_SECONDS = (0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
"""The pause after so many failures of a database in a row, and after more the last: in the pause calls are refused at
once. A new primary is found within it, and a server whose standby is gone, and which keeps what each attempt left
(100 connections by default), lasts for minutes."""

DATABASE_KEEP_SECONDS = 60
"""How long a row of a database is kept after its end, by the database's clock. It is more than clocks may differ."""

DATABASE_LATE_SECONDS = 30
"""How long after its end, by the database's clock, a row can still be added: for clocks that differ. It is less than
rows are kept, so that none is added again while another process is deleting it."""

CLOCK_SKEW_SECONDS = 5.0
"""How far the clocks of a gateway and its database may differ; beyond, calls are refused."""

CLOCK_SKEW_WARN_SECONDS = 2.0
"""The difference that is logged. Synchronised clocks differ by milliseconds."""

RESTORED_SECONDS = 300
"""How long a database that was restored answers nothing: as long as a proof that was spent before can be fresh
(`CHALLENGE_WINDOW_SECONDS`)."""

MAX_DATABASE_HOSTS = 8
"""Hosts of one database. All are connected to at once; a cluster has three."""

MAX_PASSWORD_BYTES = 4_096
"""Bytes of a file with a database's password. Tokens of cloud services, which serve as one, have some 1,500."""

MAX_SPENT_IN_DATABASE = 10_000_000
"""Spent challenges in a database, unless `store.max_spent` says otherwise: 33,000 a second for the whole fleet, and
some 2 GB."""

REVOCATION_CHECK_SECONDS = 0.5
"""The interval between checks whether a revocation list has changed. A change takes effect within 2 s."""

SEEN_LISTS = 1_024
"""Issuers of revocation lists of which all workers know how new their newest list is: 16 KiB. Of more, two that share a
place make a new worker refuse rather than forget."""

# --- the agent's side -------------------------------------------------------------------------------

MAX_KNOWN_GATEWAYS_BYTES = 1_048_576
"""Bytes of a file of known gateways: some 8,000 of them."""

KNOWN_GATEWAYS_SECONDS = 0.5
"""How long a client waits for another process that reads and changes this file: it takes a millisecond or two, and one
that is stopped would stop all others."""

KNOWN_GATEWAYS_LOOK_SECONDS = 0.002
"""How often it looks meanwhile."""

MAX_KNOWN_TARGETS = 4_096
"""Tools, resources and prompts whose scope a client remembers; the one learned longest ago is forgotten first, and
costs one refused call more."""

MAX_TOLD_REASON_CHARS = 500
"""Characters of a gateway's reason for a refusal that a person is shown. Ours have some 200, except for lists of
scopes; what matters about a constraint stands at the end."""

MAX_TOLD_URL_CHARS = 200
"""Characters of a gateway's URL that a person is shown: enough to distinguish URLs, and two fit into a refusal."""

MAX_ANSWER_BYTES = 16_777_216
"""Bytes of a server's message that a client reads: an answer, a server-sent event, a line. As many as a gateway passes
by default. With one rare character among them they take 64 MiB, as text."""

MAX_ANSWER_VALUES = 131_072
"""Values of such a message, at any depth, as of a request: 25 MiB, and 40 ms."""

MAX_TYPED_VALUES = 16_384
"""Values of such a message where the SDK's models look: not of structured content, nor of schemas. Of each that is not
what it should be they make five errors, of some 900 bytes each: 75 MiB. 2,000 tools have as many."""

MAX_CALL_CHARS = 67_108_864
"""Characters of what a server says in all while a call is open: four of the longest answers."""

MAX_NOTIFICATION_CHARS = 262_144
"""Characters of a server's notification at a client: those of its progress wait for the host's callback, and with one
rare character among them these take 1 MiB each. Other clients' hosts show a line of them."""

MAX_CALL_ASKED_CHARS = 8_388_608
"""Characters of what a server asks for while a call is open: requests that wait for a person or a model are kept. As
many as some pictures have, for a model to look at; with one rare character in each they take 32 MiB."""

MAX_WAITING_PROGRESS = 16
"""Notifications of a call's progress that wait for a host's callback, which is called for one at a time. Of more the
oldest are left out: a server may tell them as fast as it likes."""

MAX_ANSWER_LONG_DIGITS = 1_048_576
"""Digits of such a message in numbers of a hundred and more: a number costs as the square of its digits. At 4,300, the
most that is read as an integer, so many take 30 ms, and 80 to be written again."""

MAX_HOST_LINE_BYTES = 16_777_216
"""Bytes of a host's message that `accredit connect` reads."""

MAX_REFUSAL_BYTES = 1_048_576
"""Bytes of an HTTP error's body that a client reads: a gateway's has a line or two."""

MAX_PRESENTED = 4
"""Delegations that are tried for one call, one after the other: each that is refused is a record in a log."""

MAX_PROOFS_OF_REQUEST = MAX_PRESENTED + 2
"""Proofs that a client makes for one request, whatever is answered: one for a scope that was assumed wrongly, one for a
call that was read the other way, and one with each delegation that is tried. A hostile server had 199 of a call."""

SILENCE_SECONDS = 3_600.0
"""How long a gateway may send no message while a request waits, by default: an hour, for long-running tools."""

MIN_RESUME_SECONDS = 0.1
"""The shortest wait before a client resumes a stream of events, whatever `retry` the server names: for 0 it made
thirty requests a second, as long as the call was open. Servers that mean to be asked again name a second or so."""

RENEW_SECONDS = 30.0
"""The time for a server to begin a new session, and for each step that sets it up again: the same as for a
connection."""

MAX_RENEWED_SUBSCRIPTIONS = 1_000
"""Subscriptions of a session that are made again in the next one; beyond that the oldest are dropped."""

MAX_RENEWABLE_SESSIONS = 1_000
"""Clients' sessions at a merged endpoint of which a process knows what it takes to begin one server's part anew."""

MAX_RENEWABLE_BYTES = 65_536
"""What of it is kept of each: the client's `initialize` (some 300 bytes), and the URIs that it has subscribed to."""

MAX_TRIES = 2
"""Sessions that may end under one request: one that meets the end of another new session as well fails."""

# --- the first token of a local agent -----------------------------------------------------------------

MAX_BOOTSTRAP_BYTES = 4_096
"""Bytes of the request for it: a secret and a name."""

MAX_BOOTSTRAP_AGENT_CHARS = 256
"""Characters of an agent's name there; the id of a key has 32."""

MAX_BOOTSTRAP_ATTEMPTS = 10
"""Wrong secrets until the right one is useless, too: whoever can read the file needs one attempt."""

MAX_BOOTSTRAP_TTL_SECONDS = 86_400
"""The longest lifetime of such a token: a day, as it can't be revoked individually."""

# --- accredit init, accredit check --------------------------------------------------------------------

SERVER_LISTS_SECONDS = 60.0
"""The time for a server to start and to list all its tools. One that is installed when it is first run takes half of
that."""

SERVERS_ASKED_AT_ONCE = 8
"""Servers of a configuration that `accredit check` asks at one time: each may start a program of 100 MB."""

ASK_NOTICE_SECONDS = 10.0
"""The wait for such a list after which the user is told. Servers that need not be installed start in a second or two,
and are asked twice."""

MAX_SETUP_REDIRECTS = 5
"""Redirects that `accredit init` follows: http servers add a slash, or take one away, in one."""

ENDPOINT_EVENT_SECONDS = 5.0
"""The time for the first event of a stream that may be HTTP+SSE: servers send it at once."""

MAX_ENDPOINT_EVENT_BYTES = 65_536
"""Bytes of that event, which names a URL."""

MAX_OVERHEARD_LINES = 20
"""Last lines of a server's stderr that are shown if it could not be asked: a traceback, or npm's complaint."""

MAX_LISTED_EXAMPLES = 10
"""Resources, templates or prompts of a server that a configuration quotes: enough to see what they are about."""

MAX_TIMEOUT_SECONDS = 86_400.0
"""The longest `--timeout`: a day. Nobody waits longer for a silent server."""

MAX_SAID_CHARS = 200
"""Characters of a tool's description that a configuration quotes: a sentence or two."""

MAX_SUGGESTED_TARGETS = 10_000
"""Targets, of one agent each, that `accredit suggest` tells apart: 20 MB of the longest names."""

MAX_SUGGESTED_OF_AGENT = 500
"""Those of one agent: one that makes up names takes no room that others need, and nobody reads more."""

MAX_REPLAYED_CHANGES = 1_000
"""Lines of what `accredit replay` finds decided otherwise; nobody reads more, and the rest is counted."""

MAX_GRANT_TARGETS = 64
"""Targets that one suggested delegation names: a certificate may have 128 scopes, and people are to read it."""

MAX_GRANT_TARGET_CHARS = 8_192
"""Characters of the targets that one suggested delegation names; a proof has 128 KiB at most, and its keys need 10."""

MAX_TOLD_TARGETS = 20
"""Targets that are named of those calls that stay refused for one reason."""

MAX_SCOPE_WORD_CHARS = 48
"""Characters of a server's or tool's name that go into a suggested scope; a scope has 256 bytes at most."""

# --- attestations and their log ---------------------------------------------------------------------

MAX_ATTESTATION_BYTES = 67_108_864
"""Bytes of one envelope that are read. A record with full arguments of 4 MiB has some 6 MB."""

MAX_RECORD_BYTES = 33_554_432
"""Bytes of what is recorded of a call: a longer record could not be read again, in base64 (`MAX_ATTESTATION_BYTES`)."""

MAX_SIGNATURE_MEMBERS_BYTES = 65_536
"""Bytes of a signature's further members, as canonical JSON. A sigstore bundle has some 10 KB."""

MAX_CANONICAL_RESULT_BYTES = 262_144
"""Bytes of a result that is put into canonical form for its digest (up to 0.1 s, if it is all fractions); a longer
one's own bytes are digested."""

MAX_RECORDED_TEXT = 1_000
"""Characters of a reason, a detail, a session's id or a revision that a record keeps; those of our own errors have some
200, ids some 40. The latter two come in headers, which may be as long as a head."""

CHECKPOINT_RECORDS = 1_000
"""Records of a writer after which it signs a checkpoint (0.7 ms for ML-DSA-65), whatever the time."""

CLOSED_AT_ONCE = 16
"""Open calls of a dead writer that are closed at a time: in a log of ten million records it takes 40 ms to see that one
has no outcome, and others wait meanwhile."""

RECORDS_OF_A_CALL = 16
"""Records that are looked at to see whether an open call has an outcome: it has two at most, and one of another call
whose random id begins with the same 64 bits is somebody's doing."""

MAX_RECORDS_OF_A_CALL_BYTES = 67_108_864
"""Bytes of these together that are read: two of the longest. Who may write the store could have each as long as an
envelope may be, a gibibyte in all."""

LOG_TAIL_ENTRIES = 200_000
"""Entries from the end of a log's file among which the last one of a chain is looked for (0.2 s): a writer that died is
found within seconds, during which others add some 20,000 at most."""

MAX_LEFT_WRITERS = 1_000
"""Dead writers of a log that a process remembers as left, since what the log holds of them does not verify; when they
are as many, it looks at no other."""

MAX_VERIFIED_OPEN_CALLS = 100_000
"""Rows of the list of open calls that `log verify` looks at: more than any number of gateways has open at once. Each
costs a signature's check and 100 bytes of memory; a list that is longer is a fault."""

MAX_UNVERIFIED_CALLS = 1_000
"""Open calls of one writer that do not verify, after which its others are left unseen: each costs a signature's
check."""

CHECKPOINT_SECONDS = 10.0
"""The maximum time from a record to the checkpoint that covers it: if records within it are cut off, nobody notices."""

MAX_RECORDED_CHAINS = 64
"""Chains of certificates whose recorded form is kept for the next call on them: 11 KB a certificate, eight at most."""

MAX_RECORDED_TARGET = 2_048
"""Characters of a call's target that its record keeps; the digest of its params covers all of it. A refused caller must
not be able to fill the disk with a name."""

RESUME_SECONDS = 300.0
"""The time for a client to resume a stream that was cut off, after which its calls count as unanswered. Clients come
back within seconds; servers that make them poll say when (`retry`)."""

MAX_CUT_OFF_CALLS = 1_000
"""Calls whose streams were cut off and that wait to be resumed, each with what the record of its outcome needs: some
2 KiB, whatever its arguments."""

STRANGER_RECORDS = 1_000
"""Records of unauthenticated calls, refused before the gate, that a process may write in a burst, some 1.3 KiB each:
anybody who merely reaches the gateway must neither fill its disk nor displace others' records."""

STRANGER_RECORDS_PER_SECOND = 1.0
"""How fast room for more of them returns: 100 MB a day at most. Someone who tries tokens by hand stays below."""

MAX_STRANGER_MESSAGE_BYTES = 262_144
"""Bytes of a message with such a call: calls have some 10 KB at most, and digesting 4 MiB takes some 20 ms."""

STRANGER_BODY_SECONDS = 1.0
"""The time for the body of a request that is refused for its header: it follows the head at once, or is not waited
for."""

MAX_QUEUED_RECORDS = 10_000
"""Records that wait to be written, some 2 KiB each without arguments; beyond that, calls are refused."""

MAX_QUEUED_RECORD_BYTES = 67_108_864
"""Bytes of records that wait to be written, with arguments and certificates."""

MAX_KEPT_OUTCOMES = 10_000
"""Known outcomes that wait until a durable log can be written again: more than there can be open calls."""

MAX_KEPT_OUTCOME_BYTES = 16_777_216
"""Bytes of such outcomes, some 1 KiB each: they hold no arguments."""

RECORDS_A_TURN = 256
"""Records that are written at a time (some 20 ms), before others get their turn."""

RECORDS_A_TURN_ELSEWHERE = 16
"""The same where another signer signs, which may be far away: with 100 ms for each they are written in time. A turn
that takes more than `STORE_WAIT_SECONDS` refuses all who wait, and so would each that follows under the same load."""

LOG_PROCESS_SECONDS = 30.0
"""The time for the process that writes the log to start: it takes 0.1 s on an idle machine."""

ROWS_A_STATEMENT = 100
"""Rows inserted by one statement: SQLite before 3.32 accepts 999 values."""

RECORD_RETRY_SECONDS = 1.0
"""The interval between attempts to write waiting records while the store refuses them; a new record is tried at
once."""

EMPTY_LOG_SECONDS = 5.0
"""The time for readers and writers of the log to let its write-ahead log be truncated after pruning: each needs a
moment, except for one that verifies or exports the log, which may take minutes."""

UNREADY_SECONDS = 10.0
"""How long a gateway reports that it is not ready after a record could not be written, unless another could since: the
usual interval of a load balancer's checks. A smaller write may succeed on a disk on which no record fits."""

PRUNE_ENTRIES = 2_000
"""Entries of the log handled in one step of pruning, some 30 ms, for which a gateway at work waits."""

FOLLOW_SECONDS = 0.25
"""The interval at which `log list -f` looks at the log."""

SINK_BATCH, SINK_BATCH_BYTES = 512, 1_048_576
"""Entries, and bytes of their payloads, after which no more is added to what a sink gets at once: what is kept in
memory, and sent again where it was not taken. A single entry may be longer (`MAX_ATTESTATION_BYTES`)."""

SINK_RETRY_SECONDS, MAX_SINK_RETRY_SECONDS = 0.5, 30.0
"""The pause before a sink that has failed is tried again, doubled each time up to the second."""

MAX_SCHEMA_STEPS = 32
"""References of a tool's input schema that are followed for one argument of `accredit call`: ends circular ones."""

MAX_JSON_ARGS_BYTES = 4_194_304
"""Bytes of `accredit call --json-args`: what a gateway takes in one request."""

SHORT_ID_CHARS = 12
"""Hex digits of an id that tables on a terminal show, 48 bits: two of a million are the same once in 500 logs."""

MAX_TOLD_CANDIDATES = 20
"""Ids listed on stderr if the one given is ambiguous: a screenful."""

MIN_ID_CHARS = 4
"""Characters of an id that have to be written: fewer may be meant for something else, and begin the ids of thousands of
calls in a log of a million."""

MIN_REVOKED_ID_CHARS = 8
"""Characters of a certificate's id that have to be written where it is revoked: that two of 1,000 begin with the same
eight is as likely as 1 in 8,000."""

MAX_KEY_FILES = 1_000
"""Public keys beside a configuration that are searched for names: a tenth of a second or so."""

PROGRESS_ENTRIES = 500
"""Entries that are verified (in 40 ms) between two updates of what is shown."""

PROGRESS_AFTER_SECONDS = 2.0
"""How long something takes before a terminal shows how far it is: until then nobody wonders."""

PROGRESS_SECONDS = 0.2
"""How often that is shown anew."""

LOG_LOOK_SECONDS = 10.0
"""The interval at which a process that writes a log says that it lives, and looks for others that have died."""

LOG_SILENT_SECONDS = 60.0
"""How long a writer in a database may be silent, and connected to nobody, until it counts as dead; and how long another
one has to be connected before it judges. A failover takes less, after which all are silent that are not back yet. With
`LOG_LOOK_SECONDS` the calls of a machine that is lost are closed within 90 s."""

LOG_BURIED_AT_ONCE = 8
"""Dead writers of a database that one process closes after one look: a rolling restart leaves some, and others look,
too."""

LOG_MAKE_DAYS_SECONDS = 3_600.0
"""The interval at which a process that writes a log makes tables for the days to come, if they are missing."""

DEAD_PEER_SECONDS = (10, 10, 3)
"""Seconds of silence after which a database asks whether a gateway is still there, seconds until it asks again, and how
often: a lock of a machine that is lost is free 40 s later."""

LOG_DAYS_AHEAD = 7
"""Days to come for which a database has tables for the log's entries. Gateways make one more each day; where that
fails, people have a week to see why."""

MAX_VERIFIERS = 16
"""Processes that verify a log together at most: one that reads keeps no more of them busy."""

LOG_COPIED, LOG_COPIED_BYTES = 10_000, 33_554_432
"""Entries, and bytes of them, that are copied (in 0.1 s) while all gateways wait: when today's table is made anew."""

LOG_LOCK_SECONDS = 0.2
"""How long gateways wait, at most, for those who read a database's log, when one of its tables is to be taken out."""

LOG_ROWS = 512
"""Rows of a database's log that are asked for at a time; while they are looked at, the next ones come."""

LOG_ROW_BYTES = 16_384
"""Bytes of an entry that come along with others (of `LOG_ROWS` of them, 8 MiB): one that has more is asked for by
itself."""

LOG_READER_IDLE_SECONDS = 3_600
"""How long who reads a database's log may do something else, such as wait for a pager: the database keeps what was
deleted meanwhile."""

VERIFIED_ENTRIES, VERIFIED_BYTES = 128, 1_048_576
"""Entries of a log that a process verifies at a time (in 10 ms), and after how many of their bytes there are fewer."""

MARKS_AT_ONCE, MARKS_CACHE_KIB = 4_096, 16_384
"""Marks of records (some 60 bytes each) that a verification writes at once to its temporary file, and how much of that
file is in memory: a log of 100,000 records fits."""

CLOSE_RECORDS_SECONDS = 5.0
"""The time to write what is waiting when the log is closed. The rest is counted and reported."""

# --- how a message is to be read --------------------------------------------------------------------

MAX_MEDIA_TYPE_BYTES = 256
"""Bytes of a `Content-Type`, or of one element of `Accept`, that are read. RFC 6838 allows 127 for each half of a
type's name; those that MCP uses have 17."""

LEADING_BLANK_BYTES = 65_536
"""Bytes of a compressed body in which its first character is looked for, to see whether it is JSON as it came."""

MAX_MEDIA_RANGES = 32
"""Elements of a client's `Accept` that go on. Browsers send ten."""

# --- multi-round-trip requests ----------------------------------------------------------------------

MAX_ROUNDS = 10
"""How often one call is repeated with input, by default. The official SDK has the same limit."""

MAX_DIALOGS = 16
"""A server's requests for input that are open at once, in a client. A call of the older era has as many in all as one
with rounds could have: so many times its rounds."""

LEG_SECONDS = 60.0
"""The time for one leg of a call, by default: what the gateway gives an upstream."""

STATE_ONLY_FIRST_SECONDS = 0.05
"""The wait before a call is repeated for a server that asked only to be called again; it doubles."""

STATE_ONLY_MAX_SECONDS = 0.25
"""The longest such wait: somebody may be waiting for the answer."""

MAX_STATE_BYTES = 262_144
"""UTF-8 bytes of an upstream's `requestState`. In known servers it is a cursor or a small sealed object, and it comes
back with every leg, in a request of at most 4 MiB."""

MAX_FLOW_BYTES = 64
"""UTF-8 bytes of the name of a flow that is sealed with a state; ours have 32."""

MAX_STATE_SECONDS = 86_400
"""The longest time for which a sealed `requestState` opens: a day, as it waits for a person's answer."""

MAX_STATE_KEYS = 16
"""Keys that can open a `requestState`. A rotation needs two; people have to find each in a file."""

# --- tasks --------------------------------------------------------------------------------------------

MAX_TASKS = 100_000
"""Tasks that a store remembers: at some 400 bytes each, 40 MB."""

MAX_TASKS_PER_OWNER = 1_000
"""Tasks of one owner at one server, so that nobody takes the room of others. A list of tasks is filtered by so many
names of each server."""

TASK_SECONDS = 86_400
"""How long a task without a `ttl` is remembered: a day, so that its owner may sleep."""

TASK_GRACE_SECONDS = 60
"""How much longer than its `ttl` a task is remembered: a client that fetches a result at the last moment may be
late."""

MAX_TASK_TTL_SECONDS = 31_536_000
"""The longest `ttl` that counts, a year: a server must not make a row stay for ever."""

MAX_TASK_ID_CHARS = 1_024
"""The longest id of a task. It travels in `Mcp-Name`, beside other headers."""

MAX_TASK_FACTS_BYTES = 4_096
"""Bytes of what is remembered of the call that created a task, as JSON: its facts, and a digest of each argument that a
constraint names (some 100 bytes each). Of a larger one only the digest of its params is kept, and constraints on the
rest can't be verified."""

MAX_TOLD_TASKS = 1_000
"""Tasks whose notifications one session or subscription receives: as many as an owner can have
at one server."""

MAX_TOLD_TASKS_OF_ALL = 100_000
"""Such tasks of all sessions with a server, as many as a store remembers: 10 MB, as their digests are kept."""

MAX_TASK_BYTES = 65_536
"""Bytes of all that is remembered of a task: its facts, and 8,192 characters of its target. A longer row of a store is
somebody else's doing, and no task."""

MAX_TASK_SESSIONS = 10_000
"""Sessions whose tasks are known, to tell them apart in streams that nobody's proof came with."""

MAX_LEAVING_SERVERS = 16
"""Servers that a reload has changed or taken out and whose calls may still finish. Each may have children; who reloads
again and again within one `grace_seconds` does not heap them up."""

# --- consent ------------------------------------------------------------------------------------------

MAX_ASK_BYTES = 98_304
"""Bytes of an ask (96 KiB): its params, and some 10 KiB for a key, two signatures and what is said about the call."""

MAX_ASKED_PARAMS_BYTES = 65_536
"""Bytes of the params of a call that can be asked for. A person reads a few pages, not a book."""

MAX_SERVER_WORDS_BYTES = 1_024
"""Bytes of what an ask repeats of the server's words about a tool."""

MAX_PRINCIPALS = 8
"""People whom an ask may name: an agent has one principal, or one for each of a few delegations."""

MAX_CONSENT_ANSWER_BYTES = 131_072
"""Bytes of an answer: a chain of certificates, which has to fit into a proof."""

ASK_SECONDS = 600
"""How long an ask is good: a person who is at hand answers within ten minutes. A delegation for one call ends after as
much."""

LIKE_CALLS = 5
"""Calls that a person is proposed to allow beside the one that is asked for."""

LIKE_SECONDS = 3_600
"""For how long, as it is proposed: an hour, some errand of an agent."""

MAX_LIKE_CALLS = 100
"""The most calls that can be allowed at once without reading each. Who wants more signs a delegation (`grant`)."""

MAX_LIKE_SECONDS = 86_400
"""The longest time for which they can be allowed: today."""

MAX_UNFOLDED_CHARS = 1_000
"""Characters of one value of a call that show at once: what fits on a screen."""

MAX_UNFOLDED_LINES = 20
"""Lines of such a value that show at once."""

MAX_UNFOLDED_FIELDS = 100
"""Values of a call that show at once: 64 KiB can hold 30,000."""

MAX_TOLD_MARKS = 3
"""Marks of one kind on one value: the first few say what kind of text it is."""

MAX_GRANTS = 64
"""Delegations of an agent that a person allowed when asked: each ends within a day."""

HOLD_SECONDS = 50.0
"""How long `connect` holds a call while a person decides, where nothing is configured: hosts give up after a minute or
more."""

MAX_HOLD_SECONDS = 3_600.0
"""The longest that a call can be held: longer than an ask lives."""

ASK_PROGRESS_SECONDS = 5.0
"""How often a host hears that a person is waited for."""

DESK_ANSWER_SECONDS = 5.0
"""How long a desk may take to accept a connection: it runs on the same machine."""

MAX_HOLDS_OF_ASK = 8
"""Calls that wait for the answer to one ask: an agent that makes one call more often at the same time is told at once
that nobody has answered yet."""

MAX_REMEMBERED_ASKS = 64
"""Asks of one connection that are remembered, so that a call that is made again finds its own."""

# --- the desk -----------------------------------------------------------------------------------------

DESK_START_SECONDS = 20.0
"""How long a call waits for a desk that was started for it: it takes one or two, on a busy machine ten."""

DESK_LOOK_SECONDS = 0.05
"""How often it is looked meanwhile whether the desk listens."""

DESK_RESTART_SECONDS = 60.0
"""How long no other desk is started after one: where it ends at once, each call would start a process."""

MAX_DESK_LOG_BYTES = 1_048_576
"""Bytes of `desk.log` before a start begins it anew."""

MAX_DESK_LINE_BYTES = 131_072
"""Bytes of a line on the desk's socket: an ask has at most 98,304, an answer with a chain of three some 32,000."""

MAX_DESK_LIST_BYTES = 8_388_608
"""Bytes of the desk's longest line, the list of all asks that wait: 64 of 96 KiB."""

MAX_DESK_CONNECTIONS = 128
"""Connections to the desk's socket. Each program that waits for a person holds one; all are the same user's."""

MAX_ASKING_CONNECTIONS = 96
"""Of these, connections on which something was asked: an agent that makes one call many times at once must not take the
room of `accredit approve` and `deny`."""

DESK_IDLE_SECONDS = 60.0
"""How long a connection to the desk's socket may be silent that waits for nothing."""

DESK_PATIENCE_SECONDS = 10.0
"""How long a command waits for the desk to answer what it answers at once."""

MAX_PENDING_ASKS = 64
"""Asks that wait for a person at one time: more than anybody reads."""

MAX_PENDING_ASKS_OF_NEW = 16
"""Of these, asks of agents to whom nothing was allowed yet. Whoever runs programs can make keys without end: they must
not take the room of agents that the person knows."""

MAX_PENDING_ASKS_OF_AGENT = 3
"""Asks of one agent that wait at one time."""

MAX_ASKS_OF_AGENT_AN_HOUR = 10
"""Asks of one agent that a person is shown in an hour: who is asked too often says yes without reading."""

MAX_ASKS_OF_NEW_AN_HOUR = 60
"""The same, for all agents together to whom nothing was allowed yet."""

MAX_ANSWERED_ASKS = 1_024
"""Asks that were answered and are remembered: a program that lost its answer gets it again, and an identical ask is
denied unseen."""

DENIED_SECONDS = 3_600
"""How long an ask that is identical to a denied one is denied unseen."""

KEPT_OPEN_SECONDS = 3_600
"""How long an ask waits that a person keeps open (WCAG 2.2.1)."""

MAX_JOURNAL_READ_BYTES = 16_777_216
"""Bytes of the end of the desk's journal that are read at its start: some 40,000 asks, or 1,000 calls that were
allowed, whose certificates are verified then."""

MAX_JOURNAL_ASKED_CHARS = 200
"""Characters of each text of a journal's entry for what was asked: sixty such entries an hour, which is what new agents
can have written, take days to fill what is read."""

MAX_NAMES = 4_096
"""Names that a person gives to keys and gateways."""

MAX_NAMES_FILE_BYTES = 1_048_576
"""Bytes of the file of these names."""

MAX_DESK_FILE_BYTES = 65_536
"""Bytes of `desk.toml`."""

LOGIN_LINK_SECONDS = 60
"""How long a link to the desk's page works, once."""

MAX_LOGIN_LINKS = 8
"""Links that were not used yet: the oldest one is forgotten."""

PAGE_SESSION_SECONDS = 43_200
"""How long a page stays signed in: a working day."""

MAX_PAGE_SESSIONS = 8
"""Pages that are signed in: browsers of one person. The oldest is signed out."""

MAX_PAGE_BODY_BYTES = 4_096
"""Bytes of what a page sends: a decision has some 200."""

MAX_PAGE_CONNECTIONS = 64
"""Connections to the desk's page. Any user of the machine can open them: one more closes the oldest that rests, and
commands use the socket."""

MAX_PAGE_STREAMS = 16
"""Pages that are told of changes at one time."""

PAGE_STREAM_SECONDS = 15.0
"""How often a page is told of nothing, so that both sides notice that the other one is gone."""

PAGE_BODY_SECONDS = 5.0
"""The time for what a page sends to come."""

UNLOCKED_SECONDS = 900
"""How long the desk's key stays unlocked, by default."""

MAX_UNLOCKED_SECONDS = 43_200
"""The longest time for which it may: a working day."""

PASSPHRASE_SECONDS = 120.0
"""How long the desk waits for a passphrase that a signature needs."""

MAX_PASSPHRASE_TRIES = 3
"""Wrong passphrases before a prompt is given up; asking again is a new prompt."""

MAX_PASSPHRASE_BYTES = 1_024
"""Bytes of a passphrase."""

BROWSER_SECONDS = 60
"""How often at most an ask opens the browser by itself."""

OPENING_SECONDS = 5.0
"""How long the desk waits for a browser to take a page: one that takes longer runs in the foreground, and has it."""

MAX_ANCESTORS = 8
"""Parent processes of an asking program that are looked at, for "started by"."""


# --- reload -------------------------------------------------------------------------------------------

MAX_PEM_CHAIN_BYTES = 1_048_576
"""Bytes of the server's certificates, and of their key. A chain has some 10 KiB."""

RELOAD_CHECK_SECONDS = 30.0
"""How long a new configuration may take to be read and checked: files on a network, a signer that is far away."""

RELOAD_PREPARE_SECONDS = 30.0
"""How long the workers may take to make their part ready. Key sets at URLs are fetched meanwhile."""

RELOAD_SWAP_SECONDS = 5.0
"""How long a worker may take to go over. One that stands still longer is killed, and started anew: it must not wake up
and go by what is over."""

RELOAD_LOOK_SECONDS = 0.02
"""How often the parent of workers looks what they say, while there is a reload and only then."""

RELOAD_WAIT_SECONDS = 90.0
"""How long `accredit reload` waits for what comes of it: for one that is under way, and its own."""

MAX_RELOAD_TEXT = 4_096
"""Bytes of what is said about one reload: it travels in one datagram, and stands in one file."""

MAX_RELOAD_CHANGES = 40
"""How many names of what has changed are said. The rest is counted."""

MAX_PID_FILE_BYTES = 16_384
"""Bytes of `accredit.pid`: an id, and what is said about one reload."""

PID_FILE_TRIES = 10
"""How often a gateway tries to lock its file: who looks whether it is locked holds it for a moment."""

PID_FILE_PAUSE_SECONDS = 0.02
"""How long it waits between two of these."""

CALLS_A_PAGE = 50
"""Calls that the desk's page shows at once; there are more at the end of the list."""

CALLS_LOOKED_AT = 20_000
"""Entries of the log that are looked at for one page of calls (some 0.3 s): a filter that few calls pass goes on from
there when the reader asks for more."""

OUTCOMES_LOOKED_AT = 512
"""Entries after the end of the page before that are looked at for outcomes of its calls: of calls that others overtook
by more, the page says only that they have ended."""

MAX_CALL_FILTER_CHARS = 500
"""Characters of a filter of calls: it is in the page's address."""

MAX_BOOKMARKS = 10_000
"""Calls that were listed whose place in the log is remembered: 4 MiB, and 200 pages of the list. The story of others is
found by the index of calls."""

MAX_LOG_LOOKS = 2
"""Pages of the log that are read at one time: each is a thread and a connection to the store."""

MAX_COMPLETED_FILE_BYTES = 131_072
"""Bytes of a configuration that is read when a person presses the tab key: of a longer one no names are offered."""


# --- hosts' files -------------------------------------------------------------------------------------

MAX_HOST_FILE_BYTES = 8_388_608
"""Bytes of a host's configuration file. Claude Code keeps a history in its own, of some megabytes, each of which takes
up to 2.5 s (measured, on a busy machine)."""

MAX_HOST_TEXT_CHARS = 131_072
"""Characters of one in YAML or TOML, where an edit of so many takes some seconds. Real ones have some 10,000."""

MAX_BACKUPS = 5
"""Files that are kept of what a host's file held before an edit."""

MAX_ADOPTED = 100
"""Servers of a host's own that are put behind one gateway at once: hosts grow unwieldy with twenty."""

ADOPTION_KNOCK_SECONDS = 5.0
"""How long a server behind a URL may take to say whether it wants a sign-in; one that says nothing is adopted."""

MAX_ADOPTION_PORTS = 20
"""Ports that are tried for a new gateway, from the default one on."""

MAX_SECRET_NAME_CHARS = 64
"""Characters of a variable's or a header's name in the name of the file with its value."""

MAX_INSTALLED = 1_000
"""Entries in hosts' files that are remembered: those of twelve hosts, and of projects. The oldest are forgotten."""

MAX_INSTALLED_BYTES = 4_194_304
"""Bytes of the file that remembers them: of one entry some 700."""

MAX_PROCESSES = 65_536
"""Processes that are looked at for a host that must not run. Linux counts up to 4,194,304; a person's machine has some
500."""

HOST_PROGRAM_SECONDS = 60.0
"""How long a host's own program may take to write an entry. Claude Code takes 1.4."""

MAX_LOG_CHAINS = 20_000
"""Chains of certificates in a log that the desk reads for its tree (some 100 µs each); of more it says so."""

PEOPLE_FRESH_SECONDS = 3.0
"""How long the desk shows a tree of delegations before it reads the log again."""

DELEGATIONS_A_PAGE = 200
"""Delegations that the desk's page shows at once; there are more at the end of the list."""

DELEGATIONS_UNDER_ONE = 20
"""Delegations below one that a page of all shows: whoever may pass on makes as many as they like, and the others must
stay in sight. All are on that one's own page."""

MAX_SHOWN_ENDS = 100
"""Delegations that are named before one is taken back; of more, their number."""

MAX_SHOWN_SCOPE_CHARS = 300
"""Characters of what a delegation allows, in the list of all; on its own page there is the rest."""

MAX_SHOWN_ID_CHARS = 600
"""Characters of a certificate's id on its own page: whoever issues one chooses it, and it may be as long as a proof."""

MAX_DELEGATION_FILES = 1_000
"""Files of delegations that a desk reads in its folder, and in `grants` there."""

TAKE_BACK_SECONDS = 8.0
"""How long the desk waits for gateways to say that they know what was taken back."""

HEALTH_SECONDS = 3.0
"""How long the desk waits for a gateway's `/readyz`."""

HEALTH_FRESH_SECONDS = 2.0
"""How long an answer of `/readyz` is shown before a gateway is asked again."""

HEALTH_REST_SECONDS = 30.0
"""How long the desk leaves a gateway alone that did not answer in time: about as long as a system looks for a name that
nobody answers for."""

MAX_DESK_THREADS = 64
"""Threads of the desk: twice as many as can look for gateways' names at one time, so that some are left for the key,
the log and the lists."""

MAX_HEALTH_BYTES = 65_536
"""Bytes of a gateway's `/readyz` that a desk reads."""

MAX_ASKED_LISTS = 4
"""Revocation lists about which one request of `/readyz` asks: a person has one in a store, and one in a file."""

MAX_ASKED_GATEWAYS = 32
"""Gateways that a desk asks how they are, all at one time; of more it names the first."""

MAX_SHOWN_WRITERS = 50
"""Writers of a log that the desk's page names: a gateway's process is one, and so is each that it was before."""

RATE_ENTRIES = 1_000
"""The newest entries of a log, from whose times the desk says how fast it grows."""

FIRST_GRANT_DAYS = 30
"""Days for which the delegation holds that `accredit up` signs: long enough to see what an agent does, and short enough
to be looked at again."""

GRANT_ENDING_SECONDS = 3 * 86_400
"""How long before the end of a delegation somebody is told: a weekend lies within it."""

MAX_KNOWN_CONFIGURATIONS = 100
"""Configurations that `accredit up` remembers as a person's own; of more it forgets the oldest, and asks again."""

MAX_KNOWN_CONFIGURATIONS_BYTES = 1_048_576
"""Bytes of the file that names them: paths have 4,096 at most on Linux."""

UP_WAIT_SECONDS = 30.0
"""How long `accredit up` waits for another one of the same person: it may be waiting for a passphrase."""

UP_LOOK_SECONDS = 0.1
"""How often `accredit up` looks whether what it has started is there."""

UP_START_SECONDS = 60.0
"""How long gateway and desk may take to start: some 2 seconds, where the machine is not busy."""

UP_MARGIN_SECONDS = 5.0
"""How much longer than the gateway's own end may take `accredit up` waits before it ends it at once."""

UP_AGAIN_SECONDS = 1.0
"""How long after a signal to end another one counts as the same: a terminal's Ctrl-C may come by two ways."""

MAX_FINDING_CHARS = 2_000
"""Characters of what `accredit doctor` says of one thing: texts of hosts' files and of gateways may be longer."""

MAX_FINDINGS = 500
"""Findings that `accredit doctor` tells: a host's file may have any number of entries."""

DOCTOR_SECONDS = 8.0
"""How long each look of `accredit doctor` may take; all are taken at one time. A gateway has `HEALTH_SECONDS`."""

DOCTOR_STORE_SECONDS = 2.0
"""How long a store's file is checked for damage: a large one is not read to its end."""

DOCTOR_DATABASE_SECONDS = 4.0
"""How long a database may take to say how it is, once it is reached: each statement reads its catalog alone."""

PRODUCTION_CERTIFICATE_DAYS = 14
"""For how long the endpoint's certificate has to be good still: who renews 90 days' certificates does so after 60."""

PRODUCTION_UNSENT_SECONDS = 3_600
"""How old the first entry of the log may be that a sink does not have: what is nowhere else can be cut off unseen. A
sink that is tried again after a failure has it within a minute."""

PRODUCTION_DRILL_DAYS = 31
"""How long ago the last `accredit drill` may be: a configuration that was changed since has not been tried."""

PRODUCTION_ROOM_BYTES = 1 << 30
"""What has to be free where the store's file is: some 400,000 recorded calls."""

PRODUCTION_DESCRIPTORS = 4_096
"""How many files a gateway has to be able to open: half of them are for clients (`MAX_CLIENT_CONNECTIONS`)."""

PRODUCTION_KILLED_SECONDS = 30
"""When Kubernetes kills what it has asked to end, where nothing is said; systemd waits for 90."""

MAX_LOOKED_AT_DESCRIPTORS = 200_000
"""Descriptors of this machine's processes among which the gateway's listener is looked for."""

CLOCK_DIFFERENCE_SECONDS = 5.0
"""By how much a gateway's clock may differ from this machine's before somebody is told: proofs are fresh for 30 s, and
calls with a challenge take some of these."""

# --- watching it run ---------------------------------------------------------------------------------

MAX_SERIES = 4_096
"""Series that one worker counts in: each tool of the catalog has some for each method and error that occurs. What would
be one more is counted as that of `_other`."""

MAX_LABEL_CHARS = 128
"""Characters of a label's value, such as a tool's name (128, says MCP). Of a longer one nothing is counted but that it
was `_other`."""

BOARD_NAMES_BYTES = 1_048_576
"""Bytes for the names of one worker's series: 256 each. Memory that is not used is never mapped."""

GAUGES_SECONDS = 5.0
"""How often each worker looks at what is not counted but measured, such as the length of a queue: any worker may be
asked for all of them, and Prometheus asks every 15 s or less often."""

SINK_LAG_SECONDS = 30.0
"""How often one worker asks the store how far the log's sinks have come: a connection, and two short questions a
sink."""

MAX_WATCHED_SINKS = 32
"""Sinks of the log, by their names, of which the metrics say how far they are: each is a series."""

MAX_ADMIN_CONNECTIONS = 16
"""Connections to the admin listener of one worker: a few scrapers, an orchestrator's probes, each for one request."""

SCRAPE_SHARE = 4
"""For how many times the time that it took to write them the metrics are shown again as they are: whoever asks all the
time takes a fifth of one thread, however many series there are."""

MAX_WAITING_SPANS = 4_096
"""Spans of one process that wait to be sent, of some 2 KiB each. A collector that is slow or away costs no more: the
next one is dropped, and counted."""

SPANS_AT_ONCE = 256
"""Spans in one request to the collector: some 10 ms of encoding, and 200 KiB."""

MAX_KNOWN_ATTRIBUTES = 1024
"""Attributes of spans whose message is remembered, some 300 bytes each: most are names of tools and the like, and each
is in thousands of spans."""

EXPORT_SPANS_SECONDS = 5.0
"""How long a span may wait for others, as by the SDK's own default."""

EXPORT_METRICS_SECONDS = 60.0
"""How often the collector gets all metrics, as by the SDK's own default."""

EXPORT_SECONDS = 10.0
"""How long the collector may take for one request in all, as by the protocol's default. Calls wait for none of it."""

EXPORT_LAST_SECONDS = 2.0
"""The same for what is left when the process ends: an orchestrator waits for that."""

MAX_COLLECTOR_BYTES = 65_536
"""Bytes of a collector's answer that are read: it says how many records were rejected, and why, which nobody reads."""

COLLECTOR_WORK_SECONDS = 1.0
"""Processor time of the sending thread for one message and its answer: a megabyte over TLS takes some 10 ms, the first
message loads modules. While that thread computes no call does."""

MAX_EXPORT_LOOKUPS = 4
"""Times that the collector's name is looked up at once: the system can't be told to stop, and a thread waits for it."""

EXPORT_RETRY_SECONDS, MAX_EXPORT_RETRY_SECONDS = 1.0, 30.0
"""The pause before a collector that takes nothing for now gets the same spans again, doubled each time up to the
second; a part of it is left to chance, so that gateways do not come all at once."""

EXPORT_KEEP_SECONDS = 300.0
"""For how long the same spans are sent again, one message of a process: a collector is started anew in less."""

MAX_RETRY_AFTER_SECONDS = 300.0
"""The longest pause that a collector gets by asking for it (`Retry-After`): one that asks for a year is tried anew."""

MAX_PARENT_SAMPLED = 200
"""Traces that callers may have had sampled at once: who calls decides that by a flag, and anybody can set it. Beyond
that the gateway's own rate decides."""

PARENT_SAMPLED_PER_SECOND = 100
"""The same over time: at some 50 us each it is half a percent of one core."""

DRILL_SECONDS = 300
"""How long what `accredit drill` signs holds: its calls take seconds, and clocks may differ by some."""

DRILL_BEGINS_SECONDS = 60
"""How long before now that begins: a gateway's clock may be behind."""

DRILL_COPIES = 4
"""How often `accredit drill` sends a proof again, each time on a connection of its own: of several workers, one that
has not seen it yet is likely to get one."""

DRILL_ANSWER_SECONDS = 10.0
"""How long `accredit drill` waits for one answer: the gateway asks no server for it."""
