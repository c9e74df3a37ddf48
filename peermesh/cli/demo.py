"""``peermesh demo``: the main job, from its input to its verdict."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import click
import trio

from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.running import run
from peermesh.demo.errors import DemoError, InputError, RequirementError
from peermesh.demo.keys import label
from peermesh.demo.link import Message
from peermesh.demo.reading import read_lines
from peermesh.demo.recount import first_fields, recount
from peermesh.demo.stage import Plan, Stage, Verdict
from peermesh.demo.tally import Tally
from peermesh.demo.view import shorten
from peermesh.demo.words import TEXT_NAME, WORD_KEY, find_text, write_words
from peermesh.spark.java import spark_problem

DIFFERENCES_SHOWN_MAX: Final = 10
"""Keys that are shown where the table differs: enough to see what kind of keys they are."""

Result = TypeVar("Result")

HELP = f"""\
Count a file of events across a mesh of three processes, exactly, while one of them is killed.

A sensor publishes the events. A PySpark job takes them in batches, counts them by a field, and
writes counts and its checkpoint to a replicated store, in one atomic batch each. A viewer holds a
clone of the store and shows the table as it grows. Half-way the job is killed with SIGKILL and
started again. At the end the table on the clone is compared with a plain recount of the input.

Try it: kill any of the three yourself, with SIGKILL, at any time. Their process numbers are shown.

Without --input it counts the words of {TEXT_NAME}, which comes with pyspark.

It needs Java 17 or newer, and the extra "spark". It ends with code 0 only if nothing is lost and
nothing is double; see "peermesh --help" for the other codes.
"""


@click.command(help=HELP)
@click.option(
    "--input", "source", metavar="FILE", type=click.Path(path_type=Path),
    help="The events: a JSON object on each line, plain or gzip. Lines that are none are reported.",
)  # fmt: skip
@click.option(
    "--key", metavar="FIELD",
    help="The field to count by: its name, dots included, or else a path into nested objects."
    " Events without it are counted under a name of their own.",
)  # fmt: skip
@click.option(
    "--directory", metavar="DIR", type=click.Path(path_type=Path),
    help="Where logs and the store go, and stay: new, or empty. Otherwise a temporary directory is"
    " used, and kept only if something fails.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write what happens as JSON lines.")
def demo(source: Path | None, key: str | None, directory: Path | None, *, as_json: bool) -> None:
    """Run the demo."""
    if source is not None and key is None:
        fields = first_fields(source)
        raise CommandFailed(
            f"say which field to count by: --key FIELD; the first event has {fields}",
            ExitCode.USAGE,
        )
    if source is not None:
        next(read_lines(source), None)  # raises if it cannot be read, before anything else is done
    problem = spark_problem()
    if problem is not None:
        raise RequirementError(problem)
    with _working_directory(directory) as place:
        plan = Plan(
            source=(place / "words.json") if source is None else source.absolute(),
            key=WORD_KEY if key is None else key,
            directory=place,
            draws=not as_json,
        )
        name = TEXT_NAME if source is None else str(source)
        output = _Output(name, as_json=as_json)
        try:
            verdict = run(_perform, plan, source is None, output)
        finally:
            _show_cursor()
        output.conclude(verdict)
        if not verdict.is_exact:
            raise DemoError("the table on the clone differs from the recount")


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
        raise CommandFailed(f"{error}; logs and store are in {place}") from error
    finally:
        if not is_kept:
            shutil.rmtree(place, ignore_errors=True)


def _empty_directory(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise CommandFailed(f"{path} is not empty: name a new directory")
    except OSError as error:
        raise CommandFailed(f"cannot use {path}: {error.strerror}; name a new directory") from error
    return path.absolute()


async def _perform(plan: Plan, makes_words: bool, output: _Output) -> Verdict:  # noqa: FBT001 - trio.run takes no keywords
    if makes_words:
        await _in_thread(write_words, find_text(), plan.source)
    expected = await _in_thread(recount, plan.source, plan.key)
    output.begin(plan, expected)
    return await Stage(plan, expected, output.tell).perform()


async def _in_thread(function: Callable[..., Result], *arguments: object) -> Result:
    """Compute where Ctrl-C need not wait for it."""
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


class _Output:
    """Tells the user what happens: in words, where the viewer tells most of it, or as JSON."""

    def __init__(self, source: str, *, as_json: bool) -> None:
        """Tell of the input as ``source``."""
        self._source = source
        self._as_json = as_json

    def begin(self, plan: Plan, recount: Tally) -> None:
        """Tell what is counted."""
        self.tell(
            {
                "event": "begin",
                "input": self._source,
                "key": plan.key,
                "lines": recount.lines,
                "directory": str(plan.directory),
            }
        )
        if not self._as_json:
            click.echo(f"{self._source}: {recount.lines:,} lines, counted by {plan.key!r}")
            click.echo(f"logs and store: {plan.directory}")

    def tell(self, message: Message) -> None:
        """Tell one thing."""
        if self._as_json:
            click.echo(json.dumps(message, ensure_ascii=False))

    def conclude(self, verdict: Verdict) -> None:
        """Tell what came of it."""
        if self._as_json:
            self._conclude_json(verdict)
            return
        recount, checkpoint, table = verdict.recount, verdict.checkpoint, verdict.table
        if recount.bad:
            click.echo(f"{recount.bad:,} bad lines were skipped, the first of them:")
            for number, reason in recount.bad_lines:
                click.echo(f"  line {number}: {reason}")
        _say_total("recount", recount.lines, recount.bad, recount.counts)
        _say_total("clone", checkpoint.lines, checkpoint.bad, table)
        for key in verdict.difference.keys[:DIFFERENCES_SHOWN_MAX]:
            expected, found = recount.counts.get(key, 0), table.get(key, 0)
            click.echo(f"  {shorten(label(key))}: recount {expected:,}, clone {found:,}")
        difference = verdict.difference
        click.echo(
            f"{difference.lost:,} lost, {difference.double:,} double, {verdict.seconds:.1f} s"
        )

    def _conclude_json(self, verdict: Verdict) -> None:
        self.tell(
            {
                "event": "verdict",
                "is_exact": verdict.is_exact,
                "lost": verdict.difference.lost,
                "double": verdict.difference.double,
                "events": verdict.recount.events,
                "events_on_clone": sum(verdict.table.values()),
                "keys": len(verdict.recount.counts),
                "keys_on_clone": len(verdict.table),
                "bad": verdict.recount.bad,
                "bad_lines": verdict.recount.bad_lines,
                "seconds": round(verdict.seconds, 3),
            }
        )


def _say_total(who: str, lines: int, bad: int, counts: dict[bytes, int]) -> None:
    events = sum(counts.values())
    click.echo(
        f"{who + ':':8} {events:,} events under {len(counts):,} keys, {bad:,} bad lines,"
        f" {lines:,} lines"
    )
