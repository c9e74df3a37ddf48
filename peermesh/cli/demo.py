"""``peermesh demo``: the main job, from its input to its verdict."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import click
import trio

from handshake.private_files import make_directory, open_private
from peermesh.cli.command import Option, command
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.numbers import Seconds, Whole
from peermesh.cli.output import Output, say
from peermesh.cli.running import run
from peermesh.cli.trust import STDIN
from peermesh.demo.errors import DemoError, InputError, RequirementError
from peermesh.demo.keys import label
from peermesh.demo.link import Message
from peermesh.demo.picture import draw_run
from peermesh.demo.plan import (
    PACE_SECONDS,
    WINDOW_SECONDS,
    Input,
    Victim,
    does_fit,
    make_plan,
)
from peermesh.demo.reading import read_lines
from peermesh.demo.recount import first_fields, recount
from peermesh.demo.stage import Play, Stage
from peermesh.demo.tally import Cell, Summary, Tally
from peermesh.demo.times import to_datetime
from peermesh.demo.verdict import Verdict
from peermesh.demo.view import shorten
from peermesh.demo.words import TEXT_NAME, WORD_KEY, find_text, write_words
from peermesh.spark.java import spark_problem

DIFFERENCES_SHOWN_MAX: Final = 10
"""Cells that are shown where the table differs: enough to see what kind they are."""

COPIES_MAX: Final = 1_000
"""Replays: beyond, it is a test of patience."""

PICTURE: Final = "run.svg"
ALL: Final = "all"
NONE: Final = "none"

Result = TypeVar("Result")

HELP = f"""\
Count a file of events exactly, while the processes that count them are killed.

A sensor appends the events to a replicated log. A stateful query of Spark's Structured Streaming
counts them by a field and a window of time, with its checkpoint behind a WebHDFS gateway in a
replicated store, and writes the counts to another one. Log and stores are at three processes, which
elect a leader for each. A viewer holds replicas of the counts and of the log, and shows the table
as it grows. In the middle of some batches the log's leader, Spark's driver and the counts' leader
are killed with SIGKILL, one after the other. At the end the viewer's table is compared with a plain
recount of the input, window by window and key by key.

Try it: kill any of them yourself, with SIGKILL, at any time. Their process numbers are shown.

Without --input it counts the words of {TEXT_NAME}, which comes with pyspark.

It needs Java 17 or newer, and the extras "spark" and "http". It ends with code 0 only if nothing is
lost and nothing is double; see "peermesh --help" for the other codes.
"""


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What was asked for, as far as it is not about the input."""

    directory: Path | None
    picture: Path | None
    victims: tuple[Victim, ...]
    as_json: bool


@command(help=HELP)
@click.option(
    "--input", "source", metavar="FILE", type=click.Path(path_type=Path),
    help="The events: a JSON object on each line, plain or gzip; - reads stdin. Other lines are"
    " counted under a key of their own, and the first of them are written at the end.",
)  # fmt: skip
@click.option(
    "--key", metavar="FIELD",
    help="The field to count by: its name, dots included, or else a path into nested objects."
    " Events without it are counted under a name of their own.",
)  # fmt: skip
@click.option(
    "--time", "time", metavar="FIELD", default="ts", show_default=True,
    help="The field with the time of an event: ISO 8601, or seconds since 1970. An event without it"
    " has the time of the one before; where no event has it, there are 100 lines a second.",
)  # fmt: skip
@click.option(
    "--window", "window_seconds", metavar="SECONDS", type=Whole(1),
    default=WINDOW_SECONDS, show_default=True, help="The length of a window.",
)  # fmt: skip
@click.option(
    "--replay", "copies", metavar="TIMES", type=click.IntRange(1, COPIES_MAX), default=1,
    show_default=True, help="Replay the input so many times, each later than the one before.",
)  # fmt: skip
@click.option(
    "--pace", "pace_seconds", metavar="SECONDS", type=Seconds(),
    default=PACE_SECONDS, show_default=True,
    help="The least time in which the sensor appends all events.",
)  # fmt: skip
@click.option(
    "--kill", type=click.Choice([NONE, *(victim.value for victim in Victim), ALL]), default=ALL,
    show_default=True, help="The process to kill in the middle of a batch.",
)  # fmt: skip
@click.option(
    "--picture", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the picture of the run to FILE, as SVG; without, into --path, or else the directory"
    " for temporary files.",
)  # fmt: skip
@click.option(
    "--path", "directory", cls=Option, old=["--directory"], metavar="DIR",
    type=click.Path(path_type=Path),
    help="Keep logs and stores in DIR, which is new or empty. Without, they are in a temporary"
    " directory, which is removed at the end unless the demo fails.",
)  # fmt: skip
def demo(  # noqa: PLR0913 - one for each option
    source: Path | None,
    key: str | None,
    time: str,
    window_seconds: int,
    copies: int,
    pace_seconds: float,
    kill: str,
    picture: Path | None,
    directory: Path | None,
    output: Output,
) -> None:
    """Run the demo."""
    with ExitStack() as stack:
        shown = TEXT_NAME if source is None else str(source)
        if shown == STDIN:
            source, shown = stack.enter_context(_copy_of_stdin()), "stdin"
        _check_input(source, key)
        _check_requirements()
        _check_picture(picture)
        wishes = _Wishes(directory, picture, _victims(kill), output.as_json)
        place = stack.enter_context(_working_directory(directory))
        what = Input(
            source=str(place / "words.json" if source is None else source.absolute()),
            key=WORD_KEY if key is None else key,
            time=time,
            window_seconds=window_seconds,
            copies=copies,
            pace_seconds=pace_seconds,
        )
        teller = _Teller(shown, what, output)
        try:
            verdict, drawn = run(_perform, what, place, source is None, wishes, teller)
        finally:
            _show_cursor()
        teller.conclude(verdict, drawn)
        if not verdict.is_exact:
            raise DemoError("the table of the viewer differs from the recount")


