"""What an endpoint says of the addresses that it dials, and of when it dials them again."""

from __future__ import annotations

import trio

from endpoint import DialInfo, Endpoint, StatusCode
from endpoint.mesh.status import StatusEvent
from endpoint.pubsub.stream import StatusSubscriber
from peermesh.testing.time_limits import limit
from tests.endpoint.conftest import until
from tests.ports import free_port

HOST = "127.0.0.1"


async def event_of(status: StatusSubscriber, code: StatusCode) -> StatusEvent:
    while (event := await status.get(limit())).status is not code:
        pass
    return event


async def test_an_address_is_listed_until_it_is_a_peer_and_again_when_it_is_lost() -> None:
    async with Endpoint() as here:
        status, address = here.subscribe_status(), (HOST, free_port())
        assert here.dialled() == []
        assert not await here.peer(*address, retry=0.5, timeout=0)
        event = await event_of(status, StatusCode.PEER_UNAVAILABLE)
        assert (event.address, event.retry) == (address, 0.5)
        assert here.dialled() == [DialInfo(address, 0.5, was_peer=False, reason=event.reason)]
        async with Endpoint() as there:
            await there.listen(*address)
            assert await here.await_peer(there, limit())
            assert (await event_of(status, StatusCode.PEER_ADDED)).retry == 0.5
            assert here.dialled() == []
            assert there.dialled() == []
        assert (await event_of(status, StatusCode.PEER_LOST)).retry == 0.5
        await until(here.dialled)
        (found,) = here.dialled()
        assert (found.address, found.was_peer) == (address, True)
        assert await here.unpeer(*address)
        assert here.dialled() == []


async def test_what_is_not_dialled_again_says_so() -> None:
    async with Endpoint() as here, Endpoint() as there:
        status, port = there.subscribe_status(), free_port()
        assert not await there.peer(HOST, port, retry=0)
        assert (await event_of(status, StatusCode.PEER_UNAVAILABLE)).retry == 0
        assert there.dialled() == []
        with trio.fail_after(limit()):
            assert await here.peer(HOST, await there.listen(HOST))
        assert (await event_of(status, StatusCode.PEER_ADDED)).retry is None
