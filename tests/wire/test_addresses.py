"""Addresses as text."""

from __future__ import annotations

import pytest

from wire.addresses import PORT_MAX, join_address, read_port, split_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9999", ("127.0.0.1", 9999)),
        ("[::1]:0", ("::1", 0)),
        ("name.example:65535", ("name.example", PORT_MAX)),
    ],
)
def test_host_and_port_come_apart(text, address):
    assert split_address(text) == address
    assert join_address(*address) == text


@pytest.mark.parametrize("port", ["", "-1", "65536", "²", "٣", "1_0", " 1", "9" * 5_000])
def test_what_is_no_port_is_none(port):
    assert read_port(port) is None
    assert split_address(f"host:{port}") is None


@pytest.mark.parametrize("text", ["", "80", ":80", "host"])
def test_half_an_address_is_none(text):
    assert split_address(text) is None
