"""``Endpoint(name=...)``: what others show of it over any number of hops, and what they refuse."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from endpoint import Endpoint, Settings, SettingsError, StatusCode
from endpoint.mesh.naming import program_name
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from tests.hostile_text import HOSTILE
from wire.limits import LABEL_SIZE_MAX
from wire.messages import Announcements

SECRET = ClusterSecret.generate()

BAD_NAMES = (
    "a b", "a\tb", "a\nb", "\x1b[2J", "a\u202eb", "a\u00a0b", "\u3164", "\udcff", " ",
    "x" * (LABEL_SIZE_MAX + 1), "\u00e9" * LABEL_SIZE_MAX, "x" * 10_000,
    "store-a*", "store-a~3f2a", "00000000-0000-4000-8000-000000000001", "0" * 32, *HOSTILE[:40],
)  # fmt: skip


@pytest.mark.parametrize("name", [*BAD_NAMES, b"store-a", 5, True, None], ids=ascii)
def test_a_name_that_others_would_not_take_is_refused_in_words(name) -> None:
    for make in (lambda: Endpoint(name=name), lambda: Settings.load({"name": name}, {})):
        with pytest.raises(SettingsError, match="give up to 64 printable bytes without") as raised:
            make()
        assert not set(str(raised.value)) & set(HOSTILE)
        assert len(str(raised.value)) < 200


@pytest.mark.parametrize("name", ["a", "store-a", "x" * LABEL_SIZE_MAX, "\u6771\u4eac", "a.b:c/d"])
def test_a_name_is_any_other_text(name) -> None:
    assert Endpoint(name=name).settings.name == name
    assert f"<Endpoint {name} (" in repr(Endpoint(name=name))


def test_a_name_comes_from_a_variable_or_a_file_or_else_from_the_program(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/my program.py"])
    own = Endpoint()
    assert own.settings.name == ""
    assert own.name_of(own) == program_name("/usr/bin/my program.py") == "my-program"
    monkeypatch.setattr("sys.argv", [])
    assert Endpoint().name_of(own) == str(own.node_id())
    assert repr(Endpoint()).startswith("<Endpoint python (")
    file = tmp_path / "mesh.toml"
    file.write_text('name = "of-the-file"\n')
    assert repr(Endpoint(settings_file=file)).startswith("<Endpoint of-the-file (")
    monkeypatch.setenv("PEERMESH_NAME", "of-the-variable")
    assert repr(Endpoint(settings_file=file)).startswith("<Endpoint of-the-variable (")
    assert repr(Endpoint(settings_file=file, name="own")).startswith("<Endpoint own (")
    monkeypatch.setenv("PEERMESH_NAME", "two words")
    with pytest.raises(SettingsError, match="name cannot be 'two words'"):
        Endpoint()
    file.write_text("name = 5\n")
    monkeypatch.delenv("PEERMESH_NAME")
    with pytest.raises(SettingsError, match="name cannot be 5"):
        Endpoint(settings_file=file)


async def test_a_name_is_shown_wherever_endpoints_are(kit, caplog) -> None:
    caplog.set_level(logging.INFO, "peermesh.endpoint")
    async with kit.world() as world:
        one, two, three = [await world.add(name=f"store-{each}") for each in "abc"]
        status = one.subscribe_status()
        await world.peer(two, three)
        await world.peer(one, two)
        await world.known()
        (peer,) = one.peers()
        assert (peer.node_id, peer.name) == (two.node_id(), "store-b")
        assert one.name_of(three) == one.name_of(str(three.node_id())) == "store-c"
        assert one.name_of(one) == one.describe().name == "store-a"
        assert one.describe().to_dict()["name"] == "store-a"
        assert one.describe().to_dict()["peers"][0]["name"] == "store-b"
        who = f"store-a ({one.node_id()})"
        assert repr(one).startswith(f"<Endpoint {who} listening ")
        events = await kit.events_until(status, StatusCode.PEER_ADDED)
        events += [each for each in status.poll() if each.endpoint == three.node_id()]
        told = {str(each) for each in events}
        assert f"endpoint_discovered: store-c ({three.node_id()}): found a new" in "".join(told)
        assert {each.name for each in events} == {"store-b", "store-c"}
        assert told <= {each.getMessage() for each in caplog.records}
        outcome = await one.await_peer(three.node_id(), timeout=limit())
        assert f"store-c ({three.node_id()})" in outcome.reason
        three.subscribe("/news")
        outcome = await one.await_subscribed("/news", timeout=limit())
        assert f"store-c ({three.node_id()})" in outcome.reason


async def test_two_of_one_name_are_told_apart_and_the_one_that_is_left_is_not(kit) -> None:
    async with kit.world() as world:
        hub = await world.add(name="hub")
        one = await world.add(name="store-a")
        await world.peer(one, hub)
        assert hub.name_of(one) == "store-a"
        async with Endpoint(name="store-a") as other:
            assert await other.peer(kit.host, world.ports[hub], timeout=limit())
            await kit.until(lambda: "~" in hub.name_of(other))
            assert hub.name_of(one) == f"store-a~{one.node_id().hex()[:4]}"
            assert hub.name_of(other) == f"store-a~{other.node_id().hex()[:4]}"
            status = hub.subscribe_status()
        (*_, event) = await kit.events_until(status, StatusCode.ENDPOINT_UNREACHABLE)
        assert event.name == f"store-a~{other.node_id().hex()[:4]}"
        assert hub.name_of(one) == "store-a"


async def test_a_certificate_s_name_goes_first_where_an_authority_vouches_for_it(kit) -> None:
    def called(name: str, *, can_trust_names: bool) -> Credentials:
        made = Credentials.from_secret(SECRET, name)
        return replace(made, can_trust_names=can_trust_names)

    for is_proven, shown in ((True, ['"core 1"*', "core-2*"]), (False, ["one", "two"])):
        async with kit.world() as world:
            one = await world.add(
                name="one", credentials=called("core 1", can_trust_names=is_proven)
            )
            two = await world.add(
                name="two", credentials=called("core-2", can_trust_names=is_proven)
            )
            status = one.subscribe_status()
            await world.peer(one, two)
            assert [one.name_of(each) for each in (one, two)] == shown
            assert one.peers()[0].name == shown[1]
            assert (one.describe().name, one.describe().certificate_name) == (shown[0], "core 1")
            (*_, event) = await kit.events_until(status, StatusCode.PEER_ADDED)
            assert (event.name, event.certificate_name) == (shown[1], "core-2")
            assert f"{shown[0]} (" in repr(one)


@pytest.mark.parametrize("name", [*BAD_NAMES[:7], "", "x" * 10_000, "core-1*"], ids=ascii)
async def test_a_peer_s_bad_name_costs_it_the_connection_and_nobody_else_anything(
    kit, name
) -> None:
    async with kit.besieged(name="hub") as siege:
        hub = siege.hub
        async with kit.raw(hub, siege.port) as raw:
            assert hub.name_of(raw.local) == str(raw.local)
            await kit.events_until(siege.status, StatusCode.PEER_ADDED)
            said = replace(raw.about(raw.local, time=2, links=(hub.node_id(),)), label=name)
            await raw.send(Announcements((said,)))
            (*_, event) = await kit.events_until(siege.status, StatusCode.PEER_REMOVED)
            assert hub.name_of(raw.local) == str(raw.local)
            assert not set(str(event)) & set(HOSTILE)
            assert len(str(event)) < 500
        await siege.check()


async def test_a_thousand_of_one_name_are_told_apart(kit) -> None:
    async with kit.besieged(name="hub") as siege:
        hub = siege.hub
        async with kit.raw(hub, siege.port) as raw:
            ids = [type(raw.local)(bytes([7, *number.to_bytes(15)])) for number in range(1, 1_001)]
            own = raw.about(raw.local, time=2, links=tuple(sorted((hub.node_id(), *ids))))
            made_up = [raw.about(each, links=(raw.local,)) for each in ids]
            said = [replace(each, label="hub") for each in (own, *made_up)]
            await raw.send(Announcements(tuple(said)))
            await kit.until(lambda: hub.loop.core.reach.includes(ids[-1]))
            assert len({hub.name_of(each) for each in ids}) == len(ids)
            assert hub.name_of(hub) == f"hub~{hub.node_id().hex()[:4]}"
        await siege.check()
