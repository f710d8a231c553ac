"""An agent's key and delegations, and the proofs made with them. Reads files; reads delegations again when they change.

- [usable] A delegation is used only if it is for this key, validly signed, and within its time. A changed file is read
  again before its next use. If the new content is unusable, the old one stays in force, with a warning. A patient
  presenter starts without an unusable delegation, and says why it is (`faults`).
- [order] The delegations that cover a scope are presented in the order in which they were passed in. Those whose
  constraints forbid the call at this moment come last. If none covers the scope, the one that covers most is presented.
  Exceptions:
  - An expired delegation counts only if there are no others.
  - No delegation is ever presented for another agent's key.
  - A delegation that names a gateway is presented to that gateway alone.
  - A gateway whose id nobody has named may be any server, and could see all delegations by naming scopes. So it sees
    only the delegations that name it, and one other: the first that permits more than proving who the agent is.
  - Where a person can be asked, a delegation for certain calls is not presented for any other call, even if it is the
    only delegation. A request about a task is an exception: such a call may have made the task.
- [exact-call] A proof is bound to the exact call and to the named gateway. Without a gateway no proof is made, unless
  the presenter was made with `binding="none"`: such a proof is valid for any call at any gateway that takes unbound
  proofs.
- [challenge] A gateway's challenge is signed only if it has 32 bytes, has not expired, and names the pinned gateway.
- [person-allowed] Delegations that a person gave when asked come after those that were passed in. One for a single
  exact call is kept in memory. Others are kept in the folder `grants` beside the key. What is put there later is
  read before its next use.

Not checked here: revocation, facts that only the gateway knows (amounts, places, uses), and whether it trusts the
principal. If the gateway refuses for such a reason, the next delegation is tried (`RequestProofs`).
"""

import hashlib
import logging
import os
import secrets
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.base.text import date_time, one_line
from accredit.base.values import decodable
from accredit.client.pins import GatewayPin
from accredit.consent.answers import certain_refusal
from accredit.consent.asks import Ask
from accredit.consent.call import CALL, is_for_call, named_gateways, this_call_only
from accredit.errors import ConfigurationError, ProofRefused, WireError
from accredit.keys import DelegationFile, SigningKey, load_signing_key, public_path, read_file, write_file
from accredit.keys.files import MissingFile
from accredit.keys.places import KNOWN_GATEWAYS
from accredit.limits import CLOCK_LEAD_SECONDS, MAX_DELEGATION_FILE_BYTES
from accredit.policy.constraint_words import refused_constraint
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify import (
    Constraint,
    DelegationCert,
    Extension,
    HybridPublicKey,
    IdentityStatus,
    present,
    verify_chain,
)
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.ratify.facts import VerifierContext
from accredit.ratify.scopes import IDENTITY
from accredit.refusals import BY_WORD, CHALLENGE_REQUIRED

MAX_PRESENTED = 4
"""The most delegations that are tried for one call, one after the other. Each refusal is a record in a log."""
MAX_PROOFS_OF_REQUEST = MAX_PRESENTED + 2
"""How many proofs a client makes for one request, whatever is answered: one with each delegation that is tried, one if
the scope was assumed wrongly, and one for another reading of the request. Without this bound a hostile server got 199
proofs for a call."""
MAX_GRANTS = 64
"""How many delegations an agent may have from a person who was asked. Each ends within a day."""


_log = logging.getLogger("accredit.client")
_ANOTHER_MAY_PASS = frozenset(word for word, row in BY_WORD.items() if row.other_may_pass)
"""Refusals after which another delegation for the same scope may pass."""

GRANTS = "grants"
"""The folder beside an agent's key for the delegations that a person gave when asked, except those for one exact
call."""

Chain = Sequence[DelegationCert]
"""A delegation and its parents, leaf first."""


class NotValidYet(ConfigurationError):
    """A delegation begins later: usually this machine's clock is behind."""


class Expired(ConfigurationError):
    """A delegation has expired. The remedy is the command that signs it anew."""


class _Held(NamedTuple):
    chain: tuple[DelegationCert, ...]
    granted: frozenset[str]
    expires_at: int


