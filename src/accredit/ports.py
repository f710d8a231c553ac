"""The interfaces (Python protocols) for all I/O that a decision needs. No I/O here: adapters implement them, and are
passed to the code around a decision.

Any method may raise `StoreUnavailable`; the caller then refuses. Times are unix seconds and are passed in.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from accredit.attest import CallDecision, Outcome
from accredit.base.values import decodable
from accredit.limits import USE_MARKS
from accredit.ratify.challenges import IssuedChallenge
from accredit.tokens.access import AccessToken, SubjectToken
from accredit.tokens.claims import Claims
from accredit.tokens.key_sets import KeySet
from accredit.tokens.verify import Issuer

if TYPE_CHECKING:
    from asyncio import Future

    from accredit.oauth.clients import Client
    from accredit.oauth.forms import Parameters
    from accredit.oauth.openid import Person


class Spending(Enum):
    """The result of presenting a challenge, or what it would be."""

    FIRST = "first"
    """The challenge is valid, and was never presented before."""
    SPENT = "spent"
    """The challenge was presented before."""
    NOT_ISSUED = "not_issued"
    """The challenge had to be one that was issued for this very request, but it was not, or it has expired."""


class RateLimit(Struct, frozen=True):
    """A certificate, or a caller with a quota, may be used `count` times in any `window_s` seconds. `cert_id`
    identifies either. One use counts as `amount`. A use may count for longer than the window, by at most 1/`parts` of
    the window.
    """

    cert_id: str
    window_s: int
    count: int
    amount: int = 1
    parts: int = USE_MARKS


class ProofStore(Protocol):
    """Memory of challenges and of uses, shared by all who accept the same proofs.

    Implementations handle concurrency: if several calls spend one challenge at once, in whatever processes, exactly one
    gets `FIRST`.

    Expired entries are forgotten after a while. If the clock was ahead when that was done, and is then set back,
    forgotten entries may count again. Then `spend`, `uses` and `use` raise `ClockSetBack` for any entry that may have
    been forgotten.
    """

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a fresh challenge of 32 bytes, valid for this request until `expires_at` (inclusive).

        Nobody can guess it, and it can't be confused with a client's own challenge. Issuing one must not use up room
        that others need, as anybody may request one.
        """
        ...

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        ...

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge, atomically, if it is `FIRST`, and remember it as spent until `keep_until` at least.

        `keep_until` must be the same whenever a proof is presented. With `issued`, a challenge is valid only if `issue`
        returned it for this request hash and it has not expired. Without `issued`, any unknown challenge is valid; one
        that `issue` returned is valid only for its own request. Raises `ChallengesFull` if there is no room to remember
        one more.
        """
        ...

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how often a certificate was used in the last `window_s` seconds."""
        ...

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use for each of `limits`, atomically, and return True. If that would exceed one of them, record
        none, and return False."""
        ...

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return the time from which one more use would not exceed a limit, if there are no other uses until then. It
        is `now` or later; None if never."""
        ...

    async def ready(self) -> bool:
        """Return whether the store answers."""
        ...

    def problem(self) -> str | None:
        """Return why the store needs a person's attention although it answers, or None."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class Task(Struct, frozen=True):
    """A server's task, and the call that created it.

    `owner` (32 bytes) identifies who created it. `method` and `target` are the call's. `facts` (JSON) has the data for
    evaluating constraints (`policy.tasks.CreatingCall`). `flow` is the name of the call in records.
    """

    owner: bytes
    method: str
    target: str
    facts: bytes
    flow: str


class TaskStore(Protocol):
    """Memory of tasks, shared by all who serve the same clients. A task's `key` is 32 bytes derived from its id."""

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        """Remember a task until `keep_until`, and return it. If its key is known, change nothing, and return the task
        that has this key.

        Raises `StoreUnavailable` also if there is no room, in all or for this owner. Raises `ClockSetBack` if a clock
        that was ahead may have made the store forget this key's task.
        """
        ...

    async def renew(self, key: bytes, known: Task, task: Task, *, keep_until: int, now: int) -> bool:
        """Replace `known` by `task`, which differs from it only in its facts, and remember it until `keep_until`, if
        that is later. Return False, and change nothing, if `known` is not the task of this key."""
        ...

    async def find(self, key: bytes, *, now: int) -> Task | None:
        """Return the task of this key, or None."""
        ...

    async def owned(self, owner: bytes, *, now: int) -> frozenset[bytes]:
        """Return the keys of an owner's tasks."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


@decodable
class Grant(Struct, frozen=True):
    """What one person lets one OAuth client do at one endpoint (`resource`, its URL), by an agent of the gateway's.

    `seeds` (64 bytes: Ed25519, ML-DSA-65) are the agent's private key. `chain` is the delegation that people signed to
    that key: a JSON array of certificates, leaf first; b"" until somebody has consented. `ends` is its last second.
    `seen` is what the person was shown about the client when they consented. If the person logged in, `provider` is the
    issuer of the identity provider, `login` a refresh token from it, and `checked` the time when it was last asked for
    the person's groups. If the person signed at their desk, these are "" and 0.

    A chain from a store is not trusted: on each use the caller verifies it, to a root.
    """

    client_id: str
    subject: str
    resource: str
    seeds: bytes
    ends: int
    chain: bytes = b""
    seen: bytes = b""
    login: str = ""
    checked: int = 0
    provider: str = ""

    def __repr__(self) -> str:
        return f"<Grant of {self.client_id!r} at {self.resource!r}>"


Change = Callable[[Grant], Grant]
"""Returns a changed grant, given the grant as it is now. It may be called again, and changes neither client, person,
endpoint nor key."""


class AuthorizationCode(Struct, frozen=True):
    """What an authorization code was given out for. `challenge` is the PKCE challenge (S256), `resource` the
    endpoint."""

    client_id: str
    redirect_uri: str
    challenge: str
    resource: str
    scopes: tuple[str, ...]


class Login(NamedTuple):
    """A login that has not ended: its grant, its scopes, its last second, and the SHA-256 of its newest refresh
    token."""

    grant: Grant
    scopes: tuple[str, ...]
    ends: int
    token: bytes


class Rejected(Enum):
    """Why a code or a refresh token is rejected."""

    UNKNOWN = "unknown"
    """It was never given out, or is over."""
    UNFIT = "unfit"
    """A code that was presented by somebody else than its client. It is used up."""
    REUSED = "reused"
    """It was used before. The login that came of it has ended with this."""


class DoorStore(Protocol):
    """The store of the front door (the gateway's OAuth server): registered clients, grants, codes and logins. Shared by
    all gateways with the same front door.

    A *login* (a family of refresh tokens) is named by 32 bytes: the SHA-256 of a random name that is a part of each of
    its refresh tokens, and the `sid` (hex) of its access tokens. The store keeps only SHA-256 digests of the tokens.

        grant = await door.begin(client_id, subject, resource, seeds, ends=now + 600, now=now)
        ...                              # a person signs a delegation to the key of `grant.seeds`, and reads six digits
        await door.approve(grant, lambda kept: replace(kept, chain=chain, ends=end), sha256(code), what, now=now)
        login = await door.redeem(sha256(code), fits, login=name, token=sha256(refresh), now=now)
        login = await door.rotate(name, sha256(refresh), sha256(next_one), client_id=client_id, now=now)
        login = await door.login(name, now=now)             # for each call with an access token
        await door.end_login(name, now=now)                 # RFC 7009; the last one ends the grant, and with it the key

    Each method is one transaction: of several uses of one code or token at once, in whatever processes, exactly one is
    first. Each row is sealed with the gateways' keys, together with its place: nobody who has only the store can read,
    make or move a row. Nothing becomes valid because rows are forgotten or deleted.
    """

    async def register(self, client_id: str, document: bytes, *, ends: int, now: int) -> None:
        """Keep a client's document until `ends`, or longer while it has a grant. If there is no room, one of the
        documents without a consent is dropped: the one that ends first."""
        ...

    async def registered(self, client_id: str, *, now: int) -> bytes | None:
        """Return the document of a registered client, or None."""
        ...

    async def begin(self, client_id: str, subject: str, resource: str, seeds: bytes, *, ends: int, now: int) -> Grant:
        """Return the grant of this client, person and endpoint. If there is none, make one with this key, this end, and
        no chain. Call this only for people who have authenticated. Raises `StoreUnavailable` if there is no room."""
        ...

    async def approve(
        self, grant: Grant, change: Change, code: bytes, given: AuthorizationCode, *, ends: int, now: int
    ) -> bool:
        """Change a grant as the person has consented, and keep a code's digest until `ends`. Return False if the grant
        has ended, or now has another key: then begin anew."""
        ...

    async def change(self, grant: Grant, change: Change, *, now: int) -> Grant | None:
        """Change a grant, and return it; None if it has ended, or now has another key."""
        ...

    async def redeem(
        self, code: bytes, fits: Callable[[AuthorizationCode], bool], *, login: bytes, token: bytes, now: int
    ) -> Login | Rejected:
        """Use up a code. If `fits` accepts it (it checks the client and the PKCE verifier), begin a login of this name,
        whose first refresh token has the digest `token`."""
        ...

    async def rotate(self, login: bytes, old: bytes, new: bytes, *, client_id: str, now: int) -> Login | Rejected:
        """Replace a login's refresh token. If `old` is not its newest one, the login ends."""
        ...

    async def login(self, login: bytes, *, now: int) -> Login | None:
        """Return a login that has not ended, or None."""
        ...

    async def add_chain(self, grant: Grant, chain: bytes, *, ends: int, now: int) -> bool:
        """Keep a further chain to a grant's key until `ends`, beside its `chain`: a person's answer to an ask. Return
        False if the grant has ended. If there are too many, the one that ends first is forgotten."""
        ...

    async def chains(self, grant: Grant, *, now: int) -> Sequence[bytes]:
        """Return the chains that were added to a grant, the latest end first."""
        ...

    async def end_login(self, login: bytes, *, client_id: str, now: int) -> bool:
        """End a login of this client, and the grant with its last login. Return whether there was such a login."""
        ...

    async def end_grant(self, grant: Grant) -> None:
        """Forget a grant: its key, chains, codes and logins. If it has another key by now, nothing happens."""
        ...

    async def take_back(self, subject: str, holds: Callable[[bytes], bool], *, now: int) -> bool:
        """Forget each grant of a person, and each added chain, that contains what the person takes back: `holds`
        returns True for its chain. Return whether there was one."""
        ...

    async def take_back_from_all(self, holds: Callable[[bytes], bool], *, now: int) -> bool:
        """Forget each grant, of anybody, that contains what is taken back: `holds` returns True for its chain. Return
        whether there was one. All grants are looked through, some at a time."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class HeldAsk(Struct, frozen=True):
    """An ask that gateways hold until a person answers it.

    `key` (32 bytes) identifies what is asked. Asks of one `asker` (32 bytes) are counted together. `person` is the id
    of the root key that is asked; it is "" if the ask is for whoever types the `code`. `text` is the sealed ask.
    `answer` is b"" until there is one. `tries` counts the digits that were typed. The store verifies none of this, and
    a thief with write access to it can write rows. The caller unseals `text` (`gateway.holding`), and checks the
    certificates in `answer`.
    """

    key: bytes
    asker: bytes
    person: str
    code: str
    text: bytes
    keep_until: int
    answer: bytes = b""
    tries: int = 0


class AskStore(Protocol):
    """Memory of asks, shared by all gateways that serve the same clients. Of several calls at once, in whatever
    processes, exactly one answers an ask, and exactly one takes it."""

    async def hold(self, ask: HeldAsk, *, now: int) -> HeldAsk:
        """Hold an ask until its `keep_until`, and return it. If its key is known, change nothing, and return the ask
        that has this key, perhaps with its answer.

        Raises `AsksFull` if there is no room, in all (`MAX_ASKS` of each kind) or for this asker
        (`MAX_ASKS_PER_ASKER` without an answer), or if another ask has this code. An ask without a person always has
        room: it takes the place of the oldest unanswered one of the asker who has the most of them.
        """
        ...

    async def find(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Return the ask of this key, or None."""
        ...

    async def find_code(self, code: str, *, now: int) -> HeldAsk | None:
        """Return the ask of this code, or None."""
        ...

    async def waiting(self, person: str, *, now: int) -> Sequence[str]:
        """Return the codes of a person's asks that have no answer, in the order of their ends."""
        ...

    async def answered(self, after: bytes, *, now: int) -> Sequence[tuple[bytes, bytes]]:
        """Return the keys and answers of asks with an answer, which nobody has taken yet: some of those whose key is
        above `after`, in the order of their keys. If there are none, no more follow."""
        ...

    async def answer(self, key: bytes, answer: bytes, *, keep_until: int, now: int) -> bool:
        """Answer an ask, and keep both until `keep_until`. Return whether the ask has this answer now: not if it had
        another one before, or there is no such ask."""
        ...

    async def attempt(self, key: bytes, *, now: int) -> int:
        """Count one try to type an ask's digits, and return how many there were with it; 0 if there is no such ask."""
        ...

    async def take(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Forget an ask and return it as it was; None if there is none, or somebody else took it."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class Revocations(Protocol):
    """Knowledge of which certificates are revoked."""

    async def is_revoked(self, cert_id: str) -> bool:
        """Return whether a certificate is revoked, as far as is known here."""
        ...

    async def list_of(self, issuer_id: str) -> bytes | None:
        """Return the text of an issuer's newest list in force, as it was signed; None for an issuer without one.

        Raises `StoreUnavailable`.
        """
        ...

    def has_list(self, sha256: str) -> bool:
        """Return whether a list with this SHA-256 (lower-case hex, of its bytes) is in force, as of the last time that
        the lists were read."""
        ...

    def problem(self) -> str | None:
        """Return why the knowledge may be out of date (for `/readyz` and people), or None."""
        ...


class KeySets(Protocol):
    """The public keys of the issuers of tokens, and what issuers say about tokens that have no signature."""

    async def keys(self, issuer: str, kid: str | None) -> KeySet:
        """Return the keys of a configured issuer. The key with the id `kid` is among them, if it can be had.

        Raises `KeysUnavailable` if none of the issuer's keys are known.
        """
        ...

    async def introspect(self, issuer: Issuer, text: str) -> Claims:
        """Return what an issuer with `introspection` says about a token. Raises `InvalidToken` if it is not active.
        Raises `KeysUnavailable` if there is no answer."""
        ...

    def problem(self) -> str | None:
        """Return why the keys may be out of date (for `/readyz` and people), or None."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class ClientSource(Protocol):
    """Finds OAuth clients' metadata documents."""

    async def client(self, url: str, peer: str) -> "Client":
        """Return the client whose document is at a URL; `peer` is who asks. Raises `OAuthError`."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class People(Protocol):
    """The identity provider at which people log in."""

    async def login_url(self, redirect_uri: str, state: str, secret: str) -> str:
        """Return the URL at which a person logs in. Raises `LoginUnavailable`."""
        ...

    async def log_in(self, answer: "Parameters", redirect_uri: str, secret: str, now: int) -> "Person":
        """Return the person who has logged in, from the parameters of the provider's redirect. Raises `OAuthError`."""
        ...

    async def read_again(self, refresh_token: str, now: int) -> "Person":
        """Return a person's groups as they are now. Raises `LoginUnavailable`, and `OAuthError` if their login is
        over."""
        ...


class AccessTokens(Protocol):
    """The gateway's own tokens for one server behind it. `subject` is the caller's token that is exchanged, or None if
    the gateway asks on its own behalf."""

    def known(self, subject: SubjectToken | None) -> AccessToken | None:
        """Return a token that is valid now, or None. Never waits."""
        ...

    async def token(self, subject: SubjectToken | None) -> AccessToken:
        """Return a token that is valid now; request one if necessary. Raises `UpstreamLeftOut`."""
        ...

    def refused(self, subject: SubjectToken | None, token: AccessToken) -> None:
        """Note that the server did not accept this token, so that the next call gets another one."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class Records(Protocol):
    """The audit log. It reads the clock itself. If it raises `StoreUnavailable`, a client is told
    `record_unavailable`."""

    def begin(self, decided: CallDecision) -> Awaitable[None]:
        """Record a decision, allowed or refused. The call may be forwarded only once the returned awaitable is done.

        Raises `AttestationError` for a text that no record can hold (a lone surrogate); then, too, the call must be
        refused.
        """
        ...

    def finish(self, decided: CallDecision, outcome: Outcome) -> "Future[None]":
        """Record the outcome of a call that `begin` has recorded as allowed; `decided` is its decision, shortened by
        `attest.in_short`. The client may see an answer only once the returned future is done.

        Call this whatever happens to the call. The outcome is recorded even if nobody awaits that future. After a
        `StoreUnavailable` it is recorded as soon as that is possible.
        """
        ...

    async def claim(self, resume: bytes) -> CallDecision | None:
        """Take over an open call that another process has recorded, because the call's answer came here. `resume` is
        the key in the call's decision. `finish` then records the outcome. Return None if no such call is open.

        From then on the other process can't record an outcome of the call (`AttestationError`). Raises
        `StoreUnavailable`. Raises `AttestationError` if several open calls have this key, or the decision can't be
        read.
        """
        ...

    def problem(self) -> str | None:
        """Return why records can't be written (for `/readyz` and people), or None."""
        ...

    def unverified(self) -> str | None:
        """Return which writers were left open or unsigned, because the log's entries about them do not verify; or
        None."""
        ...

    async def ready(self) -> bool:
        """Return whether a decision could be recorded now."""
        ...

    async def aclose(self) -> None:
        """Write the waiting records, close open calls, and release all resources."""
        ...
