"""Clients' bearer tokens, on every transport: finds, verifies and removes them. Waits for key sets.

- [header] A token in the Authorization header decides (`of_header`), before any message is read.
- [message] If there is none, each message of a client brings its own token (`of_call`). On stdio the token may instead
  be in the process's environment.
- [verification] The token is verified (`policy.authorizer`), for the session in which the message has come (`session`,
  which the caller of this module passes).
- [rights] A called tool must be one that the token allows, and the token must have the scope that the tool requires.
- [guests] A token of the gateway's own front door is verified by `guests`, whatever `[tokens]` says. It counts only in
  the header. [rights] does not apply to it, since delegations say what its agent may do.
- [removal] Every token is removed from the message, including those that did not decide (`without`).

At the merged endpoint of several servers, a token that denies a tool also denies it under its merged name.

Not checked here: the proof, and whether proof and token name the same agent (`policy.decide`); and a method that a
lenient reader could take for a call, which the gate refuses.
"""

from msgspec import structs

from accredit.base.caching import RecentlyUsed
from accredit.errors import (
    ConfigurationError,
    InvalidToken,
    KeysUnavailable,
    RequestError,
    StoreUnavailable,
    TokenError,
)
from accredit.gateway.admission.guests import Guest, Guests
from accredit.gateway.admission.tool_directory import Ask, ToolDirectory
from accredit.gateway.call import Call
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import GatewaySettings, TokenSettings
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.tasks import may_subscribe
from accredit.limits import BUSY_RETRY_SECONDS, MAX_CACHED_TOKENS
from accredit.policy.authorizer import TokenAuthorizer
from accredit.policy.drill import DRILLS
from accredit.policy.guarded_call import LISTS, looks_guarded
from accredit.policy.merging import merged_name
from accredit.ports import KeySets
from accredit.tokens.access import exchangeable, subject_key
from accredit.tokens.carried import META, FoundTokens, find_tokens, without_tokens
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.verify import check_session

_CALL = "tools/call"
_NO_TOKENS = TokenSettings((), "", required=False, sources=("header",))
"""Where only the front door's tokens are taken."""


