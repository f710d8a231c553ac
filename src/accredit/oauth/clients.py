"""OAuth clients: the metadata documents that they publish, and their registration. No I/O.

A document (draft-ietf-oauth-client-id-metadata-document), or a registration (RFC 7591), is accepted only if:

- [document] It is one JSON object of at most `MAX_CLIENT_BYTES`, whose known members have the right types. Others are
  ignored.
- [own-id] A document's `client_id` is exactly the URL under which it was found. A registered client is given its id
  here.
- [redirects] It names 1 to `MAX_REDIRECTS` redirect URIs. All those of a registration are valid (`uris`, [redirect]),
  and they have at most `MAX_REGISTERED_CHARS` together, as they are kept here. A document may also have others, which
  are for other servers and not used here.
- [public] The client is a public one. A document has no secret, as everybody could read it, and names no method of
  authentication that would not be checked here. A registration that asks for one gets "none" (RFC 7591 section 3.2.1).
- [flow] If it names grant types or response types, the authorization code is among them.
- [name] Its name has at most `MAX_NAME_CHARS`, and at least one visible character. Without a name, its host is used.

Not checked: whether the name belongs to the client. The person who is asked sees the host beside it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.base.values import decodable
from accredit.errors import OAuthError
from accredit.oauth.uris import host_of, is_redirect_uri, redirect_host
from accredit.tokens.claims import NOT_JSON

MAX_CLIENT_BYTES = 65_536
"""The most bytes of a client's metadata. The draft recommends reading at least 5 KiB; known hosts have 1 KiB."""
MAX_REDIRECTS = 32
"""The most redirect URIs of a client. A known editor has some 10."""
MAX_REGISTERED_CHARS = 8_192
"""The most characters of all redirect URIs of a registration. Anybody can register, and some thousands are kept."""
MAX_NAME_CHARS = 100
"""The most characters of a client's name: what fits on a page's line or two."""


@decodable
class Client(Struct, frozen=True, kw_only=True):
    """A client as it describes itself. Only its host is certain, and only if it has a document."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]

    @property
    def host(self) -> str:
        """The host that published its document; "" if it was registered."""
        return host_of(self.id)

    @property
    def title(self) -> str:
        """The client in one line for people: its host, and the name that it gives itself. The host is first, so that no
        name looks like one."""
        return f"{self.host or 'an app without a host'}: {self.name}"


_Texts = Annotated[list[str], Meta(max_length=MAX_REDIRECTS)]


class _Metadata(Struct, frozen=True):
    redirect_uris: _Texts
    client_id: str = ""
    client_name: str = ""
    grant_types: _Texts | None = None
    response_types: _Texts | None = None
    token_endpoint_auth_method: str = "none"  # noqa: S105 - a method's name
    client_secret: Raw = Raw()


_read = msgspec.json.Decoder(_Metadata).decode


def read_document(body: bytes, url: str) -> Client:
    """Return the client that published a document at `url` ([document] to [name]). Raises `OAuthError`, which does not
    quote it."""
    metadata = _read_metadata(body)
    if metadata.client_id != url:
        raise _refusal("its client_id is not the URL of the document")
    if metadata.client_secret or metadata.token_endpoint_auth_method != "none":  # noqa: S105 - a method's name
        raise _refusal("it is no public client: its token_endpoint_auth_method is not none, or it has a secret")
    return _client(metadata, url)


def read_registration(body: bytes, given_id: str) -> Client:
    """Return the client that registers itself, and gets this id ([document] to [name]). Raises `OAuthError`, which does
    not quote its metadata."""
    metadata = _read_metadata(body)
    if not all(map(is_redirect_uri, metadata.redirect_uris)):
        raise OAuthError("invalid_redirect_uri", "the client's metadata: a redirect URI can't be used")
    if sum(map(len, metadata.redirect_uris)) > MAX_REGISTERED_CHARS:
        raise OAuthError("invalid_redirect_uri", "the client's metadata: its redirect URIs are too long to be kept")
    return _client(metadata, given_id)


def registration_answer(client: Client, registered_at: int) -> dict[str, object]:
    """Return the answer to a registered client (RFC 7591 section 3.2.1). `registered_at` is in unix seconds."""
    return {
        "client_id": client.id,
        "client_id_issued_at": registered_at,
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def changes_of(client: Client, known: Client) -> tuple[str, ...]:
    """Return which of `name` and `redirect` have changed since a person consented to this client."""
    now, then = ({redirect_host(each) for each in one.redirect_uris} for one in (client, known))
    changed = {"name": client.name != known.name, "redirect": not now <= then}
    return tuple(what for what, is_other in changed.items() if is_other)


def _read_metadata(body: bytes) -> _Metadata:
    if len(body) > MAX_CLIENT_BYTES:
        raise _refusal(f"it has more than {MAX_CLIENT_BYTES} bytes")
    try:
        metadata = _read(body)
    except NOT_JSON:
        raise _refusal("it is no client metadata in JSON") from None
    if not any(map(is_redirect_uri, metadata.redirect_uris)):
        raise OAuthError("invalid_redirect_uri", "the client's metadata: it has no redirect URI that can be used")
    if metadata.grant_types is not None and "authorization_code" not in metadata.grant_types:
        raise _refusal("its grant_types are without authorization_code")
    if metadata.response_types is not None and "code" not in metadata.response_types:
        raise _refusal("its response_types are without code")
    return metadata


def _client(metadata: _Metadata, id: str) -> Client:
    name = metadata.client_name.strip() or host_of(id) or "a client without a name"
    if len(name) > MAX_NAME_CHARS or not any(char.isalnum() for char in name):
        raise _refusal(f"its name has more than {MAX_NAME_CHARS} characters, or none that can be read")
    return Client(id=id, name=name, redirect_uris=tuple(filter(is_redirect_uri, metadata.redirect_uris)))


def _refusal(detail: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", f"the client's metadata: {detail}")
