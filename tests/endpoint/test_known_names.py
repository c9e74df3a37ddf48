"""Which stores and logs an endpoint has heard of, and why a connection failed, in words."""

from __future__ import annotations

import socket

import pytest

from endpoint import Endpoint, Settings, SettingsError


async def test_stores_and_logs_in_reach_are_known_by_name_right_after_peering() -> None:
    async with Endpoint() as far, Endpoint() as middle, Endpoint() as near:
        async with (
            far.attach_master("cities"),
            far.attach_log("events"),
            far.attach_clone("orphan"),
            near.attach_clone("mine"),
            near.attach_proxy("asked"),
        ):
            await middle.peer("127.0.0.1", await far.listen())
            await near.peer("127.0.0.1", await middle.listen())
            assert near.known_stores() == ("cities", "orphan")
            assert near.known_logs() == ("events",)
            assert far.known_stores() == ("cities", "mine"), "its own clone is no store yet"


async def test_a_store_is_forgotten_with_the_endpoint_that_had_it() -> None:
    async with Endpoint() as near:
        async with Endpoint() as far, far.attach_master("cities"):
            await near.peer("127.0.0.1", await far.listen())
            assert near.known_stores() == ("cities",)
        with near.subscribe_status() as status:
            if near.known_stores():
                async for _ in status:
                    if not near.known_stores():
                        break
        assert near.known_stores() == ()


async def test_a_refused_connection_is_told_in_the_system_s_words() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with Endpoint() as endpoint:
            outcome = await endpoint.peer("127.0.0.1", bound.getsockname()[1], retry=0)
    assert "(connection refused)" in str(outcome)


@pytest.mark.parametrize("name", ["PEER", "CONTEXT", "CONFIG_DIR"])
def test_what_the_command_line_is_told_is_no_setting(name: str) -> None:
    assert Settings.load({}, {f"PEERMESH_{name}": "anything"}) == Settings()
    with pytest.raises(SettingsError, match="unknown setting 'peers'"):
        Settings.load({}, {"PEERMESH_PEERS": "anything"})
