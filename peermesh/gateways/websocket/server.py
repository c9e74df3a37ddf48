"""The WebSocket gateway: clients of Broker's JSON protocol, as light peers of one endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio
from trio_websocket import WebSocketRequest, wrap_server_stream

from endpoint import arguments
from endpoint.endpoint import Endpoint
from endpoint.port_access import PortAccess
from endpoint.pubsub.gateway_client import GatewayClient
from handshake.access import Port, Right
from handshake.accounts import AccountsSource
from handshake.credentials import Credentials, hosts_of
from handshake.keyfiles import RolesSource
from handshake.principals import Principal, Proof
from handshake.rules import Rules
from net.acceptor import Acceptor, Arrival
from net.network import Network
from peermesh.gateways.access import Access
from peermesh.gateways.http import INERT
from peermesh.gateways.identifying import Identifier
from peermesh.gateways.limits import KEEPALIVE_SECONDS
from peermesh.gateways.refusals import Busy, Forbidden, NotAuthorized, NotFound, Refusal
from peermesh.gateways.websocket.carrying import FAULTS, MISUSED, QUEUEING, Carrier, Counts, logger
from peermesh.gateways.websocket.limits import (
    CLIENTS_MAX,
    CLOSE_SECONDS,
    OPENING_SECONDS,
    RECEIVE_SIZE,
    TEXT_SIZE_MAX,
)
from peermesh.gateways.websocket.session import (
    PATH,
    REFUSED,
    Refused,
    Session,
    acknowledgement,
    error_message,
)
from peermesh.gateways.websocket.texts import Texts
from peermesh.testing.nurseries import open_serving_nursery
from wire.addresses import join_address
from wire.errors import MeshError, NotAllowed

PORT: Final = Port(
    "the WebSocket gateway",
    "peermesh/gateways/websocket/server.py",
    (Proof.CERTIFICATE, Proof.TOKEN, Proof.PASSWORD),
    "plain on loopback; elsewhere refused, or `allow_plain` with a token or accounts",
    {"open": Right.ENTER, "subscribe": Right.SUBSCRIBE, "publish": Right.PUBLISH},
    "pages in a browser only from the origins that are listed",
)


@dataclass(frozen=True, slots=True)
class WebSocketStatistics:
    """What a WebSocket gateway has done; counts are totals since its beginning."""

    clients: int
    """That are connected now."""
    received: int
    """Messages of clients that were published."""
    sent: int
    """Messages that were sent to clients."""
    dropped: int
    """Messages that were not, because a client reads too slowly, or they were too long for it."""
    refused: dict[str, int]
    """Inputs, requests and connections that were refused, by kind."""


@dataclass(slots=True)
class _Client:
    """Which client is connected, and to what it has subscribed."""

    principal: Principal
    topics: tuple[str, ...]
    carrier: Carrier


class WebSocketGateway:
    """A gateway that serves; see ``peermesh.gateways.serve_websocket``."""

    def __init__(
        self,
        endpoint: Endpoint,
        access: Access,
        network: Network,
        guard: PortAccess,
        origins: frozenset[str],
    ) -> None:
        """Serve clients of ``endpoint``; pages of ``origins`` may be among them."""
        self._endpoint = endpoint
        self._network = network
        self._guard = guard
        self._access = access
        self._identifier = Identifier(access, guard)
        self._origins = origins
        self._texts = Texts(*endpoint.settings.shape())
        self._clients: dict[int, _Client] = {}
        self._counts = Counts()
        self._acceptor = Acceptor(network)
        guard.on_change.append(self._recheck)
        self.host = ""
        self.port = 0

    @property
    def address(self) -> str:
        """Give host and port."""
        return join_address(self.host, self.port)

    @property
    def url(self) -> str:
        """Give what clients dial: ``ws://…/v1/messages/json``, or ``wss://…`` with TLS."""
        scheme = "ws" if self._network.credentials is None else "wss"
        return f"{scheme}://{self.address}{PATH}"

    def statistics(self) -> WebSocketStatistics:
        """Count what was done so far."""
        counts = self._counts
        return WebSocketStatistics(
            len(self._clients), counts.received, counts.sent, counts.dropped, dict(counts.refused)
        )

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Accept connections until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._guard.refresh_forever)
            nursery.start_soon(self._acceptor.serve, listeners, self._converse, nursery.start_soon)

    async def _converse(self, arrival: Arrival) -> None:
        try:
            arrival.keep_alive(KEEPALIVE_SECONDS)
            stream = await arrival.secure()
            certified = self._network.principal(stream)
            async with trio.open_nursery() as nursery:
                with trio.move_on_after(OPENING_SECONDS) as opening:
                    request = await wrap_server_stream(
                        nursery,
                        stream,
                        max_message_size=TEXT_SIZE_MAX,
                        receive_buffer_size=RECEIVE_SIZE,
                    )
                    await self._answer(request, arrival, certified, opening)
                nursery.cancel_scope.cancel()
        except* (MeshError, OSError, *FAULTS) as errors:
            self._counts.refused["connection"] += 1
            logger.info("a client of the WebSocket gateway was refused: %s", errors.exceptions[0])
        except* Exception:
            # A mistake of ours in one connection is not the end of all others.
            self._counts.refused["failure"] += 1
            logger.exception("a connection of the WebSocket gateway failed")

    async def _answer(
        self,
        request: WebSocketRequest,
        arrival: Arrival,
        certified: Principal,
        opening: trio.CancelScope,
    ) -> None:
        try:
            principal = await self._admit(request, arrival, certified)
        except Refusal as refusal:
            self._counts.refused["request"] += 1
            headers = [(name.encode(), value.encode()) for name, value in INERT]
            headers.append((b"Content-Type", b"text/plain; charset=utf-8"))
            if isinstance(refusal, NotAuthorized):
                headers.append((b"WWW-Authenticate", b"Bearer"))
            body = f"{refusal}\n".encode("utf-8", "backslashreplace")
            await request.reject(refusal.status, extra_headers=headers, body=body)
            return
        await self._talk(request, principal, opening)

    async def _admit(
        self, request: WebSocketRequest, arrival: Arrival, certified: Principal
    ) -> Principal:
        """Say which principal comes in; raises ``Refusal``."""
        self._guard.refresh()
        if request.path.partition("?")[0] != PATH:
            raise NotFound(f"nothing is served there: ask for {PATH}")
        headers = {name: value.decode("latin-1") for name, value in request.headers}
        origin = headers.get(b"origin")
        if origin is not None and not self._may_ask(origin):
            raise Forbidden("the request is of a page of a site that is not listed (Origin)")
        address = "" if arrival.address is None else arrival.address[0]
        authorization = headers.get(b"authorization", "")
        principal = await self._identifier.identify(authorization, address, certified)
        try:
            self._guard.access.check(principal, "open", PATH)
        except NotAllowed as error:
            is_stranger = principal.proof is Proof.NOTHING and self._identifier.is_asking
            raise (NotAuthorized if is_stranger else Forbidden)(str(error)) from error
        if len(self._clients) >= CLIENTS_MAX or not arrival.prove():
            raise Busy(f"{CLIENTS_MAX} clients are connected: try again later")
        return principal

    def _may_ask(self, origin: str) -> bool:
        if origin.lower() in self._origins:
            return True
        credentials = self._network.credentials
        scheme = "http" if credentials is None else "https"
        certified = () if credentials is None else hosts_of(credentials)
        return self._access.is_own(origin, scheme, self.port, certified)

    async def _talk(
        self, request: WebSocketRequest, principal: Principal, opening: trio.CancelScope
    ) -> None:
        """Serve one client until it is gone."""

        def permit(topic: str) -> None:
            self._guard.access.check(principal, "publish", topic)
            self._endpoint.loop.core.authorisation.check_publish(topic)

        socket = await request.accept()
        session = Session(*self._endpoint.settings.shape(), permit)
        opening.deadline = trio.current_time() + OPENING_SECONDS
        frame = await socket.get_message()
        try:
            topics = session.open(frame)
            for topic in topics:
                self._guard.access.check(principal, "subscribe", topic)
            client = GatewayClient(
                self._endpoint.loop, topics, QUEUEING, self._texts.find, "a WebSocket client"
            )
        except (Refused, MeshError) as error:
            self._counts.refused["subscription"] += 1
            is_text = isinstance(error, Refused)
            await socket.send_message(str(error) if is_text else error_message(REFUSED, str(error)))
            with trio.move_on_after(CLOSE_SECONDS):
                await socket.aclose(MISUSED, "the first frame was refused")
            return
        with client:
            await socket.send_message(acknowledgement(str(self._endpoint.node_id())))
            opening.deadline = trio.current_time() + float("inf")
            carrier = Carrier(socket, session, client, self._counts)
            number = id(carrier)
            self._clients[number] = _Client(principal, topics, carrier)
            try:
                logger.debug("a WebSocket client is gone: %s", await carrier.run())
            finally:
                del self._clients[number]

    def _recheck(self) -> None:
        """End the connections of those who have lost a right to what they have subscribed to."""
        may = self._guard.access.may
        for client in list(self._clients.values()):
            wanted = [("open", PATH), *(("subscribe", topic) for topic in client.topics)]
            if not all(may(client.principal, verb, thing) for verb, thing in wanted):
                client.carrier.end(MISUSED, "the right to a topic was withdrawn")


