"""``road`` command lines as Ray jobs: submitted once, with the files that git tracks, followed,
stopped, listed, with their exit code.

A ``Profile`` says how to reach a cluster, and the resources of its jobs: a ``*.profile.yaml``
beside Ray's cluster file, whose own format has no room for it; ``load_profile`` finds it by name.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import Field

from road_ray.config import Config, load, read_yaml
from road_ray.config.secrets import masked, redact
from road_ray.distributed.connection import accepts_anonymous, refuse_open, require_token
from road_ray.distributed.room import SCALE_UP_VARIABLE
from road_ray.errors import ClusterError, ConfigError, did_you_mean, first_line

_log = logging.getLogger(__name__)
T = TypeVar("T")
_RUN, _LINE = "road_run", "road_line"  # keys of a job's metadata
_POLL_SECONDS = 2.0  # between two looks at the log of a job
_LOST_SECONDS = 300.0  # that a followed job's cluster may be out of reach
_HEAD = "node:__internal_head__"  # the resource by which Ray marks the head
_WITH_WORKERS = ("pretrain", "multitask", "finetune", "distill")
# Words that say how a run trains: in workers, or as several runs of one process each.
_HOW = (
    *("--workers", "workers=", "--gpus-per-worker", "gpus_per_worker="),
    *("num_seeds=", "pool=", "pool.", "max_concurrent="),
)
STOP_SECONDS = 120  # to save after SIGTERM; Ray's default of 3 s is less than a step
_DONE = ("SUCCEEDED", "FAILED", "STOPPED")
_MODEL = r"^((?:generator\.)?init|distillation\.teachers[^=]*)=(.*)$"  # words that name models
SHIPPED = Path(__file__).parents[1] / "clusters"
_ENDING = ".profile.yaml"


class Profile(Config):
    """Access to a cluster and the resources of a job there: a ``*.profile.yaml``."""

    address: str = "http://127.0.0.1:8265"
    """Address of the cluster's dashboard as seen from this machine, usually the near end of a
    tunnel (``ray dashboard``, ``kubectl port-forward``)."""
    entry_cpus: float = Field(1.0, ge=0)
    """Number of cores that are reserved for the ``road`` process itself, beside those of its
    workers."""
    driver_on_head: bool = False
    """Run the ``road`` process on the head, which outlives workers on spot machines. The head needs
    ``entry_cpus`` cores for jobs, or they fail after 15 minutes. False: Ray chooses a machine."""
    scale_up_seconds: float = Field(0.0, ge=0)
    """Longest wait of a job for machines that the cluster adds, in seconds. 0: the cluster adds
    none, and a job without room fails at once."""
    workers: int | None = Field(None, ge=0)
    """Value of ``--workers`` for jobs that give no workers, GPUs or several runs. None: the verb's
    default."""
    gpus_per_worker: float | None = Field(None, ge=0)
    """Value of ``--gpus-per-worker`` for the same jobs. None: the verb's default."""
    run_root: str | None = None
    """Directory on a disk that all machines share, below which relative run directories are placed.
    None: run directories must be absolute."""
    exclude: tuple[str, ...] = ()
    """Patterns of tracked files that are not uploaded with a job, such as ``docs/*``. Empty: all
    tracked files are. Ray's limit is 100 MiB."""


def load_profile(cluster: str) -> Profile:
    """Return the profile of a shipped cluster (``aws``), of a cluster file with a
    ``*.profile.yaml`` beside it, of such a profile, or of an address.

    Raises ``ConfigError`` with the nearest name if there is none.
    """
    if cluster.startswith(("http://", "https://")):
        return load(Profile, base={"address": cluster})
    return load(Profile, path=cluster_files(cluster)[-1])


def cluster_files(cluster: str) -> list[Path]:
    """Return the files of a cluster: Ray's or KubeRay's own, if there is one, and the profile
    beside it.

    Raises ``ConfigError`` with the nearest name if there is none.
    """
    path = Path(cluster).expanduser()
    for place in (path, SHIPPED / cluster, SHIPPED.parent / cluster):
        name = place.name.removesuffix(_ENDING).removesuffix(".yaml")
        file, profile = place.parent / f"{name}.yaml", place.parent / f"{name}{_ENDING}"
        if profile.is_file():
            return [file, profile] if file.is_file() else [profile]
    names, name = shipped_clusters(), path.name.removesuffix(".yaml")
    raise ConfigError(
        f"--cluster {cluster}: no shipped cluster, and there is no {name}{_ENDING}"
        f"{did_you_mean(name, names)}\n"
        f"  allowed: {', '.join(names)}, a cluster file with {name}{_ENDING} beside it, which has "
        "at least `address: http://127.0.0.1:8265`, or http://host:port of a dashboard\n"
        "  nothing was sent"
    )


