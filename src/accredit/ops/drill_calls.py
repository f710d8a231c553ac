"""The calls of a drill over one protocol and era (a `Road`): those that must be refused, with the expected errors, and
those that must pass. No I/O of its own.

All call the gateway's own tools or routes (`policy.drill`), so a call that gets through does no harm. Tests that a road
does not allow are left out: sessions and states of an HTTP API, and the body of a request that a proxy asks about.

- Proofs: none; a valid one, and copies of it; one for other arguments, another gateway or another session; unbound
  (where proofs must be bound), old, forged; over delegations that are expired, another agent's, from an unknown root,
  for another scope, or used up.
- Challenges: a call that needs a challenge gets one, which is valid for that call, once. A challenge made by the client
  is refused.
- `requestState` of calls to be resumed: only the gateway's own is accepted, unchanged, for the same call and agent.
- If an answer lacks the challenge or state that it should bring, it counts as no answer, and the tests that need it are
  left out.
- Tokens, where they are on: none, and those for another gateway, tool or agent, or from another issuer.
"""

import base64
import secrets
from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from accredit.base.clock import unix_seconds
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.keys import make_key, make_token_key
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.ops.drill_agents import Agent, Proof, TokenMaker
from accredit.ops.drill_roads import DrillAnswer, Params, Road, object_in
from accredit.policy.drill import DRILL, SENSITIVE_DRILL
from accredit.ratify import HybridSigner, ProofBundle
from accredit.ratify.constraints import MaxRate
from accredit.refusals import BY_WORD

DRILL_COPIES = 4
"""How often `accredit drill` sends a proof again, each time on a connection of its own. If there are several workers,
one of those that have not seen the proof is then likely to get it."""


_ANOTHER = "another-gateway"
_NO_TOOL = "accredit.no-drill"
_SHORTEST_STATE = 16

Verdict = Literal["ok", "got_through", "refused", "other_refusal", "no_answer"]


class ExpectedOutcome(NamedTuple):
    """How a call must end: in an error or, if `code` is None, a result."""

    code: int | None = None
    error: str = ""


PASSES = ExpectedOutcome()
_STATE_REFUSED = ExpectedOutcome(INVALID_PARAMS)


def _expect_refusal(word: str) -> ExpectedOutcome:
    return ExpectedOutcome(BY_WORD[word].code, word)


class DrilledCall(NamedTuple):
    """One call: its name and description, the required outcome, and the answer."""

    name: str
    what: str
    expected: ExpectedOutcome
    answer: DrillAnswer

    @property
    def verdict(self) -> Verdict:
        """The verdict: ok, or what went wrong."""
        answer, expected = self.answer, self.expected
        if answer.result is not None:
            return "ok" if expected == PASSES else "got_through"
        if answer.code is None:
            return "no_answer"
        if expected == PASSES:
            return "refused"
        return "ok" if (answer.code, answer.error) == expected else "other_refusal"


class DrillParties(Struct, frozen=True, kw_only=True):
    """The issuer whose key signs, the agent, and another agent. `maker` makes their tokens, if there is one."""

    issuer: HybridSigner
    agent: Agent
    other: Agent
    maker: TokenMaker | None


