"""The differences that are known, each with its reason. `docs/reference/interoperability.md` is written from this."""

from tests.interop.compare import Difference

LISTS = ("tools", "resources", "templates", "prompts")

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="what a call needs",
        reason="with proofs, what is listed says in its `_meta` which scope it needs, and for whom a proof is made out",
        ways=("connect",),
        steps=LISTS,
        members=("ratify_scope", "ratify_sensitive", "ratify_binding", "ratify_verifier"),
    ),
    Difference(
        name="unknown tool",
        reason="the gateway answers for a tool that is not in its catalog: with proofs, none reaches the server",
        ways=("connect",),
        steps=("call of no tool",),
        direct="nobody",
        through="not in the catalog",
    ),
    Difference(
        name="unknown method",
        reason="with proofs, a method that the revision does not have is not forwarded; the gateway says so itself",
        ways=("connect",),
        steps=("ping", "log_level", "subscribe", "unsubscribe"),
        direct='"code": -32601',
        through='"code": -32601',
    ),
    Difference(
        name="a session that ends under an open call",
        reason="a call that is open when its client ends the session is answered with 502, and this client takes any "
        "such answer for the end of everything; it had all its results by then",
        ways=("serve -- COMMAND",),
        clients=("python-sdk-1", "langchain"),
        steps=("end",),
        direct='"result"',
        through="502 Bad Gateway",
        sometimes=True,
    ),
    Difference(
        name="a client that does not survive what connect does",
        reason="some clients end when their server over HTTP is restarted; `connect` begins a new session for them",
        ways=("connect",),
        steps=("works after a restart of *", "restart *", "end"),
        direct='^null$|"recovered": false|"error"',
        through='"recovered": true|"result"',
    ),
)
