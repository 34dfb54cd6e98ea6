"""One pool of teachers for many runs, such as the trials of a sweep: who comes first starts it, who
leaves last ends it, and one that dies does not keep it.

A keeper, a detached actor without cores, owns the teachers of one specification and is named by its
digest. Each user holds a lease there and renews it; when the last one has lapsed or was given back,
the keeper ends the teachers and itself.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from road_ray.distributed.teachers.client import ActorEnsemble
from road_ray.distributed.teachers.pool import PoolSpecification, describe_pool, start_pool
from road_ray.distributed.teachers.replicas import cause_of
from road_ray.errors import ClusterError, RoadError

logger = logging.getLogger(__name__)

_NAMESPACE = "road_ray"
LEASE_SECONDS = 9.0  # without renewal; with a watch of half a second all is gone within 15 s
_RENEW_SECONDS = 2.0
_WATCH_SECONDS = 0.5
_FIRST_SECONDS = 30.0  # that a keeper nobody has asked yet waits
_NOBODY = "nobody yet"
_USERS = 256  # that may wait for the teachers at once


class Leases:
    """Who uses something, each until a time; once the last has gone nobody comes in any more."""

    def __init__(self, first_seconds: float) -> None:
        self._until = {_NOBODY: time.monotonic() + first_seconds}
        self._lock = threading.Lock()
        self._over = False

    def renew(self, user: str, seconds: float) -> bool:
        """Counts this user for so long from now; False when it is too late."""
        with self._lock:
            if not self._over:
                self._until[user] = time.monotonic() + seconds
                self._until.pop(_NOBODY, None)
            return not self._over

    def over(self) -> bool:
        """Whether all have lapsed."""
        with self._lock:
            now = time.monotonic()
            self._until = {user: until for user, until in self._until.items() if until >= now}
            self._over = self._over or not self._until
            return self._over


class PoolOwner:
    """Owner of the teachers; lives while somebody holds a lease."""

    def __init__(self, specification: PoolSpecification, name: str) -> None:
        self._specification, self._name = specification, name
        self._leases = Leases(_FIRST_SECONDS)
        self._teachers: ActorEnsemble | None = None
        self._starting = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def acquire(self, user: str) -> tuple[tuple[Any, ...], ...]:
        """The actors, loaded, for one more user."""
        if not self._leases.renew(user, LEASE_SECONDS):
            threading.Event().wait()  # for the end, at which the user asks the next keeper
        try:
            with self._starting:
                if self._teachers is None:
                    self._teachers = start_pool(self._specification)
        except BaseException:
            self.release(user, 0.0)
            raise
        return self._teachers.handles.actors

    def renew(self, user: str) -> None:
        """Counts this user for another while."""
        self._leases.renew(user, LEASE_SECONDS)

    def release(self, user: str, linger_seconds: float) -> None:
        """Counts this user no more; after ``linger_seconds``, in which another may come."""
        self._leases.renew(user, min(linger_seconds, LEASE_SECONDS))

    def _watch(self) -> None:
        while not self._leases.over():
            time.sleep(_WATCH_SECONDS)
        # What it owns, also teachers that are still loading, ends with it.
        if self._teachers is not None:
            self._teachers.close()
        ray.kill(ray.get_actor(self._name, namespace=_NAMESPACE), no_restart=True)


def shared_ensemble(
    specification: PoolSpecification, *, linger_seconds: float = 2.0
) -> ActorEnsemble:
    """The teachers of a specification, started unless another run has them already; they stay until
    the ensemble is closed.

    ``linger_seconds`` (at most ``LEASE_SECONDS``) is how long they wait for another user once the
    last one has left. Raises what ``pool.start`` raises.
    """
    user, name = uuid.uuid4().hex, f"teachers-{specification.digest()}"
    keeper, actors = _acquired(specification, name, user)
    over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(keeper, user, over), daemon=True)
    renewing.start()

    def release() -> None:
        over.set()
        renewing.join()
        if ray.is_initialized():
            _release(keeper, user, linger_seconds)

    return ActorEnsemble(describe_pool(specification, actors), release=release)


def _acquired(specification: PoolSpecification, name: str, user: str) -> tuple[Any, Any]:
    """The keeper and the actors. A keeper that is just about to end is asked in vain: so again."""
    deadline = time.monotonic() + specification.start_timeout_seconds + _FIRST_SECONDS
    actor = ray.remote(
        num_cpus=0, max_restarts=0, max_concurrency=_USERS, concurrency_groups={"leases": 8}
    )(PoolOwner)
    while True:
        keeper = actor.options(
            name=name, namespace=_NAMESPACE, lifetime="detached", get_if_exists=True
        ).remote(specification, name)
        over = threading.Event()
        threading.Thread(target=_renew, args=(keeper, user, over), daemon=True).start()
        try:
            patience = max(deadline - time.monotonic(), 1.0)
            return keeper, ray.get(keeper.acquire.remote(user), timeout=patience)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, RoadError) else error from error
        except GetTimeoutError:
            raise ClusterError(
                f"the shared teachers {name} are not there after "
                f"{specification.start_timeout_seconds:g} s\n"
                "  fix: give them more time (distillation.start_timeout_seconds)"
            ) from None
        except RayActorError as error:
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} cannot be had: {cause_of(error)}") from error
            time.sleep(_WATCH_SECONDS)
        finally:
            over.set()


def _renew(keeper: Any, user: str, over: threading.Event) -> None:
    """Renews a lease until ``over``, in a thread of its own."""
    while not over.wait(_RENEW_SECONDS):
        try:
            ref = keeper.renew.options(concurrency_group="leases").remote(user)
            ray.get(ref, timeout=_RENEW_SECONDS)
        except (RayError, GetTimeoutError) as error:
            if isinstance(error, RayActorError):
                return  # whoever asks the teachers now will be told
            logger.warning("the lease of shared teachers was not renewed in time")


def _release(keeper: Any, user: str, linger_seconds: float) -> None:
    try:
        ref = keeper.release.options(concurrency_group="leases").remote(user, linger_seconds)
        ray.get(ref, timeout=LEASE_SECONDS)
    except (RayError, GetTimeoutError):
        logger.info("the shared teachers are gone already")
