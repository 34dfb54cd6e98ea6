"""Settings of `road serve`: the model, its replicas, batches, limits and token."""

import hashlib
import ipaddress
import os
from typing import Any

from pydantic import Field

from road_ray.config import Config
from road_ray.errors import ConfigError
from road_ray.models.config import Precision

_SHORTEST_TOKEN = 16  # characters
_LOADING = {"head", "precision", "max_length_tokens", "threshold", "n_best", "min_confidence"}


class ServingConfig(Config):
    """A model behind HTTP. The options of `road serve` and the ``args`` of a cluster file."""

    model: str
    """Run directory, model directory or hub name, as for `road predict`. Every machine that has a
    replica reads it."""
    head: str | None = None
    """Task of the head, if the model has several."""
    precision: Precision = "fp32"
    """``fp32``, ``bf16``, or ``auto``: the faster one."""
    max_length_tokens: int | None = Field(None, ge=8)
    """Tokens that the model reads at once; longer texts are cut, longer contexts read in windows.
    By default those of the training."""
    threshold: float | None = None
    """No-answer threshold, or of several labels the probability above which each is predicted; by
    default the stored one."""
    n_best: int = Field(1, ge=1, le=20)
    """Number of answers to list."""
    min_confidence: float = Field(0.0, ge=0, le=1)
    """Probability below which ``label`` or ``choice`` is null."""
    replicas: int = Field(1, ge=1)
    """Processes with a copy of the model."""
    cpus_per_replica: int = Field(1, ge=1)
    """Cores of a replica, which are the threads of its forward passes."""
    gpus_per_replica: float = Field(0.0, ge=0)
    """GPUs of a replica."""
    max_batch_rows: int = Field(32, ge=1)
    """Rows of a forward pass that requests share; those that arrive during one share the next."""
    max_request_rows: int = Field(128, ge=1)
    """Rows of a request."""
    max_request_bytes: int = Field(1 << 20, ge=1)
    """Bytes of a request's body."""
    max_row_tokens: int = Field(4096, ge=1)
    """Tokens of a row, all its texts together."""
    timeout_seconds: float = Field(60.0, gt=0)
    """Seconds after which a request is given up."""
    stop_seconds: float = Field(30.0, ge=0)
    """Seconds that requests have to end when the application stops."""
    token_env: str | None = None
    """Environment variable with the token that requests show as ``Authorization: Bearer``."""

    @property
    def loading(self) -> dict[str, Any]:
        """Return the options of ``road_ray.load``."""
        return self.model_dump(include=_LOADING)


def token_digest(variable: str | None) -> str | None:
    """Return the SHA-256 of the token in an environment variable, which replicas compare with.

    Raises ``ConfigError`` for a variable without a token, or with a short one.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "")
    if len(token) < _SHORTEST_TOKEN:
        raise ConfigError(
            f"token_env = {variable}: the variable has {len(token)} characters\n"
            f"  allowed: a token of at least {_SHORTEST_TOKEN}\n"
            f"  fix: put the output of `openssl rand -hex 32` in {variable} and export it"
        )
    return digest_of(token)


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def refuse_exposed(host: str, digest: str | None) -> None:
    """Raise ``ConfigError`` for an address beyond this machine without a token."""
    if digest is not None or is_loopback(host):
        return
    raise ConfigError(
        f"host = {host}: is reached from other machines, and there is no token\n"
        "  allowed: 127.0.0.1, ::1 and localhost without a token\n"
        "  fix: put a token in an environment variable and name it: --token-env ROAD_TOKEN\n"
        "  kept: nothing was started"
    )


def is_loopback(host: str) -> bool:
    """Return True for the names and addresses of this machine that only it reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # the name of a machine
        return False
