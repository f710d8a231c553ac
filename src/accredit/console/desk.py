"""Handles asks and the person's decisions, which come from the page, the terminal or the socket.

A call is allowed if all of these hold, in this order. If one fails, no certificate is given out, and the ask and its
nonce stay as they are:

- [pending-ask] There is an ask with this code and this digest, it is pending, and nobody else is deciding on it.
- [nonce] The nonce is the one that the page was given with the ask.
- [choice] The choice is one of those that this ask has, within its bounds.
- [unlocking] The key is unlocked, or the person gives the passphrase.
- [still-pending] The ask is still pending.
- [certificate] The certificate is signed, and the asking side will accept it: for its key, this gateway and this call.
- [journal] The journal's entry about it is on disk.

A person may also sign the certificate elsewhere (`accredit approve`). It is then delivered if [pending-ask],
[certificate] and [journal] hold. It must be signed by this very key, after the ask came, and not given out before:
agents keep the certificates that they were given. Nothing else that comes through the socket allows anything. Denying
takes effect at any time.
"""

import hmac
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from accredit.consent.answers import Answer, chain_allowed
from accredit.consent.asks import Ask, check_ask, read_code
from accredit.consent.offers import Offer, choices, concerns_money
from accredit.consent.shown import in_one_line
from accredit.console.book import DENIED_SECONDS, AskBook, PendingAsk, State
from accredit.console.journal import Journal
from accredit.console.past import PastDecisions, id_for, values_of
from accredit.console.unlock import KeyHolder
from accredit.errors import AccreditError, ConsentError, DeskError, StoreUnavailable
from accredit.keys import KeyFile
from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.ratify import DelegationCert, HybridSigner, issue_delegation
from accredit.ratify.scopes import is_sensitive

_PROMPTED_CHARS = 80
_USED_IDS_SECONDS = 7_200
"""How long the ids of decided asks are remembered across restarts: longer than any ask is pending."""


class Choice(Struct, frozen=True):
    """The person's choice: the offer's key, and how many calls and seconds are allowed (0: as proposed)."""

    key: str
    calls: int = 0
    seconds: int = 0


