"""Jobs: submitted once, followed, stopped; the files that they get; profiles of clusters."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from road_ray.distributed import job_client
from road_ray.distributed.job_client import (
    Jobs,
    Profile,
    load_profile,
    pack_working_dir,
    shipped_clusters,
)
from road_ray.errors import ClusterError, ConfigError
from tests.distributed.web_service import Service, serving


class Client:
    """Jobs in a list."""

    def __init__(self):
        self.jobs, self.codes = [], {}

    def submit_job(self, **given):
        details = {"status": "RUNNING", "driver_exit_code": None, "message": "gone\nlog"}
        self.jobs.append(SimpleNamespace(**given, **details, start_time=len(self.jobs)))

    def list_jobs(self):
        return list(self.jobs)

    def stop_job(self, name):
        return self.end(name, "STOPPED", None)

    def end(self, name, status, code):
        (job,) = [one for one in self.jobs if one.submission_id == name]
        ended, job.status, job.driver_exit_code = job.status in job_client._DONE, status, code
        return not ended

    def get_job_logs(self, name):
        (job,) = [one for one in self.jobs if one.submission_id == name]
        if job.status == "RUNNING":  # it ends between this call and the next
            job.status, job.driver_exit_code = self.codes.get(name, ("SUCCEEDED", 0))
            return "step 1\n"
        return "step 1\nstep 2\n"


@pytest.fixture
def jobs():
    made = object.__new__(Jobs)
    made.profile = Profile(entry_cpus=2, workers=4, run_root="/runs")
    made._client = Client()
    return made


LINE = ["distill", "seed=1", "--run-dir", "student"]


@pytest.mark.parametrize(
    ("line", "added"),
    [
        ("finetune a.yaml", " --workers 4 --gpus-per-worker 1"),
        ("finetune a.yaml workers=0", ""),
        ("finetune own.yaml", ""),
        ("finetune a.yaml --workers 2", ""),
        ("finetune a.yaml --gpus-per-worker=2", ""),
        ("finetune a.yaml num_seeds=3 max_concurrent=3", ""),
        ("teachers a.yaml", ""),
        ("evaluate init=x", ""),
        ("demo max_concurrent=2", ""),
        ("sweep joint max_concurrent=2", ""),
    ],
)
def test_a_line_gets_options_that_its_verb_reads(jobs, tmp_path, monkeypatch, line, added):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("num_seeds: 3\nworkers: 2\n")
    jobs.profile = jobs.profile.model_copy(update={"gpus_per_worker": 1.0})
    job, _ = jobs.send([*line.split(), "--run-dir", "s"], tmp_path)
    assert job.line == f"road {line} --run-dir=/runs/s{added}"
    (sent,) = jobs._client.jobs
    assert sent.entrypoint == job.line.replace("road", "python -m road_ray", 1)
    assert job.name.startswith("road-runs-s-")
    assert job.run == "/runs/s"


def test_the_same_run_is_sent_once_and_goes_on_once_it_has_ended(jobs, tmp_path, monkeypatch):
    first, _ = jobs.send(LINE, tmp_path)
    again, new = jobs.send(LINE, tmp_path)
    assert (again.name, new) == (first.name, False)
    with pytest.raises(ClusterError, match="runs another command line"):
        jobs.send([*LINE, "seed=2"], tmp_path)
    with monkeypatch.context() as patch:  # Ray ends a job that waits for room when it begins
        patch.setattr(jobs._client, "stop_job", lambda name: True)
        patch.setattr(jobs._client.jobs[0], "status", "PENDING")
        assert jobs.stop("student").startswith("has not begun")
    assert jobs.stop("student") == "saved and stopped"
    assert jobs.stop("student") == "was STOPPED"
    after, new = jobs.send(LINE, tmp_path)
    assert (after.name, new) == ("road-runs-student-511d87-2", True)
    assert jobs.get("/runs/student").name == after.name


def test_run_directories_of_like_names_are_jobs_of_their_own(jobs, tmp_path):
    places = ("a-b", "a/b", "/a/b", "a b")
    sent = [jobs.send(["demo", "--run-dir", place], tmp_path) for place in places]
    assert all(new for _, new in sent)
    assert len({job.name for job, _ in sent}) == 4
    assert sent[0][0].name.startswith("road-runs-a-b-")
    for place, (job, _) in zip(places, sent, strict=True):
        again, new = jobs.send(["demo", "--run-dir", place], tmp_path)
        assert (again.name, new) == (job.name, False)


def test_the_token_is_sent_to_no_proxy(monkeypatch):
    class Dashboard(Service):
        def do_GET(self):
            self.answer(200, '{"ray_version": "2.60.0"}' if "version" in self.path else "[]")

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "example.org")
    with serving(Dashboard) as address:
        with pytest.raises(ClusterError, match="lets everybody in"):
            Jobs(Profile(address=f"http://{address}"))
        assert Jobs(Profile(address=f"http://{address}"), accept_open=True).list() == []
    assert os.environ["no_proxy"] == "example.org,127.0.0.1"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (("SUCCEEDED", 0), 0),
        (("FAILED", 5), 5),
        (("FAILED", None), 4),
        (("STOPPED", None), 6),
        (("STOPPED", 6), 6),
    ],
)
def test_following_gives_the_log_and_the_exit_code(jobs, tmp_path, end, code, monkeypatch):
    monkeypatch.setattr(job_client, "_POLL_SECONDS", 0.0)
    job, _ = jobs.send(LINE, tmp_path)
    jobs._client.codes[job.name] = end
    heard = []
    assert jobs.follow(job.name, heard.append) == code
    assert "".join(heard) == "step 1\nstep 2\n"
    assert jobs.follow(job.name, heard.append) == code  # it has ended: the same once more
    assert "".join(heard) == 2 * "step 1\nstep 2\n"
    endings = {("FAILED", 5): " with exit code 5", ("FAILED", None): ": gone"}
    assert jobs.get(job.name).outcome == end[0].lower() + endings.get(end, "")


@pytest.mark.parametrize("outages", [2, 99])
def test_follow_goes_on_behind_what_it_has_shown_or_gives_up(jobs, tmp_path, monkeypatch, outages):
    monkeypatch.setattr(job_client, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(job_client, "_LOST_SECONDS", 0.1)
    job, _ = jobs.send(LINE, tmp_path)
    plain, calls, heard = jobs._client.list_jobs, [], []

    def list_jobs():
        calls.append(1)
        if 2 < len(calls) < 3 + outages:
            raise ConnectionError("refused")
        return plain()

    jobs._client.list_jobs = list_jobs
    if outages == 2:
        assert jobs.follow(job.name, heard.append) == 0
        assert "".join(heard) == "step 1\nstep 2\n"
    else:
        jobs._client.codes[job.name] = ("RUNNING", None)
        with pytest.raises(ClusterError, match="refused"):
            jobs.follow(job.name, heard.append)


def test_follow_returns_the_exit_code_without_the_rest_of_the_log(jobs, tmp_path, monkeypatch):
    job, _ = jobs.send(LINE, tmp_path)
    jobs._client.end(job.name, "FAILED", 5)

    def gone(name):
        raise RuntimeError("its machine is gone")

    monkeypatch.setattr(jobs._client, "get_job_logs", gone)
    assert jobs.follow(job.name, lambda chunk: None) == 5


def test_a_run_is_found_by_the_path_that_was_submitted_and_by_no_part_of_it(jobs, tmp_path):
    job, _ = jobs.send(["distill", "seed=1", "--run-dir", "exp/student"], tmp_path)
    other, _ = jobs.send(["distill", "--run-dir", "/home/bob/student"], tmp_path)
    for name in (job.name, "exp/student", "exp/student/", "./exp/student", "/runs/exp/student"):
        assert jobs.get(name).name == job.name
    assert jobs.get("/home/bob/student").name == other.name
    for name in ("student", "bob/student", "road-runs-exp", "exp"):
        with pytest.raises(ClusterError, match=f"no job or run '{name}'"):
            jobs.stop(name)
    jobs.profile = jobs.profile.model_copy(update={"run_root": "/scratch"})
    moved, _ = jobs.send(["distill", "--run-dir", "exp/student"], tmp_path)
    assert jobs.get("exp/student").name == moved.name  # that of this profile, of two runs
    assert jobs.get("/runs/exp/student").name == job.name
    assert [one.status for one in jobs._client.jobs] == ["RUNNING"] * 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("distill --run-dir=runs/student", "which Ray deletes"),
        ("distill run_dir=~/student", "which Ray deletes"),
        ("demo", "has no run directories"),
        ("demo run_dir=/a --run-dir /b", "has 2 run directories"),
    ],
)
def test_a_run_without_one_directory_that_lasts_is_refused(jobs, tmp_path, line, message):
    jobs.profile = Profile()
    with pytest.raises(ConfigError, match=message):
        jobs.send(line.split(), tmp_path)
    assert not jobs.list()


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_stops_nothing(jobs, tmp_path, name):
    other = {"submission_id": "raysubmit_1", "metadata": None, "entrypoint": "python x.py"}
    jobs._client.submit_job(**other)  # of somebody else, without a run directory
    with pytest.raises(ConfigError, match="is empty"):
        jobs.stop(name)
    assert jobs._client.jobs[0].status == "RUNNING"
    assert jobs.get("raysubmit_1").run == ""


@pytest.mark.parametrize(
    "word",
    [
        *("tracking.api_key=abcdefgh123", "data.token=hf_aaaaaaaaaaaaaaaaaaaaaaaa"),
        *("init=https://user:hunter22@host/x", "x=sk-aaaaaaaaaaaaaaaaaaaaaaaa"),
    ],
)
def test_a_secret_does_not_become_a_line_that_everybody_reads(jobs, tmp_path, word):
    with pytest.raises(ConfigError, match="looks like a secret") as caught:
        jobs.send([*LINE, word], tmp_path)
    assert word.partition("=")[2] not in str(caught.value)
    assert jobs._client.jobs == []


def test_a_job_waits_as_long_as_the_profile_says_and_has_no_secret(jobs, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_canarycanarycanarycanary")
    for number, wait in enumerate((0, 1200)):
        jobs.profile = Profile(scale_up_seconds=wait, run_root="/runs")
        jobs.send(["demo", f"--run-dir=/{wait}"], tmp_path)
        sent = jobs._client.jobs[number].runtime_env
        assert sent.keys() == {"working_dir", "env_vars"}
        assert sent["env_vars"].get("ROAD_SCALE_UP_SECONDS") == (str(wait) if wait else None)
        assert "canary" not in str(sent)


@pytest.fixture
def repository(tmp_path):
    """A directory whose files git tracks, with some that it does not."""
    source = tmp_path / "source"
    subprocess.run(["git", "init", "-q", source], check=True)
    (source / ".gitignore").write_text("runs/\n")
    for name in ("a.py", "pack/b.py", "pack/data/c.tsv", "runs/big.bin", "gone.py"):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    subprocess.run(["git", "add", "."], cwd=source, check=True)
    (source / "gone.py").unlink()
    (source / "a.py").write_text("changed")
    (source / "mine.yaml").write_text("seed: 1\n")
    (source / "new.py").write_text("x")
    (source / "link").symlink_to("pack")
    return source


def test_tracked_files_travel_as_they_lie_there(repository, tmp_path):
    (repository / ".env").write_text("TOKEN=secret")  # neither tracked nor ignored
    how = {"words": ["finetune", "mine.yaml"], "exclude": ["pack/d*", "*ignore", "pack/data/"]}
    names = pack_working_dir(repository, tmp_path / "t", **how)
    assert sorted(names) == ["a.py", "mine.yaml", "pack/b.py"]
    with pytest.raises(ConfigError, match=r"exclude = \['/data/\*'\]: .*/data"):
        pack_working_dir(repository, tmp_path / "t", exclude=["/data/*"])
    names = pack_working_dir(repository, tmp_path / "t", words=how["words"])
    assert sorted(names) == [".gitignore", "a.py", "mine.yaml", "pack/b.py", "pack/data/c.tsv"]
    there = (path for path in (tmp_path / "t").rglob("*") if path.is_file())
    assert {path.relative_to(tmp_path / "t").as_posix() for path in there} == {*names}
    assert (tmp_path / "t" / "a.py").read_text() == "changed"


def test_outside_of_a_repository_only_files_travel_that_the_line_names(tmp_path):
    source = tmp_path / "plain"
    source.mkdir()
    (source / "a.yaml").write_text("seed: 1\n")
    (source / "b.py").write_text("x")
    words = ["finetune", "a.yaml", "none.yaml", "seed=1"]
    assert pack_working_dir(source, tmp_path / "t", words=words) == ["a.yaml"]
    (tmp_path / "b.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match="is outside"):
        pack_working_dir(source, tmp_path / "u", words=["../b.yaml"])


@pytest.mark.parametrize("away", ["../secret.txt", "/{tmp}/secret.txt", "out/secret.txt"])
def test_a_file_outside_of_the_tree_to_which_a_link_leads_is_not_sent(repository, tmp_path, away):
    (tmp_path / "secret.txt").write_text("canary")
    (repository / "out").symlink_to("..")  # a chain of links
    (repository / "notes.txt").symlink_to(away.format(tmp=tmp_path))
    subprocess.run(["git", "add", "notes.txt"], cwd=repository, check=True)
    (repository / "pack").rename(tmp_path / "pack")  # a directory that became a link
    (repository / "pack").symlink_to(tmp_path / "pack")
    assert pack_working_dir(repository, tmp_path / "t") == [".gitignore", "a.py"]


def test_models_that_stay_here_are_refused(repository, tmp_path):
    for word in (
        "init=runs/big.bin",
        "generator.init=runs",
        "distillation.teachers=[pack, 'runs/big.bin']",
        "distillation.teachers.sst2=[runs/]",
    ):
        with pytest.raises(ConfigError, match="nothing was sent"):
            pack_working_dir(repository, tmp_path / "t", words=["distill", word])
    assert not (tmp_path / "t").exists()
    here = ["init=google/electra-small", f"init={repository}/runs", "init=pack", "data.root=runs"]
    pack_working_dir(repository, tmp_path / "t", words=here)


def test_all_shipped_profiles_load_by_several_names_and_an_address_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("aws", "clusters/aws.yaml", "aws.yaml", "aws.profile.yaml"):
        assert load_profile(name).workers == 4
    assert load_profile("http://h:8265").address == "http://h:8265"
    assert {"local", "aws", "gcp", "kuberay/raycluster"} <= set(shipped_clusters())
    for name in shipped_clusters():
        assert load_profile(name).address.startswith("http")


@pytest.mark.parametrize("name", ["mine.yaml", "mine.profile.yaml", "mine"])
def test_a_profile_stands_beside_its_file(tmp_path, name):
    (tmp_path / "mine.yaml").write_text("cluster_name: x\n")
    (tmp_path / "mine.profile.yaml").write_text("address: http://b:1\n")
    assert load_profile(str(tmp_path / name)).address == "http://b:1"


def test_a_file_that_says_nothing_and_a_name_that_is_nothing_are_told(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("cluster_name: x\n")
    with pytest.raises(ConfigError, match=r"there is no mine\.profile\.yaml"):
        load_profile(str(file))
    with pytest.raises(ConfigError, match="did you mean 'aws'"):
        load_profile("asw")
    (tmp_path / "odd.profile.yaml").write_text("adress: http://b:1\n")
    with pytest.raises(ConfigError, match="address"):
        load_profile(str(Path(tmp_path / "odd.profile.yaml")))
