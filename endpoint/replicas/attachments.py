"""Attaches replicas of stores or logs: in a group that elects, or alone with copies; and proxies.

Imported when the first one is attached.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import LEADER_SECONDS, Backend, Patience
from endpoint.replicas.disk import reading
from endpoint.replicas.guarding import GroupGuarding, Guarded, check_own_rights
from endpoint.replicas.making import Making
from endpoint.replicas.options import no_option_in_memory, refuse_own_limits
from endpoint.replicas.part import CoreT, Single
from endpoint.replicas.parts import Core, Keeps, Kind, NamedTopics, Part, topics_of
from endpoint.replicas.proxying import AnswerT, CoreT as ProxyT, ProxyPart
from endpoint.replicas.runner import Host, Runner
from endpoint.shielding import shielded
from endpoint.surroundings import Surroundings
from endpoint.tasks import FINISH_SECONDS
from stores.disk.founding import Founding
from stores.group.ballot import NEW_SLOTS, new_promises
from stores.group.codec import GroupCodec
from stores.group.entries import latest_voters
from stores.group.limits import CATCH_UP_RUN
from stores.group.member_parts import Stored
from stores.group.membership import Declared
from stores.group.positions import START, Voters
from stores.group.rights import RightOf
from stores.group.words import Aim
from stores.replica.asked.outbox import Words
from stores.replica.beginning import Beginning, Manner, Opened, World
from stores.replica.facts import ReplicaMachine
from stores.replica.roster import Roster
from stores.replica.write_queue import Keeper
from wire.errors import BackendFailure, MasterExists, NoSuchMaster, StoreError
from wire.identifiers import EndpointId, EntityId

MachineT = TypeVar("MachineT", bound=ReplicaMachine)
FilesT = TypeVar("FilesT", bound="Files")
PartT = TypeVar("PartT", bound="ReplicaPart")


class Files(Keeps, Protocol):
    """The files of a durable replica; see ``MemberFiles``."""

    path: str

    def load(
        self,
        founding: Founding,
        *,
        is_learner: bool = False,
        is_fresh: bool = False,
        is_founder: bool = False,
    ) -> Opened:
        """Open or create both files."""


class _Core(Core, Guarded, Protocol):
    """What is driven, and guarded."""


class NewPart(Part, Protocol):
    """What is given its runner here."""

    runner: Runner

    @property
    def core(self) -> _Core:
        """What decides."""


class ReplicaPart(NewPart, Protocol):
    """The part of a replica; see ``GroupPart``."""

    async def await_lead(self, seconds: float) -> None:
        """Wait until what leads alone here can be used."""


@dataclass(frozen=True, slots=True)
class WantedReplica:
    """Which replica is to be here."""

    name: str
    own_name: str
    """Of the member that is here, if it has no file that knows it by another one."""
    backend: Backend
    options: dict[str, object]
    """Those of the backend."""
    check: Callable[[], None]
    """Raises what is in the way; asked again when the file is read."""
    manner: Callable[[], Manner]
    """Gives how it comes to its group; asked when the file is read."""
    declared: Declared | None = None
    """``None`` if it is the only voter."""
    partitions: int | None = None
    """Of a new log; ``None`` for one."""
    is_learner: bool = False
    is_fresh: bool = False
    """True if it leads with what is here, whatever others have."""
    patience: Patience | None = None
    """Of one that leads alone, or of a copy; ``None`` in a group that elects."""

    @property
    def leads_alone(self) -> bool:
        """True for what leads alone."""
        return self.declared is None

    @property
    def is_founder(self) -> bool:
        """True for the voter that founds its group, where there is none."""
        return self.declared is not None and self.declared.founds(self.own_name)


@dataclass(frozen=True, slots=True)
class Machinery(Generic[CoreT, MachineT]):
    """What stores and logs differ in, as far as it takes no more than a name or a class."""

    kind: Kind
    words: Words
    """What leads alone is called, and a copy."""
    attach: str
    """How a replica of a group is attached."""
    advice: str
    """What is to be done with the file of one, in one piece: commands say it in their own words."""
    first_object: int
    """Entities are numbered from it on."""
    usual: Patience
    """That of a copy of which nothing else is said."""
    right_of: RightOf
    """Gives the right that a request takes."""
    new_codec: Callable[[], GroupCodec]
    new_core: Callable[[EntityId, Roster, MachineT, GroupCodec, Beginning, World], CoreT]
    new_keeper: Callable[[MachineT, int], Keeper]
    """Makes what has a file follow a machine; it has the state at an index."""


class Attachments(ABC, Generic[CoreT, MachineT, FilesT, PartT]):
    """The stores of one endpoint, or its logs."""

    machinery: Machinery[CoreT, MachineT]

    def __init__(self, host: Host, around: Surroundings, own_name: str) -> None:
        """Attach to ``host``. ``own_name`` is the endpoint's, empty if it was given none."""
        self._host = host
        self._kind, self._words = self.machinery.kind, self.machinery.words
        self._around = around
        self._own_name = own_name
        self._making = Making(host, around, own_name)
        self._object = self.machinery.first_object

    # -- the kind's own --------------------------------------------------------------------------

    @abstractmethod
    def _machine(self, name: str, partitions: int | None) -> MachineT:
        """Make an empty machine."""

    @abstractmethod
    def _new_part(
        self, name: str, core: CoreT, files: FilesT | None, single: Single[CoreT] | None
    ) -> PartT:
        """Make the part of a replica."""

    @abstractmethod
    def _files(self, name: str, options: dict[str, object], *, is_renamed: bool) -> FilesT:
        """Give the files of a durable replica, which are not open yet."""

    @abstractmethod
    def _install(self, machine: MachineT, opened: Opened) -> None:
        """Put the machine together that files have, in a thread: a million entries take a second.

        The first checkpoint then finds the records of all writers encoded.
        """

    @abstractmethod
    def has_group(self, name: str) -> bool:
        """Tell whether a replica group with several voters keeps it."""

    def _users(self, topics: NamedTopics) -> tuple[str, ...]:
        """Name what is heard where this endpoint has a handle that no replica goes beside."""
        return (topics.group,)

    def _is_learners(self, stored: Stored, voters: Voters) -> bool:
        """Tell whether a file is a learner's, and of no copy of what leads alone."""
        return False

    def _check_file(self, wanted: WantedReplica, path: str, stored: Stored) -> None:
        """Raise ``BackendFailure`` for a file of another role.

        What led alone with the file of a group would take the lead by force: the other voters would
        follow it when they meet, and lose what they have acknowledged meanwhile.
        """
        voters = latest_voters(stored.voters, stored.entries)
        if wanted.leads_alone and (len(voters) > 1 or self._is_learners(stored, voters)):
            names = ", ".join(sorted(voter.name for voter in voters))
            raise BackendFailure(
                f"{path} is of a group whose voters are {names}: {self.machinery.advice}."
                " If the others are gone for good, promote(force=True) leads with what it has"
            )

    # -- replicas --------------------------------------------------------------------------------

    async def _attach(self, wanted: WantedReplica) -> PartT:
        """Start what is wanted; raises ``BackendFailure``, and what its check raises."""
        wanted.check()
        if wanted.backend is Backend.Memory:
            return self._run(wanted, self._in_memory(wanted), None)
        is_renamed = wanted.patience is not None
        files = self._files(wanted.name, wanted.options, is_renamed=is_renamed)
        machine = self._machine(wanted.name, wanted.partitions)
        founding = self._making.founding(wanted.own_name)

        def restore() -> Opened:
            opened = files.load(
                founding,
                is_learner=wanted.is_learner,
                is_fresh=wanted.is_fresh,
                is_founder=wanted.is_founder,
            )
            self._install(machine, opened)
            return opened

        async with reading(restore, files.close) as load:
            opened = await load()
            wanted.check()
            if not (wanted.is_fresh and opened.has_lost_ballot):
                self._check_file(wanted, files.path, opened.beginning.stored)
            core = self._core(wanted, machine, opened.beginning)
            applied = opened.beginning.stored.applied
            core.carrier.keeper = self.machinery.new_keeper(machine, applied)
            part = self._run(wanted, core, files)
            part.runner.tell_exposed(opened.exposed)
            part.runner.tell_damaged(opened.damaged)
            if opened.aside is not None:
                text = f"a file of an earlier release is kept as {opened.aside}"
                part.runner.tell_status(StatusCode.STORE_CONFLICT, core.entity, text)
            return part

    def _in_memory(self, wanted: WantedReplica) -> CoreT:
        for option in wanted.options:
            raise no_option_in_memory(self._kind, wanted.name, option)
        promises = new_promises(self._making.new_member(wanted.own_name))
        stored = Stored(promises, NEW_SLOTS, START, (), (), 0, is_volatile=True)
        machine = self._machine(wanted.name, wanted.partitions)
        return self._core(wanted, machine, Beginning(stored, None))

    def _core(self, wanted: WantedReplica, machine: MachineT, beginning: Beginning) -> CoreT:
        own, entity = beginning.stored.promises.member, self._entity()
        declared = wanted.declared or Declared((own.name,))
        roster = Roster(own, entity.endpoint, declared.names, declared.count)
        beginning = replace(beginning, manner=wanted.manner())
        codec, world = self.machinery.new_codec(), self._making.world(wanted.name)
        return self.machinery.new_core(entity, roster, machine, codec, beginning, world)

    def _run(self, wanted: WantedReplica, core: CoreT, files: FilesT | None) -> PartT:
        """Have a replica work."""
        single = None
        if wanted.patience is not None:
            make_copy = partial(self._usual_copy, wanted.name)
            single = Single(make_copy, wanted.patience, is_master=wanted.leads_alone)
        part = self._new_part(wanted.name, core, files, single)
        self._start(wanted.name, part)
        part.runner.carry_out(core.start())
        return part

    def _start(self, name: str, part: NewPart) -> None:
        guarding = GroupGuarding(self._host.core, name, part, self.machinery.right_of)
        part.runner = Runner(self._host, part, guarding, name=name, now_ns=self._around.now_ns)
        part.runner.start()

    async def replica(
        self,
        name: str,
        declared: Declared,
        backend: Backend,
        options: dict[str, object],
        seconds: float,
        partitions: int | None = None,
    ) -> PartT:
        """Start a replica of a group that elects, which waits for an answer for ``seconds``.

        Raises ``InvalidData``, ``MasterExists`` and ``BackendFailure``.
        """
        refuse_own_limits(self._kind, name, options)
        own_name = self._making.check_names(self._kind, name, declared)
        is_learner = not declared.wanted.wants(own_name)
        self._check_right(name, "read" if is_learner else "vote")
        wanted = WantedReplica(
            name=name,
            own_name=own_name,
            backend=backend,
            options=options,
            check=partial(self._check_free, name),
            manner=partial(Manner, Patience(seconds).ticks, is_founder=declared.is_founder),
            declared=declared,
            partitions=partitions,
            is_learner=is_learner,
        )
        return await self._attach(wanted)

    async def leader(
        self,
        name: str,
        backend: Backend,
        options: dict[str, object],
        partitions: int | None = None,
        *,
        is_fresh: bool,
    ) -> PartT:
        """Start what leads alone, with what it had in an earlier life, here or at its copies.

        Raises ``MasterExists``, ``BackendFailure``, ``ReplicaRegressed`` and ``StoreConflict``.
        """
        self._check_right(name, "lead")
        wanted = WantedReplica(
            name=name,
            own_name=self._given_name(),
            backend=backend,
            options=options,
            check=partial(self._check_lead, name),
            manner=partial(self._leading_manner, name, is_fresh=is_fresh),
            partitions=partitions,
            is_fresh=is_fresh,
            patience=self.machinery.usual,
        )
        part = await self._attach(wanted)
        try:
            await part.await_lead(LEADER_SECONDS)
        except BaseException:
            await self._abandon(part)
            raise
        return part

    async def copy(
        self, name: str, backend: Backend, options: dict[str, object], patience: Patience
    ) -> PartT:
        """Start a copy of what leads alone, whether that is known or not."""
        self._check_right(name, "read")
        return await self._attach(self._copy(name, backend, options, patience))

    def _copy(
        self, name: str, backend: Backend, options: dict[str, object], patience: Patience
    ) -> WantedReplica:
        manner = Manner(
            patience.ticks, is_single=True, ack_entries=CATCH_UP_RUN, stale_ns=patience.stale_ns
        )
        return WantedReplica(
            name=name,
            own_name=self._given_name(),
            backend=backend,
            options=options,
            check=partial(self._check_copy, name),
            manner=lambda: manner,
            declared=Declared(),
            is_learner=True,
            patience=patience,
        )

    def _usual_copy(self, name: str) -> CoreT:
        """Make what a deposed leader becomes."""
        return self._in_memory(self._copy(name, Backend.Memory, {}, self.machinery.usual))

    def _leading_manner(self, name: str, *, is_fresh: bool) -> Manner:
        """Have what leads ask the copies that are known, unless it begins anew."""
        if is_fresh:
            return Manner(is_single=True, aim=Aim.ANEW)
        copies = topics_of(self._kind, name).copy
        found = frozenset(where for where, _ in self._host.core.reach.find_stores((copies,)))
        return Manner(is_single=True, aim=Aim.CLAIM, announced=found)

    async def _abandon(self, part: PartT) -> None:
        """Close what cannot lead, even if the caller is cancelled."""
        with shielded(f"what should lead a {self._kind} to close", FINISH_SECONDS):
            await part.runner.leave()

    # -- proxies ---------------------------------------------------------------------------------

    def _run_proxy(self, name: str, part: ProxyPart[ProxyT, AnswerT]) -> None:
        """Have a proxy work, whether a leader of its group is known or not."""
        self._start(name, part)
        part.survey()
        part.runner.carry_out(part.core.start())

    def _replicas(self, name: str) -> list[EndpointId]:
        """Give the replicas that a proxy can ask, the nearest first."""
        group = topics_of(self._kind, name).group
        return [origin for origin, _ in self._host.core.reach.find_stores([group])]

    # -- what is in the way ----------------------------------------------------------------------

    def _check_right(self, name: str, *rights: str) -> None:
        check_own_rights(self._host.core, name, *rights)

    def _check_free(self, name: str) -> None:
        """Raise ``MasterExists`` where it is led alone, ``StoreError`` if it is in use here."""
        topics, leader = topics_of(self._kind, name), self._words.leader
        where = self._host.core.reach.find_store(topics.leader)
        if where is not None:
            raise MasterExists(
                f"{self._kind} {name} has its {leader} at endpoint {where}, and no group"
            )
        self._check_unused(name, self._users(topics))

    def _check_lead(self, name: str) -> None:
        """Raise ``MasterExists`` where it is led already, or is in use here."""
        topics = topics_of(self._kind, name)
        self._check_unused(name, self._users(topics)[1:])
        where = self._host.core.reach.find_store(topics.leader)
        if where is not None:
            raise MasterExists(
                f"{self._kind} {name} has its {self._words.leader} at endpoint {where}: attach a"
                " clone here, or close it"
            )
        self._check_no_group(name, MasterExists)
        if topics.group in self._host.stores:
            raise MasterExists(
                f"{self._kind} {name} has a {self._words.copy} at this endpoint: close it first"
            )

    def _check_copy(self, name: str) -> None:
        """Raise ``NoSuchMaster`` where a copy would follow nothing, ``StoreError`` if in use."""
        topics, leader = topics_of(self._kind, name), self._words.leader
        self._check_unused(name, self._users(topics)[1:])
        is_here = topics.group in self._host.stores
        if is_here and self._host.core.reach.find_store(topics.leader) == self._host.core.local:
            raise NoSuchMaster(
                f"{self._kind} {name} has its {leader} at this endpoint: use the {leader}'s handle,"
                " or attach the clone to another endpoint"
            )
        self._check_no_group(name, NoSuchMaster)
        if is_here:
            raise StoreError(
                f"{self._kind} {name} has a {self._words.copy} at this endpoint: use its handle"
            )

    def _check_unused(self, name: str, topics: tuple[str, ...]) -> None:
        if any(topic in self._host.stores for topic in topics):
            raise StoreError(f"{self._kind} {name} is in use at this endpoint: use that handle")

    def _check_no_group(self, name: str, error: type[StoreError]) -> None:
        if self.has_group(name):
            raise error(
                f"{self._kind} {name} is kept by a replica group: {self.machinery.attach} without"
                " voters follows it"
            )

    # -- names -----------------------------------------------------------------------------------

    def _given_name(self) -> str:
        """Give the endpoint's name; without one, the beginning of its id."""
        return self._own_name or str(self._host.core.local)[:8]

    def _entity(self) -> EntityId:
        """Name a new core."""
        self._object += 1
        return EntityId(self._host.core.local, self._object - 1)
