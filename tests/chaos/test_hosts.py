"""Hosts for real: a network namespace on this machine, a head here and a worker there."""

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

from tests.chaos.runs import Watched, rows_of
from tests.cluster import processes_with, until

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.timeout(2400)]
HERE, THERE = "10.231.77.1", "10.231.77.2"
PORT, DASHBOARD, AGENT = 26379, 28265, 28365
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
    """This machine, and another that is joined to it by a wire."""

    def __init__(self, place: Path) -> None:
        self.name, self.place = f"rr{os.getpid()}", place
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
        self.ip("netns", "add", self.name)
        self.ip("link", "add", self.near, "type", "veth", "peer", "name", self.far)
        self.ip("link", "set", self.far, "netns", self.name)
        self.ip("addr", "add", f"{HERE}/24", "dev", self.near)
        self.ip("link", "set", self.near, "up")
        self.ip("addr", "add", f"{THERE}/24", "dev", self.far, inside=self.name)
        self.ip("link", "set", self.far, "up", inside=self.name)
        self.ip("link", "set", "lo", "up", inside=self.name)

    def cut(self) -> None:
        self.ip("link", "set", self.far, "down", inside=self.name)

    def start(self, *words: str, there: bool = False) -> None:
        inside = ["ip", "netns", "exec", self.name] if there else []
        options = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
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
        """End every process of ours, and take the wire away."""
        for pid in processes_with(f"HOME={self.place}"):
            os.kill(pid, signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", self.name], timeout=30)
        subprocess.run(["ip", "link", "del", self.near], timeout=30, capture_output=True)


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
        ports = (f"--port={PORT}", f"--dashboard-port={DASHBOARD}")
        ports += (f"--dashboard-agent-listen-port={AGENT}",)
        made.start("--head", *ports, f"--node-ip-address={HERE}", session)
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
    watched = Watched(run)

    def reached(step: int, seconds: float) -> None:
        ended = until(lambda: watched.look() > step or driver.poll() is not None, seconds, 0.05)
        assert ended, log.read_text()
        assert driver.poll() is None, log.read_text()

    reached(39, 300)
    hosts.cut()
    began, before = time.monotonic(), len(rows_of(run))
    # The run may go on at once after that.
    told = re.compile(r"worker \d+ .*failed")
    assert until(lambda: watched.look() and told.search(log.read_text()), 240, 0.05), (
        log.read_text()
    )
    noticed = time.monotonic() - began
    reached(before + 40, 240)
    record_property("network cut: noticed after", f"{noticed:.1f} s")
    record_property("network cut: longest gap between steps", f"{watched.gap:.1f} s")
    assert noticed < 60
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=120) == 6, log.read_text()