def shipped_clusters() -> list[str]:
    """Return the names of the shipped clusters."""
    profiles = SHIPPED.rglob(f"*{_ENDING}")
    return sorted(str(p.relative_to(SHIPPED)).removesuffix(_ENDING) for p in profiles)


@dataclass(frozen=True)
class Job:
    """A job of the cluster."""

    name: str
    status: str
    run: str
    line: str
    exit_code: int | None
    message: str

    @classmethod
    def of(cls, details: Any) -> Job:
        """Return the job that Ray describes."""
        metadata = details.metadata or {}
        return cls(
            name=details.submission_id,
            status=str(getattr(details.status, "value", details.status)),
            run=metadata.get(_RUN, ""),
            line=metadata.get(_LINE, details.entrypoint),
            exit_code=details.driver_exit_code,
            message=(details.message or "").partition("\n")[0],  # and no log of 20,000 characters
        )

    @property
    def outcome(self) -> str:
        """Status in words, with the exit code or Ray's message of a job that failed."""
        if self.status != "FAILED":
            return self.status.lower()
        if self.exit_code is None:
            return f"failed: {self.message}"
        return f"failed with exit code {self.exit_code}"

    @property
    def done(self) -> bool:
        """Return True if the job has ended."""
        return self.status in _DONE


class Jobs:
    """The jobs of one cluster; ``accept_open`` takes one that answers without a token.

    Raises ``ClusterError`` if the cluster cannot be reached, rejects our token, or accepts requests
    without one.
    """

    def __init__(self, profile: Profile, *, accept_open: bool = False) -> None:
        self.profile = profile
        require_token()
        refuse_open(profile.address, accepts_anonymous, accepted=accept_open)
        from ray.job_submission import JobSubmissionClient

        without = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        # Ray's client would send the token to a proxy in the environment.
        os.environ["no_proxy"] = f"{without},{urlsplit(profile.address).hostname}".lstrip(",")
        logging.getLogger("ray").setLevel(logging.ERROR)
        self._client = self._call(lambda: JobSubmissionClient(profile.address))

    def send(self, words: Sequence[str], source: Path) -> tuple[Job, bool]:
        """Submit a ``road`` command line and return its job, and True if the job is new. A running
        job of the same run directory is returned as it is; one that has ended is followed by a new
        job that resumes the run.

        Raises ``ClusterError`` if another command line runs in that run directory.
        """
        refuse_secrets(words)
        words, run = completed(words, self.profile)
        line = shlex.join(["road", *words])
        before = [job for job in self.list() if job.run == run]
        for job in before:
            if job.done:
                continue
            if job.line != line:
                raise ClusterError(
                    f"run {run} runs another command line, as job {job.name}:\n    {job.line}\n"
                    f"  asked: {line}\n  fix: stop it first (road submit stop {job.name}), or name "
                    "another --run-dir\n  kept: that job, untouched"
                )
            return job, False
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", run).strip("-.")
        digest = hashlib.sha256(run.encode()).hexdigest()[:6]  # a/b is not a-b
        name, wait = f"road-{plain}-{digest}-{len(before) + 1}", self.profile.scale_up_seconds
        with tempfile.TemporaryDirectory(prefix="road-job-") as place:
            pack_working_dir(source, Path(place), words=words, exclude=self.profile.exclude)
            sent: dict[str, Any] = {
                "entrypoint": shlex.join(["python", "-m", "road_ray", *words]),
                "submission_id": name,
                # The machines have the dependencies installed.
                "runtime_env": {
                    "working_dir": place,
                    "env_vars": {
                        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS),
                        "TOKENIZERS_PARALLELISM": "false",
                        "PYTHONUNBUFFERED": "1",
                        **({SCALE_UP_VARIABLE: f"{wait:g}"} if wait else {}),
                    },
                },
                "metadata": {_RUN: run, _LINE: line},
                "entrypoint_num_cpus": self.profile.entry_cpus,
                # Ray keeps drivers on the head only if they ask for nothing.
                "entrypoint_resources": {_HEAD: 0.001} if self.profile.driver_on_head else None,
            }
            self._call(lambda: self._client.submit_job(**sent))
        return self.get(name), True

    def follow(self, name: str, say: Callable[[str], None]) -> int:
        """Print the log as it grows, or that of a finished job, then return its exit code. A
        cluster out of reach is asked again for ``_LOST_SECONDS``.
        """
        shown, lost_at, job = 0, 0.0, self.get(name)
        while True:
            try:
                job = self.get(name)
                log = self._call(lambda: str(self._client.get_job_logs(name)))
            except ClusterError as error:
                if job.done:  # its machine may be gone, its outcome is known
                    _log.warning("the rest of the log cannot be shown: %s", error)
                    break
                if not lost_at:
                    _log.warning("%s\n  asking again for %g s", error, _LOST_SECONDS)
                    lost_at = time.monotonic()
                elif time.monotonic() - lost_at > _LOST_SECONDS:
                    raise
            else:
                lost_at = 0.0
                say(log[shown:])
                shown = len(log)
                if job.done:
                    break
            time.sleep(_POLL_SECONDS)
        if job.status == "SUCCEEDED":
            return 0
        return job.exit_code or (6 if job.status == "STOPPED" else 4)

    def stop(self, name: str) -> str:
        """Stop a job, wait until it has saved and ended, and return what became of it. One that
        waits for room is left: Ray ends it when it begins.

        Raises ``ClusterError`` if it does not end within the time for saving.
        """
        job = self.get(name)
        if not self._call(lambda: self._client.stop_job(job.name)):
            return f"was {job.status}"
        deadline = time.monotonic() + 1.25 * STOP_SECONDS
        while not (job := self.get(job.name)).done:
            if job.status == "PENDING":
                return "has not begun; it ends as soon as there is room for it"
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{job.name}: did not stop and is still {job.status}\n"
                    "  fix: read its log (road submit follow), then stop it again"
                )
            time.sleep(1.0)
        return "saved and stopped"

    def list(self) -> list[Job]:
        """Return all jobs, the newest first."""
        details = self._call(self._client.list_jobs)
        details.sort(key=lambda job: job.start_time or 0, reverse=True)
        return [Job.of(job) for job in details if job.submission_id]

    def get(self, name: str) -> Job:
        """Return a job by its name, or the newest job of a run by its directory: the whole path as
        it was submitted, or as the cluster has it.

        Raises ``ConfigError`` for an empty name and ``ClusterError`` for one that no job has.
        """
        if not name.strip():
            raise ConfigError(
                "road submit: the name of the run or job is empty\n  fix: road submit list"
            )
        known, path = self.list(), Path(self.profile.run_root or "", name)
        found = [job for job in known if job.name == name]
        found += [job for job in known if job.run and Path(job.run) == path]
        if found:
            return found[0]
        names = [f"{job.name} ({job.run})" if job.run else job.name for job in known[:10]]
        raise ClusterError(
            f"{self.profile.address} has no job or run {name!r}\n"
            f"  known: {', '.join(names) or 'none'}\n"
            "  fix: the name of a job, or the whole path that was given to --run-dir"
        )

    def _call(self, call: Callable[[], T]) -> T:
        """Return ``call()``, with Ray's errors as ``ClusterError``."""
        from ray.exceptions import AuthenticationError

        try:
            return call()
        except (AuthenticationError, RuntimeError, OSError) as error:
            raise ClusterError(
                f"{self.profile.address}: {first_line(error)[:300]}\n"
                "  fix: check that the cluster is up and reachable (`ray dashboard FILE`, "
                "`kubectl port-forward`; `road check --address`), that ~/.ray/auth_token (or the "
                "file in RAY_AUTH_TOKEN_PATH) has its token, and that a job's files have at most "
                "100 MiB (`exclude` of its profile)"
            ) from error