class _Source(Struct):
    """A delegation and its source. `stamp` changes whenever its file's content does. `held` is the delegation, or the
    reason why it can't be used."""

    held: _Held | ConfigurationError
    file: Path | None
    stamp: object


class Challenge(Struct, frozen=True):
    """A gateway's challenge, to be signed. `expires_at` is in unix seconds."""

    challenge: bytes
    expires_at: int
    verifier_id: str


@decodable
class _Meta(Struct, frozen=True):
    ratify_challenge: Challenge


class RequestProofs(Struct):
    """The proofs of one request so far.

    `scope` is the scope of the last proof, if there was one, and `also` are the other scopes that its delegation had to
    cover. `chains` are the delegations for all these scopes that were not refused yet. `named` is the scope that the
    gateway asked for, and `proofs` is how many proofs were made. `challenged` says that the last one signs a challenge
    of the gateway.
    """

    call: GuardedCall
    scope: str | None = None
    also: tuple[str, ...] = ()
    challenged: bool = False
    named: str | None = None
    proofs: int = 0
    chains: tuple[Chain, ...] = ()

    def may_name(self, scope: str | None) -> bool:
        """Note which scope the gateway asks for, and return whether another proof may be made: it may name one scope
        for a request, as by naming more it could explore the delegations."""
        if self.proofs >= MAX_PROOFS_OF_REQUEST or self.named not in (None, scope or self.named):
            return False
        self.named = scope or self.named
        return True

    def has_another(self, error: object) -> bool:
        """Return whether the next delegation may help after a refusal with this word. If so, it becomes the first of
        `chains`."""
        if self.scope is None or len(self.chains) < 2 or not isinstance(error, str) or error not in _ANOTHER_MAY_PASS:
            return False
        self.chains = self.chains[1:]
        return True


