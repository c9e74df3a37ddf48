"""``peermesh spark``: what jobs of Spark have done, and what they do."""

from __future__ import annotations

from dataclasses import asdict, replace

import click

from peermesh import Missed
from peermesh.cli.arriving import join, open_copy
from peermesh.cli.command import Command, group
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Whole
from peermesh.cli.output import Output, say
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line
from peermesh.spark.progress import TOPIC, JobOverview, Overview, Progress, overview
from peermesh.spark.records import RESERVED


@group()
def spark() -> None:
    """See what jobs of Spark have done, and what they do.

    It needs no Spark itself: what jobs did is in the store of their ledger, and what they do is
    published by their MeshListener.
    """


@spark.command(cls=Command)
@click.argument("store")
@mesh_options(listens=False)
def jobs(store: str, mesh: Mesh, output: Output) -> None:
    """Write what STORE knows: jobs with their batches, units and lags, and sinks.

    Lags are those of the last progress that a MeshListener with this store saw.
    """
    found = run(_jobs, mesh, store)
    if output.as_json:
        output.tell(None, **asdict(found))
        return
    for name, job in sorted(found.jobs.items()):
        _write_job(name, job)
    for query, batch in sorted(found.sinks.items()):
        counts = found.counts.get(query, {})
        named = (f"{count:,} {on_a_line(what)}" for what, count in sorted(counts.items()))
        tail = ", ".join(["", *named])
        say(f"sink {on_a_line(query)}: batch {batch} is published{tail}")


async def _jobs(mesh: Mesh, name: str) -> Overview:
    async with open_copy(mesh, name) as store:
        return overview([entry async for entry in store.at_master().entries(prefix=(RESERVED,))])


def _write_job(name: str, job: JobOverview) -> None:
    began = "" if job.began is None else f", latest run since {job.began:%Y-%m-%d %H:%M:%S %Z}"
    say(f"job {on_a_line(name)}{began}")
    for query, batch in sorted(job.batches.items()):
        say(f"  query {on_a_line(query)}: batch {batch} is done")
    for fingerprint, count in sorted(job.units.items()):
        say(f"  work {on_a_line(fingerprint)}: {count:,} units are done")
    for query, progress in sorted(job.progress.items()):
        lag = "?" if progress.lag is None else f"{progress.lag:,}"
        say(f"  progress of {on_a_line(query)}: batch {progress.batch}, lag {lag}")


def _printable(progress: Progress) -> Progress:
    said = (progress.job, progress.query, progress.state, progress.reason)
    job, query, state, reason = map(on_a_line, said)
    return replace(progress, job=job, query=query, state=state, reason=reason)


@spark.command(cls=Command)
@click.argument("job", default="")
@click.option("--count", type=Whole(1), help="End after so many lines.")
@mesh_options(listens=True)
def watch(job: str, count: int | None, mesh: Mesh, output: Output) -> None:
    """Write what queries do, as it happens, until Ctrl-C: rows, rates and lag of each batch.

    Without JOB, of all jobs whose MeshListener is in the mesh.
    """
    run(_watch, mesh, job, count, output)


async def _watch(
    mesh: Mesh,
    job: str,
    count: int | None,
    output: Output,
) -> None:
    async with mesh.endpoint() as endpoint:
        with endpoint.subscribe(TOPIC + job) as subscriber:
            await join(endpoint, mesh)
            say(f"watching {on_a_line(job) or 'all jobs'}", err=True)
            written = 0
            while count is None or written < count:
                _, value = await subscriber.get()
                progress = None if isinstance(value, Missed) else Progress.of(value)
                if progress is None or job not in ("", progress.job):
                    continue  # a job whose name begins alike, or no progress at all
                output.tell(_printable(progress).line(), **asdict(progress))
                written += 1
