"""The admin service's driver: asks other endpoints, and answers them. Decides nothing."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from endpoint import arguments
from endpoint.admin.desk import Desk, Perform, Reply
from endpoint.admin.protocol import (
    Answer,
    Failed,
    Request,
    decode_answer,
    decode_request,
    encode_request,
    is_answer,
)
from endpoint.admin.questions import Questions
from wire.errors import (
    DecodeError,
    EndpointClosed,
    InvalidData,
    NoSuchMaster,
    PeerUnavailable,
    RequestTimeout,
)
from wire.identifiers import EndpointId
from wire.logs import logger_of
from wire.topics import ADMIN_TOPIC
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.arguments import NodeId
    from endpoint.loop import EndpointLoop

logger = logger_of("peermesh.endpoint")

ASK_SECONDS: Final = 2.0
"""How long an answer is waited for: a hundred times what it takes over sixteen links."""

Promote = Callable[[bool], Awaitable[str]]
"""Has the copy that it is for lead, with force or not, and says what came of it."""

Work = Callable[..., Value | Awaitable[Value]]


class AdminService:
    """Hears ``ADMIN_TOPIC`` for one endpoint."""

    def __init__(
        self, loop: EndpointLoop, seed: bytes, describe: Callable[[], Value], *, is_answering: bool
    ) -> None:
        """Hear from now on; numbers are made of the ``seed``, which stays unknown to others.

        Without ``is_answering``, requests are dropped, and answers to its own are heard.
        """
        self._loop = loop
        self._is_answering = is_answering
        self._questions = Questions(seed)
        self._desk = Desk(loop.core.permissions)
        self._waiting: dict[int, tuple[trio.Event, list[Value | Failed]]] = {}
        self._offers: dict[tuple[str, str], Promote] = {}
        self._work: dict[str, Work] = {
            "describe": describe,
            "promote": self._promote,
            "lead-log": self._lead_log,
        }
        self.malformed = 0
        """Payloads that were neither requests nor answers."""
        loop.core.serve(ADMIN_TOPIC, self)

    def offer_store(self, name: str, promote: Promote) -> None:
        """Let endpoints with the right have this endpoint lead a store that it has a clone of."""
        self._offers["store", name] = promote

    def offer_log(self, name: str, promote: Promote) -> None:
        """Let endpoints with the right have this endpoint lead a log that it follows."""
        self._offers["log", name] = promote

    # Asking.

    def members(self, topic: str) -> list[EndpointId]:
        """Name the others that vote in the group that has this topic, or may, the nearest first."""
        return [each for each, _ in self._loop.core.reach.find_stores((topic,))]

    async def ask(
        self, to: NodeId, verb: str, *values: Value, timeout: float = ASK_SECONDS
    ) -> Value:
        """Ask an endpoint, over any number of hops, and give its answer.

        Raises ``NotAllowed`` and other errors that it answers with, ``PeerUnavailable`` without a
        path to it, and ``RequestTimeout`` when it does not answer for ``timeout`` seconds.
        """
        wanted = arguments.endpoint_id("to", to)
        if wanted == self._loop.core.local:
            own = self._begin(verb, values)
            done: Value = await own if inspect.isawaitable(own) else own
            return done
        if not self._loop.core.reach.includes(wanted):
            core = self._loop.core
            raise PeerUnavailable(core.names.explain_absence(wanted, core.reach))
        request = self._questions.ask(wanted, verb, values)
        event, found = self._waiting[request.number] = trio.Event(), []
        try:
            self._loop.send_command(ADMIN_TOPIC, wanted, encode_request(request))
            with trio.move_on_after(timeout):
                await event.wait()
        finally:
            del self._waiting[request.number]
            self._questions.end(request)
        if not found:
            raise RequestTimeout(f"endpoint {wanted} does not answer questions")
        (result,) = found
        if isinstance(result, Failed):
            raise result.error()
        return result

    # What the loop calls.

    def receive(self, sender: EndpointId, payloads: Sequence[bytes]) -> None:
        """Take in requests and answers; bad ones cost nothing else."""
        for payload in payloads:
            try:
                if is_answer(payload):
                    if self._questions.is_asked(sender):
                        self._on_answer(sender, decode_answer(payload))
                elif self._is_answering:
                    self._on_request(sender, decode_request(payload))
            except DecodeError:
                self.malformed += 1

    def settle(self) -> None:
        """Requests are answered at once."""

    def fail(self, error: Exception) -> None:
        """Go on: what nothing expects costs one request."""
        logger.error("a request of another endpoint failed", exc_info=error)

    def _on_answer(self, sender: EndpointId, answer: Answer) -> None:
        if self._questions.takes(sender, answer):
            event, found = self._waiting[answer.number]
            found[:] = [answer.result]
            event.set()

    def _on_request(self, sender: EndpointId, request: Request) -> None:
        match self._desk.take(sender, request, trio.current_time()):
            case Reply() as reply:
                self._send(reply)
            case Perform() as perform:
                self._perform(perform)

    def _send(self, reply: Reply) -> None:
        if reply.refusal:
            self._loop.core.authorisation.refusals.note(reply.to, reply.refusal)
        with suppress(EndpointClosed):  # Then there is no way back any more.
            self._loop.send_command(ADMIN_TOPIC, reply.to, reply.payload)

    def _perform(self, perform: Perform) -> None:
        """Carry out a request, at once if it does not wait; whatever comes of it is answered."""
        try:
            found = self._begin(perform.request.verb, perform.request.arguments)
        except Exception as error:  # An error of a verb must not end the link that it came by.
            found = Failed.of(error)
        if inspect.isawaitable(found):
            self._loop.start_task(self._wait, perform, found)
        else:
            self._finish(perform, found)

    async def _wait(self, perform: Perform, found: Awaitable[Value]) -> None:
        result: Value | Failed = Failed.of(EndpointClosed("the endpoint was shut down meanwhile"))
        try:
            result = await found
        except Exception as error:  # The asker is told, and the endpoint goes on.
            result = Failed.of(error)
        finally:
            self._finish(perform, result)

    def _finish(self, perform: Perform, result: Value | Failed) -> None:
        self._send(self._desk.finish(perform, result, trio.current_time()))

    # The verbs.

    def _begin(self, verb: str, values: Sequence[Value]) -> Any:  # noqa: ANN401 - what it takes
        work = self._work.get(verb)
        if work is None:
            raise InvalidData(f"there is no verb {verb!r}; there are {', '.join(self._work)}")
        return work(*values)

    async def _promote(self, name: str, force: bool) -> str:  # noqa: FBT001 - as it came
        return await self._offer("store", name)(force)

    async def _lead_log(self, name: str, force: bool) -> str:  # noqa: FBT001 - as it came
        return await self._offer("log", name)(force)

    def _offer(self, kind: str, name: str) -> Promote:
        found = self._offers.get((kind, name))
        if found is None:
            raise NoSuchMaster(
                f"endpoint {self._loop.core.local} offers no copy of the {kind} {name} to lead: ask"
                " one that has a copy"
            )
        return found
