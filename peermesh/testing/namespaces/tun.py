"""A network interface whose other end is this process: packets are read and written as bytes."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from peermesh.testing.namespaces.probing import TUN
from peermesh.testing.namespaces.wire import PACKET_SIZE_MAX

_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
"""No header in front of the packets."""

_REQUEST: Final = struct.Struct("16sH22x")
"""The kernel's ``ifreq``: the interface's name, and its flags."""

READS_MAX: Final = 64
"""Packets read at once, so that one busy host does not keep the others waiting."""


@contextmanager
def open_tun(name: str) -> Iterator[int]:
    """Make an interface in this process's own namespace; give the file of its other end.

    It goes when the file is closed, wherever it was moved to.
    """
    file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(file, _TUNSETIFF, _REQUEST.pack(name.encode(), _IFF_TUN | _IFF_NO_PI))
        yield file
    finally:
        os.close(file)


def read_packets(file: int) -> Iterator[bytes]:
    """Give the packets that wait, some of them at most."""
    with suppress(BlockingIOError):
        for _ in range(READS_MAX):
            yield os.read(file, PACKET_SIZE_MAX)


def write_packet(file: int, packet: bytes) -> None:
    """Hand a packet to the interface. One that it cannot take is lost, as on any network."""
    with suppress(OSError):
        os.write(file, packet)
