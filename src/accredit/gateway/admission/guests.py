"""Clients that speak only OAuth, at one endpoint: who stands behind their access tokens, and the proofs that the
gateway makes for them. Asks the store of the front door.

A token of the front door gives no power of its own. It names a login. The login's agent is a key that the gateway
keeps, to which people signed delegations. With it the gateway proves each request that needs a decision, which is then
decided like any other.

- [login] The token is valid (`oauth.access_tokens`), and for this endpoint. The configuration lets its client in. Its
  login has not ended: the store is asked at each request. The grant belongs to the client and person that the token
  names.
- [groups] Where people log in at an identity provider, their groups were read in the last `recheck_hours`. A grant
  becomes invalid if the configuration changes to another kind of consent or another provider.
- [agent] A chain of certificates that the store holds is used only if it is for the grant's key. That it is valid, and
  ends in a root, is verified with each proof (`policy.decide`).
- [call] The proof is bound to this very request, by Ratify's profile for keys that a platform holds: `workspace_id` is
  the client's id, and `invocation_id` that of the request in its record. For a sensitive tool, the proof signs a
  challenge issued for this call.
- [standing] The standing delegation covers no sensitive tool, and nothing beyond the token's own scopes. Any other call
  needs a chain that a person added when they were asked. A call that neither covers is refused here.
- [other-proof] If a request brings its own proof, none is made. The decision refuses it unless the token's agent made
  it.
"""

import secrets
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import NamedTuple, cast

from msgspec import Raw, structs

from accredit.base.caching import RecentlyUsed
from accredit.base.clock import unix_seconds
from accredit.consent.call import CALL, is_for_call
from accredit.errors import InsufficientScope, InvalidToken, ProofRefused, WireError
from accredit.gateway.admission.guest_asks import GuestAsks, is_askable, say_who_waits
from accredit.gateway.admission.held_answer import HeldAnswer, WaitingCall
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.jsonrpc.frames import Notification, Response
from accredit.jsonrpc.methods import TASK_CHANGES
from accredit.limits import MAX_CACHED_TOKENS
from accredit.oauth.access_tokens import FrontToken, is_front_token, verify_access_token
from accredit.policy import refusals
from accredit.policy.catalog import Entry
from accredit.policy.decision import Decision, Policy
from accredit.policy.guarded_call import LISTS, GuardedCall, call_of_platform
from accredit.policy.tasks import TaskScope
from accredit.ports import DoorStore, Grant, Login, TaskStore
from accredit.ratify import (
    CallFacts,
    DelegationCert,
    Extension,
    HybridPrivateKey,
    IdentityStatus,
    challenge_sign_bytes,
    encode_delegation_cert,
)
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.ratify.hybrid import SEED_BYTES, HybridPublicKey, HybridSignature
from accredit.ratify.scopes import intersect
from accredit.ratify.structures import decode_chain
from accredit.refusals import CHALLENGE_REQUIRED
from accredit.telemetry.tracing import RandomIds
from accredit.tokens.claims import VerifiedToken

MAX_LOADED_AGENTS = 1_024
"""How many agents' keys stay loaded: with their chains some 40 KB each. To load one takes as long as two signatures."""

Decide = Callable[[GuardedCall], Awaitable[Decision]]
"""Decides a call that has a proof, or none."""


class Guest(VerifiedToken, frozen=True, kw_only=True):
    """An access token of the front door, and the login behind it. Its `subject` is the id of the login's agent, and
    `client` that of the OAuth client."""

    login: Login

    def __repr__(self) -> str:
        return f"<Guest {self.client!r}>"


class Chain(NamedTuple):
    """Certificates, leaf first; their text, as a JSON array; and the scopes that all of them grant."""

    certificates: tuple[DelegationCert, ...]
    text: bytes
    granted: frozenset[str]


class Agent:
    """The agent of one grant: its key, and its standing delegation, if it has one."""

    def __init__(self, grant: Grant) -> None:
        self.signer = HybridPrivateKey(grant.seeds[:SEED_BYTES], grant.seeds[SEED_BYTES:])
        self.standing = read_chain(grant.chain, self.signer.public_key)
        key = _both(self.signer.public_key)
        self._head = b'{"agent_id":"%b","agent_pub_key":%b' % (self.signer.id.encode(), key)

    def prove(self, call: GuardedCall, scope: str, gateway: str, chain: Chain, challenge: bytes, at: int) -> Raw:
        """Return the text of a proof, bound to a call. It is put together from parts, as the certificates' text is the
        same each time. `at` is in unix seconds."""
        context = call.session_context(gateway, self.signer.id, scope)
        signature = self.signer.sign(challenge_sign_bytes(challenge, at, context, b"", 0))
        return Raw(
            b'%b,"challenge":"%b","challenge_at":%d,"challenge_sig":%b,"delegations":%b,"session_context":"%b"}'
            % (self._head, b64encode(challenge), at, _both(signature), chain.text, b64encode(context))
        )