@asynccontextmanager
async def open_gateway(  # noqa: PLR0913 - keywords, one for each thing to say
    endpoint: Endpoint,
    *,
    host: str,
    port: int,
    token: str | None,
    credentials: Credentials | None,
    allow_plain: bool,
    roles: RolesSource | None,
    accounts: AccountsSource | None,
    origins: Iterable[str],
) -> AsyncIterator[WebSocketGateway]:
    """Open what ``peermesh.gateways.serve_websocket`` promises."""
    if not isinstance(endpoint, Endpoint):
        raise TypeError(f"endpoint={endpoint!r:.80} is {type(endpoint).__name__}: give an endpoint")
    arguments.host("host", host)
    port = arguments.port("port", port, least=0)
    if token is not None:
        arguments.text("token", token)
    listed = frozenset([origins]) if isinstance(origins, str) else frozenset(origins)
    if not all(isinstance(each, str) for each in listed):
        raise TypeError(f"origins={origins!r:.80}: give a list of origins, as https://example.org")
    network = Network(credentials, allow_plain=allow_plain, stakes="publish and subscribe")
    guard = PortAccess(PORT, Rules(roles, accounts), endpoint.loop)
    has_accounts = guard.accounts is not None
    access = Access(host, token, network.check(host), has_accounts=has_accounts)
    allowed = frozenset(each.lower().rstrip("/") for each in listed)
    gateway = WebSocketGateway(endpoint, access, network, guard, allowed)
    listeners = await network.listen(host, port)
    gateway.host, gateway.port = listeners[0].socket.getsockname()[:2]
    try:
        async with open_serving_nursery() as nursery:
            nursery.start_soon(gateway.serve, listeners)
            yield gateway
    finally:
        for listener in listeners:
            listener.socket.close()
