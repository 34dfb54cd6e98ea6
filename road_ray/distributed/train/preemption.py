"""Process beside a worker on a cloud machine that reports the cloud's preemption notice to Ray.

Ray informs the training loop, which saves a checkpoint. Run it as
``python -m road_ray.distributed.train.preemption aws|gcp``. On Kubernetes Ray does this itself
(RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx

_TIMEOUT_SECONDS = 5.0
_EVERY_SECONDS = 5.0
_DRAIN_SECONDS = 20.0  # of a report; Google Cloud leaves 30
AWS = "http://169.254.169.254"
GCP = "http://metadata.google.internal"


def aws_deadline(base: str = AWS) -> float | None:
    """Return the seconds until this machine is taken away, or None without a notice.

    Source: EC2 user guide, spot instance termination notices (IMDSv2).
    """
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _fetch(f"{base}/latest/api/token", lifetime, method="PUT")
    if token is None:
        return None
    key = {"X-aws-ec2-metadata-token": token}
    notice = _fetch(f"{base}/latest/meta-data/spot/instance-action", key)
    if notice is None:
        return None
    try:
        when = datetime.fromisoformat(json.loads(notice)["time"])
        # AWS gives two minutes; more means that this clock is behind.
        return min(max(1.0, (when - datetime.now(UTC)).total_seconds()), 120.0)
    except (ValueError, KeyError, TypeError):  # cut off on its way; the next poll repeats it
        return None


def gcp_deadline(base: str = GCP) -> float | None:
    """Return 30 seconds once the machine is being taken away, else None.

    Source: Compute Engine documentation, metadata key ``instance/preempted``.
    """
    url = f"{base}/computeMetadata/v1/instance/preempted"
    answer = _fetch(url, {"Metadata-Flavor": "Google"})
    return 30.0 if answer is not None and answer.strip() == "TRUE" else None


DEADLINES: dict[str, Callable[[], float | None]] = {"aws": aws_deadline, "gcp": gcp_deadline}
_REPORT = (
    *("ray", "drain-node", "--reason", "DRAIN_NODE_REASON_PREEMPTION"),
    *("--reason-message", "spot notice", "--deadline-remaining-seconds"),
)


def forward_notice(deadline: Callable[[], float | None]) -> float:
    """Wait for a notice, report it to Ray, and return the seconds left. A report that fails is
    repeated, as long as the machine stays.
    """
    while True:
        seconds = deadline()
        if seconds is not None:
            try:
                command = [*_REPORT, str(int(seconds))]
                subprocess.run(command, check=True, timeout=_DRAIN_SECONDS)
                return seconds
            except (OSError, subprocess.SubprocessError) as error:
                print(f"the notice could not be reported: {error}", file=sys.stderr, flush=True)
        time.sleep(_EVERY_SECONDS)


def _fetch(url: str, headers: Mapping[str, str], method: str = "GET") -> str | None:
    """Return the answer of the metadata service; None for a missing key or no answer."""
    how: Any = {"headers": headers, "timeout": _TIMEOUT_SECONDS, "trust_env": False}  # no proxy
    try:
        return httpx.request(method, url, **how).raise_for_status().text
    except (httpx.HTTPError, ValueError):
        return None


if __name__ == "__main__":
    forward_notice(DEADLINES[sys.argv[1]])