class Bearer:
    """Finds and verifies a gateway's tokens. `environment` is the token in the process's environment, on stdio. With
    `exchanges`, verified tokens are `ExchangeableToken`s."""

    def __init__(
        self,
        settings: TokenSettings,
        keys: KeySets | None,
        tools: ToolDirectory,
        environment: str | None = None,
        *,
        exchanges: bool = False,
        guests: Guests | None = None,
    ) -> None:
        self._settings = settings
        self._guests = guests
        self._environment = environment
        self.in_header_only = set(settings.sources) == {"header"}
        """Whether no message can bring a token."""
        self._authorizer = None
        if keys is not None:
            self._authorizer = TokenAuthorizer(
                settings.issuers,
                keys,
                settings.tool_scopes,
                required=settings.required,
                policy_digest=settings.policy_digest,
            )
        self._tools = tools
        self._subjects = RecentlyUsed[str, bytes](MAX_CACHED_TOKENS) if exchanges else None
        """The `subject_key`s of verified tokens, by the SHA-256 of the tokens' texts."""

    def require(self, token: VerifiedToken | None) -> None:
        """Raise `MissingToken` if a token is required and there is none."""
        if self._authorizer is not None:
            self._authorizer.require(token)

    def check_tool(self, tool: str, token: VerifiedToken | None) -> None:
        """Check whether the token allows a tool ([rights]): one that is called, or one whose task is to be changed.
        Raises what `TokenAuthorizer.check_tool` raises."""
        if self._authorizer is not None and not isinstance(token, Guest):
            self._authorizer.check_tool(tool, token)

    async def of_header(self, credentials: RawHeaders, session: str = "") -> VerifiedToken | None:
        """Return the token in the Authorization header. Raises `TokenError` and `KeysUnavailable`."""
        found = find_tokens(credentials, {})
        if found.header is not None and self._guests is not None and self._guests.is_own(found.header):
            try:
                return await self._guests.enter(found.header)
            except StoreUnavailable as error:
                raise KeysUnavailable(str(error), BUSY_RETRY_SECONDS) from None
        text = found.deciding(self._settings.sources)
        if text is None and self.in_header_only:
            self.require(None)  # no message could bring one either
        return await self._verified(text, session) if text is not None else None

    async def of_call(self, call: Call, frame: Frame, ask: Ask | None, session: str = "") -> None:
        """Find the tokens in a message, and store in `call` the one that decides ([header] to [verification]).

        On entry, `call` holds the token of the HTTP request's header, if there was one. On return, the caller must run
        `check`.

        `ask` sends the upstream a request for its tools, if that is possible. Raises `TokenError` and
        `KeysUnavailable`.
        """
        brought = _find_tokens(frame)
        call.brought = brought  # whatever refuses it, its record has none of them
        tool = frame.target if isinstance(frame, Request) and frame.method == _CALL else None
        may_take = tool if brought.argument is not None and tool not in DRILLS else None  # drills take no token
        if may_take is not None and ask is not None and isinstance(frame, Request):
            await self._tools.look_up(may_take, frame, ask)
        if tool is not None and brought.argument is not None and self._tools.takes_token(tool):
            brought = call.brought = structs.replace(brought, argument=None)  # it is the tool's own
        token = call.token
        if token is None:
            text = brought.deciding(self._settings.sources)
            token = await self._verified(text, session) if text is not None else await self.of_environment()
        else:
            check_session(token, session)  # the header's token was verified before its session was known
        if token is None:
            self.require(None)
        call.token = token

    def check(self, frame: Frame, token: VerifiedToken | None) -> None:
        """Check whether the token allows a call's tool ([rights]). Raises `TokenError`. Raises `RequestError` if it
        can't be known which tool is called."""
        if not isinstance(frame, Request) or frame.method != _CALL:
            return
        tool = frame.target
        if tool is None:
            raise RequestError(INVALID_PARAMS, 'Invalid params: "name" is not a string', id=frame.id, status=200)
        self.check_tool(tool, token)

    async def of_line(self, call: Call, frame: Frame, ask: Ask) -> None:
        """Store the token of a message on stdio, or the error that refuses that token. This is done for calls, lists
        and subscriptions only. Raises `RequestError`."""
        if not isinstance(frame, Request | Notification):
            return
        if frame.method not in LISTS and not looks_guarded(frame.method) and not may_subscribe(frame):
            return
        try:
            await self.of_call(call, frame, ask)
            self.check(frame, call.token)
        except (TokenError, KeysUnavailable) as error:
            call.error = error

    async def of_environment(self) -> VerifiedToken | None:
        """Return the environment's token, if any. Raises `TokenError` and `KeysUnavailable`."""
        return await self._verified(self._environment, "") if self._environment is not None else None

    def without(self, frame: Frame, brought: FoundTokens | None = None) -> Frame:
        """Return the message without any token ([removal]); the same object if it has none. `brought` are the tokens
        that a search has found in it. If that is None, the message is searched here."""
        if not isinstance(frame, Request | Notification):
            return frame
        if brought is None:
            tool = frame.target if frame.method == _CALL else None
            in_arguments = tool is None or not self._tools.takes_token(tool)
            in_meta = frame.in_meta(META) is not None
        else:
            in_arguments, in_meta = brought.argument is not None, brought.meta is not None
        if in_arguments and (kept := without_tokens(frame.members)) is not frame.members:
            frame = frame.with_params(kept)
        return frame.with_meta({}, without=(META,)) if in_meta else frame

    async def _verified(self, text: str, session: str) -> VerifiedToken:
        if self._authorizer is None:
            raise InvalidToken("of no issuer that is known")
        token = await self._authorizer.verify(text, session)
        if self._settings.servers and token.denied_tools:
            also = {merged_name(server, tool) for server in self._settings.servers for tool in token.denied_tools}
            token = structs.replace(token, denied_tools=token.denied_tools | also)
        if self._subjects is None:
            return token
        key = self._subjects.get(token.sha256)
        if key is None:
            key = bytes.fromhex(token.sha256) if token.introspected else subject_key(text)
            self._subjects.put(token.sha256, key)
        return exchangeable(token, text, key)


def bearer_for(
    settings: GatewaySettings,
    keys: KeySets | None,
    tools: ToolDirectory,
    environment: str | None = None,
    guests: Guests | None = None,
) -> Bearer | None:
    """Return the gateway's `Bearer`, or None where tokens are off and there is no front door. Raises
    `ConfigurationError`."""
    if settings.tokens is None:
        return Bearer(_NO_TOKENS, None, tools, guests=guests) if guests is not None else None
    if keys is None:
        raise ConfigurationError("tokens are on, and there are no key sets", "give create_app the key sets")
    return Bearer(settings.tokens, keys, tools, environment, exchanges=settings.exchanges, guests=guests)


def _find_tokens(frame: Frame) -> FoundTokens:
    if not isinstance(frame, Request | Notification):
        return FoundTokens()
    token = frame.in_meta(META)
    return find_tokens((), {**frame.parts, "_meta": {META: token} if token is not None else {}})
