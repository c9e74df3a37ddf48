"""The edge broker's rule as a model: the product's own cores, through changes of broker.

``python -m tests.peermesh.brokers.edge.reigns --seeds 100000 --from 0`` plays so many seeds. Each
decides one order of events: brokers are killed or leave, connections are lost with what is in them,
subscribers come and die, rights are withdrawn and given back. A run that is ``late`` lets time pass
although subscribers are away, so that brokers stop waiting for them: then what is lost has to be
told, with the right number.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from peermesh.brokers.edge.hall import Consequence, Hall
from peermesh.brokers.edge.incoming import Incoming
from peermesh.brokers.edge.lifecycle import ChannelMap, OpenPorts, PortList
from peermesh.brokers.edge.messages import (
    Attach,
    Attached,
    ControlMessage,
    Denied,
    Refused,
    Taken,
    Void,
    read,
    read_data,
)
from peermesh.brokers.edge.outgoing import Outgoing
from peermesh.brokers.edge.relay import Send
from peermesh.brokers.edge.subscription import RESUME_SECONDS
from wire.framing import VERSION_MAX, VERSION_MIN, FrameDecoder, NodeFrame, encode_preamble
from wire.limits import FRAME_SIZE_MAX
from wire.messages import Preamble

TOPIC = "T"
STEPS_MAX = 200_000
DECODER = FrameDecoder(FRAME_SIZE_MAX)
"""One for all: it holds nothing between frames that are whole."""
DECODER.feed(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)))
DECODER.next_frame()

Item = NodeFrame | ControlMessage


def items(data: bytes) -> list[Item]:
    """Read frames as a connection does."""
    DECODER.feed(data)
    found: list[Item] = []
    while (frame := DECODER.next_frame()) is not None:
        assert not isinstance(frame, Preamble)
        found.append(frame if isinstance(frame, NodeFrame) else read(frame))
    assert not DECODER.held_size
    return found


@dataclass
class Connection:
    """Two queues, which die with it."""

    number: int
    up: deque[Item] = field(default_factory=deque)
    down: deque[Item] = field(default_factory=deque)


class Client:
    """What publishers and subscribers have in common."""

    def __init__(self, name: int) -> None:
        self.name = bytes([name]) * 16
        self.connection: Connection | None = None


class Publisher(Client):
    """Sends numbers, as long as its buffer has room."""

    def __init__(self, name: int) -> None:
        super().__init__(name)
        self.core = Outgoing(TOPIC, self.name, capacity=16)
        self.refused: set[int] = set()
        self.is_denied = False

    @property
    def sent(self) -> int:
        """The number of its last message."""
        return self.core.last


class Subscriber(Client):
    """Reads at its leisure, and keeps what it got."""

    def __init__(self, name: int) -> None:
        super().__init__(name)
        self.core = Incoming(TOPIC)
        self.got: dict[bytes, list[int]] = {}
        self.told = 0
        self.since: dict[bytes, int] | None = None
        """What each publisher had sent when the subscription was known for the first time."""
        self.earliest: dict[bytes, int] | None = None
        """What was acknowledged to each publisher when it was asked for."""

    @property
    def is_attached(self) -> bool:
        """Tell whether its broker knows it now."""
        return self.core.is_attached


class World:
    """One run."""

    def __init__(self, seed: int, messages: int) -> None:
        self.random = random.Random(seed)
        self.is_late = self.random.random() < 0.2
        self.messages = messages
        self.publishers = [Publisher(1), Publisher(2)]
        self.subscribers = [Subscriber(7), Subscriber(8), Subscriber(9)]
        self.gone: list[Subscriber] = []
        self.registered: set[bytes] = set()
        self.numbers = itertools.count(1)
        self.connections: dict[int, Connection] = {}
        self.now = 0.0
        self.reigns = 0
        self.kills = self.random.randrange(5)
        self.is_leaving = False
        self.hall = self.begin(known=[], is_held=False)

    # Brokers.

    def begin(self, known: list[bytes], *, is_held: bool) -> Hall:
        """A broker takes over, with nothing."""
        for client in (*self.publishers, *self.subscribers):
            self.lose(client)
        self.reigns += 1
        self.is_leaving = False
        hall = self.hall = Hall(ChannelMap(f"reign {self.reigns}", PortList()))
        until = self.now + RESUME_SECONDS if is_held else None
        hall.begin(until, [(TOPIC, name) for name in known])
        return hall

    def leave(self) -> None:
        """A broker lets subscribers have what they were sent, and takes no more."""
        self.hall.leave()
        self.is_leaving = True

    def apply(self, effects: Sequence[Consequence]) -> None:
        """Carry out what the hall decided."""
        for effect in effects:
            match effect:
                case Send(number, what):
                    if (found := self.connections.get(number)) is not None:
                        found.down.extend(items(what) if isinstance(what, bytes) else [what])
                case OpenPorts(topic):
                    self.hall.channels.opened(topic, (1, 2))

    def from_publisher(self, client: Publisher, connection: Connection) -> None:
        """The oldest of what a publisher said arrives."""
        item = connection.up.popleft()
        if isinstance(item, Void):
            number, may_publish = connection.number, not client.is_denied
            self.apply(self.hall.void(number, client.name, item, may_publish=may_publish))
            return
        assert isinstance(item, NodeFrame)
        if client.is_denied:
            self.hall.refuse_data(client.name, TOPIC)
            last = item.first + item.count - 1
            connection.down.append(Denied(TOPIC, last, item.count, "denied"))
            client.refused |= set(range(item.first, last + 1))
            return
        self.apply(self.hall.data(connection.number, "", item))

    def from_subscriber(self, client: Subscriber, connection: Connection) -> None:
        """The oldest of what a subscriber said arrives."""
        item = connection.up.popleft()
        if isinstance(item, Attach):
            client.earliest = client.earliest or {p.name: p.core.accepted for p in self.publishers}
            self.apply(self.hall.attach(connection.number, client.name, "", item))
        else:
            assert isinstance(item, Taken)
            self.apply(self.hall.taken(client.name, item))

    # Clients.

    def connect(self, client: Publisher | Subscriber) -> None:
        """A client finds the broker."""
        connection = client.connection = Connection(next(self.numbers))
        self.connections[connection.number] = connection
        if isinstance(client, Publisher):
            client.core.switch(connection.number)
        else:
            connection.up.append(Attach(TOPIC, client.core.is_known))

    def lose(self, client: Publisher | Subscriber) -> None:
        """A connection ends, and what was in it is gone."""
        connection, client.connection = client.connection, None
        if connection is None:
            return
        del self.connections[connection.number]
        self.hall.lost(connection.number)
        if isinstance(client, Subscriber):
            client.core.lose(connection.number)

    def step_publisher(self, client: Publisher, connection: Connection) -> None:
        """One thing happens to a publisher."""
        chance = self.random.random()
        if chance < 0.4 and connection.up:
            self.from_publisher(client, connection)
        elif chance < 0.7 and connection.down:
            item = connection.down.popleft()
            if isinstance(item, Denied):
                client.core.refuse(item.sequence, item.count, item.reason)
            else:
                client.core.accept(item.sequence)
        elif client.is_denied and not connection.up and not connection.down:
            client.is_denied = False
        elif client.sent < self.messages and client.core.has_room:
            for _ in range(min(self.random.randrange(1, 4), self.messages - client.sent)):
                client.core.add(b"x")
        if self.random.random() < 0.5:
            connection.up.extend(items(b"".join(client.core.take())))

    def step_subscriber(self, client: Subscriber, connection: Connection) -> None:
        """One thing happens to a subscriber."""
        core = client.core
        if connection.down and self.random.random() < 0.6:
            item = connection.down.popleft()
            match item:
                case Attached():
                    client.told += core.attached(connection.number, item)
                    client.since = client.since or {p.name: p.sent for p in self.publishers}
                case Void():
                    core.void(connection.number, item.publisher, item.sequence)
                case Refused():
                    self.lose(client)
                    return
                case NodeFrame():
                    self.receive(client, connection, item)
        elif connection.up and self.random.random() < 0.7:
            self.from_subscriber(client, connection)
        elif core.waiting:
            core.take(1)
        if (taken := core.report()) is not None:
            connection.up.append(taken)

    @staticmethod
    def receive(client: Subscriber, connection: Connection, frame: NodeFrame) -> None:
        """Data arrive."""
        publisher, first, count = read_data(frame)[1], frame.first, frame.count
        skip, missed = client.core.receive(connection.number, publisher, first, count)
        client.core.keep(count - skip, count - skip)
        client.told += missed
        client.got.setdefault(publisher, []).extend(range(first + skip, first + count))

    # The run.

    def step(self) -> None:
        """Let one thing happen."""
        rng = self.random
        chance = rng.random()
        if self.kills and chance < 0.004:
            self.end_broker(is_clean=rng.random() < 0.5)
        elif chance < 0.006 and len(self.subscribers) > 2:
            self.die(rng.choice(self.subscribers))
        elif chance < 0.008 and len(self.subscribers) < 5:
            self.subscribers.append(Subscriber(len(self.subscribers) + len(self.gone) + 20))
        elif chance < 0.010 and not self.is_late:
            rng.choice(self.publishers).is_denied = True
        client = rng.choice((*self.publishers, *self.subscribers))
        if client.connection is None:
            if not self.is_leaving and rng.random() < (0.02 if self.is_late else 0.1):
                self.connect(client)
        elif rng.random() < 0.003:
            self.lose(client)
        elif isinstance(client, Publisher):
            self.step_publisher(client, client.connection)
        else:
            self.step_subscriber(client, client.connection)
        self.pass_time()

    def end_broker(self, *, is_clean: bool) -> None:
        """It is killed, or leaves; there is another one."""
        self.kills -= 1
        if not is_clean:
            alive = [each.name for each in self.subscribers if each.core.is_known]
            known = self.random.sample(alive, self.random.randint(0, len(alive)))
            self.begin([*known, *self.registered], is_held=True)
        elif not self.is_leaving:
            self.leave()

    def die(self, client: Subscriber) -> None:
        """A subscriber is gone for good; the registry forgets it later."""
        self.lose(client)
        self.subscribers.remove(client)
        self.gone.append(client)
        self.registered.add(client.name)

    def pass_time(self) -> None:
        """Let time pass: in time for all who live, or not."""
        if not self.is_late:
            for subscriber in self.subscribers:
                if subscriber.core.is_known and not subscriber.is_attached:
                    return
        self.now += self.random.random() * (0.05 if self.is_late else 0.01)
        if self.random.random() < 0.1:
            self.apply(self.hall.tick(self.now))
            if self.random.random() < 0.1 and self.registered:
                self.registered.pop()
        if self.is_leaving and self.hall.is_taken:
            self.begin([], is_held=True)

    @property
    def is_over(self) -> bool:
        """Tell whether every message is acknowledged, and everything has come."""
        return (
            all(p.sent >= self.messages and not p.core.waiting for p in self.publishers)
            and all(s.is_attached for s in self.subscribers)
            and not any(c.up or c.down for c in self.connections.values())
        )

    def verdict(self) -> Counter[str]:
        """Say what was lost, doubled, disordered, and told."""
        found: Counter[str] = Counter(reigns=self.reigns, late=self.is_late)
        for subscriber in self.subscribers:
            lost = unseen = 0
            for publisher in self.publishers:
                got = subscriber.got.get(publisher.name, [])
                since = (subscriber.since or {}).get(publisher.name, publisher.sent)
                due = set(range(since + 1, publisher.sent + 1)) - publisher.refused - set(got)
                span = range(got[0], got[-1] + 1) if got else range(0)
                within = {number for number in span if number not in publisher.refused} - set(got)
                lost += len(within)
                first = (subscriber.earliest or {}).get(publisher.name, publisher.sent) + 1
                tellable = set(range(first, publisher.sent + 1)) - set(got)
                unseen += len((tellable if self.is_late else due) - within)
                found["messages"] += publisher.sent
                found["doubled"] += len(got) - len(set(got))
                found["disordered"] += got != sorted(got)
            found["told"] += subscriber.told
            if self.is_late:  # The last ones may be told, too, before the next one comes.
                found["lost late"] += lost + unseen
                found["untold"] += not lost <= subscriber.told <= lost + unseen
            else:
                found["lost"] += lost + unseen
                found["told in vain"] += subscriber.told
        return found


WRONG = ("lost", "doubled", "disordered", "untold", "told in vain")


def play(seed: int, messages: int = 40) -> Counter[str]:
    """Play one seed to its end; raises ``AssertionError`` if there is none."""
    world = World(seed, messages)
    for step in range(STEPS_MAX):
        world.step()
        if not step % 8 and world.is_over:
            return world.verdict()
    raise AssertionError(f"seed {seed}: it does not come to an end")


def main() -> int:
    """Play many seeds, and say where one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, prog="reigns")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first one")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two lines")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    begun = told = time.monotonic()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        found = play(seed)
        total += found
        if any(found[what] for what in WRONG):
            print(f"seed {seed}: {dict(found)}")
            return 1
        if time.monotonic() - told > arguments.every:
            told = time.monotonic()
            print(f"up to seed {seed}: {dict(total)}", flush=True)
    took = time.monotonic() - begun
    print(f"{arguments.seeds} seeds from {arguments.first} in {took:.0f} s: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
