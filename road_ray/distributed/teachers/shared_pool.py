"""A pool of teachers shared by several runs, such as the trials of a sweep.

The first user starts the pool, the last one stops it; leases of crashed users expire. A detached
actor without cores owns the teachers of one specification; its name contains the specification's
digest. Each user holds a lease and renews it. When the last lease has expired or was released, the
owner stops the teachers and itself.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from road_ray.distributed.autoscaling import SCALE_UP_VARIABLE, scale_up_seconds
from road_ray.distributed.teachers.client import ActorEnsemble, cause_of
from road_ray.distributed.teachers.pool import PoolSpecification, describe_pool, start_pool
from road_ray.errors import ClusterError, RoadError

logger = logging.getLogger(__name__)

_NAMESPACE = "road_ray"
LEASE_SECONDS = 9.0  # without renewal; all is gone within 15 s of a crash
_RENEW_SECONDS = 2.0
_POLL_SECONDS = 0.5
_FIRST_SECONDS = 30.0  # that an owner waits for its first user
_NOBODY = "nobody yet"
_USERS = 256  # concurrent calls of users
_HEAD = "node:__internal_head__"  # the resource by which Ray marks the head


class Leases:
    """Leases of users, each with an expiry time. Once the last one has expired, no new ones are
    given.
    """

    def __init__(self, first_seconds: float) -> None:
        self._until = {_NOBODY: time.monotonic() + first_seconds}
        self._lock = threading.Lock()
        self._expired = False

    def renew(self, user: str, seconds: float) -> bool:
        """Extend the lease of a user; return False if all leases had expired."""
        with self._lock:
            if not self._expired:
                self._until[user] = time.monotonic() + seconds
                self._until.pop(_NOBODY, None)
            return not self._expired

    def expired(self) -> bool:
        """Return True if all leases have expired."""
        with self._lock:
            now = time.monotonic()
            self._until = {user: until for user, until in self._until.items() if until >= now}
            self._expired = self._expired or not self._until
            return self._expired


class PoolOwner:
    """Actor that owns the teachers and lives while there are leases."""

    def __init__(self, specification: PoolSpecification, name: str) -> None:
        self._specification, self._name = specification, name
        self._leases = Leases(_FIRST_SECONDS)
        self._teachers: ActorEnsemble | None = None
        self._start_lock = threading.Lock()
        threading.Thread(target=self._stop_when_expired, daemon=True).start()

    def acquire(self, user: str) -> tuple[tuple[Any, ...], ...]:
        """Give a user a lease and return the loaded actors."""
        if not self._leases.renew(user, LEASE_SECONDS):
            threading.Event().wait()  # until this owner ends and the user starts the next one
        try:
            with self._start_lock:
                if self._teachers is None:
                    self._teachers = start_pool(self._specification)
        except BaseException:
            self.release(user, 0.0)
            raise
        return self._teachers.handles.actors

    def renew(self, user: str) -> None:
        """Renew the lease of a user."""
        self._leases.renew(user, LEASE_SECONDS)

    def release(self, user: str, linger_seconds: float) -> None:
        """End the lease of a user after ``linger_seconds``, in which another user may come."""
        self._leases.renew(user, min(linger_seconds, LEASE_SECONDS))

    def _stop_when_expired(self) -> None:
        while not self._leases.expired():
            time.sleep(_POLL_SECONDS)
        # Teachers that are still loading end with their owner.
        if self._teachers is not None:
            self._teachers.close()
        ray.kill(ray.get_actor(self._name, namespace=_NAMESPACE), no_restart=True)


def shared_ensemble(
    specification: PoolSpecification, *, linger_seconds: float = 2.0
) -> ActorEnsemble:
    """Return the ensemble of a shared pool, which is started unless another run uses it already.
    The lease ends when the ensemble is closed.

    ``linger_seconds`` (at most ``LEASE_SECONDS``) is how long the teachers wait for another user
    after the last one. Raises the errors of ``start_pool``.
    """
    user, name = uuid.uuid4().hex, f"teachers-{specification.digest()}"
    owner, actors = _acquire_actors(specification, name, user)
    closed = threading.Event()
    renewing = threading.Thread(target=_renew, args=(owner, user, closed), daemon=True)
    renewing.start()

    def release() -> None:
        closed.set()
        renewing.join()
        if ray.is_initialized():
            _release(owner, user, linger_seconds)

    return ActorEnsemble(describe_pool(specification, actors), release=release)


def _acquire_actors(specification: PoolSpecification, name: str, user: str) -> tuple[Any, Any]:
    """Return the owner and the actors. If the owner is about to stop, start the next one."""
    limit = specification.start_timeout_seconds + scale_up_seconds()
    deadline = time.monotonic() + limit + _FIRST_SECONDS
    while True:
        owner = _owner(specification, name)
        closed = threading.Event()
        threading.Thread(target=_renew, args=(owner, user, closed), daemon=True).start()
        try:
            patience = max(deadline - time.monotonic(), 1.0)
            return owner, ray.get(owner.acquire.remote(user), timeout=patience)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, RoadError) else error from error
        except GetTimeoutError:
            raise ClusterError(
                f"the shared teachers {name} have not started after {limit:g} s\n"
                "  fix: raise distillation.start_timeout_seconds"
            ) from None
        except RayActorError as error:
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} cannot be started: {cause_of(error)}") from error
            time.sleep(_POLL_SECONDS)
        finally:
            closed.set()


def _owner(specification: PoolSpecification, name: str) -> Any:
    """Return the owner of the pool, a new one unless it runs already. It lives on the head, because
    all teachers end with it and other machines may be spot machines.
    """
    actor = ray.remote(
        num_cpus=0,
        resources={_HEAD: 0.001},
        scheduling_strategy="DEFAULT",  # not in the placement group of a trial, and ended with it
        max_restarts=0,
        max_concurrency=_USERS,
        concurrency_groups={"leases": 8},
        # Its wait for machines must be the users', whose environment it has only within a job.
        runtime_env={"env_vars": {SCALE_UP_VARIABLE: f"{scale_up_seconds():g}"}},
    )(PoolOwner)
    return actor.options(
        name=name, namespace=_NAMESPACE, lifetime="detached", get_if_exists=True
    ).remote(specification, name)


def _renew(owner: Any, user: str, closed: threading.Event) -> None:
    """Renew a lease until ``closed`` is set, in its own thread."""
    while not closed.wait(_RENEW_SECONDS):
        try:
            ref = owner.renew.options(concurrency_group="leases").remote(user)
            ray.get(ref, timeout=_RENEW_SECONDS)
        except (RayError, GetTimeoutError) as error:
            if isinstance(error, RayActorError):
                return  # the next request to the teachers raises
            logger.warning("the lease of the shared teachers was not renewed in time")


def _release(owner: Any, user: str, linger_seconds: float) -> None:
    try:
        ref = owner.release.options(concurrency_group="leases").remote(user, linger_seconds)
        ray.get(ref, timeout=LEASE_SECONDS)
    except (RayError, GetTimeoutError):
        logger.info("the shared teachers have stopped already")
