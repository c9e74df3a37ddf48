"""A random world around real members of a group, drawn from one seed.

Three or five voters and two learners, with clocks 5 % off. Links lose, repeat and reorder; they are
cut into sides, or one by one. Members crash, lose power, pause, and their disks fill up, are wiped,
or come back older. Voters change, leaders hand over.

Left out are two known limits. After a power cut the mark may be a second old, and an older file of
the same term that comes back then may pass for whole. And a leader learns with a delay that a voter
is lost: if it removes another one meanwhile, too few may be left.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import replace
from random import Random

from stores.group.clock import Moment
from stores.group.effects import (
    Broadcast,
    Failed,
    Persist,
    Readable,
    Replied,
    SavePromises,
    Send,
    SyncMarks,
    WriteMark,
)
from stores.group.entries import VotersEntry
from stores.group.member import Member
from stores.group.membership import Wanted
from stores.group.positions import MemberId
from stores.group.quorum import ChangeRefusal
from stores.group.roles import Role
from tests.stores.group.checks import Violation, Witness, check_healed, check_history
from tests.stores.group.client import Client
from tests.stores.group.disk import Disk, empty_file
from tests.stores.group.lists import Lists, Noop

TICK_MS = 100.0
TURN_MS = 3.0
"""How long a turn of a driver takes at most: other members' words and clients' come meanwhile."""

STORM_MS = 12_000
LEVEL_MS = 1_000
"""After so long without a client all have the same: some rounds."""

HEALING_MS = 14_000
CLIENTS = 4


class World:
    """Members, links and disks under one clock in ms. All chance is of the seed."""

    keeps_identity = False
    """Switches a rule off: a member in memory that restarts takes its old name."""

    def __init__(self, seed):
        self.random = random = Random(seed)
        self.now = 0.0
        self._events, self._count = [], 0
        self.target = random.choice((3, 3, 5))
        self.names = [f"n{number}" for number in range(self.target + 2)]
        self.in_memory = random.random() < 0.25
        self.is_volatile = self.in_memory and seed % 2 == 0
        """No member is told of a disk at all."""
        self.fills_up = random.random() < 0.5
        """Leaders replace and add voters by themselves, and not only when told to."""
        self.is_declared = seed % 5 == 4
        """All names are declared: leaders add each of them, but for those that a person removed."""
        self.joins_turns = seed % 3 == 0
        """A commit is told some steps later, as by a driver whose callers ask anew meanwhile."""
        self.lives = dict.fromkeys(self.names, 0)
        self.voters = tuple(MemberId(name, 0) for name in self.names[: self.target])
        self.disks = {name: Disk(MemberId(name, 0), empty_file(self.voters)) for name in self.names}
        self.rates = {name: random.uniform(0.95, 1.05) for name in self.names}
        self.members, self.writes = {}, {}
        self.alive = set()
        """The same members as in ``members``; looked up for each effect."""
        self.paused, self.full = {}, set()
        self.cuts, self.is_bad, self.is_healed = set(), False, False
        self.asked = {}
        """By leader, the voters that it is asked for until it says yes or no."""
        self.diverged = None
        self.witness, self.operations, self.figures = Witness(self.voters), [], Counter()
        self.witness.wished = set()
        for name in self.names:
            self.start(name)
        self.clients = [Client(self, number) for number in range(CLIENTS)]

    # -- time ------------------------------------------------------------------------------------

    def after(self, delay_ms, call, *arguments):
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._count, call, arguments))

    def run(self, until):
        while self._events and self._events[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(self._events)
            call(*arguments)
        self.now = until

    def moment(self, name):
        local_ns = int(self.now * self.rates[name] * 1e6)
        return Moment(local_ns, local_ns + 10**18)

    # -- members ---------------------------------------------------------------------------------

    def start(self, name):
        if name in self.members:
            return
        disk, machine = self.disks[name], Lists()
        machine.install(disk.file.parts)
        draw = Random(self.random.random()).randint
        names = frozenset(self.names if self.is_declared else ())
        wanted = Wanted(names, self.target if self.fills_up else 0)
        stored = replace(disk.stored(), is_volatile=self.is_volatile)
        member = self.members[name] = Member(stored, machine, draw, wanted=wanted)
        self.alive.add(member)
        self.figures["regressed"] += not member.ballot.is_whole
        self.carry(member, member.start(self.moment(name)))
        self.after(self.random.uniform(0, TICK_MS), self.tick, member)

    def is_alive(self, member):
        return member in self.alive

    def feed(self, member, call, *arguments):
        """Give a member an input, after its pause if there is one."""
        if not self.is_alive(member):
            return
        if self.paused and (wait := self.paused.get(member.id.name, 0) - self.now) > 0:
            self.after(wait, self.feed, member, call, *arguments)
            return
        result = call(*arguments)
        self.carry(member, result[1] if isinstance(result, tuple) else result)
        if self.joins_turns and self.is_alive(member) and member.has_word:
            self.after(self.random.uniform(0, TURN_MS), self.feed, member, member.settle)
        elif self.is_alive(member):
            self.carry(member, member.settle())

    def tick(self, member):
        """Let a member's tick pass; those of a pause are left out, as all count as one."""
        if not self.is_alive(member):
            return
        name = member.id.name
        self.after(TICK_MS / self.rates[name], self.tick, member)
        if self.paused.get(name, 0) > self.now:
            return
        self.feed(member, member.tick, self.moment(name))
        if self.random.random() < 0.05:
            self.checkpoint(member)
        if self.random.random() < 0.02:
            self.disks[name].keep_copy()
        if member.role is Role.LEADER and not self.is_healed and self.random.random() < 0.02:
            self.write_alone(member, self.random.randint(1, 10))

    def checkpoint(self, member):
        """Write the machine's rows, and have the journal begin later."""
        index = member.state.commit
        if index > member.journal.durable or not self.is_alive(member):
            return
        floor = member.compact(index - self.random.randint(0, 8))
        disk, journal = self.disks[member.id.name], member.journal
        if floor < disk.file.floor.index:
            return
        voters, dismissed = journal.voters.at(floor)
        disk.file = disk.file._replace(
            floor=journal.floor,
            voters=voters,
            dismissed=dismissed,
            entries=disk.file.entries[floor - disk.file.floor.index :],
            applied=index,
            parts=tuple(member.state.machine.freeze()),
        )

    def write_alone(self, member, count):
        for _ in range(count):
            if member.leading is not None:
                self.feed(member, member.propose, None, Noop())

    # -- what members do -------------------------------------------------------------------------

    def carry(self, member, effects):
        for effect in effects:
            if self.is_alive(member):
                self._carry(member, effect)

    def _carry(self, member, effect):
        name = member.id.name
        match effect:
            case Send(to=to, message=message):
                self.send(name, to.name, self.deliver, member.id, to, message)
            case Broadcast(message=message):
                for to, other in self.members.items():
                    if other is not member:
                        self.send(name, to, self.deliver, member.id, other.id, message)
            case Replied() | Failed() | Readable():
                if effect.caller is not None:
                    client, _, key = effect.caller
                    values = member.state.machine.state.lists.get(key, ())
                    self.send(name, client, self.clients[client].hear, name, effect, values)
            case _:
                self.witness.see(member, effect)
                self._write(member, effect, self.disks[name])

    def _write(self, member, effect, disk):
        match effect:
            case Persist():
                assert not self.is_volatile, effect
                self.writes[member] = effect
                self.after(self.fsync_ms(), self.persisted, member, effect)
                if effect.keep < disk.file.end.index:
                    self.truncated(member.id.name)
            case SavePromises():
                self.after(self.fsync_ms(), self.saved, member, effect)
            case WriteMark():
                disk.write_mark(effect)
                disk.truth = effect.mark
            case SyncMarks():
                self.after(self.fsync_ms(), self.synced, member, effect, list(disk.slots))

    def fsync_ms(self):
        is_quick = self.random.random() < 0.97
        return self.random.uniform(0.3, 3) if is_quick else self.random.uniform(10, 400)

    def persisted(self, member, effect):
        if not self.is_alive(member):
            return
        if member.id.name in self.full:
            self.after(50, self.persisted, member, effect)
            return
        disk = self.disks[member.id.name]
        disk.file = disk.file.persist(effect)
        self.writes.pop(member, None)
        self.feed(member, member.persisted, effect.token)

    def saved(self, member, effect):
        if self.is_alive(member):
            self.disks[member.id.name].promises = effect.promises
            self.feed(member, member.promises_saved, effect.token)

    def synced(self, member, effect, slots):
        if self.is_alive(member):
            disk = self.disks[member.id.name]
            for number, slot in enumerate(slots):
                if disk.slots[number] == slot:
                    disk.synced_slots[number] = slot
            self.feed(member, member.marks_synced, effect.number)

    # -- links -----------------------------------------------------------------------------------

    def send(self, source, to, call, *arguments):
        random = self.random
        self.figures["messages"] += 1
        if self.cuts and frozenset((source, to)) in self.cuts:
            return
        if not self.is_bad:
            is_quick = random.random() < 0.98
            delay = random.uniform(0.05, 0.4) if is_quick else random.uniform(0.4, 20)
            self.after(delay, call, *arguments)
        elif random.random() >= 0.05:
            for _ in range(1 + (random.random() < 0.05)):
                is_quick = random.random() < 0.8
                delay = random.uniform(0.1, 5) if is_quick else random.uniform(5, 400)
                self.after(delay, call, *arguments)

    def deliver(self, sender, to, message):
        member = self.members.get(to.name)
        if member is not None and member.id == to:
            self.feed(member, member.receive, sender, message)

    def propose(self, name, caller, request):
        if (member := self.members.get(name)) is not None:
            self.feed(member, member.propose, caller, request)

    def read(self, name, caller):
        if (member := self.members.get(name)) is not None:
            self.feed(member, member.read, caller)

    # -- faults ----------------------------------------------------------------------------------

    def fault(self):
        if self.is_healed:
            return
        random = self.random
        self.figures["faults"] += 1
        self.after(random.uniform(50, 900), self.fault)
        leader = self.leader()
        name = leader or random.choice(self.names)
        if random.random() < 0.6:
            name = random.choice(self.names)
        if leader and not self.in_memory and not self.cuts and random.random() < 0.12:
            self.diverge(leader)
            return
        faults = (
            (0.25, self.stop_and_start),
            (0.33, self.cut_power),
            (0.45, self.lose_disk),
            (0.75, self.cut_links),
            (0.85, self.pause),
            (0.92, self.spoil_links),
            (0.96, self.fill_disk),
            (1.00, self.hand_over),
        )
        drawn = random.random()
        next(fault for limit, fault in faults if drawn < limit)(name)

    def leader(self):
        roles = ((name, member.role) for name, member in self.members.items())
        return next((name for name, role in roles if role is Role.LEADER), None)

    def crash(self, name, *, is_power_cut=False):
        member = self.members.pop(name, None)
        if member is None:
            return
        self.alive.remove(member)
        disk = self.disks[name]
        if is_power_cut:
            disk.power_cut(self.random)
        write = self.writes.pop(member, None)
        if write is not None and name not in self.full and self.random.random() < 0.3:
            disk.file = disk.file.persist(write)  # it was done, and the word of it was lost
        if self.in_memory:
            self.wipe(name)
        if not is_power_cut and self.random.random() < 0.7:
            for other in list(self.members.values()):
                delay = self.random.uniform(0.2, 3)
                self.after(delay, self.feed, other, other.unreachable, member.id)

    def restart_later(self, name, least_ms=20, most_ms=2500):
        self.after(self.random.uniform(least_ms, most_ms), self.start, name)

    def wipe(self, name):
        self.figures["wiped"] += 1
        voters = self.witness.config[1]
        if self.keeps_identity:
            self.disks[name] = Disk(self.disks[name].member, empty_file(voters))
            return
        self.lives[name] += 1
        self.disks[name] = Disk(MemberId(name, self.lives[name]), empty_file())

    def stop_and_start(self, name):
        if not self.in_memory or self.may_forget(name):
            self.crash(name)
            self.restart_later(name)

    def cut_power(self, name):
        if self.in_memory:
            return
        for each in self.random.sample(self.names, self.random.randint(1, len(self.names))):
            self.crash(each, is_power_cut=True)
            self.restart_later(each)

    def lose_disk(self, name):
        if not self.may_forget(name):
            return
        self.crash(name)
        disk, drawn = self.disks[name], self.random.random()
        if drawn < 0.5:
            self.restore(name)
        elif drawn < 0.8:
            self.shorten(disk)
        elif not self.in_memory:
            self.wipe(name)
        self.restart_later(name)

    def shorten(self, disk):
        room = disk.file.end.index - disk.file.applied
        if room and disk.mark == disk.truth:
            count = self.random.randint(1, min(12, room))
            disk.file = disk.file._replace(entries=disk.file.entries[:-count])
            self.figures["shortened"] += 1

    def restore(self, name):
        """Have an older file come back; the ballot beside it stays."""
        disk = self.disks[name]
        # One that is old already would not be noticed any more without the marks.
        if self.random.random() < 0.3 and not disk.is_regressed:
            disk.power_cut(self.random)
        copies = disk.copies
        if disk.mark != disk.truth:
            copies = [each for each in copies if self.is_noticeable(disk, each)]
        if copies:
            longest = max(copies, key=lambda file: file.end.index)
            disk.file = longest if self.random.random() < 0.6 else self.random.choice(copies)
            self.figures["restored"] += 1

    @staticmethod
    def is_noticeable(disk, file):
        """Leave out what unsynced marks do not show: old files beside marks that are lost."""
        return disk.mark is None or file.end.term < disk.truth.term or file.end < disk.mark

    def truncated(self, name):
        """Have the tail that was cut come back, as a trap for marks without a term."""
        disk = self.disks[name]
        disk.keep_copy()
        if self.random.random() < (0.9 if name == self.diverged else 0.3):
            self.after(self.random.uniform(5, 400), self.swap, name)

    def swap(self, name):
        is_idle = name not in self.members or self.is_healed or self.in_memory
        if is_idle or not self.may_forget(name):
            return
        self.crash(name)
        self.restore(name)
        self.restart_later(name, 5, 200)
        leader = self.leader()
        if leader and self.random.random() < 0.7:
            self.crash(leader)
            self.restart_later(leader, 500, 3000)
            self.cuts = set()

    def cut_links(self, name):
        if self.cuts:
            return  # let it last: elections take a second
        random = self.random
        ends = [*self.names, *range(CLIENTS)]
        if random.random() < 0.6:
            side = {end: random.random() < 0.5 for end in ends}
            pairs = ((a, b) for a in ends for b in ends if side[a] != side[b])
        else:
            pairs = ((a, b) for a in self.names for b in self.names if random.random() < 0.2)
        self.cuts = {frozenset(pair) for pair in pairs}
        self.after(random.uniform(500, 5000), self.mend_links)

    def mend_links(self):
        self.cuts = set()

    def diverge(self, name):
        """Have a leader write a long tail alone, and come back while another one is away."""
        ends = [*self.names, *range(CLIENTS)]
        self.cuts = {frozenset((name, end)) for end in ends if end != name}
        self.write_alone(self.members[name], self.random.randint(20, 300))
        self.diverged = name
        away = self.random.choice([each for each in self.names if each != name])
        self.after(self.random.uniform(1300, 3500), self.come_back, away)

    def come_back(self, away):
        if not self.is_healed:
            ends = [*self.names, *range(CLIENTS)]
            self.cuts = {frozenset((away, end)) for end in ends if end != away}
            self.after(self.random.uniform(100, 1500), self.mend_links)

    def pause(self, name):
        self.paused[name] = self.now + self.random.uniform(50, 5000)

    def spoil_links(self, name):
        self.is_bad = not self.is_bad

    def fill_disk(self, name):
        self.full.add(name)
        self.after(self.random.uniform(100, 3000), self.full.discard, name)

    def hand_over(self, name):
        leader = self.members.get(self.leader())
        if leader is not None:
            self.figures["transfers"] += 1
            to = self.random.choice(leader.journal.voters.current)
            self.feed(leader, leader.transfer, to)

    # -- amnesia that a group survives -----------------------------------------------------------

    def may_forget(self, name):
        """Tell whether a majority of every configuration would still know what it promised.

        One that a leader is asked for is among them: who answered for it may not forget any more.
        """
        configs = {self.witness.config[1], *filter(None, self.asked.values())}
        configs |= {member.journal.voters.current for member in self.members.values()}
        for disk in self.disks.values():
            entries = disk.file.entries
            configs |= {each.voters for each in entries if isinstance(each, VotersEntry)}
            configs.add(disk.file.voters)
        return all(self._survives(config, name) for config in configs if config)

    def _survives(self, config, name=None):
        bad = [each for each in config if each.name == name or self.is_amnesic(each)]
        return len(bad) <= (len(config) - 1) // 2

    def is_amnesic(self, member):
        disk = self.disks[member.name]
        return disk.member != member or disk.is_regressed

    # -- members come and go ---------------------------------------------------------------------

    def change_voters(self):
        """Replace dead lives, keep the wanted number, and now and then change for nothing."""
        self.after(150, self.change_voters)
        for member in list(self.members.values()):
            is_awake = self.paused.get(member.id.name, 0) <= self.now
            if member.role is Role.LEADER and is_awake and self.is_alive(member):
                voters = self.asked.get(member.id) or self._wanted(member.journal.voters.current)
                if voters is not None:
                    refusal, effects = member.change(voters)
                    is_asked_again = refusal is ChangeRefusal.UNCONFIRMED
                    self.asked[member.id] = voters if is_asked_again else None
                    self.figures["changes"] += refusal is None
                    if refusal is None:
                        index = member.journal.voters.changed_at
                        self.witness.wished.add((member.journal.term_at(index), index))
                    self.carry(member, effects)

    def _wanted(self, voters):
        random = self.random
        if self.fills_up and random.random() < 0.8:
            return None
        dead = [each for each in voters if self.disks[each.name].member != each]
        lives = [member.id for member in self.members.values() if member.id not in voters]
        grown = (*voters, random.choice(lives)) if lives else None
        if dead:
            return tuple(each for each in voters if each != dead[0])
        if len(voters) < self.target:
            return grown
        if self.is_healed or random.random() >= 0.2:
            return None
        if len(voters) > self.target or random.random() < 0.5:
            gone = random.choice(voters)
            return tuple(each for each in voters if each != gone) if len(voters) > 3 else None
        return grown

    # -- a whole run -----------------------------------------------------------------------------

    def whole(self):
        self.after(1500, self.fault)
        self.after(1000, self.change_voters)
        self.run(STORM_MS)
        self.is_healed, self.cuts, self.is_bad, self.paused = True, set(), False, {}
        self.full.clear()
        for name in self.names:
            self.start(name)
        self.run(STORM_MS + HEALING_MS - 4000)
        for client in self.clients:
            client.is_stopping = True
        self.run(STORM_MS + HEALING_MS)
        # The entry of a moment ago may be on its way still, such as one of the time.
        while len(self.commits()) > 1 and self.now < STORM_MS + HEALING_MS + LEVEL_MS:
            self.run(self.now + TICK_MS)
        self.check()

    def commits(self):
        return {member.state.commit for member in self.members.values()}

    def check(self):
        for client in self.clients:
            if client.begun is not None:
                raise Violation(f"liveness: {client.what} waits since {client.begun:.0f} ms")
        members = list(self.members.values())
        check_healed(members)
        check_history(self.operations, members[0].state.machine.state.lists)
        self.figures["elections"] = self.witness.elections
        self.figures["operations"] = len(self.operations)


def run_seed(seed, world_type=World):
    """Run one world; gives what was violated, or ``None``, and figures."""
    world = world_type(seed)
    try:
        world.whole()
    except (Violation, AssertionError) as error:
        return f"{type(error).__name__}: {error}", world.figures
    return None, world.figures
