"""Commands of stores: read, written again, and taken in by a master and a clone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stores.clone import Clone
from stores.commands import Actions
from stores.effects import Effect, Multicast, Unicast
from stores.encoding import decode_action, decode_command, encode_action, encode_command
from stores.master import Master
from stores.persistence import Loaded
from stores.table import Columns
from wire.encoding import encode
from wire.errors import DecodeError
from wire.identifiers import EndpointId, EntityId

MASTER, CLONE = (EntityId(EndpointId(bytes(15) + last), 1) for last in (b"\x01", b"\x02"))
TO_MASTER, TO_CLONE, TICK = range(3)
TICK_NS = 100_000_000


def check(data: bytes) -> None:
    """Take the bytes apart: where to, a length in two bytes, and a command; and so on."""
    master = Master(MASTER, Loaded(1, 0, Columns(), ()), is_durable=False)
    clone = Clone(CLONE, 1)
    clone.start()
    now_ns = 1
    while data:
        where, size = data[0] % 3, int.from_bytes(data[1:3])
        command, data = data[3 : 3 + size], data[3 + size :]
        now_ns += TICK_NS
        if where == TICK:
            master.tick(now_ns)
            clone.tick(now_ns)
            continue
        try:
            sender = _check_form(command)
            core = master if where == TO_MASTER else clone
            core.receive(sender, command, now_ns)
        except DecodeError:
            pass
        master.flush(now_ns)
        clone.flush(now_ns)
        assert clone.revision >= 0
        keys = clone.keys()
        assert all(clone.get(key) is not None for key in keys)


def _check_form(data: bytes) -> EndpointId:
    command = decode_command(data)
    _refuse_more(decode_command, data)
    assert decode_command(encode_command(command)) == command
    if isinstance(command.content, Actions):
        for payload in command.content.payloads:
            action = decode_action(payload)
            _refuse_more(decode_action, payload)
            assert decode_action(encode_action(action)) == action
    return command.sender.endpoint


def _refuse_more(decode: Callable[[bytes], object], data: bytes) -> None:
    try:
        decode(data + b"\0")
    except DecodeError:
        return
    raise AssertionError("bytes after the end were overlooked")


def seeds() -> Iterator[bytes]:
    """Give a conversation of a master and a clone that writes, and its commands one by one."""
    master = Master(MASTER, Loaded(1, 0, Columns(), ()), is_durable=False)
    clone = Clone(CLONE, 1)
    said: list[bytes] = []

    def carry(effects: Iterable[Effect], where: int) -> None:
        for effect in effects:
            if isinstance(effect, (Unicast, Multicast)):
                said.append(bytes((where,)) + len(effect.payload).to_bytes(2) + effect.payload)
                if where == TO_MASTER:
                    carry(master.receive(CLONE.endpoint, effect.payload, 1), TO_CLONE)
                    carry(master.flush(1), TO_CLONE)
                else:
                    carry(clone.receive(MASTER.endpoint, effect.payload, 1), TO_MASTER)
                    carry(clone.flush(1), TO_MASTER)

    carry(clone.start(), TO_MASTER)
    key = encode("k")
    clone.requests.put(key, encode(1))
    clone.requests.put_unique(encode("u"), encode(2), 5 * TICK_NS)
    clone.requests.subtract(key, encode(1))
    clone.requests.erase(encode("u"))
    clone.requests.clear()
    carry(clone.flush(1), TO_MASTER)
    carry(clone.begin_idle(1), TO_MASTER)
    for tick in range(12):
        carry(master.tick(tick * TICK_NS), TO_CLONE)
        carry(clone.tick(tick * TICK_NS), TO_MASTER)
    yield b"".join(said) + bytes((TICK, 0, 0))
    yield from dict.fromkeys(said)
