"""``road submit``: runs a command of ``road`` as a job on a cluster."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from road_ray.cli.options import JsonOption, show_list
from road_ray.errors import ConfigError
from road_ray.verbs import VERBS

if TYPE_CHECKING:
    from road_ray.distributed.job_client import Job, Jobs

_ACTIONS = ("list", "status", "stop", "follow", "show")
submit_settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}


def submit(
    words: Annotated[
        list[str],
        typer.Argument(metavar="VERB ... | list | status RUN | stop RUN | follow RUN | show"),
    ],
    cluster: Annotated[
        str, typer.Option(help="shipped cluster, cluster file or http://host:port")
    ] = "local",
    detach: Annotated[
        bool, typer.Option("--detach", help="return without following the log")
    ] = False,
    open_cluster: Annotated[
        bool, typer.Option("--i-know-this-is-open", help="accept a cluster without a token")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a road command as a job on a cluster.

    Example: road submit --cluster aws -- distill my.yaml --run-dir x

    Repeat the command to follow its job, or to resume the run. `show` prints a cluster file.
    """
    from road_ray.distributed.job_client import Jobs, cluster_files, load_profile

    if words == ["show"]:
        files = cluster_files(cluster)  # their paths go to standard error
        typer.echo(files[0].read_text(encoding="utf-8"), nl=False)
        typer.echo("".join(f"# {file}\n" for file in files), nl=False, err=True)
        return
    profile = load_profile(cluster)
    if words[0] in _ACTIONS and "--json" in words:  # of a verb it belongs to the job
        words, as_json = [word for word in words if word != "--json"], True
    if words[0] not in _ACTIONS:
        if words[0] not in (*VERBS, "sweep"):
            allowed = ", ".join([*VERBS, "sweep", *_ACTIONS])
            raise ConfigError(f"road submit {words[0]}: no such verb\n  allowed: {allowed}")
    elif words[0] != "list" and len(words) != 2:
        raise ConfigError(f"road submit {words[0]}: name one run or job\n  fix: road submit list")
    jobs = Jobs(profile, accept_open=open_cluster)
    if words[0] not in _ACTIONS:
        job, new = jobs.send(words, Path.cwd())
        if as_json:
            show_list([dataclasses.asdict(job) | {"new": new}], as_json)
        else:
            status = "sent" if new else f"is already running ({job.status}); it was not sent again"
            typer.echo(f"{job.name}: {status}", err=True)
        if not detach:
            raise typer.Exit(_followed(jobs, job))
    elif words[0] in ("list", "status"):
        found = [jobs.get(name) for name in words[1:]] if words[0] == "status" else jobs.list()
        show_list([dataclasses.asdict(job) for job in found], as_json)
    elif words[0] == "stop":
        job = jobs.get(words[1])
        typer.echo(f"{job.name}: {jobs.stop(job.name)}")
    else:
        raise typer.Exit(_followed(jobs, jobs.get(words[1])))


def _followed(jobs: Jobs, job: Job) -> int:
    """Print the log of a job and return its exit code. Ctrl-C leaves the job running."""
    try:
        code = jobs.follow(job.name, partial(typer.echo, nl=False))
        typer.echo(f"{job.name}: {jobs.get(job.name).outcome}", err=True)
        return code
    except KeyboardInterrupt:
        text = f"\n{job.name} is still running. road submit follow {job.run} | stop {job.run}"
        typer.echo(text, err=True)
        return 6
