"""Replica of Ray Serve that holds a model, and the application made of such replicas."""

from collections.abc import Mapping

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from road_ray.config import load as load_config
from road_ray.distributed.serving.api import build_api
from road_ray.distributed.serving.config import ServingConfig, token_digest
from road_ray.errors import ConfigError
from road_ray.inference.load_model import load

# Of a replica; more wait in the proxy. Requests whose bodies are still on their way count too.
_OPEN_REQUESTS = 4096
_WAITING_REQUESTS = 4096  # in the proxy; more are refused with status 503


@serve.ingress()
class PredictorReplica:
    """Process with the model and its HTTP interface."""

    def __init__(self, config: ServingConfig, digest: str | None, host: str) -> None:
        self._config, self._digest, self._host = config, digest, host
        self._predictor = load(config.model, **config.loading)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the HTTP interface; Serve calls it once the model is loaded."""
        return build_api(self._predictor, self._config, self._digest, self._host)


def build_application(config: ServingConfig, digest: str | None, host: str = "") -> Application:
    """Return the application; ``digest`` is that of the token that requests must show, if any, and
    ``host`` the address that the proxies listen on.
    """
    share = {"num_cpus": config.cpus_per_replica, "num_gpus": config.gpus_per_replica}
    deployment = serve.deployment(
        PredictorReplica,
        name="predictor",
        num_replicas=config.replicas,
        ray_actor_options=share,
        max_ongoing_requests=_OPEN_REQUESTS,
        max_queued_requests=_WAITING_REQUESTS,
        graceful_shutdown_timeout_s=config.stop_seconds,
        health_check_period_s=5,
        logging_config={"enable_access_log": False, "log_level": "WARNING"},
    )
    return deployment.bind(config, digest, host)


def application(args: Mapping[str, object]) -> Application:
    """Build the application that a cluster file names: ``args`` are those of ``ServingConfig``.

    Raises ``ConfigError`` without a token, because the file's proxies listen to other machines.
    """
    config = load_config(ServingConfig, overrides=args)
    digest = token_digest(config.token_env)
    if digest is None:
        raise ConfigError(
            "token_env = None: an application of a cluster file is reached from other machines\n"
            "  fix: put a token in an environment variable of every pod and name it: token_env"
        )
    return build_application(config, digest)
