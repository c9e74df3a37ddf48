"""Endpoints that ask each other, over real sockets: what is answered, to whom, by what right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.admin.desk import REQUESTS_PER_ASKER
from endpoint.admin.protocol import Answer, Request, encode_answer, encode_request
from endpoint.link.data_queue import Outgoing
from peermesh.testing.relay import Passing, TwistingRelay
from peermesh.testing.time_limits import limit
from tests.endpoint.mesh.test_unknown_kinds import HERE, LEFT, RIGHT, in_the_middle
from tests.endpoint.rows import line, star
from tests.endpoint.test_roles import called, refused_until, unknowing
from tests.waiting import until
from wire.codec import encode_header
from wire.encoding import encode
from wire.errors import (
    InvalidData,
    InvalidTopic,
    LimitExceeded,
    MeshError,
    NoSuchMaster,
    NotAllowed,
    PeerUnavailable,
    PromotionRefused,
    RequestTimeout,
)
from wire.framing import encode_single
from wire.identifiers import EndpointId
from wire.messages import NodeHeader, PackedType
from wire.plain import plain
from wire.scalars import Count
from wire.topics import ADMIN_TOPIC

ROLES = {
    "names": {"core-*": "core", "app-*": "app", "ops-*": "ops", "deputy-*": "deputy"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
        "app": {"publish": [""], "subscribe": [""]},
        "ops": {"observe": True, "lead": ["logs"], "subscribe": [""]},
        "deputy": {"publish": ["peermesh/control/"]},
    },
}


async def core(world, name: str) -> Endpoint:
    return await world.add(credentials=called(name), roles=ROLES)


async def test_an_endpoint_describes_itself_to_another_over_several_links() -> None:
    async with line(4) as (first, *_, last):
        async with last.attach_master("cities"):
            found = plain(await first.admin.ask(last.node_id(), "describe", timeout=limit()))
        assert found["id"] == str(last.node_id())
        assert [store["name"] for store in found["stores"]] == ["cities"]
        own = await first.admin.ask(first, "describe")
        assert own["id"] == str(first.node_id()), "it can ask itself"


async def test_the_service_is_announced_to_nobody_and_heard_by_its_receiver_alone() -> None:
    async with line(3) as (left, middle, right):
        announced = [each.topology.announcements for each in (left.loop.core, right.loop.core)]
        assert not any(news.stores for known in announced for news in known.values())
        payload = encode_request(Request(1, "describe", ()))
        taken = [each.loop.peerings[middle.node_id()].connection for each in (left, right)]
        left.loop.send_command(ADMIN_TOPIC, None, payload)
        assert await left.admin.ask(middle.node_id(), "describe", timeout=limit())
        assert taken[1].commands_received == 0, "what names no receiver goes nowhere"


def test_a_command_that_names_no_receiver_or_another_one_is_not_heard() -> None:
    here, service = in_the_middle(), object()
    here.serve(ADMIN_TOPIC, service)
    for sender, receiver, heard in (
        (LEFT, HERE, (service,)),
        (LEFT, None, ()),
        (LEFT, RIGHT, ()),
        (HERE, HERE, ()),
    ):
        header = NodeHeader(PackedType.COMMAND, sender, receiver, ADMIN_TOPIC)
        route = here.routing.route(sender, encode_header(header), LEFT)
        assert route.receivers == heard
        assert route.next_hops == ((RIGHT,) if receiver == RIGHT else ())


async def test_no_user_publishes_or_subscribes_there() -> None:
    async with Endpoint() as endpoint:
        for use in (endpoint.subscribe, endpoint.forward):
            with pytest.raises(InvalidTopic):
                use(ADMIN_TOPIC)
        with pytest.raises(InvalidTopic):
            await endpoint.publish(ADMIN_TOPIC, 1)


async def test_whatever_is_sent_there_costs_no_link_and_the_next_question_is_answered() -> None:
    async with star(1) as (left, right):
        one = Count(1)
        for payload in (
            b"", b"\x84", b"\x84\x01", b"noise", b"\x81" * 9_999, b"\x84\x00" + b"\xff" * 70_000,
            encode((0, one, "describe", ())), encode((0, one, "describe", (1,))),
            encode((0, one, "promote", ())), encode((0, one, "promote", ("s", 1))),
            encode((0, one, "\x1b[31m", ())), encode((1, one, True, "an answer to nothing")),
            encode((0, one, "promote", ("s" * 9_999, True))),
        ):  # fmt: skip
            left.loop.send_command(ADMIN_TOPIC, right.node_id(), payload)
        assert await left.admin.ask(right.node_id(), "describe", timeout=limit())
        assert right.admin.malformed == 5
        assert len(right.peers()) == 1


async def test_an_error_in_a_verb_is_its_answer(caplog) -> None:
    async with star(1) as (left, right):

        async def burn(force: bool) -> str:
            raise RuntimeError("it burns")

        right.admin.offer_store("cities", burn)
        with pytest.raises(MeshError, match="RuntimeError: it burns"):
            await left.admin.ask(right.node_id(), "promote", "cities", True, timeout=limit())
        right.admin._work["describe"] = lambda: 1 / 0  # type: ignore[dict-item]  # it never returns
        with pytest.raises(MeshError, match="ZeroDivisionError"):
            await left.admin.ask(right.node_id(), "describe", timeout=limit())
        assert len(right.peers()) == 1


async def test_an_endpoint_leads_what_was_offered_alone() -> None:
    async with star(1) as (left, right):
        async with left.attach_master("cities") as master, right.attach_clone("cities") as clone:
            assert await clone.await_idle(timeout=limit())
            for verb in ("promote", "lead-log"):
                with pytest.raises(NoSuchMaster, match="offers no copy"):
                    await left.admin.ask(right.node_id(), verb, "cities", True, timeout=limit())

            async def promote(force: bool) -> str:
                return f"term {(await clone.promote(force=force)).term}"

            right.admin.offer_store("cities", promote)
            with pytest.raises(PromotionRefused, match="its master is alive"):
                await left.admin.ask(right.node_id(), "promote", "cities", False, timeout=limit())
            asked = await left.admin.ask(
                right.node_id(), "promote", "cities", True, timeout=limit()
            )
            assert asked == "term 1"
            assert clone.is_master()
            with trio.fail_after(limit()):
                await until(lambda: not master.is_master())


async def test_an_endpoint_that_does_not_answer_asks_others_all_the_same(kit) -> None:
    async with kit.world() as world:
        mute, other = await world.add(admin=False), await world.add()
        await world.peer(mute, other)
        with pytest.raises(RequestTimeout, match="does not answer questions"):
            await other.admin.ask(mute.node_id(), "describe", timeout=0.1)
        assert await mute.admin.ask(other.node_id(), "describe", timeout=limit())


async def test_an_endpoint_that_cannot_be_reached_is_told_at_once() -> None:
    async with star(1) as (left, _):
        with pytest.raises(PeerUnavailable, match="is unknown; reachable are"):
            await left.admin.ask(EndpointId(b"n" * 16), "describe", timeout=limit())


async def test_endpoints_that_sign_ask_each_other_and_believe_no_relay(kit) -> None:
    def meddle(frame: Passing) -> Iterator[Passing]:
        if frame.header.topic == ADMIN_TOPIC:
            yield replace(frame, payloads=[b"forged", *frame.payloads[1:]])
        yield frame

    async with kit.world() as world:
        left, right = await world.add(sign=True), await world.add(sign=True)
        relay = await world.adopt(TwistingRelay(meddle))
        await world.peer(left, relay)
        await world.peer(relay, right)
        await world.known()
        found = await left.admin.ask(right.node_id(), "describe", timeout=limit())
        assert found["id"] == str(right.node_id())
        assert (left.admin.malformed, right.admin.malformed) == (0, 0)
        assert right.statistics().messages_forged >= 1


async def test_too_many_questions_are_told_to_come_later_and_the_link_stands() -> None:
    async with star(2) as (hub, left, right):
        found: list[object] = []

        async def ask() -> None:
            try:
                found.append(await left.admin.ask(hub.node_id(), "describe", timeout=limit()))
            except LimitExceeded as error:
                found.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(10 * REQUESTS_PER_ASKER):
                nursery.start_soon(ask)
        busy = [each for each in found if isinstance(each, LimitExceeded)]
        assert len(found) == 10 * REQUESTS_PER_ASKER
        assert all("busy" in str(each) for each in busy)
        assert len(busy) > REQUESTS_PER_ASKER
        assert await right.admin.ask(hub.node_id(), "describe", timeout=limit()), "others are heard"
        assert len(hub.peers()) == 2


# Answers.


async def test_an_answer_of_an_endpoint_that_was_not_asked_does_not_count() -> None:
    async with star(2) as (hub, left, right):
        async with trio.open_nursery() as nursery:
            parked = trio.Event()

            async def ask() -> None:
                await left.admin.ask(hub.node_id(), "promote", "s", True, timeout=limit())
                raise AssertionError("nothing that was asked has answered")

            async def never(force: bool) -> str:
                parked.set()
                await trio.sleep_forever()
                raise AssertionError

            hub.admin.offer_store("s", never)
            nursery.start_soon(ask)
            await parked.wait()
            (number,) = left.admin._waiting
            for guess in (number, number + 1):
                forged = encode_answer(Answer(guess, "forged"))
                right.loop.send_command(ADMIN_TOPIC, left.node_id(), forged)
            await right.admin.ask(left.node_id(), "describe", timeout=limit())
            ((event, found),) = left.admin._waiting.values()
            assert not event.is_set()
            assert not found
            nursery.cancel_scope.cancel()


async def test_an_answer_goes_to_the_sender_of_the_frame_whatever_the_request_says(kit) -> None:
    async with kit.world() as world:
        first, ops = await core(world, "core-1"), await core(world, "core-2")
        deputy = await unknowing(world, "deputy-1")
        await world.peer(first, ops)
        await world.peer(deputy, first)
        alarms, topics = ops.subscribe("/alarms/"), ops.subscribe("peermesh/")
        await world.known()
        to = first.node_id()
        await deputy.publish("peermesh/control/promote", ("EVACUATE NOW", True, "/alarms/x"), to=to)
        one = Count(1)
        for request in (
            (0, one, "promote", ("EVACUATE NOW", True, "/alarms/fire")),
            (0, one, "promote", ("EVACUATE NOW", True), "/alarms/fire"),
            (0, one, "/alarms/fire", ("EVACUATE NOW", True)),
        ):
            deputy.loop.send_command(ADMIN_TOPIC, to, encode(request))
        with pytest.raises(NotAllowed):
            await deputy.admin.ask(to, "describe", timeout=limit())
        await first.publish("/alarms/test", "honest")
        await first.publish("peermesh/test", "honest")
        assert await alarms.get() == ("/alarms/test", "honest")
        assert await topics.get() == ("peermesh/test", "honest")
        assert ops.admin.malformed == 0, "nothing came to it"


# Rights.


async def test_who_may_not_lead_a_store_deposes_no_master(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world, "core-1"), await core(world, "core-2")
        app, ops = await unknowing(world, "app-1"), await unknowing(world, "ops-1")
        status = second.subscribe_status()
        for peers in ((first, second), (app, first), (ops, first)):
            await world.peer(*peers)
        async with first.attach_master("accounts") as master:
            async with second.attach_clone("accounts") as clone:

                async def promote(force: bool) -> str:
                    return str((await clone.promote(force=force)).term)

                second.admin.offer_store("accounts", promote)
                second.admin.offer_log("logs", promote)
                assert await clone.await_idle(timeout=limit())
                await world.known()
                old = ("accounts", True, "app/answer")
                await app.publish("peermesh/control/promote", old, to=second.node_id())
                for asking in (app, ops):
                    with pytest.raises(NotAllowed, match="its role needs 'accounts' in lead"):
                        await asking.admin.ask(
                            second.node_id(), "promote", "accounts", True, timeout=limit()
                        )
                event = await refused_until(kit, status, "may not promote")
                assert (event.status, event.endpoint) == (StatusCode.NOT_ALLOWED, app.node_id())
                assert "'app-1' (role app)" in event.reason
                assert master.is_master()
                assert not clone.is_master()
                assert (await (await master.put("a", 1)).applied()) == 1
                with pytest.raises(NotAllowed, match="observe = true"):
                    await app.admin.ask(second.node_id(), "describe", timeout=limit())
                assert await ops.admin.ask(second.node_id(), "describe", timeout=limit())
                done = await first.admin.ask(
                    second.node_id(), "promote", "accounts", True, timeout=limit()
                )
                assert (done, clone.is_master()) == ("1", True)


async def test_a_node_that_may_not_lead_itself_does_not_lead_for_one_that_may(kit) -> None:
    roles = {
        "names": {"core-*": "core", "copy-*": "copy"},
        "roles": {
            "core": {"relay": True, "lead": ["*"]},
            "copy": {"read": ["*"], "relay": True},
        },
    }
    async with kit.world() as world:
        first = await world.add(credentials=called("core-1"), roles=roles)
        copy = await world.add(credentials=called("copy-1"), roles=roles)
        await world.peer(first, copy)
        async with first.attach_master("s") as master, copy.attach_clone("s") as clone:

            async def promote(force: bool) -> str:
                return str(await clone.promote(force=force))

            copy.admin.offer_store("s", promote)
            assert await clone.await_idle(timeout=limit())
            with pytest.raises(NotAllowed, match="may not lead s"):
                await first.admin.ask(copy.node_id(), "promote", "s", True, timeout=limit())
            assert master.is_master()


async def test_a_limited_peer_asks_in_its_own_name_alone(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world, "core-1"), await core(world, "core-2")
        app = await unknowing(world, "app-1")
        await world.peer(first, second)
        await world.peer(app, first)
        await world.known()
        named = NodeHeader(PackedType.COMMAND, second.node_id(), first.node_id(), ADMIN_TOPIC)
        payload = encode_request(Request(1, "describe", ()))
        frame = encode_single(second.node_id(), encode_header(named), 16, 2**62, payload)
        status = first.subscribe_status()
        outgoing = Outgoing([frame], len(frame), 1, len(frame), own=True)
        app.loop.peerings[first.node_id()].connection.send_command(outgoing)
        event = await refused_until(kit, status, "sent messages of")
        assert event.endpoint == second.node_id()


async def test_a_request_that_names_no_verb_of_ours_is_told_which_there_are() -> None:
    async with star(1) as (left, right):
        with pytest.raises(InvalidData, match="there are describe, promote, lead-log"):
            await left.admin.ask(right.node_id(), "shutdown", timeout=limit())
        with pytest.raises(InvalidData, match="there are describe"):
            await left.admin.ask(left, "shutdown")
