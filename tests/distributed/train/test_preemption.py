"""The notices of two clouds, from a metadata service of the test's own."""

import json
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from road_ray.distributed.train import preemption
from tests.distributed.web_service import Service, serving


@pytest.fixture
def service(monkeypatch):
    """``answers`` by path; anything else is 404. Gives answers, headers, address."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # of the machine, asked before
    answers: dict[str, str] = {}
    seen: list[dict[str, str]] = []

    class Metadata(Service):
        def do_GET(self):
            seen.append({"method": self.command, **dict(self.headers)})
            body = answers.get(self.path)
            self.answer(404 if body is None else 200, body or "")

        do_PUT = do_GET

    with serving(Metadata) as address:
        yield answers, seen, f"http://{address}"


@pytest.mark.parametrize(
    ("seconds", "least", "most"),
    [(110, 60, 110), (3700, 120, 120), (-3500, 1, 1)],  # a clock that has jumped by an hour
)
def test_aws_says_when_within_its_two_minutes(service, seconds, least, most):
    answers, seen, base = service
    answers["/latest/api/token"] = "secret"
    assert preemption.aws_deadline(base) is None
    when = datetime.now(UTC) + timedelta(seconds=seconds)
    answers["/latest/meta-data/spot/instance-action"] = json.dumps(
        {"action": "terminate", "time": when.strftime("%Y-%m-%dT%H:%M:%SZ")}
    )
    assert least <= preemption.aws_deadline(base) <= most
    assert seen[0]["method"] == "PUT"
    headers = {key.lower(): value for key, value in seen[-1].items()}
    assert headers["x-aws-ec2-metadata-token"] == "secret"


@pytest.mark.parametrize(
    "cut",
    ['{"action": "termi', "{}", "[]", '{"time": 3}', '{"time": "soon"}', '{"time": "2026-01-01"}'],
)
def test_a_notice_that_cannot_be_read_is_asked_for_again_and_no_service_says_nothing(service, cut):
    answers, _, base = service
    answers["/latest/api/token"] = "secret"
    answers["/latest/meta-data/spot/instance-action"] = cut
    assert preemption.aws_deadline(base) is None
    assert preemption.aws_deadline("http://127.0.0.1:9") is None


def test_google_says_that(service):
    answers, _, base = service
    assert preemption.gcp_deadline(base) is None
    answers["/computeMetadata/v1/instance/preempted"] = "FALSE"
    assert preemption.gcp_deadline(base) is None
    answers["/computeMetadata/v1/instance/preempted"] = "TRUE"
    assert preemption.gcp_deadline(base) == 30.0


def forwarded(monkeypatch, notices, run):
    monkeypatch.setattr(preemption.subprocess, "run", lambda words, **_: run(words))
    monkeypatch.setattr(preemption, "_EVERY_SECONDS", 0.0)
    return preemption.forward_notice(iter(notices).__next__)


def test_the_notice_is_passed_on_once_as_a_preemption(monkeypatch):
    commands: list[list[str]] = []
    assert forwarded(monkeypatch, [None, None, 42.9], commands.append) == 42.9
    (command,) = commands
    assert command[:2] == ["ray", "drain-node"]
    assert "DRAIN_NODE_REASON_PREEMPTION" in command
    assert command[-2:] == ["--deadline-remaining-seconds", "42"]


@pytest.mark.parametrize(
    "error",
    [
        subprocess.CalledProcessError(1, "ray"),
        subprocess.TimeoutExpired("ray", 20),
        FileNotFoundError(2, "No such file", "ray"),
    ],
)
def test_a_report_that_fails_is_repeated_with_the_time_that_is_left(error, monkeypatch):
    commands = []

    def command(words):
        commands.append(words[-1])
        if len(commands) < 3:
            raise error

    assert forwarded(monkeypatch, [110.0, 105.0, None, 99.0], command) == 99.0
    assert commands == ["110", "105", "99"]