class Desk:
    """The asks, the key and the journal of one person. `on_change` is called whenever the pages' state has changed."""

    def __init__(
        self,
        person: KeyFile,
        keys: KeyHolder,
        journal: Journal,
        clock: Callable[[], int],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.person = person
        self.keys = keys
        self.past = PastDecisions(journal.past, person.public_key)
        self.now = clock
        self._journal = journal
        self._on_change = on_change
        now = clock()
        self.book = AskBook(
            person.id, self.past.used_ids(now - _USED_IDS_SECONDS), self.past.denied(now - DENIED_SECONDS)
        )

    def take(self, ask: Ask, started_by: str = "") -> tuple[PendingAsk, bool]:
        """Take an ask. Return it, and whether the person must be shown it. Raises `DeskError`."""
        now = self.now()
        self.expire()
        if self.book.known(ask.digest.hex()) is None:  # one that is known may be kept open beyond its own end
            try:
                check_ask(ask, now)
            except ConsentError as error:
                raise DeskError("bad_ask", str(error)) from None
        asked, is_news = self.book.take(ask, now, is_new=self.past.is_new(ask), started_by=started_by)
        if is_news:
            self._note("asked", asked, expires_at=ask.expires_at)
            self._on_change()
        return asked, is_news

    def find(self, code: str, key: str | None = None) -> PendingAsk:
        """Return the ask with this code. If `key` is given, it must be the ask's digest. Raises `DeskError`."""
        self.expire()
        try:
            asked = self.book.find(read_code(code))
        except ConsentError as error:
            raise DeskError("unknown", str(error)) from None
        if asked is None or (key is not None and asked.key != key):
            raise DeskError("unknown", "no ask has this code: `accredit asked` lists those that wait")
        return asked

    def offer(self, asked: PendingAsk, choice: Choice) -> Offer:
        """Return the offer that a person chose. Raises `DeskError`."""
        for each in choices(asked.ask, is_new=asked.is_new):
            if each.key == choice.key:
                return each
        raise DeskError("choice", "there is no such choice for this ask")

    def check_nonce(self, asked: PendingAsk, nonce: str) -> None:
        """Check that the page was given this ask. Raises `DeskError`. The nonce stays valid."""
        if not hmac.compare_digest(asked.nonce.encode(), nonce.encode("utf-8", "surrogatepass")):
            raise DeskError("nonce", "this page is not the one that shows the ask")

    async def allow(self, asked: PendingAsk, nonce: str, choice: Choice) -> None:
        """Allow a call, by the steps above. Raises `DeskError`."""
        with self._deciding(asked):
            self.check_nonce(asked, nonce)
            offer = self.offer(asked, choice)
            signer = await self.keys.signer(_reason(asked.ask), each=needs_each(asked.ask, offer))
            self._check_waits(asked)
            try:
                cert = signed_certificate(signer, asked.ask, offer, choice, self.now())
            except AccreditError as error:
                raise DeskError("not_signed", f"nothing was signed: {error}") from None
            self._give(asked, (cert,))

    @property
    def wanted_for(self) -> str:
        """What would be signed if the passphrase were given now, in words: the signature that waits for the key, if
        there is one. Otherwise, if each signature needs the passphrase and only one ask is pending, that ask; else
        ""."""
        return self.keys.wanted_for or self._beforehand

    async def unlock(self, passphrase: str, told: str | None) -> None:
        """Unlock the key. `told` is the purpose that the person was shown (None: no purpose was shown). Raises
        `ConfigurationError` for a wrong passphrase, and `DeskError`, also if the purpose has changed."""
        await self.keys.unlock(passphrase, told, self._beforehand)

    @property
    def _beforehand(self) -> str:
        waiting = self.book.waiting(self.now()) if self.keys.is_for_each else []
        return _reason(waiting[0].ask) if len(waiting) == 1 else ""

    def deliver(self, answer: Answer) -> None:
        """Deliver a certificate that the person signed elsewhere. Raises `DeskError`."""
        asked = self.book.known(answer.ask)
        if asked is None:
            raise DeskError("unknown", "nobody has asked this")
        with self._deciding(asked):
            if len(answer.certificates) != 1 or answer.certificates[0].issuer_pub_key != self.person.public_key:
                raise DeskError("not_signed", f"this is not signed by {self.person.name}")
            leaf = answer.certificates[0]
            if self.past.has_given(leaf.cert_id) or leaf.issued_at + CLOCK_LEAD_SECONDS < asked.taken_at:
                raise DeskError("not_signed", "this was signed before, for another ask")
            self._give(asked, answer.certificates)

    def deny(self, asked: PendingAsk) -> None:
        """Deny a call, even while somebody else is allowing it. Raises `DeskError`."""
        self._check_waits(asked)
        with suppress(DeskError):  # a full disk must not keep anybody from saying no
            self._note("denied", asked)
        self.book.deny(asked, self.now(), Answer(ask=asked.key, decision="deny"))
        self._on_change()

    def keep_open(self, asked: PendingAsk) -> None:
        """Keep an ask open for an hour. Raises `DeskError`."""
        self._check_waits(asked)
        self.book.keep_open(asked, self.now())
        self._on_change()

    def withdraw(self, asked: PendingAsk) -> None:
        """Mark an ask as withdrawn: the agent that asked no longer waits."""
        if asked.state == "pending":
            asked.settle("withdrawn", None)
            self._on_change()

    def expire(self) -> None:
        """End asks that have expired."""
        if self.book.expire(self.now()):
            self._on_change()

    def note(self, event: str, **facts: object) -> None:
        """Write an entry into the journal. Raises `DeskError`."""
        at = self.now()
        try:
            self._journal.write(event, at, **facts)
        except StoreUnavailable as error:
            raise DeskError("unavailable", str(error)) from None
        self.past.add({"at": at, "event": event, **facts})

    @contextmanager
    def _deciding(self, asked: PendingAsk) -> Generator[None]:
        self._check_waits(asked)
        if asked.is_deciding:
            raise DeskError("deciding", "this is being decided elsewhere")
        asked.is_deciding = True
        try:
            yield
        finally:
            asked.is_deciding = False

    def _check_waits(self, asked: PendingAsk) -> None:
        self.expire()
        if not asked.waits(self.now()):
            raise DeskError("over", _OVER[asked.state])

    def _give(self, asked: PendingAsk, certificates: tuple[DelegationCert, ...]) -> None:
        """Check that the asking side accepts the certificates, write the journal, and answer the ask ([certificate] and
        [journal])."""
        answer = Answer(ask=asked.key, decision="allow", certificates=certificates)
        try:
            chain_allowed(answer, asked.ask, self.now())
        except ConsentError as error:
            raise DeskError("not_signed", f"nothing was given out: {error}") from None
        leaf = certificates[0]
        self._note(
            "allowed",
            asked,
            cert=leaf.cert_id,
            scope=list(leaf.scope),
            ends_at=leaf.expires_at,
            constraints=[each.members() for each in leaf.constraints],
            values=values_of(asked.ask),
            certificate=leaf.to_dict(),
        )
        asked.settle("allowed", answer)
        self._on_change()

    def _note(self, event: str, asked: PendingAsk, **members: object) -> None:
        ask = asked.ask
        facts: dict[str, object] = {
            "id": ask.id,
            "ask": asked.key,
            "code": ask.code,
            "agent": ask.agent_id,
            "gateway": ask.gateway.id,
            "method": ask.method,
            "target": ask.target,
            "params_sha256": ask.params_sha256,
            **members,
        }
        self.note(event, **facts)


_OVER: dict[State, str] = {
    "pending": "this ask has expired",
    "expired": "this ask has expired: nothing was signed",
    "allowed": "this call was allowed already",
    "denied": "this call was denied already",
    "withdrawn": "nobody waits for this any more",
}


def signed_certificate(signer: HybridSigner, ask: Ask, offer: Offer, choice: Choice, now: int) -> DelegationCert:
    """Sign the certificate of a person's choice. Its id is derived from the ask and the values of its arguments
    (`past.id_for`), so that these are signed, too. Raises `AccreditError`."""
    draft = offer.grant(ask, "", now, max_calls=choice.calls, seconds=choice.seconds)
    grant = replace(draft, cert_id=id_for(ask.digest.hex(), values_of(ask), draft))
    return issue_delegation(signer, grant, vocabulary=grant.scope)


def needs_each(ask: Ask, offer: Offer) -> bool:
    """Return whether a choice needs the passphrase each time: it does for a sensitive scope, for money, and for calls
    whose arguments are not fixed."""
    costs = any(map(is_sensitive, ask.refusal.scopes)) or concerns_money(ask)
    return costs or (offer.key != "once" and not offer.kept)


def _reason(ask: Ask) -> str:
    return f"Passphrase to allow {ask.code}: {in_one_line(ask.method, ask.target, ask.params, _PROMPTED_CHARS)}"