class _Case(NamedTuple):
    """One call of a guest while it is decided."""

    call: GuardedCall
    guest: Guest
    agent: Agent
    entry: Entry | None
    decide: Decide


class Guests:
    """One per endpoint. `clock` returns unix seconds, `draw(n)` n unpredictable bytes."""

    def __init__(
        self,
        settings: OAuthSettings,
        path: str,
        door: DoorStore,
        policy: Policy,
        tasks: TaskStore | None = None,
        asks: GuestAsks | None = None,
        *,
        clock: Callable[[], int] = unix_seconds,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.settings = settings
        self._resource = settings.endpoint(path)
        self._door = door
        self._policy = policy
        self._tasks = tasks
        self._asks = asks
        self._clock = clock
        self._draw = draw
        self._ids = RandomIds()
        self._agents = RecentlyUsed[tuple[bytes, bytes], Agent](MAX_LOADED_AGENTS)
        self._tokens = RecentlyUsed[str, FrontToken](MAX_CACHED_TOKENS)
        """Verified tokens, by the SHA-256 of their texts."""

    def is_own(self, token: str) -> bool:
        """Return whether a bearer token claims to come from the front door."""
        return is_front_token(token, self.settings.public_url)

    async def enter(self, text: str) -> Guest:
        """Return the guest to whom a token belongs ([login]). Raises `InvalidToken` and `StoreUnavailable`."""
        now, digest = self._clock(), sha256(text.encode()).hexdigest()
        token = self._tokens.get(digest)
        if token is None or not token.is_current(now):
            token = verify_access_token(text, self.settings.public_url, self._resource, self.settings.keys, now)
            if not self.settings.lets_in(token.client_id):
                raise InvalidToken("its client is no longer let in (oauth.clients)", "the client is no longer let in")
            self._tokens.put(digest, token)
        login = await self._door.login(bytes.fromhex(token.login), now=now)
        if login is None:
            raise InvalidToken("its login has ended", "the login has ended")
        grant = login.grant
        if (grant.client_id, grant.subject, grant.resource) != (token.client_id, token.subject, token.resource):
            raise InvalidToken("its login is another client's or person's")
        self._check_groups(grant)
        return Guest(
            token.issuer,
            self._agent(grant).signer.id,
            min(token.expires_at, login.ends),
            digest,
            jti=token.token_id,
            scopes=frozenset(token.scope.split()),
            client=token.client_id,
            login=login,
        )

    def _check_groups(self, grant: Grant) -> None:
        """Check that a grant comes from the configured kind of consent, and its person's groups were read lately
        ([groups])."""
        idp = self.settings.idp
        if grant.provider != self.settings.provider:
            raise InvalidToken("its person consented in another way than people do now", "the login has ended")
        if idp is not None and grant.checked + idp.recheck_seconds < self._clock():
            raise InvalidToken("its person's groups have to be read again", "refresh the token")

    async def decide(
        self,
        call: GuardedCall,
        guest: Guest,
        id: str,
        place: TaskScope,
        decide: Decide,
        *,
        wait: bool = True,
        answer: HeldAnswer | None = None,
    ) -> tuple[Decision, WaitingCall | None]:
        """Make a proof for a guest's call ([agent] to [other-proof]), and have the call decided. `id` is the call's id
        in its record. With `wait`, if a person has to be asked, wait for their answer. Meanwhile the response to the
        client (`answer`) is begun, if possible. If the person has not answered yet, also return the waiting call.

        Raises `FrameError` for a call without a digest, `InsufficientScope` if the client can ask for the missing scope
        ([standing]), and `StoreUnavailable`.
        """
        if call.proof is not None:
            return await decide(call), None
        entry = None if call.about_tasks else self._policy.catalog.find(call.method, call.target)
        case = _Case(
            call_of_platform(call, guest.client or "", id), guest, self._agent(guest.login.grant), entry, decide
        )
        decision = await self._decided(case, place)
        if entry is None or self._asks is None or not is_askable(decision.refusal) or decision.refusal is None:
            return decision, None
        try:
            signer = case.agent.signer
            waits = await self._asks.ask(
                case.call, decision.refusal, entry, guest.login, signer, wait=wait, answer=answer
            )
        except ProofRefused as refused:
            return structs.replace(decision, refusal=refused), None
        if waits is None:
            return await self._decided(case, place), None
        return structs.replace(decision, refusal=say_who_waits(decision.refusal, waits)), waits

    async def settles(self, message: Notification | Response, guest: Guest, session: str) -> bool:
        """Handle what a guest says about a call that waits for a person; return False for any other message
        (`GuestAsks.settles`)."""
        return self._asks is not None and await self._asks.settles(message, guest.subject, session)

    async def _decided(self, case: "_Case", place: TaskScope) -> Decision:
        """Have a call decided with the standing chain. If another chain may help, try each that was added later."""
        call, entry, agent = case.call, case.entry, case.agent
        if entry is None:
            scope = await self._task_scope(call, place)
            if agent.standing is None or not (call.about_tasks or call.method in LISTS):
                return await case.decide(call)
            return await self._proved(case, agent.standing, scope)
        facts = call.facts(self._policy.verifier_id)
        decision: Decision | None = None
        standing = agent.standing if not entry.sensitive else None
        if standing is not None and entry.allows(standing.granted & case.guest.scopes) and _is_for(standing, facts):
            decision = await self._proved(case, standing, entry.scope)
            if not is_askable(decision.refusal):
                return decision
        for text in await self._door.chains(case.guest.login.grant, now=self._clock()):
            added = read_chain(text, agent.signer.public_key)
            if added is not None and entry.allows(added.granted) and _is_for(added, facts):
                decision = await self._proved(case, added, entry.scope)
                if not is_askable(decision.refusal):
                    return decision
        return decision or self._uncovered(case, entry)

    async def _proved(self, case: "_Case", chain: Chain, scope: str) -> Decision:
        """Have a call decided by a proof with a chain ([call])."""
        agent, gateway, call = case.agent, self._policy.verifier_id, case.call
        if case.entry is None or not case.entry.sensitive:
            proof = agent.prove(call, scope, gateway, chain, self._draw(CHALLENGE_BYTES), self._clock())
            call = structs.replace(call, proof=proof)
        decision = await case.decide(call)
        challenge = _challenge_in(decision)
        if challenge is None:
            return decision
        proof = agent.prove(case.call, scope, gateway, chain, challenge, self._clock())
        return await case.decide(structs.replace(case.call, proof=proof))

    def draw_id(self) -> str:
        """Return an id for a call."""
        return self._ids.draw()

    def _agent(self, grant: Grant) -> Agent:
        agent = self._agents.get((grant.seeds, grant.chain))
        if agent is None:
            agent = Agent(grant)
            self._agents.put((grant.seeds, grant.chain), agent)
        return agent

    def _uncovered(self, case: "_Case", entry: Entry) -> Decision:
        """Return the refusal of a call that no signed delegation covers ([standing]). Where people log in at an
        identity provider, their client can ask for the scope: that raises `InsufficientScope`, a 403."""
        if self.settings.consent == "idp":
            detail = "what was signed for this client does not cover this call"
            raise InsufficientScope("uncovered", detail, (entry.scope,))
        standing = case.agent.standing
        granted = (standing.granted if standing is not None else frozenset[str]()) & case.guest.scopes
        status = IdentityStatus.CONSTRAINT_DENIED if entry.allows(granted) else IdentityStatus.SCOPE_DENIED
        reason = f"{status}: what was signed for this client does not cover this call"
        words = "this app may not do that by what was signed for it"
        agent_id = case.agent.signer.id
        refusal = refusals.denial(case.call, entry, status, reason, words, granted=sorted(granted), agent_id=agent_id)
        return Decision(case.call, entry, None, refusal)

    async def _task_scope(self, call: GuardedCall, place: TaskScope) -> str:
        """Return the scope of the tool whose task is to be changed; "" for other requests about tasks."""
        if call.method not in TASK_CHANGES or self._tasks is None:
            return ""
        task = await self._tasks.find(place.key(call.target, call.session_id), now=self._clock())
        entry = self._policy.catalog.find(task.method, task.target) if task is not None else None
        return entry.scope if entry is not None else ""


def read_chain(text: bytes, key: HybridPublicKey) -> Chain | None:
    """Return the chain in a text, a JSON array of certificates, leaf first. Return None for any other text, and for a
    chain to another key ([agent])."""
    try:
        chain = decode_chain(text)
    except WireError:
        return None
    if chain[0].subject_pub_key != key:
        return None
    written = b"[%b]" % b",".join(encode_delegation_cert(cert) for cert in chain)
    return Chain(chain, written, frozenset(intersect(cert.scope for cert in chain)))


def _is_for(chain: Chain, facts: CallFacts) -> bool:
    """Return whether this call meets all of a chain's constraints on certain calls."""
    constraints = (each for cert in chain.certificates for each in cert.constraints)
    return all(is_for_call(each, facts) for each in constraints if isinstance(each, Extension) and each.name == CALL)


def _challenge_in(decision: Decision) -> bytes | None:
    """Return the challenge that a refusal asks to sign, or None."""
    refusal = decision.refusal
    if refusal is None or refusal.code != CHALLENGE_REQUIRED:
        return None
    meta = cast("dict[str, dict[str, str]]", refusal.data["_meta"])
    return b64decode(meta["ratify_challenge"]["challenge"])


def _both(halves: HybridPublicKey | HybridSignature) -> bytes:
    return b'{"ed25519":"%b","ml_dsa_65":"%b"}' % (b64encode(halves.ed25519), b64encode(halves.ml_dsa_65))
