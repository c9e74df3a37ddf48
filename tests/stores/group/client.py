"""A client of the model: registers, pushes and reads, and repeats what it hears no answer to."""

from __future__ import annotations

from random import Random

from stores.group.effects import Failed, Readable, Replied
from tests.stores.group.checks import Operation, Violation
from tests.stores.group.lists import Push, Register, Unknown

KEYS = 3
PATIENCE_MS = 400
STORM_PAUSE_MS = (1, 60)
CALM_PAUSE_MS = (50, 400)
"""Nothing fails any more: operations show that the group serves, and cost most of a seed's time."""


class Client:
    """Does one thing after the other; now and then it starts anew as another writer."""

    def __init__(self, world, number):
        self.world = world
        self.number = number
        self.random = Random(world.random.random())
        self.writer = None
        self.life = self.request = self.attempt = 0
        self.begun = None
        """When the operation under way began; ``None`` if there is none."""
        self.what = None
        self.goal = None
        self.is_stopping = False
        world.after(self.random.uniform(200, 900), self.begin)

    def begin(self):
        if self.is_stopping:
            return
        self.request += 1
        self.begun = self.world.now
        if self.random.random() < 0.04:
            self.writer = None
        key = self.random.randrange(KEYS)
        if self.random.random() >= (0.7, 0.1)[self.number % 2]:
            self.what = ("read", key, None)
        elif self.writer is None:
            self.life += 1
            self.what = ("register", key, Register(f"{self.number}/{self.life}"))
        else:
            value = f"{self.number}:{self.request}"
            self.what = ("push", key, Push(self.writer, self.request, key, value))
        self.ask()

    def ask(self):
        if self.begun is None:
            return
        self.attempt += 1
        self.world.after(PATIENCE_MS, self.ask_again, self.attempt)
        names = sorted(self.world.members)
        name = self.goal if self.goal in names and self.random.random() < 0.8 else None
        if name is None and not names:
            return
        name = name or self.random.choice(names)
        kind, key, request = self.what
        caller = (self.number, self.request, key)
        if kind == "read":
            self.world.send(self.number, name, self.world.read, name, caller)
        else:
            self.world.send(self.number, name, self.world.propose, name, caller, request)

    def ask_again(self, attempt):
        if attempt == self.attempt and self.begun is not None:
            self.goal = None
            self.ask()

    def hear(self, name, effect, values):
        """Take an answer; ``values`` are those of the list that was asked for, if it was read."""
        if effect.caller[1] != self.request or self.begun is None:
            return
        match effect:
            case Failed(leader=leader):
                self.retry(leader.name if leader is not None else None)
            case Readable():
                self.finish(name, values)
            case Replied(answer=answer):
                self.finish(name, answer)

    def retry(self, name):
        self.goal = name
        self.attempt += 1
        self.world.after(20, self.ask)

    def finish(self, name, result):
        kind, key, request = self.what
        if isinstance(result, Unknown):
            if self.writer not in self.world.witness.evicted:
                raise Violation(f"unknown outcome for {self.writer}, which was not evicted")
            self.writer = None
        elif kind == "register":
            self.writer = result
        else:
            value = request.value if kind == "push" else None
            operation = Operation(kind, key, value, self.begun, self.world.now, result)
            self.world.operations.append(operation)
        self.goal, self.begun = name, None
        self.world.after(self.pause_ms(), self.begin)

    def pause_ms(self):
        """Give how long this rests between two operations: most are asked for during the storm."""
        return self.random.uniform(*(CALM_PAUSE_MS if self.world.is_healed else STORM_PAUSE_MS))
