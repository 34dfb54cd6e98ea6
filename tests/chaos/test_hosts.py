"""Hosts for real: network namespaces on this machine, a head here, a worker there, and a third that
only sends jobs.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import road_ray as rr
from tests.chaos.runs import NOISE, Watched, rows_of
from tests.cluster import processes_with

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.timeout(2400)]
HERE, THERE = "10.231.77.1", "10.231.77.2"
PORT, DASHBOARD, AGENT = 26379, 28265, 28365
SENDER_NET = ("10.231.78.1", "10.231.78.2")
CHECKS = {"period_ms": "1000", "timeout_ms": "2000", "failure_threshold": "4"}  # as in clusters/
ROOT = Path(__file__).parents[2]
RAY = str(Path(sys.executable).with_name("ray"))


def can_make_hosts() -> bool:
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    name = f"rrtry{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return made


class Hosts:
    """This machine, and two others that are joined to it by a wire each."""

    def __init__(self, place: Path) -> None:
        self.name, self.sender, self.place = f"rr{os.getpid()}", f"rr{os.getpid()}s", place
        self.near, self.far = f"{self.name}a", f"{self.name}b"
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("RAY_")
        }
        self.environment |= {f"RAY_health_check_{key}": value for key, value in CHECKS.items()}
        self.environment |= {
            "HOME": str(place),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_worker_niceness": "0",
            "PYTHONPATH": str(ROOT),
        }

    def ip(self, *words: str, inside: str | None = None) -> None:
        host = [] if inside is None else ["-n", inside]
        subprocess.run(["ip", *host, *words], check=True, timeout=30)

    def wire(self) -> None:
        self._join(self.name, (self.near, self.far), (HERE, THERE))
        ends = (f"{self.sender}a", f"{self.sender}b")
        self._join(self.sender, ends, SENDER_NET)

    def _join(self, host: str, ends: tuple[str, str], addresses: tuple[str, str]) -> None:
        near, far = ends
        self.ip("netns", "add", host)
        self.ip("link", "add", near, "type", "veth", "peer", "name", far)
        self.ip("link", "set", far, "netns", host)
        self.ip("addr", "add", f"{addresses[0]}/24", "dev", near)
        self.ip("link", "set", near, "up")
        self.ip("addr", "add", f"{addresses[1]}/24", "dev", far, inside=host)
        self.ip("link", "set", far, "up", inside=host)
        self.ip("link", "set", "lo", "up", inside=host)

    def cut(self) -> None:
        self.ip("link", "set", self.far, "down", inside=self.name)

    def network_of(self, pid: int) -> str:
        """Which network a process lives in."""
        return os.readlink(f"/proc/{pid}/ns/net")

    def named(self, title: str) -> list[int]:
        """Processes of ours with that word in their title."""
        return [pid for pid in processes_with(f"HOME={self.place}") if title in titles(pid)]

    def start(self, *words: str, there: bool = False) -> None:
        inside = ["ip", "netns", "exec", self.name] if there else []
        options = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
        options += ["--resources", '{"teacher": 3}'] if there else []
        done = subprocess.run(
            [*inside, RAY, "start", *words, *options],
            # Both hosts have the name of this machine, by which Gloo would look for them.
            env=self.environment | {"GLOO_SOCKET_IFNAME": self.far if there else self.near},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def close(self) -> None:
        """End every process of ours, and take the wires away."""
        for pid in processes_with(f"HOME={self.place}"):
            os.kill(pid, signal.SIGKILL)
        for host in (self.name, self.sender):
            subprocess.run(["ip", "netns", "del", host], timeout=30)
        for near in (self.near, f"{self.sender}a"):
            subprocess.run(["ip", "link", "del", near], timeout=30, capture_output=True)


def titles(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def hosts():
    if not can_make_hosts():
        pytest.skip("network namespaces need root and `ip`")
    place = Path(tempfile.mkdtemp(prefix="rr", dir="/tmp"))
    (place / ".ray").mkdir()
    token = place / ".ray" / "auth_token"
    token.touch(0o600)
    token.write_text("0123456789abcdef" * 4)
    made = Hosts(place)
    try:
        made.wire()
        session = f"--temp-dir={place / 'ray'}"
        # Ports of their own, for another cluster may be at work on this machine.
        coordinator = ("--dashboard-host=0.0.0.0", f"--dashboard-port={DASHBOARD}")
        coordinator += (f"--dashboard-agent-listen-port={AGENT}",)
        made.start("--head", f"--port={PORT}", f"--node-ip-address={HERE}", *coordinator, session)
        made.start(f"--address={HERE}:{PORT}", f"--node-ip-address={THERE}", there=True)
        yield made
    finally:
        made.close()
        shutil.rmtree(place, ignore_errors=True)


def test_a_host_that_is_cut_off_is_done_without(
    hosts, pretraining, flags, tmp_path, record_property
):
    run, log = tmp_path / "run", tmp_path / "log"
    paces = {"training.steps": 4000, "training.save_every_steps": 20, "training.log_every_steps": 1}
    options = flags({key: value for key, value in pretraining.items() if key != "console"} | paces)
    line = [sys.executable, "-m", "road_ray", "pretrain", *options, "--run-dir", str(run)]
    line += ["--workers", "2", "min_workers=1", "--address", f"{HERE}:{PORT}"]
    with log.open("w") as file:
        driver = subprocess.Popen(line, env=hosts.environment, stdout=file, stderr=file)
    watched, deadline = Watched(run), time.monotonic() + 300
    while watched.look() < 40:
        assert driver.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    hosts.cut()
    began, before = time.monotonic(), len(rows_of(run))
    noticed = None
    while watched.step <= before + 40:
        assert driver.poll() is None, log.read_text()
        assert time.monotonic() < began + 240, log.read_text()
        if noticed is None and re.search(r"worker \d+ .*failed", log.read_text()):
            noticed = time.monotonic() - began
        watched.look()
        time.sleep(0.05)
    assert noticed is not None, log.read_text()
    record_property("network cut: noticed after", f"{noticed:.1f} s")
    record_property("network cut: longest gap between steps", f"{watched.gap:.1f} s")
    assert noticed < 60
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 6, log.read_text()


def test_a_job_from_a_third_host_distils_with_teachers_on_another(
    hosts, teachers, pretrained, sentiment, flags, tmp_path
):
    settings = {key: value for key, value in sentiment.items() if key != "console"}
    settings |= {"training.steps": 40, "optimizer.peak_lr": 1e-3}
    settings |= {"distillation.teachers": [str(teachers.directory / "teachers.json")]}
    alone = rr.distill(
        overrides=settings | {"distillation.host": "process"}, run_dir=tmp_path / "alone"
    )
    placed = {"distillation.resources": "{CPU: 0.1, teacher: 1}"}
    run, log = tmp_path / "run", tmp_path / "log"
    line = [sys.executable, "-m", "road_ray", "submit", "--cluster"]
    line += [f"http://{SENDER_NET[0]}:{DASHBOARD}", "--", "distill"]
    line += [*flags(settings | placed), "--run-dir", str(run)]
    with log.open("w") as file:
        sender = subprocess.Popen(
            ["ip", "netns", "exec", hosts.sender, *line],
            cwd=ROOT,
            env=hosts.environment,
            stdout=file,
            stderr=file,
        )
    networks, deadline = set[str](), time.monotonic() + 400
    while sender.poll() is None:
        assert time.monotonic() < deadline, log.read_text()
        for pid in hosts.named("ray::TeacherActor"):
            with contextlib.suppress(OSError):
                networks.add(hosts.network_of(pid))
        time.sleep(0.05)
    assert sender.returncode == 0, log.read_text()
    there = subprocess.check_output(
        ["ip", "netns", "exec", hosts.name, "readlink", "/proc/self/ns/net"], text=True
    ).strip()
    assert networks == {there} != {hosts.network_of(os.getpid())}
    ours, theirs = (
        load_file(place / "hf" / "model.safetensors") for place in (run, alone.directory)
    )
    # The job may have another number of threads, and so another order of sums.
    assert all(torch.allclose(ours[name], theirs[name], **NOISE) for name in theirs)
