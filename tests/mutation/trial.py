"""``python -m tests.mutation.trial PLAN``: try mutants in a tree whose files have them.

pytest collects the tests once. First each test runs without a mutant, to see which functions it
reaches and what it costs. Then each mutant has a process forked for it, in which the tests that
reach its function run until one fails: first those that noticed other mutants of that function,
then the cheap ones. Each result is a line of the journal at once.
"""

from __future__ import annotations

import gc
import json
import linecache
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

import pytest

from peermesh.testing.time_limits import limit
from tests.mutation import registry

CPU_SECONDS_MIN: Final = 2
"""A mutant may take that, and five times what its tests take without it: then it hangs."""
WALL_FACTOR: Final = 10
"""How many times longer than its CPU seconds a mutant may last, and more on a slow machine."""
MEMORY_MAX: Final = 4 << 30
"""Bytes of addresses, at which a mutant that fills the memory fails."""


class Plan(TypedDict):
    """What is tried, and with which tests."""

    mutants: dict[str, str]
    """What names each in the journal, by mutmut's name."""
    tests: list[str]
    left_out: list[str]
    journal: str
    workers: int


class Cost(NamedTuple):
    """What a test without a mutant reaches, and how many seconds it takes."""

    seconds: float
    functions: frozenset[str]


class Child(NamedTuple):
    """A process that tries a mutant."""

    pid: int
    mutant: str
    deadline: float


@dataclass(eq=False)  # pytest has plugins in sets
class Trial:
    """A plugin of pytest that tries mutants in place of running the tests."""

    plan: Plan
    failed: str | None = None
    """The test that failed in this process."""
    children: dict[int, Child] = field(default_factory=dict)
    """By the pipe that a child answers to."""
    noticed: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By function, how many mutants of it each test noticed."""

    def pytest_sessionstart(self) -> None:
        """Have Hypothesis draw the same examples each time, and make none smaller."""
        from hypothesis import Phase, settings  # its own plugin of pytest has to come first

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", phases=phases, derandomize=True, database=None)
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See which test failed."""
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all mutants of the plan."""
        if session.testsfailed:
            raise session.Failed("the tests cannot be collected")
        pid, pipe = fork(lambda: self.measure(session.items))
        costs = pickle.loads(read(pipe))
        os.waitpid(pid, 0)
        if isinstance(costs, str):
            raise session.Failed(f"{costs} fails without a mutant")
        items = {item.nodeid: item for item in session.items}
        warm_up()
        for mutant in self.plan["mutants"]:
            function = stem_of(mutant)
            noticed = self.noticed[function]
            reaching = [test for test, cost in costs.items() if function in cost.functions]
            if not reaching:
                self.write(mutant, "no tests")
                continue
            reaching.sort(key=lambda test: (-noticed[test], costs[test].seconds))
            seconds = CPU_SECONDS_MIN + 5 * sum(costs[test].seconds for test in reaching)
            while len(self.children) >= self.plan["workers"]:
                self.hear()
            self.start(mutant, [items[test] for test in reaching], int(seconds))
        while self.children:
            self.hear()
        return True

    def measure(self, items: Sequence[pytest.Item]) -> bytes:
        """Run each test; gives what they cost, or the one that fails, for another process."""
        stems = {function: stem_of(name) for name, function in registry.functions().items()}
        watch = registry.Watch()
        costs: dict[str, Cost] = {}
        for item, following in zip_longest(items, items[1:]):
            begun = time.process_time()
            run(item, following)
            if self.failed:
                return pickle.dumps(self.failed)
            seconds = time.process_time() - begun
            costs[item.nodeid] = Cost(seconds, frozenset(stems[each] for each in watch.look()))
        return pickle.dumps(costs)

    def start(self, mutant: str, items: Sequence[pytest.Item], seconds: int) -> None:
        """Fork a process in which a mutant is in its function's place."""

        def first_failure() -> bytes:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
            registry.replace(mutant)
            for item, following in zip_longest(items, items[1:]):
                run(item, following)
                if self.failed:
                    return f"killed {self.failed}".encode()
            return b"survived"

        # It measures the machine now and then: here, and not in each process.
        deadline = time.monotonic() + limit(WALL_FACTOR * seconds)
        pid, pipe = fork(first_failure)
        self.children[pipe] = Child(pid, mutant, deadline)

    def hear(self) -> None:
        """Write what became of a mutant; end those that hang."""
        ready, _, _ = select.select(list(self.children), [], [], 1.0)
        for pipe, child in list(self.children.items()):
            if time.monotonic() > child.deadline:
                os.kill(child.pid, signal.SIGKILL)
            elif pipe not in ready:
                continue
            word, _, test = read(pipe).decode().partition(" ")
            _, status = os.waitpid(child.pid, 0)
            del self.children[pipe]
            by_limit = os.WIFSIGNALED(status) and os.WTERMSIG(status) in BY_LIMIT
            self.write(child.mutant, word or ("limit" if by_limit else "killed"), test)

    def write(self, mutant: str, status: str, test: str = "") -> None:
        """Add a line to the journal."""
        if test:
            self.noticed[stem_of(mutant)][test] += 1
        with Path(self.plan["journal"]).open("a", encoding="utf-8") as file:
            entry = {"digest": self.plan["mutants"][mutant], "mutant": mutant}
            file.write(json.dumps(entry | {"status": status, "test": test}) + "\n")


BY_LIMIT: Final = {signal.SIGXCPU, signal.SIGKILL}


def stem_of(mutant: str) -> str:
    """Give what the names of all mutants of a function have in common."""
    return mutant.rpartition("__mutmut_")[0]


def fork(work: Callable[[], bytes]) -> tuple[int, int]:
    """Do some work in a process of its own; gives its id, and the pipe that has the result."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return pid, read_end
    os.close(read_end)
    try:
        with os.fdopen(write_end, "wb") as file:
            file.write(work())
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(0)


def warm_up() -> None:
    """Do once what each forked process would do again."""
    for module in list(sys.modules.values()):
        linecache.getlines(getattr(module, "__file__", None) or "")  # for tracebacks
    gc.freeze()


def read(pipe: int) -> bytes:
    """Read all from a pipe, and close it."""
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def run(item: pytest.Item, following: pytest.Item | None) -> None:
    """Run a test as pytest does, and tear down what the following one does not need."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def main(path: str) -> int:
    """Try what the plan says; gives pytest's code."""
    plan: Plan = json.loads(Path(path).read_text("utf-8"))
    left_out = [f"--deselect={each}" for each in plan["left_out"]]
    # A failure counts, and not what it says, which takes longer than most tests.
    arguments = ["-q", "--tb=native", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return pytest.main([*arguments, *left_out, *plan["tests"]], [Trial(plan)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