def refuse_secrets(words: Sequence[str]) -> None:
    """Raise ``ConfigError`` for a word with a secret: everybody who can list jobs can read command
    lines.
    """
    for word in words:
        key, _, value = word.partition("=")
        typed = {"value": {key.lstrip("-"): int(value) if value.isdigit() else value}}
        if redact({"word": word, **typed}) != {"word": word, **typed}:
            raise ConfigError(
                f"{masked(key)}: looks like a secret, which all who can list jobs could read\n"
                "  fix: set it in the environment of the cluster's machines\n  nothing was sent"
            )


def completed(words: Sequence[str], profile: Profile) -> tuple[list[str], str]:
    """Return the command line with the workers of the profile, unless it or its YAML file says how
    it trains, and with the run directory below ``run_root``, which identifies its run; an absolute
    one stays as it is. Raises ``ConfigError`` for a relative one without ``run_root``, and unless
    there is exactly one.
    """
    done: list[str] = []
    for word in words:
        if done and done[-1] == "--run-dir":
            done[-1] += f"={word}"
        else:
            done.append(word)
    found = [n for n, word in enumerate(done) if word.startswith(("--run-dir=", "run_dir="))]
    if len(found) != 1:
        raise ConfigError(
            f"the command line has {len(found) or 'no'} run directories; by its one, a second "
            "submission resumes the first\n"
            "  fix: give one --run-dir DIR, on a disk that the machines share\n  nothing was sent"
        )
    key, _, place = done[found[0]].partition("=")
    run = Path(profile.run_root or "", place)
    if not run.is_absolute():
        raise ConfigError(
            f"run_dir = {run}: would lie in the job's working directory, which Ray deletes\n"
            "  allowed: an absolute path on a disk that the machines share\n  nothing was sent"
        )
    done[found[0]] = f"{key}={run}"
    files = [Path(word) for word in done if word.endswith((".yaml", ".yml"))]
    given = [f"{name}=" for file in files if file.is_file() for name in read_yaml(file).values]
    if done[0] in _WITH_WORKERS and not any(word.startswith(_HOW) for word in [*done, *given]):
        flags = {"--workers": profile.workers, "--gpus-per-worker": profile.gpus_per_worker}
        for flag, value in flags.items():
            done += [] if value is None else [flag, f"{value:g}"]
    return done, str(run)