@contextmanager
def _copy_of_stdin() -> Iterator[Path]:
    """Give a file with all of stdin: an input is read several times, by several processes."""
    with tempfile.NamedTemporaryFile(prefix="peermesh-stdin-") as file:
        if sys.stdin is not None:  # It was closed before the command was started.
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.flush()
        yield Path(file.name)


def _check_input(source: Path | None, key: str | None) -> None:
    """Raise what is wrong with the input at first sight, before anything else is done."""
    if source is not None and key is None:
        fields = first_fields(source)
        raise CommandFailed(
            f"say which field to count by: --key FIELD; the first event has {fields}",
            ExitCode.USAGE,
        )
    if source is not None:
        next(read_lines(source), None)


def _check_requirements() -> None:
    problem = spark_problem()
    if problem is not None:
        raise RequirementError(problem)
    if importlib.util.find_spec("h11") is None:
        raise RequirementError("the gateway needs HTTP: pip install 'peermesh[http]'")


def _victims(kill: str) -> tuple[Victim, ...]:
    if kill in {NONE, ALL}:
        return tuple(Victim) if kill == ALL else ()
    return (Victim(kill),)


def _show_cursor() -> None:
    """Make up for a viewer that was killed while it was drawing."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[?25h")
        sys.stdout.flush()


@contextmanager
def _working_directory(wanted: Path | None) -> Iterator[Path]:
    """Give an empty directory; one of our own making goes, unless the demo failed."""
    if wanted is not None:
        yield _empty_directory(wanted)
        return
    place = Path(tempfile.mkdtemp(prefix="peermesh-demo-"))
    is_kept = False
    try:
        yield place
    except (InputError, RequirementError):
        raise  # It did not begin: there is nothing to look at.
    except DemoError as error:
        is_kept = True
        raise CommandFailed(f"{error}; logs and stores are in {place}") from error
    finally:
        if not is_kept:
            shutil.rmtree(place, ignore_errors=True)


def _empty_directory(path: Path) -> Path:
    try:
        make_directory(path)
        if any(path.iterdir()):
            raise CommandFailed(f"{path} is not empty: name a new directory")
    except OSError as error:
        raise CommandFailed(f"cannot use {path}: {error.strerror}; name a new directory") from error
    return path.absolute()


async def _perform(
    what: Input,
    place: Path,
    makes_words: bool,  # noqa: FBT001 - trio.run takes no keywords
    wishes: _Wishes,
    teller: _Teller,
) -> tuple[Verdict, Path]:
    if makes_words:
        await _in_thread(write_words, find_text(), Path(what.source))
    tally: Tally = await _in_thread(recount, what.source, what.key, what.time, what.window_seconds)
    plan = make_plan(tally.lines, tally.lateness, what)
    if not does_fit(plan, tally.lateness, what.copies):
        raise InputError(f"{what.copies} replays end after the year 9999: give a smaller --replay")
    teller.begin(tally, place)
    play = Play(
        what=what, plan=plan, directory=place, victims=wishes.victims, draws=not wishes.as_json
    )
    stage = Stage(play, teller.tell)
    picture = place / PICTURE  # of a run that fails it is with the logs
    try:
        verdict = await stage.perform(tally.repeated(what.copies, plan.shift_seconds))
        picture = _picture_path(wishes)
    finally:
        with open_private(picture, "w") as file:
            file.write(draw_run(stage.record))
    return verdict, picture


def _picture_path(wishes: _Wishes) -> Path:
    """Say where the picture goes; it is to stay when a directory of our own making goes."""
    if wishes.picture is not None:
        return wishes.picture.absolute()
    if wishes.directory is not None:
        return wishes.directory.absolute() / PICTURE
    handle, name = tempfile.mkstemp(prefix="peermesh-demo-", suffix=".svg")
    os.close(handle)
    return Path(name)


def _check_picture(path: Path | None) -> None:
    """Raise now what would be a pity at the end."""
    try:
        if path is not None:
            open_private(path, "a").close()
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror}; name another file") from error


async def _in_thread(function: Callable[..., Result], *arguments: object) -> Result:
    """Compute where Ctrl-C need not wait for it."""
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


class _Teller:
    """Tells the user what happens: in words, where the viewer tells most of it, or as JSON."""

    def __init__(self, source: str, what: Input, output: Output) -> None:
        """Tell of the input as ``source``."""
        self._source = source
        self._what = what
        self._output = output
        self._bad_lines: list[tuple[int, str]] = []

    def begin(self, recount: Tally, place: Path) -> None:
        """Tell what is counted."""
        self._bad_lines = recount.bad_lines
        what = self._what
        self.tell(
            {
                "event": "begin",
                "input": self._source,
                "key": what.key,
                "window": what.window_seconds,
                "lines": recount.lines * what.copies,
                "directory": str(place),
            }
        )
        if not self._output.as_json:
            times = f", {what.copies} times" if what.copies > 1 else ""
            say(
                f"{self._source}: {recount.lines:,} lines{times}, counted by {what.key!r}"
                f" in windows of {what.window_seconds} s"
            )
            say(f"logs and stores: {place}")

    def tell(self, message: Message) -> None:
        """Tell one thing."""
        self._output.tell(None, **message)

    def conclude(self, verdict: Verdict, picture: Path) -> None:
        """Tell what came of it."""
        if self._output.as_json:
            self._conclude_json(verdict, picture)
            return
        recount, found = verdict.summaries()
        if recount.bad:
            say(f"{recount.bad:,} bad lines, counted as such, the first of them:")
            for number, reason in self._bad_lines:
                say(f"  line {number}: {reason}")
        _say_total("recount", recount)
        _say_total("replica", found)
        _say_differences(verdict)
        killed = ", ".join(f"{each.victim} ({each.seconds:.1f} s)" for each in verdict.outages)
        say(f"time from each kill to the next batch: {killed or 'nothing was killed'}")
        say(f"late events that Spark's watermark dropped: {verdict.late:,}")
        say(f"picture of the run: {picture}")
        difference = verdict.difference
        say(f"{difference.lost:,} lost, {difference.double:,} double, {verdict.seconds:.1f} s")

    def _conclude_json(self, verdict: Verdict, picture: Path) -> None:
        recount, found = verdict.summaries()
        self.tell(
            {
                "event": "verdict",
                "is_exact": verdict.is_exact,
                "lost": verdict.difference.lost,
                "double": verdict.difference.double,
                "events": recount.events,
                "events_in_replica": found.events,
                "keys": recount.keys,
                "keys_in_replica": found.keys,
                "windows": recount.windows,
                "windows_in_replica": found.windows,
                "lines_in_log": verdict.appended,
                "bad": recount.bad,
                "bad_lines": self._bad_lines,
                "killed": [each.victim for each in verdict.outages],
                "outages": [round(each.seconds, 3) for each in verdict.outages],
                "late": verdict.late,
                "picture": str(picture),
                "seconds": round(verdict.seconds, 3),
            }
        )


def _say_total(who: str, summary: Summary) -> None:
    say(
        f"{who + ':':8} {summary.events:,} events under {summary.keys:,} keys in"
        f" {summary.windows:,} windows, {summary.bad:,} bad lines"
    )


def _say_differences(verdict: Verdict) -> None:
    recount: Counter[Cell] = verdict.recount
    for cell in verdict.difference.cells[:DIFFERENCES_SHOWN_MAX]:
        window, key = cell
        when = to_datetime(window * 1_000_000).isoformat()
        expected, found = recount[cell], verdict.table.get(cell, 0)
        say(f"  {when} {shorten(label(key))}: recount {expected:,}, replica {found:,}")
