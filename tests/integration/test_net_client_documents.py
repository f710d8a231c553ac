"""Clients' metadata documents: what a stranger makes the gateway fetch is little, bounded, and never behind it."""

import asyncio
import json
import socket

import pytest
from tests.world.raw_server import Connection, RawServer

from accredit.errors import OAuthError
from accredit.net import client_documents
from accredit.net.client_documents import DOCUMENT_KEPT_SECONDS, DOCUMENT_PAUSE_SECONDS, FETCHES, ClientDocuments
from accredit.oauth.clients import MAX_CLIENT_BYTES

PEER = "192.0.2.1"


class Publisher:
    """A host with one document. `answer` is a status line's end, further headers and a body."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: tuple[str, str, bytes | None] = ("200 OK", "", None)
        self.server = RawServer(self._serve)

    @property
    def url(self) -> str:
        return self.server.url.rpartition("/")[0] + "/client.json"

    async def _serve(self, connection: Connection) -> None:
        while await connection.request() is not None:
            self.asked += 1
            status, headers, body = self.answer
            if body is None:
                about = {"client_id": self.url, "client_name": "Host", "redirect_uris": ["http://127.0.0.1/cb"]}
                body = json.dumps(about).encode()
            await connection.send(f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode(), body)


async def fault(documents: ClientDocuments, url: str, peer: str = PEER) -> OAuthError:
    with pytest.raises(OAuthError) as caught:
        await documents.client(url, peer)
    return caught.value


@pytest.mark.holds("net/client_documents", "remembered", "one-fetch")
async def test_a_document_is_fetched_once__and_again_when_it_is_old() -> None:
    publisher, now = Publisher(), [1_000.0]
    async with publisher.server:
        documents = ClientDocuments(private=True, clock=lambda: now[0])
        found = await asyncio.gather(*(documents.client(publisher.url, PEER) for _ in range(5)))
        assert (found[0].name, publisher.asked) == ("Host", 1)
        now[0] += DOCUMENT_KEPT_SECONDS
        publisher.answer = ("404 Not Found", "", b"")
        for _ in range(3):
            assert (await fault(documents, publisher.url)).error == "invalid_client"
        assert publisher.asked == 2
        now[0] += DOCUMENT_PAUSE_SECONDS
        publisher.answer = ("200 OK", "", None)
        assert (await documents.client(publisher.url, PEER)).name == "Host"
        await documents.aclose()


@pytest.mark.holds("net/client_documents", "no-redirects", "bounded")
@pytest.mark.parametrize(
    "answer",
    [
        ("302 Found", "Location: /other.json\r\n", b""),
        ("307 Found", "Location: http://169.254.169.254/latest\r\n", b""),
        ("200 OK", "", b" " * (MAX_CLIENT_BYTES + 1)),
        ("200 OK", "Content-Encoding: gzip\r\n", b""),
        ("500 No", "", b"{}"),
        ("200 OK", "", b"{}"),
    ],
)
async def test_anything_but_the_document_is_no_client__and_tells_nothing_of_what_is_there(
    answer: tuple[str, str, bytes],
) -> None:
    publisher = Publisher()
    async with publisher.server:
        publisher.answer = answer
        documents = ClientDocuments(private=True)
        error = await fault(documents, publisher.url)
        assert error.detail.isascii()
        assert "169.254" not in error.detail
        assert publisher.asked == 1
        await documents.aclose()


@pytest.mark.holds("net/client_documents", "public-host")
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/c", "https://localhost/c", "https://10.0.0.1/c", "https://[::1]/c", "https://a/c"]
)
async def test_no_document_is_looked_for_on_the_gateway_s_own_network(url: str) -> None:
    documents = ClientDocuments()
    assert "no URL" in (await fault(documents, url)).detail


@pytest.mark.holds("net/client_documents", "public-host")
async def test_a_name_that_leads_to_a_private_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def leads_home(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("169.254.169.254", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", leads_home)
    documents = ClientDocuments()
    assert (await fault(documents, "https://rebound.example/c")).detail.endswith("could not be fetched")


@pytest.mark.holds("net/client_documents", "rate")
async def test_a_stranger_can_not_make_the_gateway_flood_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = Publisher()
    async with publisher.server:
        monkeypatch.setattr(client_documents, "FETCHES", 2 * client_documents.FETCH_SHARES)
        documents = ClientDocuments(private=True, clock=lambda: 1_000.0)
        errors = [(await fault(documents, f"{publisher.url}{number}")).error for number in range(4)]
        assert errors[2:] == ["temporarily_unavailable"] * 2
        assert publisher.asked == 2
        await documents.aclose()


@pytest.mark.holds("net/client_documents", "rate")
async def test_a_stranger_who_names_documents_without_end_keeps_nobody_else_s_app_out() -> None:
    publisher = Publisher()
    async with publisher.server:
        documents = ClientDocuments(private=True, clock=lambda: 1_000.0)
        for number in range(FETCHES):
            await fault(documents, f"{publisher.url}{number}", "198.51.100.1")
        assert (await documents.client(publisher.url, PEER)).name == "Host"
        await documents.aclose()
