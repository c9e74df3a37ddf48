"""The WebHDFS gateway: an HTTP server in front of a store (design section 12)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import trio

from endpoint import arguments
from endpoint.port_access import PortAccess
from endpoint.replicas.stores.store import ReplicaStore, Store
from handshake.access import FileOf
from handshake.accounts import AccountsSource
from handshake.credentials import Credentials, hosts_of
from handshake.keyfiles import RolesSource
from handshake.principals import Principal, Proof
from handshake.rules import Rules
from net.acceptor import Acceptor, Arrival, RestingStream
from net.network import Network
from net.wakeup import Wakeup
from peermesh.gateways.access import Access
from peermesh.gateways.http import Disconnected, Head, HttpConnection, Reply
from peermesh.gateways.identifying import Identifier
from peermesh.gateways.limits import CONNECTIONS_MAX, KEEPALIVE_SECONDS
from peermesh.gateways.refusals import Forbidden, InvalidRequest, NotAuthorized, Refusal
from peermesh.gateways.webhdfs import health, replies
from peermesh.gateways.webhdfs.access import (
    PORT,
    TOKEN_PATH,
    TOKEN_SECONDS,
    demands,
    owned,
    secret_of,
)
from peermesh.gateways.webhdfs.errors import StoreFailed
from peermesh.gateways.webhdfs.limits import (
    LOOK_SECONDS,
    PRESENT_SECONDS,
    TOKEN_REQUEST_SIZE_MAX,
)
from peermesh.gateways.webhdfs.listing import FileStore
from peermesh.gateways.webhdfs.operations import parse
from peermesh.gateways.webhdfs.requests import DATA_PARAMETER, Append, Create, Open, Request
from peermesh.gateways.webhdfs.service import Service
from peermesh.testing.nurseries import open_serving_nursery
from wire.addresses import join_address
from wire.errors import NotAllowed, PeerNotTrusted, PeerUnavailable
from wire.logs import logger_of

logger = logger_of("peermesh.gateways.webhdfs")


@dataclass(frozen=True, slots=True)
class GatewayStatistics:
    """What a gateway has done."""

    is_active: bool
    connections: int
    """That stand now."""
    requests: dict[str, int]
    """So many of each kind."""
    refusals: dict[str, int]
    """So many for each reason, by the name of the Java exception."""
    upload_bytes: int
    """Of all uploads that have not ended, of more than a chunk each."""


@dataclass(slots=True)
class _Client:
    """A connection, and what its certificate proves."""

    arrival: Arrival
    principal: Principal

    @property
    def address(self) -> str:
        """Give where it comes from; empty if it is gone already."""
        return "" if self.arrival.address is None else self.arrival.address[0]


class WebHDFSGateway:
    """A gateway that serves; see ``peermesh.gateways.serve_webhdfs``."""

    def __init__(
        self, store: FileStore, access: Access, network: Network, guard: PortAccess
    ) -> None:
        """Serve a store."""
        self._store = store
        self._guard = guard
        self._identifier = Identifier(access, guard)
        self._access = access
        self._network = network
        self._service = Service(store, secrets.token_hex(8))
        self._requests: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._acceptor = Acceptor(network, members_max=CONNECTIONS_MAX)
        self._has_garbage = Wakeup()
        self._service.has_garbage = self._has_garbage.wake
        self.host = ""
        self.port = 0

    @property
    def scheme(self) -> str:
        """Give ``http``, or ``https``, where Hadoop says ``swebhdfs`` instead of ``webhdfs``."""
        return "http" if self._network.credentials is None else "https"

    @property
    def address(self) -> str:
        """Give host and port, as in ``webhdfs://{address}/path``."""
        return join_address(self.host, self.port)

    def is_active(self) -> bool:
        """Tell whether the store has a leader; otherwise everything is refused as standby."""
        return self._service.is_active()

    def statistics(self) -> GatewayStatistics:
        """Count what was done so far."""
        return GatewayStatistics(
            self.is_active(),
            sum(1 for _ in self._acceptor.arrivals),
            dict(self._requests),
            dict(self._refusals),
            self._service.uploads.used,
        )

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Accept connections until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._collect)
            nursery.start_soon(self._stay_present)
            nursery.start_soon(self._guard.refresh_forever)
            nursery.start_soon(self._acceptor.serve, listeners, self._converse, nursery.start_soon)

    async def _converse(self, arrival: Arrival) -> None:
        try:
            arrival.keep_alive(KEEPALIVE_SECONDS)
            secure = await arrival.secure()
            client = _Client(arrival, self._network.principal(secure))
            await self._talk(HttpConnection(RestingStream(secure, arrival)), client)
        except (PeerNotTrusted, PeerUnavailable, OSError, trio.BrokenResourceError) as error:
            self._refusals[type(error).__name__] += 1
            logger.info("a client of the WebHDFS gateway was refused: %s", error)
        except Exception:
            # A mistake of ours in one request is not the end of all others.
            logger.exception("a request to the WebHDFS gateway failed")

    def _certified_hosts(self) -> tuple[str, ...]:
        credentials = self._network.credentials
        return () if credentials is None else hosts_of(credentials)

    async def _talk(self, connection: HttpConnection, client: _Client) -> None:
        try:
            while (head := await connection.next_head()) is not None:
                await self._answer(connection, head, client)
        except Disconnected as reason:
            logger.debug("%s", reason)
        finally:
            await connection.close()

    async def _answer(self, connection: HttpConnection, head: Head, client: _Client) -> None:
        try:
            self._guard.refresh()
            path = head.target.partition("?")[0]
            if head.method in ("GET", "HEAD") and path in health.PATHS:
                await connection.reply(await self._tell(path, head, client))
                return
            host = self._access.host(head.headers, self.scheme, self._certified_hosts())
            if head.method == "POST" and head.target == TOKEN_PATH:
                await self._grant(connection, client)
                return
            authorization = head.headers.get("authorization", "")
            principal = await self._identifier.identify(
                authorization, client.address, client.principal
            )
            request = owned(parse(head.method, head.target), principal)
            self._check(principal, request)
            client.arrival.prove()
            self._requests[type(request).__name__] += 1
            until = await self._service.prepare()
            await self._carry_out(connection, head, request, host, principal, until)
        except Refusal as refusal:
            await self._refuse(connection, refusal)
        except (Disconnected, trio.BrokenResourceError):
            raise
        except Exception as error:
            # A mistake of ours in one request is the end of no other.
            logger.exception("%s %s failed", head.method, head.target)
            text = f"the gateway failed ({type(error).__name__}): its log says why"
            await self._refuse(connection, StoreFailed(text))

    async def _tell(self, path: str, head: Head, client: _Client) -> Reply:
        """Answer a probe of anybody, by any name, with nothing but the state.

        Figures are for those who may ask for files, too.
        """
        state = self._service.outlook().state
        if path != health.METRICS_PATH:
            return health.health_reply(path, state)
        try:
            self._access.host(head.headers, self.scheme, self._certified_hosts())
            authorization = head.headers.get("authorization", "")
            principal = await self._identifier.identify(
                authorization, client.address, client.principal
            )
            self._guard.access.check(principal, "GETSERVERDEFAULTS", FileOf(self._store.name(), ()))
        except (Refusal, NotAllowed):
            return health.metrics_reply(state, None)
        done, space = self.statistics(), self._store.statistics()
        figures = health.Figures(
            done.requests,
            done.refusals,
            done.connections,
            done.upload_bytes,
            space.bytes,
            space.entries,
            space.max_bytes,
        )
        return health.metrics_reply(state, figures)

    def _check(self, principal: Principal, request: Request) -> None:
        """Raise ``Forbidden`` for what the principal's role does not permit."""
        for verb, thing in demands(request, self._store.name()):
            try:
                self._guard.access.check(principal, verb, thing)
            except NotAllowed as error:
                is_stranger = principal.proof is Proof.NOTHING
                if is_stranger and self._identifier.is_asking:
                    raise NotAuthorized(str(error)) from error
                raise Forbidden(str(error)) from error

    async def _refuse(self, connection: HttpConnection, refusal: Refusal) -> None:
        self._refusals[refusal.java_class.rpartition(".")[2]] += 1
        if not connection.can_reply:
            # The answer has begun, and what is missing of it will never come.
            raise Disconnected(str(refusal)) from refusal
        is_stranger = isinstance(refusal, NotAuthorized)
        headers = [("WWW-Authenticate", "Bearer")] if is_stranger else []
        await connection.reply(Reply(refusal.status, replies.remote_exception(refusal), headers))

    async def _carry_out(
        self,
        connection: HttpConnection,
        head: Head,
        request: Request,
        host: str,
        principal: Principal,
        until: float,
    ) -> None:
        match request:
            case Create(has_data=True) | Append(has_data=True):
                body = self._while_permitted(principal, request, connection.body())
                async with aclosing(body) as pieces:
                    await self._service.write(request, pieces)
                place = [("Location", f"{self.scheme}://{host}/")]
                is_new = isinstance(request, Create)
                await connection.reply(Reply(201, headers=place) if is_new else Reply(200))
            case Open(has_data=True):
                file, start, stop = self._service.find_file(request)
                content = self._service.read(file, start, stop)
                pieces = self._while_permitted(principal, request, content)
                headers = [("Content-Type", "application/octet-stream")]
                await connection.stream(stop - start, pieces, headers)
            case Create() | Open() | Append():
                self._service.check(request)
                there = f"{self.scheme}://{host}{head.target}&{DATA_PARAMETER}=true"
                told = Reply(200, replies.location(there))
                redirection = Reply(307, headers=[("Location", there)])
                await connection.reply(told if request.is_told else redirection)
            case _:
                await connection.reply(await self._service.answer(request, until))

    async def _while_permitted(
        self, principal: Principal, request: Request, pieces: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Give pieces of a file as long as the principal may have, or change, it."""
        async with aclosing(pieces):
            async for piece in pieces:
                self._check(principal, request)
                yield piece
        self._check(principal, request)  # An upload is not completed without the right.

    async def _grant(self, connection: HttpConnection, client: _Client) -> None:
        form = await connection.whole_body(TOKEN_REQUEST_SIZE_MAX)
        if form is None:
            raise InvalidRequest(f"a form of more than {TOKEN_REQUEST_SIZE_MAX} bytes")
        token = secret_of(form)
        if await self._identifier.find_token(token, client.address) is None:
            raise NotAuthorized("client_secret is no token of this gateway")
        # Its reader is another one than that of all other answers, and insists on the type.
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        await connection.reply(Reply(200, replies.access_token(token, TOKEN_SECONDS), headers))

    async def _collect(self) -> None:
        """Collect whenever there is something to collect, also of gateways that are gone."""
        while True:
            try:
                while await self._service.collect():
                    await trio.lowlevel.checkpoint()
            except Refusal as reason:
                logger.info("nothing is collected now: %s", reason)
            with trio.move_on_after(LOOK_SECONDS):
                await self._has_garbage.wait()

    async def _stay_present(self) -> None:
        while True:
            await trio.sleep(PRESENT_SECONDS)
            try:
                await self._service.stay_present()
            except Refusal as reason:
                logger.info("other gateways are not told now that this one lives: %s", reason)


@asynccontextmanager
async def open_gateway(  # noqa: PLR0913 - keywords, one for each thing to say
    store: FileStore,
    *,
    host: str,
    port: int,
    token: str | None,
    credentials: Credentials | None,
    allow_plain: bool,
    roles: RolesSource | None = None,
    accounts: AccountsSource | None = None,
    names: Sequence[str] = (),
) -> AsyncIterator[WebHDFSGateway]:
    """Open what ``peermesh.gateways.serve_webhdfs`` promises."""
    if not isinstance(store, Store | ReplicaStore):
        raise TypeError(f"store={store!r:.80} is {type(store).__name__}: give a store's handle")
    arguments.host("host", host)
    port = arguments.port("port", port, least=0)
    if token is not None:
        arguments.text("token", token)
    network = Network(
        credentials,
        allow_plain=allow_plain,
        stakes="read and write the store",
    )
    guard = PortAccess(PORT, Rules(roles, accounts), store.runner.home)
    has_accounts = guard.accounts is not None
    if isinstance(names, str) or not all(isinstance(each, str) for each in names):
        raise TypeError(f"names={names!r:.80}: give a list of host names, without ports")
    access = Access(host, token, network.check(host), names=names, has_accounts=has_accounts)
    gateway = WebHDFSGateway(store, access, network, guard)
    listeners = await network.listen(host, port)
    gateway.host, gateway.port = listeners[0].socket.getsockname()[:2]
    try:
        async with open_serving_nursery() as nursery:
            nursery.start_soon(gateway.serve, listeners)
            yield gateway
    finally:
        for listener in listeners:
            listener.socket.close()