def pack_working_dir(
    source: Path, target: Path, *, words: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[str]:
    """Copy the files of a job from ``source`` to ``target`` and return their relative paths: those
    that git tracks and no pattern of ``exclude`` matches, as they are in the working tree, and the
    YAML files that ``words`` name. Secrets are rarely tracked, so nothing else is sent, and no file
    outside of ``source`` to which a link leads.

    Raises ``ConfigError`` for such a YAML file outside of ``source``, and for a model or teachers
    in ``words`` that are here but not sent, which the job would not find.
    """
    root = source.resolve()
    named = [x for x in words if x.endswith((".yaml", ".yml")) and (source / x).is_file()]
    for word in named:
        if not (source / word).resolve().is_relative_to(root):
            raise ConfigError(
                f"{word}: is outside of {source}, the working directory of the job\n"
                "  fix: copy it here"
            )
    named = [str((source / word).resolve().relative_to(root)) for word in named]
    paths = [
        path
        for path in dict.fromkeys([*tracked_files(source, exclude), *named])
        if (source / path).is_file() and (source / path).resolve().is_relative_to(root)
    ]
    for key, name in re.findall(_MODEL, "\n".join(words), re.MULTILINE):
        for one in re.findall(r"[^\[\], '\"]+", name):
            sent = any(path == one or path.startswith(f"{one.rstrip('/')}/") for path in paths)
            if not Path(one).is_absolute() and (source / one).exists() and not sent:
                raise ConfigError(
                    f"{key} = {one}: a job runs in a directory of its own and does not find it\n"
                    "  allowed: an absolute path on a disk that the machines share\n"
                    "  nothing was sent"
                )
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, target / path)
    return paths


def tracked_files(source: Path, exclude: Sequence[str]) -> list[str]:
    """Return the relative paths that git tracks below ``source`` and no pattern of ``exclude``
    matches; empty outside of a repository. Raises ``ConfigError`` for a pattern that git refuses.
    """
    patterns = [".", *(f":(exclude){pattern}" for pattern in exclude)]
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--", *patterns]
    try:
        output = subprocess.run(command, cwd=source, capture_output=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        if exclude and tracked_files(source, ()):
            problem = os.fsdecode(getattr(error, "stderr", b"")).strip()
            raise ConfigError(
                f"exclude = {list(exclude)}: {problem}\n"
                f"  allowed: patterns of files below {source}\n  nothing was sent"
            ) from error
        return []
    return [name for name in os.fsdecode(output.stdout).split("\0") if name]
