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
)