class Drill:
    """The calls to one endpoint by one `Road`. `tried` lists them in order."""

    def __init__(self, road: Road, parties: DrillParties) -> None:
        self.tried: list[DrilledCall] = []
        self._road = road
        self._endpoint = endpoint = road.endpoint
        self._parties = parties
        self._proof = Proof(gateway_id=endpoint.gateway_id, call_of=road.call_of)
        self._delegation = parties.agent.granted(parties.issuer)
        self._numbers = iter(range(1_000_000))

    async def run(self) -> None:
        """Make all calls."""
        await self._proofs()
        await self._delegations()
        await self._challenges()
        if self._road.asks_back:
            await self._states()
        if self._endpoint.tokens is not None:
            await self._tokens()

    async def _proofs(self) -> None:
        params, proof = self._params(), self._proof
        agent, delegation = self._parties.agent, self._delegation
        await self._try("no_proof", "without a proof", _expect_refusal("missing_ratify_proof"), params)
        good = proof.of(agent, delegation, params)
        await self._try("good", "with a good proof", PASSES, params, good)
        await self._again("copy", "with the same proof again", params, good)
        invalid = _expect_refusal("ratify_invalid")
        if self._road.signs_arguments:
            signed = proof.of(agent, delegation, self._params())
            await self._try("other_arguments", "with a proof for other arguments", invalid, params, signed)
        signed = replace(proof, gateway_id=_ANOTHER).of(agent, delegation, params)
        await self._try("other_gateway", "with a proof for another gateway", invalid, params, signed)
        if self._road.has_sessions:
            signed = replace(proof, session=secrets.token_hex(16)).of(agent, delegation, params)
            await self._try("other_session", "with a proof for another session", invalid, params, signed)
        if self._endpoint.binding_required:
            signed = replace(proof, bound=False).of(agent, delegation, params)
            await self._try("unbound", "with a proof that is bound to no call", invalid, params, signed)
        signed = replace(proof, age=CHALLENGE_WINDOW_SECONDS + 60).of(agent, delegation, params)
        await self._try("old", "with a proof of some minutes ago", invalid, params, signed)
        one, two = (proof.of(agent, delegation, params) for _ in range(2))
        forged = replace(one, challenge_sig=two.challenge_sig)
        await self._try("forged", "with a signature of something else", invalid, params, forged)

    async def _delegations(self) -> None:
        params, proof = self._params(), self._proof
        parties, agent = self._parties, self._parties.agent
        ended = proof.of(agent, agent.granted(parties.issuer, ended=True), params)
        await self._try("expired", "with a delegation that has ended", _expect_refusal("ratify_expired"), params, ended)
        anybody = make_key("human", "Nobody", unix_seconds()).signer()
        unknown = proof.of(agent, agent.granted(anybody), params)
        await self._try(
            "other_root",
            "with a delegation of somebody unknown",
            _expect_refusal("ratify_untrusted_root"),
            params,
            unknown,
        )
        thief = proof.of(parties.other, parties.other.granted(parties.issuer), params)
        stolen = replace(thief, delegations=(self._delegation,))
        await self._try("stolen", "with another agent's delegation", _expect_refusal("ratify_invalid"), params, stolen)
        narrow = proof.of(agent, agent.granted(parties.issuer, "identity:prove"), params)
        await self._try(
            "other_scope",
            "with a delegation for something else",
            _expect_refusal("ratify_scope_denied"),
            params,
            narrow,
        )
        once = agent.granted(parties.issuer, constraints=(MaxRate(1, CHALLENGE_WINDOW_SECONDS),))
        await self._try("one_use", "with a delegation for one call", PASSES, params, proof.of(agent, once, params))
        used_up, again = _expect_refusal("ratify_constraint_denied"), proof.of(agent, once, params)
        await self._try("used_up", "a second call with that one", used_up, params, again)

    async def _challenges(self) -> None:
        agent, delegation = self._parties.agent, self._delegation
        params, others = self._params(SENSITIVE_DRILL), self._params(SENSITIVE_DRILL)
        asked = _expect_refusal("ratify_challenge_required")
        told = await self._try("challenged", "a sensitive call without a proof", asked, params)
        challenge = _challenge_in(told.data)
        if challenge is None:
            self._brought_nothing()
        own = self._proof.of(agent, delegation, params)
        await self._try("own_challenge", "a sensitive call with a challenge of one's own", asked, params, own)
        if challenge is None:
            return
        signed = replace(self._proof, challenge=challenge)
        if self._road.signs_arguments:
            swapped = signed.of(agent, delegation, others)
            await self._try("other_challenge", "with the challenge of another call", asked, others, swapped)
        good = signed.of(agent, delegation, params)
        await self._try("good_challenge", "with the call's own challenge", PASSES, params, good)
        await self._again("challenge_copy", "with the same challenge again", params, good)

    async def _states(self) -> None:
        """Test the `requestState` of calls to be resumed."""
        params, others = self._params(asks=True), self._params(asks=True)
        first = await self._try("asks", "a call that is asked to come back", PASSES, params, self._good(params))
        state = first.result.get("requestState") if first.result is not None else None
        if not isinstance(state, str) or len(state) < _SHORTEST_STATE:
            self._brought_nothing()
            return
        middle = len(state) // 2
        flipped = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        for name, what, base, given in (
            ("forged_state", "with a state that was changed", params, flipped),
            ("short_state", "with a state that was cut off", params, state[:-8]),
            ("no_state", "with a state that nobody gave", params, "s1." + secrets.token_urlsafe(64)),
            ("other_calls_state", "with the state of another call", others, state),
        ):
            brought = {**base, "requestState": given}
            await self._try(name, what, _STATE_REFUSED, brought, self._good(brought))
        brought = {**params, "requestState": state}
        parties = self._parties
        if parties.maker is not None or not parties.other.token:  # else it is one token's, whoever brings it
            theirs = self._proof.of(parties.other, parties.other.granted(parties.issuer), brought)
            await self._try(
                "other_agents_state", "with another agent's state", _STATE_REFUSED, brought, theirs, parties.other.token
            )
        await self._try("good_state", "with the state that it was given", PASSES, brought, self._good(brought))

    async def _tokens(self) -> None:
        params, agent = self._params(), self._parties.agent
        invalid, denied = _expect_refusal("invalid_token"), _expect_refusal("insufficient_scope")
        if self._endpoint.token_required:
            missing = _expect_refusal("missing_token")
            await self._try("no_token", "without a token", missing, params, self._good(params), "")
        maker = self._parties.maker
        known = maker or TokenMaker(make_token_key(), "accredit", self._endpoint.url)
        foreign = replace(known, key=make_token_key()).token(agent)
        tokens = [("forged_token", "with a token that another key signed", invalid, foreign)]
        if maker is not None:
            tokens += [
                ("other_audience", "with a token for another gateway", invalid, maker.token(agent, audience=_ANOTHER)),
                ("ended_token", "with a token that has ended", invalid, maker.token(agent, ended=True)),
                ("other_tools", "with a token for other tools", denied, maker.token(agent, tools=(_NO_TOOL,))),
            ]
        if maker is not None and self._endpoint.bind_agent:
            theirs = maker.token(self._parties.other)
            tokens.append(
                ("other_agents_token", "with another agent's token", _expect_refusal("ratify_invalid"), theirs)
            )
        for name, what, expected, token in tokens:
            await self._try(name, what, expected, params, self._good(params), token)

    def _params(self, tool: str = DRILL, **arguments: object) -> Params:
        """Return the params of a unique call."""
        return {"name": tool, "arguments": {"n": next(self._numbers), **arguments}}

    def _good(self, params: Params) -> ProofBundle:
        return self._proof.of(self._parties.agent, self._delegation, params)

    async def _again(self, name: str, what: str, params: Params, proof: ProofBundle) -> None:
        """Send an accepted proof again, up to `DRILL_COPIES` times, until a copy is not refused as a replay."""
        for _ in range(DRILL_COPIES):
            await self._try(name, what, _expect_refusal("ratify_replayed"), params, proof)
            if self.tried[-1].verdict != "ok":
                return
        del self.tried[1 - DRILL_COPIES :]

    def _brought_nothing(self) -> None:
        """Mark the last call as `no_answer`: its answer lacks the challenge or state that the next calls need."""
        last = self.tried[-1]
        if last.verdict == "ok":
            self.tried[-1] = last._replace(answer=DrillAnswer(last.answer.status))

    async def _try(
        self,
        name: str,
        what: str,
        expected: ExpectedOutcome,
        params: Params,
        proof: ProofBundle | None = None,
        token: str | None = None,
    ) -> DrillAnswer:
        """Make a call and keep the result. If `token` is None, the agent's own token is used."""
        answer = await self._road.send(params, proof, self._parties.agent.token if token is None else token)
        self.tried.append(DrilledCall(name, what, expected, answer))
        return answer


def _challenge_in(data: Mapping[str, object]) -> bytes | None:
    given = object_in(object_in(data.get("_meta")).get("ratify_challenge")).get("challenge")
    try:
        return base64.b64decode(given, validate=True) if isinstance(given, str) else None
    except ValueError:
        return None