class ProofPresenter:
    """Makes an agent's proofs. `agent_id` is the agent's; `key_path` is None for a key without a file.

    `gateway_id` pins the gateway from the start. Otherwise `known_gateways` remembers the first id met at each URL
    (default: `known_gateways.json` beside the key file), and refuses an id that is known under another URL. A server
    without a URL is trusted only with `gateway_id`, or with the client's `known_as`. `binding="none"` waives that:
    until such a server claims an id, it gets unbound proofs, and then proofs that are bound to that id.

    With `may_ask`, no delegation is needed at the start, and those that a person gives when asked are presented, too
    ([order] and [person-allowed]). With `patient`, an unusable delegation is not an error at the start ([usable]).
    `clock` gives unix seconds, `draw` unpredictable bytes.
    """

    def __init__(
        self,
        key: str | Path | SigningKey,
        delegations: Iterable[str | Path | Chain],
        *,
        gateway_id: str = "",
        known_gateways: str | Path | None = None,
        binding: Literal["required", "none"] = "required",
        may_ask: bool = False,
        patient: bool = False,
        clock: Callable[[], int] = unix_seconds,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Raises `ConfigurationError` for a file that can't be used, or a delegation that proves nothing. With
        `patient`, only the key raises it."""
        if isinstance(delegations, str | Path):
            raise ConfigurationError(
                "delegations is one path, and a list is asked for", f"write delegations=[{str(delegations)!r}]"
            )
        self.key_path = None if isinstance(key, SigningKey) else Path(key)
        self._key = key if isinstance(key, SigningKey) else load_signing_key(Path(key))
        self._signer = self._key.signer
        self._clock = clock
        self._draw = draw
        self._gateway_id = gateway_id
        self._unbound = binding == "none"
        if known_gateways is None and self.key_path is not None:
            known_gateways = self.key_path.with_name(KNOWN_GATEWAYS)
        self._known_gateways = None if known_gateways is None else Path(known_gateways)
        self._met: dict[str, str] = {}
        self.calls_proved = 0
        """How many proofs were made for calls."""
        self._sources = tuple(self._source(each, patient=patient) for each in delegations)
        if not self._sources and not may_ask:
            raise _nothing_to_present()
        self._may_ask = may_ask
        self._allowed: list[_Held] = []
        self._grants = self.key_path.with_name(GRANTS) if may_ask and self.key_path is not None else None
        self._grants_stamp: object = None
        self._read_grants()

    def __repr__(self) -> str:
        return f"<ProofPresenter {self.agent_id}>"

    @property
    def agent_id(self) -> str:
        """The id of the agent's key."""
        return self._signer.id

    @property
    def name(self) -> str:
        """The name that the agent's key file gives the agent."""
        return self._key.about.name

    @property
    def principals(self) -> tuple[str, ...]:
        """The ids of the people who issued the delegations that were passed in, but not of those who gave one when
        asked."""
        chains = [source.held.chain for source in self._sources if isinstance(source.held, _Held)]
        return tuple(dict.fromkeys(chain[-1].issuer_id for chain in chains))

    @property
    def faults(self) -> tuple[ConfigurationError, ...]:
        """What is wrong with each delegation that was passed in and can't be used."""
        self._current()
        return tuple(source.held for source in self._sources if isinstance(source.held, ConfigurationError))

    def sign_ask(self, ask: Ask) -> Ask:
        """Return an ask with the agent's signature. Raises `AskError`."""
        return ask.signed(self._signer)

    @property
    def public_key(self) -> HybridPublicKey:
        """The agent's public key."""
        return self._signer.public_key

    @property
    def granted(self) -> frozenset[str]:
        """Every scope that a delegation covers now. Wildcards are replaced by the scopes they stand for."""
        return frozenset[str]().union(*(held.granted for held in self._alive()))

    @property
    def has_one_chain(self) -> bool:
        """Whether there is only one delegation, so that a proof shows everything that the agent may do."""
        return len(self._sources) == 1

    def pin(self, url: str = "") -> GatewayPin:
        """Return the pin of the gateway at `url`. `url` may also be a name that stands for a URL, or "" if there is
        neither. Raises `ConfigurationError`."""
        known = self._known_gateways
        return GatewayPin(self._gateway_id, url=url, file=known, met=self._met, unbound=self._unbound)

    def granted_at(self, pin: GatewayPin) -> frozenset[str]:
        """Return every scope covered by the delegations that this gateway may see."""
        return frozenset[str]().union(
            *(held.granted for held in _select_for_gateway(self._alive(), pin.id, met=not pin.named))
        )

    def chains_for(
        self,
        scope: str,
        call: GuardedCall | None = None,
        verifier_id: str = "",
        *,
        met: bool = False,
        also: Collection[str] = (),
    ) -> tuple[Chain, ...]:
        """Return the delegations to present, best first ([order]). For the scope "" that is the one that covers most.
        `also` are further scopes that the call needs. There may be none: all may be for other gateways or, if a person
        can be asked, for other calls. `met` says that the gateway's id is only claimed, not named by anybody."""
        candidates = _select_for_gateway(self._alive() or self._current(), verifier_id, met=met)
        if self._may_ask and call is not None:
            fit = tuple(held for held in candidates if not self._is_for_others(held.chain, call, verifier_id))
            candidates = fit or (candidates if call.about_tasks else ())
        covering = [held for held in candidates if held.granted.issuperset((scope, *also))]
        if not covering:
            most = sorted(candidates, key=lambda held: (len(held.granted), held.expires_at))
            return tuple(held.chain for held in most[-1:])
        if call is not None and len(covering) > 1:
            refused = [self._is_refused(held.chain, call, verifier_id) for held in covering]
            good = [held for held, is_refused in zip(covering, refused, strict=True) if not is_refused]
            # The latest grant, perhaps for this very call, is tried in any case.
            good = good if len(good) <= MAX_PRESENTED else [*good[: MAX_PRESENTED - 1], good[-1]]
            covering = [*good, *(held for held, is_refused in zip(covering, refused, strict=True) if is_refused)]
        return tuple(held.chain for held in covering[:MAX_PRESENTED])

    def prove_again(
        self,
        tries: RequestProofs,
        scope: str,
        verifier_id: str,
        *,
        bound_to: str | None = None,
        also: tuple[str, ...] = (),
        challenge: Challenge | None = None,
        met: bool = False,
    ) -> dict[str, object] | None:
        """Return the next proof of a request, as `prove` does, with the first of the delegations that were not refused
        yet. Return None if there is none, or if the last proof signed a challenge: the gateway then has to give
        another. The proof is bound to `scope`, unless `bound_to` is given."""
        if (tries.scope, tries.also) != (scope, also) or not tries.chains:
            tries.chains = self.chains_for(scope, tries.call, verifier_id, met=met, also=also)
        was_challenged, tries.challenged = tries.challenged, challenge is not None
        tries.scope, tries.also = scope if tries.chains else None, also
        if not tries.chains or (was_challenged and challenge is None):
            return None
        tries.proofs += 1
        bound_to, chain = scope if bound_to is None else bound_to, tries.chains[0]
        return self.prove(tries.call, bound_to, verifier_id, challenge=challenge, chain=chain)

    def chain_for(self, scope: str, call: GuardedCall | None = None, verifier_id: str = "") -> Chain:
        """Return the first of `chains_for`. Raises `ConfigurationError` if there is none."""
        chains = self.chains_for(scope, call, verifier_id)
        if not chains:
            raise _nothing_to_present()
        return chains[0]

    def allow(self, chain: Sequence[DelegationCert]) -> None:
        """From now on, present a chain that a person gave when asked ([person-allowed]). If it can't be written to its
        file, it is kept in memory, with a warning. Raises `ConfigurationError` for a chain that proves nothing."""
        held = self._take(tuple(chain))
        self._allowed = [*(each for each in self._allowed if each.expires_at >= self._clock()), held][-MAX_GRANTS:]
        if self._grants is None or this_call_only(held.chain[0].constraints):
            return
        file = self._grants / f"{hashlib.sha256(held.chain[0].cert_id.encode()).hexdigest()[:32]}.json"
        try:
            with suppress(OSError):  # the write then fails as well, and says why
                self._grants.mkdir(mode=0o700, exist_ok=True)
            write_file(file, DelegationFile(held.chain).encode() + b"\n", private=True, replace=True)
        except ConfigurationError as error:
            _log.warning("%s; what was allowed is forgotten when this ends", error.what)

    def constraints_refused(self, scope: str, reason: str) -> tuple[Constraint, tuple[Constraint, ...]] | None:
        """Return the constraint that a verifier names in its reason, and the other constraints of the delegation.

        Return None if no delegation for the scope has such a constraint.
        """
        for chain in self.chains_for(scope):
            refused = refused_constraint(reason, chain)
            if refused is not None and f"({refused[0].type})" in reason:
                every = (each for cert in chain for each in cert.constraints)
                return refused[0], tuple(each for each in every if each is not refused[0])
        return None

    def prove(
        self,
        call: GuardedCall,
        scope: str = "",
        verifier_id: str = "",
        *,
        challenge: Challenge | None = None,
        chain: Chain = (),
    ) -> dict[str, object]:
        """Return a fresh proof of one call, in the form of `_meta.ratify_proof`.

        It is bound to `call`, its `scope` ("" for a list) and the gateway `verifier_id`; if that is "", it is bound to
        nothing. Without a `challenge` of the gateway it signs one that is made here (Option A of Ratify). It presents
        `chain`, by default the one that `chain_for` returns. Raises `ConfigurationError` if there is no delegation, or
        a `verifier_id` is missing ([exact-call]).
        """
        if not verifier_id and not self._unbound:
            raise ConfigurationError(
                "a proof for no gateway would be good for any call at many", 'name the verifier_id, or binding="none"'
            )
        self.calls_proved += call.guarded
        context = call.session_context(verifier_id, self.agent_id, scope) if verifier_id else b""
        nonce = challenge.challenge if challenge is not None else self._draw(CHALLENGE_BYTES)
        # The gateway compares our challenge with its clock, which may be behind; its own it accepts at any time.
        signed_at = self._clock() - (CLOCK_LEAD_SECONDS if challenge is None else 0)
        chain = chain or self.chain_for(scope, call, verifier_id)
        bundle = present(chain, self._signer, nonce, signed_at, session_context=context)
        return bundle.to_dict()

    def accept_challenge(self, data: Mapping[str, object], pin: GatewayPin) -> Challenge:
        """Return the challenge in the `data` of a -31002. Raises `ProofRefused` if it may not be signed
        ([challenge])."""
        try:
            challenge = msgspec.convert(data.get("_meta"), _Meta).ratify_challenge
        except msgspec.ValidationError:
            raise _not_signed("the gateway's challenge can't be read", data) from None
        if len(challenge.challenge) != CHALLENGE_BYTES:
            raise _not_signed(f"the gateway's challenge has not {CHALLENGE_BYTES} bytes", data)
        if challenge.expires_at < self._clock():
            raise _not_signed("the gateway's challenge has expired already; compare the clocks", data)
        if not challenge.verifier_id:
            raise _not_signed("the gateway's challenge does not say whose it is", data)
        pin.meet(challenge.verifier_id)
        return challenge

    def _alive(self) -> tuple[_Held, ...]:
        now = self._clock()
        return tuple(held for held in self._current() if held.expires_at >= now)

    def _current(self) -> tuple[_Held, ...]:
        """Return all current delegations, after checking the files ([usable])."""
        for source in self._sources:
            stamp = _stamp(source.file)
            if source.file is None or stamp == source.stamp:
                continue
            source.stamp = stamp  # before reading: an unusable file is not read again until it changes
            try:
                source.held = self._take(source.file)
            except ConfigurationError as error:
                if isinstance(source.held, ConfigurationError):
                    source.held = error
                else:
                    _log.warning("%s; the delegation that was read before is used", error.what)
        self._read_grants()
        return (*(each.held for each in self._sources if isinstance(each.held, _Held)), *self._allowed)

    def _read_grants(self) -> None:
        """Read the delegations that were put among the grants since the last time, and delete those that have
        expired."""
        stamp = _stamp(self._grants)
        if self._grants is None or stamp == self._grants_stamp:
            return
        self._grants_stamp = stamp
        known = {held.chain[0].cert_id for held in self._allowed}
        for file in sorted(self._grants.glob("*.json"))[:MAX_GRANTS]:
            try:
                chain = _read_chain(file)
                if min(cert.expires_at for cert in chain) < self._clock():
                    file.unlink(missing_ok=True)
                elif chain[0].cert_id not in known:
                    self._allowed = [*self._allowed, self._take(chain)][-MAX_GRANTS:]
            except ConfigurationError as error:
                _log.warning("%s; it is not presented", error.what)
            except OSError as error:
                _log.warning("can't delete %s, which has expired: %s", file, error.strerror)

    def _source(self, given: str | Path | Chain, *, patient: bool) -> _Source:
        file = Path(given) if isinstance(given, str | Path) else None
        stamp = _stamp(file)  # before reading, so that a change meanwhile is noticed
        try:
            return _Source(self._take(given), file, stamp)
        except ConfigurationError as error:
            if not patient:
                raise
            return _Source(error, file, stamp)

    def _is_refused(self, chain: Chain, call: GuardedCall, verifier_id: str) -> bool:
        """Return whether a constraint certainly refuses the call. Only the clock and the call itself are considered."""
        context = VerifierContext(call=call.facts(verifier_id))
        return certain_refusal(chain, context, self._clock()) is not None

    def _is_for_others(self, chain: Chain, call: GuardedCall, verifier_id: str) -> bool:
        """Return whether a chain is for certain calls, but not for this one."""
        facts = call.facts(verifier_id)
        return any(
            isinstance(each, Extension) and each.name == CALL and not is_for_call(each, facts)
            for cert in chain
            for each in cert.constraints
        )

    def _take(self, source: str | Path | Chain) -> _Held:
        if isinstance(source, str | Path):
            name, chain = str(source), _read_chain(Path(source), self._grant_to(str(source)))
        else:
            name, chain = "the delegation", tuple(source)
        if not chain or chain[0].subject_pub_key != self._signer.public_key:
            key = "this key" if self.key_path is None else str(self.key_path)
            raise ConfigurationError(
                f"{name} is not for {key} (agent {self.agent_id})",
                f"name the agent's own key, or have another signed for this one: {self._grant_to('delegation.json')}",
            )
        # Any scope is accepted here: those beyond the canonical ones are in each gateway's catalog.
        vocabulary = frozenset(scope for cert in chain for scope in cert.scope)
        result = verify_chain(chain, now=self._clock(), vocabulary=vocabulary)
        if result.identity_status is IdentityStatus.EXPIRED:
            raise self._expired(name, chain)
        begins = max(cert.issued_at for cert in chain)
        if begins > self._clock():
            raise NotValidYet(
                f"{name} is not valid yet: it begins at {date_time(begins)}, and this machine's clock says"
                f" {date_time(self._clock())}",
                "see whether the clock is right: `timedatectl set-ntp true` has the network set it; `accredit doctor`"
                " compares it with the gateway's",
            )
        if not result.valid:
            raise ConfigurationError(f"{name} proves nothing: {result.error_reason}", "see `accredit inspect`")
        return _Held(chain, frozenset(result.granted_scope), min(cert.expires_at for cert in chain))

    def _expired(self, file: str, chain: Sequence[DelegationCert]) -> ConfigurationError:
        """Return the error for an expired delegation. It has the command that signs it anew only if no constraint could
        get lost by it."""
        ended = date_time(min(cert.expires_at for cert in chain))
        what = f"{file} has expired (at {ended}; this machine's clock says {date_time(self._clock())})"
        if self.key_path is None or len(chain) != 1 or chain[0].constraints:
            return ConfigurationError(what, "ask its principal for a new one: `accredit grant`")
        command = self._grant_to(file, *chain[0].scope, replace=True)
        return Expired(what, f"ask its principal for a new one: {command}")

    def _grant_to(self, file: str, *scopes: str, replace: bool = False) -> str:
        """Return the command that signs a delegation for this agent, and writes it to `file`."""
        agent = "AGENT.key.pub" if self.key_path is None else str(public_path(self.key_path))
        named = [word for scope in scopes or ("SCOPE",) for word in ("--scope", scope)]
        words = ["--agent", agent, *named, "--expires", "30d", "--out", file, *(["--force"] if replace else [])]
        return f"`{one_line(shlex.join(['accredit', 'grant', '--issuer', 'PATH', *words]))}`, {_WITH_PATH}"


def _select_for_gateway(held: tuple[_Held, ...], gateway: str, *, met: bool) -> tuple[_Held, ...]:
    """Return the delegations that a gateway may see ([order]). "" is a gateway whose id is not known."""
    if gateway or met:
        held = tuple(each for each in held if all(name == gateway for name in _gateways(each.chain)))
    if not met:
        return held
    others = [each for each in held if not _gateways(each.chain)]
    useful = (each for each in others if not all(scope.startswith(IDENTITY) for scope in each.granted))
    first = next(useful, next(iter(others), None))
    return tuple(each for each in held if each is first or _gateways(each.chain))


def _gateways(chain: Chain) -> list[object]:
    """Return the gateways that a chain names: it is valid at no other."""
    return [gateway for cert in chain for gateway in named_gateways(cert.constraints)]


def _nothing_to_present() -> ConfigurationError:
    return ConfigurationError("there is no delegation to present", "name a file that `accredit grant` made")


def _stamp(file: Path | None) -> object:
    """Return a value that changes when a file's content does; None if there is no file."""
    if file is None:
        return None
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


_WITH_PATH = "where PATH is their private key"


def _read_chain(path: Path, command: str = "`accredit grant`") -> tuple[DelegationCert, ...]:
    try:
        return DelegationFile.decode(read_file(path, MAX_DELEGATION_FILE_BYTES).data).delegations
    except MissingFile:
        remedy = f"ask whoever may allow this agent something to make it: {command}"
        raise MissingFile(f"there is no delegation {path}", remedy) from None
    except WireError as error:
        raise ConfigurationError(
            f"{path} is not a delegation: {error.reason}", "name a file that `accredit grant` made"
        ) from None


def _not_signed(text: str, data: Mapping[str, object]) -> ProofRefused:
    return ProofRefused(data, f"ratify_challenge_required: {text}", CHALLENGE_REQUIRED)
